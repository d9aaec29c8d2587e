"""Minkowski combinations of sets: sums, multiples and linear images."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from numbers import Real
from operator import add
from typing import Any

from ucm.data.bound_data import Data
from ucm.data.linear_map import ComposedMap, Vec
from ucm.errors import CompositionError, brief
from ucm.language import cvx as cp
from ucm.language.contracts import (
    Block,
    LoweredSet,
    Scope,
    Splits,
    UncertaintySet,
    common_dimension,
)
from ucm.language.node import Notation, in_parentheses, signed_sum, source
from ucm.language.parameter import Expression, Scalar, as_declared, value, with_value
from ucm.language.sets.affine_image import reindexed, subpaths


class Combination(UncertaintySet):
    """The base class of Minkowski sums `{sum_k L_k x_k : x_k in U_k}`, the L_k numbers or matrices.

    The terms determine the lowering, the support function `sum_k sigma_k(L_k' d)` and the CVXPY form. A
    subclass of an extension also has the midpoint bias and the normal in the features.
    """

    @abstractmethod
    def terms(self) -> tuple[tuple[UncertaintySet, Any], ...]:
        """Return the terms of the sum as pairs (U_k, L_k), L_k a number, a `Param` or a matrix."""

    def dimension(self, n: int | None) -> int | None:
        return common_dimension(self, [self._rows(U.dimension(n), L) for U, L in self.terms()])

    def _rows(self, inner: int | None, L: Any) -> int | None:
        if is_number(L):
            return inner
        if inner not in (None, L.shape[1]):
            raise CompositionError(
                f"expected a matrix with {inner} columns, the dimension of the set, got one of shape "
                f"{L.shape}, in {brief(self)}; both must be equal"
            )
        return L.shape[0]

    def infeasibility_reason(self, data: Data) -> str | None:
        reasons = (U.infeasibility_reason(data) for U, _ in self.terms())
        return next((reason for reason in reasons if reason), None)

    def lower(self, data: Data) -> LoweredSet:
        centers, blocks, couplings = [], [], []
        for k, (U, L) in enumerate(self.terms()):
            image = U.lower(data)
            centers.append(times(L, image.center))
            couplings += reindexed(image.couplings, str(k), len(blocks))
            blocks += [_moved(L, b) for b in image.blocks]
        return LoweredSet(reduce(add, centers), tuple(blocks), tuple(couplings))

    def evaluate(self, data: Data, q: Iterator[Vec]) -> tuple[Vec, float]:
        parts = [(L, *U.evaluate(data, q)) for U, L in self.terms()]
        x = reduce(add, [times(L, x) for L, x, _ in parts])
        return x, max(outside for *_, outside in parts)

    def cvxpy(self, data: Data, scope: Scope) -> tuple[cp.Expression, list[cp.Constraint]]:
        points, constraints = [], []
        for U, L in self.terms():
            x, inside = U.cvxpy(data, scope)
            if isinstance(L, Expression):
                # a parameter times a variable is DPP; times an expression with another one it is not
                z = scope.unit(data.scale) * cp.Variable(x.shape)
                x, inside = scope.of(L, signed=True) * z, [*inside, z == x]
            else:
                x = times(L, x)
            points.append(x)
            constraints += inside
        return reduce(add, points), constraints

    def support(self, data: Data, d: Vec, splits: Splits) -> tuple[float, Vec | None]:
        height, points = 0.0, []
        for k, (U, L) in enumerate(self.terms()):
            direction = times(L if is_number(L) else L.T, d)
            value, x = U.support(data, direction, subpaths(splits, str(k)))
            height += value
            points.append(x if x is None else times(L, x))
        exact = all(x is not None for x in points)
        return height, reduce(add, points) if exact else None

    def support_value(self, data: Data, d: Vec, splits: Splits) -> float:
        return sum(
            U.support_value(data, times(L if is_number(L) else L.T, d), subpaths(splits, str(k)))
            for k, (U, L) in enumerate(self.terms())
        )


class LinearCombination(Combination):
    """The Minkowski combination `{sum_k L_k x_k : x_k in U_k}`, written with `+`, `-`, `*` and `@`.

    Attributes
    ----------
    parts : the pairs (L_k, U_k), L_k a number, a `Param` or a matrix

    Examples
    --------
    >>> import ucm
    >>> ucm.Hull(ucm.pos) - 2 * ucm.Hull(ucm.neg)
    Hull(pos) - 2 * Hull(neg)
    >>> print([[1.0, 0.0]] @ ucm.Ball([0.0, 0.0], 1))
    [1×2] {(0, 0) + u : ‖u‖₂ ≤ 1}
    """

    parts: tuple[tuple[Scalar | Any, UncertaintySet], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        for L, _ in self.parts:
            if is_number(L) and not math.isfinite(as_declared(L)):
                raise CompositionError(
                    f"{self!r}: the factor must be finite, got {with_value(L)}; write a number below 1e308"
                )

    def terms(self) -> tuple[tuple[UncertaintySet, Any], ...]:
        return tuple((U, L) for L, U in self.parts)

    @property
    def rotation_invariant(self) -> bool:
        return all(is_number(L) for L, _ in self.parts)

    def __repr__(self) -> str:
        words = [(L, in_parentheses(repr(U))) for L, U in self.parts]
        return signed_sum(
            [(L, w) if is_number(L) else (1.0, f"{source(L)} @ {w}") for L, w in words],
            " * ",
            source,
        )

    def formula(self, notation: Notation) -> str:
        words = [(L, in_parentheses(U.formula(notation))) for L, U in self.parts]
        return signed_sum(
            [(L, w) if is_number(L) else (1.0, f"{notation.array(L)} {w}") for L, w in words],
            " ",
            notation.scalar,
            notation.minkowski_sum,  # a difference is written with -, though erosion is another set
        )


def summands(U: UncertaintySet, factor: float = 1.0) -> Iterator[tuple[UncertaintySet, float]]:
    """Yield every Minkowski summand with its numeric factor, nan where a matrix multiplies it."""
    if isinstance(U, Combination):
        for V, L in U.terms():
            yield from summands(V, factor * value(L) if is_number(L) else math.nan)
    else:
        yield U, factor


def is_number(L: Any) -> bool:
    """True if L is a number, a `Param` or an expression of parameters, and not a matrix."""
    return type(L) is float or isinstance(L, Real | Expression)  # nearly always a float


def times(L: Any, x: Any) -> Any:
    """Return the product `L x` for a number, a `Param` or a matrix L."""
    if not is_number(L):
        return L @ x
    c = value(L)
    return x if c == 1.0 else c * x


def _moved(L: Any, b: Block) -> Block:
    """Return the block of the image `L U` that corresponds to a block of U."""
    if not is_number(L):
        return replace(b, map=ComposedMap(b.map, L))
    c = value(L)
    return b if c == 1.0 else replace(b.weighing(c), map=b.map.scaled(c))
