"""Minkowski sums and differences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ucm.data.bound import Data
from ucm.data.linear import Vec
from ucm.language.arithmetic import common_dimension, in_parentheses
from ucm.language.contracts import AffineImage, Scope, Size, Splits, UncertaintySet
from ucm.language.node import CoordinateFree, Notation
from ucm.language.sets.intersection import Intersection
from ucm.language.sets.scaled import Scaled
from ucm.language.sets.weights import below, placed

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["Sum"]


class Sum(UncertaintySet, CoordinateFree):
    """The Minkowski sum `A + B = {a + b}`; `A - B = {a - b}` is `A + (-B)`.

    Examples
    --------
    >>> import ucm
    >>> ucm.Hull(ucm.pos) - ucm.Hull(ucm.neg)
    Hull(pos) - Hull(neg)
    """

    left: UncertaintySet
    right: UncertaintySet

    def __post_init__(self) -> None:
        super().__post_init__()
        self.dimension(None)

    def dimension(self, n: int | None) -> int | None:
        return common_dimension(self, [self.left.dimension(n), self.right.dimension(n)])

    def emptiness(self, data: Data) -> str | None:
        return self.left.emptiness(data) or self.right.emptiness(data)

    def size(self, data: Data) -> Size | None:
        return None

    def lower(self, data: Data) -> AffineImage:
        left, right = self.left.lower(data), self.right.lower(data)
        couplings = placed(left.couplings, "left") + placed(
            right.couplings, "right", len(left.blocks)
        )
        return AffineImage(left.center + right.center, left.blocks + right.blocks, couplings)

    def rebuild(self, data: Data, q: Iterator[Vec]) -> tuple[Vec, float]:
        a, outside = self.left.rebuild(data, q)
        b, too = self.right.rebuild(data, q)
        return a + b, max(outside, too)

    def cvxpy(self, data: Data, scope: Scope) -> tuple[cp.Expression, list[cp.Constraint]]:
        a, constraints = self.left.cvxpy(data, scope)
        b, more = self.right.cvxpy(data, scope)
        return a + b, constraints + more

    def support(self, data: Data, d: Vec, splits: Splits) -> tuple[float, Vec | None]:
        height, a = self.left.support(data, d, below(splits, "left"))
        more, b = self.right.support(data, d, below(splits, "right"))
        return height + more, None if a is None or b is None else a + b

    def _subtracted(self) -> UncertaintySet | None:
        """B, where the sum was written A - B."""
        if isinstance(self.right, Scaled) and self.right.factor == -1.0:
            return self.right.operand
        return None

    def _left(self, text: str) -> str:
        """The left operand: `&` binds weaker than `+`."""
        return in_parentheses(text) if isinstance(self.left, Intersection) else text

    def __repr__(self) -> str:
        b = self._subtracted()
        left = self._left(repr(self.left))
        if b is None:
            return f"{left} + {in_parentheses(repr(self.right))}"
        return f"{left} - {in_parentheses(repr(b))}"

    def formula(self, notation: Notation) -> str:
        b = self._subtracted()
        left = self._left(self.left.formula(notation))
        if b is None:
            right = in_parentheses(self.right.formula(notation))
            return f"{left}{notation.minkowski_sum}{right}"
        return f"{left}{notation.minkowski_difference}{in_parentheses(b.formula(notation))}"
