"""The simplex, and the simplex with a cap on every entry."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ucm.data.linear import Vec
from ucm.errors import CompositionError, brief
from ucm.language import cvx as cp
from ucm.language import masses
from ucm.language.contracts import Capped, Size, Weighable
from ucm.language.masses import no_entries
from ucm.language.node import Notation, Scalar, value
from ucm.language.parameter import named, subject

__all__ = ["CappedSimplex", "Simplex"]


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

    def weighed(self, class_weight: tuple[float, float]) -> Simplex:
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

    def weighed(self, class_weight: tuple[float, float]) -> CappedSimplex:
        own = self.class_weight or (1.0, 1.0)
        both = own[0] * class_weight[0], own[1] * class_weight[1]
        return CappedSimplex(self.cap, both, self.relative)

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
        scaled = "" if weight == 1.0 else f" (times the class weight {weight:.6g})"
        share = f" / {dim}" if self.relative else ""
        return (
            f"{self!r}: empty, {named(self.cap, 'cap')}{share}{scaled} times {entries} entries is "
            f"below {mass:g}; {subject(self.cap, 'cap')} must be at least {least:.6g}"
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
