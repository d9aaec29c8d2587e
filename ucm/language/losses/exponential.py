"""The exponential loss."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import wrightomega, xlogy

from ucm.data.linear import Vec
from ucm.language import cvx as cp
from ucm.language.node import Notation
from ucm.language.parameter import Coefficient, Scope
from ucm.language.terms import ConvexLoss

__all__ = ["Exponential"]


class Exponential(ConvexLoss):
    """The exponential loss, `sum exp(-margin)`; `l(u) = exp(u)`, `l*(s) = s log s - s` for s >= 0.

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

    @property
    def offset(self) -> float:
        return 0.0

    def slope(self) -> float | None:
        return None

    def smooth(self) -> bool:
        return True

    def value(self, margin: Vec) -> float:
        with np.errstate(over="ignore"):
            return float(np.exp(-np.asarray(margin, dtype=float)).sum())

    def conjugate(self, s: Vec) -> Vec:
        s = np.asarray(s, dtype=float)
        positive = np.maximum(s, 0.0)
        return np.where(s >= 0.0, xlogy(positive, positive) - positive, np.inf)

    def conjugate_prox(self, v: Vec, t: float) -> Vec:
        v = np.asarray(v, dtype=float)
        if t == 0.0:
            return np.maximum(v, 0.0)
        return t * wrightomega(v / t - np.log(t))  # s + t log s = v

    def conjugate_prox_slope(self, v: Vec, t: float, s: Vec) -> Vec:
        return np.divide(s, s + t, out=np.zeros_like(s), where=s > 0.0)  # l*''(s) = 1 / s

    def gradient(self, u: Vec) -> Vec:
        with np.errstate(over="ignore"):
            return np.exp(np.asarray(u, dtype=float))

    def conjugate_constraint(self, s: cp.Expression, size: Any) -> list[cp.Constraint]:
        return [cp.sum(-cp.entr(s) - s) / s.size <= size]

    def cvxpy(self, margin: cp.Expression, factor: Coefficient, scope: Scope) -> cp.Expression:
        return scope.of(factor) * cp.sum(cp.exp(-margin))

    def formula(self, notation: Notation) -> str:
        t = notation.sub("t", "i")
        return notation.sum_over("i", f"{notation.word('exp')}(-{t})")
