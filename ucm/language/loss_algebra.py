"""Positive multiples and sums of losses."""

from __future__ import annotations

from typing import Any, ClassVar

from ucm.data.linear import Vec
from ucm.language import cvx as cp
from ucm.language.node import Scalar
from ucm.language.scope import Coefficient, Scope
from ucm.language.term_algebra import TermMultiple, TermSum
from ucm.language.terms import ConvexLoss, Loss, Term

__all__ = ["LossSum", "ScaledDifference", "ScaledLoss", "scaled_loss"]


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

    def conjugate_prox(self, v: Vec, t: float) -> Vec:
        c = self.c()
        return c * self.term.conjugate_prox(v / c, t / c)

    def conjugate_prox_slope(self, v: Vec, t: float, s: Vec) -> Vec:
        c = self.c()
        return self.term.conjugate_prox_slope(v / c, t / c, s / c)

    def gradient(self, u: Vec) -> Vec:
        return self.c() * self.term.gradient(u)

    def conjugate_constraint(self, s: cp.Expression, size: Any) -> list[cp.Constraint]:
        c = self.c()
        return self.term.conjugate_constraint(s / c, size / c)

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

    def split(self) -> tuple[tuple[ConvexLoss, ...], tuple[ConvexLoss, ...]]:
        added, subtracted = self.term.split()
        return (
            tuple(ScaledLoss(self.factor, loss, self.divisor) for loss in added),
            tuple(ScaledLoss(self.factor, loss, self.divisor) for loss in subtracted),
        )


def scaled_loss(factor: Scalar, loss: Loss, divisor: Scalar = 1.0) -> Loss:
    """`factor / divisor` times a loss; a sum is multiplied term by term."""
    if isinstance(loss, LossSum):
        return LossSum(tuple(scaled_loss(factor, term, divisor) for term in loss.terms))
    kind = ScaledLoss if isinstance(loss, ConvexLoss) else ScaledDifference
    return kind(factor, loss, divisor)
