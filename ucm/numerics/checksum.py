"""Checksums of arrays, at the speed of memory."""

from __future__ import annotations

import numpy as np
from numba import types

from ucm.numerics._jit import i8, jit

__all__ = ["checksum"]

_LONG = types.Array(types.int64, 1, "C", readonly=True)
_SHORT = types.Array(types.int32, 1, "C", readonly=True)
_ODD = 0x5851F42D4C957F2D
_LOW = 0xFFFFFFFF
_MAGNITUDE = 0x7FFFFFFFFFFFFFFF  # all but the sign


@jit([types.UniTuple(i8, 2)(_LONG), types.UniTuple(i8, 2)(_SHORT)])
def checksum(words):
    """A number that another order or another content of the words changes, and the bits of the largest
    absolute value, the words read as numbers of double precision.

    `sum_i w_i + low(w_i + k_i) high(w_i + k_i)`, the halves of the word at place i and `k_i = i odd`: sums
    alone do not see an exchange, nor two changed signs. As one of XXH3 it vectorises.
    """
    total, top = 0, 0
    for i in range(words.size):
        word = np.int64(words[i])
        top = max(top, word & _MAGNITUDE)
        moved = word + i * _ODD
        total += word + (moved & _LOW) * ((moved >> 32) & _LOW)
    return total, top
