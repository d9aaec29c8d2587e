"""The simplex intersected with a Euclidean ball."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucm.native.binding import library

__all__ = ["project_ball_simplex"]

Vector = NDArray[np.float64]


def project_ball_simplex(
    v: Vector, classes: Vector, radius: float, limit: float, out: Vector
) -> tuple[float, float, float]:
    """q(t) of the largest t <= limit with `||q(t)|| <= radius`, `q(t) = P_simplex(t v)`; limit is 1 (the
    projection) or inf (a maximiser of <v, q>).

    Parameters
    ----------
    v, out : (n,); out may be v
    classes : (n,) of +1 and -1, each with mass 1/2; or empty, of mass 1

    Returns
    -------
    t and, for each class, tau with `q = t (v - tau)_+`. t = 0 is the uniform vector, t = inf the entries
    equal to the largest, t = nan says that the squares of v overflow or vanish.
    """
    found = np.empty(3)
    library.project_ball_simplex(
        v.size, v, classes.size, classes, radius, limit, out, found, np.empty(2 * v.size)
    )
    t, pos, neg = found.tolist()
    return t, pos, neg
