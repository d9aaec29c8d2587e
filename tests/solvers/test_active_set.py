"""The band and the levels of the Newton method for hulls."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from bundled import load
from scipy import sparse
from typed import known

import ucm
from ucm import neg, pos, signed
from ucm.errors import ConvergenceWarning, ParameterError, SolverError
from ucm.solvers import SSNAL, ActiveSet


def blobs(seed: int, m: int, n: int, apart: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Two overlapping clouds, a third of the samples in the first."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(m) % 3 == 0, 1.0, -1.0)
    return rng.standard_normal((m, n)) + apart * y[:, None] / np.sqrt(n), y


def certified(model: Any, X: Any, y: np.ndarray, tol: float = 1e-6, **options: Any) -> Any:
    plan = ucm.compile(model, X, y, solver=ActiveSet(**options))
    sol = plan.solve(tol=tol)
    assert sol.status == "optimal" and 0.0 <= sol.certificate.violation <= 1e-9
    assert abs(sol.certificate.relative_gap) <= tol
    return sol


@pytest.mark.parametrize("k", [1, 2, 3, 5, 6])
def test_a_cap_that_divides_the_mass_gives_the_hull_of_averages(k: int) -> None:
    """The extreme points of a reduced hull with cap 1/k are the means of k samples. Where the cap
    divides the mass, theta is not unique."""
    rng = np.random.default_rng(k)
    X = rng.standard_normal((12, 3)) + np.where(np.arange(12) < 6, 1.5, -1.5)[:, None]
    y = np.where(np.arange(12) < 6, 1.0, -1.0)
    ours = certified(ucm.models.nu_svm(2.0 * k / 12), X, y, tol=1e-9)
    means = [
        [part[list(c)].mean(axis=0) for c in itertools.combinations(range(6), k)] for part in (X[:6], X[6:])
    ]
    points = np.vstack(means)
    labels = np.repeat([1.0, -1.0], [len(group) for group in means])
    hulls = ucm.Hull(pos) - ucm.Hull(neg)
    twin = ucm.solve(hulls, points, labels, solver="clarabel")
    assert ours.objective == pytest.approx(twin.objective, rel=1e-6)


@pytest.mark.parametrize("copies", [1, 4])
@pytest.mark.parametrize("share", [1.0, 0.999, 0.96])
def test_the_largest_nu_and_duplicates(share: float, copies: int) -> None:
    X, y = load("iris")
    X, y = np.repeat(X[:70], copies, axis=0), np.repeat(y[:70], copies)
    nu = share * 2 * min((y > 0).mean(), (y < 0).mean())
    model = ucm.models.nu_svm(nu)
    ours = certified(model, X, y, tol=1e-9)
    twin = ucm.solve(model, X, y, solver="clarabel")
    assert ours.objective == pytest.approx(twin.objective, rel=1e-6)


def test_one_sample_against_many() -> None:
    X, y = blobs(1, 60, 4, 3.0)
    X, y = np.vstack([X[:1], X[y < 0]]), np.append(1.0, -np.ones((y < 0).sum()))
    for model in (ucm.Hull(pos) - ucm.Hull(neg), ucm.Hull(pos) - ucm.ReducedHull(neg, eta=0.25)):
        ours = certified(ucm.RobustMargin(model), X, y, tol=1e-9)
        twin = ucm.solve(model, X, y, solver="clarabel")
        assert ours.objective == pytest.approx(twin.objective, rel=1e-6)


def test_factors_caps_and_classes() -> None:
    """Multiples, different caps, class weights, and the joint hull of both classes."""
    X, y = blobs(2, 90, 3, 2.0)
    models = [
        1.5 * ucm.ReducedHull(pos, eta=0.2) - 0.5 * ucm.ReducedHull(neg, eta=0.07),
        ucm.ReducedHull(neg, eta=0.1) - ucm.ReducedHull(pos, eta=0.1),
        -2 * ucm.Hull(signed, weights=ucm.CappedSimplex(0.05)),
    ]
    for model in models:
        ours = certified(ucm.RobustMargin(model), X, y, tol=1e-8)
        assert ours.objective == pytest.approx(ucm.solve(model, X, y, solver="clarabel").objective, rel=1e-6)
    weighted = ucm.compile(ucm.models.nu_svm(0.6), X, y, class_weight=(1.0, 0.8))
    assert isinstance(weighted.solver, ActiveSet) and weighted.verify().agrees


def test_samples_sorted_by_a_feature() -> None:
    X, y = blobs(4, 20_000, 4, 2.0)
    order = np.argsort(X[:, 0])
    model = ucm.models.nu_svm(0.5)
    assert certified(model, X[order], y[order]).stats.passes <= 10.0


def test_more_features_than_samples() -> None:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((40, 900))
    X[7] = X[3]  # rank 39
    y = np.where(np.arange(40) % 2 == 0, 1.0, -1.0)
    for form in (np.asarray, sparse.csr_matrix):
        ours = certified(ucm.models.nu_svm(0.4), form(X), y, tol=1e-9)
        assert np.linalg.norm(ours.w) == pytest.approx(1.0) and ours.w.shape == (900,)
    Q, R = np.linalg.qr(X.T)
    small = certified(ucm.models.nu_svm(0.4), np.ascontiguousarray(R.T), y, tol=1e-9)
    assert ours.objective == pytest.approx(small.objective, rel=1e-8)
    np.testing.assert_allclose(ours.x, Q @ small.x, atol=1e-4)


def test_stopped_on_a_coarse_level() -> None:
    X, y = blobs(6, 20_000, 3)
    plan = ucm.compile(ucm.models.nu_svm(0.5), X, y)
    stopping: list[dict[str, Any]] = [{"callback": lambda record: True}, {"max_iter": 1}]
    for options in stopping:
        with pytest.warns(ConvergenceWarning):
            sol = plan.solve(**options)
        assert sol.stats.iterations == 1 and known(sol.weights).size == y.size
        assert sol.certificate.violation <= 1e-9 and np.isfinite(sol.certificate.gap)
        assert sol.status == ("max_iter" if "max_iter" in options else "interrupted")


def test_zero_lies_in_the_set() -> None:
    X, y = blobs(7, 200, 2, 0.2)
    for samples in (X, 0 * X, np.ones_like(X)):
        sol = ucm.solve(ucm.models.nu_svm(0.1), samples, y, solver=ActiveSet())
        assert sol.status == "zero_in_set" and not sol.w.any()


def test_options_of_the_active_set_are_checked() -> None:
    X, y = load("iris")
    U = ucm.Hull(pos) - ucm.Hull(neg)
    for model, words in (
        (ucm.models.coherent_mm_fda(0.2), "coupled by an intersection"),
        (ucm.models.mm_mpm(0.2), "two hulls of samples"),
        (ucm.models.l2_nu_svm(0.3), "two hulls of samples"),
        (U + ucm.Hull(pos), "two hulls of samples"),
        (np.array([[1.0, 2.0], [0.0, 1.0]]) @ U, "two hulls of samples"),
        (ucm.RobustMargin(U, norm=3.0), "Euclidean"),
    ):
        with pytest.raises(SolverError, match=words):
            ucm.compile(model, X, y, solver=ActiveSet())
    with pytest.raises(SolverError, match="order 2, above 1"):
        ucm.compile(U, X, y, solver=ActiveSet(max_order=1))
    with pytest.raises(ParameterError, match="positive whole number"):
        ActiveSet(max_order=0)


@pytest.mark.parametrize("m", [200, 6_000])
def test_a_point_beside_the_hulls(m: int) -> None:
    X, y = blobs(8, m, 3, 1.5)
    U = ucm.models.nu_svm(0.5) + np.array([0.5, -1.0, 0.25])
    sol = ucm.solve(U, X, y, solver=ActiveSet())
    other = ucm.solve(U, X, y, solver=SSNAL())
    assert sol.status == other.status == "optimal"
    assert sol.objective == pytest.approx(other.objective, rel=2e-6)
    assert sol.bias_rule == other.bias_rule


def test_a_path_of_warm_starts() -> None:
    X, y = blobs(8, 6_000, 8, 1.5)
    before = None
    spent = []
    for nu in np.linspace(0.6, 0.5, 6):
        plan = ucm.compile(ucm.models.nu_svm(nu), X, y)
        cold, warm = plan.solve(), plan.solve(warm_start=before)
        assert warm.status == "optimal"
        assert warm.objective == pytest.approx(cold.objective, rel=2e-6)
        spent.append((warm.stats.systems, cold.stats.systems))
        before = warm
    systems = np.array(spent[1:]).sum(axis=0)
    assert systems[0] < systems[1]


def test_a_start_far_away() -> None:
    """The answer to other labels, put on the hulls of these."""
    X, y = blobs(9, 300, 5, 1.5)
    plan = ucm.compile(ucm.models.nu_svm(0.5), X, y)
    other = ucm.solve(ucm.models.nu_svm(0.5), X[::-1].copy(), y)
    assert plan.solve(warm_start=other).status == "optimal"
