"""pSVM: pair updates against brute force, both references in CVXPY, scikit-learn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from conftest import Loader
from numpy.testing import assert_allclose
from references import dual_reference
from scipy import optimize
from scipy import sparse as sp
from sklearn.svm import SVC, LinearSVC
from typed import known, scikit

import ucm
from ucm.compiler.objective import negative_curvature
from ucm.data.bound_data import bind
from ucm.data.gram import Gram
from ucm.data.kernels import Kernel, kernel_of
from ucm.evidence.objective import certify_objective
from ucm.forms.bound import FeatureNormal, KernelNormal
from ucm.language.models import psvm
from ucm.native import library
from ucm.solvers import PSMO, SMO, ProxALM
from ucm.solvers.baselines import psmo

EXPONENTS = (1.0, 1.1, 1.5, 2.0, 3.0, 10.0)
BINARY = ("uci_wdbc", "uci_heart", "uci_ionosphere", "uci_winequality", "uci_banknote")


def standardised(X: np.ndarray) -> np.ndarray:
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def sample(m: int = 80, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    X, y = scikit.make_classification(m, 6, n_informative=4, flip_y=0.2, random_state=seed)
    return standardised(X), 2.0 * y - 1.0


# --- Newton steps ----------------------------------------------------------------------------------
@pytest.mark.parametrize("p", [1.5, 1.8])
@pytest.mark.parametrize("C", [1.0, 1e4])
def test_powers_from_1_5_on_take_few_newton_systems(p: float, C: float) -> None:
    """The augmented Lagrangian alone takes seven and eight. The value is that of a descent by SciPy."""
    X, y = sample(400)

    def value(z: np.ndarray) -> tuple[float, np.ndarray]:
        u = np.maximum(1.0 - y * (X @ z[:-1] + z[-1]), 0.0)
        pulled = C * p * y * u ** (p - 1.0)
        g = np.append(2.0 * lam * z[:-1] - X.T @ pulled, -pulled.sum())
        return C * float((u**p).sum()) + lam * float(z[:-1] @ z[:-1]), g

    lam = 0.5
    solution = ucm.solve(C * ucm.Hinge(p) + lam * ucm.L2(), X, y, solver="prox-alm", tol=1e-7)
    assert solution.status == "optimal" and solution.stats.systems <= 5
    found = optimize.minimize(value, np.zeros(7), jac=True, method="BFGS", options={"gtol": 1e-8 * C})
    assert_allclose(solution.objective, found.fun, rtol=1e-6)


def test_newton_steps_give_way_where_few_samples_decide() -> None:
    """Separable classes and a small penalty: the gains of the steps do not fall."""
    X, y = sample(60)
    X[:, 0] += 3.0 * y
    wide = np.hstack([X, np.random.default_rng(1).standard_normal((60, 40))])
    solution = ucm.solve(ucm.models.psvm(1.5, 1e4), wide, y, solver="prox-alm")
    assert solution.status == "optimal" and solution.certificate.relative_gap <= 1e-6
    numbers = [record["iteration"] for record in solution.history]
    assert numbers[:8] == list(range(1, 9)) and numbers[8] == 1  # of eight Newton steps, then of multipliers
    assert solution.history[7]["objective"] > 1.1 * solution.objective


# --- the two-variable update -----------------------------------------------------------------------
def power_term(a: float, c: float, p: float) -> float:
    """`C (p - 1) xi^p`, as in (17)."""
    if p == 1.0:
        return 0.0
    gamma = p / (p - 1.0)
    return c ** (1.0 - gamma) * p**-gamma * (p - 1.0) * a**gamma


@pytest.mark.parametrize("p", [*EXPONENTS, 1.25, 1.7, 4.5])
def test_the_update_minimises_the_dual_along_its_line(p: float) -> None:
    rng = np.random.default_rng(3)
    for _ in range(60):
        ci, cj = rng.uniform(0.2, 3.0, 2)
        yi, yj = rng.choice([-1.0, 1.0], 2)
        ai, aj = (rng.uniform(0, 1, 2) * [ci, cj]) * rng.choice([0.0, 1.0], 2, p=[0.3, 0.7])
        eta = rng.choice([0.0, rng.uniform(0.1, 3.0)])
        room_i = ai if yi < 0 else (ci - ai if p == 1.0 else np.inf)
        room_j = aj if yj > 0 else (cj - aj if p == 1.0 else np.inf)
        top = min(room_i, room_j)
        d = rng.uniform(0.01, 2.0)
        if top <= 0.0 or (p == 1.0 and eta == 0.0 and not np.isfinite(top)):
            continue
        t = library.smo_step(d, eta, ai, yi, ci, aj, yj, cj, p, top)
        assert 0.0 <= t <= top
        printed = psmo.step(d, eta, (ai, yi, ci), (aj, yj, cj), p, top)
        assert_allclose(t, printed, rtol=1e-6, atol=1e-12)
        # F_i - F_j = d holds at t = 0, so the linear term takes the slopes of the powers back
        xi, xj = (library.smo_slack(a, c, p) for a, c in ((ai, ci), (aj, cj)))

        def dual(
            s: float,
            ai: float = ai, aj: float = aj, ci: float = ci, cj: float = cj, yi: float = yi,
            yj: float = yj, xi: float = xi, xj: float = xj, d: float = d, eta: float = eta,
        ) -> float:  # fmt: skip
            powers = power_term(max(ai + yi * s, 0.0), ci, p) + power_term(max(aj - yj * s, 0.0), cj, p)
            return 0.5 * eta * s * s - (d + yi * xi - yj * xj) * s + powers

        end = top if np.isfinite(top) else max(4.0 * t, 10.0)
        found: Any = optimize.minimize_scalar(
            dual, bounds=(0.0, end), method="bounded", options={"xatol": 1e-12}
        )
        assert dual(t) <= found.fun + 1e-9 * (1.0 + abs(found.fun))


# --- the references --------------------------------------------------------------------------------
def problem_9(X: np.ndarray, y: np.ndarray, p: float, C: np.ndarray) -> cp.Problem:
    w, b, xi = cp.Variable(X.shape[1]), cp.Variable(), cp.Variable(y.size, nonneg=True)
    loss = C @ (xi if p == 1.0 else cp.power(xi, p, approx=False))
    return cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + loss), [cp.multiply(y, X @ w + b) >= 1 - xi])


def problem_17(K: np.ndarray, y: np.ndarray, p: float, C: float) -> cp.Problem:
    a = cp.Variable(y.size, nonneg=True)
    values, vectors = np.linalg.eigh(K)
    kept = values > 1e-12 * values[-1]
    root = vectors[:, kept] * np.sqrt(values[kept])
    dual = cp.sum(a) - 0.5 * cp.sum_squares(root.T @ cp.multiply(y, a))
    constraints = [y @ a == 0]
    if p == 1.0:
        constraints.append(a <= C)
    else:
        gamma = p / (p - 1.0)
        theta = C ** (1.0 - gamma) * p**-gamma * (p - 1.0)
        dual = dual - theta * cp.sum(cp.power(a, gamma, approx=False))
    return cp.Problem(cp.Maximize(dual), constraints)


def value(problem: cp.Problem) -> float:
    try:
        tight = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
        return float(problem.solve(solver="CLARABEL", **tight))
    except cp.error.SolverError:
        return float(problem.solve(solver="CLARABEL"))


@pytest.mark.parametrize("solver", ["smo", "prox-alm"])
@pytest.mark.parametrize("p", EXPONENTS)
def test_linear_against_both_problems(p: float, solver: str) -> None:
    X, y = sample()
    found = ucm.solve(psvm(p, 2.0), X, y, solver=solver, tol=1e-9)
    assert found.status == "optimal"
    assert_allclose(found.objective, value(problem_9(X, y, p, np.full(y.size, 2.0))), rtol=1e-7)
    assert_allclose(found.certificate.dual, value(problem_17(X @ X.T, y, p, 2.0)), rtol=1e-6)


@pytest.mark.parametrize("p", EXPONENTS)
def test_rbf_against_problem_17(p: float) -> None:
    X, y = sample(60, seed=1)
    gamma = 1.0 / (X.shape[1] * X.var())
    K = np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(-1))
    found = ucm.solve(psvm(p, 1.0), X, y, kernel="rbf", tol=1e-9)
    assert_allclose(found.objective, value(problem_17(K, y, p, 1.0)), rtol=1e-7)


@pytest.mark.parametrize("p", [1.1, 3.0, 10.0])
def test_powers_by_other_cones(p: float) -> None:
    X, y = sample(40, seed=3)
    gamma = 1.0 / (X.shape[1] * X.var())
    K = np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(-1))
    found = ucm.solve(psvm(p, 1.0), X, y, kernel="rbf", tol=1e-9)
    assert_allclose(found.certificate.dual, dual_reference(K, y, p), rtol=1e-7)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
def test_the_plan_verifies_itself(p: float) -> None:
    X, y = sample()
    kernels: list[dict[str, Any]] = [{}, {"kernel": "rbf"}]
    for options in kernels:
        plan = ucm.compile(psvm(p, 1.0), X, y, **options)
        report = plan.verify()
        assert report, str(report)
        assert [parameter.name() for parameter in plan.reference().parameters()] == ["C"]
        dual = plan.dual_reference()
        assert_allclose(value(dual), plan.solve().objective, rtol=1e-5)
        assert "smo" in plan.explain(verbose=True)


@pytest.mark.parametrize("kernel", [None, "rbf"])
@pytest.mark.parametrize("p", [1.0, 1.5])
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_wrong_dual_form_is_never_optimal(
    p: float, factor: float, kernel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = sample()
    best = ucm.solve(psvm(p, 1.0), X, y, kernel=kernel, solver="smo", tol=1e-9)
    right = SMO.solve

    def spoiled(self: SMO, form: Any, *rest: Any) -> Any:
        return right(self, replace(form, C=factor * form.C), *rest)

    monkeypatch.setattr(SMO, "solve", spoiled)
    with pytest.warns(ucm.ConvergenceWarning, match="relative gap"):
        found = ucm.solve(psvm(p, 1.0), X, y, kernel=kernel, solver="smo")
    assert found.status != "optimal"
    assert found.certificate.relative_gap > 1e-5
    assert found.certificate.dual <= best.objective <= found.objective


def test_the_certificate_of_a_kernel_equals_that_in_feature_space() -> None:
    """For any coefficients and any dual point, near each other or not."""
    X, y = sample(40)
    data = bind(X, y, (2.0, 0.5))
    gram = Gram(kernel_of("rbf", X)[0], X)
    root = gram.spectral()
    rng = np.random.default_rng(0)
    for model in (psvm(1.0), psvm(1.5, 3.0), ucm.Logistic() + 0.3 * ucm.L2()):
        lam = model.penalty.value(np.ones(1))
        for away in (0.0, 1e-9, 1.0):
            slopes = rng.uniform(0.0, 0.5, y.size)
            slopes[y > 0] *= slopes[y < 0].sum() / slopes[y > 0].sum()
            c = slopes * y / (2.0 * lam) + away * rng.standard_normal(y.size)
            behind = certify_objective(model, data, KernelNormal(gram, c), 0.1, slopes)
            plain = certify_objective(model, data, FeatureNormal(root, root @ c), 0.1, slopes)
            assert_allclose([behind.primal, behind.dual], [plain.primal, plain.dual], rtol=1e-9, atol=1e-9)


def test_a_certificate_with_a_kernel_needs_the_squared_norm() -> None:
    X, y = sample(20)
    normal = KernelNormal(Gram(kernel_of("rbf", X)[0], X), np.ones(20))
    for penalty in (ucm.L1(), ucm.L2() + ucm.LInf(), ucm.L2() + ucm.CappedL1(1.0)):
        with pytest.raises(ucm.SolverError, match=r"no multiple of L2\(\), and a kernel hides"):
            certify_objective(ucm.Hinge() + penalty, bind(X, y), normal, 0.0, None)


def test_class_weights_multiply_the_losses() -> None:
    X, y = sample()
    plan = ucm.compile(psvm(1.5, 1.0), X, y, class_weight=(3.0, 0.5))
    C = np.where(y > 0, 3.0, 0.5)
    assert_allclose(plan.solve(tol=1e-9).objective, value(problem_9(X, y, 1.5, C)), rtol=1e-7)
    assert plan.verify()


def test_scales_of_loss_and_penalty() -> None:
    X, y = sample()
    found = ucm.solve(3.0 * ucm.Hinge(1.5) + 2.0 * ucm.L2(), X, y, tol=1e-9)
    same = ucm.solve(psvm(1.5, 0.75), X, y, tol=1e-9)
    assert_allclose(found.objective, 4.0 * same.objective, rtol=1e-7)
    assert_allclose(found.w, same.w, atol=1e-6)


# --- the papers' data ------------------------------------------------------------------------------
@pytest.mark.parametrize("name", BINARY)
def test_linear_and_pair_solvers_agree_on_five_sets(name: str, shared_data: Loader) -> None:
    X, y = shared_data(name)
    keep = np.random.default_rng(0).permutation(y.size)[:500]
    X, y = standardised(np.asarray(X)[keep]), y[keep].astype(float)
    for p in (1.0, 1.5, 2.0):
        linear = ucm.solve(psvm(p, 1.0), X, y, tol=1e-8)
        pairs = ucm.solve(psvm(p, 1.0), X, y, tol=1e-8, solver="smo")
        assert linear.status == pairs.status == "optimal"
        assert_allclose(linear.objective, pairs.objective, rtol=2e-8)
        assert_allclose(value(problem_9(X, y, p, np.ones(y.size))), pairs.objective, rtol=1e-7)


@pytest.mark.parametrize("name", ["uci_heart", "uci_ionosphere"])
@pytest.mark.parametrize("p", [1.1, 3.0, 10.0])
def test_other_exponents_on_the_papers_data(name: str, p: float, shared_data: Loader) -> None:
    X, y = shared_data(name)
    X, y = standardised(np.asarray(X)), y.astype(float)
    linear = ucm.solve(psvm(p, 1.0), X, y, tol=1e-8)
    assert linear.status == "optimal"
    # for p = 10 the power cones of (9) defeat Clarabel; those of the dual do not
    reference = problem_17(X @ X.T, y, p, 1.0) if p == 10.0 else problem_9(X, y, p, np.ones(y.size))
    assert_allclose(value(reference), linear.objective, rtol=1e-7)


# --- scikit-learn ----------------------------------------------------------------------------------
def test_p_1_is_svc() -> None:
    X, y = scikit.load_breast_cancer(return_X_y=True)
    X = standardised(X)
    theirs = SVC(C=1.0, tol=1e-8).fit(X, y)
    ours = ucm.Classifier(psvm(1.0, 1.0), kernel="rbf", tol=1e-9).fit(X, y)
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4)


def test_p_2_is_linear_svc() -> None:
    X, y = sample(300)
    primal: Any = False
    theirs = LinearSVC(
        loss="squared_hinge", dual=primal, intercept_scaling=100, tol=1e-10, max_iter=100_000
    ).fit(X, y)
    ours = ucm.solve(psvm(2.0, 1.0), X, y, tol=1e-9)
    assert_allclose(ours.decision(X), theirs.decision_function(X), atol=1e-4)


# --- the solver itself -----------------------------------------------------------------------------
@pytest.mark.parametrize("p", [1.0, 1.5])
@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_pairs_and_features_have_the_same_optimum(p: float, kernel: str | None) -> None:
    """The features of the rbf kernel are the rows of a root of its Gram matrix."""
    X, y = sample(400, seed=2)
    Z, options = X, {} if kernel is None else {"kernel": kernel, "gamma": 0.5}
    if kernel is not None:
        values, basis = np.linalg.eigh(Gram(Kernel("rbf", 0.5), X).matrix())
        Z = basis * np.sqrt(np.maximum(values, 0.0))
    plain = ucm.solve(psvm(p, 1.0), Z, y, tol=1e-8)
    pairs = ucm.solve(psvm(p, 1.0), X, y, tol=1e-8, solver=SMO(), **options)
    assert plain.status == pairs.status == "optimal"
    assert_allclose(pairs.objective, plain.objective, rtol=1e-6)


def test_shrinking_many_samples_under_a_small_cache() -> None:
    X, y = sample(1500, seed=4)
    whole = ucm.solve(psvm(1.0, 10.0), X, y, kernel="rbf", tol=1e-6)
    small = ucm.solve(psvm(1.0, 10.0), X, y, kernel="rbf", tol=1e-6, cache_size=1)
    assert whole.status == small.status == "optimal"
    assert_allclose(whole.objective, small.objective, rtol=2e-6)
    assert small.stats.kernel_operations > whole.stats.kernel_operations


def test_the_bias_is_that_of_every_multiplier() -> None:
    X, y = sample()
    for p in (1.5, 3.0):
        found = ucm.solve(psvm(p, 1.0), X, y, tol=1e-10)
        a = known(found.weights)
        k = a > 1e-6 * a.max()
        xi = (a[k] / p) ** (1.0 / (p - 1.0))
        assert_allclose(y[k] * (1.0 - xi) - X[k] @ found.w, known(found.b), atol=1e-5)


def test_warm_start_and_iteration_limit() -> None:
    X, y = sample(300)
    plan = ucm.compile(psvm(1.5, 1.0), X, y, kernel="rbf")
    cold = plan.solve()
    warm = ucm.compile(psvm(1.5, 1.2), X, y, kernel="rbf").solve(warm_start=cold)
    assert warm.status == "optimal"
    with pytest.warns(ucm.ConvergenceWarning, match="relative gap"):
        cut = plan.solve(max_iter=3)
    assert cut.status == "max_iter"
    with pytest.raises(ucm.ParameterError, match="another shape"):
        plan.solve(warm_start=ucm.solve(psvm(1.5, 1.0), X[:50], y[:50]))
    with pytest.raises(ucm.ParameterError, match="b is a variable"):
        plan.solve(bias_rule="midpoint")


def test_sparse_float32_and_order() -> None:
    X, y = sample(200)
    for p in (1.0, 1.5):
        for solver in ("smo", "prox-alm"):
            plain = ucm.solve(psvm(p, 1.0), X, y, tol=1e-10, solver=solver)
            thin = ucm.solve(psvm(p, 1.0), sp.csr_matrix(X), y, tol=1e-10, solver=solver)
            turned = ucm.solve(psvm(p, 1.0), X[::-1], y[::-1], tol=1e-10, solver=solver)
            assert_allclose(thin.w, plain.w, atol=1e-5)
            assert_allclose(turned.w, plain.w, atol=1e-5)


def test_duplicates_and_one_sample_per_class() -> None:
    X = np.array([[0.0], [2.0]])
    found = ucm.solve(psvm(2.0, 1e6), X, [-1, 1], kernel="linear")
    assert_allclose([found.w[0], known(found.b)], [1.0, -1.0], atol=1e-5)
    X, y = sample(40)
    twice = ucm.solve(psvm(1.5, 0.5), np.vstack([X, X]), np.r_[y, y], kernel="rbf", gamma=0.2)
    once = ucm.solve(psvm(1.5, 1.0), X, y, kernel="rbf", gamma=0.2)
    assert_allclose(twice.objective, once.objective, rtol=1e-5)


# --- bad input -------------------------------------------------------------------------------------
def test_bad_parameters_are_refused() -> None:
    X, y = sample()
    with pytest.raises(ucm.CompositionError, match=r"p must lie in \[1, inf\)"):
        psvm(0.9, 1.0)
    for C in (0.0, -1.0):
        with pytest.raises(ucm.CompositionError, match="positive"):
            psvm(1.5, C)
    with pytest.raises(ucm.ParameterError, match=r"seed is a whole number from 0 on"):
        PSMO(seed=-1)
    with pytest.raises(ucm.ParameterError, match="max_order"):
        ProxALM(max_order=0)
    with pytest.raises(ucm.SolverError, match="hides them"):
        ucm.compile(psvm(1.5, 1.0), X, y, kernel="rbf", solver="prox-alm")


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])
def test_an_indefinite_kernel_ends_with_that_status(p: float) -> None:
    X, y = sample(40)
    with pytest.warns(ucm.ConvergenceWarning, match="indefinite"):
        found = ucm.solve(psvm(p, 1.0), X, y, kernel="sigmoid", gamma=2.0, coef0=-1.0)
    assert found.status == "indefinite"
    K = np.random.default_rng(0).standard_normal((40, 40))
    with pytest.warns(ucm.ConvergenceWarning, match="indefinite"):
        found = ucm.solve(psvm(p, 1.0), K + K.T, y, kernel="precomputed")
    assert found.status == "indefinite"


def test_a_set_in_an_indefinite_kernel_has_no_lower_bound() -> None:
    """The matrix over the support vectors shows the negative eigenvalues that single rows do not."""
    X, y = sample(40)
    plan = ucm.compile(ucm.models.nu_svm(0.3), X, y, kernel="sigmoid", gamma=0.05, coef0=1.0, solver="smo")
    with pytest.warns(ucm.ConvergenceWarning, match="the kernel is indefinite"):
        found = plan.solve()
    assert (found.status, found.certificate.kind, found.certificate.dual) == ("indefinite", "none", -np.inf)
    certificate = plan.certify(weights=found.weights)
    assert (certificate.kind, certificate.dual) == ("none", -np.inf)
    assert "taken as positive semidefinite" in str(certificate)


def test_an_indefinite_kernel_without_support_vectors_has_no_lower_bound() -> None:
    """At w = 0 no support vector shows that the objective falls without bound: 0 was its bound."""
    X, y = sample(40)
    plan = ucm.compile(psvm(1.0, 1e-3), X, y, kernel=lambda A, B: -(A @ B.T))
    with pytest.warns(ucm.ConvergenceWarning, match="over 40 samples"):
        found = plan.solve()
    assert (found.status, found.certificate.kind, found.certificate.dual) == ("indefinite", "none", -np.inf)
    certificate = plan.certify(coefficients=np.zeros(40), b=1.0)
    assert (certificate.kind, certificate.dual) == ("none", -np.inf)
    values = [plan.certify(coefficients=t * y * X[:, 0], b=0.0).primal for t in (0.0, 1.0, 10.0)]
    assert values[2] < values[1] < values[0]


def test_a_part_of_many_support_vectors_shows_an_indefinite_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    X, _ = sample(40)
    monkeypatch.setattr("ucm.compiler.objective._TESTED", 15)
    kernel, _ = kernel_of("sigmoid", X, gamma=2.0, coef0=-1.0)
    message = negative_curvature(Gram(kernel, X), np.ones(40, dtype=bool))
    assert message is not None and "over 14 support vectors" in message


@pytest.mark.parametrize("limit", [None, 3])
def test_an_indefinite_kernel_has_no_lower_bound(limit: int | None) -> None:
    """The objective falls without bound along a negative eigenvector of the Gram matrix."""
    X, y = sample(40)
    plan = ucm.compile(psvm(1.0, 0.05), X, y, kernel="sigmoid", gamma=0.05, coef0=1.0)
    with pytest.warns(ucm.ConvergenceWarning, match="indefinite"):
        found = plan.solve(max_iter=limit)
    at = {"coefficients": found.coefficients, "b": found.b, "weights": found.weights}
    for certificate in (found.certificate, plan.certify(**at)):
        assert (certificate.kind, certificate.dual, certificate.gap) == ("none", -np.inf, np.inf)
        assert certificate.primal == pytest.approx(found.objective)


def test_a_gram_matrix_that_does_not_fit_is_not_formed() -> None:
    X, _ = sample(100)
    kernel, _ = kernel_of("rbf", X)
    with pytest.raises(ucm.ParameterError, match="Nystroem"):
        Gram(kernel, X, limit=8 * 100 * 3).matrix()
    assert Kernel("linear").definite


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])
def test_the_papers_random_partner_reaches_the_optimum(p: float) -> None:
    X, y = sample(60)
    best = ucm.solve(psvm(p, 1.0), X, y, kernel="rbf", tol=1e-8)
    found = ucm.solve(psvm(p, 1.0), X, y, kernel="rbf", tol=1e-4, solver="psmo")
    assert found.status == "optimal" and found.stats.solver == "psmo"
    assert_allclose(found.objective, best.objective, rtol=1e-4)
