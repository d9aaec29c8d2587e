"""The bias: against scikit-learn, by brute force, and by the multipliers' own definition."""

from __future__ import annotations

import numpy as np
import pytest
from bundled import load
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.svm import NuSVC, OneClassSVM
from typed import known

import ucm
from ucm import neg, pos, signed
from ucm.compiler.recover import BIAS_RULES, class_points, feature_normal, least_error
from ucm.data.bound_data import bind
from ucm.errors import DataError, ParameterError


def errors(X: np.ndarray, y: np.ndarray, w: np.ndarray, b: float) -> int:
    return int(np.sum(np.sign(X @ w + b) != y))


@pytest.mark.parametrize(("name", "nu"), [("iris", 0.8), ("iris", 0.95), ("breast_cancer", 0.4),
                                          ("wine", 0.1), ("wine", 0.3), ("digits", 0.2)])  # fmt: skip
def test_multipliers_rule_is_the_intercept_of_nu_svc(name: str, nu: float) -> None:
    X, y = load(name)
    sol = ucm.solve(ucm.models.nu_svm(nu), X, y, tol=1e-9)
    svc = NuSVC(kernel="linear", nu=nu, tol=1e-10).fit(X, y)
    size = np.linalg.norm(svc.coef_)
    assert sol.status == "optimal" and sol.bias_rule == "multipliers"
    np.testing.assert_allclose(sol.w, svc.coef_[0] / size, atol=2e-4)
    assert sol.b == pytest.approx(svc.intercept_[0] / size, abs=5e-4)
    joint = ucm.solve(ucm.Hull(signed, weights=ucm.CappedSimplex(1 / (y.size * nu))), X, y, tol=1e-9)
    assert joint.b == pytest.approx(sol.b, abs=1e-5) and joint.bias_rule == "multipliers"
    assert joint.objective == pytest.approx(sol.objective / 2, rel=1e-7)


def test_at_the_largest_nu_one_bound_is_infinite() -> None:
    """All weights of the smaller class stand at the cap; sklearn fails here, a limit does not."""
    X, y = load("breast_cancer")
    top = 2 * min((y > 0).sum(), (y < 0).sum()) / y.size
    at, before = (ucm.solve(ucm.models.nu_svm(nu), X, y, tol=1e-9) for nu in (top, top * (1 - 1e-7)))
    assert at.status == "optimal" and np.isfinite(known(at.b))
    smaller = X[y == (1 if (y > 0).sum() < (y < 0).sum() else -1)]
    scores = smaller @ at.w
    np.testing.assert_allclose(at.w, before.w, atol=1e-5)
    # the finite end of an unbounded interval: the smaller class lies on one side of the other's level
    assert scores.min() - 1e-6 <= np.clip(-known(at.b), scores.min(), scores.max()) <= scores.max() + 1e-6


def test_one_hull_per_class_by_hand() -> None:
    X, y = np.array([[0.0], [1.0], [4.0], [6.0]]), np.array([-1.0, -1.0, 1.0, 1.0])
    sol = ucm.solve(ucm.Hull(pos) - ucm.Hull(neg), X, y)
    assert (sol.w[0], sol.b) == (1.0, pytest.approx(-2.5))
    # caps of 1/2: every weight at its cap; levels between the samples of each class
    sol = ucm.solve(ucm.models.nu_svm(1.0), X, y)
    assert sol.x[0] == pytest.approx(4.5) and errors(X, y, sol.w, known(sol.b)) == 0


def test_a_hull_with_another_summand_has_no_multiplier_bias() -> None:
    """Shrunk to its mean, or moved: the samples of the hull end far from the boundary of the set."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(200) < 100, 1.0, -1.0)
    X = rng.standard_normal((200, 5)) + 0.8 * y[:, None]
    shrunk = 0.5 * pos.mean + 0.5 * ucm.Hull(pos) - ucm.ReducedHull(neg, nu=0.5)
    moved = ucm.Hull(pos) + np.full(5, 3.0) - ucm.ReducedHull(neg, nu=0.5)
    for set_ in (shrunk, moved):
        sol = ucm.solve(set_, X, y)
        assert sol.bias_rule == "midpoint"
        with pytest.raises(ParameterError, match="multipliers"):
            ucm.solve(set_, X, y, bias_rule="multipliers")
    sol = ucm.solve(shrunk, X, y)
    assert errors(X, y, sol.w, known(sol.b)) <= 30


def test_scores_that_differ_by_rounding_are_one_score() -> None:
    rng = np.random.default_rng(0)
    X = np.repeat(np.arange(4.0), 25)[:, None] + 1e-15 * rng.standard_normal((100, 1))
    y = np.where(rng.random(100) < np.repeat([0.2, 0.4, 0.6, 0.8], 25), 1.0, -1.0)
    b = least_error(X[:, 0], y > 0.0, None)
    assert min(abs(b + level) for level in (0.5, 1.5, 2.5)) <= 1e-9


def test_where_the_objective_is_0_rounding_does_not_decide() -> None:
    """Both classes hold most of their samples at one level: there the multipliers and the midpoint put b."""
    level = np.r_[np.full(60, 2.0), np.full(20, 3.0), np.full(60, 2.0), np.full(20, 1.0)]
    y = np.repeat([1.0, -1.0], 80)
    other = np.random.default_rng(0).integers(0, 3, 160)
    X = np.column_stack([level, np.r_[other[:80], other[:80]]])
    sol = ucm.solve(ucm.models.nu_svm(0.5), X, y)
    assert abs(sol.objective) <= 1e-12 and sol.bias_rule == "min_error"
    b = known(sol.b)
    assert np.abs(X @ sol.w + b).min() >= 1e-6
    assert errors(X, y, sol.w, b) <= 60
    named = ucm.compile(ucm.models.nu_svm(0.5), X, y).solve(bias_rule="multipliers")
    assert named.bias_rule == "multipliers"


def test_the_midpoint_is_half_way_between_the_class_points() -> None:
    X, y = load("iris")
    sol = ucm.compile(ucm.models.mm_mpm(0.4), X, y).solve()
    assert sol.bias_rule == "midpoint"
    S = {c: np.cov(X[y == c].T, bias=True) for c in (1, -1)}
    point = {c: X[y == c].mean(0) - c * 0.4 * S[c] @ sol.w / np.sqrt(sol.w @ S[c] @ sol.w) for c in S}
    np.testing.assert_allclose(point[1] - point[-1], sol.x, atol=1e-4)
    assert sol.b == pytest.approx(-0.5 * sol.w @ (point[1] + point[-1]), abs=1e-5)
    for U in (
        2 * (ucm.Ball(pos.mean, 0.1) - ucm.Ellipsoid(neg.mean, neg.cov, 0.2)),
        np.diag([2.0, 1.0]) @ (ucm.Hull(pos, weights=ucm.NormBall(0.15)) - neg.mean),
    ):
        plan = ucm.compile(U, X, y)
        assert plan.solve(bias_rule="midpoint").bias_rule == "midpoint"


def test_rules_that_do_not_apply() -> None:
    X, y = load("iris")
    plan = ucm.compile(ucm.models.mm_fda(0.4), X, y)
    assert plan.solve().bias_rule == "min_error" and plan.solve(bias_rule="zero").b == 0.0
    for rule in ("multipliers", "midpoint"):
        with pytest.raises(ParameterError, match=f"bias_rule='{rule}' does not apply"):
            plan.solve(bias_rule=rule)
    with pytest.raises(ParameterError, match=r"bias"):
        plan.solve(bias_rule="median")
    assert set(BIAS_RULES) == {
        "auto",
        "multipliers",
        "midpoint",
        "means",
        "min_error",
        "odds",
        "boundary",
        "zero",
    }


def brute_force(X: np.ndarray, y: np.ndarray, w: np.ndarray) -> int:
    s = np.unique(X @ w)
    cuts = np.concatenate([[s[0] - 1], (s[1:] + s[:-1]) / 2, [s[-1] + 1]])
    return min(errors(X, y, w, -c) for c in cuts)


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(st.integers(0, 10**6), st.integers(4, 15))
def test_least_error_by_brute_force(seed: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.integers(-3, 4, (m, 2)).astype(float)  # ties are common
    y = np.where(np.arange(m) < 1 + seed % (m - 1), 1.0, -1.0)
    sol = ucm.compile(ucm.Point(rng.standard_normal(2)), X, y).solve(bias_rule="min_error")
    assert errors(X, y, sol.w, known(sol.b)) == brute_force(X, y, sol.w)


@pytest.mark.parametrize("name", ["iris", "breast_cancer", "wine"])
def test_least_error_on_real_data(name: str) -> None:
    X, y = load(name)
    for model in (ucm.models.mm_fda(0.2), ucm.models.coherent_mm_fda(0.2)):
        sol = ucm.solve(model, X, y)
        assert sol.bias_rule == "min_error"
        assert errors(X, y, sol.w, known(sol.b)) == brute_force(X, y, sol.w)


def test_class_weights_count_errors_by_their_weight() -> None:
    X = np.array([[0.0], [1.0], [2.0], [1.5], [3.0], [4.0]])
    y = np.array([-1.0, -1.0, -1.0, 1.0, 1.0, 1.0])
    for weight, calls_positive in (((5.0, 1.0), True), ((1.0, 5.0), False)):
        plan = ucm.compile(ucm.Point([1.0]), X, y, class_weight=weight)
        sol = plan.solve(bias_rule="min_error")
        assert (1.5 + known(sol.b) > 0) is calls_positive  # the cheaper of the two mistakes


@pytest.mark.parametrize(("positive", "spread"), [(1000, 1.0), (400, 3.0)])
def test_odds_move_b_as_priors_do_in_a_discriminant_analysis(positive: int, spread: float) -> None:
    """Classes of other sizes and variances, too: the variance of the analysis is the pooled one."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(2000) < positive, 1.0, -1.0)
    X = rng.standard_normal((2000, 1)) * np.where(y > 0.0, 1.0, spread)[:, None] + y[:, None]
    weights = (5.0, 0.2)
    plan = ucm.compile(ucm.Point([1.0]), X, y, class_weight=weights)
    assert plan.solve().bias_rule == "odds"
    plain = ucm.compile(ucm.Point([1.0]), X, y).solve(bias_rule="min_error")
    priors = np.array(weights[::-1]) / sum(weights)
    heavy, even = (LinearDiscriminantAnalysis(priors=p).fit(X, y) for p in (priors, np.array([0.5, 0.5])))
    shift = heavy.intercept_[0] / heavy.coef_[0, 0] - even.intercept_[0] / even.coef_[0, 0]
    moved = known(plan.solve().b) - known(plain.b)
    np.testing.assert_allclose(moved, shift, rtol=1e-2)


def test_no_bias_where_w_lives_elsewhere() -> None:
    X, y = load("iris")
    M = np.array([[1.0, 2.0], [0.5, 0.0], [0.0, 1.0]])
    under_one = M @ (ucm.Hull(pos, weights=ucm.NormBall(0.15)) - ucm.Point(neg.mean))
    sol = ucm.solve(under_one, X, y)
    normal = known(feature_normal(under_one, sol.w))
    assert sol.w.shape == (3,) and sol.b is not None
    np.testing.assert_allclose(normal, M.T @ sol.w)
    mixed = M @ ucm.Point(pos.mean) - (2 * M) @ ucm.Point(neg.mean)
    sol = ucm.solve(mixed, X, y)
    assert sol.b is None and sol.bias_rule == "none" and feature_normal(mixed, sol.w) is None
    same = M @ ucm.Point(pos.mean) - M.copy() @ ucm.Point(neg.mean)
    assert ucm.solve(same, X, y).b is not None


def test_every_model_has_a_separating_bias() -> None:
    X, y = load("wine")
    for model in (
        ucm.models.nu_svm(0.1), ucm.models.mm_mpm(0.5), ucm.models.mm_fda(0.5),
        ucm.models.l2_nu_svm(0.3), ucm.models.biased_l2_nu_svm(0.4, 0.4), ucm.models.kl_svm(0.2),
        ucm.models.coherent_mm_mpm(0.5), ucm.models.coherent_mm_fda(0.5),
    ):  # fmt: skip
        sol = ucm.solve(model, X, y)
        # half-way between the means of the scores, which knows no sizes of classes either
        scores = (X @ sol.w)[:, None]
        halfway = LinearDiscriminantAnalysis(priors=[0.5, 0.5]).fit(scores, y).predict(scores)
        least = brute_force(X, y, sol.w)
        found = errors(X, y, sol.w, known(sol.b))
        assert least <= found <= np.sum(halfway != y), (model, sol.bias_rule)
        np.testing.assert_allclose(sol.decision(X), X @ sol.w + sol.b)
    assert bind(X, y).m == 178


def test_half_way_between_the_means() -> None:
    """MM-FDA in Table 9 of Ito, Takeda and Toh (2015); by name only, as errors tell more."""
    X, y = load("breast_cancer")
    plan = ucm.compile(ucm.models.mm_fda(0.5), X, y)
    sol = plan.solve(bias_rule="means")
    centre = 0.5 * (X[y > 0].mean(axis=0) + X[y < 0].mean(axis=0))
    assert sol.b == pytest.approx(-float(sol.w @ centre), rel=1e-12) and sol.bias_rule == "means"
    assert plan.solve().bias_rule == "min_error"
    linear = ucm.compile(ucm.models.mm_fda(0.5), X, y, kernel="linear").solve(bias_rule="means")
    assert linear.b == pytest.approx(sol.b, rel=1e-4)


def test_the_midpoint_of_a_multiple_is_that_of_the_set() -> None:
    """`2 A - 2 B` has class points twice as far out as the samples are."""
    X, y = load("wine")
    A, B = ucm.ReducedHull(pos, nu=0.5), ucm.ReducedHull(neg, nu=0.5)
    b = [ucm.compile(U, X, y).solve(bias_rule="midpoint").b for U in (A - B, 2 * A - 2 * B, 3 * (A - B))]
    np.testing.assert_allclose([known(x) for x in b], known(b[0]), rtol=1e-5)
    halves = 0.5 * pos.mean + 0.5 * ucm.Hull(pos) - (2 * neg.mean - ucm.Hull(neg))
    sol = ucm.compile(halves, X, y).solve(bias_rule="midpoint")
    parts = class_points(halves, bind(X, y), sol.answer.q)
    assert parts is not None and sol.b == pytest.approx(-0.5 * float(sol.w @ (parts[0] + parts[1])))


@pytest.mark.parametrize("label", [1.0, -1.0])
def test_samples_of_one_class(label: float) -> None:
    """The one-class SVM, whose rho is that of scikit-learn, and losses without a free intercept."""
    X = load("iris")[0][:60] + label * 3.0
    y = np.full(60, label)
    U = ucm.Hull(pos if label > 0.0 else neg, weights=ucm.CappedSimplex(1 / (0.31 * 60)))
    plan = ucm.compile(U if label > 0.0 else -U, X, y)
    solution = plan.solve(tol=1e-9)
    other = OneClassSVM(kernel="linear", nu=0.31, tol=1e-10).fit(label * X)
    size = np.linalg.norm(other.coef_)
    assert solution.bias_rule == "multipliers" and plan.verify().agrees
    assert solution.w == pytest.approx(other.coef_[0] / size, abs=1e-6)
    assert label * known(solution.b) == pytest.approx(float(other.intercept_[0]) / size, rel=1e-6)
    statistics = pos if label > 0.0 else neg
    E = ucm.solve(label * ucm.Ellipsoid(statistics.mean, statistics.cov, 0.5), X, y)
    spread = np.sqrt(E.w @ np.cov(X, rowvar=False, bias=True) @ E.w)
    assert E.bias_rule == "boundary"
    assert label * (E.w @ X.mean(axis=0) + known(E.b)) == pytest.approx(0.5 * spread)
    objective = (ucm.SquaredHinge() + ucm.L2()).with_intercept(None)
    doubled = ucm.solve(objective, X, y, sample_weight=np.full(60, 2.0))
    active = label * (X @ doubled.w) < 1.0  # the normal equations of these
    H = 2.0 * X[active].T @ X[active] + np.eye(2)
    assert doubled.w == pytest.approx(np.linalg.solve(H, 2.0 * label * X[active].sum(axis=0)), rel=1e-6)
    both = (ucm.Hinge(on=pos) + ucm.Hinge(on=neg) + ucm.L2()).with_intercept(None)
    for needs in (ucm.Hinge() + ucm.L2(), ucm.models.nu_svm(0.3), both):
        with pytest.raises(DataError, match="expected two classes, got one class"):
            ucm.compile(needs, X, y)
