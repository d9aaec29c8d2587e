"""Checksums of arrays, at the speed of memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucm.native.binding import library

__all__ = ["checksum"]

Vector = NDArray[np.float64]


def checksum(words: NDArray[np.int64] | NDArray[np.int32]) -> tuple[int, int]:
    """A number that another order or another content of the words changes, and the bits of the largest
    absolute value, the words read as numbers of double precision."""
    found = np.empty(2, dtype=np.int64)
    function = library.checksum_short if words.itemsize == 4 else library.checksum_long
    function(words.size, words, found)
    total, top = found.tolist()
    return total, top
