"""Named hyperparameters, arithmetic of them, and the scalars that stand for both in a CVXPY problem.

A declaration holds scalars: numbers, `Param`s and expressions of them, such as the factor of a term. In a
problem each expression stands as one scalar, so that the problem stays DPP; a `Scope` chooses that scalar.
"""

from __future__ import annotations

import functools
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ucm.errors import CompositionError, brief
from ucm.language import cvx as cp
from ucm.language.node import Node, as_number, number_source
from ucm.language.notation import Notation

__all__ = [
    "BinaryExpression",
    "Expression",
    "Numbers",
    "Param",
    "Parameters",
    "Range",
    "Scalar",
    "Scope",
    "Size",
    "as_declared",
    "as_factor",
    "held",
    "holds",
    "is_zero",
    "named",
    "shown",
    "subject",
    "value",
    "within",
]  # fmt: skip


class _Named:
    name: str
    value: float
    relative: bool


class Expression(Node, NDArrayOperatorsMixin, _Named):
    """A number that parameters set: a `Param`, or arithmetic of them with `+ - * /` and constant powers.

    Attributes
    ----------
    name : the text that a reader writes
    value : the number at the present values of the parameters
    relative : True if a fraction of an admissible interval stands in it
    """

    example: ClassVar[str] = "0.3 or Param('nu', 0.3)"

    ranges: tuple[Range, ...] = field(default=(), compare=False, kw_only=True)

    @abstractmethod
    def at(self, read: Callable[[Param], float]) -> float:
        """Its value, with `read` giving that of each `Param`."""

    @property
    def rotation_invariant(self) -> bool:
        return True

    def leaves(self) -> tuple[Param, ...]:
        """The `Param`s in it, each as often as it stands there."""
        return self.nodes_of_type(Param)

    def without_ranges(self) -> Self:
        return replace(super().without_ranges(), ranges=())

    def __bool__(self) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return not self == other

    def _repr_latex_(self) -> str:
        return f"${self.to_latex()}$"

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Python's and NumPy's arithmetic, and NumPy's square root."""
        if method == "__call__" and options in ({}, {"out": (self,)}):  # `nu *= 2` is `nu = nu * 2`
            if ufunc is np.sqrt:
                return self**0.5
            if ufunc is np.negative:
                return -1.0 * self
            if ufunc in _UFUNCS:
                return _combined(_UFUNCS[ufunc], *inputs)
        raise CompositionError(
            f"np.{ufunc.__name__} of {self!r}: a parameter takes + - * / and constant powers, and np.sqrt; "
            "declare a Param for the result"
        )


class Param(Expression):
    """A named hyperparameter with its present value.

    Arithmetic of parameters, such as `2 * nu`, `nu / 2`, `1 - nu`, `nu * kappa` and `kappa ** 2`, is allowed
    wherever a parameter is.

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
    ranges : tuple of Range, optional
        The ranges that functions such as `ucm.CVaR` require of the value; `with_params` checks them.

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
        super().__post_init__()
        if self.relative and not 0.0 <= self.value <= 1.0:
            raise CompositionError(
                f"Param({self.name!r}): a relative size is a fraction of the admissible interval, in [0, 1], "
                f"got {number_source(self.value)}; leave relative out to give the number itself"
            )

    @functools.cached_property
    def _params(self) -> dict[str, Param]:
        return {self.name: self}

    def at(self, read: Callable[[Param], float]) -> float:
        return read(self)

    def _with(self, changes: Mapping[str, Mapping[str, Any]]) -> Self:
        ranges = tuple(r._with(changes) for r in self.ranges)
        return replace(self, ranges=ranges, **changes.get(self.name, {}))

    def formula(self, notation: Notation) -> str:
        return notation.symbol(self.name)

    def shown(self, notation: Notation) -> str:
        """The symbol with its value."""
        number = f"{notation.symbol(self.name)} = {notation.scalar(self.value)}"
        return f"{number}{notation.remark('of its interval')}" if self.relative else number

    def _with_values(self, notation: Notation) -> str:
        return self.shown(notation)


Scalar = float | Expression


class Range(Node):
    """The range of a scalar in a declaration, which every value of its parameters must keep.

    It stands with the scalar that it is about, so that it is checked wherever that gets another value: when
    written, in `with_params`, in `from_json`. It takes no part in equality.

    Attributes
    ----------
    what : the words for the scalar, such as "CVaR: beta"
    scalar : without ranges of its own
    low, high : the ends
    but : numbers between them that it must not be, the ends perhaps
    must : what the message says it must do

    Raises
    ------
    CompositionError
        The value lies outside. A fraction of an admissible interval has none yet.
    """

    what: str
    scalar: Scalar
    low: float
    high: float
    but: tuple[float, ...]
    must: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.scalar, Expression) and self.scalar.relative:
            return
        x = as_declared(self.scalar)
        if not self.low <= x <= self.high or x in self.but:
            got = shown(self.scalar) if isinstance(self.scalar, Expression) else f"{x:.10g}"
            raise CompositionError(f"{self.what} {self.must}, got {got}; choose another value")


def within(
    scalar: Any, low: float, high: float, but: tuple[float, ...], what: str, must: str
) -> Scalar:
    """The scalar, held to a range from now on; the others as for `Range`.

    Raises
    ------
    CompositionError
        It is no scalar, or lies outside.
    """
    number = scalar if isinstance(scalar, Expression) else as_number(scalar, what)
    bare = number.without_ranges() if isinstance(number, Expression) else number
    return held(number, Range(what, bare, low, high, but, must))


def held(scalar: Scalar, own: Range) -> Scalar:
    """The scalar with one more range, which may be that of another scalar; numbers need none."""
    if isinstance(scalar, Expression):
        return replace(scalar, ranges=(*scalar.ranges, own))
    return scalar


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
_UFUNCS: dict[np.ufunc, str] = {
    np.add: "+",
    np.subtract: "-",
    np.multiply: "*",
    np.true_divide: "/",
    np.power: "**",
}
_INVERSES: dict[str, tuple[Callable[[float, float], float], Callable[[float, float], float]]] = {
    "+": (lambda y, a: y - a, lambda y, a: y - a),
    "-": (lambda y, a: y + a, lambda y, a: a - y),
    "*": (lambda y, a: y / a, lambda y, a: y / a),
    "/": (lambda y, a: y * a, lambda y, a: a / y if y else math.inf),
    "**": (lambda y, a: _power(y, 1.0 / a), lambda y, a: math.nan),
}
"""What the left and the right operand are, given the result y and the other operand a."""


class BinaryExpression(Expression):
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
        super().__post_init__()
        if self.operation not in _OPERATIONS:
            raise CompositionError(
                f"BinaryExpression: expected one of + - * / **, got {brief(self.operation)}; write 2 * nu"
            )
        if self.operation == "**" and (isinstance(self.right, Expression) or self.right == 0.0):
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
        return any(p.relative for p in self.leaves())

    def at(self, read: Callable[[Param], float]) -> float:
        left, right = (
            x.at(read) if isinstance(x, Expression) else x for x in (self.left, self.right)
        )
        if self.operation == "/" and right == 0.0:
            return math.nan
        return _OPERATIONS[self.operation](left, right)

    def inverse(self, name: str) -> Callable[[float], float] | None:
        """The function from a value of the expression to that of the `Param` of this name, the others at
        their values. None where the expression is not known to rise or fall with the parameter: where that
        stands twice, or in a sum that something is divided by."""
        on_left = holds(self.left, name)
        inner, scalar = (self.left, self.right) if on_left else (self.right, self.left)
        other = as_declared(scalar)
        if (
            holds(scalar, name)
            or (self.operation in ("*", "/") and other == 0.0)
            or (self.operation == "**" and as_declared(inner) < 0.0)
        ):
            return None
        undo = _INVERSES[self.operation][0 if on_left else 1]
        if not isinstance(inner, BinaryExpression):
            return lambda y: undo(y, other)
        within = inner.inverse(name)
        sums = [e for e in inner.nodes_of_type(BinaryExpression) if e.operation in ("+", "-")]
        divides = self.operation == "/" and not on_left
        if within is None or (divides and any(holds(e, name) for e in sums)):
            return None
        return lambda y: within(undo(y, other))

    def written(self, leaf: Callable[[Scalar], str]) -> str:
        """As text, with `leaf` giving that of numbers and `Param`s."""
        texts = []
        for x, right in ((self.left, False), (self.right, True)):
            inner = x.written(leaf) if isinstance(x, BinaryExpression) else leaf(x)
            loose = (
                isinstance(x, BinaryExpression) and x.operation in "+-" and self.operation != "+"
            )
            tied = isinstance(x, BinaryExpression) and right
            negative = isinstance(x, float) and x < 0.0 and right
            base = isinstance(x, BinaryExpression) and self.operation == "**"
            texts.append(f"({inner})" if loose or tied or negative or base else inner)
        return f" {self.operation} ".join(texts)

    def formula(self, notation: Notation) -> str:
        left, right = notation.scalar(self.left), notation.scalar(self.right)
        if self.operation == "/":
            return notation.fraction(left, right)
        if self.operation == "**":
            product = isinstance(self.left, BinaryExpression) and self.left.operation not in "+-"
            return notation.power(f"({left})" if product else left, right)
        if self.operation == "*":
            return f"-{right}" if self.left == -1.0 else left + notation.times + right
        return f"({left} {self.operation} {right})"

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
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
    return isinstance(scalar, Expression) and any(p.name == name for p in scalar.leaves())


_ARRAYS: dict[int, Callable[[Any, Any], Any]] = {}
"""The meaning of a scalar with parameters times an array, by the number of axes."""


def times_array(axes: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Install a function of scalar and array as the meaning of their product."""

    def install(function: Callable[..., Any]) -> Callable[..., Any]:
        _ARRAYS[axes] = function
        return function

    return install


def _combined(operation: str, left: Any, right: Any) -> Any:
    """Return a `BinaryExpression` of numbers and parameters; NotImplemented for any other operand."""
    sides = []
    for x in (left, right):
        x = x.item() if isinstance(x, np.ndarray) and x.ndim == 0 else x
        if isinstance(x, np.ndarray | list | tuple):
            other = right if x is left else left
            if operation == "*" and np.ndim(x) in _ARRAYS:
                return _ARRAYS[np.ndim(x)](other, x)
            if operation == "/" and x is left and np.ndim(x) in _ARRAYS:
                return _ARRAYS[np.ndim(x)](1.0 / other, x)
            raise CompositionError(
                f"{operation}: expected numbers and parameters, got an array of shape {np.shape(x)} and a "
                "parameter; put the array into the declaration, as in diag(r) @ set or "
                "AffineImage(np.diag(r), Box(-s, s)) for sizes s * r, or weights=r of a penalty"
            )
        if isinstance(x, bool) or not isinstance(x, Real | Expression):
            return NotImplemented
        sides.append(x if isinstance(x, Expression) else as_number(x, operation))
    if operation in "*/" and sides[1] == 1.0:
        return sides[0]
    return sides[1] if operation == "*" and sides[0] == 1.0 else BinaryExpression(operation, *sides)


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
    if not isinstance(scalar, Expression):
        return scalar
    if scalar.relative:
        raise CompositionError(
            f"{scalar!r}: expected a number, got a fraction of the admissible interval of data; "
            "compile the model, or give the number, as model.substitute(solution.params)"
        )
    return scalar.value


def as_declared(scalar: Scalar) -> float:
    """The number as it stands; of what is relative the fraction."""
    return scalar.value if isinstance(scalar, Expression) else scalar


def shown(scalar: Scalar) -> str:
    """What was got, in an error: source text, and the value of what is derived."""
    return (
        f"{scalar!r} = {scalar.value:.6g}" if isinstance(scalar, BinaryExpression) else repr(scalar)
    )


def as_factor(c: Any) -> Scalar | None:
    """`c` as what multiplies a node, a number, a `Param` or arithmetic of these; None when it is neither."""
    if isinstance(c, np.ndarray) and c.ndim == 0:
        c = c.item()
    if isinstance(c, Expression):
        return c
    return None if isinstance(c, bool) or not isinstance(c, Real) else float(c)


def is_zero(x: Any) -> bool:
    """Whether x is the number 0, which `sum` begins with, and which changes no sum."""
    return as_factor(x) == 0.0


def named(scalar: Scalar, what: str) -> str:
    """`the cap eta = 0.1`, or `the cap 0.1` for a constant."""
    name = f"{scalar.name} = " if isinstance(scalar, Expression) else ""
    return f"the {what} {name}{as_declared(scalar):.6g}"


def subject(scalar: Scalar, what: str) -> str:
    """The name to use where the admissible range is stated."""
    return scalar.name if isinstance(scalar, Expression) else f"the {what}"


# --- the size of a set -----------------------------------------------------------------------------
@dataclass(frozen=True)
class Size:
    """The one number that makes a domain or a set larger or smaller.

    `derived(value)` is the scalar that stands in the constraint (a radius, a cap, -log alpha);
    the set never shrinks when it grows. `inverse` undoes `derived`.

    Attributes
    ----------
    declared : the scalar as it was written
    derived, inverse : the functions from it, and back
    key : identifies `derived`; equal keys, the same function
    times : how often the scalar stands in the set, as twice in `Box(-s, s)`
    """

    declared: Scalar
    derived: Callable[[float], float] = float
    inverse: Callable[[float], float] = float
    key: tuple[Any, ...] = ()
    times: int = 1

    @property
    def number(self) -> float:
        """Its value at the present values of the parameters."""
        return self.derived(value(self.declared))

    @property
    def grows(self) -> bool:
        """Whether the set grows with the declared value."""
        return self.derived(0.75) >= self.derived(0.5)


# --- what stands for scalars in a CVXPY problem ----------------------------------------------------
class Scope(ABC):
    """The CVXPY parameters of the hyperparameters of a problem.

    Attributes
    ----------
    scaled : whether variables are in units in which their entries are near 1
    free : the hyperparameter whose size is a variable; None: there is no such variable
    """

    scaled: bool = True
    free: str | None = None

    @abstractmethod
    def of(self, x: Scalar | Size, signed: bool = False) -> float | cp.Expression:
        """One scalar of the problem, non-negative unless it is a size or `signed`."""

    def unit(self, scale: float) -> float:
        """The unit of feature vectors: `scale`, or 1 where variables are not scaled."""
        return scale if self.scaled else 1.0


class Numbers(Scope):
    """The present values."""

    def of(self, x: Scalar | Size, signed: bool = False) -> float | cp.Expression:
        return x.number if isinstance(x, Size) else value(x)


class Parameters(Scope):
    """A `cvxpy.Parameter` for each `Param`, named like it; an expression of several as a `CallbackParam`."""

    def __init__(self, scaled: bool = True) -> None:
        self.scaled = scaled
        self._known: dict[str, cp.Parameter] = {}

    def of(self, x: Scalar | Size, signed: bool = False) -> float | cp.Expression:
        size = x if isinstance(x, Size) else Size(x)
        scalar, nonneg = size.declared, not (signed or isinstance(x, Size))
        if not isinstance(scalar, Expression):
            return size.number
        for p in scalar.leaves():
            if p.name not in self._known:
                above = nonneg and p is scalar  # a parameter of an expression may be negative
                self._known[p.name] = cp.Parameter(name=p.name, value=p.value, nonneg=above)
        if isinstance(scalar, Param) and size.derived is float:
            own = self._known[scalar.name]
            if own.is_nonneg() or not nonneg:
                return own
        name = scalar.name if size.derived is float else f"f({scalar.name})"
        return cp.CallbackParam(
            lambda: size.derived(scalar.at(self._now)), nonneg=nonneg, name=name
        )

    def _now(self, p: Param) -> float:
        return float(self._known[p.name].value)  # type: ignore[arg-type]

    def named(self) -> Any:
        """0, made of all parameters: added to an objective it lets `problem.param_dict[name]` find those
        that a `CallbackParam` hides."""
        return sum(0.0 * p for p in self._known.values())
