"""Named hyperparameters, the quantities derived from them, and what stands for these in a CVXPY problem.

A model derives quantities from its declared scalars: a radius, the cap `2 / (m nu)`, the factor of a term.
In a problem each stands as one scalar, so that the problem stays DPP; what that scalar is, a `Scope` says.
"""

from __future__ import annotations

import functools
import math
import operator
from abc import ABC, ABCMeta, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from numbers import Real
from typing import Any

import numpy as np

from ucm.errors import CompositionError, brief
from ucm.language import cvx as cp
from ucm.language.notation import LATEX, Notation

__all__ = [
    "Coefficient", "Derived", "Kind", "Numbers", "Param", "Parameters", "Quantity", "Root", "Scalar", "Scope",
    "Size", "Tunable", "as_declared", "as_number", "holds", "named", "number_source", "shown", "subject",
    "value",
]  # fmt: skip


class Kind(ABCMeta):
    """Classes without virtual subclasses: asking for one costs a fifth of what it does of others."""

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__


class Tunable(metaclass=Kind):
    """A number that parameters set: a `Param`, or arithmetic of them with `+ - * /` and constant powers."""

    __array_ufunc__ = None  # lets `np.float64 * nu` reach the methods below

    value: float
    relative: bool

    @abstractmethod
    def leaves(self) -> tuple[Param, ...]:
        """The `Param`s in it, each as often as it stands there."""

    @abstractmethod
    def at(self, read: Callable[[Param], float]) -> float:
        """Its value, with `read` giving that of each `Param`."""

    @abstractmethod
    def replaced(self, change: Callable[[Param], Param]) -> Tunable:
        """The same with other parameters in place of its own."""

    @abstractmethod
    def formula(self, notation: Notation) -> str:
        """As mathematics."""

    def _repr_latex_(self) -> str:
        each = ",\\ ".join(dict.fromkeys(p.shown(LATEX) for p in self.leaves()))
        known = each if isinstance(self, Param) else f"{self.formula(LATEX)},\\quad {each}"
        return f"${LATEX.grown(known)}$"

    def __add__(self, other: Any) -> Any:
        return _combined("+", self, other)

    def __radd__(self, other: Any) -> Any:
        return _combined("+", other, self)

    def __sub__(self, other: Any) -> Any:
        return _combined("-", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _combined("-", other, self)

    def __mul__(self, other: Any) -> Any:
        return _combined("*", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _combined("*", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _combined("/", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _combined("/", other, self)

    def __pow__(self, exponent: Any) -> Any:
        return _combined("**", self, exponent)

    def __neg__(self) -> Any:
        return _combined("*", -1.0, self)


@dataclass(frozen=True)
class Param(Tunable):
    """A named hyperparameter with its present value. `2 * nu`, `nu / 2`, `1 - nu`, `nu * kappa`, `kappa ** 2`
    stand wherever it does.

    Parameters
    ----------
    name : str
        A Python identifier; equal names within one model must carry equal values.
    value : float
        The present value; `model.with_params(name=...)` returns a model with another one.
    relative : bool, optional
        Whether the value is a fraction of the admissible interval of the data at hand, in [0, 1]: 0.5 is
        halfway through. `ucm.compile` puts the number in its place; `ucm.admissible` has the interval, and
        `Interval.at` what stands for an infinite end. Several go together, along a ray of sizes.

    Raises
    ------
    CompositionError
        The name is no identifier, the value no real number, or a fraction outside of [0, 1].

    Examples
    --------
    >>> import ucm
    >>> nu = ucm.Param("nu", 0.3)
    >>> ucm.ReducedHull(ucm.pos, nu=nu).params()
    {'nu': 0.3}
    >>> X, y = ucm.datasets.load("iris")
    >>> halfway = ucm.models.nu_svm(ucm.Param("nu", 0.5, relative=True))
    >>> {name: round(value, 4) for name, value in ucm.solve(halfway, X, y).params.items()}
    {'nu': 0.528}
    """

    name: str
    value: float
    relative: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise CompositionError(
                f"Param: the name must be a Python identifier, got {brief(self.name)}; "
                'write for example Param("nu", 0.3)'
            )
        object.__setattr__(self, "value", as_number(self.value, f"Param({self.name!r})"))
        if not isinstance(self.relative, bool):
            raise CompositionError(
                f"Param({self.name!r}): relative is True or False, got {brief(self.relative)}; "
                f"write Param({self.name!r}, 0.5, relative=True)"
            )
        if self.relative and not 0.0 <= self.value <= 1.0:
            raise CompositionError(
                f"Param({self.name!r}): a relative size is a fraction of the admissible interval, in [0, 1], "
                f"got {number_source(self.value)}; leave relative out to give the number itself"
            )

    def leaves(self) -> tuple[Param, ...]:
        return (self,)

    def at(self, read: Callable[[Param], float]) -> float:
        return read(self)

    def replaced(self, change: Callable[[Param], Param]) -> Param:
        return change(self)

    def formula(self, notation: Notation) -> str:
        return notation.symbol(self.name)

    def shown(self, notation: Notation) -> str:
        """The symbol with its value."""
        number = f"{notation.symbol(self.name)} = {notation.scalar(self.value)}"
        return f"{number}{notation.remark('of its interval')}" if self.relative else number

    def __repr__(self) -> str:
        flag = ", relative=True" if self.relative else ""
        return f"Param({self.name!r}, {number_source(self.value)}{flag})"


Scalar = float | Tunable


def _power(base: float, exponent: float) -> float:
    """`base ** exponent`: inf where that is too large, nan where it is no real number."""
    try:
        return base**exponent if base >= 0.0 or exponent.is_integer() else math.nan
    except OverflowError:
        return math.inf
    except ZeroDivisionError:
        return math.nan


_OPERATIONS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": _power,
}
_INVERSES: dict[str, tuple[Callable[[float, float], float], Callable[[float, float], float]]] = {
    "+": (lambda y, a: y - a, lambda y, a: y - a),
    "-": (lambda y, a: y + a, lambda y, a: a - y),
    "*": (lambda y, a: y / a, lambda y, a: y / a),
    "/": (lambda y, a: y * a, lambda y, a: a / y if y else math.inf),
    "**": (lambda y, a: _power(y, 1.0 / a), lambda y, a: math.nan),
}
"""What the left and the right operand are, given the result y and the other operand a."""


@dataclass(frozen=True)
class Derived(Tunable):
    """`left operation right`, a number that parameters set; written with `+ - * /`, and `**` with a number as
    its exponent.

    Raises
    ------
    CompositionError
        A division by 0, a root of a negative number, an exponent that is a `Param`.

    Examples
    --------
    >>> import ucm
    >>> nu = ucm.Param("nu", 0.25)
    >>> U = ucm.ReducedHull(ucm.pos, nu=1 - nu) - ucm.ReducedHull(ucm.neg, nu=2 * nu)
    >>> U.with_params(nu=0.5).params(), (1 - nu).value
    ({'nu': 0.5}, 0.75)
    """

    operation: str
    left: Scalar
    right: Scalar

    def __post_init__(self) -> None:
        if self.operation not in _OPERATIONS:
            raise CompositionError(
                f"Derived: the operation is one of + - * / **, got {brief(self.operation)}; write 2 * nu"
            )
        for side in (self.left, self.right):
            if not isinstance(side, Tunable):
                as_number(side, "Derived")
        if self.operation == "**" and (isinstance(self.right, Tunable) or self.right == 0.0):
            raise CompositionError(
                f"{self.name}: the exponent is a number other than 0, got {brief(self.right)}; "
                "write for example kappa ** 2"
            )
        if math.isnan(self.value):
            raise CompositionError(
                f"{self.name}: expected a number, got {number_source(as_declared(self.left))} "
                f"{self.operation} {number_source(as_declared(self.right))}; change a parameter"
            )

    @functools.cached_property
    def value(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.at(lambda p: p.value)

    @functools.cached_property
    def relative(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether a fraction of an interval stands in it."""
        return any(p.relative for p in self.leaves())

    def leaves(self) -> tuple[Param, ...]:
        sides = (self.left, self.right)
        return tuple(p for side in sides if isinstance(side, Tunable) for p in side.leaves())

    def at(self, read: Callable[[Param], float]) -> float:
        left, right = (x.at(read) if isinstance(x, Tunable) else x for x in (self.left, self.right))
        if self.operation == "/" and right == 0.0:
            return math.nan
        return _OPERATIONS[self.operation](left, right)

    def replaced(self, change: Callable[[Param], Param]) -> Derived:
        sides = (self.left, self.right)
        new = [x.replaced(change) if isinstance(x, Tunable) else x for x in sides]
        return Derived(self.operation, *new)

    def inverse(self, name: str, y: float) -> float:
        """The value of the one `Param` of that name for which this is y; the others at their values."""
        on_left = holds(self.left, name)
        inner, other = (self.left, self.right) if on_left else (self.right, self.left)
        x = _INVERSES[self.operation][0 if on_left else 1](y, as_declared(other))
        return inner.inverse(name, x) if isinstance(inner, Derived) else x

    def monotone(self, name: str) -> bool:
        """Whether it is known to rise or fall with the `Param` of that name: where that stands once, and
        not in a sum that something is divided by."""
        if sum(p.name == name for p in self.leaves()) != 1:
            return False
        on_left = holds(self.left, name)
        inner, other = (self.left, self.right) if on_left else (self.right, self.left)
        if self.operation in "*/" and as_declared(other) == 0.0:
            return False
        if self.operation == "**" and as_declared(inner) < 0.0:
            return False
        if not isinstance(inner, Derived):
            return True
        below = self.operation == "/" and not on_left
        return inner.monotone(name) and not (below and inner.sums(name))

    def sums(self, name: str) -> bool:
        """Whether the `Param` of that name stands in a sum."""
        inner = self.left if holds(self.left, name) else self.right
        return self.operation in "+-" or (isinstance(inner, Derived) and inner.sums(name))

    def written(self, leaf: Callable[[Scalar], str]) -> str:
        """As text, with `leaf` giving that of numbers and `Param`s."""
        texts = []
        for x, right in ((self.left, False), (self.right, True)):
            inner = x.written(leaf) if isinstance(x, Derived) else leaf(x)
            loose = isinstance(x, Derived) and x.operation in "+-" and self.operation != "+"
            tied = isinstance(x, Derived) and right
            negative = isinstance(x, float) and x < 0.0 and right
            base = isinstance(x, Derived) and self.operation == "**"
            texts.append(f"({inner})" if loose or tied or negative or base else inner)
        return f" {self.operation} ".join(texts)

    def formula(self, notation: Notation) -> str:
        left, right = notation.scalar(self.left), notation.scalar(self.right)
        if self.operation == "/":
            return notation.fraction(left, right)
        if self.operation == "**":
            product = isinstance(self.left, Derived) and self.left.operation not in "+-"
            return notation.power(f"({left})" if product else left, right)
        if self.operation == "*":
            return f"-{right}" if self.left == -1.0 else left + notation.times + right
        return f"({left} {self.operation} {right})"

    @property
    def name(self) -> str:
        """As a reader writes it: `2 * nu`."""
        return self.written(
            lambda x: x.name if isinstance(x, Param) else number_source(as_declared(x))
        )

    def __repr__(self) -> str:
        return self.written(
            lambda x: repr(x) if isinstance(x, Param) else number_source(as_declared(x))
        )


def holds(scalar: Scalar, name: str) -> bool:
    """Whether the `Param` of that name stands in it."""
    return isinstance(scalar, Tunable) and any(p.name == name for p in scalar.leaves())


def _combined(operation: str, left: Any, right: Any) -> Any:
    """A `Derived` of numbers and tunables; NotImplemented for anything else, which then has the say."""
    sides = []
    for x in (left, right):
        x = x.item() if isinstance(x, np.ndarray) and x.ndim == 0 else x
        if isinstance(x, bool) or not isinstance(x, Real | Tunable):
            return NotImplemented
        sides.append(x if isinstance(x, Tunable) else as_number(x, operation))
    return Derived(operation, *sides)


def value(scalar: Scalar) -> float:
    """The number behind a constant, a `Param` or arithmetic of them.

    Parameters
    ----------
    scalar : float, Param or arithmetic of them
        As it stands in a declaration.

    Raises
    ------
    CompositionError
        It is a fraction of the admissible interval, which there is none of without data.
    """
    if not isinstance(scalar, Tunable):
        return scalar
    if scalar.relative:
        raise CompositionError(
            f"{scalar!r}: expected a number, got a fraction of the admissible interval of data; "
            "compile the model, or give the number, as model.settled(solution.params)"
        )
    return scalar.value


def as_declared(scalar: Scalar) -> float:
    """The number as it stands; of what is relative the fraction."""
    return scalar.value if isinstance(scalar, Tunable) else scalar


def shown(scalar: Scalar) -> str:
    """What was got, in an error: source text, and the value of what is derived."""
    return f"{scalar!r} = {scalar.value:.6g}" if isinstance(scalar, Derived) else repr(scalar)


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
            f"{where}: expected a number below 1e308, got a longer one; write math.inf where that is meant"
        ) from None
    if math.isnan(number):
        raise CompositionError(
            f"{where}: expected a real number or a Param, got {brief(x)}; write 0.3 or Param('nu', 0.3)"
        )
    return number


def number_source(x: float) -> str:
    """The shortest text that reads back as x; whole numbers without a point."""
    short = f"{x:.12g}"
    return short if float(short) == x else repr(x)


def named(scalar: Scalar, what: str) -> str:
    """`the cap eta = 0.1`, or `the cap 0.1` for a constant."""
    name = f"{scalar.name} = " if isinstance(scalar, Param | Derived) else ""
    return f"the {what} {name}{as_declared(scalar):.6g}"


def subject(scalar: Scalar, what: str) -> str:
    """The name to use where the admissible range is stated."""
    return scalar.name if isinstance(scalar, Param | Derived) else f"the {what}"


# --- quantities ------------------------------------------------------------------------------------
class Quantity(metaclass=Kind):
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

    Attributes
    ----------
    declared : the scalar as it was written
    derived, inverse : the functions from it, and back
    key : what tells one `derived` from another; equal keys, the same function
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
    """A product of declared scalars, `prod(times) / prod(over) * prod(1 - rest)`: a factor.

    Attributes
    ----------
    times, over, rest : the scalars
    signed : whether it may be negative
    """

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
    """What stands for the hyperparameters in a CVXPY problem.

    Attributes
    ----------
    scaled : whether variables are in units in which their entries are near 1
    free : the hyperparameter whose size is a variable; None: there is no such variable
    """

    scaled: bool = True
    free: str | None = None

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

    def __init__(self, scaled: bool = True) -> None:
        self.scaled = scaled
        self._known: dict[str, cp.Parameter] = {}

    def of(self, quantity: Quantity) -> float | cp.Expression:
        tunable = [s for s in quantity.scalars() if isinstance(s, Tunable)]
        nonneg = not quantity.signed
        for s in tunable:
            for p in s.leaves():
                if p.name not in self._known:
                    above = nonneg and p is s  # a factor of what is derived may be negative
                    self._known[p.name] = cp.Parameter(name=p.name, value=p.value, nonneg=above)
        if not tunable:
            return quantity.number
        if quantity.plain() and isinstance(tunable[0], Param):
            own = self._known[tunable[0].name]
            if own.is_nonneg() or not nonneg:
                return own
        names = dict.fromkeys(p.name for s in tunable for p in s.leaves())
        name = f"f({', '.join(names)})"
        return cp.CallbackParam(lambda: quantity.at(self._now), nonneg=nonneg, name=name)

    def _now(self, scalar: Scalar) -> float:
        if not isinstance(scalar, Tunable):
            return scalar
        return scalar.at(lambda p: float(self._known[p.name].value))  # type: ignore[arg-type]

    def named(self) -> Any:
        """0, made of all parameters: added to an objective it lets `problem.param_dict[name]` find those
        that a `CallbackParam` hides."""
        return sum(0.0 * p for p in self._known.values())
