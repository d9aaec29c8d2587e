"""Bounds on every entry."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ucm.data.linear import Vec
from ucm.errors import CompositionError, brief
from ucm.language import cvx as cp
from ucm.language import masses
from ucm.language.contracts import Domain, Jacobian, Polyhedral, Polyhedron, SemiSmooth, Size
from ucm.language.domains.copied import Copied
from ucm.language.domains.simplex import CappedSimplex, WeightedSimplex
from ucm.language.node import Notation, Scalar, Tunable, converted, value
from ucm.language.parameter import as_number, named, subject

__all__ = ["Box"]


def _as_bound(x: Any, where: str = "") -> Any:
    """One bound, or a vector of them; infinite entries are allowed."""
    if not isinstance(x, list | tuple | np.ndarray) or np.ndim(x) == 0:
        return x if isinstance(x, Tunable) else as_number(x, where)
    try:
        bounds = np.array(x, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise CompositionError(
            f"{where}: expected a number, a Param, or one number for each coordinate, got {brief(x)}; "
            "write Box(0.0, 1.0)"
        ) from error
    if bounds.ndim != 1 or bounds.size == 0 or np.isnan(bounds).any():
        raise CompositionError(
            f"{where}: expected one number for each coordinate, got {brief(x)}; give a vector without NaN"
        )
    return tuple(bounds.tolist())


class Box(Copied, SemiSmooth, Polyhedral):
    """The box `{lower_i <= q_i <= upper_i}`; with copies c of the entries, of every `q_i / c_i`.

    Parameters
    ----------
    lower, upper : float, Param or (d,) array, optional
        Bounds of every entry, or one for each; infinite ones are allowed. Arrays are for coordinates of
        features, as in `Image(A, Box(lower, upper))`: bounds for each sample could not pass to other
        samples.
    copies : (N,) array, optional
        How often each entry counts; None for once.

    Raises
    ------
    CompositionError
        Arrays of two lengths, or with NaN.

    Examples
    --------
    >>> import ucm
    >>> ucm.Box(-1.0, 2.0).project([3.0, 0.5, -4.0])
    array([ 2. ,  0.5, -1. ])
    >>> ucm.Box(0.0, [1.0, 2.0]).project([3.0, 3.0])
    array([1., 2.])
    """

    lower: Scalar | tuple[float, ...] = converted(converter=_as_bound, default=0.0)
    upper: Scalar | tuple[float, ...] = converted(converter=_as_bound, default=1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self._lengths()) > 1:
            raise CompositionError(
                f"Box: expected as many lower bounds as upper ones, got {sorted(self._lengths())}; "
                "give one of each for every coordinate"
            )

    def _lengths(self) -> set[int]:
        return {len(x) for x in (self.lower, self.upper) if isinstance(x, tuple)}

    @property
    def dimension(self) -> int | None:
        """The number of coordinates that the bounds are written for; None: any."""
        return next(iter(self._lengths()), None)

    def _bounds(self) -> tuple[Any, Any]:
        lower, upper = (
            np.array(x) if isinstance(x, tuple) else value(x) for x in (self.lower, self.upper)
        )
        return lower * self.c, upper * self.c

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
        lower, upper = self._bounds()
        q = masses.vector(q)
        scale = np.asarray(upper - lower)
        ends = [np.where(np.isfinite(x), np.abs(x), 0.0) for x in (lower, upper)]
        scale = np.where(
            (scale > 0.0) & (scale < np.inf), scale, np.maximum(1.0, np.maximum(*ends))
        )
        return masses.snap(float((np.maximum(lower - q, q - upper) / scale).max()))

    def center(self, dim: int, *, classes: Vec | None = None) -> Vec:
        lower, upper = (np.broadcast_to(x, dim) for x in self._bounds())
        with np.errstate(invalid="ignore"):
            middle = 0.5 * (lower + upper)
        near = np.minimum(np.maximum(0.0, lower + 1.0), upper - 1.0)
        return np.where(np.isfinite(lower) & np.isfinite(upper), middle, near)

    def emptiness(self, dim: int, *, classes: Vec | None = None) -> str | None:
        if self.dimension not in (None, dim):
            return (
                f"{self!r}: bounds for {self.dimension} coordinates, got {dim}; "
                "give one bound, or one for each"
            )
        why = self.miscounted(dim)
        if why is not None:
            return why
        lower, upper = self._bounds()
        crossed = np.flatnonzero(
            np.less(upper, lower) | np.equal(lower, np.inf) | np.equal(upper, -np.inf)
        )
        if crossed.size == 0:
            return None
        if isinstance(self.lower, tuple) or isinstance(self.upper, tuple):
            k = int(crossed[0])
            low, high = (float(np.broadcast_to(x, dim)[k]) for x in (lower, upper))
            return (
                f"{self!r}: empty, the upper bound {high:.6g} of coordinate {k} is below the lower bound "
                f"{low:.6g}; it must be at least that"
            )
        return (
            f"{self.bare!r}: empty, {named(self.upper, 'upper bound')} is below "
            f"{named(self.lower, 'lower bound')}; "
            f"{subject(self.upper, 'upper bound')} must be at least {value(self.lower):.6g}"
        )

    def size(self) -> Size | None:
        return None if isinstance(self.upper, tuple) else Size(self.upper)

    def constraints(
        self, q: cp.Expression, size: Any, *, classes: Vec | None = None
    ) -> list[cp.Constraint]:
        lower, upper = (np.broadcast_to(x, q.size) for x in self._bounds())
        floor, roof = np.flatnonzero(np.isfinite(lower)), np.flatnonzero(np.isfinite(upper))
        below = [q[floor] >= lower[floor]] if floor.size else []
        if isinstance(self.upper, tuple):
            return [*below, q[roof] <= upper[roof]] if roof.size else below
        unbounded = isinstance(size, float) and np.isinf(size)
        return [*below, *([] if unbounded else [q <= size * self.c])]

    def on_simplex(self) -> Domain | None:
        if isinstance(self.lower, tuple) or isinstance(self.upper, tuple):
            return None
        if value(self.lower) > 0.0:
            return None
        plain = self.copies is None
        return CappedSimplex(self.upper) if plain else WeightedSimplex(self.upper, self.copies)

    def polyhedron(self, dim: int, *, classes: Vec | None = None) -> Polyhedron | None:
        lower, upper = (np.array(np.broadcast_to(x, dim)) for x in self._bounds())
        return Polyhedron(lower, upper, sparse.csr_array((0, dim)), np.empty(0), np.empty(0))

    def formula(self, notation: Notation) -> str:
        lower, upper = (
            notation.array(np.array(x)) if isinstance(x, tuple) else notation.scalar(x)
            for x in (self.lower, self.upper)
        )
        q = "q"
        if self.copies is not None:
            q = f"{notation.sub('q', 'i')}/{notation.sub('c', 'i')}"
        return f"{lower}{notation.leq}{q}{notation.leq}{upper}"
