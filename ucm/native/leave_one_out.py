"""Every sample left out once: decision values by the nearest points of ellipsoids without it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucm.native.binding import library

__all__ = ["leave_one_out"]

Vector = NDArray[np.float64]

_ENTRIES = 1_000_000  # of V, times the radii, in one call: some 40 ms


def leave_one_out(
    V: Vector,
    e: Vector,
    d: Vector,
    h: Vector,
    shift: float,
    rho: float,
    own: float,
    radii: Vector,
    starts: Vector,
    out: Vector,
) -> None:
    """`out[i, k] = x'(own v_i + h) / |x|`, x the nearest point for radius k with sample i left out; nan where
    0 lies in the set. In the basis of the eigenvectors of S, with the centre `d + shift v` and the shape
    `S - rho v v'`.

    Parameters
    ----------
    V, d, h : (m, n), (n,), (n,) in the basis; e : (n,) eigenvalues of S
    radii, starts : (K,) and the s of S itself for each, where its root is sought; 0: none
    out : (m, K)
    """
    m, n = V.shape
    step = max(1, _ENTRIES // max(1, n * radii.size))
    for first in range(0, m, step):
        part = slice(first, first + step)
        rows, values = V[part], out[part]
        library.leave_one_out(
            len(rows), n, rows, e, d, h, shift, rho, own, radii.size, radii, starts, values
        )
