"""Nearest points of hulls on a few samples first, then on all: what drives a compiled Newton method.

The last level has all samples of each hull, the one before every 8th, the one before that every 64th, and
so on while enough are left. The weights q of a level say little about those of the next, but the dual vector
w and the multipliers theta do, and so does the sharpness `cap / sigma` of the kinks that it could resolve.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self, TypeVar

import numpy as np

from ucm.data.linear import Vec
from ucm.forms.monitor import Monitor

__all__ = ["Level", "descend", "strides"]

_STRIDE = 8
_LIMIT = 150  # outer steps
_SHARP = 30.0  # of the first sigma: a cap over the spread of the scores


class Level(ABC):
    """Every `stride`-th sample of each hull; by name, the fields of the state of compiled code.

    Attributes
    ----------
    stride : of the samples
    sizes, starts : how many samples a hull has here, and where they begin
    caps, masses, thetas : of each hull, the last the multiplier of its mass
    """

    stride: int
    sizes: Any
    starts: Any
    caps: Vec
    masses: Vec
    thetas: Vec

    @abstractmethod
    def __getitem__(self, name: str) -> float:
        """A field of the state."""

    @abstractmethod
    def __setitem__(self, name: str, value: float) -> None:
        """Sets it."""

    @abstractmethod
    def refined(self, stride: int) -> Self:
        """The level of more samples, from the w and theta of this one."""

    @abstractmethod
    def march(self, log: Any, monitor: Monitor) -> int:
        """One outer step for each row of `log`, fewer when done; how many. Counts what they took."""

    @abstractmethod
    def told(self, row: list[float], monitor: Monitor) -> tuple[float, float]:
        """The objective and the gap that a row of the log tells."""

    @abstractmethod
    def ended(self, monitor: Monitor) -> str | None:
        """Return the end of the steps, or None."""

    def run(self, monitor: Monitor, tol: float, at_once: bool, most: int = _LIMIT) -> str:
        """At most so many outer steps to a relative gap of `tol`, as many at once as a compiled call has time
        for where nobody watches and `at_once` allows it; answers how they ended."""
        self["tol"] = tol
        left = min(monitor.limit(_LIMIT) - monitor.iterations, most)
        watched = monitor.callback is not None or monitor.verbose or monitor.trace > 0
        while left > 0:
            if monitor.late:
                return "interrupted"
            log = np.empty((min(left, _LIMIT) if at_once and not watched else 1, 3))
            done = self.march(log, monitor)
            left -= done
            stop = False
            for row in log[:done].tolist():
                stop = monitor.report(monitor.iterations + 1, *self.told(row, monitor))
            ended, stop = self.ended(monitor), stop or monitor.late
            if ended is not None and (self.stride == 1 or (left > 0 and not stop)):
                return ended
            if stop:
                return "interrupted"
        return "max_iter"

    def begin_at(self, scores: Vec) -> None:
        """theta and sigma for a first level, by the mean and the spread of its scores."""
        caps, masses = self.caps, self.masses
        self.thetas[:] = np.add.reduceat(scores, self.starts) / self.sizes
        cap = min(caps.max(), 2.0 * (masses / self.sizes).max())
        size = float(np.linalg.norm(scores - scores.mean())) / scores.size**0.5
        spread = size or float(np.abs(scores).max()) or 1.0
        self["sigma"] = _SHARP * cap / max(spread, 1e-280)

    def begin_after(self, coarse: Self, wider: float, scores: Vec, q: Vec) -> None:
        """theta, sigma and the weights q, written, from a level with fewer samples: the kinks begin `wider`
        than they were there."""
        self.thetas[:] = coarse.thetas
        width = wider * float(coarse.caps.max()) / coarse["sigma"]
        self["sigma"] = float(self.caps.max()) / width
        sides = zip(self.starts, self.sizes, self.caps, self.thetas, strict=True)
        for start, size, cap, theta in sides:
            part = slice(start, start + size)
            p = np.subtract(theta, scores[part], out=q[part])
            p *= self["sigma"]
            p += 0.5 * cap
            np.clip(p, 0.0, cap, out=p)


L = TypeVar("L", bound=Level)


def strides(can_skip: Callable[[int], bool]) -> list[int]:
    """Return the strides of the levels, from all samples to the smallest level."""
    found = [1]
    while can_skip(_STRIDE * found[-1]):
        found.append(_STRIDE * found[-1])
    return found


def descend(
    level: L, rest: list[int], monitor: Monitor, gap: float, at_once: bool
) -> tuple[L, str]:
    """From a level through those of the strides that are left, all but the last to a coarse gap: the level
    where it ended, and how. A coarse level that has stalled has done its part."""
    while True:
        ended = level.run(monitor, gap if rest else monitor.tol, at_once)
        if not rest or ended not in ("converged", "stalled"):
            return level, ended
        level = level.refined(rest.pop())
