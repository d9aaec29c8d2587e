"""Weighted sums of outer products of the rows of a CSR matrix."""

from __future__ import annotations

import numpy as np
from numba import types

from ucm.numerics._jit import READ, WRITE, jit
from ucm.numerics.rows import accumulate

__all__ = ["add_outer"]

_INDEX = types.Array(types.int32, 1, "C", readonly=True)
_TABLE = types.Array(types.float64, 2, "C")


@jit(types.void(READ, _INDEX, _INDEX, READ, _TABLE, WRITE), reduction=True)
def add_outer(values, columns, starts, d, H, s):
    """`s += sum_i d_i x_i` and, to H, of every pair of entries of `sum_i d_i x_i x_i'` one of both."""
    part = (values, columns, starts)
    for i in range(d.size):
        if d[i] != 0.0:
            accumulate(part, np.uint64(i), 1.0, d[i], H, s)
