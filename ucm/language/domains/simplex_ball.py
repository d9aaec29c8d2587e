"""The simplex intersected with a norm ball: an exact domain of its own."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ucm import numerics
from ucm.data.linear import Vec
from ucm.language import masses
from ucm.language.contracts import Capped, Domain, Jacobian, Leveled, SemiSmooth, Size
from ucm.language.domains import _common as common
from ucm.language.domains import curved
from ucm.language.domains.power import (
    PowerCurve,
    check_exponent,
    norm,
    norm_constraint,
    norm_formula,
)
from ucm.language.domains.simplex import CappedSimplex, Simplex
from ucm.language.node import Notation, Scalar, value

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["SimplexBall"]


class SimplexBall(SemiSmooth, Leveled):
    """Simplex and norm ball, `{q >= 0, sum q = 1, ||q||_p <= radius}`; mass 1/2 in each class.

    Parameters
    ----------
    radius : float or Param
        At least `N^(1/p - 1)`; with classes of m and n entries, `(m^(1-p) + n^(1-p))^(1/p) / 2`.
    p : float, optional
        1 <= p <= inf. p = 1 leaves the simplex as it is, p = inf is a cap.

    Raises
    ------
    CompositionError
        p is no plain number, or below 1.

    Notes
    -----
    Ito, Takeda and Toh (2015), section 4.3, where the bracket for the multiplier is replaced by
    `q(t) = P_simplex(t v)` with a closed form for t on each linear piece.

    Examples
    --------
    >>> from ucm.domains import SimplexBall
    >>> SimplexBall(0.8).project([1.0, 0.0]).round(4)
    array([0.7646, 0.2354])
    """

    radius: Scalar
    p: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        common.scalar_field(self, self.radius, "radius")
        check_exponent(self, self.p)

    def flat(self) -> Capped | None:
        """The polyhedral domain that this one is for p = 1 and p = inf."""
        if self.p == 1.0:
            return Simplex()
        return CappedSimplex(self.radius) if self.p == math.inf else None

    def _least(self, dim: int, classes: Vec | None) -> float:
        return norm(masses.uniform(dim, classes), self.p)

    def _curved(
        self, v: Vec, classes: Vec | None, *, prox: bool
    ) -> tuple[Vec, curved.Point | None]:
        """The solution, and its multipliers when the ball is active."""
        p, radius = self.p, value(self.radius)
        curve = PowerCurve(p)
        least = self._least(v.size, classes)
        flat = (
            Simplex().project(v, classes=classes)
            if prox
            else masses.greedy(v, [math.inf] * (1 if classes is None else 2), classes)
        )
        if norm(flat, p) <= radius:
            return flat, None
        parts = masses.groups(v.size, classes)
        if radius <= least:
            q = masses.uniform(v.size, classes)
            return q, curved.single_point(q, len(parts))
        equation = curve.prox if prox else curve.tilt
        point = curved.solve(equation, curve, v, parts, radius**p, least**p)
        return point.q, point

    def project(self, v: Vec, out: Vec | None = None, *, classes: Vec | None = None) -> Vec:
        flat = self.flat()
        if flat is not None:
            return flat.project(v, out, classes=classes)
        v = masses.vector(v)
        if self.p != 2.0:
            return masses.delivered(self._curved(v, classes, prox=True)[0], out)
        return masses.delivered(self._round(v, classes, 1.0)[0], out)

    def _round(
        self, v: Vec, classes: Vec | None, limit: float
    ) -> tuple[Vec, float, tuple[float, float]]:
        q = np.empty_like(v)
        t, pos, neg = numerics.project_ball_simplex(
            v, masses.labels(classes), value(self.radius), limit, q
        )
        return q, t, (pos, neg)

    def jacobian(self, v: Vec, *, classes: Vec | None = None) -> Jacobian:
        flat = self.flat()
        if flat is not None:
            return flat.jacobian(v, classes=classes)
        v = masses.vector(v)
        parts = masses.groups(v.size, classes)
        if self.p == 2.0:
            q, t, _ = self._round(v, classes, 1.0)
            return masses.jacobian(np.where(q > 0.0, t, 0.0), parts, q if t < 1.0 else None)
        q, point = self._curved(v, classes, prox=True)
        if point is None:
            return masses.jacobian((q > 0.0).astype(float), parts)
        return masses.jacobian(point.w, parts, point.normal)

    def support(self, g: Vec, *, classes: Vec | None = None) -> tuple[float, Vec]:
        flat = self.flat()
        if flat is not None:
            return flat.support(g, classes=classes)
        g = masses.vector(g)
        if self.p == 2.0:
            q = self._round(g, classes, math.inf)[0]
            return float(g @ q), q
        q = self._curved(g, classes, prox=False)[0]
        return float(g @ q), q

    def levels(self, g: Vec, *, classes: Vec | None = None) -> list[tuple[float, float]]:
        flat = self.flat()
        if flat is not None:
            return flat.levels(g, classes=classes)
        g = masses.vector(g)
        parts = masses.groups(g.size, classes)
        if self.p == 2.0:
            _, t, both = self._round(g, classes, math.inf)
            theta: tuple[float, ...] | None = both[: len(parts)] if t < math.inf else None
        else:
            point = self._curved(g, classes, prox=False)[1]
            theta = None if point is None else point.theta
        return curved.levels(g, parts, theta)

    def violation(self, q: Vec, *, classes: Vec | None = None) -> float:
        q = masses.vector(q)
        radius = value(self.radius)
        over = (norm(q, self.p) - radius) / max(radius, self._least(q.size, None))
        return masses.snap(max(masses.outside(q, classes), over))

    def center(self, dim: int, *, classes: Vec | None = None) -> Vec:
        return masses.uniform(dim, classes)

    def emptiness(self, dim: int, *, classes: Vec | None = None) -> str | None:
        reason = common.no_entries(self, dim, classes)
        if reason:
            return reason
        least = self._least(dim, classes)
        if value(self.radius) >= least * (1.0 - masses.ROUNDING):
            return None
        return (
            f"{self!r}: empty, {common.named(self.radius, 'radius')} is below the norm of the "
            f"uniform vector; {common.subject(self.radius, 'radius')} must be at least {least:.6g}"
        )

    def size(self) -> Size:
        return Size(self.radius)

    def constraints(
        self, q: cp.Expression, size: Any, *, classes: Vec | None = None
    ) -> list[cp.Constraint]:
        return [*masses.constraints(q, classes), norm_constraint(q, self.p, size)]

    def on_simplex(self) -> Domain | None:
        return self

    def formula(self, notation: Notation) -> str:
        ball = norm_formula(notation, self.p, self.radius)
        return f"{Simplex().formula(notation)}, {ball}"
