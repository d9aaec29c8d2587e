"""Paths over a whole interval: every value between the solved ones is proven, and held against solves."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from typed import known

import ucm
from ucm import neg, pos, signed
from ucm.evidence.cap_path import CappedHull, CapSolution, interpolated, largest_gap
from ucm.language.models import nu_svm

ETA = ucm.Param("eta", 0.1)
MODELS: dict[str, tuple[Any, tuple[float, float]]] = {
    "nu": (nu_svm(0.3), (0.25, 0.7)),
    "eta": (ucm.ReducedHull(pos, eta=ETA) - ucm.ReducedHull(neg, eta=ETA), (0.03, 0.1)),
    "cap": (2 * ucm.Hull(signed, weights=ucm.CappedSimplex(ucm.Param("cap", 0.02))), (0.012, 0.04)),
}


@pytest.fixture(scope="module")
def samples() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((140, 6)), np.where(np.arange(140) % 5 < 2, 1.0, -1.0)
    return X + y[:, None] * np.array([1.0, 1, 0, 0, 0.5, 0]), y


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("eps", [1e-2, 1e-4])
def test_the_optimum_lies_between_the_proven_ends(name: str, eps: float, samples: Any) -> None:
    (model, ends), (X, y) = MODELS[name], samples
    every: dict[str, Any] = {name: "all"}
    found = ucm.path(model, X, y, between=ends, eps=eps, **every)
    assert sorted((found.values[0], found.values[-1])) == pytest.approx(ends)
    assert max(known(found.over).gaps) <= eps
    for value in np.random.default_rng(0).uniform(*ends, 15):
        at = found.at(value)
        exact = ucm.solve(model.with_params(**{name: value}), X, y, tol=1e-8)
        size = abs(exact.objective)
        assert at.objective <= exact.certificate.primal + 1e-12 * size
        assert at.bound >= exact.certificate.dual - 1e-12 * size
        assert -1e-12 <= at.relative_gap <= eps * (1.0 + 1e-9)
        U = model.with_params(**{name: value})
        assert ucm.support(U, X, y, -at.w)[0] <= at.bound + 1e-12 * size
        assert np.linalg.norm(at.w) == pytest.approx(1.0) and np.linalg.norm(at.x) == pytest.approx(
            -at.objective
        )


def test_points_between_are_in_the_set(samples: Any) -> None:
    X, y = samples
    found = ucm.path(nu_svm(0.3), X, y, nu="all", between=(0.3, 0.5), eps=1e-2)
    at = found.at(0.41)
    certificate = ucm.compile(nu_svm(0.41), X, y).certify(w=at.w, x=at.x)
    assert certificate.violation <= 1e-7
    assert certificate.primal <= at.bound + 1e-9 and certificate.relative_gap <= 1e-2 + 1e-7


def test_solutions_of_a_path_are_certified_on_access(samples: Any) -> None:
    X, y = samples
    found = ucm.path(nu_svm(0.3), X, y, nu="all", between=(0.3, 0.5), eps=1e-2)
    assert not known(found.over)._solutions
    for value, solution in zip(found.values, found, strict=True):
        assert solution.status == "optimal" and solution.params["nu"] == value
        assert found.at(value).objective == pytest.approx(solution.objective)
        assert found.at(value).b == pytest.approx(solution.b, abs=1e-9)
    assert found.to_frame().shape[0] == len(found)
    kept = pickle.loads(pickle.dumps(found))
    assert [s.objective for s in kept] == [s.objective for s in found]
    with pytest.raises(ucm.ParameterError, match="expected a path over an interval"):
        kept.at(0.4)


def test_the_validation_error_is_that_of_each_value(samples: Any) -> None:
    X, y = samples
    rng = np.random.default_rng(5)
    Z, t = rng.standard_normal((200, 6)), rng.choice([-1.0, 1.0], 200)
    found = ucm.path(nu_svm(0.3), X, y, nu="all", between=(0.25, 0.7))
    curve = found.validation(Z, t)
    assert curve.errors.size > 10 and np.all(np.diff(curve.edges) >= 0.0)
    for value in rng.uniform(0.25, 0.7, 300):
        at = found.at(value)
        assert curve.at(value) == np.mean((Z @ at.w + known(at.b) > 0.0) != (t > 0.0))
    least, low, high = curve.best
    assert least == curve.errors.min() == curve.at(0.5 * (low + high))
    assert "steps, least" in repr(curve)


def test_a_path_over_all_values_covers_the_interval(samples: Any) -> None:
    X, y = samples
    found = ucm.path(nu_svm(0.3), X, y, nu="all", eps=1e-2)
    interval = ucm.admissible(nu_svm(0.3), X, y)["nu"]
    assert found.values[0] == pytest.approx(interval.upper)
    assert interval.lower < found.values[-1] < interval.lower + 0.1
    assert abs(found[-1].objective) < 0.06 * abs(found[0].objective)
    apart = X + 4.0 * y[:, None]  # 0 never enters: to the whole hulls
    whole = ucm.path(nu_svm(0.3), apart, y, nu="all", eps=1e-2)
    assert whole.at(whole.values[-1]).objective == pytest.approx(
        ucm.solve(ucm.Hull(pos) - ucm.Hull(neg), apart, y).objective, rel=2e-2
    )


def test_sparse_samples_and_more_features_than_samples(samples: Any) -> None:
    X, y = samples
    dense = ucm.path(nu_svm(0.3), X, y, nu="all", between=(0.3, 0.5), eps=1e-2)
    thin = ucm.path(nu_svm(0.3), sparse.csr_array(X), y, nu="all", between=(0.3, 0.5), eps=1e-2)
    assert abs(dense.at(0.4).objective / thin.at(0.4).objective - 1.0) <= 1e-2
    wide = np.random.default_rng(0).standard_normal((30, 60)) + 0.3 * y[:30, None]
    for A in (wide, sparse.csr_array(wide)):
        found = ucm.path(nu_svm(0.3), A, y[:30], nu="all", eps=1e-2)
        assert found.at(0.3).w.size == 60 and found.at(0.3).relative_gap <= 1e-2


def test_class_weights_move_the_caps(samples: Any) -> None:
    X, y = samples
    weights: dict[str, Any] = {"class_weight": (1.0, 1.5)}
    found = ucm.path(nu_svm(0.3), X, y, nu="all", between=(0.3, 0.5), eps=1e-2, **weights)
    exact = ucm.solve(nu_svm(0.37), X, y, tol=1e-8, **weights)
    at = found.at(0.37)
    assert at.objective <= exact.objective * (1 - 1e-9) and exact.objective <= at.bound


@pytest.mark.parametrize("spread", [1.0, 3000.0], ids=["at an end", "inside"])
@pytest.mark.parametrize("seed", range(6))
def test_the_largest_gap_of_a_piece_against_a_grid(seed: int, spread: float) -> None:
    """Between two kinks: the largest `(|x|^2 / r + r |w|^2) / 2 - N` over the least |x| and the least |w|."""
    rng = np.random.default_rng(seed)
    hulls, scores = [CappedHull(9, 1.0, 1.0)], rng.standard_normal((2, 9))
    near, far = rng.standard_normal((2, 3)) + 2.0, rng.standard_normal((2, 3)) + 2.0
    low, high = 0.26, 0.32  # three samples at the cap
    scores[0] *= spread

    def end(k: int) -> CapSolution:
        return CapSolution.of((low, high)[k], [], near[k], far[k], [scores[k]])

    # the same height in the middle, and another slope in the cap
    scores[0] += end(1).least(hulls, np.array([0.29])) - end(0).least(hulls, np.array([0.29]))
    first, last = end(0), end(1)
    t = np.linspace(0.0, 1.0, 20_001)
    x, w = (np.outer(1.0 - t, a) + np.outer(t, b) for a, b in (near, far))
    xx, ww = (np.einsum("ij,ij->i", v, v) for v in (x, w))
    r = np.sqrt(xx[10_000] / ww[10_000])
    c = low + t * (high - low)
    N = (1.0 - t) * first.least(hulls, c) + t * last.least(hulls, c)
    height = 0.5 * (xx / r + r * ww) - N
    assert (0 < np.argmax(height) < 20_000) == (spread > 1.0)
    expected = height.max() / np.sqrt(xx.min() * ww.min())
    assert largest_gap(hulls, first, last) == pytest.approx(max(expected, 0.0), rel=1e-6)


@pytest.mark.parametrize(("size", "total", "factor"), [(9, 1.0, 1.0), (4, 0.5, 2.0), (1, 1.0, 1.0)])
def test_the_kinks_of_a_hull_are_the_caps_that_fill_whole_samples(
    size: int, total: float, factor: float
) -> None:
    """k samples at the cap hold the mass, for k = 1 to the number of samples and no further."""
    hull = CappedHull(size, total, factor)
    every = total / (factor * np.arange(1, size + 1))
    for low, high in ((0.01, 9.0), (0.15, 0.3), (0.3, 9.0)):
        expected = every[(every > low) & (every < high)]
        np.testing.assert_allclose(np.sort(hull.kinks(low, high)), np.sort(expected))


def test_opposite_dual_vectors_prove_nothing_in_the_middle() -> None:
    hull, scores = CappedHull(5, 1.0, 1.0), [np.arange(5.0)]
    ends = [CapSolution.of(c, [], np.ones(2), w * np.ones(2), scores) for c, w in ((0.25, 1.0), (0.75, -1.0))]
    t, _, w, bound = interpolated([hull], ends[0], ends[1], 0.5)
    assert t == 0.5 and not w.any() and bound == -np.inf


def test_the_bound_is_the_least_over_the_capped_simplex() -> None:
    rng = np.random.default_rng(0)
    hulls = [CappedHull(9, 1.0, 1.0), CappedHull(7, 0.5, 2.0)]
    x, w = rng.standard_normal((2, 3)), rng.standard_normal((2, 3))
    scores = [rng.standard_normal(9), rng.standard_normal(7)]
    ends = [CapSolution.of(c, [], x[k], w[k], scores) for k, c in enumerate((0.13, 0.7))]
    for c in np.linspace(0.13, 0.7, 40):
        least = 0.0
        for hull, a in zip(hulls, scores, strict=True):
            q, rest = np.zeros(a.size), hull.total
            for i in np.argsort(a):
                q[i] = min(hull.factor * c, rest)
                rest -= q[i]
            least += q @ a
        assert ends[0].least(hulls, np.array([c]))[0] == pytest.approx(least, abs=1e-13)
    first, last = ends
    gap = largest_gap(hulls, first, last)
    for c in np.linspace(0.13, 0.7, 400):
        _, point, direction, bound = interpolated(hulls, first, last, c)
        norm = np.linalg.norm(point)
        assert (norm - bound) / norm <= gap + 1e-12
        assert np.linalg.norm(direction) > 0.0


REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no size": (ucm.models.svm(1.0), {"lam": "all"}, "expected two reduced hulls"),
    "ellipsoids": (
        ucm.models.mm_mpm(0.3),
        {"kappa": "all"},
        "expected two reduced hulls whose caps",
    ),
    "one of them": (
        ucm.ReducedHull(pos, nu=ucm.Param("nu", 0.3)) - ucm.ReducedHull(neg, eta=0.1),
        {"nu": "all"},
        "keeps its cap",
    ),
    "eps": (nu_svm(0.3), {"nu": "all", "eps": 0}, r"eps lies in \(0, 1\)"),
    "eps alone": (nu_svm(0.3), {"nu": [0.3], "eps": 1e-3}, "eps is of a path over an interval"),
    "kernel": (nu_svm(0.3), {"nu": "all", "kernel": "rbf"}, "got kernel"),
    "tol": (nu_svm(0.3), {"nu": "all", "tol": 1e-3}, "got tol"),
    "empty": (nu_svm(0.3), {"nu": "all", "between": (0.3, 0.95)}, "U is empty beyond"),
    "zero": (nu_svm(0.3), {"nu": "all", "between": (0.01, 0.5)}, "0 lies in U"),
    "below 0": (nu_svm(0.3), {"nu": "all", "between": (-0.1, 0.5)}, "positive numbers"),
    "backwards": (nu_svm(0.3), {"nu": "all", "between": (0.5, 0.3)}, "the smaller first"),
    "relative": (nu_svm(ucm.Param("nu", 0.5, relative=True)), {"nu": "all"}, "got the relative nu"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_paths_are_refused(case: str, samples: Any) -> None:
    model, options, words = REFUSED[case]
    with pytest.raises(ucm.ParameterError, match=words):
        ucm.path(model, *samples, **options)


def test_values_beyond_the_interval_and_other_samples(samples: Any) -> None:
    X, y = samples
    found = ucm.path(nu_svm(0.3), X, y, nu="all", between=(0.3, 0.5), eps=1e-2)
    with pytest.raises(ucm.ParameterError, match=r"expected nu from 0.3 to 0.5, got 0.6"):
        found.at(0.6)
    with pytest.raises(ucm.DataError, match="expected the 6 features"):
        found.validation(X[:, :2], y)
    with pytest.raises(ucm.DataError, match="labels -1 and"):
        found.validation(X, y[1:])
    with pytest.raises(ucm.ParameterError, match="got 1 values of nu"):
        ucm.path(nu_svm(0.3), X, y, nu=[0.4]).at(0.4)


@pytest.mark.parametrize("shift", [0.0, 100.0, 1e3, 1e5])
def test_a_large_mean_is_no_zero_in_the_set(shift: float) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 3)), np.where(rng.random(200) < 0.5, -1.0, 1.0)
    X[y > 0, 0] += 3.0
    found = ucm.path(nu_svm(0.5), X + shift, y, nu="all", eps=0.1)
    assert found.values[0] == pytest.approx(0.91) and found.values[-1] < 0.2
    for value, solution in zip(found.values, found, strict=True):
        certificate = solution.certificate
        assert solution.status == "optimal" and solution.stats.solver == "active-set"
        assert -1e-9 <= certificate.gap <= 0.1 * abs(certificate.dual)
        assert abs(ucm.solve(nu_svm(value), X, y).objective / solution.objective - 1.0) <= 0.1
    assert found.validation(X + shift, y).best[0] == pytest.approx(0.04, abs=0.011)


def test_the_validation_error_does_not_move_with_the_samples(samples: Any) -> None:
    X, y = samples
    curves = [
        ucm.path(nu_svm(0.3), X + shift, y, nu="all", between=(0.3, 0.6)).validation(X + shift, y)
        for shift in (0.0, 1000.0)
    ]
    assert abs(curves[0].best[0] - curves[1].best[0]) <= 0.015
    values = np.linspace(0.3, 0.6, 50)
    assert np.abs(curves[0].at(values) - curves[1].at(values)).max() <= 0.03


def test_samples_that_change_sides_together_leave_no_step(samples: Any) -> None:
    X, y = samples
    found = ucm.path(nu_svm(0.3), X, y, nu="all", between=(0.3, 0.6), eps=1e-2)
    Z = np.random.default_rng(1).standard_normal((400, X.shape[1]))
    curve = found.validation(np.repeat(Z, 2, axis=0), np.tile([1.0, -1.0], 400))
    assert curve.best == (0.5, found.values.min(), found.values.max())
    assert np.all(curve.errors == 0.5) and np.all(np.diff(curve.edges) > 0.0)


def test_a_path_of_one_value() -> None:
    X, y = np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([1.0, -1.0])
    found = ucm.path(nu_svm(0.3), X, y, nu="all")
    at, curve = found.at(1.0), found.validation(X, y)
    assert len(found) == 1 and at.objective == pytest.approx(-np.sqrt(2.0))
    assert at.objective <= at.bound + 1e-12 and at.b == found[0].b
    np.testing.assert_allclose(at.w, found[0].w)
    assert curve.best == pytest.approx((0.0, 1.0, 1.0)) and curve.at(1.0) == 0.0
    np.testing.assert_array_equal(found.validation(X, -y).errors, [1.0])


@pytest.mark.parametrize("value", ["a", None, True, [0.4]])
def test_a_value_is_a_number(value: Any, samples: Any) -> None:
    found = ucm.path(nu_svm(0.3), *samples, nu="all", between=(0.3, 0.5), eps=1e-2)
    with pytest.raises(ucm.ParameterError, match="expected a number for nu, got"):
        found.at(value)


def test_a_path_without_proof_to_eps_raises(samples: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("ucm.compiler.interval.largest_gap", lambda *_: 0.02)
    with pytest.raises(ucm.SolverError, match="rounding no longer separates; raise eps"):
        ucm.path(nu_svm(0.3), *samples, nu="all", between=(0.3, 0.31), eps=1e-2)
