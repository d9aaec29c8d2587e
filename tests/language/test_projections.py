"""Projections against different computations: bisection, sorting, small brute force."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import ucm
from ucm import native
from ucm.language.contracts import SampleWeights, SemiSmooth
from ucm.language.domains import CappedSimplex, KLBall, NormBall, Simplex
from ucm.language.power import power_root

NONE = np.empty(0)
ENTRIES = st.floats(-1e3, 1e3, width=32) | st.sampled_from([0.0, 1.0, 1.0, -2.0, 1e12, 1e-12])


def over(D: ucm.NormBall, n: int, classes: np.ndarray | None = None) -> Any:
    """The domain as the weights of n samples."""
    return D.bind(SampleWeights(n, None, classes))


def by_bisection(v: np.ndarray, cap: float, mass: float) -> np.ndarray:
    """Capped simplex by plain bisection, relative to the largest entry."""
    u = v - v.max()
    lo, hi = u.min() - cap - mass, 0.0
    for _ in range(120):
        middle = 0.5 * (lo + hi)
        if np.clip(u - middle, 0.0, cap).sum() > mass:
            lo = middle
        else:
            hi = middle
    return np.clip(u - lo, 0.0, cap)


@settings(max_examples=200, deadline=None)
@given(v=st.lists(ENTRIES, min_size=1, max_size=20), share=st.floats(0.0, 1.0))
def test_capped_simplex_against_bisection(v: list[float], share: float) -> None:
    n = len(v)
    cap = 1 / n + share * (1.2 - 1 / n)
    q = CappedSimplex(cap).project(np.array(v))
    assert abs(q.sum() - 1.0) <= 1e-13
    assert q.min() >= 0.0 and q.max() <= cap
    if max(map(abs, v)) < 1e6:
        assert q == pytest.approx(by_bisection(np.array(v), cap, 1.0), abs=1e-11)


def tied(seed: int) -> tuple[np.random.Generator, int, np.ndarray]:
    """A generator, and a vector of some length and scale with ties."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60))
    v = rng.standard_normal(n) * 10.0 ** rng.uniform(-3, 3)
    v[rng.integers(0, n, n // 3)] = v[0]
    return rng, n, v


def bisected_ball(v: np.ndarray, radius: float, mass: float) -> float:
    """Return the threshold theta of the projection on a simplex cut by a ball, by bisection: Algorithm 3.

    It has `s sum max(v - theta, 0) = mass`, `s = min(1, radius / ||max(v - theta, 0)||_2)`, to the last bit.

    Its bracket misses the root near the least radius: here the lower end goes down until the sum is large
    enough.
    """

    def total(theta: float) -> float:
        d = np.maximum(v - theta, 0.0)
        return float(d.sum()) * min(1.0, radius / max(float(np.linalg.norm(d)), 1e-300))

    high = float(v.max())
    reach = high - float(v.min()) + mass
    most = 1e15 * (reach + abs(high))
    while total(high - reach) < mass and reach < most:
        reach *= 2.0
    low = high - reach
    theta = 0.5 * (low + high)
    while low < theta < high:
        value = total(theta)
        if value == mass:
            break
        low, high = (low, theta) if value < mass else (theta, high)
        theta = 0.5 * (low + high)
    return theta


@pytest.mark.parametrize("seed", range(20))
def test_the_printed_bisection_in_a_ball(seed: int) -> None:
    """Algorithm 3 from near the least radius, where its bracket is mended, to where the ball is redundant."""
    rng, n, v = tied(seed)
    radius = n**-0.5 * float(rng.choice([1.0, 1.0 + 1e-6, 1.01, rng.uniform(1.0, 1.5 * n**0.5)]))
    q = np.maximum(v - bisected_ball(v, radius, 1.0), 0.0)
    q *= min(1.0, radius / float(np.linalg.norm(q)))
    assert_allclose(q, over(NormBall(radius), v.size).project(v), atol=3e-7 * max(1.0, np.abs(v).max()))


def test_capped_simplex_against_all_faces() -> None:
    """Four points: every pattern of (0, free, cap), the nearest feasible one."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        v, cap = rng.standard_normal(4), rng.uniform(0.26, 0.9)
        best, where = np.inf, None
        for pattern in itertools.product((0, 1, 2), repeat=4):
            state = np.array(pattern)
            free = state == 1
            rest = 1.0 - cap * np.count_nonzero(state == 2)
            if not free.any():
                continue
            q = np.where(state == 2, cap, 0.0)
            q[free] = v[free] + (rest - v[free].sum()) / free.sum()
            if q.min() >= -1e-12 and q.max() <= cap + 1e-12 and np.sum((q - v) ** 2) < best:
                best, where = np.sum((q - v) ** 2), q
        assert CappedSimplex(cap).project(v) == pytest.approx(where, abs=1e-12)


def test_classes_are_two_problems_of_half_the_mass() -> None:
    rng = np.random.default_rng(1)
    v = rng.standard_normal(31)
    y = np.where(rng.random(31) < 0.4, 1.0, -1.0)
    c = np.where(y > 0, 1.0, 2.0)
    q = CappedSimplex(0.06).bind(SampleWeights(31, c, y)).project(v)
    assert q[y > 0] == pytest.approx(by_bisection(v[y > 0], 0.06, 0.5), abs=1e-13)
    assert q[y < 0] == pytest.approx(by_bisection(v[y < 0], 0.12, 0.5), abs=1e-13)
    order = rng.permutation(31)
    again = CappedSimplex(0.06).bind(SampleWeights(31, c[order], y[order])).project(v[order])
    assert again == pytest.approx(q[order], abs=1e-15)


def test_one_sample_in_a_class() -> None:
    y = np.array([1.0, -1.0, -1.0])
    v = np.array([5.0, 1.0, 1.2])
    for declared in (Simplex(), CappedSimplex(0.5), NormBall(0.66), KLBall(0.8)):
        domain: Any = declared.bind(SampleWeights(3, None, y))
        q = domain.project(v)
        assert q[0] == pytest.approx(0.5, abs=1e-14)
        assert domain.violation(q) == 0.0


@pytest.mark.parametrize("kind", ["normal", "sorted", "ties", "huge", "tiny", "outlier"])
@pytest.mark.parametrize("cap", [math.inf, 1e-3, 2e-5, 1.0000001e-5])
def test_projections_of_many_entries_satisfy_the_optimality_conditions(kind: str, cap: float) -> None:
    n = 100_000
    v = np.random.default_rng(2).standard_normal(n)
    v = {
        "normal": v,
        "sorted": np.sort(v),
        "ties": np.round(v),
        "huge": 1e12 * v,
        "tiny": 1e-12 * v,
        "outlier": np.append(v[1:], 1e15),
    }[kind]
    q = CappedSimplex(cap).project(v)
    assert abs(q.sum() - 1.0) < 1e-13
    assert q.min() >= 0.0 and q.max() <= cap
    # optimal: one level separates free entries from both bounds
    free = (q > 0) & (q < cap)
    theta = v[free] - q[free]
    if free.any():
        slack = 1e-12 * (1e-3 * (np.abs(theta).max()) + 1e-5)
        spread = 4 * np.spacing(np.abs(theta).max()) + slack
        assert np.ptp(theta) <= spread
        assert (v[q == 0] <= theta.max() + spread).all()
        assert (v[q == cap] >= theta.min() + (cap if cap < math.inf else 0) - spread).all()


@settings(max_examples=25, deadline=None)
@given(
    v=st.lists(st.floats(-100, 100, width=32), min_size=2, max_size=12),
    share=st.floats(1e-3, 1.0),
    split=st.integers(0, 11),
)
def test_simplex_and_ball_against_bisection(v: list[float], share: float, split: int) -> None:
    x = np.array(v)
    m = 1 + split % (len(v) - 1)
    y = np.where(np.arange(len(v)) < m, 1.0, -1.0)
    for classes in (None, y):
        parts = [(slice(None), 1.0)] if classes is None else [(y > 0, 0.5), (y < 0, 0.5)]

        def on_path(t: float, parts: list = parts) -> np.ndarray:
            q = np.empty(x.size)
            for index, mass in parts:
                q[index] = by_bisection(t * x[index], 2.0, mass)
            return q

        least = float(np.linalg.norm(on_path(0.0)))
        radius = least + share * (1.0 - least)
        q = over(NormBall(radius), x.size, classes).project(x)
        lo, hi = 0.0, 1.0
        if np.linalg.norm(on_path(1.0)) > radius:
            for _ in range(60):
                middle = 0.5 * (lo + hi)
                if np.linalg.norm(on_path(middle)) > radius:
                    hi = middle
                else:
                    lo = middle
        else:
            lo = 1.0
        assert q == pytest.approx(on_path(lo), abs=1e-6)
        assert np.linalg.norm(q) <= radius * (1 + 1e-12)


def test_the_bracket_that_fails_in_print() -> None:
    """v = (1, 0) with the norm near its minimum; the printed bracket misses theta."""
    q = over(NormBall(0.72), 2).project(np.array([1.0, 0.0]))
    # on the line q = (1/2 + d, 1/2 - d): 1/2 + 2 d^2 = radius^2
    d = math.sqrt((0.72**2 - 0.5) / 2)
    assert q == pytest.approx([0.5 + d, 0.5 - d], abs=1e-13)


def test_ball_support_at_ties_and_infinity() -> None:
    g = np.array([2.0, 2.0, 1.0])
    top, q = over(NormBall(0.8), 3).support(g)
    assert top == 2.0 and q == pytest.approx([0.5, 0.5, 0.0])
    top, q = over(NormBall(0.8), 3).support(np.zeros(3))
    assert top == 0.0 and q == pytest.approx(np.full(3, 1 / 3))


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("p", [1.0, 1.3, 2.0, 3.0, 8.0, math.inf])
def test_norm_balls_at_every_scale(p: float, scale: float) -> None:
    v = scale * np.array([3.0, -2.0, 0.5, 0.0])
    q = NormBall(scale, p).project(v)
    assert q == pytest.approx(scale * NormBall(1.0, p).project(v / scale), rel=1e-12)
    assert np.linalg.norm(q, p) == pytest.approx(scale, rel=1e-12)
    assert NormBall(0.0, p).project(v) == pytest.approx(np.zeros(4))
    inside = 0.1 * v
    if np.linalg.norm(inside, p) <= scale:
        assert np.array_equal(NormBall(scale, p).project(inside), inside)


@pytest.mark.parametrize("e", [0.05, 0.5, 1.0, 2.0, 30.0])
@pytest.mark.parametrize("c", [0.0, 1e-9, 1.0, 1e9])
def test_the_power_root_solves_its_equation(e: float, c: float) -> None:
    u = np.array([-1.0, 0.0, 1e-12, 0.3, 1.0, 40.0, 1e12])
    q = power_root(u, c, e)
    assert (q >= 0.0).all()
    if c == 0.0:
        assert np.array_equal(q, np.maximum(u, 0.0))
        return
    with np.errstate(over="ignore", under="ignore"):
        left, right = q * (1 - 1e-11), q * (1 + 1e-11) + 1e-300
        assert (left + c * left**e <= np.maximum(u, 0.0)).all()
        assert (right + c * right**e >= u).all()
    assert (q[:2] == 0.0).all()


def test_not_a_number_ends() -> None:
    q = np.empty(3)
    v = np.array([np.nan, 1.0, 2.0])
    native.library.project_capped(3, v, 0, NONE, 1.0, 1.0, q, np.empty(6))
    assert np.isnan(q).any() or q.size == 3


def test_entries_at_a_positive_bound_are_not_free() -> None:
    rng = np.random.default_rng(11)
    for _ in range(50):
        D = ucm.Box(0.045, 0.205).bind(SampleWeights(8, rng.uniform(0.4, 2.0, 8)))
        assert isinstance(D, SemiSmooth)
        v, d = 1e3 * rng.standard_normal(8), 1e-3 * rng.standard_normal(8)
        difference = 0.5 * (D.project(v + d) - D.project(v - d))
        assert_allclose(D.jacobian(v).matvec(d), difference, atol=1e-9)
