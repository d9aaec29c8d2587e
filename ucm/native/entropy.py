"""The simplex intersected with a ball of relative entropy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucm.native.binding import library

__all__ = ["project_entropy", "support_entropy"]

Vector = NDArray[np.float64]


def project_entropy(
    v: Vector, classes: Vector, radius: float, least: float, lam: float, out: Vector
) -> tuple[float, float, float, float]:
    """The point nearest to v with `sum q log(N q) = radius` and mass 1, or 1/2 in each class.

    Parameters
    ----------
    v, out : (n,)
    classes : (n,) of +1 and -1, or empty
    least : the entropy of the uniform vector
    lam : a guess of the multiplier

    Returns
    -------
    lam, theta of each class, and 1 where the residuals are rounding (else out has no meaning)
    """
    found = np.empty(4)
    library.project_entropy(v.size, v, classes.size, classes, radius, least, lam, out, found)
    lam, pos, neg, good = found.tolist()
    return lam, pos, neg, good


def support_entropy(
    g: Vector, classes: Vector, radius: float, least: float, out: Vector
) -> tuple[float, float, float]:
    """The maximiser of <g, q> on that set: lam and, for each class, theta with
    `lam (log(N q) + 1) = g - theta`. Parameters as of `project_entropy`."""
    found = np.empty(3)
    library.support_entropy(g.size, g, classes.size, classes, radius, least, out, found)
    lam, pos, neg = found.tolist()
    return lam, pos, neg
