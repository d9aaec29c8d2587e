"""Projections by bisection or breakpoint search: Ito, Takeda and Toh (2015), sections 4.2 and 4.3."""

from __future__ import annotations

import numpy as np

from ucm.data.linear_map import Vec
from ucm.language.contracts import Block
from ucm.language.domains import NormBall
from ucm.language.domains.norm_ball import PowerFunction
from ucm.language.domains.separable_constraint import SimplexSublevelSet


def refuse(how: str, b: Block) -> str | None:
    """Return the reason why projection method `how` does not apply to a block; None if it applies.

    "bisection" (Algorithms 2 and 3) is for a capped simplex of each class or a simplex of one class in a
    Euclidean ball, "breakpoints" (Kiwiel 2008) for the former. Balls have their closed form.
    """
    D = b.domain
    h = D.h if isinstance(D, SimplexSublevelSet) and b.classes is None else None
    ball = isinstance(h, PowerFunction) and h.euclidean
    if b.groups is not None or isinstance(D, NormBall) or (ball and how == "bisection"):
        return None
    also = ", and the simplex of one class in a Euclidean ball" if how == "bisection" else ""
    return f'projection="{how}" is for capped simplices{also}, not for {D!r}'


def project(how: str, b: Block, v: Vec) -> Vec:
    """Return the projection of v on the domain of block b, by method `how` ("bisection" or "breakpoints")."""
    D = b.domain
    if isinstance(D, NormBall):
        return D.project(v)
    if isinstance(D, SimplexSublevelSet):
        q = np.maximum(v - bisected_ball(v, D.radius, 1.0), 0.0)
        return q * min(1.0, D.radius / float(np.linalg.norm(q)))
    q = np.empty_like(v)
    for g in b.groups or ():
        part = v[g.entries]
        if how == "bisection":
            theta = bisected(part, g.most, g.mass)
        else:
            theta = by_breakpoints(part, g.most, g.mass, part.size)
        q[g.entries] = np.clip(part - theta, 0.0, g.most)
    return q


def bisected(v: Vec, cap: float, mass: float) -> float:
    """Return the root theta of `sum clip(v - theta, 0, cap) = mass`, by bisection to the last bit.

    Algorithm 2 of Ito, Takeda and Toh (2015).

    The updates of the open set U are exchanged in print: where the sum is too small theta falls, and
    entries at their cap stay there; where it is too large theta grows, and entries at 0 stay 0. The bracket
    is `[min v - cap, max v]`, in which the root always lies.
    """
    U, at_cap = v, 0
    low, high = float(v.min()) - cap, float(v.max())
    theta = 0.5 * (low + high)
    while low < theta < high:
        d = np.clip(U - theta, 0.0, cap)
        total = cap * at_cap + float(d.sum())
        if total < mass:
            high, at_cap, U = theta, at_cap + int((d >= cap).sum()), U[d < cap]
        elif total > mass:
            low, U = theta, U[theta <= U]
        else:
            break
        theta = 0.5 * (low + high)
    return theta


def by_breakpoints(v: Vec, cap: float, mass: float, seed: int) -> float:
    """Return the theta with `sum clip(v - theta, 0, cap) = mass` by breakpoint search with random pivots.

    Kiwiel (2008), Algorithm 3.1.

    The sum is linear between the breakpoints `v_i` and `v_i - cap`. A pivot is drawn from those inside of
    the bracket, which ends or begins there; entries without a breakpoint inside are settled.
    """
    rng, U = np.random.default_rng(seed), v
    at_cap, linear, slope = 0, 0.0, 0
    low, high = float(v.min()) - cap, float(v.max())
    while U.size > 0:
        u = float(U[rng.integers(U.size)])
        pivot = u if low < u < high else u - cap
        total = cap * at_cap + linear - slope * pivot + float(np.clip(U - pivot, 0.0, cap).sum())
        if total == mass:
            return pivot
        low, high = (low, pivot) if total < mass else (pivot, high)
        inside = ((low < U) & (high > U)) | ((low < U - cap) & (high > U - cap))
        full = ~inside & (U - cap >= high)
        free = ~inside & ~full & (high <= U)
        at_cap += int(full.sum())
        linear, slope = linear + float(U[free].sum()), slope + int(free.sum())
        U = U[inside]
    return (linear + cap * at_cap - mass) / slope if slope > 0 else low


def bisected_ball(v: Vec, radius: float, mass: float) -> float:
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
