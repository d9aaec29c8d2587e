"""The exponential loss."""

from __future__ import annotations

import numpy as np
from scipy.special import wrightomega, xlogy

from ucm.data.linear import Vec
from ucm.language import cvx as cp
from ucm.language.node import Notation
from ucm.language.parameter import Scalar, Scope
from ucm.language.terms import Bound, ConvexLoss, OfSamples

__all__ = ["Exponential"]


class Exponential(OfSamples, ConvexLoss):
    """The exponential loss, `sum exp(-margin)`; `l(u) = exp(u)`, `l*(s) = s log s - s` for s >= 0.

    Parameters
    ----------
    on : pos, neg or a group of samples, optional
        Whose samples count, as `pos` or `neg.group("A")`; None for all.

    Notes
    -----
    Ito, Takeda and Toh (2015), section 5.2: on the simplex its ball of radius r is
    `KLBall(exp(-r - 1))`.

    Examples
    --------
    >>> import ucm
    >>> ucm.Exponential().value([0.0, 0.0])
    2.0
    """

    def smooth(self) -> bool:
        return True

    def each(self, margin: Vec) -> Vec:
        with np.errstate(over="ignore"):
            return np.exp(-margin)

    def conjugate(self, s: Vec) -> Vec:
        s = np.asarray(s, dtype=float)
        positive = np.maximum(s, 0.0)
        return np.where(s >= 0.0, xlogy(positive, positive) - positive, np.inf)

    def conjugate_prox(self, v: Vec, t: Bound) -> Vec:
        v = np.asarray(v, dtype=float)
        if np.all(t == 0.0):
            return np.maximum(v, 0.0)
        return t * wrightomega(v / t - np.log(t))  # s + t log s = v

    def conjugate_prox_slope(self, v: Vec, t: Bound, s: Vec) -> Vec:
        return np.divide(s, s + t, out=np.zeros_like(s), where=s > 0.0)  # l*''(s) = 1 / s

    def gradient(self, u: Vec) -> Vec:
        with np.errstate(over="ignore"):
            return np.exp(np.asarray(u, dtype=float))

    def conjugate_cvxpy(self, s: cp.Expression) -> tuple[cp.Expression, list[cp.Constraint]]:
        return -cp.entr(s) - s, []

    def cvxpy(self, margin: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        return scope.of(factor) * cp.exp(-margin)

    def formula(self, notation: Notation) -> str:
        t = notation.sub("t", "i")
        return self.over(f"{notation.word('exp')}(-{t})", notation)
