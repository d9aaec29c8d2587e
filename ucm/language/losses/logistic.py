"""The logistic loss."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, xlog1py, xlogy

from ucm.data.linear import Vec
from ucm.language import cvx as cp
from ucm.language.boxes import Bound
from ucm.language.node import Notation
from ucm.language.parameter import Coefficient, Scope
from ucm.language.terms import ConvexLoss, OfSamples

__all__ = ["Logistic"]


class Logistic(OfSamples, ConvexLoss):
    """The logistic loss, `sum log(1 + exp(-margin))`; `l(u) = log(1 + exp(u))`.

    `l*(s) = s log s + (1 - s) log(1 - s)` on [0, 1].

    Parameters
    ----------
    on : pos, neg or a group of samples, optional
        Whose samples count, as `pos` or `neg.group("A")`; None for all.

    Examples
    --------
    >>> import ucm
    >>> round(ucm.Logistic().value([0.0]), 6)
    0.693147
    """

    @property
    def offset(self) -> float:
        return 0.0

    def slope(self) -> float | None:
        return None

    def smooth(self) -> bool:
        return True

    def each(self, margin: Vec) -> Vec:
        return np.logaddexp(0.0, -margin)

    def conjugate(self, s: Vec) -> Vec:
        s = np.asarray(s, dtype=float)
        inside = np.clip(s, 0.0, 1.0)
        entropy = xlogy(inside, inside) + xlog1py(1.0 - inside, -inside)
        return np.where(s == inside, entropy, np.inf)

    def conjugate_prox(self, v: Vec, t: Bound) -> Vec:
        # s = expit(z) with expit(z) + t z = v. By symmetry let v >= 1/2: then z >= 0, where the
        # left side is concave, and Newton from below climbs to the root; (v - 1)/t is below it.
        v = np.asarray(v, dtype=float)
        if np.all(t == 0.0):
            return np.clip(v, 0.0, 1.0)
        upper = v >= 0.5
        x = np.where(upper, v, 1.0 - v)
        z = np.maximum((x - 1.0) / t, 0.0)
        for _ in range(100):
            s = expit(z)
            after = z + (x - s - t * z) / (s * (1.0 - s) + t)
            moved = after > z
            if not moved.any():
                break
            z = np.where(moved, after, z)
        return expit(np.where(upper, z, -z))

    def conjugate_prox_slope(self, v: Vec, t: Bound, s: Vec) -> Vec:
        bend = s * (1.0 - s)  # 1 / l*''(s)
        return np.divide(bend, bend + t, out=np.zeros_like(bend), where=bend > 0.0)

    def gradient(self, u: Vec) -> Vec:
        return expit(np.asarray(u, dtype=float))

    def conjugate_cvxpy(self, s: cp.Expression) -> tuple[cp.Expression, list[cp.Constraint]]:
        return -cp.entr(s) - cp.entr(1 - s), []

    def cvxpy(self, margin: cp.Expression, factor: Coefficient, scope: Scope) -> cp.Expression:
        return scope.of(factor) * cp.logistic(-margin)

    def formula(self, notation: Notation) -> str:
        t = notation.sub("t", "i")
        log, exp = notation.word("log"), notation.word("exp")
        return self.over(f"{log}(1 + {exp}(-{t}))", notation)
