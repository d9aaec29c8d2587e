"""Sums of outer products of sparse rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucm.native.binding import library

__all__ = ["add_outer"]

Vector = NDArray[np.float64]
Ints = NDArray[np.int32]


def add_outer(values: Vector, columns: Ints, starts: Ints, d: Vector, H: Vector, s: Vector) -> None:
    """`s += sum_i d_i x_i` over the rows of a CSR matrix and, to H, of every pair of entries of
    `sum_i d_i x_i x_i'` one of both."""
    library.add_outer(d.size, values, columns, starts, d, s.size, H, s)
