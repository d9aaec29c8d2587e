"""Solvers stop by themselves where rounding or the scale of the features leaves nothing to gain."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import ucm
from ucm import neg, pos
from ucm.errors import ConvergenceWarning
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Tilt
from ucm.solvers import APG, ClarabelComposite, PrimalAPG
from ucm.solvers.objective.rest import instead, moderate, sparse_enough

LINE = np.arange(20.0)[:, None]
HALVES = np.where(np.arange(20) < 10, 1.0, -1.0)
PAIR = np.outer([1.0, -2.0], np.arange(18.0))
HUGE = np.array([[1e6], [2e6]])


def settled(solution: Any) -> bool:
    """Whether the word fits the certificate."""
    close = abs(solution.certificate.relative_gap) <= 1e-6
    return close == (solution.status in ("optimal", "stationary", "local"))


@pytest.mark.parametrize(
    ("model", "X", "y"),
    [
        (ucm.Hinge(100) + 0.001 * ucm.MCP(), LINE, HALVES),
        (ucm.Hinge(100) + 0.001 * ucm.MCP(), LINE, -HALVES),
        (ucm.Hinge(100) + 0.001 * ucm.MCP(), LINE, np.where(np.arange(20) % 2, 1.0, -1.0)),
        (ucm.Hinge(2) + ucm.ExpL0(100), PAIR, np.array([1.0, -1.0])),
        (ucm.Hinge(2) + ucm.ExpL0(100), PAIR, np.array([-1.0, 1.0])),
        (ucm.SquaredHinge() + 0.1 * ucm.ElasticNet(), HUGE, np.array([1.0, -1.0])),
        (ucm.SquaredHinge() + 0.1 * ucm.ElasticNet(), 1e3 * HUGE, np.array([-1.0, 1.0])),
        (ucm.Logistic() + 0.1 * ucm.ElasticNet(), HUGE, np.array([1.0, -1.0])),
    ],
    ids=[f"{k}" for k in range(8)],
)
def test_an_objective_ends(model: Any, X: np.ndarray, y: np.ndarray) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solution = ucm.solve(model, X, y)
    trivial = model.value(np.zeros(y.size), np.zeros(X.shape[1]))
    assert settled(solution), (solution.status, str(solution.certificate))
    dual, objective = solution.certificate.dual, solution.objective
    assert dual * (1.0 - 1e-14) <= objective <= trivial * (1.0 + 1e-9)  # to rounding


@pytest.mark.parametrize("norm", [1.5, 1.1, 3.0])
def test_an_ellipsoid_in_more_features_than_samples(norm: float) -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((20, 29)), np.where(np.arange(20) % 2, 1.0, -1.0)
        root = rng.standard_normal((29, 3))
        for shape in (pos.cov, np.eye(29), root @ root.T):
            U = ucm.Ellipsoid(pos.mean, shape, 0.3) - ucm.Point(neg.mean)
            solution = ucm.solve(ucm.RobustMargin(U, norm), X, y)
            assert solution.status == "optimal", (seed, solution.message)


def test_apg_gives_up_where_the_gap_falls_no_more() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4)) * 10.0 ** np.arange(0.0, -16.0, -4.0)
    y = np.where(np.arange(30) % 2, 1.0, -1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solution = ucm.solve(ucm.models.mm_mpm(0.01), X, y, solver=APG(), tol=1e-14)
    assert settled_to(solution, 1e-14)
    assert solution.stats.iterations < 100_000


def settled_to(solution: Any, tol: float) -> bool:
    return (abs(solution.certificate.relative_gap) <= tol) == (solution.status == "optimal")


def test_a_second_solver_that_does_not_take_the_form_leaves_it_to_its_own() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((12, 4)), np.where(np.arange(12) < 6, 1, -1)
    model = ucm.Logistic() + 0.1 * ucm.LInf() + 0.1 * ucm.Norm(1.5)  # no proximal map
    plan: Any = ucm.compile(model, X, y, solver="clarabel-loss")
    form, monitor = plan.lowering.form, Monitor()
    tilt = Tilt(np.zeros(12), np.zeros(4))
    first = PrimalAPG(rest=ClarabelComposite())
    assert first.refuse(form) is not None
    found = instead(first, form, tilt, 1e-6, monitor, (np.zeros(4), 0.0))
    assert found is not None
    w, b = found[1].plane
    assert form.value(form.margins(w, b), w, tilt) == pytest.approx(
        plan.solve().objective, rel=1e-5
    )


def test_sparse_samples_are_asked_for_by_their_stored_entries() -> None:
    """But where a program has exponential cones, whose time does not fall with the entries."""
    X, y = sparse.eye(600, 600, format="csr"), np.where(np.arange(600) % 2, 1.0, -1.0)
    rest = ClarabelComposite()
    for loss, taken in (
        (ucm.SquaredHinge(), True),
        (2 * ucm.HuberHinge(), True),
        (ucm.Logistic(), False),
    ):
        form = ucm.compile(loss + ucm.LInf(), X, y).form
        assert sparse_enough(rest, form) == taken and not moderate(rest, form)
    assert not sparse_enough(None, form)
