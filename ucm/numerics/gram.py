"""Rows of Gram matrices."""

from __future__ import annotations

from numba import types

from ucm.numerics._jit import READ, WRITE, f8, i8, jit

__all__ = ["add_rows", "rbf_exponents"]

_MATRIX = types.Array(f8, 2, "C", readonly=True)
_OUT = types.Array(f8, 2, "C")
_INDEX = types.Array(i8, 1, "C", readonly=True)


@jit(types.void(_OUT, READ, READ, f8))
def rbf_exponents(G, a, b, gamma):
    """`-gamma |x_i - z_j|^2`, at most 0, in place of the inner products G; a, b hold the squared norms."""
    for i in range(G.shape[0]):
        left = gamma * a[i]
        row = G[i]
        for j in range(row.size):
            row[j] = min(2.0 * gamma * row[j] - left - gamma * b[j], 0.0)


@jit(types.void(_MATRIX, _INDEX, READ, WRITE))
def add_rows(rows, index, c, out):
    """`out += sum_k c_k rows[index_k]`, without a copy of any row."""
    n = index.size
    k = 0
    while k + 4 <= n:
        p, q, r, s = rows[index[k]], rows[index[k + 1]], rows[index[k + 2]], rows[index[k + 3]]
        for j in range(out.size):
            out[j] += (c[k] * p[j] + c[k + 1] * q[j]) + (c[k + 2] * r[j] + c[k + 3] * s[j])
        k += 4
    while k < n:
        p = rows[index[k]]
        for j in range(out.size):
            out[j] += c[k] * p[j]
        k += 1
