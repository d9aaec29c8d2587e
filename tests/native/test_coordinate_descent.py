"""Coordinate descent on quadratic functions with walls beside its conditions, and Newton steps by it."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

import ucm
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, LinearTerm
from ucm.solvers.objective import dense_newton, proximal_step
from ucm.solvers.objective.quadratic_models import Columns, boxed_quadratic


def _missed(H: Any, r0: Any, x: Any, lower: Any, upper: Any, ridge: float) -> float:
    """By how much the slopes at x leave the walls: 0 at the minimum."""
    slope = H @ x + r0 + ridge * x
    if x.size == 0:
        return 0.0
    at = np.where(x > 0.0, np.abs(slope + upper), np.abs(slope + lower))
    inside = np.maximum(np.maximum(-slope - upper, slope + lower), 0.0)
    return float(np.where(x == 0.0, inside, at).max())


def _problem(n: int, seed: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    m = 3 * n + 2
    X = np.where(rng.random((m, n)) < 0.4, rng.standard_normal((m, n)), 0.0)
    h = np.where(rng.random(m) < 0.2, 0.0, rng.uniform(0.1, 2.0, m))
    mean = h @ X / h.sum()
    H = (X - mean).T @ (h[:, None] * (X - mean))
    r0 = 3.0 * rng.standard_normal(n)
    return X, h, mean, H, r0, -rng.uniform(0.5, 2.0, n), rng.uniform(0.5, 2.0, n)


@pytest.mark.parametrize("n", [0, 1, 2, 7, 8, 9, 60])
@pytest.mark.parametrize(("ridge", "open_ends"), [(0.0, False), (0.5, False), (0.5, True)])
def test_the_slopes_keep_to_their_walls(n: int, ridge: float, open_ends: bool) -> None:
    """Of open ends each third coordinate has one wall, and each third none."""
    *_, H, r0, lower, upper = _problem(n, n)
    if open_ends:
        lower[::3] = lower[1::3] = upper[1::3] = 0.0
    x, r = np.zeros(n), r0.copy()
    asked: list[int] = []
    boxed_quadratic(H, r, x, lower, upper, ridge, 1e-10, 10**9, lambda: asked.append(1) or len(asked) > 2)
    assert len(asked) == 1  # it ends by itself, within the first 2e7 multiplications
    assert _missed(H, r0, x, lower, upper, ridge) <= 1e-8
    np.testing.assert_allclose(r, H @ x + r0, atol=1e-8)  # the gradient is kept


def test_a_coordinate_without_a_quadratic_part_moves_to_0() -> None:
    *_, lower, upper = _problem(7, 3)
    x, r = np.array([1.0, -1.0, 0.0, 2.0, -2.0, 1.0, 0.0]), np.zeros(7)
    boxed_quadratic(np.zeros((7, 7)), r, x, lower, upper, 0.0, 1e-10, 50, lambda: False)
    assert not x.any()


def test_numbers_that_are_not_finite_end_the_loop() -> None:
    *_, H, r0, lower, upper = _problem(7, 3)
    for bad in (np.nan, np.inf):
        r, x = r0.copy(), np.zeros(7)
        r[2] = bad
        boxed_quadratic(H, r, x, lower, upper, 0.1, 1e-10, 50, lambda: False)


def test_small_steps_of_the_whole_method_take_the_same_course(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, y = ucm.datasets.load("wine")
    model = ucm.Logistic() + ucm.Param("lam", 1.0) * ucm.L1()
    grid = np.geomspace(20.0, 0.1, 12)
    one, path = ucm.solve(model, X, y), ucm.path(model, X, y, lam=grid)
    monkeypatch.setattr(dense_newton, "_BUDGET", 0.0)
    again, stepwise = ucm.solve(model, X, y), ucm.path(model, X, y, lam=grid)
    assert again.objective == one.objective and again.stats.systems == one.stats.systems
    assert [s.objective for s in stepwise] == [s.objective for s in path]


def _height(loss: Any, penalty: Any, data: tuple[Any, ...], w: Any, b: Any) -> Any:
    """Return `sum c l(t) + R(w) - <v, t> - <u, w>`, in CVXPY for variables."""
    X, y, c, tilt = data
    t = cp.multiply(y, X @ w + b)
    each = cp.logistic(-t) if isinstance(loss, ucm.Logistic) else cp.square(cp.pos(1.0 - t))
    l1, l2 = penalty
    total = c @ each + l1 * cp.norm1(w) + l2 * cp.sum_squares(w)
    return total if tilt is None else total - tilt.margin @ t - tilt.normal @ w


@pytest.mark.parametrize("tilted", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("penalty", [(0.0, 0.5), (2.0, 0.0), (1.0, 0.3), (0.0, 1e-4)])
@pytest.mark.parametrize("loss", [ucm.Logistic(), ucm.SquaredHinge()], ids=repr)
def test_compiled_newton_steps_against_cvxpy(loss: Any, penalty: tuple[float, float], tilted: float) -> None:
    """At a rough and at a fine tolerance: objective, bound, dual point, and the number of steps.

    The largest tilt cancels an l1 norm on one side of 0. From the end no matrix is formed again.
    """
    rng = np.random.default_rng(3)
    m, n = 90, 6
    y = np.where(np.arange(m) % 3 == 0, 1.0, -1.0)
    X, c = rng.standard_normal((m, n)) + 0.3 * y[:, None], rng.uniform(0.2, 2.0, m)
    X[:, 1] *= 3.0
    c[5] = 0.0
    tilt = LinearTerm(-rng.uniform(0.0, 0.3, m) * c, 0.3 * rng.standard_normal(n)) if tilted else None
    if tilt is not None and tilted > 1.0:
        tilt.normal[0] = tilted
    data, R = (X, y, c, tilt), [f * term for f, term in zip(penalty, (ucm.L1(), ucm.L2()), strict=True) if f]
    form = Composite(X, y, loss.split()[0], tuple(R), (c,), tilt=tilt)
    w, b = cp.Variable(n), cp.Variable()
    tight = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)
    least = float(cp.Problem(cp.Minimize(_height(loss, penalty, data, w, b))).solve("CLARABEL", **tight))
    method = dense_newton.DenseNewton.of(form)
    assert method is not None
    for tol, most in ((1e-1, 5), (1e-3, 7), (1e-9, 12)):
        monitor = Monitor(tol)
        answer = method.solve(form, monitor, (np.zeros(n), 0.0), 50)
        value, gap = monitor.history[-1]["objective"], monitor.history[-1]["gap"]
        assert answer.status == "converged" and answer.slopes is not None and gap <= 0.8 * tol
        own = _height(loss, penalty, data, *map(cp.Constant, answer.plane)).value
        assert value == pytest.approx(float(own), rel=1e-12)
        assert -1e-8 <= (value - least) / abs(value) <= gap + 1e-8
        assert gap == pytest.approx(form.duality_gap(answer)[1] / abs(value), rel=1e-6, abs=3e-9)
        assert monitor.history[-1]["iteration"] <= most + (6 if tilted > 1.0 else 0)
    again = Monitor(1e-9)
    assert method.solve(form, again, answer.plane, 50).status == "converged"
    assert again.systems == 0 and again.history[-1]["iteration"] == 1


@pytest.mark.parametrize("n", [1, 2, 8, 60])
@pytest.mark.parametrize("form", [np.asfortranarray, sparse.csc_matrix])
def test_columns_in_place_of_a_matrix(n: int, form: Any) -> None:
    X, h, mean, H, r0, lower, upper = _problem(n, n)
    x = np.zeros(n)
    columns = Columns(form(X), h, mean, float(h.sum()))
    boxed_quadratic(columns, r0, x, lower, upper, 0.5, 1e-10, 500, lambda: False)
    assert _missed(H, r0, x, lower, upper, 0.5) <= 1e-8


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("loss", [ucm.Logistic(), ucm.SquaredHinge()], ids=repr)
def test_many_features_without_a_matrix(loss: Any, form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elastic nets with thousands of weights that are not 0 were left unproven."""
    rng = np.random.default_rng(1)
    X = np.where(rng.random((300, 220)) < 0.2, rng.standard_normal((300, 220)), 0.0)
    y = np.where(X[:, :9].sum(axis=1) + 0.5 * rng.standard_normal(300) > 0.0, 1.0, -1.0)
    model = loss + 0.01 * ucm.L1() + 0.3 * ucm.L2()
    expected = ucm.solve(model, form(X), y, solver="prox-newton")
    monkeypatch.setattr(proximal_step, "_ORDER", 20)
    calls: list[int] = []

    def counted(*given: Any) -> None:
        calls.append(given[0].X.shape[1])
        boxed_quadratic(*given)

    monkeypatch.setattr(proximal_step, "boxed_quadratic", counted)
    found = ucm.solve(model, form(X), y, solver="prox-newton")
    assert calls and found.status == "optimal"
    assert found.objective == pytest.approx(expected.objective, rel=2e-6)
