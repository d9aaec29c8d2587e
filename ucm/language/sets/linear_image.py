"""The image of a set under a matrix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ucm.data.bound import Data
from ucm.data.linear import Vec
from ucm.data.maps import ComposedMap
from ucm.errors import CompositionError
from ucm.language.arithmetic import in_parentheses
from ucm.language.contracts import AffineImage, Scope, Size, Splits, UncertaintySet
from ucm.language.node import Notation, source
from ucm.language.sets.image import as_linear_map
from ucm.language.sets.weights import below, placed

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["LinearImage"]


class LinearImage(UncertaintySet):
    """The linear image `M @ U = {M x : x in U}`; it lives in the space of the rows of M.

    Examples
    --------
    >>> import ucm
    >>> print([[1.0, 0.0]] @ ucm.Ball([0.0, 0.0], 1))
    [1×2] {(0, 0) + u : ‖u‖₂ ≤ 1}
    """

    matrix: Any
    operand: UncertaintySet

    def __post_init__(self) -> None:
        object.__setattr__(self, "matrix", as_linear_map(self.matrix, "M @ U"))
        super().__post_init__()
        self.dimension(None)

    def dimension(self, n: int | None) -> int | None:
        inner = self.operand.dimension(n)
        if inner not in (None, self.matrix.shape[1]):
            raise CompositionError(
                f"{self!r}: the matrix has {self.matrix.shape[1]} columns and the set lives in "
                f"dimension {inner}; both must be equal"
            )
        return self.matrix.shape[0]

    def emptiness(self, data: Data) -> str | None:
        return self.operand.emptiness(data)

    def size(self, data: Data) -> Size | None:
        return None

    def lower(self, data: Data) -> AffineImage:
        inner = self.operand.lower(data)
        blocks = tuple(replace(b, map=ComposedMap(b.map, self.matrix)) for b in inner.blocks)
        return AffineImage(self.matrix @ inner.center, blocks, placed(inner.couplings, "operand"))

    def rebuild(self, data: Data, q: Iterator[Vec]) -> tuple[Vec, float]:
        x, outside = self.operand.rebuild(data, q)
        return self.matrix @ x, outside

    def cvxpy(self, data: Data, scope: Scope) -> tuple[cp.Expression, list[cp.Constraint]]:
        x, constraints = self.operand.cvxpy(data, scope)
        return self.matrix @ x, constraints

    def support(self, data: Data, d: Vec, splits: Splits) -> tuple[float, Vec | None]:
        height, x = self.operand.support(data, self.matrix.T @ d, below(splits, "operand"))
        return height, None if x is None else self.matrix @ x

    def __repr__(self) -> str:
        return f"{source(self.matrix)} @ {in_parentheses(repr(self.operand))}"

    def formula(self, notation: Notation) -> str:
        inner = in_parentheses(self.operand.formula(notation))
        return f"{notation.array(self.matrix)} {inner}"
