"""Costs of scores by class and by equal parts of their range."""

from __future__ import annotations

from numba import types

from ucm.numerics._cache import mark
from ucm.numerics._jit import READ, WRITE, f8, i8, jit

__all__ = ["costs_of_parts", "within_parts"]

_CLASSES = types.Array(types.boolean, 1, "C", readonly=True)
_ROWS = types.Array(types.int64, 1, "C")


@jit(types.void(READ, _CLASSES, _CLASSES, READ, f8, f8, WRITE))
def costs_of_parts(scores, positive, among, costs, low, scale, sums):
    """Add the cost of each score (1 without `costs`) among those that count (all without `among`) to the
    entry of its part, `(score - low) scale` rounded down, in the first half of `sums` for class -1, in the
    second for +1."""
    bins = sums.size // 2
    for i in range(scores.size):
        if among.size == 0 or among[i]:
            part = int((scores[i] - low) * scale) + (bins if positive[i] else 0)
            sums[part] += costs[i] if costs.size else 1.0


@jit(i8(READ, _CLASSES, f8, f8, i8, i8, _ROWS))
def within_parts(scores, among, low, scale, first, last, rows):
    """The scores that count in the parts from first to last: their places in `rows`, and their number."""
    count = 0
    for i in range(scores.size):
        part = int((scores[i] - low) * scale)
        if first <= part <= last and (among.size == 0 or among[i]):
            rows[count] = i
            count += 1
    return count


mark(__name__)
