"""The hinge loss with L2 by the samples near its kinks, beside Clarabel and pair updates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

import ucm
from ucm.solvers.objective.hinge_active_set import HingeActiveSet

RNG = np.random.default_rng(5)


def _samples(m: int, n: int, apart: float, share: float = 0.5) -> tuple[Any, Any]:
    y = np.where(RNG.random(m) < share, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return RNG.standard_normal((m, n)) + apart * y[:, None], y


CASES = {
    "mixed": (_samples(60, 4, 0.3), {}),
    "separable": (_samples(40, 3, 4.0), {}),
    "one of a class": (_samples(30, 3, 0.5, 0.0), {}),
    "more features than samples": (_samples(12, 30, 0.2), {}),
    "weights of classes": (_samples(50, 4, 0.3, 0.2), {"class_weight": (4.0, 1.0)}),
    "same means": (_samples(50, 3, 0.0), {}),
    "all zero": ((np.zeros((9, 2)), np.where(np.arange(9) < 4, 1.0, -1.0)), {}),
    "large units": (
        (1e6 * RNG.standard_normal((40, 3)), np.where(np.arange(40) % 3, 1.0, -1.0)),
        {},
    ),
}


@pytest.fixture
def boxed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many samples the loop was given, each time."""
    calls: list[int] = []
    kept = HingeActiveSet.solve

    def counted(self: HingeActiveSet, *args: Any) -> Any:
        calls.append(int(self.sizes.sum()))
        return kept(self, *args)

    monkeypatch.setattr(HingeActiveSet, "solve", counted)
    return calls


@pytest.mark.parametrize("lam", [1e-3, 0.5, 50.0])
@pytest.mark.parametrize("case", CASES)
def test_box_multipliers_agree_with_clarabel(case: str, lam: float, boxed: list[int]) -> None:
    (X, y), options = CASES[case]
    model = ucm.models.svm(lam)
    found = ucm.solve(model, X, y, solver="prox-alm", tol=1e-8, **options)
    other = ucm.solve(model, X, y, solver="clarabel", **options)
    assert boxed and found.status == "optimal"
    assert found.objective <= other.objective * (1.0 + 1e-7)
    assert found.certificate.dual <= other.objective * (1.0 + 1e-9)
    assert found.weights is not None and (found.weights @ y) == pytest.approx(0.0, abs=1e-8)


def test_levels_against_pair_updates() -> None:
    X, y = _samples(6000, 40, 0.15)
    X[RNG.random(X.shape) < 0.8] = 0.0
    for table in (X, sparse.csr_matrix(X)):
        plan = ucm.compile(ucm.models.svm(2.0), table, y)
        found, other = plan.solve(), ucm.solve(ucm.models.svm(2.0), table, y, solver="smo")
        assert plan.solver.name == "prox-alm"
        assert found.objective == pytest.approx(other.objective, rel=1e-6)
        assert found.stats.passes < 20.0  # most steps are of few samples


def test_a_warm_start_takes_fewer_steps(boxed: list[int]) -> None:
    X, y = _samples(3000, 5, 0.3)
    plan = ucm.compile(ucm.models.svm(1.0), X, y)
    cold = plan.solve()
    warm = ucm.compile(ucm.models.svm(1.1), X, y).solve(warm_start=cold)
    assert warm.status == "optimal" and warm.stats.systems < cold.stats.systems


def test_limits_end_the_solve(boxed: list[int]) -> None:
    X, y = _samples(20_000, 5, 0.3)
    plan = ucm.compile(ucm.models.svm(1e-3), X, y)
    with pytest.warns(ucm.ConvergenceWarning):
        short = plan.solve(max_iter=1, tol=1e-9)
    assert short.stats.iterations == 1 and short.certificate.dual <= plan.solve().objective
    seen: list[float] = []
    plan.solve(callback=lambda record: seen.append(record["objective"]))
    assert seen[-1] == pytest.approx(plan.solve().objective, rel=1e-5)


@pytest.mark.parametrize("loss", [ucm.Hinge, ucm.SquaredHinge])
def test_losses_of_one_class_each_are_certified_as_one_loss(
    loss: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No sample counts in two of them, so nothing is to be shared out."""
    X, y = _samples(500, 4, 0.3)
    model = loss(on=ucm.pos) + 3.0 * loss(on=ucm.neg) + 0.5 * ucm.L2()
    monkeypatch.setattr("ucm.forms.bound._bracket", None)
    found = ucm.solve(model, X, y)
    other = ucm.solve(loss() + 0.5 * ucm.L2(), X, y, class_weight=(1.0, 3.0))
    assert found.status == other.status == "optimal"
    assert found.certificate.primal == pytest.approx(other.certificate.primal, rel=1e-12)
    assert found.certificate.dual == pytest.approx(other.certificate.dual, rel=1e-12)


@pytest.mark.parametrize("intercept", ["free", None])
@pytest.mark.parametrize(
    "constraint",
    [
        ucm.LinearConstraint([[1.0, 1.0, 0.0, -1.0]], -0.01, 0.01),
        ucm.LinearConstraint([[1.0, 1.0, 0.0, -1.0]], 0.3, 0.3),
        ucm.LinearConstraint([[1.0, 1.0, 0.0, -1.0]], ub=-0.1),
        ucm.LinearConstraint([[1.0, 1.0, 0.0, -1.0]], -9.0, 9.0),
        ucm.LinearConstraint([[1.0, 1.0, 0.0, -1.0], [0.0, 1.0, 2.0, 0.0]], (0.2, -0.1), (0.2, 0.1)),
        ucm.LinearConstraint(-np.diff(np.eye(4), axis=0), lb=0.0),
        ucm.Bounds((-0.1, 0.0, -np.inf, 0.2), (0.1, 0.3, 0.2, 0.2)),
        ucm.NonNegative(),
    ],
    ids=str,
)
def test_constraints_agree_with_clarabel(constraint: Any, intercept: Any, boxed: list[int]) -> None:
    X, y = _samples(150, 4, 0.3)
    X[:, 0] *= -1.0
    model = ucm.Hinge() + 0.5 * ucm.L2() + constraint
    model = model.with_intercept(intercept)
    found = ucm.solve(model, X, y, tol=1e-7)
    other = ucm.solve(model, X, y, solver="clarabel", tol=1e-7)
    assert boxed and found.stats.solver == "prox-alm" and found.status == "optimal"
    assert found.objective == pytest.approx(other.objective, rel=2e-7)
    assert found.certificate.dual <= other.objective * (1.0 + 1e-9)
    assert found.multipliers[0] == pytest.approx(other.multipliers[0], abs=2e-2)
