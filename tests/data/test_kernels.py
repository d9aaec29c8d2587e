"""Kernels: the models over a Gram matrix against Clarabel, the linear route, scikit-learn's kernels."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from conftest import Loader
from numpy.testing import assert_allclose
from scipy import sparse as sp
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import pairwise_kernels
from typed import known, scikit

import ucm
from ucm import models
from ucm.data.gram import Gram
from ucm.data.kernels import Kernel, kernel_of
from ucm.errors import brief
from ucm.language.models import psvm
from ucm.solvers.smo.solver import PairUpdates

MODELS = {
    "nu_svm": models.nu_svm(0.3),
    "mm_mpm": models.mm_mpm(0.3),
    "mm_fda": models.mm_fda(0.3),
    "l2_nu_svm": models.l2_nu_svm(0.15),
    "biased_l2_nu_svm": models.biased_l2_nu_svm(0.3, 0.3),
    "kl_svm": models.kl_svm(0.5),
}


def sample(m: int = 70, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    X, y = scikit.make_classification(m, 5, n_informative=3, flip_y=0.1, random_state=seed)
    return (X - X.mean(0)) / X.std(0), 2.0 * y - 1.0


def rbf(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    gamma = 1.0 / (X.shape[1] * X.var())
    return np.exp(-gamma * ((X[:, None] - Z[None]) ** 2).sum(-1))


def distance(name: str, K: np.ndarray, y: np.ndarray) -> float:
    """The optimum over coefficients `c` of the samples, `min sqrt(c'K c)`, written by hand."""
    m = y.size
    plus, minus = y > 0, y < 0
    kappa = dict(MODELS[name].params())
    if name in ("mm_mpm", "mm_fda"):
        radius = kappa["kappa"]
        u = {side: cp.Variable(int(side_rows.sum())) for side, side_rows in (("+", plus), ("-", minus))}
        parts, constraints = [], []
        for side, rows, sign in (("+", plus, 1.0), ("-", minus, -1.0)):
            k = int(rows.sum())
            centred = (np.eye(k) - 1.0 / k) / np.sqrt(k)
            place = np.zeros((m, k))
            place[np.flatnonzero(rows), np.arange(k)] = 1.0
            parts.append(place @ (sign * np.ones(k) / k + centred @ u[side]))
            if name == "mm_mpm":
                constraints.append(cp.norm(u[side]) <= radius)
        if name == "mm_fda":
            constraints.append(cp.norm(cp.hstack([u["+"], u["-"]])) <= radius)
        c = parts[0] + parts[1]
        unit = 1.0
    else:
        mass = 0.5 if name in ("l2_nu_svm", "kl_svm") else 1.0
        s = cp.Variable(m, nonneg=True)  # s = m q
        constraints = [cp.sum(s[plus]) == mass * m, cp.sum(s[minus]) == mass * m]
        if name == "nu_svm":
            constraints.append(s <= 2.0 / kappa["nu"])
        elif name == "l2_nu_svm":
            constraints.append(cp.norm(s) <= kappa["kappa"] * m)
        elif name == "biased_l2_nu_svm":
            constraints += [
                cp.norm(s[plus]) <= kappa["kappa_pos"] * m,
                cp.norm(s[minus]) <= kappa["kappa_neg"] * m,
            ]
        else:  # sum q log(m q) <= -log alpha
            constraints.append(cp.sum(-cp.entr(s)) / m <= -np.log(kappa["alpha"]))
        c, unit = cp.multiply(y, s), 1.0 / m
    problem = cp.Problem(cp.Minimize(cp.quad_form(c, cp.psd_wrap(K))), constraints)
    tight = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
    problem.solve(solver="CLARABEL", **tight)
    return -unit * float(np.sqrt(problem.value))


@pytest.mark.parametrize("name", MODELS)
def test_rbf_against_clarabel_on_the_gram(name: str) -> None:
    X, y = sample()
    found = ucm.solve(MODELS[name], X, y, kernel="rbf", tol=1e-8)
    assert found.status == "optimal"
    assert_allclose(found.objective, distance(name, rbf(X, X), y), rtol=1e-6)
    assert found.w is None
    assert found.x is None
    c = known(found.coefficients)
    assert_allclose(c @ rbf(X, X) @ c, 1.0, rtol=1e-9)
    assert_allclose(found.decision(X[:7]), rbf(X, X)[:7] @ c + known(found.b), atol=1e-10)


@pytest.mark.parametrize("dataset", ["heart", "ionosphere", "sonar"])
@pytest.mark.parametrize("name", ["nu_svm", "mm_mpm", "l2_nu_svm"])
def test_distances_on_the_papers_data_agree_with_cvxpy(name: str, dataset: str, shared_data: Loader) -> None:
    X, y = shared_data(dataset)
    X, y = np.asarray(X.todense() if sp.issparse(X) else X), y.astype(float)
    keep = np.random.default_rng(0).permutation(y.size)[:150]
    X, y = X[keep], y[keep]
    found = ucm.solve(MODELS[name], X, y, kernel="rbf", tol=1e-7)
    assert_allclose(found.objective, distance(name, rbf(X, X), y), rtol=1e-6)


@pytest.mark.parametrize("name", [*MODELS, "coherent_mm_mpm", "coherent_mm_fda"])
def test_the_linear_kernel_is_the_linear_route(name: str) -> None:
    X, y = sample(seed=3)
    model = MODELS[name] if name in MODELS else getattr(models, name)(0.5)
    if name == "nu_svm":
        model = models.nu_svm(0.75)
    if name == "l2_nu_svm":
        model = models.l2_nu_svm(0.125)
    if name == "biased_l2_nu_svm":
        model = models.biased_l2_nu_svm(0.2, 0.2)
    if name == "kl_svm":
        model = models.kl_svm(0.85)
    # a gap of t leaves sqrt(2 t) in w where the set is round
    tol = 1e-13 if name == "mm_fda" else 1e-10
    plain = ucm.solve(model, X, y, tol=tol)
    if plain.status == "zero_in_set":
        pytest.fail(f"{name}: choose a smaller set")
    through = ucm.solve(model, X, y, kernel="linear", tol=tol)
    assert_allclose(through.decision(X), plain.decision(X), atol=1e-6)
    assert_allclose(through.w, plain.w, atol=1e-6)
    assert_allclose(X.T @ through.coefficients, plain.w, atol=1e-6)


@pytest.mark.parametrize("p", [1.0, 1.1, 1.5, 2.0, 3.0])
def test_the_linear_kernel_of_a_psvm(p: float) -> None:
    """Each bound is a sum of m = 70 products whose absolute values add to some 3 times the objective: its
    rounding is up to 3 m eps = 5e-14, which a tolerance of 1e-13 does not leave room for."""
    X, y = sample()
    plain = ucm.solve(psvm(p, 1.0), X, y, tol=1e-12)
    through = ucm.solve(psvm(p, 1.0), X @ X.T, y, kernel="precomputed", tol=1e-12)
    assert through.stats.solver == "smo"
    # |w - w*|^2 <= 2 tol objective: at worst 5e-5 in a decision with |x| <= 4.6; met to 7e-7
    assert_allclose(through.decision(X @ X.T), plain.decision(X), atol=1e-5)
    same = ucm.compile(psvm(p, 1.0), X, y, kernel="linear")
    assert same.solver.name == ("prox-alm" if p < 2.0 else "prox-newton")  # the features are there
    assert_allclose(same.solve(tol=1e-12).decision(X), plain.decision(X), atol=1e-12)


@pytest.mark.parametrize("model", [models.coherent_mm_mpm(0.5), models.coherent_mm_fda(0.5)], ids=repr)
def test_ellipsoids_within_hulls_against_clarabel(model: Any) -> None:
    X, y = sample(30)
    plan = ucm.compile(model, X, y, kernel="rbf")
    assert plan.solve(tol=1e-8).status == "optimal"
    assert plan.verify().difference <= 1e-6


def test_the_whole_gram_is_never_formed_beyond_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = sample(500)
    limit = 0.5  # of the 1.9 MB
    largest = 0
    inner = PairUpdates.__init__

    def watched(self: PairUpdates, *arguments: Any) -> None:
        nonlocal largest
        inner(self, *arguments)
        largest = max(largest, self.arrays["store"].nbytes)

    monkeypatch.setattr(PairUpdates, "__init__", watched)
    plain = ucm.solve(psvm(1.5, 1.0), X, y, kernel="rbf", tol=1e-7)
    whole, largest = largest, 0
    tight = ucm.solve(psvm(1.5, 1.0), X, y, kernel="rbf", tol=1e-7, cache_size=limit)
    assert tight.status == "optimal" and 0 < largest <= limit * 2**20 < whole
    assert_allclose(tight.objective, plain.objective, rtol=1e-6)
    for name, model in MODELS.items():
        if name == "nu_svm":  # reduced hulls take rows of the matrix as needed
            rows = ucm.compile(model, X, y, kernel="rbf", cache_size=limit)
            assert rows.solver.name == "smo" and rows.solve().status == "optimal"
            continue
        with pytest.raises(ucm.ParameterError, match=r"cache_size allows.*Nystroem"):
            ucm.compile(model, X, y, kernel="rbf", cache_size=limit)


def test_where_0_lies_in_the_set_coordinates_take_over() -> None:
    X, y = sample(120)
    X[np.flatnonzero(y > 0)[:30]] = X[np.flatnonzero(y < 0)[:30]]  # in both classes
    plan = ucm.compile(models.nu_svm(0.6), X, y, kernel="rbf")
    assert plan.solver.name == "smo" and "the solve decides" in plan.explain()
    assert plan.solve().status == "optimal" and plan.verify().agrees
    plan = ucm.compile(models.nu_svm(0.4), X, y, kernel="linear")
    assert plan.solver.name == "smo"
    beyond = plan.solve()
    features = ucm.solve(models.nu_svm(0.4), X, y)
    assert beyond.objective > 0.0 and beyond.stats.solver == features.stats.solver
    assert beyond.objective == pytest.approx(features.objective, rel=1e-6)
    assert plan.solve().objective == beyond.objective  # from the coordinates at once
    stays_inside = ucm.solve(models.nu_svm(0.4), X, y, kernel="linear", solver="smo")
    assert stays_inside.status == "zero_in_set"


@pytest.mark.parametrize("name", ["rbf", "poly", "linear", "sigmoid"])
def test_sums_of_rows_and_entries(name: str) -> None:
    X, _ = sample()
    kernel, _ = kernel_of(name, X, gamma=0.3)
    K, rng = kernel(X, X), np.random.default_rng(0)
    for table in (X, sp.csr_matrix(X)):
        gram = Gram(kernel, table)
        for _ in range(6):
            rows = rng.permutation(70)[: rng.integers(1, 40)]
            c = rng.standard_normal(rows.size)
            assert_allclose(gram.sums(rows, c), c @ K[rows], atol=1e-12)
            assert_allclose(gram.sums(rows, c, rows[:3]), c @ K[rows][:, rows[:3]], atol=1e-12)
            assert_allclose(gram.between(rows, rows[:5]), K[np.ix_(rows, rows[:5])], atol=1e-14)


def test_products_follow_the_coefficients() -> None:
    X, _ = sample(300)
    gram, rng = Gram(Kernel("rbf", 0.2), X), np.random.default_rng(0)
    K, c = Kernel("rbf", 0.2)(X, X), np.zeros(300)
    for _ in range(5):
        c[rng.integers(0, 300, 40)] = rng.standard_normal(40)
        assert np.abs(gram.follow(c) - K @ c).max() <= 1e-12
    before = gram.computed
    assert np.array_equal(gram.times(c), gram.follow(c))
    assert gram.computed == before  # the same product is not computed again


def test_intersections_and_sums_take_kernels() -> None:
    X, y = sample()
    U = ucm.Ellipsoid(ucm.pos.mean, ucm.pos.cov, 0.5) & ucm.Hull(ucm.pos)
    plan = ucm.compile(U - 0.5 * ucm.Hull(ucm.neg) - 0.5 * ucm.neg.mean, X, y, kernel="rbf")
    assert plan.solve().status == "optimal"
    assert plan.verify()
    assert "rbf kernel" in plan.explain()


# --- the kernels themselves ------------------------------------------------------------------------
@pytest.mark.parametrize("thin", [False, True])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("linear", {}),
        ("rbf", {"gamma": 0.3}),
        ("poly", {"gamma": 0.3, "degree": 2, "coef0": 1.0}),
        ("sigmoid", {"gamma": 0.1, "coef0": 0.5}),
    ],
)
def test_kernel_values_agree_with_scikit_learn(name: str, options: dict, thin: bool) -> None:
    A, B = (np.random.default_rng(k).standard_normal((6 + k, 4)) for k in range(2))
    kernel, _ = kernel_of(name, A, **options)
    if thin:
        A, B = sp.csr_matrix(A), sp.csr_matrix(B)
    assert_allclose(kernel(A, B), pairwise_kernels(A, B, metric=name, **options), atol=1e-12)
    assert_allclose(kernel.diagonal(A), np.diagonal(kernel(A, A)), atol=1e-12)


def test_gamma_is_that_of_scikit_learn() -> None:
    X = np.random.default_rng(0).standard_normal((30, 4)) * 3.0
    assert_allclose(kernel_of("rbf", X)[0].gamma, 1.0 / (4 * X.var()))
    assert_allclose(kernel_of("rbf", sp.csr_matrix(X))[0].gamma, 1.0 / (4 * X.var()))
    assert kernel_of("rbf", X, gamma="auto")[0].gamma == 0.25


def test_callable_and_precomputed_are_the_named_one() -> None:
    X, y = sample()
    K = rbf(X, X)
    gamma = 1.0 / (X.shape[1] * X.var())

    def called(A: Any, B: Any) -> np.ndarray:
        return np.exp(-gamma * ((A[:, None] - B[None]) ** 2).sum(-1))

    for model in (models.nu_svm(0.3), psvm(1.5, 1.0)):
        named = ucm.solve(model, X, y, kernel="rbf", tol=1e-9)
        by_call = ucm.solve(model, X, y, kernel=called, tol=1e-9)
        given = ucm.solve(model, K, y, kernel="precomputed", tol=1e-9)
        # a gap of 1e-9 leaves sqrt(2e-9) in w
        assert_allclose(by_call.decision(X), named.decision(X), atol=2e-4)
        assert_allclose(given.decision(K), named.decision(X), atol=2e-4)


def test_a_rank_deficient_gram() -> None:
    X, y = sample()
    twice, labels = np.vstack([X, X]), np.r_[y, y]
    one = ucm.solve(models.mm_fda(0.3), X, y, kernel="rbf", tol=1e-9)
    two = ucm.solve(models.mm_fda(0.3), twice, labels, kernel="rbf", tol=1e-9)
    assert_allclose(two.objective, one.objective, rtol=1e-7)
    assert_allclose(two.decision(X), one.decision(X), atol=1e-5)


# --- bad input -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "gauss"}, "kernel: expected None, a callable or one of linear"),
        ({"kernel": "rbf", "gamma": 0.0}, "gamma is .* a positive number, got 0"),
        ({"kernel": "rbf", "gamma": -1.0}, "gamma is .* a positive number"),
        ({"kernel": "rbf", "gamma": "wide"}, 'gamma is "scale", "auto" or a positive'),
        ({"kernel": "rbf", "gamma": True}, "gamma is .* number, got True"),
        ({"kernel": "poly", "degree": 1.5}, "degree is a whole number"),
        ({"kernel": "poly", "coef0": np.nan}, "coef0 is a finite number"),
        ({"kernel": "rbf", "cache_size": 0}, "cache_size is a positive number"),
        ({"kernel": "rbf", "sigma": 1.0}, "unknown option sigma"),
        ({"gamma": 1.0}, "unknown option gamma.*only a kernel"),
    ],
    ids=repr,
)
def test_bad_kernel_options_are_refused(options: dict, message: str) -> None:
    X, y = sample()
    with pytest.raises(ucm.ParameterError, match=message):
        ucm.compile(models.nu_svm(0.3), X, y, **options)


def test_a_gram_matrix_that_does_not_fit() -> None:
    X, y = sample()
    with pytest.raises(ucm.ParameterError, match=r"cache_size allows.*Nystroem"):
        ucm.compile(models.kl_svm(0.5), X, y, kernel="rbf", cache_size=0.001)
    plan = ucm.compile(models.nu_svm(0.3), X, y, kernel="rbf", cache_size=0.001)
    assert plan.solver.name == "smo" and plan.solve().status == "optimal"


def test_sets_without_a_meaning_in_feature_space_are_refused() -> None:
    X, y = sample()
    for model, word in (
        (ucm.Ball(ucm.pos.mean, 0.1, p=1) - ucm.Hull(ucm.neg), "Ball"),
        (ucm.Hull(ucm.pos) - ucm.Point(np.ones(5)), "in the features"),
        (np.eye(5) @ ucm.Hull(ucm.pos) - ucm.Hull(ucm.neg), "in the features"),
        (ucm.Ellipsoid(ucm.pos.mean, np.eye(5), 0.1) - ucm.Hull(ucm.neg), "in the features"),
        (ucm.RobustMargin(models.nu_svm(0.3), norm=1), "Euclidean norm only"),
        (ucm.Hinge() + ucm.L1(), "L1.. is written in the features"),
    ):
        with pytest.raises(ucm.CompositionError, match=word):
            ucm.compile(model, X, y, kernel="rbf")


def test_sparse_samples_far_from_0_lose_no_digits() -> None:
    """Their inner products are 1e5 and more times the exponents of the kernel."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(120) % 2, 1.0, -1.0)
    X = np.zeros((120, 6))
    X[np.arange(120), np.arange(120) // 2 % 6] = 1000.0 + rng.standard_normal(120) + y
    model = ucm.models.nu_svm(0.4)
    far = ucm.solve(model, sp.csr_matrix(X), y, kernel="rbf", gamma=1.0, solver="smo")
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))
    exact = ucm.solve(model, K, y, kernel="precomputed", solver="smo")
    assert far.status == exact.status == "optimal"
    assert far.objective == pytest.approx(exact.objective, rel=1e-8)


def test_dense_samples_far_from_0_lose_no_digits() -> None:
    """A shift of all samples, exact in double precision, changes no distance, so no value of the kernel."""
    X, y = sample(40)
    X, model = np.round(X * 2.0**20) / 2.0**20, 2.0 * ucm.Hinge(2) + 0.5 * ucm.L2()
    near = ucm.solve(model, X, y, kernel="rbf", gamma=3.0, tol=1e-9)
    far = ucm.solve(model, X + 2.0**24, y, kernel="rbf", gamma=3.0, tol=1e-9)
    assert near.status == far.status == "optimal"
    assert far.objective == pytest.approx(near.objective, rel=1e-8)
    assert_allclose(far.decision(X + 2.0**24), near.decision(X), atol=1e-6)


def test_bad_gram_matrices_are_refused() -> None:
    X, y = sample()
    K = rbf(X, X)
    with pytest.raises(ucm.DataError, match=r"\(m, m\) matrix.*got shape"):
        ucm.compile(models.nu_svm(0.3), K[:, :-1], y, kernel="precomputed")
    lopsided = K.copy()
    lopsided[0, 1] += 0.5
    with pytest.raises(ucm.DataError, match="not symmetric"):
        ucm.compile(psvm(1.5, 1.0), lopsided, y, kernel="precomputed")
    with pytest.raises(ucm.DataError, match="indefinite"):
        ucm.compile(models.nu_svm(0.3), K - 0.5 * np.eye(y.size), y, kernel="precomputed")
    with pytest.raises(ucm.DataError, match="returned shape"):
        ucm.compile(psvm(1.5, 1.0), X, y, kernel=lambda A, B: np.ones(3))
    with pytest.raises(ucm.DataError, match="NaN or inf"):
        ucm.compile(psvm(1.5, 1.0), X, y, kernel=lambda A, B: np.full((len(A), len(B)), np.nan))
    with pytest.raises(ucm.DataError, match="callable failed"):
        ucm.compile(psvm(1.5, 1.0), X, y, kernel=lambda A, B: A + B[:3, :2])
    found = ucm.solve(models.nu_svm(0.3), K, y, kernel="precomputed")
    with pytest.raises(ucm.DataError, match=f"all {y.size} samples of the fit"):
        found.decision(K[:, :-1])


def test_the_factor_of_a_linear_kernel_has_the_rank_of_the_samples() -> None:
    X, _ = sample()
    for name in ("linear", "rbf", "poly"):
        kernel, _ = kernel_of(name, X)
        F = Gram(kernel, X).factor()
        assert_allclose(F @ F.T, kernel(X, X), atol=1e-11)
    assert Gram(Kernel("linear"), X).factor().shape == (70, np.linalg.matrix_rank(X))


@pytest.mark.parametrize("density", [0.02, 0.3, 1.0])
def test_gram_entries_agree_with_the_formula(density: float) -> None:
    draw = np.random.default_rng(0)
    X = draw.standard_normal((90, 30)) * (draw.random((90, 30)) < density)
    expected = np.exp(-0.1 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    for table in (X, sp.csr_matrix(X)):
        gram = Gram(Kernel("rbf", gamma=0.1), table)
        rows = np.array([5, 80, 3])
        c = draw.standard_normal(90)
        assert_allclose(gram.times(c), expected @ c, atol=1e-12)
        assert_allclose(gram.between(rows, rows), expected[np.ix_(rows, rows)], atol=1e-14)
        assert_allclose(gram.matrix(), expected, atol=1e-14)


def of_low_rank(X: np.ndarray, rank: int, gamma: float) -> np.ndarray:
    """`K[:, L] K_LL^+ K[L, :]`, written by hand."""
    K = pairwise_kernels(X, metric="rbf", gamma=gamma)
    chosen = np.random.RandomState(0).permutation(len(X))[:rank]
    return K[:, chosen] @ np.linalg.pinv(K[np.ix_(chosen, chosen)]) @ K[chosen]


@pytest.mark.parametrize("model", [models.nu_svm(0.4), models.psvm(1.0, 0.5), models.mm_mpm(0.2)])
def test_the_model_of_low_rank_is_that_of_its_gram_matrix(model: Any) -> None:
    X, y = sample()
    low = ucm.solve(model, X, y, kernel="rbf", gamma=0.2, kernel_approx=25, tol=1e-8)
    K = of_low_rank(X, 25, 0.2)
    found = ucm.solve(model, 0.5 * (K + K.T), y, kernel="precomputed", tol=1e-8)
    assert_allclose(low.objective, found.objective, rtol=1e-6)
    assert_allclose(low.decision(X), found.decision(K), atol=2e-4)
    assert "Nystroem(gamma=0.2, n_components=25, random_state=0)" in str(low.certificate)
    assert str(found.certificate).endswith("precomputed kernel, taken as positive semidefinite")


def test_features_in_place_of_a_kernel_take_any_model() -> None:
    X, y = sample()
    some = Nystroem(gamma=0.2, n_components=20, random_state=3)
    options: Any = {"kernel_approx": some}
    lasso = ucm.Logistic() + ucm.L1()
    for model in (lasso, ucm.RobustMargin(models.nu_svm(0.4), norm=1.0)):
        plan = ucm.compile(model, X, y, **options)
        assert plan.verify().agrees and "features  Nystroem(gamma=0.2, n_comp" in plan.explain()
    assert not hasattr(some, "components_")  # a copy was fitted
    features = ucm.compile(lasso, X, y, **options).data.approx
    assert features is not None
    plain = ucm.solve(lasso, features.transform(X), y)
    assert_allclose(ucm.solve(lasso, X, y, **options).w, plain.w, atol=1e-6)
    guarantee = ucm.compile(models.psvm(1.0, 0.5), X, y, **options).guarantees(None, X, y)
    assert len(guarantee) > 0


def test_all_samples_give_the_kernel_itself_and_few_a_start() -> None:
    X, y = sample()
    options: Any = {"kernel": "rbf", "gamma": 0.2}
    for model in (models.nu_svm(0.4), models.psvm(1.0, 0.5)):
        exact = ucm.solve(model, X, y, **options)
        every = ucm.solve(model, X, y, kernel_approx=1000, **options)
        assert_allclose(exact.objective, every.objective, rtol=1e-5)
        low = ucm.solve(model, X, y, kernel_approx=25, **options)
        again = ucm.solve(model, X, y, warm_start=low, **options)
        assert again.status == "optimal"
        assert_allclose(again.objective, exact.objective, rtol=2e-6)
        assert abs(low.objective / exact.objective - 1.0) > 1e-5


def test_random_features_approximate_the_kernel() -> None:
    X, y = sample()
    waves = RBFSampler(gamma=0.2, n_components=1000, random_state=0)
    plan = ucm.compile(models.nu_svm(0.4), X, y, kernel_approx=waves)
    phi = plan.data.X
    off = phi @ phi.T - pairwise_kernels(X, metric="rbf", gamma=0.2)
    assert np.sqrt(np.mean(off**2)) < 2.0 / np.sqrt(1000.0)
    assert plan.data.approx is not None
    assert_allclose(plan.data.approx.transform(sp.csr_matrix(X)), phi, atol=1e-12)
    found = plan.solve()
    assert_allclose(found.decision(X), phi @ found.w + found.b)
    assert brief(waves) in str(found.certificate)
    again = ucm.solve(models.nu_svm(0.4), X, y, kernel_approx=waves.fit(X[:50]))
    assert again.objective == found.objective  # a fitted one is used as it is


def test_features_in_place_of_a_kernel_over_rows_and_in_estimators() -> None:
    X, y = sample(200)
    options: Any = {"kernel": "rbf", "gamma": 0.2, "kernel_approx": 20}
    rows = ucm.open_rows(X, y, block=64)
    for model in (models.nu_svm(0.5), models.psvm(1.0, 0.5), models.coherent_mm_mpm(0.2)):
        stored, memory = ucm.solve(model, rows, **options), ucm.solve(model, X, y, **options)
        assert stored.certificate.kernel == memory.certificate.kernel != ""
        assert_allclose(stored.objective, memory.objective, rtol=5e-6)
        assert_allclose(stored.decision(X), memory.decision(X), atol=5e-3)
    waves: Any = {"kernel_approx": RBFSampler(gamma=0.2, n_components=30, random_state=0)}
    stored, memory = (ucm.solve(models.nu_svm(0.5), *data, **waves) for data in ((rows,), (X, y)))
    assert stored.certificate.kernel == memory.certificate.kernel
    assert_allclose(stored.objective, memory.objective, rtol=5e-6)
    for data in ((rows,), (X, y)):
        fit = ucm.Classifier(models.nu_svm(0.5), **waves).fit(*data)
        assert_allclose(fit.decision_function(X), memory.decision(X), atol=5e-3)
        by_folds = ucm.ClassifierCV(ucm.Classifier(models.nu_svm(0.5), **waves), param_range=[0.5, 0.6], cv=2)
        assert np.isfinite(by_folds.fit(*data).cv_results_["mean_test_score"]).all()
    path = ucm.path(models.nu_svm(0.5), rows, nu=[0.5, 0.6], **options)
    nu = ucm.solve(models.nu_svm(0.5), X, y, **options)
    assert_allclose(path[0].objective, nu.objective, rtol=5e-6)
    assert_allclose(path[0].decision(X), nu.decision(X), atol=5e-3)
    losses = ucm.path(ucm.Logistic() + ucm.Param("lam", 1.0) * ucm.L1(), X, y, lam=[5.0, 1.0], **options)
    for lam, found in zip((5.0, 1.0), losses, strict=True):
        alone = ucm.solve(ucm.Logistic() + lam * ucm.L1(), X, y, **options)
        assert_allclose(found.decision(X), alone.decision(X), atol=1e-2)
    here = ucm.Classifier(models.nu_svm(0.5), **options).fit(X, y)
    there = ucm.Classifier(models.nu_svm(0.5), **options).fit(rows)
    assert not hasattr(here, "coef_") and np.mean(here.predict(X) == there.predict(X)) > 0.98
    assert np.array_equal(here.predict(rows), here.predict(X))
    exact = ucm.Classifier(models.nu_svm(0.5), kernel="rbf", gamma=0.2).fit(X, y)
    assert np.array_equal(exact.predict(rows), exact.predict(X))
    search = ucm.ClassifierCV(ucm.Classifier(models.nu_svm(0.5), **options), param_range=3, cv=2).fit(X, y)
    assert search.best_estimator_.kernel_approx == 20
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    Xi, yi = scikit.load_iris(return_X_y=True)
    several = ucm.Classifier(kernel_approx=Nystroem(gamma=0.25, n_components=30)).fit(Xi, yi)
    assert several.score(Xi, yi) > 0.9
    assert several.decision_function(Xi).shape == (150, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(
            (
                {"kernel": "rbf", "kernel_approx": wrong},
                "kernel_approx is how many samples.*got.*500",
            )
            for wrong in (0, 2.5, True, "nystroem")
        ),
        ({"kernel_approx": 5}, "unknown option kernel_approx without a kernel"),
        (
            {"kernel": "linear", "kernel_approx": 5},
            "got linear kernel.*leave kernel_approx out",
        ),
        ({"kernel": "poly", "kernel_approx": RBFSampler()}, "RBFSampler.*holds its kernel itself"),
        ({"kernel": pairwise_kernels, "kernel_approx": 5}, "rbf.*got the kernel pairwise.*a transformer"),
        ({"kernel": "sigmoid", "coef0": 1.0, "kernel_approx": 50}, "got the eigenvalue -.*rbf"),
    ],
)
def test_no_features_in_place_of_a_kernel(options: dict, message: str) -> None:
    X, y = sample()
    for rows in (X, ucm.open_rows(X, y)):
        labels = y if rows is X else None
        with pytest.raises(ucm.UCMError, match=message):
            ucm.solve(models.nu_svm(0.4), rows, labels, **options)
    with pytest.raises(ucm.UCMError, match=message):
        ucm.Classifier(models.nu_svm(0.4), **options).fit(X, y)
    with pytest.raises(ucm.ParameterError, match=r"precomputed kernel.*leave kernel_approx out"):
        ucm.solve(models.nu_svm(0.4), X @ X.T, y, kernel="precomputed", kernel_approx=5)
    U = ucm.Ball(np.ones(5), 0.1) - ucm.Hull(ucm.neg)
    with pytest.raises(ucm.CompositionError, match="written in the features"):
        ucm.solve(U, X, y, kernel="rbf", kernel_approx=5)


def test_kernel_features_ignore_rows_of_weight_zero() -> None:
    X, y = sample(60)
    weights = np.arange(60) % 3 * 1.0
    X[::3] += 50.0
    options: Any = {"kernel": "rbf", "kernel_approx": 60}
    memory = ucm.solve(models.nu_svm(0.4), X, y, sample_weight=weights, **options)
    rows = ucm.open_rows(X, y, block=16, sample_weight=weights)
    stored = ucm.solve(models.nu_svm(0.4), rows, **options)
    assert stored.certificate.kernel == memory.certificate.kernel
    assert_allclose(stored.objective, memory.objective, rtol=5e-6)


@pytest.mark.parametrize("thin", [False, True])
def test_rows_that_features_are_made_of_are_named(thin: bool) -> None:
    X, y = sample(5000)
    X[4010, 1] = np.nan  # one of those that are drawn
    rows = ucm.open_rows(sp.csr_matrix(X) if thin else X, y, block=1000)
    with pytest.raises(ucm.DataError, match=r"entry \(4010, 1\) is nan"):
        ucm.solve(models.nu_svm(0.4), rows, kernel="rbf", kernel_approx=5)


def test_a_set_that_holds_0_where_the_gram_matrix_does_not_fit() -> None:
    X, y = sample(100)
    X[50:], y[50:] = X[:50], -y[:50]
    options: Any = {"kernel": "rbf", "gamma": 0.5, "cache_size": 0.02}
    found = ucm.solve(models.nu_svm(0.9), X, y, **options)
    assert found.status == "zero_in_set"
    assert "need the whole Gram matrix" in found.message
    plan = ucm.compile(models.psvm(1.0, 1.0), X, y, **options)
    assert "cache_size holds 52 rows of its matrix" in plan.explain()


# --- balls and losses of every kind ---------------------------------------------------------------
BALLS = {
    "hulls and a ball": models.nu_svm(0.5) + ucm.Ball(0, ucm.Param("r", 0.05)),
    "a ball around a mean": ucm.Ball(ucm.pos.mean, 0.1) - ucm.Hull(ucm.neg, weights=ucm.NormBall(0.3)),
    "Wasserstein": ucm.Wasserstein(ucm.pos, 0.1) - ucm.Wasserstein(ucm.neg, 0.1),
    "Gelbrich": ucm.Gelbrich(ucm.pos, 0.1, 0.3) - ucm.neg.mean,
    "intersection": (ucm.Hull(ucm.pos) & ucm.Ball(ucm.pos.mean, 0.3)) - ucm.neg.mean,
}


@pytest.mark.parametrize("name", BALLS)
def test_a_euclidean_ball_takes_kernels(name: str) -> None:
    X, y = sample(50)
    plan = ucm.compile(BALLS[name], X, y, kernel="rbf")
    solution = plan.solve()
    assert solution.status == "optimal" and plan.verify(solution).agrees
    features = Gram(kernel_of("rbf", X)[0], X).spectral()  # the same samples with coordinates
    with_coordinates = ucm.solve(BALLS[name], features, y, solver="clarabel")
    assert solution.objective == pytest.approx(with_coordinates.objective, rel=1e-5)
    assert_allclose(solution.decision(X), with_coordinates.decision(features), atol=2e-3)


LOSSES = {
    "logistic": ucm.Logistic() + 0.5 * ucm.L2(),
    "exponential": ucm.Exponential() + 0.5 * ucm.L2(),
    "Huber": ucm.HuberHinge() + 0.3 * ucm.L2(),
    "two losses": 2 * ucm.Logistic() + ucm.Hinge() + 0.5 * ucm.L2(),
    "the norm itself": ucm.Logistic() + ucm.Norm(2),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_with_the_euclidean_norm_take_kernels(name: str) -> None:
    X, y = sample(50)
    plan = ucm.compile(LOSSES[name], X, y, kernel="rbf")
    solution = plan.solve()
    assert solution.status == "optimal" and plan.verify(solution).agrees
    assert plan.certify(coefficients=solution.coefficients, b=solution.b).relative_gap <= 0.05
    assert plan.solve(warm_start=solution).objective == pytest.approx(solution.objective, rel=2e-6)
    features = Gram(kernel_of("rbf", X)[0], X).spectral()
    with_coordinates = ucm.solve(LOSSES[name], features, y, solver="clarabel")
    assert solution.objective == pytest.approx(with_coordinates.objective, rel=2e-6)
    assert_allclose(solution.decision(X), with_coordinates.decision(features), atol=5e-3)


def test_kernel_logistic_regression_is_that_of_the_feature_space() -> None:
    X, y = sample(60)
    ours = ucm.Classifier(ucm.Logistic() + 0.5 * ucm.L2(), kernel="rbf").fit(X, y)
    features = Gram(kernel_of("rbf", X)[0], X).spectral()
    theirs = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000).fit(features, y)
    assert_allclose(ours.decision_function(X), theirs.decision_function(features), atol=1e-3)
    assert_allclose(ours.predict_proba(X), theirs.predict_proba(features), atol=1e-3)


def test_dca_takes_kernels() -> None:
    X, y = sample(50)
    plan = ucm.compile(ucm.Ramp(1) + 0.5 * ucm.L2(), X, y, kernel="rbf")
    solution = plan.solve()
    assert solution.status in ("local", "stationary") and plan.verify(solution).agrees


def test_sparse_samples_become_dense_at_their_first_use() -> None:
    """A linear hinge model states its dual problem, and is mostly solved without it."""
    X = sp.random_array((40, 8), density=0.5, format="csr", rng=np.random.default_rng(0))
    plan = ucm.compile(ucm.SquaredHinge() + 0.5 * ucm.L2(), X, np.resize([1, -1, 1], 40))
    [dual] = plan.alternatives
    assert "X" not in vars(dual.form.gram)
    assert isinstance(dual.form.gram.X, np.ndarray) and (X.toarray() == dual.form.gram.X).all()
