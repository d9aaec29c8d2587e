"""The scalar equation behind every p-norm, and the projection on its ball."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucm.native.binding import library

__all__ = ["power_root", "project_power"]

Vector = NDArray[np.float64]


def power_root(u: Vector, c: Vector, e: float, out: Vector) -> None:
    """`q >= 0` with `q + c q^e = max(u, 0)` elementwise, e > 0.

    Parameters
    ----------
    u, out : (n,)
    c : (1,) or (n,), not negative
    """
    library.power_root(u.size, u, c.size, c, e, out)


def project_power(u: Vector, c: Vector, p: float, q: Vector, w: Vector, normal: Vector) -> None:
    """The q nearest to `u >= 0` with `sum c (q / c)^p = 1`, 1 < p < inf, u outside; w is dq of a change of
    `u - lam normal`, and `normal = (q / c)^(p-1)`. All are (n,)."""
    library.project_power(u.size, u, c, p, q, w, normal, np.empty(2 * u.size))
