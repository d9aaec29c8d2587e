"""The active-set kernel of hulls and boxes, beside interior points and beside itself in small steps."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from bundled import load
from scipy import sparse
from sklearn.datasets import load_breast_cancer

import ucm
from ucm.data.bound_data import bind
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, LinearTerm
from ucm.forms.solver import Answer
from ucm.native import library
from ucm.solvers import ActiveSet, sample_layout
from ucm.solvers.objective.hinge_active_set import HingeActiveSet


def _tilted(seed: int) -> tuple[Any, ...]:
    """Samples, labels, caps, c, o and a linear function, bounded from below."""
    rng = np.random.default_rng(seed)
    m, n = [(2, 1), (3, 2), (9, 4), (40, 3), (60, 8), (200, 5)][seed % 6]
    y = np.where(np.arange(m) % 3 == 0, 1.0, -1.0)
    X = rng.standard_normal((m, n)) + rng.uniform(0.0, 1.0) * y[:, None]
    tops = rng.uniform(0.2, 2.0, m) if seed % 2 else np.where(y > 0.0, 1.5, 0.7)
    margin = -rng.uniform(0.1, 0.9, m) * tops if seed % 3 else np.zeros(m)
    normal = rng.standard_normal(n) if seed % 4 else np.zeros(n)
    return (
        X,
        y,
        tops,
        10.0 ** rng.uniform(-1.0, 1.0),
        rng.uniform(0.5, 1.0),
        LinearTerm(margin, normal),
    )


def _form(X: Any, y: Any, tops: Any, c: float, offset: float, tilt: LinearTerm | None = None) -> Composite:
    """`sum tops max(0, offset - t) + c ||w||^2` less a linear term."""
    losses, penalties = ucm.Ramp(offset).split()[0], (c * ucm.L2(),)
    return Composite(X, y, losses, penalties, (offset * tops,), tilt=tilt)


def _clarabel(X: Any, y: Any, tops: Any, c: float, offset: float, tilt: LinearTerm) -> float:
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    t = cp.multiply(y, X @ w + b)
    value = c * cp.sum_squares(w) + tops @ cp.pos(offset - t) - tilt.margin @ t - tilt.normal @ w
    return float(cp.Problem(cp.Minimize(value)).solve(solver=cp.CLARABEL))  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(24))
def test_boxes_of_each_sample_and_linear_terms(seed: int) -> None:
    X, y, tops, c, offset, tilt = _tilted(seed)
    table = sparse.csr_matrix(X) if seed % 5 == 0 else X
    form = _form(table, y, tops, c, offset, tilt)
    method = HingeActiveSet(form)
    answer = method.solve(form, Monitor(1e-9), None, 60)
    w, b, alpha = answer.w, answer.b, answer.slopes
    assert w is not None and alpha is not None
    t = y * (X @ w + b)
    value = c * w @ w + tops @ np.maximum(offset - t, 0.0) - tilt.margin @ t - tilt.normal @ w
    expected = _clarabel(X, y, tops, c, offset, tilt)
    assert answer.status == "converged"
    assert value == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert (alpha >= 0.0).all() and (alpha <= tops * (1.0 + 1e-12)).all()
    assert y @ (alpha + tilt.margin) == pytest.approx(0.0, abs=1e-9 * tops.sum())
    pull = X.T @ (y * (alpha + tilt.margin)) + tilt.normal
    assert offset * alpha.sum() - pull @ pull / (4.0 * c) == pytest.approx(value, rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("seed", range(2, 12))
def test_hulls_beside_interior_points(seed: int) -> None:
    X, y, *_ = _tilted(seed)
    model = ucm.models.nu_svm(0.6)
    found = ucm.solve(model, 0.1 * X, y, solver=ActiveSet(), tol=1e-9)
    best = ucm.solve(model, 0.1 * X, y, solver="clarabel")
    assert found.status == "optimal" or best.status == "zero_in_set", found.message
    assert found.objective == pytest.approx(best.objective, rel=1e-5, abs=1e-8)
    assert found.stats.iterations <= 12


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("limits", [0, 1, 3])
@pytest.mark.parametrize("seed", [2, 3, 4, 5])
def test_boxes_with_limits_of_w_and_without_a_bias(seed: int, limits: int, intercept: bool) -> None:
    """Beside interior points: two limits cut the optimum of the others off, one does not."""
    X, y, tops, c, offset, _ = _tilted(seed)
    free = _form(X, y, tops, c, offset)
    best = HingeActiveSet(free).solve(free, Monitor(1e-9), None, 60).plane[0]
    G = np.random.default_rng(seed).standard_normal((limits, best.size))
    level = G @ best - np.array([0.5, -1.0, 0.2])[:limits] * np.abs(G @ best)
    penalties = (*free.penalties, *([ucm.LinearConstraint(G.tolist(), ub=level.tolist())] if limits else []))
    form = Composite(X, y, free.losses, penalties, free.weights, intercept=intercept)
    w, b = cp.Variable(best.size), cp.Variable() if intercept else cp.Constant(0.0)
    value = c * cp.sum_squares(w) + tops @ cp.pos(offset - cp.multiply(y, X @ w + b))
    program = cp.Problem(cp.Minimize(value), [G @ w <= level] if limits else [])
    expected = float(program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10))  # type: ignore[arg-type]
    monitor = Monitor(1e-9)
    answer = HingeActiveSet(form).solve(form, monitor, None, 60)
    assert answer.status == "converged", answer.message
    assert form.value(form.margins(*answer.plane), answer.plane[0]) == pytest.approx(expected, rel=1e-7)
    assert intercept or not answer.plane[1]
    again = HingeActiveSet(form).solve(form, Monitor(1e-9), answer, 60)
    assert again.status == "converged"
    np.testing.assert_allclose(again.plane[0], answer.plane[0], atol=1e-5)


@pytest.mark.parametrize("near", [0.0, 1e-3, 10.0])
def test_boxes_from_a_near_problem(near: float) -> None:
    X, y, tops, c, offset, tilt = _tilted(5)
    form = _form(X, y, tops, c, offset, tilt)
    method = HingeActiveSet(form)
    first = method.solve(form, Monitor(1e-10), None, 60)
    (w, b), alpha = first.plane, first.slopes
    assert alpha is not None
    rng = np.random.default_rng(0)
    moved = np.clip(alpha + near * rng.standard_normal(alpha.size), 0.0, tops)
    start = Answer(w=w + near * rng.standard_normal(w.size), b=b + near, slopes=moved)
    again = method.solve(form, Monitor(1e-10), start, 60)
    assert again.status == "converged"
    np.testing.assert_allclose(again.plane[0], w, atol=1e-4)


@pytest.mark.parametrize("name", ["nu", "svm"])
def test_small_steps_take_the_same_course(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that stops after every Newton step goes on where it stopped."""
    X, y = load("wine")
    model = {"nu": ucm.models.nu_svm(0.3), "svm": ucm.models.svm(1.0)}[name]
    at_once = ucm.solve(model, X, y)
    calls: list[int] = []
    whole = library.solve_hulls

    def counted(state: Any, count: int, log: Any, budget: float) -> int:
        calls.append(1)
        done: int = whole(state, count, log, 0.0)
        return done

    monkeypatch.setattr(sample_layout, "library", type("Library", (), {"solve_hulls": staticmethod(counted)}))
    stepwise = ucm.solve(model, X, y)
    assert len(calls) > at_once.stats.systems
    assert stepwise.objective == at_once.objective
    assert stepwise.stats.systems == at_once.stats.systems
    assert stepwise.stats.iterations == at_once.stats.iterations


@pytest.mark.parametrize("seed", [9, 11, 20, 26])
def test_held_rows_are_looked_at_before_an_answer(seed: int) -> None:
    """Samples far away move further than the active ones, by whose movement the method looks at all again."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(200) % 2 == 0, 1.0, -1.0)
    far = np.where(rng.random(200) < 0.1, 10.0 ** rng.uniform(1.0, 3.0), 1.0)
    X = far[:, None] * rng.standard_normal((200, 20)) + 0.5 * y[:, None]
    solution = ucm.solve(ucm.models.nu_svm(0.2), X, y, solver=ActiveSet(), tol=1e-2)
    assert solution.status == "optimal"  # without the look the gap is 0.9 to 4


@pytest.mark.parametrize("nu", [0.2, 0.25, 0.4])
@pytest.mark.parametrize("away", [1e9, 1e10])
def test_a_negative_gap_proves_nothing(away: float, nu: float) -> None:
    """So far from 0, rounding leaves gaps on both sides of it."""
    answer, gaps = _far(away, nu)
    counts_as_zero = gaps[-1] > 1.0
    assert answer.status != "converged" or counts_as_zero or -1e-9 <= gaps[-1] <= 1e-10


def test_the_loop_ends_when_the_gap_stagnates() -> None:
    answer, gaps = _far(1e7, 0.1)  # 150 outer steps leave 1e-3
    assert answer.status == "stalled" and len(gaps) < 150  # how soon depends on the rounding of the compiler


def _far(away: float, nu: float) -> tuple[Any, list[float]]:
    X, labels = load_breast_cancer(return_X_y=True)
    data = bind(X + away, np.where(labels > 0, 1.0, -1.0))  # not about a point amid the samples, as in a plan
    form = MinNorm.of(ucm.models.nu_svm(nu).lower(data), 2.0, data.stored, data.space)
    monitor = Monitor(1e-10)
    answer = ActiveSet().solve(form, monitor)
    return answer, [record["gap"] for record in monitor.history]


def test_sparse_rows_take_the_steps_of_dense_ones() -> None:
    """Wrong sums of theirs are corrected in the end, after ten times as many steps."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(400) < 0.5, 1.0, -1.0)
    X = (rng.standard_normal((400, 200)) + 0.5 * y[:, None]) * (rng.random((400, 200)) < 0.03)
    dense, rows = (
        ucm.solve(ucm.models.nu_svm(0.8), table, y, solver=ActiveSet(), tol=1e-9)
        for table in (X, sparse.csr_matrix(X))
    )
    assert rows.status == dense.status == "optimal"
    assert rows.stats.systems == dense.stats.systems
    assert rows.stats.passes == pytest.approx(dense.stats.passes, rel=1e-3)
