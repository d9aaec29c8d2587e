"""Bounds on every entry."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ucm.data.linear import Vec
from ucm.language import cvx as cp
from ucm.language import masses
from ucm.language.contracts import Domain, Jacobian, Polyhedral, Polyhedron, SemiSmooth, Size
from ucm.language.domains.copied import Copied
from ucm.language.domains.simplex import CappedSimplex, WeightedSimplex
from ucm.language.node import Notation, Scalar, value
from ucm.language.parameter import named, subject

__all__ = ["Box"]


class Box(Copied, SemiSmooth, Polyhedral):
    """The box `{lower <= q_i <= upper}`; with copies c of the entries, of every `q_i / c_i`.

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

    def _bounds(self) -> tuple[Any, Any]:
        return value(self.lower) * self.c, value(self.upper) * self.c

    def project(self, v: Vec, out: Vec | None = None, *, classes: Vec | None = None) -> Vec:
        return masses.delivered(np.clip(masses.vector(v), *self._bounds()), out)

    def jacobian(self, v: Vec, *, classes: Vec | None = None) -> Jacobian:
        lower, upper = self._bounds()
        v = masses.vector(v)
        return masses.jacobian(((lower < v) & (v < upper)).astype(float), [])

    def support(self, g: Vec, *, classes: Vec | None = None) -> tuple[float, Vec]:
        g = masses.vector(g)
        lower, upper = self._bounds()
        q = np.where(g > 0.0, upper, lower)
        q = np.where(g == 0.0, self.center(g.size), q)
        active = g != 0.0
        if np.isinf(q[active]).any():
            return np.inf, self.center(g.size)
        return float(g[active] @ q[active]), q

    def violation(self, q: Vec, *, classes: Vec | None = None) -> float:
        lower, upper = value(self.lower), value(self.upper)
        q = masses.vector(q) / self.c
        scale = upper - lower
        if not 0.0 < scale < np.inf:
            scale = max(1.0, *(abs(x) for x in (lower, upper) if np.isfinite(x)), 1.0)
        return masses.snap(float(max((lower - q).max(), (q - upper).max()) / scale))

    def center(self, dim: int, *, classes: Vec | None = None) -> Vec:
        lower, upper = value(self.lower), value(self.upper)
        if np.isfinite(lower) and np.isfinite(upper):
            return np.full(dim, 0.5 * (lower + upper)) * self.c
        return np.full(dim, min(max(0.0, lower + 1.0), upper - 1.0)) * self.c

    def emptiness(self, dim: int, *, classes: Vec | None = None) -> str | None:
        lower, upper = value(self.lower), value(self.upper)
        if lower <= upper and lower < np.inf and upper > -np.inf:
            return None
        return (
            f"{self.bare!r}: empty, {named(self.upper, 'upper bound')} is below "
            f"{named(self.lower, 'lower bound')}; "
            f"{subject(self.upper, 'upper bound')} must be at least {lower:.6g}"
        )

    def size(self) -> Size:
        return Size(self.upper)

    def constraints(
        self, q: cp.Expression, size: Any, *, classes: Vec | None = None
    ) -> list[cp.Constraint]:
        lower = value(self.lower)
        below = [q >= lower * self.c] if np.isfinite(lower) else []
        unbounded = isinstance(size, float) and np.isinf(size)
        return [*below, *([] if unbounded else [q <= size * self.c])]

    def on_simplex(self) -> Domain | None:
        if value(self.lower) > 0.0:
            return None
        plain = self.copies is None
        return CappedSimplex(self.upper) if plain else WeightedSimplex(self.upper, self.copies)

    def polyhedron(self, dim: int, *, classes: Vec | None = None) -> Polyhedron | None:
        lower, upper = (np.ones(dim) * end for end in self._bounds())
        return Polyhedron(lower, upper, sparse.csr_array((0, dim)), np.empty(0), np.empty(0))

    def formula(self, notation: Notation) -> str:
        lower, upper = notation.scalar(self.lower), notation.scalar(self.upper)
        q = "q"
        if self.copies is not None:
            q = f"{notation.sub('q', 'i')}/{notation.sub('c', 'i')}"
        return f"{lower}{notation.leq}{q}{notation.leq}{upper}"
