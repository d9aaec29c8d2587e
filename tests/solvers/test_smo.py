"""Pair updates behind kernels: against coordinates, CVXPY and scikit-learn, small caches, hard inputs."""

# pyright: reportArgumentType=false, reportCallIssue=false
from typing import Any
from unittest import mock

import numpy as np
import pytest
from row_samples import samples
from scipy import optimize, sparse
from sklearn.svm import SVC, NuSVC
from typed import known

import ucm
from ucm import native
from ucm.data.gram import Gram
from ucm.data.kernels import Kernel
from ucm.forms.hinge_dual import HingeDual
from ucm.forms.monitor import Monitor
from ucm.language.models import nu_svm, psvm
from ucm.solvers import SMO
from ucm.solvers.smo.problem import Pairs
from ucm.solvers.smo.solver import PairUpdates


@pytest.mark.parametrize("gamma", [0.1, 3.0])
def test_pairs_reach_the_optimum(gamma: float) -> None:
    X, y = samples(300, shift=0.6)
    options: dict[str, Any] = {"kernel": "rbf", "gamma": gamma, "tol": 1e-9}
    for nu in (0.2, 0.6):
        found = ucm.solve(nu_svm(nu), X, y, solver=SMO(), **options)
        exact = ucm.solve(nu_svm(nu), X, y, solver="ssnal", **options)
        assert found.status == exact.status == "optimal"
        assert found.objective == pytest.approx(exact.objective, rel=1e-8)
        assert found.b == pytest.approx(exact.b, abs=1e-6)
        assert found.certificate.violation <= 1e-9


def test_a_working_set_has_both_ends_of_many_groups() -> None:
    """A hull for each of 140 groups, of samples so wide that rows come by products."""
    X, y = samples(840, 110, shift=0.3)
    group = (np.arange(840) % 140).astype(str)
    hulls = [ucm.Hull(ucm.pos.group(k)) / 140 for k in np.unique(group[y > 0.0]).tolist()]
    U = sum(hulls[1:], hulls[0]) - ucm.ReducedHull(ucm.neg, nu=0.5)
    found = ucm.solve(U, X, y, solver="smo", subgroup=group, kernel="rbf")
    assert len(hulls) > 128
    assert found.status == "optimal"
    assert found.certificate.violation <= 1e-9


@pytest.mark.parametrize("gamma", [1e-4, 0.1, 30.0, 1e4])
@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_a_gap_below_the_rounding_of_single_precision(gamma: float, shift: float) -> None:
    """Rows are float32; a gap of 1e-9 needs the gradient in float64."""
    X, y = samples(300, shift=0.6)
    for model in (nu_svm(0.6), psvm(1.0, 5.0), psvm(1.5, 5.0)):
        found = ucm.solve(model, X + shift, y, kernel="rbf", gamma=gamma, tol=1e-9, solver="smo")
        assert found.status == "optimal", found.message
        assert abs(found.certificate.relative_gap) <= 1e-9


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("gamma", [0.1, 3.0])
def test_multipliers_reach_the_optimum_of_the_primal_solver(p: float, gamma: float) -> None:
    """That solver takes coordinates of the kernel: the rows of a root of its Gram matrix."""
    X, y = samples(240, shift=0.6)
    values, basis = np.linalg.eigh(Gram(Kernel("rbf", gamma), X).matrix())
    Z = basis * np.sqrt(np.maximum(values, 0.0))
    for C in (0.3, 10.0):
        found = ucm.solve(psvm(p, C), X, y, kernel="rbf", gamma=gamma, tol=1e-7, solver=SMO())
        other = ucm.solve(psvm(p, C), Z, y, tol=1e-7, solver="prox-alm")
        assert found.status == other.status == "optimal" and found.certificate.relative_gap <= 1e-7
        assert found.objective == pytest.approx(other.objective, rel=1e-6)
        assert found.b == pytest.approx(other.b, abs=1e-2)


@pytest.mark.parametrize("p", [1.0, 1.5])
def test_multipliers_agree_with_cvxpy(p: float) -> None:
    X, y = samples(70, shift=0.6)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 70)
    plan = ucm.compile(
        psvm(p, 2.0), X, y, kernel="rbf", gamma=0.5, sample_weight=weights, class_weight="balanced",
        solver=SMO(),
    )  # fmt: skip
    assert plan.solve(tol=1e-8).status == "optimal"
    assert plan.verify().agrees


@pytest.mark.parametrize(
    "U",
    [
        ucm.ReducedHull(ucm.pos, eta=0.05) - 0.5 * ucm.ReducedHull(ucm.neg, eta=0.02),
        ucm.Hull(ucm.signed, weights=ucm.CappedSimplex(0.03)),
        ucm.ReducedHull(ucm.pos, eta=0.05) - 0.5 * ucm.neg.mean,
    ],
    ids=repr,
)
@pytest.mark.parametrize("weighted", [False, True])
def test_other_hulls_agree_with_cvxpy(U: Any, weighted: bool) -> None:
    X, y = samples(120, shift=0.6)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 120) if weighted else None
    plan = ucm.compile(U, X, y, kernel="rbf", gamma=0.5, solver=SMO(), sample_weight=weights)
    assert plan.solve(tol=1e-8).status == "optimal"
    assert plan.verify().agrees


def test_weights_of_samples_are_repetitions() -> None:
    X, y = samples(200, shift=0.6)
    c = np.random.default_rng(2).integers(1, 4, 200)
    plan = ucm.compile(nu_svm(0.4), X, y, kernel="rbf", sample_weight=c)
    assert plan.solver.name == "smo"
    found = plan.solve(tol=1e-8)
    copies = ucm.solve(
        nu_svm(0.4), np.repeat(X, c, 0), np.repeat(y, c), kernel="rbf",
        gamma=known(plan.data.gram).kernel.gamma, tol=1e-8,
    )  # fmt: skip
    assert found.status == "optimal"
    assert found.objective == pytest.approx(copies.objective, rel=1e-7)


@pytest.mark.parametrize("kernel", ["poly", "linear", "callable", "precomputed"])
def test_every_kernel_and_sparse_rows(kernel: str) -> None:
    X, y = samples(150, shift=0.6)
    options: dict[str, Any] = {"kernel": kernel, "tol": 1e-7}
    if kernel == "callable":
        options["kernel"] = lambda A, B: np.exp(-abs(A[:, None] - B[None]).sum(2))
    if kernel == "precomputed":
        X = Kernel("rbf", 0.5)(X, X)
    exact = ucm.solve(nu_svm(0.55), X, y, solver="ssnal", **options)
    found = ucm.solve(nu_svm(0.55), X, y, solver=SMO(), **options)
    assert found.objective == pytest.approx(exact.objective, rel=1e-6)
    if kernel in ("poly", "linear"):
        thin = ucm.solve(nu_svm(0.55), sparse.csr_matrix(X), y, solver=SMO(), **options)
        assert thin.objective == pytest.approx(exact.objective, rel=1e-6)


def test_sparse_rows_that_memory_does_not_hold_densely() -> None:
    """1.2 GB as dense samples, far beyond cache_size."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(300) % 2 == 0, 1.0, -1.0)
    noise = sparse.random(300, 500_000, density=2e-4, random_state=rng)
    X = sparse.csr_matrix(sparse.hstack([sparse.csr_matrix(y[:, None]), noise]))
    found = ucm.solve(psvm(1.0, 1.0), X, y, kernel="rbf", gamma=0.1, cache_size=2)
    K = Kernel("rbf", 0.1)(X, X)
    given = ucm.solve(psvm(1.0, 1.0), K, y, kernel="precomputed")
    assert found.status == "optimal"
    assert found.objective == pytest.approx(given.objective, rel=2e-6)


@pytest.mark.parametrize("memory", [1e-5, 0.02, 0.2, 1.0])
def test_caches_of_few_rows(memory: float) -> None:
    X, y = samples(600, shift=0.6)
    options: dict[str, Any] = {"kernel": "rbf", "gamma": 3.0, "tol": 1e-6}
    for model in (nu_svm(0.6), psvm(1.0, 10.0)):
        found = ucm.solve(model, X, y, cache_size=memory, **options)
        whole = ucm.solve(model, X, y, **options)
        assert found.status == "optimal"
        assert found.objective == pytest.approx(whole.objective, rel=2e-6)


@pytest.mark.parametrize("solver", ["smo"])
def test_a_set_near_to_0_against_its_size_is_solved_to_a_large_tolerance(solver: Any) -> None:
    """The hulls lie 6 from 0 and .1 to .4 apart."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        y = np.where(np.arange(120) % 2 > 0, 1.0, -1.0)
        X = rng.normal(size=(120, 3)) + np.array([0.0, 0.0, 4.0])
        X[:, 0] = (np.abs(X[:, 0]) + 0.05) * y
        best = ucm.solve(nu_svm(0.1), X, y).objective
        found = ucm.solve(nu_svm(0.1), X, y, kernel="linear", solver=solver, tol=0.1)
        assert found.status == "optimal"
        assert best * 1.1 <= found.objective <= best + 1e-6


def test_nusvc_of_scikit_learn_has_a_slightly_larger_objective() -> None:
    """The answer of NuSVC lies in the set; its objective is at most 1.0001 times ours."""
    X, y = samples(1000, shift=0.6)
    for gamma in (0.05, 1.0):
        theirs = NuSVC(nu=0.5, gamma=gamma, tol=1e-6).fit(X, y)
        ours = ucm.solve(nu_svm(0.5), X, y, kernel="rbf", gamma=gamma, tol=1e-8)
        w = np.zeros(1000)
        w[theirs.support_] = np.abs(theirs.dual_coef_[0])
        for o in (1.0, -1.0):
            w[y == o] /= w[y == o].sum()
        K = Kernel("rbf", gamma)(X, X)
        norm = float(np.sqrt((w * y) @ K @ (w * y)))
        assert -ours.objective <= norm * (1.0 + 1e-9) <= -ours.objective * (1.0 + 1e-4)
        machine = SVC(C=2.0, gamma=gamma, tol=1e-6).fit(X, y)
        ours = ucm.solve(psvm(1.0, 2.0), X, y, kernel="rbf", gamma=gamma, tol=1e-9)
        scores = machine.decision_function(X)
        assert np.abs(ours.decision(X) - scores).max() <= 2e-4


def test_a_callback_stops_smo_and_a_warm_start_continues() -> None:
    X, y = samples(300, shift=0.6)
    plan = ucm.compile(nu_svm(0.3), X, y, kernel="rbf", solver=SMO())
    with pytest.warns(ucm.errors.ConvergenceWarning):
        early = plan.solve(tol=1e-9, max_iter=1)
    assert early.status == "max_iter"
    assert early.certificate.dual <= early.certificate.primal
    first = plan.solve(tol=1e-8)
    again = plan.solve(tol=1e-8, warm_start=first)
    assert again.status == "optimal"
    assert again.stats.iterations == 0


def test_nothing_that_is_given_changes() -> None:
    X, y = samples(300, shift=0.6)
    a, b = X.copy(), y.copy()
    K = Kernel("rbf", 0.5)(X, X)
    L = K.copy()
    ucm.solve(nu_svm(0.3), X, y, kernel="rbf")
    ucm.solve(psvm(1.0, 1.0), K, y, kernel="precomputed")
    assert np.array_equal(X, a) and np.array_equal(y, b) and np.array_equal(K, L)


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_duplicates_of_both_classes_and_one_sample_each(kernel: str) -> None:
    X, y = samples(200, shift=0.6)
    X[100:], y[100:] = X[:100], -y[:100]  # the curvature of a pair is 0, or below 0 by the rounding of rows
    found = ucm.solve(psvm(1.0, 10.0), X, y, kernel=kernel, tol=1e-8)
    assert found.status == "optimal"
    two = ucm.solve(nu_svm(1.0), np.array([[0.0], [1.0]]), np.array([-1.0, 1.0]), kernel="rbf")
    assert two.status == "optimal"


@pytest.mark.parametrize(
    "function",
    [lambda A, B: A @ B.T + A[:, :1], lambda A, B: A @ np.triu(np.ones((4, 4))) @ B.T],
    ids=["of one side", "of a triangle"],
)
def test_a_kernel_that_is_not_symmetric_is_refused(function: Any) -> None:
    X, y = samples(300, shift=0.6)
    with pytest.raises(ucm.errors.DataError, match="symmetric"):
        ucm.compile(nu_svm(0.3), X, y, kernel=function)


@pytest.mark.parametrize("power", [1.0, 1.5])
@pytest.mark.parametrize("kernel", [None, "linear"])
def test_wide_samples_far_from_zero_are_solved_as_at_zero(power: float, kernel: str | None) -> None:
    """In float32 the inner products of samples at 1e5 differ by rounding only."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 600)), np.repeat([1, -1], 30)
    model = ucm.Hinge(power) + ucm.L2()
    at_zero = ucm.solve(model, X, y, solver="prox-alm" if power == 1.0 else "clarabel")
    far = ucm.solve(model, X + 1e5, y, kernel=kernel)
    assert far.stats.solver == "smo"
    assert far.status == "optimal"
    assert far.objective == pytest.approx(at_zero.objective, rel=2e-6)


@pytest.mark.parametrize("model", [nu_svm(0.3), psvm(1.0, 1.0), psvm(1.5, 1.0)], ids=str)
@pytest.mark.parametrize("kernel", [None, "linear"])
def test_dense_and_sparse_samples_far_from_zero(model: Any, kernel: str | None) -> None:
    """They are solved about their middle, w and the scores are those of the samples at 0."""
    X, y = samples(120, 4, shift=1.5)
    here = ucm.solve(model, X, y, solver="smo", kernel=kernel)
    for shift in (1e3, 1e6):
        for convert in (np.asarray, sparse.csr_array):
            there = ucm.solve(model, convert(X + shift), y, solver="smo", kernel=kernel)
            assert there.status == here.status == "optimal"
            assert there.objective == pytest.approx(here.objective, rel=2e-6)
            np.testing.assert_allclose(there.w, here.w, atol=1e-2 * np.abs(here.w).max())


@pytest.mark.parametrize("size", [1e-150, 1e-30, 1e-15, 1e15, 1e30, 1e150])
def test_hulls_of_samples_whose_squares_do_not_fit_single_precision(size: float) -> None:
    X, y = samples(100, 5, shift=1.5)
    one, other = (ucm.solve(nu_svm(0.3), A, y, solver="smo") for A in (X, size * X))
    assert other.status == "optimal" and other.objective / size == pytest.approx(one.objective, rel=2e-6)


# --- pair updates, one by one ------------------------------------------------------------------------
def _written_out(problem: Pairs, Q: Any, count: int) -> list[Any]:
    """Return u after each pair update of the largest second-order decrease, by roots and without a cache."""
    p, C, y, u = problem.p, problem.C, problem.signs(), problem.begin()

    def slope(k: int, v: float) -> float:
        return 0.0 if p == 1.0 else y[k] * (max(y[k] * v, 0.0) / (C[k] * p)) ** (1.0 / (p - 1.0))

    def secant(k: int) -> float:
        xi = y[k] * slope(k, u[k])
        return 0.0 if p == 1.0 else seen / (C[k] * p * (xi + seen) ** (p - 1.0) - y[k] * u[k])

    course, seen, curve = [], np.inf, np.zeros(problem.n)
    for _ in range(count):
        F = problem.b + Q @ u + np.array([slope(k, u[k]) for k in range(problem.n)])
        first = [
            min((F[k], k) for k in range(g.start, g.stop) if u[k] < problem.hi[k]) for g in problem.groups
        ]
        last = [max(F[k] for k in range(g.start, g.stop) if u[k] > problem.lo[k]) for g in problem.groups]
        violation = max(high - low for high, (low, _) in zip(last, first, strict=True))
        if seen == np.inf or violation < 0.25 * seen:
            seen = violation
            curve = np.array([secant(k) for k in range(problem.n)])
        i, j = max(
            ((F[j] - low) ** 2 / (Q[i, i] + Q[j, j] - 2.0 * Q[i, j] + curve[i] + curve[j]), i, j)
            for g, (low, i) in zip(problem.groups, first, strict=True)
            for j in range(g.start, g.stop)
            if u[j] > problem.lo[j] and F[j] > low
        )[1:]

        def left(t: float, i: int = i, j: int = j, F: Any = F) -> float:
            own = slope(i, u[i] + t) - slope(i, u[i]) + slope(j, u[j]) - slope(j, u[j] - t)
            return F[j] - F[i] - t * (Q[i, i] + Q[j, j] - 2.0 * Q[i, j]) - own

        top = min(problem.hi[i] - u[i], u[j] - problem.lo[j], 1e3)
        t = top if left(top) >= 0.0 else optimize.brentq(left, 0.0, top, xtol=1e-15)
        u[i], u[j] = u[i] + t, u[j] - t
        curve[i], curve[j] = secant(i), secant(j)
        course.append(u.copy())
    return course


def _pairs(p: float, m: int = 60) -> tuple[Pairs, Any]:
    """Return reduced hulls for p = 0, else the dual of a hinge loss, and Q."""
    X, y = samples(m, 4, shift=0.5)
    gram = Gram(Kernel("rbf", 0.3), X)
    problem = Pairs.of_hinge(HingeDual(y, np.full(m, 2.0), p, gram)) if p else None
    if problem is None:
        plan = ucm.compile(nu_svm(0.6), X, y, kernel="rbf", gamma=0.3)
        problem = Pairs.of_hulls(plan.lowering.form)
    return problem, np.outer(problem.s, problem.s) * gram.matrix()[np.ix_(problem.index, problem.index)]


def _state(problem: Pairs, rows: int) -> PairUpdates:
    u = problem.begin()
    F = problem.gradient(u, problem.gram.matrix() @ problem.coefficients(u))
    _, gap, scale = problem.gap(u, F)
    unit = scale - gap if problem.hinge else scale
    return PairUpdates(problem, u, F, unit, np.empty(rows * problem.n, np.float32))


@pytest.mark.parametrize("p", [0.0, 1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("rows", [60, 3])
def test_pair_updates_are_those_of_the_largest_decrease(p: float, rows: int) -> None:
    """With all rows in the cache, and with three: one of them gives way again and again."""
    problem, Q = _pairs(p)
    state, before = _state(problem, rows), problem.gram.computed
    course = _written_out(problem, Q, 60)
    for count, expected in enumerate(course, 1):
        assert state.run(0.0, count, Monitor()) == 1
        np.testing.assert_allclose(state.variables(), expected, atol=2e-5)
    if p and rows == 60:  # each row is computed once, of the variables at hand
        moved = np.diff(course, axis=0, prepend=problem.begin()[None])
        assert problem.gram.computed - before <= 60 * np.count_nonzero(moved.any(axis=0))


def _gap_at_hand(problem: Pairs, Q: Any, state: PairUpdates) -> float:
    """Return the relative gap of the variables that are not left out, amid the levels of each group."""
    u, p, y = state.variables(), problem.p, problem.signs()
    xi = (y * u / (p * problem.C)) ** (1.0 / (p - 1.0)) if p > 1.0 else np.zeros(problem.n)
    linear, phi = problem.b + Q @ u, (p - 1.0) * (problem.C * xi**p).sum() if p > 1.0 else 0.0
    kept, total = state.arrays["index"][: int(state.fields["n"])], 0.0
    for g in problem.groups:
        k = kept[(g.start <= kept) & (kept < g.stop)]
        F = (linear + y * xi)[k]
        levels = F[u[k] < problem.hi[k]].min(), F[u[k] > problem.lo[k]].max()
        r = F - 0.5 * sum(levels)
        if p == 1.0:
            total += np.maximum(r * (u - problem.lo)[k], r * (u - problem.hi)[k]).sum()
        else:
            slack = xi[k] - y[k] * r  # phi and its conjugate less their product
            each = problem.C[k] * ((p - 1.0) * xi[k] ** p + np.maximum(slack, 0.0) ** p)
            total += (each - y[k] * u[k] * slack).sum()
    square = float(u @ Q @ u)
    return float(total / (total - u @ problem.b - 0.5 * square - phi if problem.hinge else square))


@pytest.mark.parametrize("p", [0.0, 1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-4])
def test_pair_updates_end_at_the_gap_asked_for(p: float, tol: float) -> None:
    """It is looked at after every 64 updates."""
    problem, Q = _pairs(p, 600)
    state = _state(problem, 600)
    assert state.run(tol, 10**6, Monitor()) == 0
    assert state.updates % 64 == 0 and (tol > 1e-3 or p > 1.0 or state.fields["n"] < 600)
    assert _gap_at_hand(problem, Q, state) <= 1.001 * tol
    if state.updates:
        before = _state(problem, 600)
        assert before.run(tol, state.updates - 64, Monitor()) == 1
        assert _gap_at_hand(problem, Q, before) >= 0.999 * tol


# --- kernel values in C ----------------------------------------------------------------------------
@pytest.mark.parametrize("n", [1, 7, 1000, 4099])
def test_exponentials_of_rbf_values(n: int) -> None:
    x = -np.exp(np.random.default_rng(n).uniform(-20.0, 6.5, n))
    x[:2] = [0.0, -1e3][: x[:2].size]
    values, zero = 0.5 * x[None, :], np.zeros(n)
    native.library.rbf_values(*values.shape, values, zero[:1], zero, 1.0)
    np.testing.assert_allclose(values[0], np.exp(x), rtol=1e-13, atol=1e-300)


def test_rows_of_the_cache_are_exponentials_in_single_precision() -> None:
    """Whose arguments are exact here, the largest -85: at most 2 units in the last place off."""
    X = np.arange(-37.0, 38.0)[:, None] / 8.0
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    problem = Pairs.of_hinge(HingeDual(y, np.ones(y.size), 1.0, Gram(Kernel("rbf", 1.0), X)))
    updates = PairUpdates(problem, problem.begin(), problem.b, 1.0, np.empty(X.size**2, np.float32))
    updates.run(0.0, 20, Monitor())
    owner = updates.arrays["owner"]
    rows = np.flatnonzero(owner >= 0)
    exact = np.exp(-((X[owner[rows]] - X.T) ** 2))
    off = np.abs(updates.arrays["store"].reshape(X.size, -1)[rows] - exact)
    assert rows.size > 2
    assert (off <= 2.0 * np.spacing(exact.astype(np.float32)).astype(np.float64)).all()


@pytest.mark.parametrize(
    "kernel", [Kernel("rbf", 0.3), Kernel("poly", 0.5, 3, 1.0), Kernel("linear")], ids=str
)
@pytest.mark.parametrize("zeros", [0.0, 0.9])
@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (700, 30), (1030, 5)], ids=str)
def test_sums_are_the_kernel_written_out(kernel: Kernel, zeros: float, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal(shape)
    X[rng.random(shape) < zeros] = 0.0
    X += 0.0 if zeros or kernel.name != "rbf" else 50.0
    products = X @ X.T
    K = {
        "rbf": np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(axis=2)) if shape[0] < 800 else None,
        "poly": (0.5 * products + 1.0) ** 3,
        "linear": products,
    }[kernel.name]
    if K is None:
        K = np.exp(-0.3 * sum((X[:, None, k] - X[None, :, k]) ** 2 for k in range(shape[1])))
    rows = np.arange(0, shape[0], 2)
    c = rng.standard_normal(rows.size)
    gram = Gram(kernel, X)
    size = np.abs(c) @ np.abs(K[rows]) + 1e-300
    for some in (None, np.arange(0, shape[0], 3)):
        expected = c @ K[rows] if some is None else c @ K[np.ix_(rows, some)]
        bound = size if some is None else size[some]
        assert (np.abs(gram.sums(rows, c, some) - expected) <= 1e-12 * bound).all()


def test_sums_of_far_samples_are_zero_and_no_nan() -> None:
    X = np.array([[0.0], [1e3]])
    found = Gram(Kernel("rbf", 1.0), X).sums(np.array([0]), np.array([2.0]))
    assert found == pytest.approx([2.0, 0.0], abs=1e-300)


def test_sums_of_rows_by_blas_are_those_of_the_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    """More rows than one product takes, and the same bits on two threads and on one."""
    rng = np.random.default_rng(0)
    X, c = rng.standard_normal((1100, 20)), rng.standard_normal(1100)
    K = np.exp(-0.1 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    found = []
    for threads in (1, 2):
        monkeypatch.setattr("ucm.native.threads.workers", lambda threads=threads: threads)
        monkeypatch.setattr("ucm.data.gram._LARGE", 1)
        gram = Gram(Kernel("rbf", 0.1), X)
        assert known(gram.columns).height > 1
        found.append(gram.sums(np.arange(1100), c))
    assert np.array_equal(*found)
    np.testing.assert_allclose(found[0], c @ K, atol=1e-11)


def test_sums_compute_a_value_of_two_of_their_rows_once() -> None:
    """Out of order, with duplicates and with few rows, which have no such pairs, they are the same."""
    rng = np.random.default_rng(2)
    X, m = rng.standard_normal((2000, 20)), 2000
    K = np.exp(-0.1 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    for rows in (rng.permutation(m), rng.permutation(m)[:1300], np.arange(60), np.arange(m) // 2):
        gram, c = Gram(Kernel("rbf", 0.1), X), rng.standard_normal(rows.size)
        np.testing.assert_allclose(gram.sums(rows, c), c @ K[rows], atol=1e-10)
        whole = rows.size * m
        pairs = rows.size**2 / 2 if np.unique(rows).size == rows.size > m / 8 else 0.0
        assert whole - pairs <= gram.computed <= whole - 0.6 * pairs


# --- working sets ------------------------------------------------------------------------------------
def test_a_full_cache_does_not_compute_the_same_rows_again_and_again() -> None:
    """A cache of 590 rows at the start, for 1,853 free variables."""
    X, y = samples(2000, 100, shift=0.05)
    options: dict[str, Any] = {"kernel": "rbf", "gamma": 0.01, "tol": 1e-3, "solver": "smo"}
    found = ucm.solve(psvm(1.0, 10.0), X, y, cache_size=4.5, **options)
    whole = ucm.solve(psvm(1.0, 10.0), X, y, **options)
    assert found.status == whole.status == "optimal"
    assert found.objective == pytest.approx(whole.objective, rel=1e-3)
    assert found.stats.kernel_operations < 3 * whole.stats.kernel_operations


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
@pytest.mark.parametrize("memory", [200.0, 0.1])
@pytest.mark.parametrize("model", [nu_svm(0.4), psvm(1.0, 3.0), psvm(1.5, 3.0)], ids=str)
def test_working_sets_reach_the_optimum_of_single_rows(
    model: Any, memory: float, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache of all rows, and one of a few; without BLAS all pairs compete."""
    X, y = samples(500, 100, shift=0.12)
    plain: dict[str, Any] = {"kernel": kernel, "gamma": 0.01, "coef0": 1.0}
    blocks = mock.Mock(wraps=PairUpdates._block)
    monkeypatch.setattr(PairUpdates, "_block", lambda self, *a: blocks(self, *a))
    found = ucm.solve(model, X, y, solver="smo", tol=1e-8, cache_size=memory, **plain)
    calls = blocks.call_count
    monkeypatch.setattr("ucm.data.gram._WIDE", 101)
    alone = ucm.solve(model, X, y, solver="smo", tol=1e-8, **plain)
    assert calls > 1 and blocks.call_count == calls
    assert found.status == alone.status == "optimal", found.message
    assert found.objective == pytest.approx(alone.objective, rel=2e-8)
    assert found.b == pytest.approx(alone.b, abs=1e-3)


def test_working_sets_give_the_same_bits_on_one_and_two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = samples(3000, 100, shift=0.15)
    found = []
    for threads in (1, 2):
        monkeypatch.setattr("ucm.native.threads.workers", lambda threads=threads: threads)
        for module in ("ucm.data.gram", "ucm.solvers.smo.solver"):
            monkeypatch.setattr(f"{module}._LARGE", 1)
        found.append(ucm.solve(psvm(1.0, 1.0), X, y, kernel="rbf", gamma=0.01, tol=1e-4))
    first, second = (s.decision(X[:100]) for s in found)
    assert np.array_equal(first, second) and found[0].objective == found[1].objective


# --- exchanges on a given Gram matrix --------------------------------------------------------------
@pytest.mark.parametrize("n", [0, 1, 2, 9, 40])
def test_exchanges_find_the_nearest_point(n: int) -> None:
    """The optimality condition: in each group F is at most theta where q > 0, at least where q < cap."""
    rng = np.random.default_rng(n)
    points, fixed = rng.standard_normal((n, 3)), rng.standard_normal(3)
    group, cap = np.arange(n) % 2, rng.uniform(0.3, 1.0, n)
    q = 0.5 * cap
    K, F = points @ points.T, points @ (fixed + points.T @ q)
    sums = [q[group == g].sum() for g in (0, 1)]
    ends = np.empty((2, 2), np.int64)
    steps = native.library.exchange(n, 2, K, group, cap, 1e-10, 100_000, q, F, *ends)
    assert steps < 100_000
    np.testing.assert_allclose(F, points @ (fixed + points.T @ q), atol=1e-9)
    assert (q >= 0.0).all() and (q <= cap).all()
    for g in (0, 1):
        own = group == g
        np.testing.assert_allclose(q[own].sum(), sums[g])
        high = F[own & (q > 0.0)].max(initial=-np.inf)
        assert high <= F[own & (q < cap)].min(initial=np.inf) + 1e-9


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_values_of_a_kernel_that_are_not_finite_end_it(p: float) -> None:
    X, y = 1e-160 * np.arange(4.0)[:, None], np.array([1, -1, 1, -1])
    with pytest.raises(ucm.errors.SolverError, match="kernel: expected finite values"):
        ucm.solve(psvm(p, 1.0), X, y, kernel="rbf", solver="smo")


@pytest.mark.parametrize("scale", [1e-150, 1e-15, 1e15, 1e25, 1e150])
def test_pair_updates_do_not_see_the_scale_of_the_samples(scale: float) -> None:
    X, y = ucm.datasets.load("wine")
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    found = ucm.solve(ucm.models.nu_svm(0.3), scale * X, y, solver="smo")
    best = ucm.solve(ucm.models.nu_svm(0.3), X, y, solver="active-set", tol=1e-9)
    assert found.status == "optimal" and found.objective / scale == pytest.approx(best.objective, rel=1e-6)
