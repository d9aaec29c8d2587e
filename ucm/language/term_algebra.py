"""Positive multiples and sums of losses and of penalties."""

from __future__ import annotations

import functools
import math
import operator
from dataclasses import replace
from typing import Any, ClassVar

from ucm.data.linear import Vec
from ucm.errors import CompositionError
from ucm.language import cvx as cp
from ucm.language.arithmetic import in_parentheses
from ucm.language.boxes import Bound
from ucm.language.node import Node, Notation, Scalar, source, value
from ucm.language.parameter import Coefficient, Scope, as_declared, shown
from ucm.language.terms import (
    ConvexLoss,
    FoldedConcave,
    Loss,
    Penalty,
    ProximalPenalty,
    SubtractedPenalty,
    Term,
)

__all__ = [
    "LossSum",
    "PenaltySum",
    "ScaledDifference",
    "ScaledFolded",
    "ScaledLoss",
    "ScaledPenalty",
    "ScaledSplit",
    "ScaledSubtracted",
    "multiplied",
    "of_all",
    "summed",
]


class TermMultiple(Term):
    """`factor / divisor` times a term, written `factor * term` or `term / divisor`.

    Parameters
    ----------
    factor : float or Param
        Positive.
    term : Loss or Penalty
        Of the kind `of`.
    divisor : float or Param, optional
        Positive.

    Raises
    ------
    CompositionError
        A factor that is not positive and finite, or a term of another kind.
    """

    of: ClassVar[type[Term]]
    but: ClassVar[tuple[type[Term], ...]] = ()

    factor: Scalar
    term: Any
    divisor: Scalar = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.term, self.of) or isinstance(self.term, self.but):
            raise CompositionError(
                f"{type(self).__name__}: expected a term of the kind {self.of.__name__}, got "
                f"{self.term!r}; write factor * term"
            )
        positive(self, self.factor, self.divisor)

    def c(self) -> float:
        """The number that multiplies the term."""
        return value(self.factor) / value(self.divisor)

    def __repr__(self) -> str:
        return multiple_source(self.factor, self.divisor, self.term)

    def formula(self, notation: Notation) -> str:
        return multiple(self.factor, self.divisor, self.term.formula(notation), notation)


class TermSum(Term):
    """A sum of terms of the kind `of`, written with `+`."""

    of: ClassVar[type[Term]]

    terms: tuple[Any, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        for term in self.terms:
            if not isinstance(term, self.of) or isinstance(term, TermSum):
                raise CompositionError(
                    f"{type(self).__name__}: expected terms of the kind {self.of.__name__}, got "
                    f"{term!r}; add them with +"
                )

    def split(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        parts = [term.split() for term in self.terms]
        return tuple(t for plus, _ in parts for t in plus), tuple(
            t for _, minus in parts for t in minus
        )

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.terms))

    def formula(self, notation: Notation) -> str:
        return " + ".join(term.formula(notation) for term in self.terms)


# --- losses ---------------------------------------------------------------------------------------
class ScaledLoss(TermMultiple, ConvexLoss):
    """A multiple of a convex loss.

    With c = factor / divisor: `(c l)*(s) = c l*(s / c)`, and the proximal map of `t (c l)*` at v is
    c times that of `(t / c) l*` at v / c.

    Examples
    --------
    >>> import ucm
    >>> loss = ucm.Hinge() / ucm.Param("nu", 0.5)
    >>> loss.value([0.0, 2.0])
    2.0
    """

    of: ClassVar[type[Term]] = ConvexLoss

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

    def cvxpy(self, margin: cp.Expression, factor: Coefficient, scope: Scope) -> cp.Expression:
        return self.term.cvxpy(margin, factor.scaled(self.factor, self.divisor), scope)


class LossSum(TermSum, Loss):
    """A sum of losses.

    Examples
    --------
    >>> import ucm
    >>> print(ucm.Hinge() + 0.5 * ucm.SquaredHinge())
    Σ_{i} max(0, 1 - t_i) + 0.5·Σ_{i} max(0, 1 - t_i)^2
    """

    of: ClassVar[type[Term]] = Loss

    def values(self, margin: Vec, y: Vec | None = None, subgroup: Any = None, /) -> Vec:
        each = [term.values(margin, y, subgroup) for term in self.terms]
        return functools.reduce(operator.add, each)


class ScaledDifference(TermMultiple, Loss):
    """A multiple of a loss that is not convex: its split is multiplied.

    Examples
    --------
    >>> import ucm
    >>> (2 * ucm.Ramp()).value([-3.0])
    4.0
    """

    of: ClassVar[type[Term]] = Loss
    but: ClassVar[tuple[type[Term], ...]] = (ConvexLoss, LossSum)

    def values(self, margin: Vec, y: Vec | None = None, subgroup: Any = None, /) -> Vec:
        return self.c() * self.term.values(margin, y, subgroup)

    def split(self) -> tuple[tuple[ConvexLoss, ...], tuple[ConvexLoss, ...]]:
        added, subtracted = self.term.split()
        return (
            tuple(ScaledLoss(self.factor, loss, self.divisor) for loss in added),
            tuple(ScaledLoss(self.factor, loss, self.divisor) for loss in subtracted),
        )


# --- penalties ------------------------------------------------------------------------------------
class ScaledPenalty(TermMultiple, ProximalPenalty):
    """A multiple of a convex penalty; with c = factor / divisor, `(c R)*(z) = c R*(z / c)`.

    Examples
    --------
    >>> import ucm
    >>> ucm.Param("lam", 0.5) * ucm.L1()
    Param('lam', 0.5) * L1()
    """

    of: ClassVar[type[Term]] = ProximalPenalty

    def value(self, w: Vec, /) -> float:
        return self.c() * self.term.value(w)

    def prox(self, v: Vec, t: float) -> Vec:
        return self.term.prox(v, self.c() * t)

    def conjugate(self, z: Vec) -> float:
        c = self.c()
        return c * self.term.conjugate(z / c)

    def gauge(self, z: Vec) -> float:
        return self.term.gauge(z / self.c())

    def norms(self) -> tuple[float, float, float] | None:
        inner, c = self.term.norms(), self.c()
        return None if inner is None else (c * inner[0], c * inner[1], c * inner[2])

    def cvxpy(self, w: cp.Expression, factor: Coefficient, scope: Scope) -> cp.Expression:
        return self.term.cvxpy(w, factor.scaled(self.factor, self.divisor), scope)


class ScaledFolded(TermMultiple, FoldedConcave):
    """A multiple of a folded concave penalty.

    Examples
    --------
    >>> import ucm
    >>> (2 * ucm.CappedL1(1)).value([3.0])
    2.0
    """

    of: ClassVar[type[Term]] = FoldedConcave

    def profile(self, s: Vec) -> Vec:
        return self.c() * self.term.profile(s)

    def slope(self, s: Vec) -> Vec:
        return self.c() * self.term.slope(s)

    def straight(self, s: Vec, tol: float) -> bool:
        return self.term.straight(s, tol)

    def tangent(self) -> ProximalPenalty:
        return ScaledPenalty(self.factor, self.term.tangent(), self.divisor)

    def relaxed(self) -> ProximalPenalty:
        return ScaledPenalty(self.factor, self.term.relaxed(), self.divisor)

    def excess_formula(self, notation: Notation) -> str:
        return multiple(self.factor, self.divisor, self.term.excess_formula(notation), notation)


class ScaledSplit(TermMultiple, Penalty):
    """A multiple of a penalty that is neither convex nor folded concave: its split is multiplied."""

    of: ClassVar[type[Term]] = Penalty
    but: ClassVar[tuple[type[Term], ...]] = (TermSum,)

    def value(self, w: Vec, /) -> float:
        return self.c() * self.term.value(w)

    def split(self) -> tuple[tuple[ProximalPenalty, ...], tuple[SubtractedPenalty, ...]]:
        added, subtracted = self.term.split()
        return (
            tuple(ScaledPenalty(self.factor, R, self.divisor) for R in added),
            tuple(ScaledSubtracted(self.factor, R, self.divisor) for R in subtracted),
        )


class ScaledSubtracted(SubtractedPenalty):
    """A multiple of a convex function that a split subtracts."""

    factor: Scalar
    term: SubtractedPenalty
    divisor: Scalar = 1.0

    def _c(self) -> float:
        return value(self.factor) / value(self.divisor)

    def value(self, w: Vec) -> float:
        return self._c() * self.term.value(w)

    def subgradient(self, w: Vec) -> Vec:
        return self._c() * self.term.subgradient(w)

    def affine(self, w: Vec, tol: float) -> bool:
        return self.term.affine(w, tol)

    def formula(self, notation: Notation) -> str:
        return multiple(self.factor, self.divisor, self.term.formula(notation), notation)


class PenaltySum(TermSum, Penalty):
    """A sum of penalties.

    Examples
    --------
    >>> import ucm
    >>> print(ucm.L1() + 0.5 * ucm.L2())
    ‖w‖₁ + 0.5·‖w‖₂^2
    """

    of: ClassVar[type[Term]] = Penalty

    def value(self, w: Vec, /) -> float:
        return sum(term.value(w) for term in self.terms)


# --- how they are made and written ----------------------------------------------------------------
def multiplied(factor: Scalar, term: Any, divisor: Scalar = 1.0) -> Any:
    """`factor / divisor` times a loss or a penalty; a sum is multiplied term by term."""
    if isinstance(term, TermSum):
        return type(term)(tuple(multiplied(factor, t, divisor) for t in term.terms))
    kinds = (ScaledLoss, ScaledDifference, ScaledPenalty, ScaledFolded, ScaledSplit)
    return next(kind for kind in kinds if isinstance(term, kind.of))(factor, term, divisor)


def summed(kind: type[TermSum], terms: list[Any]) -> Any:
    """Terms as one sum, those of sums in them taken out; None when there are none."""
    flat = [t for term in terms for t in (term.terms if isinstance(term, TermSum) else (term,))]
    return kind(tuple(flat)) if len(flat) > 1 else flat[0] if flat else None


def of_all(loss: ConvexLoss) -> tuple[ConvexLoss, float]:
    """A loss of some samples as what it is a multiple of, over all of them, and the factor; any other as it
    is, and 1."""
    if loss.counted is None:
        return loss, 1.0
    factor, base = peeled(loss)
    return replace(base, on=None), factor  # type: ignore[type-var]


def peeled(term: Any) -> tuple[float, Any]:
    """(c, S) with the term c S, S no multiple."""
    c = 1.0
    while isinstance(term, TermMultiple):
        c, term = c * term.c(), term.term
    return c, term


def positive(node: Node, *scalars: Scalar) -> None:
    """Refuse multiples that are not positive and finite."""
    for scalar in scalars:
        if not 0.0 < as_declared(scalar) < math.inf:
            raise CompositionError(
                f"{type(node).__name__}: losses and penalties are multiplied by positive finite "
                f"numbers, got {shown(scalar)}; a negative multiple would make the objective concave"
            )


def multiple_source(factor: Scalar, divisor: Scalar, term: Node) -> str:
    """`factor * term / divisor` as source text."""
    text = in_parentheses(repr(term))
    if factor != 1.0:
        text = f"{in_parentheses(source(factor))} * {text}"
    return text if divisor == 1.0 else f"{text} / {in_parentheses(source(divisor))}"


def multiple(factor: Scalar, divisor: Scalar, inner: str, notation: Notation) -> str:
    """`factor / divisor` times a formula; a factor of 1 is not written."""
    head = notation.scalar(factor)
    if divisor != 1.0:
        head = notation.fraction(head, notation.scalar(divisor))
    elif factor == 1.0:
        return inner
    return head + notation.times + inner
