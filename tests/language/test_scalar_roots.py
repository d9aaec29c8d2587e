"""Scalar roots of the domains at every exponent, scale and kind of ties, against weak duality.

`max <g, q>` over the simplex and a norm ball is at most `sum_o mass_o theta_o + r ||(g - theta)_+||_p'` for
any theta: no code of the domain enters that bound. q is the projection of v when it maximises v - q.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

from ucm.data.linear_map import Vec
from ucm.language.contracts import SampleWeights
from ucm.language.domains import CappedSimplex, KLBall, LossBall, NormBall
from ucm.language.domains.divergence_ball import ConjugateFunction
from ucm.language.domains.norm_ball import norm
from ucm.language.losses import Exponential, Hinge, Logistic
from ucm.language.parameter import value
from ucm.language.robust import dual_exponent

EXPONENTS = (1.0, 1.001, 1.01, 1.5, 2.0, 3.0, 30.0, 100.0, 1000.0, math.inf)
SCALES = (1e-300, 1e-150, 1e-20, 1e-5, 1.0, 1.0, 1.0, 1e5, 1e20, 1e150, 1e300)


def direction(rng: np.random.Generator, n: int) -> Vec:
    """Spread, with ties, one entry, over many orders, nearly equal, or far from 0."""
    kinds = (
        lambda: rng.standard_normal(n),
        lambda: rng.integers(0, 3, n).astype(float),
        lambda: np.eye(n)[0],
        lambda: 10.0 ** rng.uniform(-20.0, 1.0, n),
        lambda: 1.0 + 1e-10 * rng.standard_normal(n),
        lambda: rng.standard_normal(n) + 1e6,
    )
    return np.clip(rng.choice(SCALES) * kinds[rng.integers(len(kinds))](), -1e307, 1e307, dtype=float)


def split(rng: np.random.Generator, n: int) -> Vec | None:
    if n == 1 or rng.integers(2):
        return None
    return np.where(np.arange(n) < rng.integers(1, n), 1.0, -1.0)


def bound(D: Any, g: Vec) -> float:
    """The least of the bounds at the multipliers that the domain gives."""
    parts = D.samples.groups
    ends = [[x for x in pair if np.isfinite(x)] for pair in D.mass_multipliers(g)]
    least = math.inf
    for theta in itertools.product(*ends):
        over = g.copy()
        for x, (index, _) in zip(theta, parts, strict=True):
            over[index] -= x
        size = norm(np.maximum(over, 0.0), dual_exponent(D.declared.p))
        mass = sum(m * x for x, (_, m) in zip(theta, parts, strict=True))
        least = min(least, mass + value(D.declared.radius) * size)
    return least


@pytest.mark.parametrize("p", EXPONENTS)
def test_the_simplex_in_a_norm_ball(p: float) -> None:
    rng = np.random.default_rng(int(p) if p < math.inf else 7)
    for _ in range(15):
        n = int(rng.integers(1, 61))
        classes = split(rng, n)
        v = direction(rng, n)
        samples = SampleWeights(n, None, classes)
        least = norm(samples.uniform(), p)
        most = 1.0 if classes is None else norm(np.array([0.5, 0.5]), p)
        share = 10.0 ** rng.uniform(-7.0, 0.0) if rng.integers(2) else rng.uniform()
        radius = float(least + (most - least) * share)
        D: Any = NormBall(radius, p).bind(samples)
        known = radius > least * (1.0 + 1e-9 * min(p, 1000.0)) or most == least
        for u, q, unit in (
            (v, D.support(v)[1], 0.0),
            (v - D.project(v), D.project(v), 1.0),
        ):
            assert D.violation(q) == 0.0
            room = 1e-8 * max(float(np.ptp(u)), unit) + 1e-13 * float(np.abs(v).max())
            if known:
                assert bound(D, u) - u @ q <= room, (D, v, classes)
        moved = D.jacobian(v).matvec(rng.standard_normal(n))
        assert np.isfinite(moved).all()


def test_supports_of_balls_with_large_exponents_are_exact() -> None:
    e = np.eye(10)[0]
    radius = 10 ** (1 / 100 - 1) * 1.1
    D: Any = NormBall(radius, p=100.0).bind(SampleWeights(10))
    height, q = D.support(e)
    top = brentq(lambda t: norm(np.r_[t, np.full(9, (1.0 - t) / 9.0)], 100.0) - radius, 0.1, 0.2)
    assert height == pytest.approx(top, rel=1e-10) and D.violation(q) == 0.0
    rng = np.random.default_rng(0)
    for p in (25.0, 40.0, 400.0):
        ball: Any = NormBall(10 ** (1 / p - 1) * 1.3, p).bind(SampleWeights(10))
        inside = [ball.project(rng.standard_normal(10)) for _ in range(50)]
        for g in rng.standard_normal((20, 10)):
            height, q = ball.support(g)
            assert ball.violation(q) == 0.0
            assert height >= max(g @ x for x in inside) - 1e-12


@pytest.mark.parametrize("p", EXPONENTS)
def test_projections_on_norm_balls_satisfy_the_optimality_conditions(p: float) -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        n = int(rng.integers(1, 61))
        v = direction(rng, n)
        r = float(rng.choice([1e-200, 1e-5, 1.0, 1e3]))
        D = NormBall(r, p)
        q = D.project(v)
        assert D.violation(q) == 0.0
        u = v - q
        room = 1e-9 * float(np.abs(u).max()) * r + 1e-13 * r * float(np.abs(v).max())
        assert r * norm(u, dual_exponent(p)) - u @ q <= room, (D, v)
        assert np.isfinite(D.jacobian(v).matvec(rng.standard_normal(n))).all()


def domains(rng: np.random.Generator, n: int, classes: Vec | None) -> list[Any]:
    samples = SampleWeights(n, None, classes)
    found: list[Any] = [KLBall(float(rng.uniform(0.05, 0.99)))]
    smallest = n if classes is None else 2 * min(samples.sizes)
    found.append(CappedSimplex(float(rng.uniform(1.0 / smallest, 1.0))))
    losses = (Exponential(), Logistic() * 4.0, Hinge(1.01), Hinge(1.5), Hinge(3.0), Hinge(100.0))
    for loss in losses:
        least = ConjugateFunction(loss, n).value(samples.uniform())
        if np.isfinite(least):
            size = least + abs(least) * rng.uniform(0.01, 3.0) + 0.01
            found.append(LossBall(loss, float(size)))
    bound = [D.bind(samples) for D in found]
    return [D for D in bound if D.infeasibility_reason(n) is None]


@pytest.mark.slow
def test_other_domains_at_every_scale() -> None:
    rng = np.random.default_rng(2)
    for _ in range(25):
        n = int(rng.integers(1, 61))
        classes = split(rng, n)
        v = direction(rng, n)
        top = float(np.abs(v).max())
        for D in domains(rng, n, classes):
            height, q = D.support(v)
            p = D.project(v)
            # a ball of l* counts its violation by l*, a power of q
            close = 1e-9 if isinstance(D.declared, LossBall) else 1e-12
            assert D.violation(q) <= close, (D, v)
            assert D.violation(p) <= close, (D, v)
            u = v - p
            room = 1e-8 * max(float(np.ptp(u)), 1.0) + 1e-13 * top
            assert D.support(u)[0] - u @ p <= room, (D, v)
            for _other in range(3):
                x = D.project(rng.standard_normal(n))
                assert v @ x <= height + 1e-8 * float(np.ptp(v)) + 1e-13 * top, (D, v)
