"""The least-squares loss."""

from __future__ import annotations

import numpy as np

from ucm.data.linear import Vec
from ucm.language import cvx as cp
from ucm.language.node import Notation
from ucm.language.parameter import Scalar, Scope
from ucm.language.terms import Bound, ConvexLoss, OfSamples

__all__ = ["LeastSquares"]


class LeastSquares(OfSamples, ConvexLoss):
    """The squared loss `sum (1 - margin)^2 = sum (y_i - f(x_i))^2`; `l*(s) = s^2 / 4`.

    Margins above 1 have a loss too, and dual weights of samples may be negative. `LeastSquares() + lam *
    L2()` is `sklearn.linear_model.RidgeClassifier(alpha=lam)`, also called least-squares SVM. The loss has
    no set of weights; `SquaredHinge()` has one.

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
    >>> ucm.solve(ucm.LeastSquares() + ucm.L2(), *ucm.datasets.load("wine")).status
    'optimal'
    """

    @property
    def offset(self) -> float:
        return 1.0

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

    def cvxpy(self, margin: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        return scope.of(factor) * cp.square(1.0 - margin)

    def formula(self, notation: Notation) -> str:
        t = notation.sub("t", "i")
        return self.over(notation.power(f"(1 - {t})", "2"), notation)
