"""Sums of entries of an RBF kernel over tiles of inner products, which are not kept."""

from __future__ import annotations

import numpy as np
from numba import types

from ucm.numerics._cache import mark
from ucm.numerics._jit import READ, WRITE, f8, jit

__all__ = ["rbf_sums", "sparse_products"]

_TILE = types.Array(f8, 2, "C")
_INDEX = types.Array(types.int32, 1, "C", readonly=True)


@jit(types.void(_TILE, READ, READ, READ, f8, WRITE), reduction=True)
def rbf_sums(G, a, b, c, twice, out):
    """`out_j += sum_i c_i exp(twice G_ij - a_i - b_j)`, the exponents at most 0; a and b hold gamma times the
    squares, `twice` is 2 gamma.

    `exp(x) = 2^k exp(r)`, k the whole number nearest to `x / log 2`: 2^k by the bits of its exponent, exp(r)
    by its series to the twelfth power, so that the loop has no branch and no call.
    """
    for i in range(G.shape[0]):
        row, ai, ci = G[i], a[i], c[i]
        for j in range(row.size):
            x = twice * row[j] - (ai + b[j])
            x = (0.0 if x > 0.0 else x) * 1.4426950408889634  # NaN stays
            x = -1022.0 if x < -1022.0 else x
            k = np.floor(x + 0.5)
            r = (x - k) * 0.6931471805599453
            p = 1 / 39916800.0 + r / 479001600.0
            p = 1 / 40320.0 + r * (1 / 362880.0 + r * (1 / 3628800.0 + r * p))
            p = 1 / 120.0 + r * (1 / 720.0 + r * (1 / 5040.0 + r * p))
            p = 1.0 + r * (1.0 + r * (0.5 + r * (1 / 6.0 + r * (1 / 24.0 + r * p))))
            power = np.int64((np.int64(k) + np.int64(1023)) << np.int64(52)).view(np.float64)
            out[j] += ci * (p * power)


@jit(types.void(READ, _INDEX, _INDEX, _TILE, _TILE))
def sparse_products(data, indices, indptr, columns, out):
    """`out = A B'`: the rows of A in CSR, `columns` the transpose of B, (features, samples)."""
    for i in range(out.shape[0]):
        row = out[i]
        row[:] = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            v, other = data[k], columns[indices[k]]
            for j in range(row.size):
                row[j] += v * other[j]


mark(__name__)
