"""Balls of feature space."""

from __future__ import annotations

import functools

from ucm.data.bound import Data
from ucm.data.linear import LinearMap, Vec
from ucm.data.maps import IdentityMap
from ucm.language import cvx as cp
from ucm.language.contracts import Scope, Size
from ucm.language.domains import NormBall
from ucm.language.node import Notation, Scalar, converted
from ucm.language.sets.weights import OfWeights, WeightSpace
from ucm.language.statistics.vectors import VectorNode, as_vector, offset

__all__ = ["Ball"]


class Ball(OfWeights):
    """The ball `{c + u : ||u||_p <= radius}`.

    Parameters
    ----------
    center : statistic, (n,) array, or 0
        The middle of the ball.
    radius : float or Param
        >= 0, in the units of the features.
    p : float in [1, inf]
        The norm.

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
        _ = self._domain  # refuses a wrong p

    @functools.cached_property
    def _domain(self) -> NormBall:
        return NormBall(self.radius, self.p)

    def dimension(self, n: int | None) -> int | None:
        return self.center.dimension(n)

    def space(self, data: Data) -> WeightSpace:
        return WeightSpace(self._domain, self.center.evaluate(data).size)

    def image(self, data: Data) -> tuple[Vec, LinearMap]:
        c = self.center.evaluate(data)
        return c, IdentityMap(c.size)

    def size(self, data: Data) -> Size | None:
        return self._domain.size()

    def cvxpy(self, data: Data, scope: Scope) -> tuple[cp.Expression, list[cp.Constraint]]:
        c = self.center.cvxpy(data, scope)
        radius = scope.of(self._domain.size())
        if not scope.scaled:
            u = cp.Variable(c.size, name="u")
            return c + u, self._domain.constraints(u, radius)
        v = cp.Variable(c.size, name=f"u / {data.scale:.3g}")
        return c + data.scale * v, self._domain.constraints(v, radius / data.scale)

    def formula(self, notation: Notation) -> str:
        norm = notation.norm("u", f"{self.p:g}") + notation.leq + notation.scalar(self.radius)
        return notation.set_of(offset(self.center, "u", notation), norm)
