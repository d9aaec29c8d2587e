"""A single point."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ucm.data.bound import Data
from ucm.data.linear import Vec
from ucm.language import cvx as cp
from ucm.language.contracts import LoweredSet, Scope, Splits, UncertaintySet
from ucm.language.node import CoordinateFree, Notation, converted
from ucm.language.statistics.vectors import VectorNode, as_vector

__all__ = ["Point"]


class Point(UncertaintySet, CoordinateFree):
    """The set `{v}` of one vector.

    Parameters
    ----------
    vector : statistic or (n,) array
        The one point.

    Examples
    --------
    >>> import ucm
    >>> print(ucm.Point(ucm.pos.mean - ucm.neg.mean))
    {x̄₊ - x̄₋}
    """

    vector: VectorNode = converted(converter=as_vector)

    def dimension(self, n: int | None) -> int | None:
        return self.vector.dimension(n)

    def lower(self, data: Data) -> LoweredSet:
        return LoweredSet(self.vector.evaluate(data))

    def rebuild(self, data: Data, q: Iterator[Vec]) -> tuple[Vec, float]:
        return self.vector.evaluate(data), 0.0

    def cvxpy(self, data: Data, scope: Scope) -> tuple[cp.Expression, list[cp.Constraint]]:
        v = self.vector.cvxpy(data, scope)
        return cp.Constant(v) if isinstance(v, np.ndarray) else v, []

    def support(self, data: Data, d: Vec, splits: Splits) -> tuple[float, Vec | None]:
        v = self.vector.evaluate(data)
        return float(v @ d), v

    def formula(self, notation: Notation) -> str:
        left, right = notation.braces
        return f"{left}{self.vector.formula(notation)}{right}"
