"""Accelerated proximal gradient: the state, one step, the momentum.

For `min f(A z + c) + h(z)` with f smooth and h with a proximal map,

    z+ = prox_{h/L}(p - grad f(p) / L),   p = z + beta (z - z_before).

The image `A z + c` is affine in z: that of p comes from those of the iterates without a product, so a step
costs one product with A' for the gradient and one with A for the new point.

Beck and Teboulle (2009), A fast iterative shrinkage-thresholding algorithm for linear inverse problems.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from ucm.data.linear import Vec
from ucm.forms.monitor import Monitor

__all__ = ["Iterate", "Smooth", "State", "Watched", "inner"]

T = TypeVar("T")

_STEEPEST = 1e12  # growth of L in one step
_TRIALS = 3000  # of an L: with 1.01, the least factor that is usual, they come to _STEEPEST


class Iterate(NamedTuple):
    """A point, block by block, and its image."""

    z: list[Vec]
    image: Vec

    def beyond(self, before: Iterate, beta: float) -> Iterate:
        """`z + beta (z - z_before)`."""
        z = [a + beta * (a - b) for a, b in zip(self.z, before.z, strict=True)]
        return Iterate(z, self.image + beta * (self.image - before.image))

    def minus(self, other: Iterate) -> list[Vec]:
        """The difference of the points."""
        return [a - b for a, b in zip(self.z, other.z, strict=True)]


class Smooth(ABC):
    """f and h of one problem.

    Attributes
    ----------
    rounding : of f, relative
    monitor : of the solve
    """

    rounding: float
    monitor: Monitor

    @abstractmethod
    def value(self, at: Iterate) -> float:
        """f."""

    @abstractmethod
    def gradient(self, at: Iterate) -> list[Vec]:
        """The gradient of f in z."""

    @abstractmethod
    def prox(self, at: Iterate, gradient: list[Vec], L: float) -> list[Vec]:
        """`prox_{h/L}(z - gradient / L)`."""

    @abstractmethod
    def iterate(self, z: list[Vec]) -> Iterate:
        """A point with its image."""


class Watched(Smooth):
    """The functions f and h with calls counted and timed."""

    def __init__(self, f: Smooth) -> None:
        self.f, self.rounding, self.monitor = f, f.rounding, f.monitor
        names = ("gradients", "projections", "products", "evaluations")
        self.counts: dict[str, int] = dict.fromkeys(names, 0)
        self.spent: dict[str, float] = dict.fromkeys(names, 0.0)

    def value(self, at: Iterate) -> float:
        return self._timed("evaluations", lambda: self.f.value(at))

    def gradient(self, at: Iterate) -> list[Vec]:
        return self._timed("gradients", lambda: self.f.gradient(at))

    def prox(self, at: Iterate, gradient: list[Vec], L: float) -> list[Vec]:
        return self._timed("projections", lambda: self.f.prox(at, gradient, L))

    def iterate(self, z: list[Vec]) -> Iterate:
        return self._timed("products", lambda: self.f.iterate(z))

    def _timed(self, name: str, work: Callable[[], T]) -> T:
        began = time.perf_counter()
        found = work()
        self.spent[name] += time.perf_counter() - began
        self.counts[name] += 1
        return found


@dataclass
class State:
    """The state of the method.

    z : the last iterate
    L : reciprocal step length
    p : where the gradient is taken, z with its momentum
    gradient : at p
    new, d : the step from p, and new - p
    theta : of the momentum, `beta = (theta - 1) / theta+`
    restarts : so far
    stuck : whether no step from p, of those tried, was seen to lower f
    """

    z: Iterate
    L: float
    p: Iterate = field(init=False)
    gradient: list[Vec] = field(init=False)
    new: Iterate = field(init=False)
    d: list[Vec] = field(init=False)
    theta: float = 1.0
    restarts: int = 0
    stuck: bool = False

    def __post_init__(self) -> None:
        self.p = self.new = self.z
        self.d = []

    def step(self, f: Smooth, grow: float | None) -> None:
        """The step from p. With a factor, L grows by it until f lies below its quadratic model:
        `f(new) <= f(p) + <grad, new - p> + L/2 ||new - p||^2`, or it overflows."""
        self.gradient = f.gradient(self.p)
        self._try(f)
        if grow is None:
            return
        height = f.value(self.p)
        forgiven = f.rounding * abs(height)
        L, trials = self.L, 0
        while not f.value(self.new) <= height + self._model() + forgiven and not f.monitor.late:
            trials += 1
            if (
                trials > _TRIALS or not self.L < _STEEPEST * L or not inner(self.d, self.d) > 0.0
            ):  # rounding hides what a step gains, or L hardly grows
                self.L, self.stuck = L, True
                return
            self.L *= grow
            self._try(f)
        self.stuck = False

    def _try(self, f: Smooth) -> None:
        self.new = f.iterate(f.prox(self.p, self.gradient, self.L))
        self.d = self.new.minus(self.p)

    def _model(self) -> float:
        return inner(self.gradient, self.d) + 0.5 * self.L * inner(self.d, self.d)

    @property
    def moved(self) -> float:
        """`L ||new - p||`, the length of the generalised gradient."""
        return self.L * math.sqrt(inner(self.d, self.d))

    def accelerate(self) -> None:
        """On to the step made, with more momentum."""
        theta = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * self.theta * self.theta))
        self.p = self.new.beyond(self.z, (self.theta - 1.0) / theta)
        self.z, self.theta = self.new, theta

    def restart(self, z: Iterate) -> None:
        """Restart from z without momentum."""
        self.z = self.p = z
        self.theta = 1.0
        self.restarts += 1

    def told(self, f: Smooth) -> dict[str, Any]:
        """Return the record of a trace beside the iterate: L, restarts, `L ||new - p||`, calls of f."""
        counted = {**f.counts, "spent": dict(f.spent)} if isinstance(f, Watched) else {}
        return {"L": self.L, "restarts": self.restarts, "step": self.moved, **counted}


def inner(a: Sequence[Vec], b: Sequence[Vec]) -> float:
    """The inner product of vectors given block by block."""
    total = 0.0
    for u, v in zip(a, b, strict=True):
        total += float(u @ v)
    return total
