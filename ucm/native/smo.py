"""Pair updates of sequential minimal optimisation, on the caller's state."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.native.binding import library

__all__ = ["COUNTS", "NUMBERS", "pair_updates", "smo_slack", "smo_step"]

_COUNTS = (
    "n groups features stride kind degree capacity most slots filled fresh clock need slot updates "
    "check next entries since"
)
_NUMBERS = "gamma coef0 p violation gap least reference fall value rate share move"
COUNTS = np.dtype([(name, np.int64) for name in _COUNTS.split()])
NUMBERS = np.dtype([(name, np.float64) for name in _NUMBERS.split()])
"""The fields of the state, as smo.c says what they are."""


def pair_updates(
    eps: float, gap: float, limit: int, counts: NDArray[Any], numbers: NDArray[Any],
    arrays: dict[str, NDArray[Any]],
) -> int:  # fmt: skip
    """At most `limit` pair updates: 0 done, 1 at the limit, 2 the kernel is indefinite, 3 a row is missing.

    Parameters
    ----------
    eps, gap : the violation, and the relative gap, at which it ends
    counts, numbers : (1,) records of `COUNTS` and `NUMBERS`
    arrays : the others of smo.c in its order, ends to used
    """
    return library.smo(
        eps, gap, limit, counts.view(np.int64), numbers.view(np.float64), *arrays.values()
    )


def smo_slack(a: float, C: float, p: float) -> float:
    """`(a / (C p))^(1 / (p - 1))`; 0 for p = 1."""
    return library.smo_slack(a, C, p)


def smo_step(
    d: float, eta: float, ai: float, yi: float, Ci: float, aj: float, yj: float, Cj: float, p: float,
    top: float,
) -> float:  # fmt: skip
    """The best step t in (0, top] of `a_i += y_i t, a_j -= y_j t`, where the slope is -d and Q bends by
    eta."""
    return library.smo_step(d, eta, ai, yi, Ci, aj, yj, Cj, p, top)
