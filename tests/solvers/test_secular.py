"""Closed forms for ellipsoids, against the twin, the augmented Lagrangian and a scalar root by bisection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bundled import load
from scipy import sparse
from scipy.optimize import brentq

import ucm
from ucm import neg, pos
from ucm.errors import ParameterError
from ucm.solvers import APG, SSNAL, TrustRegionSecular

FDA, MPM = ucm.models.mm_fda, ucm.models.mm_mpm


def samples(m: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(m) % 2 == 0, 1.0, -1.0)
    return rng.standard_normal((m, n)) * rng.uniform(0.2, 2.0, n) + 0.4 * y[:, None], y


@pytest.mark.parametrize("share", [0.01, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("make", [FDA, MPM])
@pytest.mark.parametrize("shape", [(60, 5), (200, 60), (20, 40)])
def test_scalar_roots_and_conjugate_gradients_against_the_reference(
    make: Callable[[float], Any], share: float, shape: tuple[int, int]
) -> None:
    X, y = samples(*shape)
    top = ucm.admissible(make(1.0), X, y)["kappa"].upper
    model = make(share * min(top, 5.0))
    plan = ucm.compile(model, X, y, solver="secular")
    found = plan.solve()
    assert found.status == "optimal" and found.certificate.violation <= 1e-12
    assert plan.verify().agrees
    iterative = ucm.solve(model, X, y, solver="ssnal-cg")
    assert iterative.status == "optimal"
    assert found.objective == pytest.approx(iterative.objective, rel=2e-6)


def test_one_ball_against_bisection() -> None:
    X, y = samples(80, 6)
    P, N = X[y > 0], X[y < 0]
    d = P.mean(0) - N.mean(0)
    S = np.cov(P.T, bias=True) + np.cov(N.T, bias=True)
    A = np.linalg.cholesky(S)

    def length(u: float) -> float:
        return float(np.linalg.norm(np.linalg.solve(u * np.eye(6) + A.T @ A, A.T @ d)))

    for kappa in (0.1, 0.3):
        u = brentq(lambda u: length(u) - kappa, 1e-9, 1e9, xtol=1e-15)  # noqa: B023
        x = np.linalg.solve(np.eye(6) + S / u, d)
        np.testing.assert_allclose(ucm.solve(FDA(kappa), X, y).x, x, rtol=1e-9)


def test_other_sets_of_balls() -> None:
    X, y = samples(50, 4)
    shape = np.diag([1.0, 0.0, 2.0, 0.5])
    sets = [
        ucm.Ball(np.full(4, 3.0), 1.0),
        ucm.Ellipsoid(pos.mean, shape, 0.2) - ucm.Ball(np.full(4, -1.0), 0.3),
        ucm.Ellipsoid(pos.mean, pos.cov, 0.3)
        - ucm.Ellipsoid(neg.mean, neg.cov, 0.0)
        + ucm.Ball(np.zeros(4), 0.1),
        ucm.Ellipsoid(2 * pos.mean - neg.mean, 0 * shape, 1.0) + ucm.Ball(np.zeros(4), 0.1),
    ]
    for U in sets:
        plan = ucm.compile(U, X, y)
        sol = plan.solve()
        assert plan.solver.name == "secular" and sol.status == "optimal", U
        assert plan.verify().agrees
        for other in (SSNAL(), APG()):
            again = ucm.solve(U, X, y, solver=other)
            assert again.objective == pytest.approx(sol.objective, rel=2e-6)


@pytest.mark.parametrize("make", [FDA, MPM])
def test_zero_in_the_set(make: Callable[[float], Any]) -> None:
    for data in (samples(60, 5), samples(200, 60)):
        top = ucm.admissible(make(1.0), *data)["kappa"].upper
        for factor in (1.01, 1.5, 10.0):
            sol = ucm.solve(make(factor * top), *data, solver="secular")
            # of one ellipsoid the method goes on to the global minimum over the unit sphere
            if make is FDA:
                assert sol.status == "optimal" and sol.objective > 0.0, factor
            else:
                assert sol.status == "zero_in_set" and sol.objective == 0.0, factor
    X, y = samples(10, 3)
    X[y > 0] = X[y < 0]  # equal means: the centre is 0
    sol = ucm.solve(MPM(0.1), X, y, solver="secular")
    assert sol.status == "zero_in_set"


def test_sparse_wide_and_kernels() -> None:
    rng = np.random.default_rng(0)
    X = sparse.random(60, 3000, 0.02, random_state=rng, format="csr")  # pyright: ignore[reportCallIssue]  # SciPy 1.13 calls it so
    y = np.where(np.arange(60) < 25, 1.0, -1.0)
    for make in (FDA, MPM):
        sol = ucm.solve(make(0.5), X, y)
        assert sol.stats.solver == "ssnal-cg" and sol.stats.passes <= 48.0
        dense = ucm.solve(make(0.5), X.toarray(), y, solver="apg", tol=1e-7)
        assert sol.objective == pytest.approx(dense.objective, rel=2e-6)
    Z, z = load("iris")
    for make in (FDA, MPM):
        plan = ucm.compile(make(0.3), Z, z, kernel="rbf", gamma=0.5)
        assert plan.solver.name == "secular" and plan.solve().status == "optimal"
        assert plan.verify().agrees


def test_a_whole_path_for_one_covariance() -> None:
    X, y = load("wine")
    for make in (FDA, MPM):
        plans = [ucm.compile(make(k), X, y) for k in (0.1, 0.2)]
        assert all(plan.solve().stats.passes < 2.0 for plan in plans)


def test_stops_refusals_and_bad_options() -> None:
    X, y = samples(200, 60)
    wide = samples(400, 200)
    plan = ucm.compile(MPM(0.3), *wide, solver="secular")  # asked for by name, beyond the features of "auto"
    assert ucm.compile(MPM(0.3), *wide).solver.name == "ssnal-cg" and plan.solve().status == "optimal"
    with pytest.raises(ucm.SolverError, match="order 60, above 50"):
        ucm.compile(MPM(0.3), X, y, solver=TrustRegionSecular(max_order=50))
    with pytest.raises(ucm.SolverError, match="is no Euclidean ball"):
        ucm.compile(ucm.models.nu_svm(0.8), X, y, solver="secular")
    with pytest.raises(ucm.SolverError, match="Euclidean norm only"):
        ucm.compile(ucm.RobustMargin(MPM(0.1), 1.0), X, y, solver="secular")
    with pytest.raises(ParameterError, match="Secular"):
        TrustRegionSecular(max_order=0)


@pytest.mark.parametrize("name", ["mm_fda", "mm_mpm"])
def test_a_path_forms_the_covariances_once(name: str) -> None:
    rng = np.random.default_rng(8)
    y = np.where(np.arange(90) % 2 == 0, 1.0, -1.0)
    X = rng.standard_normal((90, 60)) + 0.4 * y[:, None]
    grid = [0.1, 0.3, 0.6]
    model = getattr(ucm.models, name)(0.1)
    found = ucm.path(model, X, y, kappa=grid, solver="secular")
    assert sorted(s.stats.forming > 0.0 for s in found) == [False, False, True]
    for kappa, sol in zip(grid, found, strict=True):
        alone = ucm.solve(model.with_params(kappa=kappa), X, y, solver="clarabel", tol=1e-5)
        assert sol.status == "optimal"
        assert sol.objective == pytest.approx(alone.objective, rel=1e-6)


def test_the_rank_of_a_matrix_is_not_that_of_its_rounding() -> None:
    """Two ellipsoids, one of rank 1 whose root had a second column of rounding; mirrored features, too."""
    one = [[2.515625, 3.375, -1.640625], [3.375, 6.8125, -3.1875], [-1.640625, -3.1875, 1.578125]]
    two = [[4.0, 0.5, -3.5], [0.5, 0.0625, -0.4375], [-3.5, -0.4375, 3.0625]]
    U = ucm.Ellipsoid([1.0, 1.0, 1.75], one, 0.5) + ucm.Ellipsoid([0.0] * 3, two, 1.0)
    X, y = np.eye(3)[:2], np.array([1.0, -1.0])
    sol = ucm.solve(U, X, y)
    assert sol.status == "optimal" and sol.objective == pytest.approx(-1.7876032, rel=1e-6)
    X = np.array([[0.25, 1.875, 0.25], [2.0, 1.5, -1.125], [-0.375, -0.625, 0.375], [-1.0, 0.75, 2.0],
                  [-1.0, 1.625, 0.625], [-0.125, -0.625, 1.625], [1.5, 0.875, 1.125],
                  [1.375, 0.375, 1.625], [-2.375, -1.5, 0.625]])  # fmt: skip
    y = np.array([1.0] * 7 + [-1.0] * 2)
    found = [ucm.solve(ucm.models.mm_mpm(0.5), Z, y) for Z in (X, X[:, ::-1], np.c_[X, np.zeros(9)])]
    assert {s.status for s in found} == {"optimal"}
    assert np.ptp([s.objective for s in found]) <= 1e-6


@pytest.mark.parametrize("scale", [1e-150, 1e-60, 1e-31, 1e29, 1e60, 1e150])
@pytest.mark.parametrize("make", [FDA, MPM])
def test_the_roots_do_not_see_the_scale_of_the_samples(make: Callable[[float], Any], scale: float) -> None:
    """Without a warning of an overflow, which the tests make an error."""
    X, y = samples(60, 5)
    found, other = ucm.solve(make(0.1), scale * X, y), ucm.solve(make(0.1), X, y)
    assert found.status == "optimal" and found.stats.solver == "secular"
    assert found.objective / scale == pytest.approx(other.objective, rel=1e-6)


def test_roots_that_are_not_found_have_a_status_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = samples(60, 5)
    monkeypatch.setattr("ucm.solvers.secular._nearest", lambda S, c, radii, monitor: (c, 0.0 * radii))
    with pytest.warns(ucm.ConvergenceWarning, match="take another solver"):
        assert ucm.solve(MPM(0.1), X, y, solver="secular").status == "stalled"


@pytest.mark.parametrize("model", [MPM(0.3), FDA(0.3), ucm.models.coherent_mm_fda(0.3)], ids=str)
@pytest.mark.parametrize("kind", ["equal", "repeated"])
def test_sparse_samples_without_variance_are_solved_as_dense(model: Any, kind: str) -> None:
    """All samples of a class equal, and few samples of many features, repeated."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        m, n = (3, 12) if kind == "repeated" else (14, 4)
        X = rng.standard_normal((m, n)) * (rng.random((m, n)) < 0.7)
        y = np.where(np.arange(m) % 2 == 0, 1.0, -1.0)
        if kind == "equal":
            X[y > 0.0] = X[0]
        else:
            counts = rng.integers(2, 5, m)
            X, y = X.repeat(counts, axis=0), y.repeat(counts)
        dense, thin = (ucm.solve(model, A, y) for A in (X, sparse.csr_array(X)))
        assert dense.status == thin.status in ("optimal", "zero_in_set", "stationary", "local")
        if dense.status == "optimal":
            assert thin.objective == pytest.approx(dense.objective, rel=2e-6)


@pytest.mark.parametrize("seed", [3, 8, 65, 85, 112])
@pytest.mark.parametrize("model", [MPM(0.3), FDA(0.3), ucm.models.coherent_mm_fda(0.3)], ids=str)
def test_a_constant_sparse_feature_is_as_a_dense_one(model: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    m, n = rng.integers(5, 40), rng.integers(1, 8)
    X = rng.standard_normal((m, n)) * (rng.random((m, n)) < 0.5)
    X[:, rng.integers(n)] = rng.choice([1.0, 0.1, 3.7, 1000.3])
    y = np.where(np.arange(m) % 2, 1.0, -1.0)
    dense, thin = (ucm.solve(model, A, y) for A in (X, sparse.csr_array(X)))
    assert dense.status == thin.status in ("optimal", "zero_in_set", "stationary")
    assert thin.objective == pytest.approx(dense.objective, rel=1e-5, abs=1e-9)
