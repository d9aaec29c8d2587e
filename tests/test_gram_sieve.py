"""Many samples behind a kernel: bands against the route over rows, CVXPY, and the kernel written out."""

import numpy as np
import pytest
from scipy import sparse
from typed import known

import ucm
from ucm import numerics
from ucm.data.gram import Gram
from ucm.data.kernels import Kernel
from ucm.data.tiles import Tiles
from ucm.language.models import nu_svm, psvm
from ucm.solvers import PSMO, ClipMDM, GramNewton, GramSieve, HingeBand

SMALL = {"coarse": 30, "stride": 3, "band": 40}


def sieve(**options):
    return GramSieve(GramNewton(), ClipMDM(), **{**SMALL, **options})


def samples(m=300, n=4, seed=0, shift=0.6):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(m) < 0.4, 1.0, -1.0)
    return rng.standard_normal((m, n)) + shift * y[:, None], y


@pytest.mark.parametrize("thin", [False, True], ids=["dense", "sparse"])
def test_tiles_are_the_kernel_written_out(thin):
    X, _ = samples(m=700, n=30)
    X[np.random.default_rng(1).random(X.shape) < 0.9] = 0.0
    X += 0.0 if thin else 50.0
    rows, c = np.arange(3, 640, 2), np.random.default_rng(2).standard_normal(319)
    K = np.exp(-0.3 * ((X[rows, None] - X[None]) ** 2).sum(axis=2))
    tiles = Tiles(sparse.csr_matrix(X) if thin else X, 0.3)
    for columns in (None, np.arange(0, 700, 3)):
        expected = c @ (K if columns is None else K[:, columns])
        assert np.abs(tiles.sums(rows, c, columns) - expected).max() <= 1e-12 * np.abs(c).sum()


def test_tiles_of_far_samples_are_zero_and_no_nan():
    X = np.array([[0.0], [1e3], [1e200]])
    found = Tiles(X[:2], 1.0).sums(np.array([0]), np.array([2.0]), None)
    assert found == pytest.approx([2.0, 0.0], abs=1e-300)


def test_tiles_keep_what_is_no_number():
    G, out = np.array([[np.nan, 0.0]]), np.zeros(2)
    numerics.rbf_sums(G, np.zeros(1), np.zeros(2), np.ones(1), 1.0, out)
    assert np.isnan(out[0]) and out[1] == 1.0


def test_tiles_refuse_indices_of_more_than_four_bytes():
    X = sparse.csr_matrix(([1.0], [2**31], [0, 1]), shape=(1, 2**31 + 1))
    with pytest.raises(ucm.DataError, match="at most 2147483647 features"):
        Tiles(X, 1.0)


def test_tiles_of_one_thread_where_one_is_asked_for(monkeypatch):
    monkeypatch.setattr("ucm.data.tiles._LONG", 1)
    monkeypatch.setattr("ucm.data.tiles.processors", lambda: 2)
    monkeypatch.setattr("ucm.data.tiles.ThreadPoolExecutor", None)
    tiles = Tiles(samples(m=30, n=3)[0], 0.3)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    tiles.sums(np.arange(30), np.ones(30), None)
    monkeypatch.delenv("OMP_NUM_THREADS")
    with pytest.raises(TypeError):
        tiles.sums(np.arange(30), np.ones(30), None)


def test_products_follow_the_coefficients():
    X, _ = samples()
    gram, rng = Gram(Kernel("rbf", 0.2), X), np.random.default_rng(0)
    K, c = Kernel("rbf", 0.2)(X, X), np.zeros(300)
    for _ in range(5):
        c[rng.integers(0, 300, 40)] = rng.standard_normal(40)
        assert np.abs(gram.follow(c) - K @ c).max() <= 1e-12
    before = gram.computed
    assert np.array_equal(gram.times(c), gram.follow(c))
    assert gram.computed == before  # the same product is not computed again


@pytest.mark.parametrize("solver", [sieve(), sieve(free=3)], ids=["newton", "faces"])
@pytest.mark.parametrize("gamma", [0.1, 3.0])
def test_bands_reach_the_optimum(solver, gamma):
    X, y = samples()
    options = {"kernel": "rbf", "gamma": gamma, "tol": 1e-9}
    for nu in (0.2, 0.6):
        found = ucm.solve(nu_svm(nu), X, y, solver=solver, **options)
        rows = ucm.solve(nu_svm(nu), X, y, solver="newton-gram", **options)
        assert found.status == rows.status == "optimal"
        assert found.objective == pytest.approx(rows.objective, rel=1e-8)
        assert found.b == pytest.approx(rows.b, abs=1e-6)
        assert found.certificate.violation <= 1e-9


@pytest.mark.parametrize("solver", ["newton-gram", "clip-mdm", sieve()], ids=str)
def test_a_set_near_to_0_against_its_size_is_solved_to_a_large_tolerance(solver):
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


@pytest.mark.parametrize(
    "U",
    [
        ucm.ReducedHull(ucm.pos, eta=0.05) - 0.5 * ucm.ReducedHull(ucm.neg, eta=0.02),
        ucm.Hull(ucm.signed, weights=ucm.CappedSimplex(0.03)),
    ],
    ids=repr,
)
def test_other_hulls_agree_with_cvxpy(U):
    X, y = samples(m=120)
    plan = ucm.compile(U, X, y, kernel="rbf", gamma=0.5, solver=sieve())
    assert plan.solve(tol=1e-8).status == "optimal"
    assert plan.verify().agrees


@pytest.mark.parametrize(
    "kernel", ["poly", "linear", lambda A, B: np.exp(-abs(A[:, None] - B[None]).sum(2))]
)
def test_every_kernel_and_sparse_rows(kernel):
    X, y = samples(m=150)
    whole = ucm.solve(nu_svm(0.55), X, y, kernel=kernel, solver="newton-gram", tol=1e-7)
    found = ucm.solve(nu_svm(0.55), X, y, kernel=kernel, solver=sieve(), tol=1e-7)
    assert found.objective == pytest.approx(whole.objective, rel=1e-6)
    if isinstance(kernel, str):
        thin = sparse.csr_matrix(X)
        found = ucm.solve(nu_svm(0.55), thin, y, kernel=kernel, solver=sieve(), tol=1e-7)
        assert found.objective == pytest.approx(whole.objective, rel=1e-6)


def test_it_is_taken_where_the_rows_of_the_support_vectors_have_no_room():
    X, y = samples(m=5000, n=2, shift=1.5)
    for size, memory, name in (
        (4999, 20, "newton-gram"), (5000, 200, "newton-gram"), (5000, 20, "gram-sieve")
    ):  # fmt: skip
        plan = ucm.compile(nu_svm(0.3), X[:size], y[:size], kernel="rbf", cache_size=memory)
        assert plan.solver.name == name
        assert f"route     {name}" in plan.explain()
    solution = plan.solve(tol=1e-3)
    assert solution.status == "optimal"
    assert solution.stats.solver == "gram-sieve"
    # a sample, one product with the support vectors, and what changed
    support = np.count_nonzero(known(solution.weights))
    assert solution.stats.kernel_operations <= 4.0 * support * 5000 + 4 * 3000**2


def test_a_store_of_one_megabyte():
    X, y = samples(m=600)
    options = {"kernel": "rbf", "gamma": 3.0, "tol": 1e-6}
    found = ucm.solve(nu_svm(0.3), X, y, solver=sieve(band=3000), cache_size=1, **options)
    rows = ucm.solve(nu_svm(0.3), X, y, solver="newton-gram", **options)
    assert found.status == "optimal"
    assert found.objective == pytest.approx(rows.objective, rel=1e-5)


def test_more_free_samples_than_a_band_holds():
    X, y = samples(m=600)
    options = {"kernel": "rbf", "gamma": 3.0, "tol": 1e-6}
    found = ucm.solve(
        nu_svm(0.6), X, y, cache_size=0.2, **options
    )  # a band of 114, where 500 are free
    rows = ucm.solve(nu_svm(0.6), X, y, **options)
    weights = known(rows.weights)
    assert np.count_nonzero((weights > 0.0) & (weights < 0.99 * weights.max())) > 300
    assert found.status == "optimal"
    assert found.objective == pytest.approx(rows.objective, rel=2e-6)


@pytest.mark.parametrize("band", [2, 10])
def test_a_band_without_a_sample_of_one_class_or_without_weight(band):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 4))
    y = np.where(X[:, 0] ** 2 + X[:, 1] + 0.5 * rng.standard_normal(600) > 0.7, 1.0, -1.0)
    options = {"kernel": "rbf", "cache_size": 0.01}
    found = ucm.solve(nu_svm(0.5), X, y, solver=sieve(coarse=20, stride=6, band=band), **options)
    assert found.status == "optimal"
    rows = ucm.solve(nu_svm(0.5), X, y, kernel="rbf", solver="newton-gram")
    assert found.objective == pytest.approx(rows.objective, rel=2e-6)


def test_it_stops_when_asked():
    X, y = samples()
    with pytest.warns(ucm.errors.ConvergenceWarning):
        found = ucm.solve(nu_svm(0.2), X, y, kernel="rbf", solver=sieve(), tol=1e-9, max_iter=1)
    assert found.status == "max_iter"
    assert found.certificate.dual <= found.certificate.primal


def test_a_solution_is_where_the_next_one_starts():
    X, y = samples()
    plan = ucm.compile(nu_svm(0.3), X, y, kernel="rbf", solver=sieve())
    first = plan.solve(tol=1e-8)
    again = plan.solve(tol=1e-8, warm_start=first)
    assert again.status == "optimal"
    assert again.stats.iterations <= 1


@pytest.mark.parametrize("wrong", [{"coarse": 1}, {"stride": 1}, {"band": 0}, {"free": -1}])
def test_options_out_of_range_are_refused(wrong):
    with pytest.raises(ucm.errors.ParameterError, match=r"GramSieve: .* is a whole number from"):
        sieve(**wrong)


@pytest.mark.parametrize(
    "function",
    [lambda A, B: A @ B.T + A[:, :1], lambda A, B: A @ np.triu(np.ones((4, 4))) @ B.T],
    ids=["of one side", "of a triangle"],
)
def test_a_kernel_that_is_not_symmetric_is_refused(function):
    X, y = samples()
    with pytest.raises(ucm.errors.DataError, match="symmetric"):
        ucm.compile(nu_svm(0.3), X, y, kernel=function)


# --- hinge losses ----------------------------------------------------------------------------------
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("gamma", [0.1, 3.0])
def test_bands_of_multipliers_reach_the_optimum(p, gamma):
    X, y = samples(m=240)
    options = {"kernel": "rbf", "gamma": gamma, "tol": 1e-7}
    for C in (0.3, 10.0):
        found = ucm.solve(psvm(p, C), X, y, solver=HingeBand(PSMO(), **SMALL), **options)
        pairs = ucm.solve(psvm(p, C), X, y, solver="psmo", **options)
        assert found.status == pairs.status == "optimal"
        assert found.objective == pytest.approx(pairs.objective, rel=1e-6)
        assert found.b == pytest.approx(pairs.b, abs=1e-2)


@pytest.mark.parametrize("p", [1.0, 1.5])
def test_bands_of_multipliers_agree_with_cvxpy(p):
    X, y = samples(m=70)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 70)
    plan = ucm.compile(
        psvm(p, 2.0), X, y, kernel="rbf", gamma=0.5, sample_weight=weights, class_weight="balanced",
        solver=HingeBand(PSMO(), **SMALL),
    )  # fmt: skip
    assert plan.solve(tol=1e-8).status == "optimal"
    assert plan.verify().agrees


def test_hinge_losses_take_it_from_many_samples_on():
    X, y = samples(m=10_000, n=2, shift=2.5)
    for size, name in ((9999, "psmo"), (10_000, "hinge-band")):
        plan = ucm.compile(psvm(1.0, 1.0), X[:size], y[:size], kernel="rbf")
        assert plan.solver.name == name
        assert f"route     {name}" in plan.explain()
    assert ucm.compile(psvm(1.0, 1.0), X, y, kernel="sigmoid").solver.name == "psmo"
    assert plan.solve(tol=1e-3).status == "optimal"
