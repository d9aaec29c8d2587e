"""The least-squares loss."""

from __future__ import annotations

import numpy as np

from ucm.data.linear import Vec
from ucm.language import cvx as cp
from ucm.language.boxes import Bound
from ucm.language.node import Notation
from ucm.language.parameter import Coefficient, Scope
from ucm.language.terms import ConvexLoss, OfSamples

__all__ = ["LeastSquares"]


class LeastSquares(OfSamples, ConvexLoss):
    """`sum (1 - margin)^2`, which is `sum (y_i - f(x_i))^2`: regression on the labels; `l*(s) = s^2 / 4`.

    A margin above 1 is a loss too: l falls where u < 0, and weights of samples may be negative. With `L2()`
    it is ridge classification, or the least-squares SVM; without a penalty and scaled labels the
    direction of Fisher's discriminant. No set of weights stands for it: `SquaredHinge()` has one.

    Parameters
    ----------
    on : pos, neg or a group of samples, optional
        Whose samples count, as `pos` or `neg.group("A")`; None for all.

    Notes
    -----
    Suykens and Vandewalle (1999), Least squares support vector machine classifiers.

    Examples
    --------
    >>> import ucm
    >>> ucm.LeastSquares().value([0.0, 3.0])
    5.0
    """

    @property
    def offset(self) -> float:
        return 1.0

    def slope(self) -> float | None:
        return None

    def smooth(self) -> bool:
        return True

    def each(self, margin: Vec) -> Vec:
        return (1.0 - margin) ** 2

    def conjugate(self, s: Vec) -> Vec:
        return 0.25 * np.asarray(s, dtype=float) ** 2

    def conjugate_prox(self, v: Vec, t: Bound) -> Vec:
        return np.asarray(v, dtype=float) / (1.0 + 0.5 * t)

    def conjugate_prox_slope(self, v: Vec, t: Bound, s: Vec) -> Vec:
        return np.zeros(np.shape(v)) + 1.0 / (1.0 + 0.5 * t)

    def gradient(self, u: Vec) -> Vec:
        return 2.0 * np.asarray(u, dtype=float)

    def conjugate_cvxpy(self, s: cp.Expression) -> tuple[cp.Expression, list[cp.Constraint]]:
        return cp.square(s) / 4.0, []

    def cvxpy(self, margin: cp.Expression, factor: Coefficient, scope: Scope) -> cp.Expression:
        return scope.of(factor) * cp.square(1.0 - margin)

    def formula(self, notation: Notation) -> str:
        t = notation.sub("t", "i")
        return self.over(notation.power(f"(1 - {t})", "2"), notation)
