"""The box domain: lower and upper bounds on every entry."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ucm.data.linear_map import Vec
from ucm.errors import CompositionError, brief
from ucm.language import cvx as cp
from ucm.language.contracts import (
    BoundDomain,
    Domain,
    Jacobian,
    Polyhedron,
    SampleWeights,
    SemiSmooth,
    Size,
    jacobian,
    vector,
)
from ucm.language.domains.simplex import Capped, CappedSimplex
from ucm.language.node import Notation, as_number, converted
from ucm.language.parameter import Expression, Param, Scalar, named, subject, value
from ucm.language.statistics.affine import ConstantVector, VectorNode, VectorSum

Bound = Scalar | tuple[float, ...] | VectorNode


def _as_bound(x: object, where: str = "") -> Bound:
    """Return a bound as a scalar, a tuple of numbers or a vector node; refuse NaN and other shapes."""
    if isinstance(x, VectorNode) and all(
        isinstance(v, ConstantVector | VectorSum) for v in x.nodes_of_type(VectorNode)
    ):
        return x
    if not isinstance(x, list | tuple | np.ndarray) or getattr(x, "ndim", 1) == 0:
        return x if isinstance(x, Expression) else as_number(x, where)
    try:
        bounds = np.array(x, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        bounds = np.empty(0)
    if bounds.ndim != 1 or bounds.size == 0 or np.isnan(bounds).any():
        raise CompositionError(
            f"{where}: expected a number, a Param, or one number for each coordinate, got {brief(x)}; "
            "write Box(0.0, 1.0), or give a vector without NaN"
        )
    return tuple(bounds.tolist())


def _by_entry(x: Bound) -> bool:
    """True if the bound is a vector, with one number for each coordinate."""
    return isinstance(x, tuple | VectorNode)


def _number(x: Bound) -> float | Vec:
    """Return the number or array of a bound at the present values of its parameters."""
    match x:
        case VectorSum():
            return sum(value(c) * _number(v) for c, v in x.terms)
        case ConstantVector():
            return x.entries
        case tuple():
            return np.array(x)
    return value(x)  # type: ignore[arg-type]


def _written(x: Bound, notation: Notation) -> str:
    match x:
        case VectorNode():
            return x.formula(notation)
        case tuple():
            return notation.array(np.array(x))
    return notation.scalar(x)


class Box(Domain, SemiSmooth):
    """The box `{lower_i <= q_i <= upper_i}`.

    Weights of samples multiply both bounds.

    Parameters
    ----------
    lower, upper : float, Param or (d,) array, optional
        Bounds of every entry, or one for each, as `s * r` of a Param and an array; infinite ones are allowed.
        Arrays are for coordinates of
        features, as in `AffineImage(A, Box(lower, upper))`: bounds for each sample could not pass to other
        samples.

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

    lower: Any = converted(converter=_as_bound, default=0.0)  # a `Bound`
    upper: Any = converted(converter=_as_bound, default=1.0)

    def _check(self) -> None:
        if len(self._lengths()) > 1:
            raise CompositionError(
                f"Box: expected as many lower bounds as upper ones, got {sorted(self._lengths())}; "
                "give one of each for every coordinate"
            )

    def _lengths(self) -> set[int]:
        return {np.size(_number(x)) for x in (self.lower, self.upper) if _by_entry(x)}

    @property
    def dimension(self) -> int | None:
        """The length of the bounds given as vectors; None if both bounds are scalars."""
        return next(iter(self._lengths()), None)

    def bounds(self) -> tuple[float | Vec, float | Vec]:
        return _number(self.lower), _number(self.upper)

    def bind(self, samples: SampleWeights) -> BoundDomain:
        if self.dimension is not None:
            return super().bind(samples)
        if value(self.lower) <= 0.0:
            return CappedSimplex(self.upper).bind(samples)
        return Capped(self, samples, value(self.upper), value(self.lower))

    def inside(self, q: cp.Expression, size: cp.Expression, samples: SampleWeights) -> list[cp.Constraint]:
        c = samples.weights
        return self.cvxpy(q if c is None else cp.multiply(1.0 / c, q), size)

    def too_small(self, samples: SampleWeights, least: float) -> str:
        """Return the error message for a box that does not intersect the simplex."""
        bound, word, must = self.upper, "upper bound", f"at least {least:.6g}"
        if value(bound) >= least:
            most = samples.groups[0][1] / max(samples.totals)
            bound, word, must = self.lower, "lower bound", f"at most {most:.6g}"
        return self.infeasibility_reason(samples.dim) or (
            f"{self!r}: empty on the simplex, {named(bound, word)} leaves no point; "
            f"{subject(bound, word)} must be {must}"
        )

    def project(self, v: Vec) -> Vec:
        return np.clip(vector(v), *self.bounds())

    def jacobian(self, v: Vec) -> Jacobian:
        lower, upper = self.bounds()
        v = vector(v)
        return jacobian(((lower < v) & (v < upper)).astype(float), [])

    def support(self, g: Vec) -> tuple[float, Vec]:
        g = vector(g)
        lower, upper = self.bounds()
        q = np.where(g > 0.0, upper, lower)
        q = np.where(g == 0.0, self.center(g.size), q)
        active = g != 0.0
        if np.isinf(q[active]).any():
            return np.inf, self.center(g.size)
        return float(g[active] @ q[active]), q

    def center(self, dim: int) -> Vec:
        lower, upper = (np.broadcast_to(x, dim) for x in self.bounds())
        with np.errstate(invalid="ignore"):
            middle = 0.5 * (lower + upper)
        finite = np.minimum(np.maximum(0.0, lower + 1.0), upper - 1.0)
        return np.where(np.isfinite(lower) & np.isfinite(upper), middle, finite)

    def polyhedron(self, dim: int) -> Polyhedron:
        lower, upper = (np.array(np.broadcast_to(x, dim)) for x in self.bounds())
        return Polyhedron(lower, upper, sparse.csr_array((0, dim)), np.empty(0), np.empty(0))

    def infeasibility_reason(self, dim: int) -> str | None:
        if self.dimension not in (None, dim):
            return (
                f"{self!r}: bounds for {self.dimension} coordinates, got {dim}; "
                "give one bound, or one for each"
            )
        lower, upper = self.bounds()
        crossed = np.flatnonzero(np.less(upper, lower) | np.equal(lower, np.inf) | np.equal(upper, -np.inf))
        if crossed.size == 0:
            return None
        k = int(crossed[0])
        low, high = (float(np.broadcast_to(x, dim)[k]) for x in (lower, upper))
        return (
            f"{self!r}: empty, the upper bound {high:.6g} of coordinate {k} is below the lower bound "
            f"{low:.6g}; {subject(self.upper, 'upper bound')} must be at least {low:.6g}"
        )

    @property
    def _mirrored(self) -> bool:
        """True if the box has parameters and, at random values of them, `lower = -upper`."""
        names, rng = self.params(), np.random.default_rng(0)
        for _ in range(2):
            other = self.substitute({p: rng.uniform(0.5, 1.5) for p in sorted(names)})
            lower, upper = other.bounds()
            if not np.allclose(lower, -upper, 1e-12, 0.0):
                return False
        return bool(names)

    def size(self) -> Size | None:
        upper, times = self.upper, 2 if self._mirrored else 1
        names = [p.name for p in self.nodes_of_type(Param)]
        if len(names) > times * len(set(names)):  # one parameter moves the bounds in two ways
            return None
        if isinstance(upper, VectorSum):  # s r with a size s
            (c, r), *more = upper.terms
            return None if more or np.any(_number(r) < 0.0) else Size(c, times=times)
        return None if _by_entry(upper) else Size(upper, times=times)

    def cvxpy(self, q: cp.Expression, size: cp.Expression) -> list[cp.Constraint]:
        lower, upper = (np.broadcast_to(x, q.size) for x in self.bounds())
        unbounded = isinstance(size, float) and np.isinf(size)
        if size is not None and not unbounded and (self._mirrored or _by_entry(self.upper)):
            r = _number(self.upper.terms[0][1]) if isinstance(self.upper, VectorSum) else 1.0
            return [q >= (-size * r if self._mirrored else lower), q <= size * r]
        floor, roof = np.flatnonzero(np.isfinite(lower)), np.flatnonzero(np.isfinite(upper))
        below = [q[floor] >= lower[floor]] if floor.size else []
        if _by_entry(self.upper):
            return [*below, q[roof] <= upper[roof]] if roof.size else below
        return [*below, *([] if unbounded else [q <= size])]

    def formula(self, notation: Notation) -> str:
        lower, upper = (_written(x, notation) for x in (self.lower, self.upper))
        return f"{lower}{notation.leq}q{notation.leq}{upper}"


def refuse_bounds(weights: Domain | None, where: str) -> None:
    """Raise a `CompositionError` if a domain of weights of samples has bounds for each of them."""
    for D in () if weights is None else weights.nodes_of_type(Box):
        if D.dimension is not None:
            raise CompositionError(
                f"{where}: bounds for each sample cannot pass to other samples, got {brief(D)}; give one "
                "bound for all, or class_weight and sample_weight"
            )
