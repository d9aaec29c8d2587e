"""Balls of feature space."""

from __future__ import annotations

from collections.abc import Iterator

from ucm.data.bound import Data
from ucm.data.linear import Vec
from ucm.data.maps import IdentityMap
from ucm.language import cvx as cp
from ucm.language.contracts import AffineImage, Block, Scope, Size, Splits, UncertaintySet
from ucm.language.domains import NormBall
from ucm.language.node import Notation, Scalar, converted
from ucm.language.statistics.vectors import VectorNode, as_vector, offset

__all__ = ["Ball"]


class Ball(UncertaintySet):
    """The ball `{c + u : ||u||_p <= radius}`.

    Parameters
    ----------
    center : statistic, (n,) array, or 0
    radius : float or Param, >= 0, in the units of the features
    p : float in [1, inf], the norm

    Examples
    --------
    >>> import ucm
    >>> print(ucm.Ball(ucm.pos.mean, ucm.Param("r", 0.5)))
    {x̄₊ + u : ‖u‖₂ ≤ r},  r = 0.5
    """

    center: VectorNode = converted(converter=as_vector)
    radius: Scalar
    p: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._domain()

    def _domain(self) -> NormBall:
        return NormBall(self.radius, self.p)

    def dimension(self, n: int | None) -> int | None:
        return self.center.dimension(n)

    def _center(self, data: Data) -> Vec:
        return self.center.evaluate(data)

    def emptiness(self, data: Data) -> str | None:
        why = self._domain().emptiness(self._center(data).size)
        return None if why is None else f"{self!r}: {why}"

    def size(self, data: Data) -> Size | None:
        return self._domain().size()

    def lower(self, data: Data) -> AffineImage:
        c = self._center(data)
        return AffineImage(c, (Block(IdentityMap(c.size), self._domain()),))

    def rebuild(self, data: Data, q: Iterator[Vec]) -> tuple[Vec, float]:
        u = next(q)
        return self._center(data) + u, self._domain().violation(u)

    def cvxpy(self, data: Data, scope: Scope) -> tuple[cp.Expression, list[cp.Constraint]]:
        c = self._center(data)
        v = cp.Variable(c.size)  # u in units of the largest entry of X
        radius = scope.scalar(self._domain().size()) / data.scale
        return c + data.scale * v, self._domain().constraints(v, radius)

    def support(self, data: Data, d: Vec, splits: Splits) -> tuple[float, Vec | None]:
        c = self._center(data)
        height, u = self._domain().support(d)
        return float(c @ d) + height, c + u

    def formula(self, notation: Notation) -> str:
        norm = notation.norm("u", f"{self.p:g}") + notation.leq + notation.scalar(self.radius)
        return notation.set_of(offset(self.center, "u", notation), norm)
