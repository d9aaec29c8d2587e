"""Positive multiples and sums of losses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ucm.contracts import Vec
from ucm.errors import CompositionError
from ucm.expression import Notation, Scalar, value
from ucm.language.arithmetic import multiple, multiple_source, positive
from ucm.terms import Coefficient, ConvexLoss, Loss, Weights

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["LossSum", "ScaledDifference", "ScaledLoss", "scaled_loss"]


class ScaledLoss(ConvexLoss):
    """`(factor / divisor) l`, written `factor * loss` or `loss / divisor`.

    With c = factor / divisor: `(c l)*(s) = c l*(s / c)`, and the proximal map of `t (c l)*` at v is
    c times that of `(t / c) l*` at v / c.

    Parameters
    ----------
    factor : float or Param
        Positive.
    loss : ConvexLoss
    divisor : float or Param, optional
        Positive.

    Raises
    ------
    CompositionError
        A factor that is not positive and finite.

    Examples
    --------
    >>> import ucm
    >>> loss = ucm.Hinge() / ucm.Param("nu", 0.5)
    >>> loss.value([0.0, 2.0])
    2.0
    """

    factor: Scalar
    loss: ConvexLoss
    divisor: Scalar = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.loss, ConvexLoss):
            raise CompositionError(f"ScaledLoss: expected a convex loss, got {self.loss!r}")
        positive(self, self.factor, self.divisor)

    def _c(self) -> float:
        return value(self.factor) / value(self.divisor)

    @property
    def offset(self) -> float:
        return self.loss.offset

    def value(self, margin: Vec) -> float:
        return self._c() * self.loss.value(margin)

    def split(self) -> tuple[tuple[ConvexLoss, ...], tuple[ConvexLoss, ...]]:
        return (self,), ()

    def slope(self) -> float | None:
        inner = self.loss.slope()
        return None if inner is None else self._c() * inner

    def smooth(self) -> bool:
        return self.loss.smooth()

    def conjugate(self, s: Vec) -> Vec:
        c = self._c()
        return c * self.loss.conjugate(s / c)

    def conjugate_prox(self, v: Vec, t: float) -> Vec:
        c = self._c()
        return c * self.loss.conjugate_prox(v / c, t / c)

    def gradient(self, u: Vec) -> Vec:
        return self._c() * self.loss.gradient(u)

    def conjugate_constraint(self, s: cp.Expression, size: Any) -> list[cp.Constraint]:
        c = self._c()
        return self.loss.conjugate_constraint(s / c, size / c)

    def cvxpy(self, margin: cp.Expression, factor: Coefficient, weights: Weights) -> cp.Expression:
        return self.loss.cvxpy(margin, factor.scaled(self.factor, self.divisor), weights)

    def __repr__(self) -> str:
        return multiple_source(self.factor, self.divisor, self.loss)

    def formula(self, notation: Notation) -> str:
        return multiple(self.factor, self.divisor, self.loss.formula(notation), notation)


class ScaledDifference(Loss):
    """A positive multiple of a loss that is not convex: its split is multiplied.

    Examples
    --------
    >>> import ucm
    >>> (2 * ucm.Ramp()).value([-3.0])
    4.0
    """

    factor: Scalar
    loss: Loss
    divisor: Scalar = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.loss, Loss) or isinstance(self.loss, ConvexLoss | LossSum):
            raise CompositionError(
                f"ScaledDifference: expected a loss that is not convex, got {self.loss!r}; "
                "write factor * loss"
            )
        positive(self, self.factor, self.divisor)

    def value(self, margin: Vec) -> float:
        return value(self.factor) / value(self.divisor) * self.loss.value(margin)

    def split(self) -> tuple[tuple[ConvexLoss, ...], tuple[ConvexLoss, ...]]:
        added, subtracted = self.loss.split()
        return (
            tuple(ScaledLoss(self.factor, loss, self.divisor) for loss in added),
            tuple(ScaledLoss(self.factor, loss, self.divisor) for loss in subtracted),
        )

    def __repr__(self) -> str:
        return multiple_source(self.factor, self.divisor, self.loss)

    def formula(self, notation: Notation) -> str:
        return multiple(self.factor, self.divisor, self.loss.formula(notation), notation)


class LossSum(Loss):
    """A sum of losses, written with `+`.

    Examples
    --------
    >>> import ucm
    >>> print(ucm.Hinge() + 0.5 * ucm.SquaredHinge())
    Σ_{i} max(0, 1 - t_i) + 0.5·Σ_{i} max(0, 1 - t_i)^2
    """

    terms: tuple[Loss, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        for loss in self.terms:
            if not isinstance(loss, Loss) or isinstance(loss, LossSum):
                raise CompositionError(f"LossSum: expected losses, got {loss!r}; add them with +")

    def value(self, margin: Vec) -> float:
        return sum(loss.value(margin) for loss in self.terms)

    def split(self) -> tuple[tuple[ConvexLoss, ...], tuple[ConvexLoss, ...]]:
        added: list[ConvexLoss] = []
        subtracted: list[ConvexLoss] = []
        for loss in self.terms:
            plus, minus = loss.split()
            added += plus
            subtracted += minus
        return tuple(added), tuple(subtracted)

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.terms))

    def formula(self, notation: Notation) -> str:
        return " + ".join(loss.formula(notation) for loss in self.terms)


def scaled_loss(factor: Scalar, loss: Loss, divisor: Scalar = 1.0) -> Loss:
    """`factor / divisor` times a loss; a sum is multiplied term by term."""
    if isinstance(loss, LossSum):
        return LossSum(tuple(scaled_loss(factor, term, divisor) for term in loss.terms))
    if isinstance(loss, ConvexLoss):
        return ScaledLoss(factor, loss, divisor)
    return ScaledDifference(factor, loss, divisor)
