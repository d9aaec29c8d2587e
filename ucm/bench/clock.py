"""Wall time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["median_time", "timed"]

T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """The result of `work()` and the seconds it took."""
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def median_time(work: Callable[[], object], repeat: int) -> float:
    """The median of the seconds of `repeat` runs, after one that is not counted."""
    work()
    return statistics.median(timed(work)[1] for _ in range(repeat))
