"""Nearest points of reduced hulls: against Clarabel, exact small cases, printed figures, and abuse."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from bundled import load
from numpy.testing import assert_allclose

import ucm
from ucm import neg, pos, signed
from ucm.data.kernels import Kernel
from ucm.errors import ConvergenceWarning, EmptySetError, ParameterError, SolverError
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Answer
from ucm.solvers import GSK, MDM, SMO, ClipGSK, ClipMDM
from ucm.solvers.smo.problem import Pairs

NAMES = ("gsk", "mdm", "clip-gsk", "clip-mdm", "smo")
EXACT = {"smo": 1e-9, "clip-mdm": 1e-4, "gsk": 1e-3}  # tolerances that these reach


def quietly(model: Any, X: Any, y: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return ucm.solve(model, X, y, **options)


def small(data: str, m: int = 90) -> tuple[np.ndarray, np.ndarray]:
    X, y = load(data)
    return X[:m], y[:m]


@pytest.mark.parametrize("kernel", [None, "rbf"])
@pytest.mark.parametrize("data", ["iris", "wine", "breast_cancer"])
def test_baselines_agree_with_the_twin(data: str, kernel: Any) -> None:
    X, y = small(data)
    model = ucm.models.nu_svm(0.8 if data == "iris" else 0.3)
    exact: Any = None
    for name, tol in EXACT.items():
        plan = ucm.compile(model, X, y, solver=name, kernel=kernel)
        found: Any = plan.solve(tol=tol)
        assert found.status == "optimal" and found.stats.solver == name
        if exact is None:
            exact = found
            assert plan.verify().agrees
        assert found.objective == pytest.approx(exact.objective, rel=tol)
        assert found.b == pytest.approx(exact.b, abs=30 * tol)
        assert_allclose(found.weights[y > 0].sum(), 1.0, atol=1e-12)
    for name in ("mdm", "clip-gsk"):
        found = quietly(model, X, y, solver=name, kernel=kernel, max_iter=2000)
        assert found.status in ("optimal", "stalled", "max_iter")
        assert found.objective <= exact.objective * (1.0 - 1e-9) + 1e-12  # farther from 0
        if found.status == "stalled":
            assert "stalled" in found.message and 'solver="smo"' in found.message


@pytest.mark.parametrize(
    "model",
    [
        2 * ucm.Hull(signed, weights=ucm.CappedSimplex(0.02)),
        ucm.ReducedHull(pos, eta=0.05),
        ucm.ReducedHull(pos, eta=0.05) - 0.5 * neg.mean,
        3 * ucm.ReducedHull(pos, eta=0.03) - 0.2 * ucm.Hull(neg),
    ],
    ids=repr,
)
def test_every_set_of_reduced_hulls(model: Any) -> None:
    X, y = small("breast_cancer", 150)
    for kernel in (None, "rbf"):
        plan = ucm.compile(model, X, y, solver="smo", kernel=kernel)
        found = plan.solve(tol=1e-7)
        assert found.status == "optimal" and plan.verify().agrees
    for name in NAMES[:4]:
        quietly(model, X, y, solver=name, max_iter=50)


def test_the_coordinates_and_the_rows_agree() -> None:
    X, y = small("wine")
    model = ucm.models.nu_svm(0.25)
    rows: Any = ucm.solve(model, X, y, kernel="rbf", solver="smo", tol=1e-9)
    coordinates: Any = ucm.solve(model, X, y, kernel="rbf", solver="ssnal", tol=1e-9)
    assert rows.objective == pytest.approx(coordinates.objective, rel=1e-8)
    assert_allclose(rows.coefficients, coordinates.coefficients, atol=1e-3)
    assert_allclose(rows.decision(X), coordinates.decision(X), atol=1e-6)
    K = Kernel("rbf", gamma=0.3)(X, X)
    given = ucm.solve(model, K, y, kernel="precomputed", solver="smo", tol=1e-9)
    assert given.objective == pytest.approx(
        ucm.solve(model, X, y, kernel="rbf", gamma=0.3, tol=1e-9).objective, rel=1e-8
    )


def test_rows_that_do_not_fit_are_kept_in_a_cache() -> None:
    X, y = load("breast_cancer")
    model = ucm.models.nu_svm(0.2)
    whole = ucm.compile(model, X, y, kernel="rbf", solver="smo")
    few = ucm.compile(model, X, y, kernel="rbf", cache_size=0.05)
    assert few.solver.name == "smo" and "as needed" in few.explain()  # no factor fits
    one, two = whole.solve(), few.solve()
    assert two.status == "optimal" and two.objective == pytest.approx(one.objective, rel=2e-6)
    assert two.stats.kernel_operations > one.stats.kernel_operations


@pytest.mark.parametrize("nu", [0.5, 0.3])
def test_all_points_of_gsk_move_at_once(nu: float) -> None:
    """The Minkowski variant ends at the optimum too, as do its steps with rows that do not fit."""
    X, y = load("wine")
    model = ucm.models.nu_svm(nu)
    best = ucm.solve(model, X, y).objective
    for options in ({}, {"kernel": "linear", "cache_size": 0.02}):
        found = ucm.solve(model, X, y, solver=ucm.solvers.GSK(minkowski=True), tol=1e-3, **options)
        assert found.status == "optimal"
        assert_allclose(found.objective, best, rtol=1e-3)


@pytest.mark.filterwarnings("ignore::ucm.errors.ConvergenceWarning")
@pytest.mark.parametrize("name", ["gsk", "mdm"])
@pytest.mark.parametrize("nu", [0.6, 0.05])
def test_steps_to_extreme_points_ask_for_rows(name: str, nu: float) -> None:
    """The same course with all rows, with those that one step needs, and with fewer than that."""
    X, y = load("breast_cancer")
    X, y = X[::2], y[::2]
    ends = []
    for cache in (200, 0.3, 0.02):
        plan = ucm.compile(ucm.models.nu_svm(nu), X, y, kernel="rbf", solver=name, cache_size=cache)
        sol = plan.solve(tol=1e-3, max_iter=100)
        ends.append((sol.stats.iterations, sol.objective, sol.stats.kernel_operations))
    assert ends[0][0] == ends[1][0] == ends[2][0] >= 5
    assert ends[0][2] == ends[1][2] == ends[2][2]
    assert_allclose([end[1] for end in ends], ends[0][1], rtol=1e-9)


# --- pairs on rows of the Gram matrix -------------------------------------------------------------
KERNELS: dict[str, dict[str, Any]] = {
    "rbf": {"kernel": "rbf"},
    "poly": {"kernel": "poly", "gamma": 0.1, "degree": 2, "coef0": 1.0},
    "linear": {"kernel": "linear"},
    "callable": {"kernel": lambda A, B: np.exp(-np.abs(A[:, None] - B[None]).sum(axis=2))},
}


def blobs(m: int, seed: int, apart: float) -> tuple[np.ndarray, np.ndarray]:
    """Two normal clouds of three features, duplicates in each class."""
    draw = np.random.default_rng(seed)
    y = np.where(np.arange(m) % 5 < 2, 1.0, -1.0)
    X = draw.standard_normal((m, 3)) + apart * (y[:, None] > 0)
    X[m // 2 : m // 2 + 10] = X[:10]
    y[m // 2 : m // 2 + 10] = y[:10]
    return X, y


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("share", [0.5, 0.9, 1.0])  # of the largest nu
def test_pairs_against_newton_in_coordinates(kernel: str, share: float) -> None:
    X, y = blobs(150, 0, 5.0)
    model = ucm.models.nu_svm(share * 2.0 * min((y > 0).mean(), (y < 0).mean()))
    for scale in (1.0, 1e6):
        options = KERNELS[kernel]
        if kernel in ("poly", "callable") and scale != 1.0:
            continue  # these do not scale with the features
        rows, coordinates = (
            ucm.solve(model, scale * X, y, solver=name, tol=1e-9, **options) for name in ("smo", "ssnal")
        )
        assert rows.status == coordinates.status == "optimal"
        assert rows.objective == pytest.approx(coordinates.objective, rel=1e-8)
        assert rows.certificate.relative_gap <= 1e-9


def test_a_distance_that_inner_products_do_not_resolve() -> None:
    draw = np.random.default_rng(0)
    side = draw.standard_normal((40, 2))
    X = np.column_stack([np.repeat([0.0, 1e-5], 20), side])
    y = np.repeat([-1.0, 1.0], 20)
    model = ucm.Hull(pos) - ucm.Hull(neg)
    plan = ucm.compile(model, X, y, kernel="linear")
    assert plan.solver.name == "smo"
    found = plan.solve(tol=1e-5)
    assert found.status == "optimal"  # rounding decides whether by pairs or in coordinates
    # the hulls meet but for the first feature, in which they are 1e-5 apart; the rounding of the Gram matrix,
    # 1e-15, is 1e-5 of the squared distance: no smaller gap is proven in its coordinates
    assert found.objective == pytest.approx(-1e-5, rel=1e-5)
    assert quietly(model, X, y, tol=1e-7).objective == pytest.approx(-1e-5, rel=1e-7)
    rows = quietly(model, X, y, kernel="linear", solver="smo", tol=1e-9)
    assert rows.status == "optimal" or "rounding" in rows.message
    assert rows.objective == pytest.approx(found.objective, rel=1e-3)


def test_pairs_stop_and_go_on() -> None:
    X, y = blobs(900, 3, 2.0)
    plan = ucm.compile(ucm.models.nu_svm(0.3), X, y, kernel="rbf", solver="smo")
    found = plan.solve(tol=1e-8)
    for limit in (1, 3):
        with pytest.warns(ConvergenceWarning, match="raise max_iter"):
            early = plan.solve(max_iter=limit)
        assert early.status == "max_iter" and early.stats.iterations == limit
        assert early.certificate.violation <= 1e-9 and early.objective <= found.objective
    with pytest.warns(ConvergenceWarning, match="callback"):
        stopped = plan.solve(callback=lambda record: record["iteration"] == 0)
    assert stopped.status == "interrupted" and len(stopped.history) == 1
    warm = plan.solve(tol=1e-8, warm_start=found)
    assert warm.stats.iterations == 0 and warm.status == "optimal"
    assert plan.solve(tol=1e-8, warm_start=early).status == "optimal"


# --- the paper ----------------------------------------------------------------------------------
def test_the_rule_and_the_counts_of_the_paper() -> None:
    X, y = small("wine")
    model = ucm.models.nu_svm(0.3)
    for solver in (ClipMDM("paper", 1e-4), GSK("paper", 1e-4)):
        sol = quietly(model, X, y, kernel="rbf", solver=solver, tol=1e-9)
        plan: Any = ucm.compile(model, X, y, kernel="rbf", solver=solver)
        hulls = Pairs.of_hulls(plan.form)
        a = hulls.variables(sol.answer.q)
        # the least <W, Z> over extreme points, from the support function of the declaration
        scores = hulls.s * (hulls.gram.matrix()[np.ix_(hulls.index, hulls.index)] @ (hulls.s * a))
        for own, sign in zip(hulls.groups, (1.0, -1.0), strict=True):
            v = np.sort(scores[own])
            cap = float(hulls.hi[own][0])
            count = int(1.0 / cap + 1e-12)
            least = cap * v[:count].sum() + (1.0 - cap * count) * (v[count] if count < v.size else 0.0)
            assert sign * (a[own] @ scores[own] - least) * sign <= 1.0001e-4 * -sol.objective
        if solver.name == "clip-mdm":
            assert sol.stats.kernel_operations == 2 * y.size * sol.stats.iterations
        else:
            assert sol.stats.kernel_operations > 2 * y.size * sol.stats.iterations


def square(start: list[float], X: list[list[float]], solver: Any) -> tuple[Any, np.ndarray]:
    """min ||W|| over the hull of four points with cap 1/2, from a start."""
    points = np.array([*X, [0.0, 0.0]])
    y = np.array([1.0] * len(X) + [-1.0])
    U = ucm.ReducedHull(pos, eta=0.5) - np.zeros(2)
    plan: Any = ucm.compile(U, points, y, solver=solver)
    answer = solver.solve(plan.form, Monitor(tol=1e-9), Answer([np.array(start)]))
    return answer, points[:-1].T @ answer.q[0]


def test_figure_1_where_mdm_stalls() -> None:
    X = [[-1.0, 1.0], [0.0, 0.5], [2.0, 2.0]]
    start = [0.25, 0.5, 0.25]
    answer, _ = square(start, X, MDM())
    assert answer.status == "stalled" and 'solver="smo"' in answer.message
    _, best = square(start, X, SMO())
    for solver in (GSK(), ClipMDM()):
        answer, W = square(start, X, solver)
        assert answer.status == "converged"
        assert_allclose(W, best, atol=1e-6)
    grid = [
        np.array(X).T @ np.array([s, t, 1.0 - s - t])
        for s in np.linspace(0, 0.5, 201)
        for t in np.linspace(0, 0.5, 201)
        if 0.5 <= s + t <= 1.0
    ]
    assert np.linalg.norm(best) <= min(np.linalg.norm(W) for W in grid) + 1e-9


def test_figure_2_where_clipped_gsk_is_stuck() -> None:
    X = [[0.0, 3.0], [-1.0, 2.0], [1.0, 2.0], [0.0, 1.0]]
    start = [0.5, 0.0, 0.0, 0.5]
    answer, W = square(start, X, ClipGSK())
    assert answer.status == "stalled"
    assert_allclose(W, [0.0, 2.0])
    answer, W = square(start, X, ClipMDM())
    assert answer.status == "converged"
    assert_allclose(W, [0.0, 1.5], atol=1e-9)  # X_4 / 2 + (X_2 + X_3) / 4


# --- abuse --------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", NAMES)
def test_ties_duplicates_and_points(name: str) -> None:
    y = np.array([1, 1, 1, -1, -1, -1])
    same = np.zeros((6, 2))
    assert quietly(ucm.models.nu_svm(0.6), same, y, solver=name).status == "zero_in_set"
    apart = np.repeat([[1.0, 0.0], [0.0, 0.0]], 3, axis=0)  # two points, three times each
    sol = quietly(ucm.models.nu_svm(0.5), apart, y, solver=name)
    assert sol.status == "optimal" and sol.objective == pytest.approx(-1.0)
    touching = np.array([[0.0, 1.0], [0.0, -1.0], [2.0, 0.0], [0.0, 0.0], [-1.0, 1.0], [-1.0, -1.0]])
    sol = quietly(ucm.Hull(pos) - ucm.Hull(neg), touching, y, solver=name, max_iter=2000)
    assert sol.status in ("zero_in_set", "stalled", "max_iter")
    assert sol.status == "zero_in_set" or name in NAMES[:4]
    one = np.array([[3.0, 4.0], [0.0, 0.0]])
    sol = quietly(ucm.Hull(pos) - ucm.Hull(neg), one, [1, -1], solver=name)
    assert sol.status == "optimal" and sol.objective == pytest.approx(-5.0)
    ties = np.array([[1.0, 1.0], [1.0, -1.0], [1.0, 0.0], [-1.0, 1.0], [-1.0, -1.0], [-1.0, 0.0]])
    sol = quietly(ucm.models.nu_svm(0.6), ties, y, solver=name)
    assert sol.status == "optimal" and sol.objective == pytest.approx(-2.0, rel=1e-6)


def test_baselines_refuse_other_models_and_invalid_options() -> None:
    X, y = small("iris")
    model = ucm.models.nu_svm(0.3)
    for name in NAMES:
        with pytest.raises(SolverError, match="not the weights of a reduced"):
            ucm.compile(ucm.models.kl_svm(0.8), X, y, solver=name)
        with pytest.raises(SolverError, match="Euclidean norm only"):
            ucm.compile(ucm.RobustMargin(model, 3.0), X, y, solver=name)
    with pytest.raises(EmptySetError, match=r"nu must be at most"):
        ucm.compile(ucm.models.nu_svm(1.5), X, y, solver="smo", kernel="rbf")
    U = ucm.ReducedHull(pos, eta=1e-3) - ucm.ReducedHull(neg, eta=0.1)
    with pytest.raises(EmptySetError, match=r"the cap must be at least"):
        ucm.compile(U, X, y, solver="gsk")
    for make in (
        lambda: ClipMDM(stop="never"),
        lambda: GSK("never"),
        lambda: MDM(eps=0.0),
        lambda: ClipGSK(stop="never"),
    ):
        with pytest.raises(ParameterError):
            make()


@pytest.mark.parametrize("cap", [1.0, 2.0, 8.0])
def test_newton_starts_where_the_samples_cancel_to_rounding(cap: float) -> None:
    """-x, 0 and x: the middle of the weights is 0 but for rounding, which says nothing of a direction."""
    X = np.array([[1.0, 2.0], [1.75, -1.3125], [-1.75, 1.3125], [0.0, 0.0]])
    U = ucm.Hull(ucm.neg, weights=ucm.CappedSimplex(cap))
    found = ucm.solve(U, X, np.array([1.0, -1.0, -1.0, -1.0]))
    assert found.status == "optimal" and found.objective == pytest.approx(2.1875)


def test_an_operand_of_an_intersection_is_a_multiple_of_zero() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((12, 3)), np.repeat([1.0, -1.0], 6)
    U = (0 * ucm.Ellipsoid(pos.mean, pos.cov, 1.0) & ucm.Ball(0, 1.0)) - ucm.Ball([3.0, 0.0, 0.0], 1.0)
    solution = ucm.solve(U, X, y)
    assert solution.status == "optimal" and solution.objective == pytest.approx(-2.0, rel=1e-6)
