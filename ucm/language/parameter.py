"""Named hyperparameters, the quantities derived from them, and what stands for these in a CVXPY problem.

A model derives quantities from its declared scalars: a radius, the cap `2 / (m nu)`, the factor of a term.
In a problem each stands as one scalar, so that the problem stays DPP; what that scalar is, a `Scope` says.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from numbers import Real
from typing import Any

import numpy as np

from ucm.errors import CompositionError, brief
from ucm.language import cvx as cp

__all__ = [
    "Coefficient", "Numbers", "Param", "Parameters", "Quantity", "Root", "Scalar", "Scope", "Size",
    "as_number", "named", "number_source", "subject", "value",
]  # fmt: skip


@dataclass(frozen=True)
class Param:
    """A named hyperparameter with its present value.

    Parameters
    ----------
    name : str
        A Python identifier; equal names within one model must carry equal values.
    value : float
        The present value; `model.with_params(name=...)` returns a model with another one.

    Raises
    ------
    CompositionError
        The name is no identifier, or the value no real number.

    Examples
    --------
    >>> import ucm
    >>> nu = ucm.Param("nu", 0.3)
    >>> ucm.ReducedHull(ucm.pos, nu=nu).params()
    {'nu': 0.3}
    """

    name: str
    value: float

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise CompositionError(
                f"Param: the name must be a Python identifier, got {brief(self.name)}; "
                'write for example Param("nu", 0.3)'
            )
        object.__setattr__(self, "value", as_number(self.value, f"Param({self.name!r})"))

    def __repr__(self) -> str:
        return f"Param({self.name!r}, {number_source(self.value)})"


Scalar = float | Param


def value(scalar: Scalar) -> float:
    """The number behind a constant or a `Param`."""
    return scalar.value if isinstance(scalar, Param) else scalar


def as_number(x: Any, where: str) -> float:
    """`x` as a float; refuses what is no real number."""
    if type(x) is float and not math.isnan(x):  # nearly always
        return x
    if isinstance(x, np.ndarray) and x.ndim == 0:
        x = x.item()
    try:
        number = math.nan if isinstance(x, bool) or not isinstance(x, Real) else float(x)
    except OverflowError:
        raise CompositionError(
            f"{where}: expected a number below 1e308, got a longer one"
        ) from None
    if math.isnan(number):
        raise CompositionError(f"{where}: expected a real number or a Param, got {brief(x)}")
    return number


def number_source(x: float) -> str:
    """The shortest text that reads back as x; whole numbers without a point."""
    short = f"{x:.12g}"
    return short if float(short) == x else repr(x)


def named(scalar: Scalar, what: str) -> str:
    """`the cap eta = 0.1`, or `the cap 0.1` for a constant."""
    name = f"{scalar.name} = " if isinstance(scalar, Param) else ""
    return f"the {what} {name}{value(scalar):.6g}"


def subject(scalar: Scalar, what: str) -> str:
    """The name to use where the admissible range is stated."""
    return scalar.name if isinstance(scalar, Param) else f"the {what}"


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


@dataclass(frozen=True)
class Root(Quantity):
    """The square root of a coefficient."""

    of: Coefficient
    signed: bool = False

    def scalars(self) -> tuple[Scalar, ...]:
        return self.of.scalars()

    def at(self, read: Callable[[Scalar], float]) -> float:
        return math.sqrt(self.of.at(read))

    def plain(self) -> bool:
        return False


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
