"""Training errors over rows: a histogram of scores, then the scores near the least error."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import Vec
from ucm.data.source import RowSource, as_double

__all__ = ["scores_near_least_error"]

_BINS = 1 << 16


def _bins(X: Any, normal: Vec, first: float, width: float) -> tuple[Vec, NDArray[np.intp]]:
    scores = np.asarray(as_double(X) @ normal).ravel()
    return scores, np.clip(np.floor((scores - first) / width), 0, _BINS - 1).astype(np.intp)


def _histograms(X: Any, y: Any, normal: Vec, first: float, width: float) -> NDArray[np.float64]:
    """Return (2, bins) weights of class +1 and of class -1."""
    y, (_, bins) = np.asarray(y, dtype=np.float64), _bins(X, normal, first, width)
    classes = np.maximum(y, 0.0), np.maximum(-y, 0.0)
    return np.array([np.bincount(bins, c, _BINS) for c in classes], dtype=np.float64)


def _scores_in_bins(
    X: Any, y: Any, normal: Vec, first: float, width: float, low: int, high: int
) -> tuple[Vec, NDArray[Any]]:
    scores, bins = _bins(X, normal, first, width)
    rows = (bins >= low) & (bins <= high)
    return scores[rows], np.asarray(y)[rows]


def _bins_of_least_error(P: Vec, N: Vec) -> tuple[int, int, float]:
    """Return the range of bins that can contain the least error, and an error.

    The error is that with all bins from the first on called positive. At the lower end of a bin the error is
    exact; inside it is less by at most the cost of class -1 in the bin. The range has one more bin on
    either side.

    Parameters
    ----------
    P, N : the costs of class +1 and class -1 in every bin, in order
    """
    error = np.cumsum(P - N) - (P - N) + N.sum()  # at the lower ends
    filled = np.flatnonzero(N + P)
    least = float(error[filled].min()) + 1e-12 * float(P.sum() + N.sum())
    near = np.flatnonzero((error - N)[filled] <= least)
    first, last = filled[max(near[0] - 1, 0)], filled[min(near[-1] + 1, filled.size - 1)]
    return int(first), int(last), float(error[first])


def scores_near_least_error(
    source: RowSource, normal: Vec, costs: tuple[float, float], center: float, spread: float
) -> tuple[Vec, NDArray[Any], float]:
    """Return the scores that can contain the least error, their labels times weights, and an error.

    The error is that with all of these scores called positive. Takes two passes.

    Parameters
    ----------
    costs : of an error in class +1 and class -1
    center, spread : location and width of the scores; scores far out are in the first or the last bin
    """
    width = 16.0 * max(spread, 1e-280) / _BINS
    first = center - 0.5 * _BINS * width
    counts = source.map_reduce(_histograms, normal, first, width, merge=operator.add)
    low, high, before = _bins_of_least_error(costs[0] * counts[0], costs[1] * counts[1])
    blocks = source.map_reduce(_scores_in_bins, normal, first, width, low, high)
    scores, labels = (np.concatenate(own) for own in zip(*blocks, strict=True))
    return scores, labels, before
