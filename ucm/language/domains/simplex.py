"""The simplex, and the simplex with a cap on every entry."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ucm import numerics
from ucm.data.linear import Vec
from ucm.errors import CompositionError, brief
from ucm.language.contracts import Capped, Domain, Jacobian, Leveled, SemiSmooth, Size
from ucm.language.domains import _common as common
from ucm.language.node import Notation, Scalar, value

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["CappedSimplex", "Simplex"]


class Simplex(SemiSmooth, Leveled, Capped):
    """The probability simplex, `{q >= 0, sum q = 1}`; with `classes`, mass 1/2 in each class.

    Examples
    --------
    >>> import ucm
    >>> ucm.Simplex().project([2.0, 1.5, 0.0])
    array([0.75, 0.25, 0.  ])
    >>> ucm.Simplex().project([2.0, 1.5, 0.0], classes=[1, 1, -1])
    array([0.5, 0. , 0.5])
    """

    def project(self, v: Vec, out: Vec | None = None, *, classes: Vec | None = None) -> Vec:
        return project_capped(v, out, classes, [math.inf])

    def jacobian(self, v: Vec, *, classes: Vec | None = None) -> Jacobian:
        q = self.project(v, classes=classes)
        return common.jacobian((q > 0.0).astype(float), common.groups(q.size, classes))

    def caps(self, dim: int, classes: Vec | None) -> list[float]:
        return common.masses(classes)

    def support(self, g: Vec, *, classes: Vec | None = None) -> tuple[float, Vec]:
        g = common.vector(g)
        q = common.greedy(g, _both(math.inf, classes), classes)
        return common.product(g, q), q

    def levels(self, g: Vec, *, classes: Vec | None = None) -> list[tuple[float, float]]:
        g = common.vector(g)
        tops = [float(g[index].max()) for index, _ in common.groups(g.size, classes)]
        return [(top, top) for top in tops]

    def violation(self, q: Vec, *, classes: Vec | None = None) -> float:
        return common.snap(common.mass_violation(common.vector(q), classes))

    def center(self, dim: int, *, classes: Vec | None = None) -> Vec:
        return common.uniform(dim, classes)

    def emptiness(self, dim: int, *, classes: Vec | None = None) -> str | None:
        reason = common.no_entries(dim, classes)
        return reason and f"{self!r}: {reason}"

    def size(self) -> Size | None:
        return None

    def constraints(
        self, q: cp.Expression, size: Any = None, *, classes: Vec | None = None
    ) -> list[cp.Constraint]:
        return common.simplex_constraints(q, classes)

    def on_simplex(self) -> Domain | None:
        return self

    def formula(self, notation: Notation) -> str:
        q = notation.sub("q", "i")
        return f"0{notation.leq}q, {notation.sum_over('i', q)} = 1"


class CappedSimplex(SemiSmooth, Leveled, Capped):
    """The simplex with capped entries, `{0 <= q <= cap, sum q = 1}`; with `classes`, mass 1/2 each.

    Parameters
    ----------
    cap : float or Param
        The largest admissible entry; `cap * N >= 1` for N entries.
    class_weight : pair of floats, optional
        Factors of the cap for the classes +1 and -1; without `classes` the first counts.

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

    def __post_init__(self) -> None:
        super().__post_init__()
        common.scalar_field(self, self.cap, "cap")
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

    def _declared_caps(self, classes: Vec | None) -> list[float]:
        caps = _both(value(self.cap), classes)
        weights = self.class_weight or (1.0, 1.0)
        return [cap * w for cap, w in zip(caps, weights, strict=False)]

    def caps(self, dim: int, classes: Vec | None) -> list[float]:
        """The caps, not below the smallest ones that leave a point."""
        masses = common.masses(classes)
        sizes = common.counts(dim, classes)
        declared = self._declared_caps(classes)
        return [max(c, s / n) for c, s, n in zip(declared, masses, sizes, strict=True)]

    def project(self, v: Vec, out: Vec | None = None, *, classes: Vec | None = None) -> Vec:
        return project_capped(v, out, classes, self.caps(np.size(v), classes))

    def jacobian(self, v: Vec, *, classes: Vec | None = None) -> Jacobian:
        q = self.project(v, classes=classes)
        free = (q > 0.0) & (q < _spread(self.caps(q.size, classes), q.size, classes))
        return common.jacobian(free.astype(float), common.groups(q.size, classes))

    def support(self, g: Vec, *, classes: Vec | None = None) -> tuple[float, Vec]:
        g = common.vector(g)
        q = common.greedy(g, self.caps(g.size, classes), classes)
        return common.product(g, q), q

    def levels(self, g: Vec, *, classes: Vec | None = None) -> list[tuple[float, float]]:
        g = common.vector(g)
        caps = self.caps(g.size, classes)
        return [
            common.order_interval(g[index], mass, cap)
            for (index, mass), cap in zip(common.groups(g.size, classes), caps, strict=True)
        ]

    def violation(self, q: Vec, *, classes: Vec | None = None) -> float:
        q = common.vector(q)
        over = max(
            float(q[index].max() - cap) / max(cap, 1.0 / q.size)
            for (index, _), cap in zip(
                common.groups(q.size, classes), self._declared_caps(classes), strict=True
            )
        )
        return common.snap(max(common.mass_violation(q, classes), over))

    def center(self, dim: int, *, classes: Vec | None = None) -> Vec:
        return common.uniform(dim, classes)

    def emptiness(self, dim: int, *, classes: Vec | None = None) -> str | None:
        reason = common.no_entries(dim, classes)
        if reason:
            return f"{self!r}: {reason}"
        weights = self.class_weight or (1.0, 1.0)
        mass = 1.0 if classes is None else 0.5
        sizes = common.counts(dim, classes)
        least = max(mass / (n * w) for n, w in zip(sizes, weights, strict=False))
        if value(self.cap) >= least * (1.0 - common.ROUNDING):
            return None
        entries, weight = min(zip(sizes, weights, strict=False), key=lambda pair: pair[0] * pair[1])
        scaled = "" if weight == 1.0 else f" (times the class weight {weight:.6g})"
        return (
            f"{self!r}: empty, {common.named(self.cap, 'cap')}{scaled} times {entries} entries is "
            f"below {mass:g}; {common.subject(self.cap, 'cap')} must be at least {least:.6g}"
        )

    def size(self) -> Size:
        return Size(self.cap)

    def constraints(
        self, q: cp.Expression, size: Any, *, classes: Vec | None = None
    ) -> list[cp.Constraint]:
        weights = self.class_weight or (1.0, 1.0)
        weight = np.full(q.size, weights[0])
        if classes is not None:
            weight = np.where(np.asarray(classes) > 0, *weights)
        return [*common.simplex_constraints(q, classes), q <= size * weight]

    def on_simplex(self) -> Domain | None:
        return self

    def formula(self, notation: Notation) -> str:
        q = notation.sub("q", "i")
        cap = notation.scalar(self.cap)
        if self.class_weight is not None:
            cap += notation.times + notation.sub("c", "i")
        return f"0{notation.leq}q{notation.leq}{cap}, {notation.sum_over('i', q)} = 1"


def project_capped(v: Vec, out: Vec | None, classes: Vec | None, caps: list[float]) -> Vec:
    """The compiled projection, with the caps of each class."""
    v = common.vector(v)
    target = out if out is not None and common.is_plain(out) else np.empty_like(v)
    numerics.project_capped(v, common.labels(classes), caps[0], caps[-1], target)
    return common.delivered(target, out)


def _both(cap: float, classes: Vec | None) -> list[float]:
    return [cap] if classes is None else [cap, cap]


def _spread(caps: list[float], dim: int, classes: Vec | None) -> Vec:
    """The cap of every entry."""
    entries = np.empty(dim)
    for (index, _), cap in zip(common.groups(dim, classes), caps, strict=True):
        entries[index] = cap
    return entries
