"""The projections of Ito, Takeda and Toh (2015), sections 4.2 and 4.3, to choose from."""

from __future__ import annotations

import numpy as np

from ucm import numerics
from ucm.data.linear import Vec
from ucm.language.contracts import Block, Capped
from ucm.language.domains import NormBall, SimplexBall
from ucm.language.node import value

__all__ = ["project", "refuse"]


def refuse(how: str, b: Block) -> str | None:
    """Why a block has no such projection: "bisection" (Algorithms 2 and 3) is for a capped simplex of each
    class or a simplex of one class in a Euclidean ball, "breakpoints" (Kiwiel 2008) for the first. Balls keep
    their closed form."""
    D = b.domain
    ball = isinstance(D, SimplexBall) and D.p == 2.0 and D.copies is None and b.classes is None
    if isinstance(D, Capped | NormBall) or (ball and how == "bisection"):
        return None
    also = ", and the simplex of one class in a Euclidean ball" if how == "bisection" else ""
    return f'projection="{how}" is for capped simplices{also}, not for {D!r}'


def project(how: str, b: Block, v: Vec) -> Vec:
    """The projection of v on the domain of a block."""
    D = b.domain
    if isinstance(D, NormBall):
        return D.project(v)
    if isinstance(D, SimplexBall):
        radius = value(D.radius)
        q = np.maximum(v - numerics.bisected_ball(v, radius, 1.0), 0.0)
        return q * min(1.0, radius / float(np.linalg.norm(q)))
    q = np.empty_like(v)
    for g in D.groups(v.size, b.classes):  # type: ignore[attr-defined]
        part = np.ascontiguousarray(v[g.entries])
        if how == "bisection":
            theta = numerics.bisected(part, g.most, g.mass)
        else:
            theta = numerics.by_breakpoints(part, g.most, g.mass, part.size)
        q[g.entries] = np.clip(part - theta, 0.0, g.most)
    return q
