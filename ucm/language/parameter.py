"""Named hyperparameters, their arithmetic, and their representation in a CVXPY problem.

A declaration holds scalars: numbers, `Param`s and expressions of these, such as the factor of a term. In a
CVXPY problem a `Scope` represents each expression by one scalar, which keeps the problem DPP.
"""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from operator import add, mul, sub, truediv
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeGuard, overload

import numpy as np

from ucm.errors import CompositionError, brief
from ucm.language import cvx as cp
from ucm.language.node import (
    OPERATORS,
    RotationInvariant,
    as_number,
    in_interval,
    number_source,
    restricted,
    with_value,
)
from ucm.language.notation import Notation

if TYPE_CHECKING:

    class _Operators:  # those of other operands, as sets and penalties, have their types
        name: str
        value: float
        relative: bool

        @overload
        def __add__(self, other: float | Expression) -> Expression: ...
        @overload
        def __add__(self, other: list[float] | np.ndarray) -> Any: ...  # a statistic
        def __add__(self, other: object) -> Any: ...
        def __neg__(self) -> Expression: ...

        __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __pow__ = __add__

else:
    from numpy.lib.mixins import NDArrayOperatorsMixin as _Operators


class Expression(RotationInvariant, _Operators):
    """A scalar that depends on parameters: a `Param`, or arithmetic with `+ - * /` and constant powers.

    `name` is the text that a reader writes, `relative` whether a fraction of an interval stands in it.
    """

    example: ClassVar[str] = "0.3 or Param('nu', 0.3)"

    @abstractmethod
    def at(self, read: Callable[[Param], float]) -> float:
        """Return the value of the expression with `read(p)` as the value of each `Param` p."""

    @abstractmethod
    def inverse(self, name: str) -> Callable[[float], float] | None:
        """Return the function from a value of the expression to the value of one `Param`, or None if unknown.

        The other parameters keep their values. None if the expression is not known to be monotone: if the
        parameter occurs twice, or in a sum in a denominator.
        """

    def __bool__(self) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return not self == other

    def _repr_latex_(self) -> str:
        return f"${self.to_latex()}$"

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **options: object) -> object:
        """Return the expression for `+ - * / **`, negation or np.sqrt; refuse any other NumPy function."""
        if method == "__call__" and options in ({}, {"out": (self,)}):  # `nu *= 2` is `nu = nu * 2`
            if ufunc is np.sqrt:
                return self**0.5
            if ufunc is np.negative:
                return -1.0 * self
            for symbol, operation in _OPERATIONS.items():
                if ufunc is operation.ufunc:
                    return _combined(symbol, *inputs)
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
        The present value; `model.with_params(name=...)` returns a model with another value.
    relative : bool, optional
        True if the value is a fraction in [0, 1] of the admissible interval of the data: 0.5 is its middle.
        `ucm.compile` replaces the fraction by the number. `ucm.admissible` returns the interval;
        `Interval.at` tells how an infinite end is treated. Several relative parameters move together, along
        a ray of sizes.

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

    name: str = restricted(
        str.isidentifier, "the name must be a Python identifier", 'write for example Param("nu", 0.3)'
    )
    value: float
    relative: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.value, float) and math.isnan(self.value):  # the check of fields names no parameter
            raise CompositionError(f"Param({self.name!r}): expected a number, got nan; write for example 0.3")
        super().__post_init__()
        if self.relative and not 0.0 <= self.value <= 1.0:
            raise CompositionError(
                f"Param({self.name!r}): a relative size is a fraction of the admissible interval, in [0, 1], "
                f"got {number_source(self.value)}; leave relative out to give the number itself"
            )

    @property
    def _params(self) -> dict[str, Param]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return {self.name: self}

    def at(self, read: Callable[[Param], float]) -> float:
        return read(self)

    def inverse(self, name: str) -> Callable[[float], float] | None:
        return float

    def _changed_alone(self, changes: Mapping[str, float], fields: Mapping[str, bool]) -> Self:
        return replace(self, value=changes[self.name], **fields) if self.name in changes else self

    def formula(self, notation: Notation) -> str:
        return notation.symbol(self.name)

    def with_value(self, notation: Notation) -> str:
        """Return the symbol with its present value, or with its fraction if relative."""
        symbol = notation.symbol(self.name)
        if self.relative:
            return symbol + notation.remark(f"at the fraction {self.value:g} of its interval")
        return f"{symbol} = {notation.scalar(self.value)}"

    def _with_values(self, notation: Notation) -> str:
        return self.with_value(notation)


Scalar = float | Expression


def _power(base: float, exponent: float) -> float:
    """Return `base ** exponent`: inf after an overflow, nan if not a real number."""
    try:
        return base**exponent if base >= 0.0 or exponent.is_integer() else math.nan
    except OverflowError:
        return math.inf
    except ZeroDivisionError:
        return math.nan


class _Operation(NamedTuple):
    """An operation of scalars, and its operands as functions of the result y and the other operand a."""

    precedence: int
    ufunc: np.ufunc
    of: Callable[[float, float], float]
    left: Callable[[float, float], float]
    right: Callable[[float, float], float]


_OPERATIONS = {
    "+": _Operation(1, np.add, add, lambda y, a: y - a, lambda y, a: y - a),
    "-": _Operation(1, np.subtract, sub, lambda y, a: y + a, lambda y, a: a - y),
    "*": _Operation(2, np.multiply, mul, lambda y, a: y / a, lambda y, a: y / a),
    "/": _Operation(2, np.divide, truediv, lambda y, a: y * a, lambda y, a: a / y if y else math.inf),
    "**": _Operation(3, np.power, _power, lambda y, a: _power(y, 1.0 / a), lambda y, a: math.nan),
}


class BinaryExpression(Expression):
    """The expression `left operation right` with `+ - * /`, or `**` with a constant exponent.

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

    def _check(self) -> None:
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
                f"{self.name}: expected a number, got {number_source(declared_value(self.left))} "
                f"{self.operation} {number_source(declared_value(self.right))}; change a parameter"
            )

    @functools.cached_property
    def value(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.at(lambda p: p.value)

    @functools.cached_property
    def relative(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return any(p.relative for p in self._params.values())

    def at(self, read: Callable[[Param], float]) -> float:
        left, right = (x.at(read) if isinstance(x, Expression) else x for x in (self.left, self.right))
        if self.operation == "/" and right == 0.0:
            return math.nan
        return _OPERATIONS[self.operation].of(left, right)

    def inverse(self, name: str) -> Callable[[float], float] | None:
        on_left = holds(self.left, name)
        operand, scalar = (self.left, self.right) if on_left else (self.right, self.left)
        other = declared_value(scalar)
        sums = [e for e in self.nodes_of_type(BinaryExpression) if e.operation in "+-" and holds(e, name)]
        if (
            holds(scalar, name)
            or (self.operation in "*/" and other == 0.0)
            or (self.operation == "/" and not on_left and sums)
            or (self.operation == "**" and declared_value(operand) < 0.0)
        ):
            return None
        operation = _OPERATIONS[self.operation]
        undo = operation.left if on_left else operation.right
        inverse = operand.inverse(name) if isinstance(operand, Expression) else None
        return None if inverse is None else lambda y: inverse(undo(y, other))

    def _text(self, of: Callable[[Param], str]) -> str:
        """Return the source text of the expression, with `of(p)` as the text of each `Param` p."""
        texts = []
        for x, on_right in ((self.left, False), (self.right, True)):
            match x:
                case BinaryExpression():
                    loose = _OPERATIONS[x.operation].precedence < _OPERATIONS[self.operation].precedence
                    text, inside = x._text(of), on_right or loose or self.operation == "**"
                case Param():
                    text, inside = of(x), False
                case _:
                    text = number_source(declared_value(x))
                    inside = on_right and text.startswith("-")
            texts.append(f"({text})" if inside else text)
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
        return self._text(lambda p: p.name)

    def __repr__(self) -> str:
        return self._text(repr)


def holds(scalar: Scalar, name: str) -> TypeGuard[Expression]:
    """Return True if the scalar depends on the `Param` of this name."""
    return isinstance(scalar, Expression) and name in scalar._params


def _combined(operation: str, left: object, right: object) -> object:
    """Return `left operation right` for scalars or a scalar and an array, else NotImplemented."""
    for x, factor in ((left, right), (right, left)):
        if isinstance(x, np.ndarray | list | tuple) and np.ndim(x):
            if np.ndim(x) in (1, 2) and (operation == "*" or (operation == "/" and x is left)):
                c = as_factor(factor) or 0.0
                return OPERATORS["parameter * array"](c if operation == "*" else 1.0 / c, x)
            raise CompositionError(
                f"{operation}: expected numbers and parameters, got an array of shape {np.shape(x)} and a "
                "parameter; put the array into the declaration, as in diag(r) @ set or "
                "AffineImage(np.diag(r), Box(-s, s)) for sizes s * r, or weights=r of a penalty"
            )
    a, b = as_factor(left), as_factor(right)
    if a is None or b is None:
        return NotImplemented
    if operation in "*/" and b == 1.0:
        return a
    return b if operation == "*" and a == 1.0 else BinaryExpression(operation, a, b)


def value(scalar: Scalar) -> float:
    """Return the present value of a scalar of a declaration, which must not be relative.

    Parameters
    ----------
    scalar : float, Param or arithmetic of these
        The scalar.

    Raises
    ------
    CompositionError
        The scalar is a fraction of the admissible interval, which depends on the data.
    """
    if not isinstance(scalar, Expression):
        return scalar
    if scalar.relative:
        raise CompositionError(
            f"{scalar!r}: expected a number, got a fraction of the admissible interval of data; "
            "compile the model, or give the number, as model.substitute(solution.params)"
        )
    return scalar.value


def declared_value(scalar: Scalar) -> float:
    """Return the declared value of a scalar, which for a relative parameter is its fraction."""
    return scalar.value if isinstance(scalar, Expression) else scalar


def within(name: str, field: str, x: object, interval: str) -> Scalar:
    """Return a scalar whose present value lies in the interval; a relative one is a fraction of another."""
    scalar = x if isinstance(x, Expression) else as_number(x, f"{name}: {field}")
    if not getattr(scalar, "relative", False) and not in_interval(interval)(declared_value(scalar)):
        raise CompositionError(
            f"{name}: {field} must lie in {interval}, got {with_value(scalar)}; choose another value"
        )
    return scalar


def as_factor(c: object) -> Scalar | None:
    """Return a number or an expression as a factor of a node, or None for anything else."""
    match c:
        case np.ndarray(ndim=0):
            return as_factor(c.item())
        case Expression():
            return c
        case bool():
            return None
        case Real():
            return as_number(c, "a factor")
    return None


def is_zero(x: object) -> bool:
    """Return True if x is the number 0, the start value of Python's `sum`."""
    return as_factor(x) == 0.0


def named(scalar: Scalar, noun: str) -> str:
    """Return the words `the cap eta = 0.1` for the noun `cap`, or `the cap 0.1` for a constant."""
    name = getattr(scalar, "name", "")
    return f"the {noun} {name}{' = ' if name else ''}{declared_value(scalar):.6g}"


def subject(scalar: Scalar, noun: str) -> str:
    """Return the subject of an error message: the name of an expression, or `the cap` for a constant."""
    return getattr(scalar, "name", f"the {noun}")


# --- the size of a set -----------------------------------------------------------------------------
@dataclass(frozen=True)
class Size:
    """The scalar that determines how large a domain or a set is, with its map to the bound in the constraint.

    `derived(value)` is the bound in the constraint (a radius, a cap, -log alpha); a larger bound gives a
    larger set, or the same.

    Attributes
    ----------
    declared : the scalar in the declaration
    derived, inverse : the function from its value to the bound, and its inverse; of NumPy functions and
        arithmetic, so that its formula can be written out
    times : the number of occurrences of the scalar in the set: 2 in `Box(-s, s)`
    """

    declared: Scalar
    derived: Callable[[float], float] = float
    inverse: Callable[[float], float] = float
    times: int = 1

    @classmethod
    def of(cls, x: Scalar | Size) -> Size:
        """Return a size unchanged, and the size that a scalar declares."""
        return x if isinstance(x, Size) else cls(x)

    @property
    def number(self) -> float:
        """The bound in the constraint at the present parameter values."""
        return float(self.derived(value(self.declared)))

    @property
    def grows(self) -> bool:
        """True if the bound, and with it the set, grows with the declared scalar."""
        return bool(self.derived(0.75) >= self.derived(0.5))


# --- scalars in a CVXPY problem ----------------------------------------------------------------------
class Scope:
    """A map from scalars of a declaration to constants or parameters of a CVXPY problem.

    This one maps every scalar to its present value, without CVXPY parameters.

    Attributes
    ----------
    scaled : True if variables have units in which their entries are near 1
    """

    scaled: bool = True

    def of(self, x: Scalar | Size, signed: bool = False) -> float | cp.Expression:
        """Return the number or CVXPY expression of a scalar, non-negative unless a `Size` or `signed`."""
        return Size.of(x).number

    def unit(self, scale: float) -> float:
        """Return the unit of feature vectors: `scale`, or 1 if the variables are not scaled."""
        return scale if self.scaled else 1.0


class Parameters(Scope):
    """The scope with a `cvxpy.Parameter` for each `Param` and a `CallbackParam` for each other scalar."""

    def __init__(self, scaled: bool = True) -> None:
        self.scaled = scaled
        self._known: dict[str, cp.Parameter] = {}

    def of(self, x: Scalar | Size, signed: bool = False) -> float | cp.Expression:
        size = Size.of(x)
        scalar, nonneg = size.declared, not (signed or size is x)
        if not isinstance(scalar, Expression):
            return size.number
        for p in scalar._params.values():
            if p.name not in self._known:
                above = nonneg and p is scalar  # a parameter of an expression may be negative
                self._known[p.name] = cp.Parameter(name=p.name, value=p.value, nonneg=above)
        if isinstance(scalar, Param) and size.derived is float:
            parameter = self._known[scalar.name]
            if parameter.is_nonneg() or not nonneg:
                return parameter
        name = scalar.name if size.derived is float else f"f({scalar.name})"
        return cp.CallbackParam(lambda: size.derived(scalar.at(self._now)), nonneg=nonneg, name=name)

    def _now(self, p: Param) -> float:
        return float(self._known[p.name].value)

    def zero(self) -> float | cp.Expression:
        """Return 0 as an expression of every parameter, so that `problem.param_dict` lists all of them."""
        return sum(0.0 * p for p in self._known.values())
