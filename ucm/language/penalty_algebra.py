"""Positive multiples and sums of penalties."""

from __future__ import annotations

from typing import ClassVar

from ucm.data.linear import Vec
from ucm.errors import CompositionError
from ucm.language import cvx as cp
from ucm.language.arithmetic import multiple
from ucm.language.node import Notation, Scalar
from ucm.language.scope import Coefficient, Scope
from ucm.language.term_algebra import TermMultiple, TermSum
from ucm.language.terms import FoldedConcave, Penalty, ProximalPenalty, Term

__all__ = ["PenaltySum", "ScaledFolded", "ScaledPenalty", "scaled_penalty"]


class ScaledPenalty(TermMultiple, ProximalPenalty):
    """A multiple of a convex penalty; with c = factor / divisor, `(c R)*(z) = c R*(z / c)`.

    Examples
    --------
    >>> import ucm
    >>> ucm.Param("lam", 0.5) * ucm.L1()
    Param('lam', 0.5) * L1()
    """

    of: ClassVar[type[Term]] = ProximalPenalty

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


class PenaltySum(TermSum, Penalty):
    """A sum of penalties.

    Examples
    --------
    >>> import ucm
    >>> print(ucm.L1() + 0.5 * ucm.L2())
    ‖w‖₁ + 0.5·‖w‖₂^2
    """

    of: ClassVar[type[Term]] = Penalty


def scaled_penalty(factor: Scalar, penalty: Penalty, divisor: Scalar = 1.0) -> Penalty:
    """`factor / divisor` times a penalty; a sum is multiplied term by term."""
    if isinstance(penalty, PenaltySum):
        return PenaltySum(tuple(scaled_penalty(factor, term, divisor) for term in penalty.terms))
    if isinstance(penalty, ProximalPenalty):
        return ScaledPenalty(factor, penalty, divisor)
    if isinstance(penalty, FoldedConcave):
        return ScaledFolded(factor, penalty, divisor)
    raise CompositionError(
        f"{penalty!r}: only convex (ProximalPenalty) and folded concave penalties are multiplied"
    )
