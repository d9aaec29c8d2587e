"""Multiples of a set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ucm.data.bound import Data
from ucm.data.linear import Vec
from ucm.data.maps import scaled
from ucm.language.arithmetic import in_parentheses
from ucm.language.contracts import AffineImage, Scope, Size, Splits, UncertaintySet
from ucm.language.node import CoordinateFree, Notation, Param, Scalar, number_source, value
from ucm.language.sets.weights import below, placed

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["Scaled"]


class Scaled(UncertaintySet, CoordinateFree):
    """The multiple `c U = {c x : x in U}`, c of any sign.

    Examples
    --------
    >>> import ucm
    >>> 2 * ucm.Hull(ucm.signed)
    2 * Hull(signed)
    """

    factor: Scalar
    operand: UncertaintySet

    def dimension(self, n: int | None) -> int | None:
        return self.operand.dimension(n)

    def emptiness(self, data: Data) -> str | None:
        return self.operand.emptiness(data)

    def size(self, data: Data) -> Size | None:
        return None

    def lower(self, data: Data) -> AffineImage:
        c = value(self.factor)
        inner = self.operand.lower(data)
        blocks = tuple(replace(b, map=scaled(b.map, c), weight=c * b.weight) for b in inner.blocks)
        return AffineImage(c * inner.center, blocks, placed(inner.couplings, "operand"))

    def rebuild(self, data: Data, q: Iterator[Vec]) -> tuple[Vec, float]:
        x, outside = self.operand.rebuild(data, q)
        return value(self.factor) * x, outside

    def cvxpy(self, data: Data, scope: Scope) -> tuple[cp.Expression, list[cp.Constraint]]:
        import cvxpy as cp

        x, constraints = self.operand.cvxpy(data, scope)
        if not isinstance(self.factor, Param):
            return self.factor * x, constraints
        # a parameter times a variable is DPP; times an expression with another parameter it is not
        z = data.scale * cp.Variable(x.shape)
        return scope.factor(self.factor) * z, [*constraints, z == x]

    def support(self, data: Data, d: Vec, splits: Splits) -> tuple[float, Vec | None]:
        c = value(self.factor)
        height, x = self.operand.support(data, c * d, below(splits, "operand"))
        return height, None if x is None else c * x

    def __repr__(self) -> str:
        inner = in_parentheses(repr(self.operand))
        if isinstance(self.factor, Param):
            return f"{self.factor!r} * {inner}"
        return f"-{inner}" if self.factor == -1.0 else f"{number_source(self.factor)} * {inner}"

    def formula(self, notation: Notation) -> str:
        inner = in_parentheses(self.operand.formula(notation))
        return f"-{inner}" if self.factor == -1.0 else f"{notation.scalar(self.factor)} {inner}"
