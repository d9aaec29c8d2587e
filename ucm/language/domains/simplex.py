"""The simplex, and the simplex with a cap on every entry."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from ucm.data.linear import Vec
from ucm.errors import CompositionError, brief
from ucm.language import cvx as cp
from ucm.language import masses
from ucm.language.contracts import (
    Capped,
    Domain,
    Jacobian,
    Leveled,
    Polyhedral,
    Polyhedron,
    SemiSmooth,
    Size,
    Weighable,
)
from ucm.language.masses import no_entries
from ucm.language.node import Notation, Scalar, converted, value
from ucm.language.parameter import named, subject

__all__ = ["CappedSimplex", "Simplex", "WeightedSimplex"]


class Simplex(Capped, Weighable):
    """The probability simplex, `{q >= 0, sum q = 1}`; with `classes`, mass 1/2 in each class.

    Examples
    --------
    >>> import ucm
    >>> ucm.Simplex().project([2.0, 1.5, 0.0])
    array([0.75, 0.25, 0.  ])
    >>> ucm.Simplex().project([2.0, 1.5, 0.0], classes=[1, 1, -1])
    array([0.5, 0. , 0.5])
    """

    def caps(self, dim: int, classes: Vec | None) -> list[float]:
        return [math.inf] if classes is None else [math.inf, math.inf]

    def weighed(self, weights: Vec, *, classes: Vec | None = None) -> Simplex:
        return self

    def emptiness(self, dim: int, *, classes: Vec | None = None) -> str | None:
        return no_entries(self, dim, classes)

    def size(self) -> Size | None:
        return None

    def constraints(
        self, q: cp.Expression, size: Any = None, *, classes: Vec | None = None
    ) -> list[cp.Constraint]:
        return masses.constraints(q, classes)

    def formula(self, notation: Notation) -> str:
        q = notation.sub("q", "i")
        return f"0{notation.leq}q, {notation.sum_over('i', q)} = 1"


class CappedSimplex(Capped, Weighable):
    """The simplex with capped entries, `{0 <= q <= cap, sum q = 1}`; with `classes`, mass 1/2 each.

    Parameters
    ----------
    cap : float or Param
        The largest admissible entry; `cap * N >= 1` for N entries.
    class_weight : pair of floats, optional
        Factors of the cap for the classes +1 and -1; without `classes` the first counts.
    relative : bool, optional
        The cap is that of `N q_i`, the density to the uniform distribution: at least 1.

    Raises
    ------
    CompositionError
        `class_weight` is no pair of positive numbers.

    Notes
    -----
    Image of the weights of a reduced convex hull; Ito, Takeda and Toh (2015), example 2 and
    section 4.2. The projection solves `sum clip(v - theta, 0, cap) = mass` by Newton's method.

    Examples
    --------
    >>> import ucm
    >>> ucm.CappedSimplex(0.5).project([2.0, 1.5, 0.0, 0.0])
    array([0.5, 0.5, 0. , 0. ])
    """

    cap: Scalar
    class_weight: tuple[float, float] | None = None
    relative: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        weight = self.class_weight
        if weight is not None and not (
            isinstance(weight, tuple)
            and len(weight) == 2
            and all(isinstance(x, float) and 0.0 < x < math.inf for x in weight)
        ):
            raise CompositionError(
                f"CappedSimplex: class_weight is a pair of positive numbers, got {brief(weight)}; "
                "write (weight of +1, weight of -1)"
            )

    def caps(self, dim: int, classes: Vec | None) -> list[float]:
        weights, unit = self.class_weight or (1.0, 1.0), self._unit(dim)
        return [value(self.cap) * w / unit for w in weights[: 1 if classes is None else 2]]

    def _unit(self, dim: int) -> int:
        """What the cap is divided by."""
        return dim if self.relative else 1

    def weighed(
        self, weights: Vec, *, classes: Vec | None = None
    ) -> CappedSimplex | WeightedSimplex:
        own = self.class_weight or (1.0, 1.0)
        parts = [weights[index] for index, _ in masses.groups(weights.size, classes)]
        if all(float(part.min(initial=np.inf)) == part.max(initial=0.0) for part in parts):
            first, last = float(parts[0][0]), float(parts[-1][0])
            unit = float(weights.mean()) if self.relative else 1.0
            both = own[0] * (first / unit), own[1] * (last / unit)
            return CappedSimplex(self.cap, both, self.relative)
        share = own[0] if classes is None else np.where(np.asarray(classes) > 0, *own)
        cap = self.cap / float(weights.sum()) if self.relative else self.cap
        return WeightedSimplex(cap, weights * share)

    def emptiness(self, dim: int, *, classes: Vec | None = None) -> str | None:
        reason = no_entries(self, dim, classes)
        if reason:
            return reason
        weights = self.class_weight or (1.0, 1.0)
        mass = 1.0 if classes is None else 0.5
        sizes = masses.counts(dim, classes)
        unit = self._unit(dim)
        least = unit * max(mass / (n * w) for n, w in zip(sizes, weights, strict=False))
        if value(self.cap) >= least * (1.0 - masses.ROUNDING):
            return None
        entries, weight = min(zip(sizes, weights, strict=False), key=lambda pair: pair[0] * pair[1])
        weighed = weight != 1.0
        return self.too_small(dim, entries * weight, mass, least, weighed=weighed)

    def too_small(self, dim: int, count: float, mass: float, least: float, *, weighed: bool) -> str:
        """What says that the cap leaves no point, of entries that count so much: without their weights, which
        may be those of samples."""
        share = f" / {dim}" if self.relative else ""
        entries = "entries, by their weights," if weighed else "entries"
        return (
            f"{replace(self, class_weight=None)!r}: empty, {named(self.cap, 'cap')}{share} times {count:.6g} "
            f"{entries} is below {mass:g}; {subject(self.cap, 'cap')} must be at least {least:.6g}"
        )

    def size(self) -> Size:
        return Size(self.cap, key=("relative",) if self.relative else ())

    def constraints(
        self, q: cp.Expression, size: Any, *, classes: Vec | None = None
    ) -> list[cp.Constraint]:
        weights = self.class_weight or (1.0, 1.0)
        weight = np.full(q.size, weights[0])
        if classes is not None:
            weight = np.where(np.asarray(classes) > 0, *weights)
        unit = self._unit(q.size)
        return [*masses.constraints(q, classes), unit * q <= size * weight]

    def formula(self, notation: Notation) -> str:
        q = notation.sub("q", "i")
        cap = notation.scalar(self.cap)
        if self.class_weight is not None:
            cap += notation.times + notation.sub("c", "i")
        entry = "N q" if self.relative else "q"
        return f"0{notation.leq}{entry}{notation.leq}{cap}, {notation.sum_over('i', q)} = 1"


class WeightedSimplex(SemiSmooth, Leveled, Polyhedral, Weighable):
    """The capped simplex of samples that stand for several copies each, `{0 <= q_i <= cap copies_i,
    sum q = 1}`; with `classes`, mass 1/2 each.

    Parameters
    ----------
    cap : float or Param
        Of one copy; `cap * sum(copies) >= 1`.
    copies : (N,) array
        Positive.

    Raises
    ------
    CompositionError
        `copies` is no vector of positive numbers.

    Notes
    -----
    What `CappedSimplex(cap)` is to `sample_weight`. The projection sorts the 2 N kinks of
    `sum clip(v - theta, 0, caps)`.

    Examples
    --------
    >>> from ucm.domains import WeightedSimplex
    >>> WeightedSimplex(0.3, [1.0, 3.0]).project([2.0, 1.0])
    array([0.3, 0.7])
    """

    cap: Scalar
    copies: Any = converted(converter=masses.copies_of)

    def parts(self, classes: Vec | None) -> list[tuple[Any, float, Vec]]:
        """Index, mass and caps of every mass constraint, the caps such that they leave a point."""
        parts = []
        for index, mass in masses.groups(self.copies.size, classes):
            c = self.copies[index]
            cap = min(max(value(self.cap), mass / float(c.sum())), mass / float(c.min()))
            parts.append((index, mass, cap * c))
        return parts

    def project(self, v: Vec, out: Vec | None = None, *, classes: Vec | None = None) -> Vec:
        v = masses.vector(v)
        q = np.empty_like(v)
        for index, mass, caps in self.parts(classes):
            q[index] = masses.clip_to_mass(v[index], np.minimum(caps, mass), mass)
        return masses.delivered(q, out)

    def jacobian(self, v: Vec, *, classes: Vec | None = None) -> Jacobian:
        return self.jacobian_at(self.project(v, classes=classes), classes)

    def jacobian_at(self, q: Vec, classes: Vec | None) -> Jacobian:
        """The Jacobian where the projection is q."""
        free = q > 0.0
        for index, _, caps in self.parts(classes):
            free[index] &= q[index] < caps
        return masses.jacobian(free.astype(float), masses.groups(q.size, classes))

    def support(self, g: Vec, *, classes: Vec | None = None) -> tuple[float, Vec]:
        g = masses.vector(g)
        q = np.empty_like(g)
        for index, mass, caps in self.parts(classes):
            q[index] = masses.fill_to_mass(g[index], caps, mass)[0]
        return float(g @ q), q

    def levels(self, g: Vec, *, classes: Vec | None = None) -> list[tuple[float, float]]:
        g = masses.vector(g)
        return [masses.fill_to_mass(g[i], caps, mass)[1] for i, mass, caps in self.parts(classes)]

    def violation(self, q: Vec, *, classes: Vec | None = None) -> float:
        q = masses.vector(q)
        over = float((q / self.copies).max()) - value(self.cap)
        scale = max(value(self.cap), 1.0 / float(self.copies.sum()))
        return masses.snap(max(masses.outside(q, classes), over / scale))

    def center(self, dim: int, *, classes: Vec | None = None) -> Vec:
        return masses.uniform(dim, classes, self.copies)

    def emptiness(self, dim: int, *, classes: Vec | None = None) -> str | None:
        reason = no_entries(self, dim, classes)
        if reason:
            return reason
        if dim != self.copies.size:
            return masses.other_copies(self, self.copies, dim)
        parts = masses.groups(dim, classes)
        counts = [float(self.copies[index].sum()) for index, _ in parts]
        least = max(mass / count for (_, mass), count in zip(parts, counts, strict=True))
        if value(self.cap) >= least * (1.0 - masses.ROUNDING):
            return None
        bare = CappedSimplex(self.cap)
        return bare.too_small(dim, min(counts), parts[0][1], least, weighed=True)

    def size(self) -> Size:
        return Size(self.cap)

    def constraints(
        self, q: cp.Expression, size: Any, *, classes: Vec | None = None
    ) -> list[cp.Constraint]:
        return [*masses.constraints(q, classes), q <= size * self.copies]

    def on_simplex(self) -> Domain | None:
        return self

    def polyhedron(self, dim: int, *, classes: Vec | None = None) -> Polyhedron | None:
        parts = self.parts(classes)
        upper, ones = np.empty(dim), sparse.lil_array((len(parts), dim))
        for k, (index, mass, caps) in enumerate(parts):
            upper[index] = np.minimum(caps, mass)
            ones[k, index] = 1.0
        sums = np.array([mass for _, mass, _ in parts])
        return Polyhedron(np.zeros(dim), upper, ones.tocsr(), sums, sums)

    def weighed(self, weights: Vec, *, classes: Vec | None = None) -> WeightedSimplex:
        return WeightedSimplex(self.cap, self.copies * weights)

    def formula(self, notation: Notation) -> str:
        q = notation.sub("q", "i")
        cap = notation.scalar(self.cap) + notation.times + notation.sub("c", "i")
        return f"0{notation.leq}{q}{notation.leq}{cap}, {notation.sum_over('i', q)} = 1"
