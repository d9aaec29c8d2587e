"""Time: of one run, of several in turns, and of code in a process of its own."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

__all__ = ["Runs", "fresh", "in_turns", "timed"]

T = TypeVar("T")


def timed(work: Callable[[], T], clock: Callable[[], float] = time.perf_counter) -> tuple[T, float]:
    """The result of `work()` and the seconds it took; of the processor with `time.process_time`."""
    start = clock()
    result = work()
    return result, clock() - start


@dataclass
class Runs(Generic[T]):
    """The seconds of several runs of one work, and the result of the last."""

    result: T
    seconds: list[float] = field(default_factory=list)

    @property
    def least(self) -> float:
        return min(self.seconds)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def in_turns(
    works: Mapping[str, Callable[[], T]],
    repeats: int,
    warm: bool = True,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Runs[T]]:
    """`repeats` runs of every work, after one that is not counted where `warm`; they take turns, so
    that a busy machine slows all of them."""
    runs = {}
    for turn in range(repeats + warm):
        for name, work in works.items():
            result, seconds = timed(work, clock)
            found = runs.setdefault(name, Runs(result))
            found.result = result
            if turn >= warm:
                found.seconds.append(seconds)
    return runs


def fresh(code: str, **environment: str) -> list[float]:
    """The numbers that a new process prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        check=True,
        env={**os.environ, **environment},
    )
    return [float(number) for number in done.stdout.split()]
