"""Products with some rows of a dense or CSR matrix.

A `part` holds the samples of one class, (X, values, columns, starts): dense when `starts` is empty,
else CSR. Position k of a list stands for row `stride * order[k]`, whose z is `factor` times the sample.
Indices are unsigned, which spares a test for negative ones: products with CSR rows take less than half
the time.
"""

from __future__ import annotations

import numpy as np
from numba import types

from ucm.numerics._jit import READ, f8, inner
from ucm.numerics._lapack import add_rows

__all__ = ["PART", "accumulate", "exchange", "move", "pull"]

_TABLE = types.Array(f8, 2, "C", readonly=True)
_CSR = types.Array(types.uint32, 1, "C", readonly=True)
PART = types.Tuple((_TABLE, READ, _CSR, _CSR))
_CHUNK = 64
_ONE = np.uint64(1)


@inner()
def place(stride, position):
    """The row at a position, as an unsigned number."""
    return np.uint64(stride) * np.uint64(np.int64(position))


@inner(reduction=True)
def pull(part, stride, factor, order, w, out):
    """`out_k = z_k'w`."""
    X, values, columns, starts = part
    for k in range(order.size):
        i = place(stride, order[k])
        total = 0.0
        if starts.size > 0:
            for e in range(starts[i], starts[i + _ONE]):
                total += values[e] * w[columns[e]]
        else:
            for j in range(w.size):
                total += X[i, j] * w[j]
        out[k] = factor * total


@inner(reduction=True)
def move(part, stride, factor, order, target, p, x):
    """`p <- target` and `x <- x + sum (target - p)_k z_k`; returns how many rows changed."""
    X, values, columns, starts = part
    changed = 0
    for k in range(order.size):
        c = factor * (target[k] - p[k])
        if c == 0.0:
            continue
        changed += 1
        p[k] = target[k]
        i = place(stride, order[k])
        if starts.size > 0:
            for e in range(starts[i], starts[i + _ONE]):
                x[columns[e]] += c * values[e]
        else:
            for j in range(x.size):
                x[j] += c * X[i, j]
    return changed


@inner(reduction=True)
def accumulate(part, i, factor, sign, H, s):
    """`H <- H + sign z z'` (upper triangle), `s <- s + sign z` for the CSR row i."""
    _, values, columns, starts = part
    for e in range(starts[i], starts[i + _ONE]):
        c = sign * factor * values[e]
        s[columns[e]] += c
        row = H[columns[e]]
        for f in range(e, starts[i + _ONE]):
            row[columns[f]] += c * factor * values[f]


@inner(reduction=True)
def exchange(part, stride, factor, order, p, cap, free, sign, H, s):
    """Rows that enter (sign +1) or leave (-1) the set 0 < p < cap: `H <- H + sign sum z z'`,
    `s <- s + sign sum z`, flags in `free`; returns how many."""
    X, _, _, starts = part
    n = s.size
    chunk = np.empty((_CHUNK if starts.size == 0 else 0, n))
    held = 0
    count = 0
    for k in range(order.size):
        inside = 0.0 < p[k] < cap
        if inside == (free[k] != 0.0) or inside != (sign > 0):
            continue
        free[k] = 1.0 if inside else 0.0
        count += 1
        i = place(stride, order[k])
        if starts.size > 0:
            accumulate(part, i, factor, sign, H, s)
            continue
        for j in range(n):
            chunk[held, j] = factor * X[i, j]
            s[j] += sign * chunk[held, j]
        held += 1
        if held == _CHUNK:
            add_rows(chunk, held, sign, H)
            held = 0
    add_rows(chunk, held, sign, H)
    return count
