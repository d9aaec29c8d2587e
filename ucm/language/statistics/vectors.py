"""Vectors of feature space: constants and linear combinations, beside the means of samples."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from numbers import Real
from operator import add
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.bound import Data
from ucm.data.linear import Vec
from ucm.errors import CompositionError, brief
from ucm.language.arithmetic import axes, is_zero
from ucm.language.node import CoordinateFree, Node, Notation, Scalar
from ucm.language.parameter import Scope, as_declared, times_array
from ucm.language.statistics.sums import (
    ConstantStatistic,
    Statistic,
    StatisticSum,
    coefficient,
    gathered,
)

__all__ = ["ConstantVector", "Origin", "VectorNode", "VectorSum", "as_vector", "offset"]


class VectorNode(Statistic):
    """A vector of feature space: a mean, a constant, or a linear combination of these."""

    def cvxpy(self, data: Data, scope: Scope) -> Any:
        """The vector in CVXPY: its parameters are those of the problem."""
        return self.evaluate(data)

    def combine(self, symbol: str, a: Any, b: Any) -> Any:
        if symbol == "+" and (is_zero(a) or is_zero(b)):
            return b if is_zero(a) else a
        if symbol in "+-":
            left, right = _vector_term(a), _vector_term(b)
            if left is None or right is None:
                return NotImplemented
            return _vector_sum((1.0, left), (-1.0 if symbol == "-" else 1.0, right))
        if symbol == "*":
            return _vector_sum((coefficient(a, self), self))
        if symbol == "/":
            divisor = coefficient(b, self)
            if as_declared(divisor) == 0.0:
                raise CompositionError(f"{self!r} / 0: divide by a number other than 0")
            return _vector_sum((1.0 / divisor, self))
        if symbol == "@" and a is self:
            raise CompositionError(
                f"{self!r} @ {b!r}: a vector is no linear map; `@` takes a matrix and a set, "
                f"as in M @ Point({self!r})"
            )
        if symbol == "@":
            raise CompositionError(
                f"@ takes a matrix and a set, got the vector {self!r}; write M @ Point({self!r})"
            )
        other = b if a is self else a
        if isinstance(other, Node) and not isinstance(other, Statistic):
            return NotImplemented  # a set, or samples, which say what is meant
        left, right = (f"Point({x!r})" if x is self else brief(x) for x in (a, b))
        raise CompositionError(
            f"{symbol} takes sets, and vectors beside a set as points, got {brief(a)} and {brief(b)}; "
            f"write {left} {symbol} {right}"
        )


class ConstantVector(ConstantStatistic, VectorNode):
    """A fixed vector of feature space."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.entries, np.ndarray) or self.entries.ndim != 1:
            raise CompositionError(
                f"a vector of feature space has one axis, got {brief(self.entries)}; "
                "write for example [1.0, 2.0]"
            )


class Origin(VectorNode, CoordinateFree):
    """The zero vector, of whatever dimension is wanted."""

    def dimension(self, n: int | None) -> int | None:
        return n

    def evaluate(self, data: Data) -> Vec:
        return np.zeros(data.n)

    def __repr__(self) -> str:
        return "0"

    def formula(self, notation: Notation) -> str:
        return "0"


class VectorSum(StatisticSum, VectorNode, CoordinateFree):
    """A linear combination of vectors."""

    terms: tuple[tuple[Scalar, VectorNode], ...]

    def cvxpy(self, data: Data, scope: Scope) -> Any:
        return reduce(add, [scope.of(c, signed=True) * v.cvxpy(data, scope) for c, v in self.terms])


def _vector_term(x: Any) -> VectorNode | None:
    """x as a vector, or None when another operand has the say (a set)."""
    if isinstance(x, VectorNode):
        return x
    given: Any = x  # `as_vector` says what is wrong with a number or a sparse matrix
    if isinstance(x, np.ndarray | list | tuple | Real) or sparse.issparse(x):
        return as_vector(given, "a statistic")
    return None


def _vector_sum(*terms: tuple[Scalar, VectorNode]) -> VectorNode:
    flat = [(c, v) for c, v in gathered([*terms], ConstantVector) if not isinstance(v, Origin)]
    flat = flat or [(1.0, Origin())]
    return flat[0][1] if len(flat) == 1 and flat[0][0] == 1.0 else VectorSum(tuple(flat))


def offset(center: VectorNode, rest: str, notation: Notation) -> str:
    """`c + rest`, or `rest` alone around the origin."""
    return rest if isinstance(center, Origin) else f"{center.formula(notation)} + {rest}"


def as_vector(
    x: VectorNode | NDArray[Any] | Sequence[float] | Literal[0], where: str = "a vector"
) -> VectorNode:
    """A statistic, an array, or 0 as a vector of feature space."""
    if isinstance(x, VectorNode):
        return x
    if isinstance(x, Node):
        raise CompositionError(
            f"{where}: expected a vector, got {brief(x)}; use for example pos.mean"
        )
    count = axes(x, where)
    if count == 0 and not isinstance(x, str) and x == 0:
        return Origin()
    if count == 0 or np.size(x) == 0:
        raise CompositionError(
            f"{where}: expected a vector, got {brief(x)}; give an array of n numbers, a mean, or 0"
        )
    return ConstantVector(np.asanyarray(x))  # a masked one is refused where it is kept


@times_array(1)
def _scaled_vector(c: Scalar, v: Any) -> VectorNode:
    """`c v` of a scalar with parameters and an array of one axis."""
    return _vector_sum((c, ConstantVector(np.asanyarray(v))))
