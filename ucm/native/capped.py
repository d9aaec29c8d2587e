"""Projection on the capped simplex."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucm.native.binding import library

__all__ = ["project_capped", "threshold"]

Vector = NDArray[np.float64]


def threshold(v: Vector, cap: float, mass: float) -> tuple[float, float]:
    """`(ref, shift)` with `sum clip((v - ref) - shift, 0, cap) = mass`; ref = -inf: all capped."""
    root = np.empty(2)
    library.threshold(v.size, v, cap, mass, root, np.empty(v.size))
    return float(root[0]), float(root[1])


def project_capped(v: Vector, classes: Vector, cap_pos: float, cap_neg: float, out: Vector) -> None:
    """The nearest q with 0 <= q <= cap and mass 1, or mass 1/2 in each class (where `classes` is not empty).

    Parameters
    ----------
    v, out : (n,); out may be v
    classes : (n,) of +1 and -1, or empty
    """
    work = np.empty(2 * v.size)
    library.project_capped(v.size, v, classes.size, classes, cap_pos, cap_neg, out, work)
