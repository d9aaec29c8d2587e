"""Products with some rows of a dense or CSR matrix.

A `part` holds the samples of one class, (values, columns, starts): CSR, or dense, row after row, when
`starts` is empty. A tag is 2 k + f: row `stride * k`, whose z is `factor` times the sample; f says whether it
counts among the free ones in H.
Indices are unsigned, which spares a test for negative ones: products with CSR rows take less than half
the time.
"""

from __future__ import annotations

import numpy as np
from numba import types

from ucm.numerics._jit import READ, inner
from ucm.numerics._lapack import add_rows

__all__ = ["PART", "TAGS", "accumulate", "exchange", "move", "pull"]

_CSR = types.Array(types.uint32, 1, "C", readonly=True)
TAGS = types.Array(types.uint32, 1, "C")
PART = types.Tuple((READ, _CSR, _CSR))
_CHUNK = 64
_ONE = np.uint64(1)


@inner()
def place(stride, tag):
    """The row of a tag, as an unsigned number."""
    return np.uint64(stride) * (np.uint64(tag) >> _ONE)


@inner(reduction=True)
def pull(part, stride, factor, tags, w, out):
    """`out_k = z_k'w`."""
    values, columns, starts = part
    for k in range(tags.size):
        i = place(stride, tags[k])
        total = 0.0
        if starts.size > 0:
            for e in range(starts[i], starts[i + _ONE]):
                total += values[e] * w[columns[e]]
        else:
            row = i * np.uint64(w.size)
            for j in range(w.size):
                total += values[row + np.uint64(j)] * w[j]
        out[k] = factor * total


@inner(reduction=True)
def move(part, stride, factor, tags, target, p, x):
    """`p <- target` and `x <- x + sum (target - p)_k z_k`; returns how many rows changed."""
    values, columns, starts = part
    changed = 0
    for k in range(tags.size):
        c = factor * (target[k] - p[k])
        if c == 0.0:
            continue
        changed += 1
        p[k] = target[k]
        i = place(stride, tags[k])
        if starts.size > 0:
            for e in range(starts[i], starts[i + _ONE]):
                x[columns[e]] += c * values[e]
        else:
            row = i * np.uint64(x.size)
            for j in range(x.size):
                x[j] += c * values[row + np.uint64(j)]
    return changed


@inner(reduction=True)
def accumulate(part, i, factor, sign, H, s):
    """`H <- H + sign z z'` (upper triangle), `s <- s + sign z` for the CSR row i."""
    values, columns, starts = part
    for e in range(starts[i], starts[i + _ONE]):
        c = sign * factor * values[e]
        s[columns[e]] += c
        row = H[columns[e]]
        for f in range(e, starts[i + _ONE]):
            row[columns[f]] += c * factor * values[f]


@inner(reduction=True)
def exchange(part, stride, factor, tags, p, cap, sign, H, s):
    """Rows that enter (sign +1) or leave (-1) the set 0 < p < cap: `H <- H + sign sum z z'`,
    `s <- s + sign sum z`, and their tags; returns how many."""
    values, _, starts = part
    n = s.size
    chunk = np.empty((_CHUNK if starts.size == 0 else 0, n))
    held = 0
    count = 0
    for k in range(tags.size):
        inside = 0.0 < p[k] < cap
        if inside == (tags[k] % 2 == 1) or inside != (sign > 0):
            continue
        tags[k] ^= np.uint32(1)
        count += 1
        i = place(stride, tags[k])
        if starts.size > 0:
            accumulate(part, i, factor, sign, H, s)
            continue
        row = i * np.uint64(n)
        for j in range(n):
            chunk[held, j] = factor * values[row + np.uint64(j)]
            s[j] += sign * chunk[held, j]
        held += 1
        if held == _CHUNK:
            add_rows(chunk, held, sign, H)
            held = 0
    add_rows(chunk, held, sign, H)
    return count
