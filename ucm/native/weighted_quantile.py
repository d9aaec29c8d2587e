"""Reduced hulls seen from one direction: the threshold score, and the least value along a line."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucm.native.binding import library

__all__ = ["line_minimum", "top_threshold"]

Vector = NDArray[np.float64]


def top_threshold(s: Vector, c: Vector, mass: float) -> float:
    """The score at which the caps c, taken from the largest score of s down, reach the mass; both (n,)."""
    return library.top_threshold(s.size, s, c, mass, np.empty(2 * s.size))


def line_minimum(
    s: Vector,
    d: Vector,
    c: Vector,
    bounds: NDArray[np.int64],
    masses: Vector,
    c0: float,
    c1: float,
    first: float,
) -> float:
    """The t > 0 where `c0 + c1 t + sum over groups of max <q, s + t d>` is least; `first` is a guess.

    Parameters
    ----------
    s, d, c : (n,) scores, their change, and caps
    bounds, masses : (groups + 1,) where each group begins, and (groups,) its mass
    """
    work = np.empty(3 * s.size)
    return library.line_minimum(s, d, c, masses.size, bounds, masses, c0, c1, first, work)
