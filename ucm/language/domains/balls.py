"""Norm balls, without the simplex."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ucm import numerics
from ucm.data.linear import Vec
from ucm.language import masses
from ucm.language.contracts import Domain, Jacobian, SemiSmooth, Size
from ucm.language.domains import _common as common
from ucm.language.domains import curved
from ucm.language.domains.power import (
    PowerCurve,
    check_exponent,
    norm,
    norm_constraint,
    norm_formula,
)
from ucm.language.domains.simplex import CappedSimplex
from ucm.language.domains.simplex_ball import SimplexBall
from ucm.language.node import Notation, Scalar, value

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["NormBall"]


class NormBall(SemiSmooth):
    """The ball `{||q||_p <= radius}`.

    Parameters
    ----------
    radius : float or Param
        Non-negative.
    p : float, optional
        1 <= p <= inf.

    Raises
    ------
    CompositionError
        p is no plain number, or below 1.

    Examples
    --------
    >>> import ucm
    >>> ucm.NormBall(1.0).project([3.0, 4.0])
    array([0.6, 0.8])
    >>> ucm.NormBall(1.0, p=1).support([3.0, 4.0])[0]
    4.0
    """

    radius: Scalar
    p: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        common.scalar_field(self, self.radius, "radius")
        check_exponent(self, self.p)

    def _solve(self, v: Vec) -> tuple[Vec, Vec, Vec | None]:
        """The projection; dq/du; and the gradient of the norm where the bound is active."""
        p, radius = self.p, max(value(self.radius), 0.0)
        size = np.abs(v)
        length = norm(v, p)
        if length <= radius:
            return v.copy(), np.ones(v.size), None
        if radius == 0.0:
            return np.zeros(v.size), np.zeros(v.size), None
        if p == math.inf:
            q = np.clip(v, -radius, radius)
            return q, (size < radius).astype(float), None
        if p == 2.0:
            q = (radius / length) * v
            return q, np.full(v.size, radius / length), q
        sign = np.sign(v)
        if p == 1.0:
            ref, shift = numerics.threshold(size, math.inf, radius)
            q = np.maximum((size - ref) - shift, 0.0)
            return sign * q, (q > 0.0).astype(float), sign
        # scaled to the unit ball; h'' and h' are those of the scaled point
        point = curved.solve(PowerCurve(p).prox, PowerCurve(p), size / radius, [], 1.0, 0.0)
        return radius * sign * point.q, point.w, sign * point.normal

    def project(self, v: Vec, out: Vec | None = None, *, classes: Vec | None = None) -> Vec:
        return masses.delivered(self._solve(masses.vector(v))[0], out)

    def jacobian(self, v: Vec, *, classes: Vec | None = None) -> Jacobian:
        _, w, normal = self._solve(masses.vector(v))
        return masses.jacobian(w, [], normal)

    def support(self, g: Vec, *, classes: Vec | None = None) -> tuple[float, Vec]:
        g = masses.vector(g)
        radius = max(value(self.radius), 0.0)
        top = float(np.abs(g).max(initial=0.0))
        if top == 0.0:
            return 0.0, np.zeros(g.size)
        if self.p == 1.0:
            q = np.sign(g) * (np.abs(g) == top)
            q *= radius / np.abs(q).sum()
        elif self.p == math.inf:
            q = radius * np.sign(g)
        else:
            q = np.sign(g) * (np.abs(g) / top) ** (1.0 / (self.p - 1.0))
            q *= radius / norm(q, self.p)
        return float(g @ q), q

    def violation(self, q: Vec, *, classes: Vec | None = None) -> float:
        length, radius = norm(masses.vector(q), self.p), value(self.radius)
        return masses.snap((length - radius) / radius if radius > 0.0 else length)

    def center(self, dim: int, *, classes: Vec | None = None) -> Vec:
        return np.zeros(dim)

    def emptiness(self, dim: int, *, classes: Vec | None = None) -> str | None:
        if 0.0 <= value(self.radius) < 1e150:
            return None
        if value(self.radius) > 0.0:
            return (
                f"{self!r}: unbounded, {common.named(self.radius, 'radius')}; "
                f"{common.subject(self.radius, 'radius')} must be below 1e150"
            )
        return (
            f"{self!r}: empty, {common.named(self.radius, 'radius')} is negative; "
            f"{common.subject(self.radius, 'radius')} must be at least 0"
        )

    def size(self) -> Size:
        return Size(self.radius)

    def constraints(
        self, q: cp.Expression, size: Any, *, classes: Vec | None = None
    ) -> list[cp.Constraint]:
        return [norm_constraint(q, self.p, size)]

    def on_simplex(self) -> Domain | None:
        return (
            CappedSimplex(self.radius) if self.p == math.inf else SimplexBall(self.radius, self.p)
        )

    def formula(self, notation: Notation) -> str:
        return norm_formula(notation, self.p, self.radius)
