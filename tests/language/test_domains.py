"""Domains: the laws over the catalogue, infeasibility, printing, and equivalences between domains."""

from __future__ import annotations

import itertools
import math
from statistics import NormalDist
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from catalogue import DOMAINS, LOSSES
from hypothesis import given, settings
from hypothesis import strategies as st

import ucm
import ucm.language.domains
from ucm.data.linear_map import Vec
from ucm.errors import CompositionError, EmptySetError
from ucm.language.contracts import (
    BoundDomain,
    Domain,
    Jacobian,
    MassMultipliers,
    Projectable,
    SampleWeights,
    SemiSmooth,
)
from ucm.language.domains import (
    Box,
    CappedSimplex,
    DomainIntersection,
    KLBall,
    LossBall,
    NormBall,
    Simplex,
    norm_ball,
    separable_constraint,
)
from ucm.language.domains.divergence_ball import Entropy
from ucm.language.losses import Exponential, Hinge, Logistic, SquaredHinge
from ucm.language.node import LATEX, Notation
from ucm.language.objective import ScaledLoss
from ucm.language.parameter import Param
from ucm.language.serialize import from_json, to_json
from ucm.language.terms import ConvexLoss
from ucm.testing import check_domain

WITHOUT_TYPES: Any = ucm.language.domains
Y = np.array([1.0, 1.0, -1.0, 1.0, -1.0, 1.0])


def over(D: Domain, n: int, classes: Any = None, weights: Any = None) -> Any:
    """The domain as the weights of n samples."""
    return D.bind(SampleWeights(n, weights, classes))


@pytest.mark.parametrize(("domain", "dim"), [*zip(DOMAINS, itertools.cycle((1, 2, 12)))], ids=repr)
def test_a_domain_satisfies_the_laws(domain: Domain, dim: int) -> None:
    """In dimension 5 and in one more; in the catalogue domains of a kind follow each other."""
    conic = isinstance(domain, DomainIntersection)  # its support is that of a conic solver
    check_domain(domain, (dim, 5), tol=1e-6 if conic else 1e-9)


@pytest.mark.parametrize("domain", [KLBall(0.9), KLBall(0.3), NormBall(0.2, 3.0)], ids=repr)
def test_a_support_scales_with_its_direction(domain: Domain) -> None:
    rng = np.random.default_rng(3)
    classes = np.where(np.arange(100) < 50, 1.0, -1.0)
    for spread in np.repeat([1e-3, 1.0, 1e3], 10):
        g = spread * rng.standard_normal(100) + 0.1 * classes
        bound = over(domain, 100, classes)
        height, q = bound.support(g)
        for factor in (1e-10, 1e-8, 1e-4, 1e6):
            other, p = bound.support(factor * g)
            assert other == pytest.approx(factor * height, rel=1e-9)
            np.testing.assert_allclose(p, q, atol=1e-6)


@pytest.mark.parametrize("classes", [None, np.where(np.arange(60) % 3, 1.0, -1.0)], ids=["one", "two"])
def test_the_entropy_projection_against_nested_roots(classes: np.ndarray | None) -> None:
    rng = np.random.default_rng(4)
    samples = SampleWeights(60, None, classes)
    h = Entropy(samples)
    least = h.value(samples.uniform())
    for _ in range(60):
        alpha = math.exp(-least) * 10.0 ** -rng.uniform(1e-4, 1.0)
        v = 10.0 ** rng.uniform(-5.0, 4.0) * rng.standard_normal(60) / 60.0
        if h.value(Simplex().bind(samples).project(v)) <= -math.log(alpha):
            continue
        point = separable_constraint.solve(h, v, samples.groups, -math.log(alpha), least, prox=True)
        D = KLBall(alpha).bind(samples)
        q = D.project(v)
        np.testing.assert_allclose(q, point.q, rtol=1e-8, atol=1e-12)
        assert D.violation(q) == 0.0


@pytest.mark.parametrize(
    "domain",
    [KLBall(0.9), KLBall(1.0 - 1e-6), LossBall(Exponential(), -0.9), LossBall(3 * Logistic(), -1.9)],
    ids=repr,
)
def test_the_nearest_weights_to_a_constant(domain: Domain) -> None:
    c = np.random.default_rng(40).uniform(0.1, 3.0, 40)
    D: Any = domain.bind(SampleWeights(40, weights=c))
    near = D.project(1e-6 * np.arange(40.0) / 40.0)
    for constant in (0.0, 1.0, -1e8):
        q = D.project(np.full(40, constant))
        assert D.violation(q) == 0.0
        np.testing.assert_allclose(q, near, atol=1e-5)


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_domains_are_values_with_a_text(domain: Domain) -> None:
    assert from_json(to_json(domain)) == domain
    assert str(domain) and "\\" in domain.formula(LATEX)


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_on_simplex_is_exact(domain: Domain) -> None:
    import cvxpy as cp

    exact = domain.bind(SampleWeights(4))
    if not exact.on_simplex:
        return
    assert isinstance(exact, SemiSmooth) and isinstance(exact, MassMultipliers)
    if exact.infeasibility_reason(4) is not None:
        return
    g = np.random.default_rng(1).standard_normal(4)
    if exact.support(g)[0] + exact.support(-g)[0] < 1e-12:
        return  # a single point: no interior for a conic solver
    x = cp.Variable(4)
    size = domain.size()
    own = domain.cvxpy(x, None if size is None else size.number)
    problem = cp.Problem(cp.Maximize(g @ x), [x >= 0, cp.sum(x) == 1, *own])
    problem.solve(solver=cp.CLARABEL)
    assert problem.value == pytest.approx(exact.support(g)[0], abs=1e-6)


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_a_size_grows_the_set(domain: Domain) -> None:
    size = domain.size()
    if size is None or not isinstance(size.declared, Param):
        return
    name = size.declared.name
    g = np.random.default_rng(2).standard_normal(12)
    smaller = domain.with_params(**{name: size.inverse(0.98 * size.number)})
    assert smaller.support(g)[0] <= domain.support(g)[0] + 1e-12


# --- infeasibility --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("domain", "classes", "part"),
    [
        (CappedSimplex(0.1), None, "times 6 entries is below 1; the cap must be at least 0.166667"),
        (CappedSimplex(Param("eta", 0.1)), Y, "eta must be at least 0.25"),
        (CappedSimplex(0.0), None, "must be at least"),
        (NormBall(0.4), None, "must be at least 0.408248"),
        (NormBall(0.4), Y, "must be at least 0.433013"),
        (NormBall(0.9, p=1), None, "must be at least 1"),
        (NormBall(0.1, p=math.inf), None, "must be at least 0.166667"),
        (KLBall(1.5), None, "must lie in (0, 1]"),
        (KLBall(0.0), None, "must lie in (0, 1]"),
        (KLBall(Param("alpha", 0.99)), Y, "alpha must lie in (0, 0.942809]"),
        (LossBall(Exponential(), -1.1), None, "must be at least -1"),
        (LossBall(Hinge(2), 0.2), None, "must be at least 0.25"),
        (LossBall(Hinge(), 0.2), Y, "slope at most 1, and the weights need 1.5"),
        (Box(1.0, 0.0), None, "must be at least 1"),
        (Box(Param("l", 1.0), Param("u", 0.0)), None, "u must be at least 1"),
        (Box(0.3, 0.5), None, "the lower bound must be at most 0.166667"),
        (Box(0.05, 0.1), Y, "the upper bound must be at least 0.25"),
        (Simplex(), np.ones(6), "one class has no entries"),
    ],
    ids=repr,
)
def test_empty_domains_say_why(domain: Domain, classes: np.ndarray | None, part: str) -> None:
    reason = over(domain, 6, classes).infeasibility_reason(6) or domain.infeasibility_reason(6)
    assert reason is not None and part in reason
    assert reason.startswith(repr(domain)[:7])


def test_domains_without_a_common_point_are_empty() -> None:
    assert "no q of 6 entries" in str((Simplex() & Box(0.0, 0.1)).infeasibility_reason(6))


@pytest.mark.parametrize(
    ("domain", "classes"),
    [
        (CappedSimplex(1.0 / 6.0), None),
        (NormBall(6**-0.5), None),
        (NormBall(0.5 * math.sqrt(1 / 4 + 1 / 2)), Y),
        (NormBall(6 ** (1 / 1.5 - 1), p=1.5), None),
        (NormBall(0.5 * (4**-2.0 + 2**-2.0) ** (1 / 3), p=3), Y),
        (KLBall(1.0), None),
        (KLBall(2 * math.sqrt(8) / 6), Y),
        (LossBall(Hinge(2), 0.25), None),
        (LossBall(Hinge(2), (4 * (0.75) ** 2 + 2 * 1.5**2) / 24), Y),
    ],
    ids=repr,
)
def test_the_smallest_size_leaves_one_point(domain: Domain, classes: np.ndarray | None) -> None:
    D = over(domain, 6, classes)
    assert D.infeasibility_reason(6) is None
    center = D.center(6)
    for v in (np.arange(6.0), 1e12 * np.arange(6.0), np.zeros(6)):
        assert D.project(v) == pytest.approx(center, abs=2e-6)
        assert D.support(v)[1] == pytest.approx(center, abs=2e-6)
    slope = D.jacobian(np.arange(6.0)).matvec(np.eye(6)[0])
    assert np.abs(slope).max() < 1.0


# --- composition ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "build",
    [
        lambda: WITHOUT_TYPES.CappedSimplex("0.1"),
        lambda: WITHOUT_TYPES.CappedSimplex(None),
        lambda: WITHOUT_TYPES.NormBall(1.0, p=Param("p", 2.0)),
        lambda: NormBall(1.0, p=0.5),
        lambda: WITHOUT_TYPES.NormBall(1.0, p="2"),
        lambda: KLBall(float("nan")),
        lambda: WITHOUT_TYPES.LossBall(3.0, 1.0),
        lambda: WITHOUT_TYPES.LossBall(Hinge(), "r"),
        lambda: WITHOUT_TYPES.Box("a", 1.0),
        lambda: Simplex() & 3,
        lambda: -1.0 * Hinge(),
        lambda: Hinge() / 0,
        lambda: Hinge(0.5),
        lambda: ScaledLoss(1.0, "hinge"),  # type: ignore[arg-type]
    ],
)
def test_nonsense_is_refused_when_written(build: object) -> None:
    with pytest.raises(CompositionError):
        build()  # type: ignore[operator]


def test_intersections_of_domains_nest() -> None:
    D = Simplex() & Box() & NormBall(0.5)
    assert isinstance(D, DomainIntersection) and isinstance(D.left, DomainIntersection)
    assert not D.on_simplex and not isinstance(D, Projectable)
    assert D.params() == {}


# --- equivalences -----------------------------------------------------------------------------
def same(declared: Domain, other: Domain, dim: int, classes: np.ndarray | None = None) -> None:
    a, b = over(declared, dim, classes), over(other, dim, classes)
    rng = np.random.default_rng(3)
    assert (a.infeasibility_reason(dim) is None) == (b.infeasibility_reason(dim) is None)
    for v in rng.standard_normal((10, dim)):
        assert a.project(v) == pytest.approx(b.project(v), abs=1e-11)
        assert a.support(v)[0] == pytest.approx(b.support(v)[0], rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("classes", [None, Y], ids=["one", "two"])
@pytest.mark.parametrize("r", [0.0, 0.7])
def test_the_hinge_ball_is_a_capped_simplex(r: float, classes: np.ndarray | None) -> None:
    nu = 0.4
    ball = LossBall(Hinge() / Param("nu", nu), r)
    same(ball, CappedSimplex(1.0 / (6 * nu)), 6, classes)
    g = np.random.default_rng(0).standard_normal(6)
    capped = CappedSimplex(1.0 / (6 * nu))
    assert over(ball, 6, classes).mass_multipliers(g) == over(capped, 6, classes).mass_multipliers(g)


@pytest.mark.parametrize("classes", [None, Y], ids=["one", "two"])
@pytest.mark.parametrize("p", [1.5, 2.0, 4.0])
def test_the_p_hinge_ball_is_a_norm_ball(p: float, classes: np.ndarray | None) -> None:
    dual, r = p / (p - 1.0), 0.6
    radius = (p / 6) * (r * 6 / (p - 1.0)) ** (1.0 / dual)
    same(LossBall(Hinge(p), r), NormBall(radius, dual), 6, classes)


@pytest.mark.parametrize("classes", [None, Y], ids=["one", "two"])
def test_the_exponential_ball_is_a_divergence_ball(classes: np.ndarray | None) -> None:
    r = -0.4
    ball = KLBall(math.exp(-r - 1.0))
    same(LossBall(Exponential(), r), ball, 6, classes)


def test_multiples_of_a_loss_scale_its_ball() -> None:
    a = LossBall(3.0 * SquaredHinge(), 0.2)
    b = LossBall(SquaredHinge(), 0.6)
    same(a, b, 6)  # (3 l)* = l*/3 for the square: s^2/4 becomes s^2/12


# --- levels -----------------------------------------------------------------------------------
def test_levels_of_a_capped_simplex_are_order_statistics() -> None:
    g = np.array([5.0, 4.0, 3.0, 1.0])
    assert CappedSimplex(0.5).mass_multipliers(g) == [(3.0, 4.0)]
    assert CappedSimplex(0.4).mass_multipliers(g) == [(3.0, 3.0)]
    assert CappedSimplex(0.25).mass_multipliers(g) == [(-math.inf, 1.0)]
    assert CappedSimplex(2.0).mass_multipliers(g) == [(5.0, 5.0)]
    y = np.array([1.0, -1.0, 1.0, -1.0])
    assert over(CappedSimplex(0.25), 4, y).mass_multipliers(g) == [
        (-math.inf, 3.0),
        (-math.inf, 1.0),
    ]
    assert over(CappedSimplex(0.5), 4, y).mass_multipliers(g) == [(3.0, 5.0), (1.0, 4.0)]


@pytest.mark.parametrize(
    "domain",
    [
        KLBall(0.6), LossBall(Exponential(), 0.1), LossBall(Hinge(1.5), 0.5), LossBall(SquaredHinge(), 0.4),
        NormBall(0.75, 1.5), NormBall(0.4, 3, "uniform"),
    ],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("classes", [None, Y], ids=["one", "two"])
def test_levels_are_multipliers_of_the_masses(domain: Domain, classes: np.ndarray | None) -> None:
    """Without the masses, at the price theta, the same point stays a maximiser over the ball of q >= 0."""
    g = np.random.default_rng(4).standard_normal(6)
    D = over(domain, 6, classes)
    top, q = D.support(g)
    theta = [lo for lo, _ in D.mass_multipliers(g)]
    price = np.full(6, theta[0]) if classes is None else np.where(classes > 0, *theta)
    x = cp.Variable(6, nonneg=True)
    inside = [
        c for c in D.own_constraints(x) if not isinstance(c, cp.constraints.Equality | cp.constraints.Zero)
    ]
    problem = cp.Problem(cp.Maximize((g - price) @ x), inside)
    problem.solve(solver="CLARABEL")
    assert problem.value == pytest.approx(top - price @ q, abs=1e-6)


def test_levels_of_a_ball_are_multipliers_of_the_masses() -> None:
    g = np.random.default_rng(5).standard_normal(6)
    for p in (1.5, 2.0, 4.0):
        domain = over(NormBall(0.75, p), 6, Y)
        top, q = domain.support(g)
        price = np.where(Y > 0, *[lo for lo, _ in domain.mass_multipliers(g)])
        rest = np.maximum(g - price, 0.0)  # the support of the ball on q >= 0
        assert NormBall(0.75, p).support(rest)[0] == pytest.approx(top - price @ q, abs=1e-9)


# --- losses -----------------------------------------------------------------------------------
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_losses_keep_their_contract(loss: ConvexLoss) -> None:
    u = np.array([-3.0, -0.5, 0.3, 1.7])
    s = loss.gradient(u)
    # Fenchel-Young with l read off the maximum of s u - l*(s)
    grid = np.linspace(max(loss.lowest(), -40.0), 40.0, 400_001)
    finite = loss.conjugate(grid)
    value = np.array([np.max(np.where(np.isfinite(finite), grid * x - finite, -np.inf)) for x in u])
    assert s * u - loss.conjugate(s) == pytest.approx(value, abs=1e-6)
    assert np.isinf(loss.conjugate(np.array([loss.lowest() - 1e-9]))).all() or loss.lowest() == -np.inf
    for t in (0.0, 1e-9, 0.3, 1e3):
        x = np.array([-2.0, 0.4, 0.9, 7.0])
        prox = loss.conjugate_prox(x, t)
        cost = 0.5 * (grid - x[:, None]) ** 2 + (
            t * finite if t > 0 else np.where(finite < np.inf, 0, np.inf)
        )
        best = cost.min(axis=1)
        own = 0.5 * (prox - x) ** 2 + (t * loss.conjugate(prox) if t > 0 else 0.0)
        assert (own <= best + 1e-9 * (1 + t)).all()
        ahead, behind = (loss.conjugate_prox(x + h, t) for h in (1e-6, -1e-6))
        slope = loss.conjugate_prox_slope(x, t, prox)
        assert slope == pytest.approx((ahead - behind) / 2e-6, abs=1e-4)


# --- a reader's own domain ----------------------------------------------------------------------
class HalfSpaceBox(Domain, SemiSmooth):
    """{q >= level}: an unbounded domain of the reader's own."""

    level: float = 0.0

    def project(self, v: Vec) -> Vec:
        return np.maximum(v, self.level)

    def jacobian(self, v: Vec) -> Jacobian:
        return Jacobian((np.asarray(v) > self.level).astype(float), np.zeros((len(v), 0)), np.eye(0))

    def support(self, g: Vec) -> tuple[float, Vec]:
        q = self.center(len(g))
        if np.max(g) > 0:
            return math.inf, q
        return self.level * float(np.sum(g)), np.full(len(g), self.level)

    def center(self, dim: int) -> Vec:
        return np.full(dim, self.level + 1.0)

    def cvxpy(self, q: Any, size: Any) -> list[Any]:
        return [q >= self.level]

    def formula(self, notation: Notation) -> str:
        return f"{self.level}{notation.leq}q"


class Outside(HalfSpaceBox):
    """Wrong on purpose: its projection is not inside."""

    def project(self, v: Vec) -> Vec:
        return np.maximum(v, self.level - 0.1)

    def violation(self, q: Vec) -> float:
        return max(0.0, self.level - float(np.min(q)) - 1e-12)


def test_a_readers_own_domain() -> None:
    check_domain(HalfSpaceBox(0.5), dims=(1, 3))
    with pytest.raises(AssertionError, match="the projection is inside"):
        check_domain(Outside(0.5), dims=(3,))
    with pytest.raises(AssertionError, match="empty in every dimension"):
        check_domain(CappedSimplex(0.01), dims=(3,))


class Wider(HalfSpaceBox):
    """Wrong on purpose: on the simplex it forgets its own bound."""

    def bind(self, samples: SampleWeights) -> BoundDomain:
        return Simplex().bind(samples)


class OfOneClass(HalfSpaceBox):
    """Wrong on purpose: on the simplex it puts no mass of its own on each class."""

    def bind(self, samples: SampleWeights) -> BoundDomain:
        return Simplex().bind(SampleWeights(samples.dim))


class Unweighted(HalfSpaceBox):
    """Wrong on purpose: weights change nothing."""

    def bind(self, samples: SampleWeights) -> BoundDomain:
        return CappedSimplex(0.4).bind(SampleWeights(samples.dim, None, samples.classes))


def test_check_domain_checks_weighted_and_bound_domains() -> None:
    """A hull takes its weights from `bind`: a wrong one proved -0.0028 where the optimum is -1.943."""
    with pytest.raises(AssertionError, match="it lies in the declared domain"):
        check_domain(Wider(0.05), dims=(3,))
    with pytest.raises(AssertionError, match="it lies on the simplex"):
        check_domain(OfOneClass(0.0), dims=(3,))
    with pytest.raises(AssertionError, match="a weight is a number of equal samples"):
        check_domain(Unweighted(0.0), dims=(4,), cvxpy_dim=0)


# --- hypothesis -------------------------------------------------------------------------------
@settings(max_examples=60, deadline=None)
@given(
    v=st.lists(st.floats(-1e6, 1e6, width=32), min_size=2, max_size=9),
    which=st.integers(0, 4),
    data=st.data(),
)
def test_projection_and_support_agree(v: list[float], which: int, data: st.DataObject) -> None:
    share = data.draw(st.floats(0.01, 1.0))
    n = len(v)
    declared = [
        CappedSimplex(1 / n + share * (1 - 1 / n)),
        NormBall(n**-0.5 + share * (1 - n**-0.5)),
        NormBall(n ** (1 / 3 - 1) + share * (1 - n ** (1 / 3 - 1)), p=3),
        KLBall(math.exp(-share * math.log(n))),
        LossBall(Exponential(), -1 + share * math.log(n)),
    ][which]
    domain, x = over(declared, n), np.array(v)
    q = domain.project(x)
    assert domain.violation(q) < 1e-9
    top, _ = domain.support(x - q)
    assert top - (x - q) @ q <= 1e-9 * (1 + np.abs(x).max())


def test_a_loss_too_flat_for_the_simplex_names_a_sufficient_factor() -> None:
    import ucm

    X, y = np.arange(6.0)[:, None], np.array([1.0, 1.0, 1.0, 1.0, -1.0, -1.0])
    flat = ucm.Hull(ucm.signed, weights=LossBall(ucm.Logistic() / 1.2, 0.5))
    with pytest.raises(EmptySetError, match=r"LossBall\(.*multiply the loss by more than 1\.8") as caught:
        ucm.compile(flat, X, y)
    assert "Simplex" not in str(caught.value)
    steep = ucm.Hull(ucm.signed, weights=LossBall(1.81 * (ucm.Logistic() / 1.2), 0.5))
    assert ucm.compile(steep, X, y) is not None
    with pytest.raises(CompositionError, match=r"multiply the loss, as \(2 \* Logistic\(\)\)"):
        ucm.Logistic().to_set(0.5)
    assert ucm.solve((2.0 * ucm.Logistic()).to_set(0.5), X, y).status == "optimal"


@pytest.mark.parametrize("g", [[-2.0, -1.75, -0.375, -1.125], [1.625, 0.0, 1.0, 0.125]])
def test_an_intersection_with_a_single_point_does_not_warn(g: list[float]) -> None:
    value, q = (KLBall(1) & CappedSimplex(0.75)).support(np.array(g))
    assert value == pytest.approx(np.mean(g), abs=1e-3)
    np.testing.assert_allclose(q, 0.25, atol=1e-3)


@pytest.mark.parametrize("p", [3.0, 30.0, 100.0])
def test_a_ball_that_leaves_the_uniform_weights_alone(p: float) -> None:
    """One entry of class -1: `||q||_p <= 1/2` is met by the uniform weights, and by others only as powers
    vanish in rounding."""
    y = np.array([1.0, 1.0, 1.0, 1.0, -1.0])
    center = np.array([0.125] * 4 + [0.5])
    rng = np.random.default_rng(0)
    D = over(NormBall(norm_ball.norm(center, p) if p == 3.0 else 0.5, p), 5, y)
    for g in rng.standard_normal((5, 5)):
        height, at = D.support(g)
        np.testing.assert_allclose(at, center, atol=1e-12)
        np.testing.assert_allclose(D.project(3.0 * g), center, atol=1e-12)
        assert height == pytest.approx(float(g @ center), abs=1e-12)
    assert D.violation(center) == 0.0
    assert D.violation(np.array([0.3, 0.2, 0.0, 0.0, 0.5])) > 0.1


def test_every_ball_on_a_line_is_a_segment() -> None:
    for p in (1.0, 1.001, 1.5, 2.0, 30.0, np.inf):
        D = ucm.NormBall(0.75, p)
        assert D.project(np.array([3.0]))[0] == 0.75 and D.project(np.array([-0.5]))[0] == -0.5
        assert D.support(np.array([-2.0])) == (1.5, np.array([-0.75]))
        q = cp.Variable(1)
        assert all(c.args[0].is_pwl() for c in D.cvxpy(q, 0.75))


def test_the_smallest_l1_ball_around_the_uniform_weights_of_two_classes() -> None:
    """Its points are many: those of the larger class at most 1/N, those of the smaller at least."""
    y = np.array([1.0] * 5 + [-1.0] * 3)
    D = over(NormBall(0.25, 1.0, "uniform"), 8, y)
    rng = np.random.default_rng(0)
    for g in rng.standard_normal((4, 8)):
        q = cp.Variable(8)
        inside = [
            q >= 0,
            cp.sum(q[:5]) == 0.5,
            cp.sum(q[5:]) == 0.5,
            q[:5] <= 0.125,
            q[5:] >= 0.125,
        ]
        cp.Problem(cp.Maximize(g @ q), inside).solve(solver=cp.CLARABEL)
        height, at = D.support(g)
        assert height == pytest.approx(float(g @ q.value), abs=1e-7)
        assert D.violation(at) == 0.0
        cp.Problem(cp.Minimize(cp.sum_squares(q - g)), inside).solve(solver=cp.CLARABEL)
        near = D.project(g)
        np.testing.assert_allclose(near, q.value, atol=1e-5)
        assert D.violation(near) == 0.0


def test_supports_whose_multipliers_no_root_finds_keep_their_masses() -> None:
    """Equal scores of weighted samples; scores of one class that are rounding beside those of the other."""
    counts = np.array([2.0, 7.0, 0.125, 0.125])
    equal = over(LossBall(Hinge(2), 1.0), 4, None, counts)
    top, q = equal.support(np.full(4, 1.5))
    assert (top, q.sum()) == pytest.approx((1.5, 1.0), rel=1e-12)
    classes = np.array([1.0, 1.0, -1.0, -1.0])
    near = over(NormBall(0.875, p=1.01, around="uniform"), 4, classes)
    q = near.support(1e-12 * np.array([6.25e-10, 1.625e-9, -1.875e-9, 1.0]))[1]
    assert [q[:2].sum(), q[2:].sum()] == pytest.approx([0.5, 0.5], rel=1e-12)
    assert near.violation(q) == 0.0


@pytest.mark.parametrize("D", [
    ucm.KLBall(0.5), ucm.LossBall(ucm.Exponential(), -0.5), ucm.LossBall(ucm.Logistic() / 0.7, 0.3),
    NormBall(0.6, p=1.5), NormBall(0.3, p=1.001, around="uniform"), ucm.ChiSquareBall(0.2),
], ids=repr)  # fmt: skip
@pytest.mark.parametrize("classes", [None, [1.0, -1.0, 1.0, -1.0, 1.0]])
def test_a_copy_is_an_entry_more_in_every_unit(D: Any, classes: Any) -> None:
    """Entries with copies against the same entries written out, in small units and in large ones; the
    projection by its variational inequality."""
    copies = np.array([1, 3, 2, 1, 2])
    each = None if classes is None else np.repeat(classes, copies)
    once, out = over(D, 5, classes, copies.astype(float)), over(D, 9, each)
    rngs = [np.random.default_rng(seed) for seed in (0, 2)]
    wide = [rng.standard_normal(5) * 10.0 ** rng.integers(-6, 1, 5) for rng in rngs]
    for g in (*wide, np.array([1.0, 2.0, 2.0, 1.0, 2.0])):
        top = out.support(np.repeat(g, copies))[0]
        for unit in (1e-12, 1e-6, 1e-3, 1.0):
            height, at = once.support(unit * g)
            assert height / unit == pytest.approx(top, rel=1e-9, abs=1e-9)
            assert once.violation(at) <= 1e-9
            near = once.project(unit * g * copies)
            assert once.violation(near) <= 1e-9
            away = unit * g * copies - near
            most = once.support(away)[0]
            assert most - away @ near <= 1e-9 * max(unit, 1.0)


@pytest.mark.parametrize("radius", [1e-6, 0.1, 0.9])
def test_l1_balls_around_the_uniform_distribution_with_copies_on_two_classes(radius: float) -> None:
    y, copies = np.where(np.arange(12) < 5, 1.0, -1.0), np.tile([0.5, 3.0, 1.0], 4)
    uniform = SampleWeights(12, copies, y).uniform()
    least = float(np.abs(uniform - copies / copies.sum()).sum())
    D = over(NormBall(least + radius, 1.0, "uniform"), 12, y, copies)
    rng = np.random.default_rng(1)
    for v in (rng.standard_normal(12), 1e6 * rng.standard_normal(12), np.round(rng.random(12))):
        q = D.project(v)
        assert D.violation(q) <= 1e-9
        assert D.support(v - q)[0] - (v - q) @ q <= 1e-9 * np.abs(v).max()
        d = 1e-7 * rng.standard_normal(12)
        moved = D.project(v + d) - q
        if np.unique(v).size == v.size:
            np.testing.assert_allclose(D.jacobian(v).matvec(d), moved, atol=1e-9 * np.abs(v).max())


def test_the_smallest_ball_of_p_below_two_is_one_point() -> None:
    """8^(1/1.5 - 1) = 1/2: what rounding adds to the ball is as wide as its root."""
    D = over(NormBall(0.5, 1.5), 8)
    g = np.array([-0.75, 1.125, -1.75, -1.75, 1.625, 0.25, 0.875, -0.375])
    np.testing.assert_array_equal(D.project(3.0 * g), np.full(8, 0.125))
    np.testing.assert_array_equal(D.support(g)[1], np.full(8, 0.125))


def test_a_conic_solver_that_gives_up_is_an_error_of_the_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failed(*args: Any, **options: Any) -> None:
        raise cp.SolverError("Solver 'CLARABEL' failed.")

    both = NormBall(0.5, p=1.5) & Box(-0.2, 0.4)
    monkeypatch.setattr(cp.Problem, "get_problem_data", failed)
    with pytest.raises(ucm.SolverError, match="conic program of a domain, got none"):
        both.support(np.array([1.0, 2.0, -1.0]))


@pytest.mark.parametrize("D", [ucm.ChiSquareBall(rho=0.3), ucm.ChiSquareBall(level=0.9)], ids=repr)
@pytest.mark.parametrize("unit", [1e-320, 1e-300, 1e-170, 1e200])
def test_a_chi_square_ball_over_weights_of_any_unit(D: Any, unit: float) -> None:
    """`1/N sum c (N q / c - 1)^2 <= rho` is the same for all multiples of c; a level counts N itself."""
    rng = np.random.default_rng(3)
    c, v = np.arange(1.0, 9.0), rng.standard_normal(8)
    if D.level is not None:  # z^2 / N
        z = NormalDist().inv_cdf(D.level)
        expected = ucm.ChiSquareBall(rho=z * z / max(unit * c.sum(), 1e-20))
    else:
        expected = D
    there, here = over(D, 8, weights=unit * c), over(expected, 8, weights=c)
    assert there.infeasibility_reason(8) is None
    assert there.project(v) == pytest.approx(here.project(v), abs=1e-9)
    assert there.support(v)[0] == pytest.approx(here.support(v)[0], abs=1e-9)


@pytest.mark.parametrize("D", [x for x in DOMAINS if x.on_simplex], ids=str)
def test_no_vector_without_entries_is_on_the_simplex(D: Any) -> None:
    assert "no entries" in str(D.infeasibility_reason(0))
    for f in (D.project, D.support, D.jacobian, D.violation, D.mass_multipliers):
        with pytest.raises(EmptySetError, match="no entries; give at least one"):
            f([])


@pytest.mark.parametrize(
    "D", [Simplex(), CappedSimplex(0.6), ucm.ChiSquareBall(rho=0.3), KLBall(0.6)], ids=str
)
@pytest.mark.parametrize("v", [[math.nan, 1.0, 0.9], [0.2, math.nan, 0.9]])
def test_the_projection_of_nan_is_nan(D: Any, v: Any) -> None:
    assert np.isnan(D.project(v)).any()
