"""Convex hulls of unions: their projection, their definition by CVXPY, how they are written and drawn."""

from __future__ import annotations

import pickle
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from bundled import NAMES, load
from conftest import load_shared
from scipy.optimize import minimize_scalar

import ucm
from ucm import Param, neg, pos, signed
from ucm.data.bound_data import bind
from ucm.errors import CompositionError, ParameterError
from ucm.extend import SampleWeights
from ucm.language.domains import Box, CappedSimplex, KLBall, NormBall, Simplex
from ucm.language.domains.convex_combination import (
    ConvexCombination,
    SmoothCombination,
    convex_combination,
    unit_of,
)
from ucm.language.robust import as_model
from ucm.ranges.parameter_range import interval_of
from ucm.testing import check_domain

TIGHT: Any = {
    "solver": "CLARABEL",
    **dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10),
}


def groups(y: Any, count: int = 3) -> list[str]:
    """A group for every sample, each with samples of both classes."""
    of_class = {label: np.flatnonzero(y == label) for label in (1.0, -1.0)}
    found = np.empty(len(y), dtype=object)
    for rows in of_class.values():
        found[rows] = [chr(ord("A") + k % count) for k in range(rows.size)]
    return list(found)


# --- the domain -------------------------------------------------------------------------------------
def over(D: Any, n: int) -> Any:
    """The weights of n samples, or a ball as it is."""
    return D.bind(SampleWeights(n)) if D.on_simplex else D


def of(*domains: Any, sizes: Any) -> ConvexCombination:
    """One domain an operand; None: a point."""
    plain = iter(sizes)
    given = [[] if D is None else [(over(D, n := next(plain)), n)] for D in domains]
    return convex_combination([(own, unit_of([D for D, _ in own], True, 0.0)) for own in given])


@pytest.mark.parametrize(
    ("domain", "dim"),
    [
        (of(CappedSimplex(0.4), NormBall(0.7), sizes=[4, 2]), 7),
        (of(Simplex(), None, CappedSimplex(0.5), sizes=[3, 2]), 6),
        (of(NormBall(0.5), NormBall(0.0), None, sizes=[2, 2]), 7),
        (of(NormBall(0.5, p=1.5), KLBall(0.6), Box(-1.0, 2.0), sizes=[2, 3, 1]), 8),
    ],
    ids=repr,
)
def test_the_domain_of_a_union_satisfies_the_laws(domain: ConvexCombination, dim: int) -> None:
    check_domain(domain, dims=(dim,), cvxpy_dim=dim, samples=False)


def drawn(rng: Any) -> SmoothCombination:
    domains, sizes = [], []
    for _ in range(rng.integers(2, 5)):
        n = int(rng.integers(2, 7))
        cap = rng.choice([1.0 / n, 1.0 / max(1, n // 2), rng.uniform(1.0 / n, 1.0)])
        kinds = [None, CappedSimplex(float(cap)), Simplex(), NormBall(float(rng.uniform(0.2, 2)))]
        domains.append(kinds[rng.integers(0, 4)])
        sizes += [n] * (domains[-1] is not None)
    found = of(*domains, sizes=sizes)
    assert isinstance(found, SmoothCombination)
    return found


@pytest.mark.parametrize("seed", range(25))
def test_the_projection_is_the_nearest_point_by_cvxpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    M = drawn(rng)
    v = rng.standard_normal(M.dim) * 10.0 ** rng.uniform(-2, 2)
    q = M.project(v)
    assert M.violation(q) <= 1e-12
    x = cp.Variable(M.dim)
    problem = cp.Problem(cp.Minimize(cp.norm(x - v)), M.own_constraints(x))
    problem.solve(solver="CLARABEL")
    assert np.linalg.norm(q - v) <= problem.value * (1 + 1e-7) + 1e-8
    normal = v - q  # q is its highest point
    assert M.support(normal)[0] - normal @ q <= 1e-13 * max(1.0, float(abs(v).max()))
    d, step = rng.standard_normal(M.dim), 1e-7 * max(1.0, float(abs(v).max()))
    difference = (M.project(v + step * d) - M.project(v - step * d)) / (2 * step)
    np.testing.assert_allclose(M.jacobian(v).matvec(d), difference, atol=1e-6)


def test_the_coefficients_of_many_weights_are_accurate() -> None:
    """Sums of thousands of scores; the scores are 1e3 times as far apart as the weights are large."""
    rng = np.random.default_rng(0)
    M = of(*(CappedSimplex(1 / 400.05) for _ in range(4)), sizes=[2000] * 4)
    for spread in (1e-3, 1.0, 5.0):
        v = spread * rng.standard_normal(M.dim)
        assert isinstance(M, SmoothCombination)
        q = M.project(v)
        assert M.violation(q) <= 1e-12
        # the normal cone: q maximises <v - q, .>
        normal = v - q
        assert M.support(normal)[0] - normal @ q <= 1e-13 * max(1.0, spread)


# --- against the definition -------------------------------------------------------------------------
def ball(S: Any, kappa: Any = 0.4) -> ucm.extend.UncertaintySet:
    return ucm.Ellipsoid(S.mean, S.cov, kappa)


A, B, C = (pos.group(k) for k in "ABC")
UNIONS = {
    "hulls": (ucm.Hull(A) | ucm.ReducedHull(B, eta=0.4) | ucm.Hull(C)) - neg.mean,
    "ellipsoids": (ball(A) | ball(B) | ball(C)) - (neg.group("A").mean | ball(neg.group("B"))),
    "mixed": (ball(A) | ucm.Hull(B, weights=KLBall(0.8)) | pos.mean) - ball(neg, 0.2),
    "inside": ((ball(A) | ball(B)) & ucm.Ball(pos.mean, 4.0))
    + 0.1 * ucm.ConvexUnion(B.mean, -C.mean) - neg.mean,
}  # fmt: skip


@pytest.mark.parametrize("data", [*NAMES, pytest.param("sonar", marks=pytest.mark.data)])
@pytest.mark.parametrize("name", UNIONS)
def test_a_union_agrees_with_its_twin(name: str, data: str) -> None:
    X, y = load(data) if data in NAMES else load_shared(data)
    plan = ucm.compile(UNIONS[name], X, y, subgroup=groups(y))
    solution = plan.solve()
    assert solution.status in ("optimal", "zero_in_set", "stationary")
    assert plan.verify().agrees


def test_the_worst_group_has_the_margin() -> None:
    """The objective is the worst of those of the operands at w, and that of a union over groups is
    larger than that of the mean of the groups' hulls."""
    X, y = load("wine")
    g = groups(y)
    U = UNIONS["ellipsoids"]
    solution = ucm.solve(U, X, y, subgroup=g)
    each = [ucm.support(V, X, y, -solution.w, subgroup=g).value for V in (ball(A), ball(B), ball(C))]
    V, factor = U.terms()[1]  # type: ignore[attr-defined]
    other = ucm.support(V, X, y, -factor * solution.w, subgroup=g).value
    assert solution.objective == pytest.approx(max(each) + other, rel=1e-6)


def test_two_worst_cases_at_one_w() -> None:
    """CVXPY takes two support functions of one argument for the same."""
    X, y = load("wine")
    one, two = ucm.Hull(pos) - neg.mean, ball(pos) - ucm.Hull(neg)
    w = cp.Variable(X.shape[1])
    both = cp.maximum(*(ucm.worst_case(U, X, y, w) for U in (one, two)))
    value = cp.Problem(cp.Minimize(both), [cp.norm(w) <= 1]).solve(**TIGHT)
    assert value == pytest.approx(ucm.solve(one | two, X, y).objective, rel=1e-6)


def test_certify_takes_the_weights_of_a_union() -> None:
    X, y = load("wine")
    g = groups(y)
    sides = [ucm.ConvexUnion(*(ucm.Hull(S.group(k)) for k in "ABC")) for S in (pos, neg)]
    plan = ucm.compile(sides[0] - sides[1], X, y, subgroup=g)
    solution = plan.solve()
    # the hull of a union of hulls is the hull
    pooled = ucm.solve(ucm.Hull(pos) - ucm.Hull(neg), X, y)
    assert solution.objective == pytest.approx(pooled.objective, rel=1e-6)
    outside = plan.certify(w=solution.w, weights=solution.weights)
    assert outside.relative_gap <= 1e-6 and outside.violation <= 1e-9
    shared = ucm.compile(ucm.Hull(pos) | pos.mean - ucm.Hull(neg), X, y)
    with pytest.raises(ParameterError, match="one weight"):
        shared.certify(weights=np.ones(len(y)))


def test_a_union_takes_kernels() -> None:
    X, y = load("iris")
    U = (ucm.ReducedHull(A, nu=0.4) | ucm.ReducedHull(B, nu=0.4)) - ucm.ReducedHull(neg, nu=0.4)
    plain = ucm.solve(U, X, y, subgroup=groups(y, 2))
    assert ucm.solve(U, X, y, subgroup=groups(y, 2), kernel="linear").objective == pytest.approx(
        plain.objective, rel=1e-5
    )
    behind = ucm.compile(U, X, y, subgroup=groups(y, 2), kernel="rbf")
    assert behind.solve().status == "optimal" and behind.verify().agrees


def test_where_zero_lies_inside() -> None:
    X, y = load("breast_cancer")
    U, g = (ball(A, 5.0) | ball(B, 5.0)) - neg.mean, groups(y)
    plan = ucm.compile(U, X, y, subgroup=g)
    assert plan.solve().objective > 0.0 and plan.verify().agrees
    least = np.inf  # in the plane, over the circle
    X = X[:, :2]
    for angle in np.linspace(0.0, 2.0 * np.pi, 721):
        w = np.array([np.cos(angle), np.sin(angle)])
        least = min(least, ucm.support(U, X, y, -w, subgroup=g).value)
    assert ucm.solve(U, X, y, subgroup=g).objective == pytest.approx(least, rel=1e-4)
    assert least > 0.0


@pytest.mark.parametrize("eta", [0.05, 0.3])
def test_a_weight_of_a_sample_is_as_many_copies(eta: float) -> None:
    X, y = load("wine")
    times = 1 + np.arange(len(y)) % 3
    g = np.array(groups(y))
    U = (ucm.ReducedHull(A, eta=eta) | ucm.ReducedHull(B, eta=eta) | C.mean) - ucm.ReducedHull(neg, eta=eta)
    weighted = ucm.compile(U, X, y, subgroup=g, sample_weight=times)
    every = np.repeat(np.arange(len(y)), times)
    copies = ucm.solve(U, X[every], y[every], subgroup=g[every])
    assert copies.objective != pytest.approx(ucm.solve(U, X, y, subgroup=g).objective, rel=1e-3)
    assert weighted.solve().objective == pytest.approx(copies.objective, rel=1e-6)
    assert weighted.verify().agrees


def test_the_admissible_size_of_a_union_is_where_zero_enters() -> None:
    X, y = load("breast_cancer")
    kappa, g = Param("kappa", 0.3), groups(y)
    U = (ball(A, kappa) | (ball(B, kappa) & ucm.Hull(pos))) - neg.mean
    end = ucm.admissible(U, X, y, subgroup=g)["kappa"].upper
    assert ucm.solve(U.with_params(kappa=0.99 * end), X, y, subgroup=g).objective < 0.0
    apart = [
        ucm.admissible(V - neg.mean, X, y, subgroup=g)["kappa"].upper
        for V in (ball(A, kappa), ball(B, kappa) & ucm.Hull(pos))
    ]
    assert end <= min(apart) * (1 + 1e-6)  # 0 lies in the hull where it lies in one
    relative = U.with_params(kappa=0.5).as_fractions(("kappa",))  # type: ignore[attr-defined]
    at = ucm.solve(relative, X, y, subgroup=g).params["kappa"]
    assert at == pytest.approx(0.5 * end, rel=1e-3)


def test_the_midpoint_of_unions() -> None:
    X, y = load("wine")
    sets = ucm.compile(UNIONS["hulls"], X, y, subgroup=groups(y))
    plus, minus = (np.asarray(x) for x in sets.solve().summand_points or ())
    solution = sets.solve()
    assert solution.b == pytest.approx(-0.5 * float(solution.w @ (plus + minus)))
    U = (ucm.Hull(pos) | np.full(X.shape[1], 0.5)) - neg.mean  # half of it stays where it is
    with pytest.raises(ParameterError, match="midpoint"):
        ucm.compile(U, X, y).solve(bias_rule="midpoint")


# --- how it is written ------------------------------------------------------------------------------
def test_a_union_is_written_and_read_back() -> None:
    U = ucm.Hull(pos) | ucm.Hull(neg) - ucm.Point(neg.mean)
    assert repr(U) == "Hull(pos) | (Hull(neg) - Point(neg.mean))"
    assert repr((ucm.Hull(pos) | ucm.Hull(neg)) - neg.mean).startswith("(Hull(pos) | Hull(neg)) - ")
    assert repr(2 * (ucm.Hull(pos) | pos.mean)) == "2 * (Hull(pos) | Point(pos.mean))"
    nested = (ucm.Hull(pos) | pos.mean) | (pos.mean | ucm.Ball(0, 1))
    assert isinstance(nested, ucm.ConvexUnion) and len(nested.sets) == 4
    assert nested == ucm.ConvexUnion(ucm.Hull(pos), pos.mean, pos.mean, ucm.Ball(0, 1))
    assert [0.0, 1.0] | ucm.Ball(0, 1) == ucm.ConvexUnion([0.0, 1.0], ucm.Ball(0, 1))
    for node in (U, nested):
        assert ucm.from_json(ucm.to_json(node)) == node == pickle.loads(pickle.dumps(node))
        assert r"\cup" in node._repr_latex_() and "∪" in str(node)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ucm.ConvexUnion(), "two sets or more, got none"),
        (lambda: ucm.ConvexUnion(ucm.Hull(pos)), "two sets or more, got Hull(pos)"),
        (lambda: ucm.Point([1.0]) | ucm.Point([1.0, 2.0]), "of one dimension, got 1 and 2"),
        (lambda: ucm.Hull(pos) | pos, "did you mean Hull(pos)?"),
        (lambda: ucm.Hull(pos) | 3.0, "expected a set"),
        (lambda: ucm.Hull(pos) | ucm.L2(), "is no set"),
        (lambda: ucm.compile(ucm.AffineImage(np.eye(2), Box(0, np.inf)) | pos.mean, np.eye(2), [-1, 1]),
         "expected bounded sets"),
    ],
)  # fmt: skip
def test_invalid_unions_are_refused(make: Any, words: str) -> None:
    with pytest.raises(CompositionError) as error:
        make()
    assert words in str(error.value) and any(mark in str(error.value) for mark in ";?")


def test_the_outline_of_a_union_is_the_hull_of_its_operands() -> None:
    pytest.importorskip("matplotlib")
    from scipy.spatial import ConvexHull

    from ucm.plot import SetDisplay

    X = load("wine")[0][:, :2]
    y, g = load("wine")[1], groups(load("wine")[1])
    U = (ucm.Hull(A) | ball(B)) - neg.mean
    shown = SetDisplay.from_model(U, X, y, subgroup=g)
    assert len(shown.parts[1]) == 2
    points = np.vstack([part.vertices for part in shown.parts[1]])
    whole = ConvexHull(shown.classes[1].vertices)
    assert whole.volume == pytest.approx(ConvexHull(points).volume, rel=1e-3)


def test_over_rows_by_their_moments() -> None:
    """Means far from 0: where all operands go along with the samples, so does the union."""
    X, y = load("wine")
    X = X + 1e3
    for U in (
        (ball(pos) | pos.mean) - neg.mean,
        (ball(pos) | np.full(X.shape[1], 1e3)) - neg.mean,
        ucm.Ellipsoid(signed.mean, signed.cov, 0.1) | signed.mean,
    ):
        plain, rows = ucm.solve(U, X, y), ucm.solve(U, ucm.open_rows(X, y))
        assert rows.objective == pytest.approx(plain.objective, rel=1e-7)
        np.testing.assert_allclose(rows.w, plain.w, atol=1e-3)


def test_the_worst_group_errs_less() -> None:
    """A feature that misleads a rare group, on samples held out."""
    rng = np.random.default_rng(3)
    y = rng.choice([-1.0, 1.0], 600)
    g = np.where(rng.random(600) < 0.1, "rare", "usual")
    other = np.where(g == "rare", -2.0, 2.0) * y + 0.7 * rng.normal(size=600)
    X = np.column_stack([y + rng.normal(size=600), other])
    fit, held = slice(0, 300), slice(300, None)

    def worst(U: Any) -> float:
        found = ucm.solve(U, X[fit], y[fit], subgroup=g[fit])
        wrong = np.sign(X[held] @ found.w + found.b) != y[held]
        cells = [(g[held] == k) & (y[held] == c) for k in ("usual", "rare") for c in (-1.0, 1.0)]
        return max(float(wrong[cell].mean()) for cell in cells)

    pooled = ucm.CVaR(pos, 0.5) - ucm.CVaR(neg, 0.5)
    assert worst(ucm.models.group_dro(["usual", "rare"], 0.5)) < worst(pooled) - 0.2
    with pytest.raises(ucm.DataError, match="expected the group"):
        ucm.solve(ucm.models.group_dro(["usual", "rare"]), X, y)


@pytest.mark.parametrize(
    "labels",
    [3, None, "AB", b"AB", {"A", "B"}, {"A": 1, "B": 2}, [], ["A"], np.array(["A"])],
    ids=range(9),
)
def test_groups_are_a_sequence_of_labels(labels: Any) -> None:
    with pytest.raises(CompositionError, match=r"sequence of two labels or more, got .*; write"):
        ucm.models.group_dro(labels)


def test_groups_of_any_sequence() -> None:
    expected = ucm.models.group_dro(["A", "B"])
    for labels in (("A", "B"), np.array(["A", "B"]), iter("AB")):
        assert ucm.models.group_dro(labels) == expected  # type: ignore[arg-type]


def test_an_operand_without_a_point() -> None:
    X, y = load("iris")
    U = (pos.mean | ucm.ReducedHull(pos, eta=1e-3)) - neg.mean
    with pytest.raises(ucm.EmptySetError, match="every operand must have a point; Hull"):
        ucm.solve(U, X, y)


def test_a_size_in_a_union_that_meets_another_set_has_an_interval() -> None:
    X, y = load("wine")
    r, s = Param("r", 0.5), Param("s", 3.0)
    apart = float(np.linalg.norm(X[y > 0].mean(axis=0) - X[y < 0].mean(axis=0)))
    U = ((ucm.Ball(pos.mean, r) | pos.mean) & ucm.Ball(pos.mean, s)) - neg.mean
    both = ucm.admissible(U, X, y)
    assert both["s"] == interval_of(as_model(U, ""), bind(X, y), "s")
    wide = ((ucm.Ball(pos.mean, r) | pos.mean) & ucm.Ball(pos.mean, 2.0 * apart)) - neg.mean
    assert ucm.admissible(wide, X, y)["r"].upper == pytest.approx(apart, rel=1e-5)
    relative = ucm.solve(wide.as_fractions(("r",)), X, y)
    assert relative.params["r"] == pytest.approx(0.5 * apart, rel=1e-5)
    far = ((ucm.Ball(pos.mean, r) | pos.mean) & ucm.Ball(neg.mean, s)) - neg.mean
    assert ucm.admissible(far, X, y)["s"].lower == pytest.approx(apart - 0.5, rel=1e-5)


def test_advice_where_a_union_meets_another_set() -> None:
    X, y = load("iris")
    far = np.full(X.shape[1], 50.0)
    for r, s in ((Param("r", 0.1), 0.1), (0.1, Param("s", 0.1))):
        U = (pos.mean | ucm.Ball(neg.mean, s)) & ucm.Ball(far, r)
        with pytest.raises(ucm.EmptySetError, match=r"[rs] must lie in \["):
            ucm.solve(U, X, y)


# --- many samples -----------------------------------------------------------------------------------------
def four_groups(m: int, apart: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Four groups, of which some lie farther from the other class."""
    rng = np.random.default_rng(0)
    y, group = np.where(rng.random(m) < 0.5, 1.0, -1.0), rng.integers(0, 4, m)
    X = rng.standard_normal((m, 5)) + apart * (1.0 + group / 3.0)[:, None] * y[:, None]
    return X, y, group


def of_four(nu: float) -> ucm.extend.UncertaintySet:
    plus, minus = (
        ucm.ConvexUnion(*(ucm.ReducedHull(S.group(k), nu=nu) for k in range(4))) for S in (pos, neg)
    )
    return plus - minus


def test_large_unions_against_clarabel() -> None:
    """With operands that have no share; a callback stops where it says so."""
    X, y, group = four_groups(800, 1.0)
    plan = ucm.compile(of_four(0.1), X, y, subgroup=group)
    found = plan.solve()
    conic = ucm.solve(of_four(0.1), X, y, subgroup=group, solver="clarabel")
    assert found.status == "optimal" and found.stats.solver == "ssnal"
    assert found.objective == pytest.approx(conic.objective, rel=1e-6)
    last = len(found.history) - 1
    with pytest.warns(ucm.ConvergenceWarning, match="stopped by the callback"):
        stopped = plan.solve(callback=lambda record: record["iteration"] == last)
    assert len(stopped.history) == last


def test_large_unions_that_hold_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """By nearest points what a conic program finds."""
    X, y, group = four_groups(160, 0.1)
    plan = ucm.compile(of_four(0.05), X, y, subgroup=group)
    conic = plan.solve(bound=False)
    monkeypatch.setattr("ucm.solvers.sphere.ray_shooting._LARGE", 0)
    near = plan.solve(bound=False)
    assert near.status == "stationary" and near.stats.solver == conic.stats.solver == "linearize"
    assert near.stats.systems > 0 and near.objective == pytest.approx(conic.objective, rel=1e-5)


def test_balls_of_another_dimension_than_the_samples() -> None:
    X, y = load("iris")
    U = ucm.Point([3.0]) | ucm.Ball([2.0], 0.5) | ucm.Ellipsoid([4.0], [[1.0]], 0.5)
    solution = ucm.solve(U, X, y)
    assert solution.status == "optimal" and solution.objective == pytest.approx(-1.5, abs=1e-6)


# --- coefficients ----------------------------------------------------------------------------------------
def nearest_in_simplex(v: np.ndarray, cap: float, mass: float) -> np.ndarray:
    """The projection on a capped simplex by bisection."""
    low, high = v.min() - cap - mass, v.max()
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.clip(v - middle, 0.0, cap).sum() > mass else (low, middle)
    return np.clip(v - low, 0.0, cap)


@pytest.mark.parametrize("seed", range(8))
def test_the_coefficients_of_a_convex_combination_against_a_search(seed: int) -> None:
    """Two operands: a capped simplex, and another one or a ball."""
    rng = np.random.default_rng(seed)
    m, k = int(rng.integers(1, 12)), int(rng.integers(1, 12))
    a, b = (np.sort(rng.standard_normal(s))[::-1].copy() for s in (m, k))
    ball = seed % 2 == 1
    cap, other = rng.uniform(1.0 / m, 1.2), rng.uniform(1.0 / k, 1.2)
    radius, length, at = 0.7, 1.1, 0.4

    def cost(t: float) -> float:
        first = np.sum((nearest_in_simplex(a, cap * t, t) - a) ** 2) if t > 0.0 else np.sum(a**2)
        s = 1.0 - t
        if ball:
            return first + max(0.0, length - radius * s) ** 2 + (radius * s - at) ** 2
        rest = nearest_in_simplex(b, other * s, s) if s > 0.0 else 0.0 * b
        return first + np.sum((rest - b) ** 2)

    best: Any = minimize_scalar(cost, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-12})
    M = of(
        CappedSimplex(cap), NormBall(radius) if ball else CappedSimplex(other), sizes=[m, 2 if ball else k]
    )
    assert isinstance(M, SmoothCombination)
    q = M.project(np.concatenate([a, [length, 0.0, at] if ball else b]))
    t, s = M.coefficients(q)
    assert t + s == pytest.approx(1.0, abs=1e-12)
    assert min(t, s) >= 0.0
    assert cost(float(np.clip(t, 0.0, 1.0))) <= best.fun + 1e-9
    np.testing.assert_allclose(q[:m], nearest_in_simplex(a, cap * t, t) if t > 0.0 else 0.0 * a, atol=1e-9)


def test_scores_far_from_0_and_far_apart() -> None:
    """The normal cone, where rounding of the scores is as large as the coefficients, and beyond."""
    rng = np.random.default_rng(0)
    mixed, balls = of(CappedSimplex(0.3), NormBall(0.1), sizes=[5, 2]), of(None, NormBall(70.0), sizes=[2])
    for M, reach in ((mixed, 1.0), (balls, 70.0)):
        assert isinstance(M, SmoothCombination)
        for power in range(-6, 16):
            v = 10.0**power * (rng.standard_normal(M.dim) + rng.choice([0.0, 1e3]))
            q = M.project(v)
            normal = v - q
            size = reach * (reach + float(np.linalg.norm(v)))
            assert M.violation(q) <= 1e-12
            assert M.support(normal)[0] - normal @ q <= 1e-13 * size


def test_a_projection_that_begins_at_its_solution_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slopes of both coefficients are equal to rounding, so that no step along their difference falls."""
    calls = 0
    nearest = SmoothCombination._nearest

    def counted(self: Any, v: Any, t: Any) -> Any:
        nonlocal calls
        calls += 1
        return nearest(self, v, t)

    monkeypatch.setattr(SmoothCombination, "_nearest", counted)
    U = (ucm.ReducedHull(pos, nu=0.3) | ucm.Ellipsoid(pos.mean, pos.cov, 0.2)) - ucm.Hull(neg)
    for seed in (1, 4, 10, 11, 12, 43, 44):
        rng = np.random.default_rng(seed)
        y = np.where(rng.random(30) < 0.5, 1.0, -1.0)
        X = rng.standard_normal((30, 3)) + y[:, None]
        calls = 0
        there, here = ucm.solve(U, X + 100.0, y), ucm.solve(U, X, y)
        assert calls < 50_000
        assert there.objective == pytest.approx(here.objective, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("p", [2.0, np.inf])
@pytest.mark.parametrize("norm", [2.0, 1.0])
@pytest.mark.parametrize("radius", [1e-12, 1e-8, 1e-3])
def test_a_tiny_ball_is_nearly_its_center(p: float, norm: float, radius: float) -> None:
    """The union with the center alone is as far away, but for the radius; so is the nearest direction."""
    rng = np.random.default_rng(3)
    for size, apart in ((1.0, 2.0), (1e4, 2.0), (1.0, 0.2)):  # 0 outside, and inside
        y = np.repeat([1.0, -1.0], [12, 9])
        X = size * (rng.standard_normal((21, 4)) + apart * y[:, None])
        hull, far = ucm.Hull(pos), ucm.Hull(neg)
        ball, point = (
            ucm.solve(ucm.RobustMargin((hull | V) - far, norm), X, y, bound=False)
            for V in (ucm.Ball(X[0] - size, size * radius, p), ucm.Point(X[0] - size))
        )
        assert ball.status == point.status or {ball.status, point.status} <= {"optimal", "stationary"}
        assert ball.objective == pytest.approx(point.objective, rel=1e-5, abs=10.0 * size * radius)
