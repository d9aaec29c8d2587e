"""Boxes of slopes, and the functions they support: soft thresholds of any two levels."""

from __future__ import annotations

import numpy as np

from ucm.data.linear import Vec

__all__ = ["Bound", "gauge", "shrink", "spanned"]

Bound = float | Vec
"""A bound of every coordinate, or one for each."""


def _times(t: float, bound: Bound) -> Bound:
    """`t` times a bound; inf stays inf for t = 0, the limit from above."""
    return t * bound if t > 0.0 else np.where(np.isinf(bound), bound, 0.0)


def shrink(v: Vec, lower: Bound, upper: Bound, t: float = 1.0) -> Vec:
    """What the projection of v on t times the box leaves: `argmin_w ||w - v||^2 / 2 + t R(w)`, R the
    support function of the box; for t = 0 the projection on the domain of R."""
    return v - np.clip(v, _times(t, lower), _times(t, upper))


def gauge(z: Vec, lower: Bound, upper: Bound) -> float:
    """The least r with z in r times the box, inf where there is none; lower <= 0 <= upper."""
    wall = np.abs(np.where(z > 0.0, upper, lower))
    out = z != 0.0
    with np.errstate(divide="ignore"):
        return float((np.abs(z[out]) / wall[out]).max(initial=0.0))


def spanned(z: Vec, lower: Bound, upper: Bound) -> Vec:
    """The nearest point of the cone that the box spans."""
    wall = np.where(z > 0.0, upper, lower)
    return np.where(wall != 0.0, z, 0.0)
