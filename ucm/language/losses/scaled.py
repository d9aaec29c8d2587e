"""Positive multiples of a loss, and what makes a loss one that can be multiplied."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ucm.contracts import Loss, Vec
from ucm.errors import CompositionError, brief
from ucm.expression import Notation, Param, Scalar, source, value
from ucm.language.arithmetic import in_parentheses

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["ConvexLoss", "ScaledLoss"]


class ConvexLoss(Loss):
    """A convex loss, with `c * loss` and `loss / c`.

    `gradient(inf)` is the largest slope s_max, finite or inf.
    """

    __array_ufunc__ = None  # lets `np.float64 * loss` reach `__rmul__`

    def __mul__(self, factor: object) -> ScaledLoss:
        return ScaledLoss(factor, self)  # type: ignore[arg-type]

    def __rmul__(self, factor: object) -> ScaledLoss:
        return ScaledLoss(factor, self)  # type: ignore[arg-type]

    def __truediv__(self, divisor: object) -> ScaledLoss:
        return ScaledLoss(1.0, self, divisor)  # type: ignore[arg-type]


class ScaledLoss(ConvexLoss):
    """`(factor / divisor) l`, written `factor * loss` or `loss / divisor`.

    With c = factor / divisor: `(c l)*(s) = c l*(s / c)`, and the proximal map of `t (c l)*` at v is
    c times that of `(t / c) l*` at v / c.

    Parameters
    ----------
    factor : float or Param
        Positive.
    loss : Loss
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
    loss: Loss
    divisor: Scalar = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.loss, Loss):
            raise CompositionError(f"ScaledLoss: expected a loss, got {brief(self.loss)}")
        for scalar in (self.factor, self.divisor):
            if not isinstance(scalar, float | Param) or not 0.0 < value(scalar) < math.inf:
                raise CompositionError(
                    f"ScaledLoss: a loss is multiplied by positive finite numbers, got {brief(scalar)}"
                )

    def _c(self) -> float:
        return value(self.factor) / value(self.divisor)

    def value(self, margin: Vec) -> float:
        return self._c() * self.loss.value(margin)

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

    def __repr__(self) -> str:
        text = in_parentheses(repr(self.loss))
        if self.factor != 1.0:
            text = f"{source(self.factor)} * {text}"
        return text if self.divisor == 1.0 else f"{text} / {source(self.divisor)}"

    def formula(self, notation: Notation) -> str:
        factor = notation.scalar(self.factor)
        if self.divisor != 1.0:
            factor = notation.fraction(factor, notation.scalar(self.divisor))
        return factor + notation.times + self.loss.formula(notation)
