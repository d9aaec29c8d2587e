"""Bounds on every entry."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ucm.data.linear import Vec
from ucm.language import cvx as cp
from ucm.language import masses
from ucm.language.contracts import Domain, Jacobian, Polyhedral, Polyhedron, SemiSmooth, Size
from ucm.language.domains.simplex import CappedSimplex
from ucm.language.node import Notation, Scalar, value
from ucm.language.parameter import named, subject

__all__ = ["Box"]


class Box(SemiSmooth, Polyhedral):
    """The box `{lower <= q_i <= upper}`.

    Parameters
    ----------
    lower, upper : float or Param, optional
        Bounds of every entry; infinite ones are allowed.

    Examples
    --------
    >>> import ucm
    >>> ucm.Box(-1.0, 2.0).project([3.0, 0.5, -4.0])
    array([ 2. ,  0.5, -1. ])
    """

    lower: Scalar = 0.0
    upper: Scalar = 1.0

    def _bounds(self) -> tuple[float, float]:
        return value(self.lower), value(self.upper)

    def project(self, v: Vec, out: Vec | None = None, *, classes: Vec | None = None) -> Vec:
        return masses.delivered(np.clip(masses.vector(v), *self._bounds()), out)

    def jacobian(self, v: Vec, *, classes: Vec | None = None) -> Jacobian:
        lower, upper = self._bounds()
        v = masses.vector(v)
        return masses.jacobian(((lower < v) & (v < upper)).astype(float), [])

    def support(self, g: Vec, *, classes: Vec | None = None) -> tuple[float, Vec]:
        g = masses.vector(g)
        q = np.where(g > 0.0, value(self.upper), value(self.lower))
        q = np.where(g == 0.0, self.center(g.size), q)
        active = g != 0.0
        if np.isinf(q[active]).any():
            return np.inf, self.center(g.size)
        return float(g[active] @ q[active]), q

    def violation(self, q: Vec, *, classes: Vec | None = None) -> float:
        lower, upper = self._bounds()
        q = masses.vector(q)
        scale = upper - lower
        if not 0.0 < scale < np.inf:
            scale = max(1.0, *(abs(x) for x in (lower, upper) if np.isfinite(x)), 1.0)
        return masses.snap(float(max((lower - q).max(), (q - upper).max()) / scale))

    def center(self, dim: int, *, classes: Vec | None = None) -> Vec:
        lower, upper = self._bounds()
        if np.isfinite(lower) and np.isfinite(upper):
            return np.full(dim, 0.5 * (lower + upper))
        return np.full(dim, min(max(0.0, lower + 1.0), upper - 1.0))

    def emptiness(self, dim: int, *, classes: Vec | None = None) -> str | None:
        lower, upper = self._bounds()
        if lower <= upper and lower < np.inf and upper > -np.inf:
            return None
        return (
            f"{self!r}: empty, {named(self.upper, 'upper bound')} is below "
            f"{named(self.lower, 'lower bound')}; "
            f"{subject(self.upper, 'upper bound')} must be at least {lower:.6g}"
        )

    def size(self) -> Size:
        return Size(self.upper)

    def constraints(
        self, q: cp.Expression, size: Any, *, classes: Vec | None = None
    ) -> list[cp.Constraint]:
        lower = value(self.lower)
        below = [q >= lower] if np.isfinite(lower) else []
        unbounded = isinstance(size, float) and np.isinf(size)
        return [*below, *([] if unbounded else [q <= size])]

    def on_simplex(self) -> Domain | None:
        return CappedSimplex(self.upper) if value(self.lower) <= 0.0 else None

    def polyhedron(self, dim: int, *, classes: Vec | None = None) -> Polyhedron | None:
        lower, upper = (np.full(dim, value(end)) for end in (self.lower, self.upper))
        return Polyhedron(lower, upper, sparse.csr_array((0, dim)), np.empty(0), np.empty(0))

    def formula(self, notation: Notation) -> str:
        lower, upper = notation.scalar(self.lower), notation.scalar(self.upper)
        return f"{lower}{notation.leq}q{notation.leq}{upper}"
