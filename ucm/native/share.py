"""The shares of a convex combination of points, balls and capped simplices:
`ucm.language.domains.convex_combination`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucm.native.binding import library

__all__ = ["shares"]

Vector = NDArray[np.float64]


def shares(
    v: Vector,
    ends: NDArray[np.int64],
    caps: Vector,
    units: Vector,
    radii: Vector,
    lengths: Vector,
    at: Vector,
    found: Vector,
) -> None:
    """The shares t_g at the price mu with `sum t_g(mu) = 1`, by Newton's method in a bracket.

    Parameters
    ----------
    v, ends : the scores of capped simplices, each descending, one after the other, and where each ends
    caps : of each simplex; of a ball or a point nothing counts
    units : 0 for a simplex
    radii, lengths, at : of a ball; its scores by their length, and that of the coordinate of the share
    found : (groups, 3) theta, the cap times t, and t; of a ball only t
    """
    work = np.empty(v.size + 3 * units.size)
    library.shares(v, units.size, ends, caps, units, radii, lengths, at, found, work)
