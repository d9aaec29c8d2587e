"""Exchanges of weight between points of a set, on their Gram matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucm.native.binding import library

__all__ = ["exchanges"]

Vector = NDArray[np.float64]


def exchanges(
    K: NDArray[np.float64], group: NDArray[np.int64], cap: Vector, eps: float, limit: int, q: Vector,
    F: Vector,
) -> int:  # fmt: skip
    """Steps of clipped MDM, `limit` at most, until no pair violates by more than eps: how many. q, F change.

    Parameters
    ----------
    K : (n, n) inner products of the points
    group, cap, q : (n,) of the weights, which are feasible
    F : (n,) the inner products of the point with each
    """
    groups = int(group.max(initial=-1)) + 1
    low, high = np.empty(groups, np.int64), np.empty(groups, np.int64)
    return library.exchange(q.size, groups, K, group, cap, eps, limit, q, F, low, high)
