"""Hyperparameters in a CVXPY problem: numbers, parameters, or a variable.

A model derives quantities from its declared scalars: a radius, the cap `2 / (m nu)`, the factor of a
term. In a problem each stands as one scalar, so that the problem stays DPP; what that scalar is, a `Scope`
says.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from ucm.language import cvx as cp
from ucm.language.parameter import Param, Scalar, value

__all__ = ["Coefficient", "Numbers", "Parameters", "Quantity", "Scope", "Size"]


# --- quantities ------------------------------------------------------------------------------------
class Quantity(ABC):
    """A number derived from declared scalars."""

    signed: bool = True  # whether it may be negative

    @abstractmethod
    def scalars(self) -> tuple[Scalar, ...]:
        """What it is derived from."""

    @abstractmethod
    def at(self, read: Callable[[Scalar], float]) -> float:
        """Its value, with `read` giving the value of each scalar."""

    @abstractmethod
    def plain(self) -> bool:
        """Whether it is its one scalar as it stands."""

    @property
    def number(self) -> float:
        """Its value at the present values."""
        return self.at(value)


@dataclass(frozen=True)
class Size(Quantity):
    """The one number that makes a domain or a set larger or smaller.

    `derived(value)` is the scalar that stands in the constraint (a radius, a cap, -log alpha);
    the set never shrinks when it grows. `inverse` undoes `derived`.
    """

    declared: Scalar
    derived: Callable[[float], float] = float
    inverse: Callable[[float], float] = float
    key: tuple[Any, ...] = ()  # equal keys: the same `derived`

    def scalars(self) -> tuple[Scalar, ...]:
        return (self.declared,)

    def at(self, read: Callable[[Scalar], float]) -> float:
        return self.derived(read(self.declared))

    def plain(self) -> bool:
        return self.derived is float

    @property
    def grows(self) -> bool:
        """Whether the set grows with the declared value."""
        return self.derived(0.75) >= self.derived(0.5)


@dataclass(frozen=True)
class Coefficient(Quantity):
    """A product of declared scalars, `prod(times) / prod(over) * prod(1 - rest)`: a factor."""

    times: tuple[Scalar, ...] = ()
    over: tuple[Scalar, ...] = ()
    rest: tuple[Scalar, ...] = ()
    signed: bool = False

    def scalars(self) -> tuple[Scalar, ...]:
        return (*self.times, *self.over, *self.rest)

    def at(self, read: Callable[[Scalar], float]) -> float:
        return (
            prod(map(read, self.times))
            / prod(map(read, self.over))
            * prod(1.0 - read(s) for s in self.rest)
        )

    def plain(self) -> bool:
        return self.scalars() == self.times[:1]

    def scaled(self, factor: Scalar, divisor: Scalar = 1.0) -> Coefficient:
        """This coefficient times `factor / divisor`."""
        times = self.times if factor == 1.0 else (*self.times, factor)
        over = self.over if divisor == 1.0 else (*self.over, divisor)
        return Coefficient(times, over, self.rest)

    def but(self, share: Scalar) -> Coefficient:
        """This coefficient times `1 - share`."""
        return Coefficient(self.times, self.over, (*self.rest, share))


# --- what stands for them --------------------------------------------------------------------------
class Scope(ABC):
    """What stands for the hyperparameters in a CVXPY problem."""

    @abstractmethod
    def of(self, quantity: Quantity) -> float | cp.Expression:
        """The quantity as one scalar, non-negative where the quantity is not `signed`."""

    def scalar(self, size: Size) -> float | cp.Expression:
        """`of` a size, in the words of sets."""
        return self.of(size)


class Numbers(Scope):
    """The present values."""

    def of(self, quantity: Quantity) -> float | cp.Expression:
        return quantity.number


class Parameters(Scope):
    """A `cvxpy.Parameter` for each `Param`, named like it; what is derived as a `CallbackParam`."""

    def __init__(self) -> None:
        self._known: dict[str, cp.Parameter] = {}

    def of(self, quantity: Quantity) -> float | cp.Expression:
        names = [s for s in quantity.scalars() if isinstance(s, Param)]
        nonneg = not quantity.signed
        for s in names:
            if s.name not in self._known:
                self._known[s.name] = cp.Parameter(name=s.name, value=s.value, nonneg=nonneg)
        if not names:
            return quantity.number
        if quantity.plain():
            return self._known[names[0].name]
        return cp.CallbackParam(lambda: quantity.at(self._now), nonneg=nonneg)

    def _now(self, scalar: Scalar) -> float:
        return float(self._known[scalar.name].value) if isinstance(scalar, Param) else scalar

    def named(self) -> Any:
        """0, made of all parameters: added to an objective it lets `problem.param_dict[name]` find those
        that a `CallbackParam` hides."""
        return sum(0.0 * p for p in self._known.values())
