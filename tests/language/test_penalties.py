"""Penalties and losses against CVXPY problems written from their definitions, on real sets."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import pytest
from bundled import load
from numpy.testing import assert_allclose
from scipy import optimize, sparse
from typed import known

import ucm
from ucm import (
    L1,
    L2,
    Bounds,
    GroupLasso,
    GroupMCP,
    Hinge,
    LinearConstraint,
    Logistic,
    NonNegative,
    Norm,
    Param,
    Quadratic,
)
from ucm.language.parameter import Scope
from ucm.language.penalties.cardinality import KSupport
from ucm.language.penalties.combined import CombinedPenalty
from ucm.language.penalties.constraints import active_multipliers, constraints_of
from ucm.solvers.objective import proximal_step
from ucm.solvers.objective.quadratic_models import ProximalQuadratic

BUNDLED = ("breast_cancer", "wine", "iris", "digits")
SETS = (*BUNDLED, "ida_heart")


def samples(name: str, shared: Callable[[str], tuple]) -> tuple[np.ndarray, np.ndarray]:
    """At most 100 samples of a real set, dense."""
    X, y = ucm.datasets.load(name) if name in BUNDLED else shared(name)
    X = X.toarray() if sparse.issparse(X) else X
    return X[:100], y[:100]


def chain(n: int) -> np.ndarray:
    """The Laplacian of a path through the features."""
    D = np.diff(np.eye(n), axis=0)
    return D.T @ D


def groups(n: int) -> np.ndarray:
    return np.arange(n) // 3


def weights(n: int) -> np.ndarray:
    return np.arange(n) % 3 * 0.5 + (np.arange(n) > 8)


def by_group(w: Any, n: int) -> Any:
    return sum(cp.norm(w[groups(n) == g], 2) for g in np.unique(groups(n)))


class Case(NamedTuple):
    """A penalty of n features, and the same by hand: an expression and constraints."""

    penalty: Callable[[int], Any]
    by_hand: Callable[[Any, int], Any]
    constraints: Callable[[Any], list[Any]] = lambda w: []


CASES = {
    "norm": Case(lambda n: 2 * Norm(), lambda w, n: 2 * cp.norm(w, 2)),
    "1.5-norm": Case(lambda n: Norm(1.5), lambda w, n: cp.pnorm(w, 1.5, approx=False)),
    "weighted l1": Case(lambda n: L1(weights=weights(n)), lambda w, n: weights(n) @ cp.abs(w)),
    "adaptive net": Case(
        lambda n: L1(weights=weights(n)) + 0.5 * L2(),
        lambda w, n: weights(n) @ cp.abs(w) + 0.5 * cp.sum_squares(w),
    ),
    "groups": Case(lambda n: GroupLasso(groups(n)), by_group),
    "sparse groups": Case(
        lambda n: GroupLasso(groups(n)) + 0.5 * L1(),
        lambda w, n: by_group(w, n) + 0.5 * cp.norm1(w),
    ),
    "chain": Case(
        lambda n: Quadratic(chain(n)) + 0.1 * L2(),
        lambda w, n: cp.sum_squares(cp.diff(w)) + 0.1 * cp.sum_squares(w),
    ),
    "chain, sparse": Case(
        lambda n: Quadratic(chain(n)) + L1(),
        lambda w, n: cp.sum_squares(cp.diff(w)) + cp.norm1(w),
    ),
    "signs": Case(lambda n: NonNegative() + L2(), lambda w, n: cp.sum_squares(w), lambda w: [w >= 0]),
    "bounds": Case(
        lambda n: Bounds(-0.1, 0.2) + 0.5 * L2(),
        lambda w, n: 0.5 * cp.sum_squares(w),
        lambda w: [w >= -0.1, w <= 0.2],
    ),
    "budget": Case(
        lambda n: LinearConstraint(np.ones(n), 0.1, 0.3) + 0.5 * L2(),
        lambda w, n: 0.5 * cp.sum_squares(w),
        lambda w: [cp.sum(w) >= 0.1, cp.sum(w) <= 0.3],
    ),
    "signs, groups": Case(lambda n: NonNegative() + GroupLasso(groups(n)), by_group, lambda w: [w >= 0]),
}

LOSSES = {
    Hinge(): lambda t: cp.sum(cp.pos(1 - t)),
    ucm.SquaredHinge(): lambda t: cp.sum_squares(cp.pos(1 - t)),
    Logistic(): lambda t: cp.sum(cp.logistic(-t)),
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("case", CASES)
def test_penalties_are_their_definitions(case: str, name: str, shared_data: Callable[[str], tuple]) -> None:
    X, y = samples(name, shared_data)
    n = X.shape[1]
    penalty = CASES[case].penalty(n)
    turn = list(CASES).index(case) + SETS.index(name)  # a penalty and a set meet one loss, each meets all
    loss, by_hand = list(LOSSES.items())[turn % len(LOSSES)]
    w, b = cp.Variable(n), cp.Variable()
    total = by_hand(cp.multiply(y, X @ w + b)) + CASES[case].by_hand(w, n)
    problem = cp.Problem(cp.Minimize(total), CASES[case].constraints(w))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Clarabel asks for more than is compared
        reference = problem.solve(solver=cp.CLARABEL)
    plan = ucm.compile(loss + penalty, X, y)
    solution = plan.solve()
    assert solution.status == "optimal", solution.certificate
    assert solution.objective == pytest.approx(reference, rel=1e-6, abs=1e-8)
    if loss.smooth() and case != "chain, sparse":
        assert plan.solver.name == "prox-newton"


STEPS = np.diff(np.eye(5), axis=0)
SLOPES = np.random.default_rng(3).standard_normal((20, 5))
CONSTRAINTS = {  # with 0 inside, on the boundary and outside
    "nonnegative": (NonNegative([True, False, False, True, True]), lambda w: [w[[0, 3, 4]] >= 0]),
    "bounds": (Bounds(-0.2, [0.1, 0.2, 0.3, np.inf, 0.0]), lambda w: [w >= -0.2, w[[0, 1, 2, 4]] <= BOUND]),
    "far bounds": (Bounds(0.1), lambda w: [w >= 0.1]),
    "monotone": (LinearConstraint(STEPS, 0.0), lambda w: [STEPS @ w >= 0]),
    "ordered and nonnegative": (
        LinearConstraint(STEPS, 0.0) + NonNegative(),
        lambda w: [STEPS @ w >= 0, w >= 0],
    ),
    "equation": (LinearConstraint(SLOPES[:2], 0.3, 0.3), lambda w: [SLOPES[:2] @ w == 0.3]),
    "simplex": (
        optimize.LinearConstraint(np.ones(5), 1.0, 1.0) + (NonNegative() + optimize.Bounds(-1.0, 0.5)),
        lambda w: [cp.sum(w) == 1.0, w >= 0, w <= 0.5],
    ),
    "dependent rows": (LinearConstraint(SLOPES, -1.0, 1.0), lambda w: [cp.abs(SLOPES @ w) <= 1.0]),
}
BOUND = np.array([0.1, 0.2, 0.3, 0.0])
BESIDE = {
    "ridge": (0.5 * L2(), lambda w: 0.5 * cp.sum_squares(w)),
    "lasso": (2 * L1(), lambda w: 2 * cp.norm1(w)),
    "net": (2 * L1() + 0.3 * L2(), lambda w: 2 * cp.norm1(w) + 0.3 * cp.sum_squares(w)),
    "norm": (Norm(), lambda w: cp.norm(w)),
    "nothing": (0, lambda w: 0.0),
}


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraints_against_programs_by_hand(name: str, beside: str) -> None:
    """Value, lower bound, and multipliers: the optimum changes by them where the bounds move."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5)) + 0.3
    y = np.where(X @ np.array([1.0, -0.5, 0.3, 0.2, 0.1]) + 0.6 * rng.standard_normal(60) > 0.4, 1.0, -1.0)
    (constraint, by_hand), (penalty, of_w) = CONSTRAINTS[name], BESIDE[beside]
    turn = list(CONSTRAINTS).index(name) + list(BESIDE).index(beside)
    for loss in (Hinge(), Logistic()) if beside == "ridge" else ((Hinge(), Logistic())[turn % 2],):
        w, b = cp.Variable(5), cp.Variable()
        total = LOSSES[loss](cp.multiply(y, X @ w + b)) + of_w(w)
        with warnings.catch_warnings(action="ignore"):
            problem = cp.Problem(cp.Minimize(total), by_hand(w))
            optimum = problem.solve(solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
        plan = ucm.compile(loss + penalty + constraint, X, y)
        solution = plan.solve()
        assert solution.status == "optimal", solution.message
        assert solution.objective == pytest.approx(optimum, rel=2e-6)
        assert solution.certificate.dual <= optimum * (1.0 + 1e-7)
        assert plan.verify()
        z = X.T @ (y * solution.weights)
        if beside == "ridge":  # z = gradient of the ridge + A'mu
            terms = [R for _, R in constraints_of((penalty + constraint).split()[0], 5)]
            pulled = sum(R.matrix.T @ mu for R, mu in zip(terms, solution.multipliers, strict=True))
            assert_allclose(z - solution.w, pulled, atol=2e-3 * np.abs(z).max())
            free = ucm.solve((loss + penalty + constraint).with_intercept("penalised"), X, y)
            assert [mu.size for mu in free.multipliers] == [mu.size for mu in solution.multipliers]


@pytest.mark.parametrize("loss", [ucm.Hinge(), ucm.SquaredHinge(), ucm.Logistic()])
def test_rows_of_a_constraint_may_have_any_sizes(loss: Any) -> None:
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(30, 8)), np.where(np.arange(30) % 2, 1.0, -1.0)
    A, sizes = rng.normal(size=(9, 8)), np.resize([1e-8, 1e8, 1.0, 1e-160, 1e120], 9)
    low = A @ rng.normal(size=8)
    low[::3] = -np.inf
    high = np.where(np.isfinite(low), low + np.resize([0.0, 0.5], 9), 0.3)
    parts = [(A, low, high), (sizes[:, None] * A, sizes * low, sizes * high)]
    one, other = (ucm.solve(loss + 0.1 * ucm.L2() + ucm.LinearConstraint(*part), X, y) for part in parts)
    assert one.status == other.status == "optimal"
    assert one.objective == pytest.approx(other.objective, rel=1e-6)
    np.testing.assert_allclose(sizes * other.multipliers[0], one.multipliers[0], rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("weights", [[0.0, 1.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0]])
def test_a_constraint_beside_features_without_penalty_has_a_bound(weights: list[float]) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 4)), np.where(np.arange(20) % 2, 1.0, -1.0)
    for count in (1, 2):
        constraint = ucm.LinearConstraint(rng.normal(size=(count, 4)), ub=-0.1)
        for more in (0.0, ucm.NonNegative([False, True, False, False])):
            found = ucm.solve(ucm.Hinge() + 0.5 * ucm.L1(weights=weights) + constraint + more, X, y)
            assert found.status == "optimal", found.certificate


def test_tuples_are_arrays() -> None:
    assert ucm.L1(weights=(1.0, 2.0)) == ucm.L1(weights=[1.0, 2.0])
    assert ucm.GroupLasso((0, 0, 1), weights=(1.0, 0.5)) == ucm.GroupLasso([0, 0, 1], weights=[1.0, 0.5])
    assert ucm.GroupMCP((0, 0, 1)) == ucm.GroupMCP([0, 0, 1])


@pytest.mark.parametrize(
    "declare",
    [
        lambda: ucm.L1(weights=(1, "a")),
        lambda: ucm.GroupLasso((1, "a")),
        lambda: ucm.GroupLasso([0, 1], weights=(1, "a")),
        lambda: ucm.LinearConstraint([[10**400]]),
        lambda: ucm.Bounds(-(10**400)),
        lambda: ucm.NonNegative([[1], [1, 2]]),
        lambda: ucm.Box([[1.0], [1.0, 2.0]], 1.0),
        lambda: ucm.Box([0.0, -(10**400)], 1.0),
        lambda: ucm.ConvexUnion(sets=None),  # type: ignore[arg-type]
    ],
)
def test_no_error_of_numpy_reaches_the_user(declare: Callable[[], object]) -> None:
    with pytest.raises(ucm.CompositionError, match=r", got .*; "):
        declare()


def test_the_multiplier_of_a_constraint_beside_a_penalty_without_a_gradient() -> None:
    """What it leaves of z is a subgradient g of 3 max |w_j|: sum |g_j| = 3, and <g, w> is the penalty."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 4))
    y = np.where(X[:, 0] - 0.5 * X[:, 1] + 0.5 * rng.standard_normal(40) > 0.0, 1.0, -1.0)
    A = np.array([[1.0, 1.0, 0.0, 0.0]])
    found = ucm.solve(Logistic() + 3.0 * ucm.LInf() + LinearConstraint(A, ub=0.3), X, y, tol=1e-9)
    g = X.T @ (y * known(found.weights)) - A.T @ found.multipliers[0]
    assert np.abs(g).sum() == pytest.approx(3.0, rel=1e-4)
    assert g @ known(found.w) == pytest.approx(3.0 * np.abs(known(found.w)).max(), rel=1e-4)


def test_a_weight_that_misses_its_bound_of_0_by_rounding_keeps_its_multiplier() -> None:
    """A weight stands at a bound up to the rounding of a projection, and no further away."""
    w, gradient = np.array([0.1, -0.2, 0.3, -0.08, -2.8e-17]), np.array([12.0, -5.0, 5.0, 0.0, 6.0])
    (mu,) = active_multipliers([Bounds(-0.2, [0.1, 0.2, 0.3, np.inf, 0.0]).over(5)], w, gradient)
    assert_allclose(mu, gradient)
    (mu,) = active_multipliers([Bounds(-0.2, [0.1, 0.2, 0.3, np.inf, 0.0]).over(5)], w - 1e-9, gradient)
    assert_allclose(mu, [12.0, -5.0, 5.0, 0.0, 0.0])


def test_projections_of_no_numbers_are_no_numbers() -> None:
    """A solver that overflows ends by its objective, and not by an error of LAPACK."""
    R = LinearConstraint([[1.0, 1.0], [1.0, -1.0]], ub=[0.0, 1.0])
    assert np.isnan(R.prox(np.array([np.nan, 1.0]), 1.0)).any()
    assert R.value(np.array([np.nan, 1.0])) == np.inf
    assert_allclose(R.prox(np.array([0.0, 1e308]), 1.0), [-5e307, 5e307])


@pytest.mark.parametrize("seed", [2, 9, 12, 32])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_a_constraint_has_its_multiplier_where_no_weight_is_left(seed: int, scale: float) -> None:
    """At the tip of a cone the weights are the rounding of steps, of no size of their own."""
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(6, 60)), int(rng.integers(1, 3))
    X, y = rng.standard_normal((m, n)), np.where(rng.random(m) < 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    X += rng.uniform() * y[:, None]
    A, c = rng.standard_normal((n, n)), 10.0 ** rng.uniform(-2.0, 1.5)
    found = ucm.solve(Logistic() + c * scale**2 * L2() + LinearConstraint(A, ub=0.0), scale * X, y)
    assert np.abs(scale * known(found.w)).max() < 1e-9
    slopes = scale * X.T @ (y * known(found.weights))
    assert_allclose(A.T @ found.multipliers[0], slopes, rtol=1e-6, atol=1e-9 * scale)


@pytest.mark.parametrize("seed", range(30))
def test_projections_and_conjugates_of_constraints(seed: int) -> None:
    """Rows that repeat, of zeros, equations, open sides: against CVXPY and the equality of Fenchel."""
    rng = np.random.default_rng(seed)
    n, r = rng.integers(1, 7), rng.integers(1, 9)
    A, inside = rng.integers(-2, 3, size=(r, n)).astype(float), rng.standard_normal(n)
    lb, ub = A @ inside - rng.choice([0.0, 1.0, np.inf], r), A @ inside + rng.choice([0.0, 0.5, np.inf], r)
    constraint, v = LinearConstraint(A, lb, ub), 3.0 * rng.standard_normal(n)
    G, h, _, _ = constraint.upper
    w, p = cp.Variable(n), constraint.prox(v, 1.0)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(w - v)), [G @ w <= h] if h.size else [])
    with warnings.catch_warnings(action="ignore"):
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    assert constraint.value(p) == 0.0
    assert_allclose(p, known(w.value), atol=1e-6)
    assert constraint.conjugate(v - p) == pytest.approx(float((v - p) @ p), abs=1e-9 * (1.0 + float(v @ v)))


def test_a_violation_counts_in_the_terms_of_its_row() -> None:
    """A feature in small units with a large entry of A hides no violation of the other feature."""
    constraint = LinearConstraint([[1e-2, 1e2]], ub=0.5)
    for excess, value in ((0.0, 0.0), (1e-10, 0.0), (1e-7, np.inf), (0.5, np.inf)):
        assert constraint.value(np.array([50.0 * (1.0 + excess), 0.0])) == value
        assert constraint.value(np.array([100.0 * (1.0 + excess), -0.005])) == value


@pytest.mark.parametrize("unit", [1.0, 1e-6, 1e-8])
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_a_dual_point_beside_the_cone_of_a_constraint_bounds_the_optimum(unit: float, side: float) -> None:
    """Its distance counts times w, which is large for a feature in small units without constraint."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 3))
    y = np.where(X @ np.array([1.0, 1.0, 0.3]) + rng.standard_normal(30) > 0.0, 1.0, -1.0)
    A, w, b, tilt = np.eye(3)[[0, 2]], cp.Variable(3), cp.Variable(), cp.Parameter()
    equation = (t := cp.Variable(30)) == cp.multiply(y, X @ w + b)
    total = cp.sum(cp.pos(1 - t)) + tilt * w[1]
    problem = cp.Problem(cp.Minimize(total), [equation, cp.abs(A @ w) <= 0.2])
    tight = {"solver": "CLARABEL", "tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12}
    tilt.value = 0.0
    optimum, at, bias = problem.solve(**tight), known(w.value), float(b.value)
    tilt.value = side * 1e-9 / unit
    problem.solve(**tight)
    scale = np.array([1.0, unit, 1.0])
    plan = ucm.compile(Hinge() + LinearConstraint(A, -0.2, 0.2), X * scale, y)
    certificate = plan.certify(w=at / scale, b=bias, weights=np.abs(equation.dual_value))
    assert certificate.dual <= optimum * (1.0 + 1e-9)
    assert certificate.dual >= optimum - 3.0 * abs(tilt.value * at[1]) - 1e-9


def test_covariance_fairness_and_its_multiplier() -> None:
    """Zafar, Valera, Gomez Rodriguez and Gummadi (2017): the scores of two groups have nearly one mean."""
    rng = np.random.default_rng(1)
    X, group = rng.standard_normal((120, 4)), np.where(rng.random(120) < 0.4, "a", "b")
    X[group == "a"] += np.array([1.0, 0.0, 0.5, 0.0])
    y = np.where(X @ np.array([1.0, 1.0, 0.0, -0.5]) + rng.standard_normal(120) > 0.3, 1.0, -1.0)
    a, b = (ucm.PooledMean(ucm.pos.group(g), ucm.neg.group(g)) for g in "ab")
    d = X[group == "a"].mean(axis=0) - X[group == "b"].mean(axis=0)

    def optimum(bound: float) -> float:
        w, bias = cp.Variable(4), cp.Variable()
        total = cp.sum(cp.logistic(-cp.multiply(y, X @ w + bias))) + 0.1 * cp.sum_squares(w)
        problem = cp.Problem(cp.Minimize(total), [cp.abs(d @ w) <= bound])
        return float(problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10))

    model = Logistic() + 0.1 * L2() + LinearConstraint(a - b, -0.1, 0.1)
    assert ucm.from_json(ucm.to_json(model)) == model and "x̄" in str(model)
    solution = ucm.solve(model, X, y, subgroup=group, tol=1e-9)
    assert solution.objective == pytest.approx(optimum(0.1), rel=1e-6)
    (multiplier,) = solution.multipliers[0]
    slope = (optimum(0.101) - optimum(0.099)) / 0.002
    assert abs(multiplier) == pytest.approx(-slope, rel=1e-3)
    classifier = ucm.Classifier(model).fit(X, y, subgroup=group)
    assert abs(classifier.coef_[0] @ d) <= 0.1 * (1.0 + 1e-8)
    with pytest.raises(ucm.DataError, match="has no route over rows"):
        ucm.solve(model, ucm.open_rows(X, y, subgroup=group))


def test_constraints_in_nonconvex_models_over_rows_and_beside_sets() -> None:
    X, y = ucm.datasets.load("wine")
    n = X.shape[1]
    steps = np.diff(np.eye(n), axis=0)
    for model in (
        ucm.Ramp() + 5 * L2() + Bounds(0.0, 0.2),
        Logistic() + ucm.MCP() + LinearConstraint(steps, 0),
    ):
        plan = ucm.compile(model, X, y)
        solution = plan.solve()
        assert solution.status in ("local", "stationary") and plan.verify()
    model = Hinge() + L2() + LinearConstraint(steps, 0.0)
    rows, memory = ucm.solve(model, ucm.open_rows(X, y)), ucm.solve(model, X, y)
    assert rows.status == "optimal" and rows.objective == pytest.approx(memory.objective, rel=2e-6)
    cone = ucm.RobustMargin(ucm.models.nu_svm(0.2)) + NonNegative([True] * n)
    w, rho, P, N = cp.Variable(n), cp.Variable(2), X[y > 0], X[y <= 0]
    height = (
        rho[0] + rho[1] + 10 / y.size * (cp.sum(cp.pos(-P @ w - rho[0])) + cp.sum(cp.pos(N @ w - rho[1])))
    )
    with warnings.catch_warnings(action="ignore"):
        least = cp.Problem(cp.Minimize(height), [cp.norm(w) <= 1, w >= 0]).solve(solver="CLARABEL")
    assert ucm.solve(cone, X, y).objective == pytest.approx(least, rel=1e-5)


NEW_LOSSES = {
    ucm.HuberHinge(0.3): lambda t: cp.sum(cp.huber(cp.pos(1 - t), 0.3)) / 0.6,
    2 * ucm.LeastSquares(): lambda t: 2 * cp.sum_squares(1 - t),
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("loss", NEW_LOSSES, ids=repr)
def test_losses_are_their_definitions(loss: Any, name: str, shared_data: Callable[[str], tuple]) -> None:
    X, y = samples(name, shared_data)
    for penalty in (0.5 * L2(), L1()):
        for up, down in ((1.0, 1.0), (3.0, 0.5)):
            w, b = cp.Variable(X.shape[1]), cp.Variable()
            t = cp.multiply(y, X @ w + b)
            size = cp.norm1(w) if penalty == L1() else 0.5 * cp.sum_squares(w)
            total = up * NEW_LOSSES[loss](t[y > 0]) + down * NEW_LOSSES[loss](t[y < 0]) + size
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Clarabel asks for more than is compared
                reference = cp.Problem(cp.Minimize(total)).solve(solver=cp.CLARABEL)
            plan = ucm.compile(loss + penalty, X, y, class_weight=(up, down))
            solution = plan.solve()
            assert (solution.status, plan.solver.name) == ("optimal", "prox-newton")
            assert solution.objective == pytest.approx(reference, rel=1e-6)
            assert plan.verify().agrees


def test_least_squares_are_the_normal_equations() -> None:
    X, y = ucm.datasets.load("breast_cancer")
    solution = ucm.solve(ucm.LeastSquares() + 2.0 * L2(), X, y, tol=1e-12)
    centred, mean = X - X.mean(axis=0), X.mean(axis=0)
    w = np.linalg.solve(centred.T @ centred + 2.0 * np.eye(X.shape[1]), centred.T @ y)
    assert solution.b is not None and solution.weights is not None
    np.testing.assert_allclose(solution.w, w, atol=1e-8)
    assert solution.b == pytest.approx(y.mean() - mean @ w, abs=1e-8)
    assert solution.weights.min() < 0.0  # margins above 1
    np.testing.assert_allclose(solution.weights * y @ X / 4.0, w, atol=1e-8)


def test_a_small_delta_is_the_hinge() -> None:
    X, y = ucm.datasets.load("iris")
    kink = ucm.solve(Hinge() + 0.1 * L2(), X, y).objective
    round_ = ucm.solve(ucm.HuberHinge(1e-4) + 0.1 * L2(), X, y).objective
    assert 0.0 <= kink - round_ <= 0.5e-4 * y.size


def test_a_free_feature_pays_nothing() -> None:
    """Weights of 0, and constraints: the dual point lies in a cone, where rounding has no radius to be
    held against."""
    X, y = ucm.datasets.load("iris")
    for penalty in (L1(weights=[0.0, 0.0, 1.0, 1.0]), GroupLasso([0, 0, 1, 1], weights=[0.0, 1.0])):
        for loss in LOSSES:
            assert ucm.solve(loss + penalty, X, y).status == "optimal"
    for loss in LOSSES:
        solution = ucm.solve(loss + NonNegative(), X, y)
        assert solution.status == "optimal"
        assert solution.w.min() >= 0.0
        assert ucm.solve(loss + Quadratic(chain(4)), X, y).status == "optimal"


@pytest.mark.parametrize("loss", [Hinge(), Logistic(), ucm.Ramp()], ids=repr)
def test_group_mcp_by_dca(loss: Any) -> None:
    X, y = ucm.datasets.load("breast_cancer")
    X, y = X[:150], y[:150]
    group = groups(X.shape[1])
    model = loss + GroupMCP(group, 1.0, 4.0) + 0.1 * L2()
    plan = ucm.compile(model, X, y)
    solution = plan.solve()
    assert solution.status == "stationary" and solution.b is not None
    assert plan.verify().agrees
    heights = [record["objective"] for record in solution.history]
    assert all(after <= before * (1 + 1e-12) for before, after in itertools.pairwise(heights))
    zero = np.add.reduceat(solution.w**2, np.arange(0, group.size, 3)) < 1e-12
    assert 0 < zero.sum() < zero.size
    generator = np.random.default_rng(0)
    for _ in range(50):  # no first-order descent around it
        w = solution.w + 1e-4 * generator.standard_normal(solution.w.size)
        b = solution.b + 1e-4 * generator.standard_normal()
        assert model.value(y * (X @ w + b), w) >= solution.objective - 1e-5


def test_groups_of_one_are_the_penalty_of_each_weight() -> None:
    X, y = ucm.datasets.load("iris")
    each = np.arange(4)
    w = np.array([0.3, -2.0, 0.0, 7.0])
    assert GroupLasso(each).value(w) == pytest.approx(L1().value(w))
    assert GroupMCP(each, 0.5, 3.0).value(w) == pytest.approx(ucm.MCP(0.5, 3.0).value(w))
    grouped = ucm.solve(Hinge() + GroupMCP(each, 2.0, 1.0), X, y)
    assert grouped.objective == pytest.approx(ucm.solve(Hinge() + ucm.MCP(2.0, 1.0), X, y).objective)


def test_shares_of_a_quadratic_form() -> None:
    X, y = ucm.datasets.load("wine")
    for Q in (np.eye(13), sparse.eye_array(13).tocsr()):
        same = ucm.solve(Hinge() + Quadratic(Q), X, y)
        assert same.objective == pytest.approx(ucm.solve(Hinge() + L2(), X, y).objective, rel=1e-6)


def test_shares_of_a_k_support_norm_of_lengths_far_apart() -> None:
    """The clipped multiples of the lengths add up to k; a large length hides the small ones in no sum."""
    s, r = KSupport(2).shares(np.array([1.0, 1e-20, 1e-20, 2e-20]))
    assert_allclose(s, [1.0, 0.25, 0.25, 0.5], rtol=1e-12)
    assert r == pytest.approx(0.25e20)
    v = np.array([2.2, -5.1, 2.9])  # a proximal step so long that 1 is lost beside it
    assert_allclose(KSupport(2).prox(1e15 * v, 1.5e16), 0.0, atol=1.0)


@pytest.mark.parametrize("penalty", [ucm.MCP(1.0, 1e9), ucm.ExpL0(1e-8)])
def test_a_slope_that_changes_far_from_0_is_not_constant(penalty: ucm.extend.Penalty) -> None:
    (subtracted,) = penalty.split()[1]
    assert not subtracted.affine(np.array([1e8]), 1e-9)
    (far,) = ucm.MCP(1.0, 3.0).split()[1]
    assert far.affine(np.array([1e8]), 1e-9)


def test_the_conjugate_of_a_huge_vector_is_infinite() -> None:
    with np.errstate(over="ignore"):
        assert CombinedPenalty((L2(),)).conjugate(np.full(3, 1e200)) == np.inf


REFUSED = {
    "ucm.Norm(0.5)": r"p must lie in \[1, inf\]",
    "ucm.Norm(Param('p', 2))": "p: expected a plain number",
    "ucm.L1(weights=[1, -1])": "must not be negative",
    "ucm.L1(weights=[0, 0])": "nor all 0",
    "ucm.L1(weights=2)": "one number for each feature",
    "ucm.L1('b')": "one number for each feature",
    "ucm.GroupLasso(2)": "a whole number for each feature",
    "ucm.GroupLasso([0.5, 1])": "a whole number for each feature",
    "ucm.GroupLasso([0.5] * 1000)": r"got \[0.5, 0.5, \.\.\., 0.5, 0.5\]",
    "ucm.GroupLasso(None)": "a whole number for each feature",
    "ucm.GroupLasso([0, 1], weights=[1.0])": "each of the 2 groups",
    "ucm.GroupLasso([0, 1], weights=[1.0, -1.0])": "must not be negative",
    "ucm.GroupMCP([0, 1], lam=0)": r"lam must lie in \(0, inf",
    "ucm.GroupMCP([[0, 1]])": "a whole number for each feature",
    "ucm.Quadratic([1, 2])": "Quadratic: expected a covariance or a square matrix",
    "ucm.Quadratic([[1, 2], [0, 1]])": "symmetric",
    "ucm.Quadratic([[1, 2], [2, 1]])": "Quadratic: .* positive semidefinite, got the eigenvalue -1",
    "ucm.NonNegative('b')": "features has True or False",
    "ucm.solve(ucm.Hinge() + ucm.NonNegative([True]), X, y)": "1 features, got samples of 4; give one",
    "ucm.solve(ucm.Hinge() + ucm.L2() + ucm.Bounds(0, [1.0]), X, y)": "1 features, got samples of 4",
    "ucm.LinearConstraint([[1, 2]], 1, 0)": "no w has 1 <= value <= 0, in constraint 0",
    "ucm.LinearConstraint([[1, 2]], [0, 1])": "a number for each of 1 constraints, got 2",
    "ucm.LinearConstraint([[1, float('nan')]])": "a row of finite numbers",
    "ucm.LinearConstraint('x')": "a row of finite numbers",
    "ucm.LinearConstraint(ucm.pos.mean).value([1.0])": "expected samples for its statistics",
    "ucm.Bounds([0, 1], [1, 2, 3])": "a number for each of 3 constraints",
    "ucm.Bounds(float('inf'), float('inf'))": "no w has inf",
    "ucm.solve(ucm.Hinge() + ucm.Bounds([0, 0], 1), X, y)": "2 features, got samples of 4",
    "ucm.solve(ucm.Hinge() + ucm.LinearConstraint([[1, 2]], 0), X, y)": "2 features, got samples of 4",
    "ucm.solve(ucm.Hinge() + ucm.LinearConstraint([1, 1, 1, 1], 9) + ucm.Bounds(-1, 1), X, y)": (
        r"0 of LinearConstraint.*; 0, 1, 2, 3 of Bounds"
    ),
    "ucm.compile(ucm.Hinge() + ucm.L2() + ucm.Bounds(-1, 1), X, y, kernel='rbf')": "in the features",
    "ucm.RobustMargin(U) + ucm.Bounds(-1, 1)": "bounds of 0 only",
    "ucm.RobustMargin(U) + ucm.NonNegative()": r"write NonNegative\(\[True\] \* n\) for n features",
    "ucm.solve(ucm.Hinge() + ucm.L1(weights=[1, 2]), X, y)": "2 features, got samples of 4",
    "ucm.solve(ucm.Hinge() + 2 * ucm.GroupLasso([0, 1]) / 3, X, y)": "2 features, got samples of 4",
    "ucm.solve(ucm.Hinge() + ucm.L1() + ucm.GroupMCP([0]), X, y)": "1 features, got samples of 4",
    "ucm.Quadratic(ucm.pos.cov).value([1.0])": "expected samples for its covariance",
    "ucm.compile(ucm.Hinge() + ucm.Quadratic(ucm.pos.cov), X, y, kernel='rbf')": "in the features",
    "ucm.compile(ucm.Hinge() + ucm.Quadratic([[1]]), X, y)": "1 features, got samples of 4",
    "U + 0.1 * ucm.L1()": r"beside a robust margin, RobustMargin\(U\) \+ 0.1 \* L1\(\)",
    "0.1 * ucm.L1() + U": "beside a robust margin",
    "U - ucm.Norm(3)": "beside a robust margin",
    "ucm.RobustMargin(U) + ucm.Lp(3)": "only norms of w leave the problem convex",
    "ucm.RobustMargin(U, norm=1) + ucm.L2()": "only norms of w leave the problem convex",
    "ucm.CappedL1(1) + ucm.RobustMargin(U)": "only norms of w leave the problem convex",
    "ucm.RobustMargin(U) + ucm.Hinge()": "takes penalties only",
    "ucm.RobustMargin(U) + U": "takes penalties only",
    "-ucm.RobustMargin(U)": r"penalties with \+ only",
    "2 * ucm.RobustMargin(U)": r"penalties with \+ only",
    "ucm.solve(ucm.Hinge() + ucm.Quadratic(ucm.pos.cov + [[1]]), X, y)": "dimension",
    "U + ucm.Hinge()": "to_set",
    "ucm.HuberHinge(0)": r"delta must lie in \(0, inf\)",
    "ucm.HuberHinge(Param('delta', -1))": r"delta must lie in \(0, inf\)",
    "ucm.HuberHinge(float('inf'))": r"delta must lie in \(0, inf\)",
    "ucm.LossBall(ucm.LeastSquares(), 1.0)": "SquaredHinge",
    "(ucm.LeastSquares() / 2).to_set(0.3)": "SquaredHinge",
}


@pytest.mark.parametrize("seed", [2, 15, 40])
def test_a_form_that_leaves_a_direction_free_beside_walls(seed: int) -> None:
    """Under its proximal map signs do not keep: with a box it has no conjugate that is known."""
    rng = np.random.default_rng(seed)
    B, X = rng.standard_normal((3, 2)), rng.standard_normal((8, 3))
    y = np.where(np.arange(8) < 4, 1, -1)
    solution = ucm.solve(
        ucm.SquaredHinge() + 0.3 * Quadratic(B @ B.T) + 0.2 * ucm.LInf() + NonNegative(), X, y
    )
    assert solution.status == "optimal"
    w, b = cp.Variable(3), cp.Variable()
    height = cp.sum_squares(cp.pos(1 - cp.multiply(y, X @ w + b))) + 0.3 * cp.sum_squares(B.T @ w)
    problem = cp.Problem(cp.Minimize(height + 0.2 * cp.norm_inf(w)), [w >= 0])
    assert solution.certificate.dual <= problem.solve(solver=cp.CLARABEL) * (1.0 + 1e-7)


@pytest.mark.parametrize("seed", range(6))
def test_a_form_is_not_negative_far_along_a_flat_direction(seed: int) -> None:
    rng = np.random.default_rng(seed)
    B, X = rng.standard_normal((5, 4)), 1e-3 * rng.standard_normal((3, 5))
    with warnings.catch_warnings(action="ignore", category=ucm.ConvergenceWarning):
        solution = ucm.solve(Logistic() + 0.1 * Quadratic(B @ B.T), X, [1, 1, -1])
    if solution.status != "optimal":  # separated along the flat direction: 0 is not attained
        assert 0.0 <= solution.objective < 1e-3


def test_a_power_beside_a_form_proves_small_weights() -> None:
    """Slopes of |w|^3 near 0 hardly say what a solver missed: its conjugate is finite and takes the rest."""
    Q = np.array([[197, -32, -13, 38], [-32, 6, -1, -14], [-13, -1, 14, 17], [38, -14, 17, 194]]) / 64
    X = np.array([
        [16, 0, 22, 19], [-22, -1, -7, -15], [-29, -14, -8, -31], [-28, -8, -10, -17],
        [-28, -25, -10, -11], [-2, -14, -3, -25], [-15, -28, -18, -14],
    ]) / 8  # fmt: skip
    y = np.array([1, -1, -1, -1, -1, -1, -1])
    solution = ucm.solve(0.01 * Hinge() + 0.3 * ucm.Lp(3) + 3.0 * Quadratic(Q), X, y)
    assert solution.status == "optimal" and solution.certificate.relative_gap <= 1e-6


def test_two_forms_that_leave_directions_free_are_proven_as_their_sum() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((6, 4)), np.array([1, 1, 1, -1, -1, -1])
    A, B = rng.standard_normal((3, 4)), rng.standard_normal((3, 4))
    for loss in (Hinge(3), Hinge(), Logistic()):
        apart = ucm.solve(loss + 0.05 * Quadratic(A.T @ A) + 0.1 * Quadratic(B.T @ B), X, y)
        joined = ucm.solve(loss + Quadratic(0.05 * A.T @ A + 0.1 * B.T @ B), X, y)
        assert apart.status == joined.status == "optimal"
        assert apart.objective == pytest.approx(joined.objective, rel=1e-5)


@pytest.mark.parametrize("text", REFUSED)
def test_invalid_penalties_are_refused(text: str) -> None:
    X, y = ucm.datasets.load("iris")
    U = ucm.Hull(ucm.pos) - ucm.Hull(ucm.neg)
    with pytest.raises(ucm.CompositionError, match=REFUSED[text]) as caught:
        eval(text, {"ucm": ucm, "Param": Param, "X": X, "y": y, "U": U})
    assert re.search(r"[:;]", str(caught.value))


def test_a_norm_penalty_on_the_margin_is_a_ball() -> None:
    """What the refusal says to write is the penalised margin."""
    X, y = ucm.datasets.load("wine")
    U = ucm.Hull(ucm.pos) - ucm.Hull(ucm.neg)
    for p, dual in ((1, np.inf), (np.inf, 1), (1.5, 3)):
        solution = ucm.solve(U + ucm.Ball(0, 0.1, p=dual), X, y)
        w = cp.Variable(X.shape[1])
        margin = cp.min(X[y > 0] @ w) - cp.max(X[y < 0] @ w)
        penalised = margin - 0.1 * cp.pnorm(w, p, approx=False)
        value = cp.Problem(cp.Maximize(penalised), [cp.norm(w) <= 1]).solve(solver=cp.CLARABEL)
        assert -solution.objective == pytest.approx(value, rel=1e-6)


def test_sets_of_features_stand_for_all() -> None:
    """More features than samples, few of them in use, and of scales far apart."""
    generator = np.random.default_rng(3)
    X = generator.standard_normal((60, 400)) * 10.0 ** generator.uniform(-3.0, 3.0, 400)
    y = np.where(X[:, 0] / np.abs(X[:, 0]).max() + 0.1 * generator.standard_normal(60) > 0, 1, -1)
    for loss in (ucm.Logistic(), ucm.SquaredHinge(), ucm.HuberHinge(0.3)):
        plan = ucm.compile(loss + 2.0 * ucm.L1(), X, y)
        solution = plan.solve()
        assert (solution.status, plan.solver.name) == ("optimal", "prox-newton")
        moved = np.abs(solution.w) * np.abs(X).max(axis=0)
        # Newton steps leave exact zeros; where they stall, as the Hessian has a condition number of 1e12, the
        # interior point that goes on leaves weights of 1e-12 of a margin
        exact = solution.stats.solver == "prox-newton"
        assert 0 < np.count_nonzero(moved > (0.0 if exact else 1e-10)) < 60
        # piecewise quadratic losses stall with some kernels of BLAS, each with its own
        assert exact or loss != ucm.Logistic()
        assert plan.verify().agrees


def test_dependent_features_reach_the_gap() -> None:
    """One-hot features sum to 1: the curvature has no inverse, the penalty no strict convexity."""
    generator = np.random.default_rng(4)
    codes = generator.integers(0, 5, (300, 6))
    X = np.concatenate([np.eye(5)[codes[:, k]] for k in range(6)], axis=1)
    y = np.where(codes[:, 0] + codes[:, 1] > 3, 1, -1)
    for penalty in (ucm.L1(), ucm.LInf(), ucm.Norm(1.5), ucm.GroupLasso(np.arange(30) // 5)):
        for loss in (ucm.Logistic(), ucm.SquaredHinge()):
            solution = ucm.solve(loss + 0.1 * penalty, X, y, solver="prox-newton")
            assert solution.status == "optimal", (loss, penalty, solution.certificate)


def test_large_systems_take_conjugate_gradients() -> None:
    generator = np.random.default_rng(5)
    X, w = generator.standard_normal((620, 560)), generator.standard_normal(560)
    y = np.where(X @ w + 10.0 * generator.standard_normal(620) > 0, 1, -1)
    plan = ucm.compile(ucm.Logistic() + ucm.L2(), X, y)
    solution = plan.solve()
    assert (solution.status, solution.stats.systems) == ("optimal", 0)
    other = ucm.solve(ucm.Logistic() + ucm.L2(), X, y, solver="prox-alm")
    assert solution.objective == pytest.approx(other.objective, rel=1e-6)


class Plain(ucm.extend.ProximalPenalty):
    """`||w||_2`, without the slopes of its proximal map."""

    def value(self, w):
        return ucm.Norm().value(w)

    def prox(self, v, t):
        return ucm.Norm().prox(v, t)

    def conjugate(self, z):
        return 0.0

    def gauge(self, z):
        return ucm.Norm().gauge(z)

    def norms(self):
        return None

    def cvxpy(self, w, factor, scope):
        return scope.of(factor) * cp.norm2(w)

    def formula(self, notation):
        return "plain"


def test_the_covariance_of_repeated_samples_is_a_penalty() -> None:
    """Its least eigenvalues are rounding, of either sign."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((4, 6)).repeat(5, axis=0), np.where(np.arange(20) < 10, 1.0, -1.0)
        X[rng.random(20) < 0.2] = 0.0
        dense, thin = (
            ucm.solve(Hinge() + Quadratic(ucm.pos.cov) + 0.01 * L2(), A, y) for A in (X, sparse.csr_array(X))
        )
        assert dense.status == thin.status == "optimal"
        assert dense.objective == pytest.approx(thin.objective, rel=2e-6)


def test_a_penalty_without_slopes_alternates() -> None:
    X, y = ucm.datasets.load("breast_cancer")
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    plain = ucm.solve(ucm.Logistic() + 3.0 * Plain(), X, y, solver="prox-newton")
    known = ucm.solve(ucm.Logistic() + 3.0 * ucm.Norm(), X, y, solver="prox-newton")
    assert plain.status == known.status == "optimal"
    assert plain.objective == pytest.approx(known.objective, rel=1e-6)


def conditioned(scale: float) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(2)
    X = generator.standard_normal((60, 12))
    y = np.where(X[:, 0] + 0.3 * generator.standard_normal(60) > 0, 1, -1)
    return X * 10.0 ** np.linspace(0.0, scale, 12), y


def test_a_penalty_without_the_slopes_of_its_proximal_map() -> None:
    """Features of scales far apart, Jacobians by differences."""
    X, y = conditioned(4.0)
    solution = ucm.solve(ucm.Logistic() + 0.5 * Plain(), X, y)
    assert (solution.status, solution.stats.solver) == ("optimal", "prox-newton")
    known = ucm.solve(ucm.Logistic() + 0.5 * Norm(), X, y)
    assert solution.objective == pytest.approx(known.objective, rel=1e-6)


def test_losses_with_kinks_beside_smooth_ones_of_a_class() -> None:
    X, y = ucm.datasets.load("breast_cancer")
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), np.where(y > 0, 1, -1)
    for loss in (
        Hinge() + ucm.SquaredHinge(on=ucm.neg),
        Hinge(on=ucm.pos) + 2 * ucm.LeastSquares(on=ucm.neg),
        Hinge(1.5) + ucm.HuberHinge(0.5),
    ):
        for penalty in (Norm(), 0.5 * L1(), ucm.LInf()):
            plan = ucm.compile(loss + penalty, X, y)
            solution = plan.solve()
            assert (solution.status, plan.solver.name) == ("optimal", "prox-alm")
            other = ucm.solve(loss + penalty, X, y, solver="clarabel")
            assert solution.objective == pytest.approx(other.objective, rel=2e-6), (loss, penalty)


def test_forms_that_are_flat_along_a_line() -> None:
    """w'Qw costs nothing along a direction, on features of large and small size."""
    generator = np.random.default_rng(0)
    root = generator.integers(-8, 9, (6, 2)) / 8.0
    for size in (1e-3, 1.0, 1e3):
        X = size * generator.standard_normal((40, 6))
        y = np.where(X[:, 0] + size * generator.standard_normal(40) > 0, 1, -1)
        for loss in (Logistic(), ucm.HuberHinge(0.5), ucm.SquaredHinge()):
            model = loss + Quadratic(root @ root.T) + 0.1 * L1()
            solution = ucm.solve(model, X, y, solver="prox-newton")
            assert solution.status == "optimal", (size, loss, solution.certificate)


@pytest.mark.parametrize("form", [0.0, 1.0])
def test_quadratic_programs_have_an_order(monkeypatch: pytest.MonkeyPatch, form: float) -> None:
    """Where more features are in use no matrix of them is formed: the columns of the samples take its place,
    and beside a form w'Qw an interior-point method goes on."""
    monkeypatch.setattr(proximal_step, "_ORDER", 70)
    generator = np.random.default_rng(6)
    X, w = generator.standard_normal((300, 110)), generator.standard_normal(110)
    y = np.where(X @ w + 20.0 * generator.standard_normal(300) > 0, 1, -1)
    root = form * generator.standard_normal((110, 5))
    penalty = L2() if form == 0.0 else Quadratic(root @ root.T) + L2()
    plan = ucm.compile(ucm.SquaredHinge() + 0.1 * L1() + penalty, X, y)
    solution = plan.solve()
    assert (solution.status, plan.solver.name) == ("optimal", "prox-newton")
    assert solution.stats.systems == 1 and solution.stats.forming < 5  # of the first few features
    monkeypatch.undo()
    known = plan.solve()
    assert known.stats.systems > 1 and known.stats.forming > 50
    assert solution.objective == pytest.approx(known.objective, rel=1e-6)


def test_problems_of_dca_end_at_the_last_digit(shared_data: Callable[[str], tuple]) -> None:
    """Steps whose gain rounding hides still bring the slopes within their walls: no other solver is asked."""
    X, y = shared_data("german.numer")
    solution = ucm.solve(Logistic() + 1000 * ucm.MCP(1e-3, 3.0), X, y)
    assert solution.status in ("local", "stationary")
    assert solution.certificate.relative_gap <= 1e-9
    assert solution.stats.passes < 60


@pytest.mark.parametrize("loss", [ucm.SquaredHinge(), ucm.Logistic(), ucm.Hinge()], ids=repr)
@pytest.mark.parametrize(
    "penalty",
    [
        ucm.LInf(),
        ucm.Norm(1.5),
        ucm.Lp(3.0),
        ucm.GroupLasso(np.arange(240) // 7),
        ucm.LInf() + ucm.L1(),
    ],
    ids=lambda penalty: type(penalty).__name__,
)
def test_features_that_outnumber_the_samples(loss: ucm.extend.Loss, penalty: ucm.extend.Penalty) -> None:
    """Quadratic functions with a penalty that joins features are solved in the samples: an interior-point
    method finds the same."""
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((20, 240)), np.repeat([1.0, -1.0], 10)
    X[:10] += 0.2
    solver = "prox-alm" if isinstance(loss, ucm.Hinge) else "prox-newton"
    own = ucm.solve(loss + 0.3 * penalty, X, y, solver=solver)
    other = ucm.solve(loss + 0.3 * penalty, X, y, solver="clarabel")
    assert own.status == "optimal" and own.stats.passes <= 40.0
    assert own.objective == pytest.approx(other.objective, rel=2e-6)


@pytest.mark.parametrize(
    "penalty",
    [ucm.L1(weights=[1.0, 0.0, 2.0]), ucm.LInf(), Norm(2.0), Norm(1.5), GroupLasso([0, 0, 1]),
     ucm.L1(weights=[1.0, 0.0, 2.0]) + ucm.LInf()],
)  # fmt: skip
def test_programs_of_norms_at_the_scale_of_the_features(penalty: Any) -> None:
    """Features times 1e6, and lam too: the same optimum."""
    for seed in (3, 5, 7):
        rng = np.random.default_rng(seed)
        y = np.where(np.arange(40) % 2 > 0, 1.0, -1.0)
        X = rng.standard_normal((40, 3)) + 0.8 * y[:, None]
        c = 2.0 * rng.random(40)
        own, far = (
            ucm.solve(
                ucm.Hinge() + 0.4 * scale * penalty,
                scale * X,
                y,
                sample_weight=c,
                solver="clarabel",
            )
            for scale in (1.0, 1e6)
        )
        assert own.status == far.status == "optimal"
        assert far.objective == pytest.approx(own.objective, rel=2e-6)


@pytest.mark.parametrize("penalty", [ucm.LInf(), Norm(1.5), GroupLasso(groups(9)), ucm.Lp(3.0)])
def test_quadratic_functions_with_a_penalty(penalty: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The minimum that CVXPY finds, of matrices with fewer and more rows than columns; and without the slopes
    of the proximal map, by differences."""
    rng, n = np.random.default_rng(0), 9
    for differences in (False, True):
        if differences:
            default = ucm.extend.ProximalPenalty.prox_slope_times
            monkeypatch.setattr(type(penalty), "prox_slope_times", default)
        for rows, lam in itertools.product((4, 15), (0.1, 3.0, 100.0)):
            B, w, r = rng.standard_normal((rows, n)), rng.standard_normal(n), rng.standard_normal(n)
            r = r @ B.T @ B if rows < n else r  # else the least value is not finite
            R, x = CombinedPenalty((lam * penalty,)), cp.Variable(n)
            height = cp.sum_squares(B @ (x - w)) / 2 + r @ (x - w)
            height += lam * penalty.cvxpy(x, 1.0, Scope())
            best = cp.Problem(cp.Minimize(height)).solve(solver="CLARABEL")
            way = ProximalQuadratic(R, lambda: False)
            z = way.solve(B, r, w, 1e-9)
            found = float(np.sum((B @ (z - w)) ** 2)) / 2 + float(r @ (z - w)) + R.value(z)
            assert way.failed == 0 and found == pytest.approx(best, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    "loss", [ucm.Hinge(), ucm.Hinge(1.5), ucm.Logistic(), ucm.HuberHinge(0.5), ucm.Ramp()], ids=repr
)
def test_a_multiple_of_the_identity_is_the_squared_norm(loss: Any) -> None:
    """`Quadratic(c I)` takes the route of `c L2()`, and keeps its own twin."""
    X, y = load("wine")
    plain = ucm.compile(loss + 0.5 * ucm.L2(), X, y)
    for penalty in (
        ucm.Quadratic(0.5 * np.eye(13)), 0.5 * ucm.Quadratic(sparse.eye_array(13, format="csr"))
    ):  # fmt: skip
        plan = ucm.compile(loss + penalty, X, y)
        assert plan.solver.name == plain.solver.name and type(plan.form) is type(plain.form)
        assert plan.solve().objective == pytest.approx(plain.solve().objective, rel=1e-6)
        assert plan.verify().agrees
        with pytest.raises(ucm.CompositionError, match="13"):
            ucm.compile(loss + penalty, X[:, :5], y)
        with pytest.raises(ucm.CompositionError, match="kernel"):
            ucm.compile(loss + penalty, X, y, kernel="rbf")
    uneven = np.diag([0.5] * 12 + [0.6])
    for Q in (uneven, np.ones((13, 13)), np.zeros((13, 13))):
        assert ucm.Quadratic(Q).norms() is None


def test_the_length_of_a_quadratic_over_rows() -> None:
    X, y = load("wine")
    source = ucm.open_rows(X, y)
    objective = ucm.Logistic() + ucm.Quadratic(np.eye(13))
    found, plain = (ucm.solve(o, source) for o in (objective, ucm.Logistic() + ucm.L2()))
    assert found.objective == pytest.approx(plain.objective, rel=1e-6)
    with pytest.raises(ucm.CompositionError, match="13"):
        ucm.solve(ucm.Logistic() + ucm.Quadratic(np.eye(5)), source)


def test_a_covariance_in_a_quadratic_penalty_is_that_of_the_samples_of_the_fit() -> None:
    """`w'Sw` is the squared length of `v = S^(1/2) w`, so that the answer is that of L2 on samples times
    `S^(-1/2)`; in a cross-validation S comes from each fold."""
    X, y = ucm.datasets.load("wine")
    lam, rho = Param("lam", 0.5), Param("rho", 0.2)
    model = Logistic() + lam * Quadratic((1 - rho) * ucm.neg.cov + rho * np.eye(X.shape[1]))
    for rows in (np.arange(y.size), np.arange(0, y.size, 2)):
        Z, t = X[rows], y[rows]
        e, V = np.linalg.eigh(0.8 * np.cov(Z[t < 0].T, bias=True) + 0.2 * np.eye(X.shape[1]))
        whitened = ucm.solve(Logistic() + 0.5 * L2(), Z @ (V / np.sqrt(e)) @ V.T, t)
        solution = ucm.solve(model, Z, t)
        assert solution.status == "optimal" and solution.params == {"lam": 0.5, "rho": 0.2}
        assert solution.objective == pytest.approx(whitened.objective, rel=1e-6)
        assert solution.w == pytest.approx((V / np.sqrt(e)) @ V.T @ whitened.w, abs=1e-3)
    assert ucm.from_json(ucm.to_json(model)) == model
    assert {"lam", "rho"} <= set(ucm.compile(model, X, y).reference().param_dict)
    found = ucm.path(model, X, y, rho=[0.2, 1.0])
    ridge = ucm.solve(Logistic() + 0.5 * L2(), X, y)
    at = {s.params["rho"]: s.objective for s in found}
    assert at[1.0] == pytest.approx(ridge.objective, rel=1e-6)


class Norms(ucm.extend.ProximalPenalty):
    """`2 ||w||_1 + c ||w||_2^2`, which tells the library its norms."""

    c: float = 0.0

    def value(self, w: Any, /) -> float:
        return float(2.0 * np.abs(w).sum() + self.c * w @ w)

    def prox(self, v: Any, t: float) -> Any:
        return np.sign(v) * np.maximum(np.abs(v) - 2.0 * t, 0.0) / (1.0 + 2.0 * t * self.c)

    def conjugate(self, z: Any) -> float:
        over = np.maximum(np.abs(z) - 2.0, 0.0)
        if self.c == 0.0:
            return np.inf if over.max() > 1e-9 else 0.0
        return 0.25 * float(over @ over) / self.c

    def norms(self) -> tuple[float, float, float]:
        return 2.0, self.c, 0.0

    def cvxpy(self, w: Any, factor: Any, scope: Scope) -> Any:
        return scope.of(2.0 * factor) * cp.norm1(w) + scope.of(self.c * factor) * cp.sum_squares(w)


GROUPS = np.arange(13) % 3
BESIDE_A_MARGIN: dict[str, Callable[[Any], Any]] = {
    "0.1 * L1()": lambda w: 0.1 * cp.norm1(w),
    "r * ucm.LInf() + 0.1 * Norm(3)": lambda w: 0.2 * cp.norm_inf(w) + 0.1 * cp.pnorm(w, 3),
    "0.1 * L1(weights=np.arange(13.0))": lambda w: 0.1 * np.arange(13.0) @ cp.abs(w),
    "0.5 * (GroupLasso(GROUPS, weights=[0, 1, 2]) + 0 * L1())": lambda w: (
        0.5 * sum(k * cp.norm(w[k == GROUPS]) for k in (1, 2))
    ),
    "0.1 * Norms()": lambda w: 0.2 * cp.norm1(w),
    "0.1 * Norms(1.5) + 0.1 * ucm.LInf()": lambda w: 0.2 * cp.norm1(w) + 0.15 + 0.1 * cp.norm_inf(w),
    "ucm.ElasticNet(0.1) + 0.1 * Quadratic(np.eye(13))": lambda w: 0.1 * cp.norm1(w) + 1.0 * cp.norm(w),
}


@pytest.mark.parametrize("written", BESIDE_A_MARGIN)
def test_a_norm_penalty_beside_a_robust_margin(written: str) -> None:
    """Against the primal problem over the ball of w, on whose sphere the answer lies as 0 is outside."""
    X, y = ucm.datasets.load("wine")
    names = {**globals(), "r": Param("r", 0.2)}
    margin = ucm.RobustMargin(ucm.Hull(ucm.pos) - ucm.Ball(ucm.neg.mean, 0.1))
    plan = ucm.compile(margin + eval(written, names), X, y)
    solution = plan.solve()
    assert solution.status == "optimal" and plan.verify(solution).agrees
    w = cp.Variable(13)
    worst = cp.max(-(X[y > 0] @ w)) + X[y < 0].mean(0) @ w + 0.1 * cp.norm(w)
    problem = cp.Problem(cp.Minimize(worst + BESIDE_A_MARGIN[written](w)), [cp.norm(w) <= 1])
    problem.solve(solver="CLARABEL")
    assert solution.objective == pytest.approx(problem.value, rel=1e-5)
    assert solution.w == pytest.approx(w.value, abs=1e-3)
    assert eval(written, names) + margin == sum([margin, eval(written, names)])


def test_a_squared_norm_is_no_norm_on_other_spheres() -> None:
    margin = ucm.RobustMargin(ucm.Hull(ucm.pos) - ucm.Hull(ucm.neg), norm=1.0)
    assert margin + Norms() == ucm.RobustMargin(margin.set + ucm.Ball(0, 2, np.inf), norm=1.0)
    with pytest.raises(ucm.CompositionError, match="only norms of w leave the problem convex"):
        _ = margin + Norms(1.5)


@pytest.mark.parametrize("seed", range(4))
def test_the_covariance_of_equal_sparse_samples_is_0(seed: int) -> None:
    """`X'X - m mean mean'` of sparse samples cancels, and its rounding has negative eigenvalues."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((12, 6)) * (rng.random((12, 6)) < 0.4)
    y = np.repeat([1.0, -1.0], 6)
    X[y > 0] = X[0]
    weights = rng.integers(1, 5, 12).astype(float)
    model = Hinge() + Quadratic(ucm.pos.cov) + 0.01 * L2()
    found = ucm.solve(model, sparse.csr_matrix(X), y, sample_weight=weights)
    expected = ucm.solve(Hinge() + 0.01 * L2(), X, y, sample_weight=weights)
    assert found.objective == pytest.approx(expected.objective, rel=1e-5)


@pytest.mark.parametrize("z", [[1.8e7, 18.0], [1.8e10, 18e3], [-1.8e7, -18.0], [1.0, 2.0]])
def test_a_conjugate_is_no_lower_bound_where_its_terms_cancel(z: list[float]) -> None:
    """0.1 ||w||^2 with 1e6 w_1 + w_2 <= 0.001, against the closed form in exact fractions.

    The nearest w, 1e-9, is 0 beside z: its value was 0 in place of 0.018, and bounds lay above the optimum.
    """
    c, a, most = Fraction(1, 10), (Fraction(10**6), Fraction(1)), Fraction(1e-3)
    R = CombinedPenalty(((0.1 * ucm.L2()), ucm.LinearConstraint([[1e6, 1.0]], ub=1e-3)))
    exact = [Fraction(x) for x in z]
    u = max((a[0] * exact[0] + a[1] * exact[1] - 2 * c * most) / (a[0] ** 2 + a[1] ** 2), Fraction(0))
    least = u * most + sum((x - u * y) ** 2 for x, y in zip(exact, a, strict=True)) / (4 * c)
    assert R.conjugate(np.array(z)) == pytest.approx(float(least), rel=1e-9)
