"""Positive multiples and sums of losses and of penalties."""

from __future__ import annotations

import functools
import math
import operator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import Vec
from ucm.language import cvx as cp
from ucm.language.node import Notation, RotationInvariant, in_parentheses, restricted, source
from ucm.language.parameter import Scalar, Scope, value
from ucm.language.terms import (
    Bound,
    ConvexLoss,
    Loss,
    Penalty,
    ProximalPenalty,
    SubtractedPenalty,
    Term,
)

_RANGE = (
    "losses and penalties are multiplied by positive finite numbers",
    "a negative multiple would make the objective concave",
)


class TermMultiple(Term, RotationInvariant):
    """A multiple of a term, `factor * term`.

    Parameters
    ----------
    factor : float or Param
        Positive.
    term : Loss or Penalty
    """

    factor: Scalar = restricted(lambda c: 0.0 < c < math.inf, *_RANGE)
    term: Any

    def c(self) -> float:
        """Return the value of the factor."""
        return value(self.factor)

    def split(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the multiples of both sides of the split of the term."""
        added, subtracted = self.term.split()
        return tuple(multiplied(self.factor, t) for t in added), tuple(
            multiplied(self.factor, t) for t in subtracted
        )

    def __repr__(self) -> str:
        return f"{in_parentheses(source(self.factor))} * {in_parentheses(repr(self.term))}"

    def formula(self, notation: Notation) -> str:
        return multiple(self.factor, self.term.formula(notation), notation)


class TermSum(Term, RotationInvariant):
    """A sum of terms, written with `+`."""

    terms: tuple[Any, ...]

    def split(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        parts = [term.split() for term in self.terms]
        return tuple(t for plus, _ in parts for t in plus), tuple(t for _, minus in parts for t in minus)

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.terms))

    def formula(self, notation: Notation) -> str:
        return " + ".join(term.formula(notation) for term in self.terms)


# --- losses ---------------------------------------------------------------------------------------
class ScaledLoss(TermMultiple, ConvexLoss):
    """A multiple of a convex loss.

    With the factor c, `(c l)*(s) = c l*(s / c)`, and the proximal map of `t (c l)*` at v is c times the
    proximal map of `(t / c) l*` at v / c.
    """

    term: ConvexLoss

    def each(self, margin: Vec) -> Vec:
        return self.c() * self.term.each(margin)

    @property
    def offset(self) -> float:
        return self.term.offset

    def slope(self) -> float | None:
        inner = self.term.slope()
        return None if inner is None else self.c() * inner

    def smooth(self) -> bool:
        return self.term.smooth()

    def conjugate(self, s: Vec) -> Vec:
        c = self.c()
        return c * self.term.conjugate(s / c)

    def conjugate_prox(self, v: Vec, t: Bound) -> Vec:
        c = self.c()
        return c * self.term.conjugate_prox(v / c, t / c)

    def conjugate_prox_slope(self, v: Vec, t: Bound, s: Vec) -> Vec:
        c = self.c()
        return self.term.conjugate_prox_slope(v / c, t / c, s / c)

    def gradient(self, u: Vec) -> Vec:
        return self.c() * self.term.gradient(u)

    def conjugate_cvxpy(self, s: cp.Expression) -> tuple[cp.Expression, list[cp.Constraint]]:
        c = self.c()
        height, domain = self.term.conjugate_cvxpy(s / c)
        return c * height, domain

    def cvxpy(self, margin: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        return self.term.cvxpy(margin, factor * self.factor, scope)


class LossSum(TermSum, Loss):
    """A sum of losses."""

    terms: tuple[Loss, ...]

    def values(self, margin: Vec, y: Vec | None = None, subgroup: Any = None, /) -> Vec:
        each = [term.values(margin, y, subgroup) for term in self.terms]
        return functools.reduce(operator.add, each)


class ScaledDifference(TermMultiple, Loss):
    """A multiple of a loss that is not convex: its split is multiplied."""

    term: Loss

    def values(self, margin: Vec, y: Vec | None = None, subgroup: Any = None, /) -> Vec:
        return self.c() * self.term.values(margin, y, subgroup)


# --- penalties ------------------------------------------------------------------------------------
class ScaledPenalty(TermMultiple, ProximalPenalty):
    """A multiple of a convex penalty, `(c R)*(z) = c R*(z / c)` with the factor c. The factor 0, the end of
    a path, gives the zero function, also where R is infinite.
    """

    factor: Scalar = restricted(lambda c: 0.0 <= c < math.inf, *_RANGE)
    term: ProximalPenalty

    @property
    def keeps_signs(self) -> bool:  # type: ignore[override]
        return self.term.keeps_signs

    def split(self) -> tuple[tuple[ProximalPenalty, ...], tuple[SubtractedPenalty, ...]]:
        return ((self,) if self.c() > 0.0 else ()), ()

    def value(self, w: Vec, /) -> float:
        c = self.c()
        return c * self.term.value(w) if c > 0.0 else 0.0

    def prox(self, v: Vec, t: float) -> Vec:
        c = self.c()
        return self.term.prox(v, c * t) if c > 0.0 else v

    def conjugate(self, z: Vec) -> float:
        c = self.c()
        return c * self.term.conjugate(z / c) if c > 0.0 else 0.0

    def prox_slope_times(self, v: Vec, t: float, M: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.term.prox_slope_times(v, self.c() * t, M)

    def gauge(self, z: Vec) -> float:
        c = self.c()
        if c == 0.0:
            return math.inf if np.any(z) else 0.0
        return self.term.gauge(z / c)

    def project_onto_domain_cone(self, z: Vec) -> Vec:
        return self.term.project_onto_domain_cone(z)

    def norms(self) -> tuple[float, float, float] | None:
        inner, c = self.term.norms(), self.c()
        return None if inner is None else (c * inner[0], c * inner[1], c * inner[2])

    def box(self) -> tuple[Bound, Bound] | None:
        inner, c = self.term.box(), self.c()
        return None if inner is None else (c * inner[0], c * inner[1])

    def gradient(self, w: Vec) -> Vec | None:
        inner = self.term.gradient(w)
        return None if inner is None else self.c() * inner

    def cvxpy(self, w: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        return self.term.cvxpy(w, factor * self.factor, scope)


class ScaledSplit(TermMultiple, Penalty):
    """A multiple of a penalty that is not convex: its split is multiplied."""

    term: Penalty

    def value(self, w: Vec, /) -> float:
        return self.c() * self.term.value(w)

    def surrogates(self) -> tuple[ProximalPenalty, ...]:
        return tuple(ScaledPenalty(self.factor, R) for R in self.term.surrogates())


class ScaledSubtracted(TermMultiple, SubtractedPenalty):
    """A multiple of a convex function that a split subtracts."""

    term: SubtractedPenalty

    def value(self, w: Vec) -> float:
        return self.c() * self.term.value(w)

    def each(self, s: Vec) -> Vec | None:
        inner = self.term.each(s)
        return None if inner is None else self.c() * inner

    def subgradient(self, w: Vec) -> Vec:
        return self.c() * self.term.subgradient(w)

    def affine(self, w: Vec, tol: float) -> bool:
        return self.term.affine(w, tol)


class PenaltySum(TermSum, Penalty):
    """A sum of penalties."""

    terms: tuple[Penalty, ...]

    def value(self, w: Vec, /) -> float:
        return sum(term.value(w) for term in self.terms)

    def surrogates(self) -> tuple[ProximalPenalty, ...]:
        return tuple(R for term in self.terms for R in term.surrogates())


# --- how they are made and written ----------------------------------------------------------------
def multiplied(factor: Scalar, term: Any) -> Any:
    """Return a multiple of a loss, a penalty or a subtracted function; the term itself for the factor 1.

    A sum is multiplied term by term.
    """
    if factor == 1.0:
        return term
    if isinstance(term, TermSum):
        return type(term)(tuple(multiplied(factor, t) for t in term.terms))
    kind = next(scaled for base, scaled in _MULTIPLES if isinstance(term, base))
    return kind(factor, term)


_MULTIPLES: tuple[tuple[type, type], ...] = (
    (SubtractedPenalty, ScaledSubtracted),
    (ConvexLoss, ScaledLoss),
    (Loss, ScaledDifference),
    (ProximalPenalty, ScaledPenalty),
    (Penalty, ScaledSplit),
)


def summed(kind: type[TermSum], terms: list[Any]) -> Any:
    """Return one sum of the terms, nested sums flattened; None without terms."""
    flat = [t for term in terms for t in (term.terms if isinstance(term, TermSum) else (term,))]
    return kind(tuple(flat)) if len(flat) > 1 else flat[0] if flat else None


def of_all(loss: ConvexLoss) -> tuple[ConvexLoss, float]:
    """Return a loss of a class or group without its factor and over all samples, and the factor.

    Any other loss is returned with the factor 1.
    """
    if loss.counted is None:
        return loss, 1.0
    factor, base = split_scalar(loss)
    return replace(base, on=None), factor  # type: ignore[type-var]


def split_scalar(term: Any) -> tuple[float, Any]:
    """Return (c, S) with the term c S, S no multiple."""
    c = 1.0
    while isinstance(term, TermMultiple):
        c, term = c * term.c(), term.term
    return c, term


def multiple(factor: Scalar, inner: str, notation: Notation) -> str:
    """Return the formula of a multiple; a factor of 1 is not written."""
    return inner if factor == 1.0 else notation.scalar(factor) + notation.times + inner
