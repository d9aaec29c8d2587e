"""The bias of least training error over rows: a histogram of scores, then the scores that it leaves open."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear import Vec
from ucm.data.source import RowSource, as_double

__all__ = ["least_error"]

_BINS = 1 << 16
_ROUNDING = 1e-12  # of the scores: the same one
_OPEN = 1 << 22  # scores that may come; else the edges of the bins decide


def _bins(X: Any, normal: Vec, first: float, width: float) -> tuple[Vec, NDArray[np.intp]]:
    scores = np.asarray(as_double(X) @ normal).ravel()
    return scores, np.clip(np.floor((scores - first) / width), 0, _BINS - 1).astype(np.intp)


def _count(
    X: Any, y: Any, state: Any, normal: Vec, first: float, width: float
) -> tuple[Any, NDArray[np.int64]]:
    positive, (_, bins) = np.asarray(y) > 0.0, _bins(X, normal, first, width)
    counts = [np.bincount(bins[rows], minlength=_BINS) for rows in (positive, ~positive)]
    return state, np.array(counts, dtype=np.int64)


def _bring(
    X: Any, y: Any, state: Any, normal: Vec, first: float, width: float, wanted: NDArray[np.bool_]
) -> tuple[Any, tuple[Vec, NDArray[np.bool_]]]:
    scores, bins = _bins(X, normal, first, width)
    rows = wanted[bins]
    return state, (scores[rows], (np.asarray(y) > 0.0)[rows])


def _added(a: Any, b: Any) -> Any:
    return a + b


def least_error(
    source: RowSource, normal: Vec, costs: tuple[float, float], center: float, spread: float
) -> float:
    """b of the least weighted training error, the middle of the widest gap that has it: two rounds.

    Between two bins the error is known; within one it falls by its class -1 at most. The scores of the bins
    that may hold the least error come, and decide.

    Parameters
    ----------
    costs : of an error in class +1 and class -1
    center, spread : where the scores are about; those far out share the first or the last bin
    """
    rounds = source.rounds()
    width = 16.0 * max(spread, 1e-300) / _BINS
    first = center - 8.0 * max(spread, 1e-300)
    counts = rounds.merged(_count, _added, normal, first, width)
    plus, minus = costs[0] * counts[0], costs[1] * counts[1]
    edges = np.concatenate([[0.0], np.cumsum(plus - minus)]) + minus.sum()
    wanted = edges[:-1] - minus <= edges.min() * (1.0 + 1e-12)
    wanted &= counts.sum(axis=0) > 0
    if counts[:, wanted].sum() > _OPEN:
        k = int(np.argmin(edges))
        return -(first + k * width)
    found = rounds.run(_bring, normal, first, width, wanted)
    scores = np.concatenate([s for s, _ in found])
    positive = np.concatenate([p for _, p in found])
    order = np.argsort(scores, kind="stable")
    scores, positive = scores[order], positive[order]
    bins = np.clip(np.floor((scores - first) / width), 0, _BINS - 1).astype(np.intp)
    filled = np.cumsum(counts.sum(axis=0) > 0)[bins]  # what lies between full bins is empty
    tiny = _ROUNDING * max(abs(first), abs(first + _BINS * width))
    best, b = (np.inf, 0.0), -(first + int(np.argmin(edges)) * width)
    for k in np.split(np.arange(scores.size), np.flatnonzero(np.diff(filled) > 1) + 1):
        s, low, high = scores[k], int(bins[k[0]]), int(bins[k[-1]])
        steps = np.where(positive[k], costs[0], -costs[1])
        error = edges[low] + np.concatenate([[0.0], np.cumsum(steps)])
        start = first + low * width if filled[k[0]] > 1 else s[0] - 2.0 * tiny
        end = first + (high + 1) * width if high < _BINS - 1 else s[-1] + 2.0 * tiny
        ends = np.concatenate([[min(start, s[0])], s, [max(end, s[-1])]])
        gaps = np.diff(ends)
        usable = np.flatnonzero(gaps > tiny)
        for at in usable[error[usable] <= error[usable].min(initial=np.inf) + 1e-12 * max(costs)]:
            if (error[at], -gaps[at]) < best:
                best = float(error[at]), -float(gaps[at])
                b = -0.5 * float(ends[at] + ends[at + 1])
    return b
