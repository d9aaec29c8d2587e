"""Differentiable losses: logistic, exponential and squared."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, wrightomega, xlogy

from ucm.data.linear_map import Vec
from ucm.language import cvx as cp
from ucm.language.node import Notation
from ucm.language.parameter import Scalar, Scope
from ucm.language.terms import Bound, ConvexLoss, SubsetLoss

_TINY = np.finfo(float).tiny
_BELOW_ONE = 1.0 - 2.0**-53


class Logistic(SubsetLoss, ConvexLoss):
    """The logistic loss, `sum log(1 + exp(-margin))`.

    `Logistic() + lam * L2()` is `sklearn.linear_model.LogisticRegression(C=1 / (2 lam))`; with `lam * L1()`
    it is that with the l1 penalty and `C=1 / lam`.

    In minus the margin it is `l(u) = log(1 + exp(u))`, with `l*(s) = s log s + (1 - s) log(1 - s)` on [0, 1].

    Parameters
    ----------
    on : pos, neg or a group of samples, optional
        Whose samples count, as `pos` or `neg.group("A")`; None for all.

    Examples
    --------
    >>> import ucm
    >>> round(ucm.Logistic().value([0.0]), 6)
    0.693147
    >>> ucm.solve(ucm.Logistic() + 0.5 * ucm.L2(), *ucm.datasets.load("wine")).status
    'optimal'
    """

    def smooth(self) -> bool:
        return True

    def each(self, margin: Vec) -> Vec:
        # log1p and exp take a fifth of the time of logaddexp on long vectors, in place
        e = np.array(margin, dtype=float)
        np.abs(e, out=e)
        np.negative(e, out=e)
        np.log1p(np.exp(e, out=e), out=e)
        e -= np.minimum(margin, 0.0)
        return e

    def conjugate(self, s: Vec) -> Vec:
        s = np.asarray(s, dtype=float)
        inside = np.clip(s, 0.0, 1.0)
        entropy = inside * np.log(np.maximum(inside, _TINY))
        entropy += (1.0 - inside) * np.log1p(-np.minimum(inside, _BELOW_ONE))
        outside = s != inside
        return np.where(outside, np.inf, entropy) if outside.any() else entropy

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
        e = np.array(u, dtype=float)
        np.negative(e, out=e)
        with np.errstate(over="ignore"):
            np.exp(e, out=e)
        e += 1.0
        return np.divide(1.0, e, out=e)

    def conjugate_cvxpy(self, s: cp.Expression) -> tuple[cp.Expression, list[cp.Constraint]]:
        return -cp.entr(s) - cp.entr(1 - s), []

    def cvxpy(self, margin: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        return scope.of(factor) * cp.logistic(-margin)

    def formula(self, notation: Notation) -> str:
        t = notation.sub("t", "i")
        log, exp = notation.word("log"), notation.word("exp")
        return self.over(f"{log}(1 + {exp}(-{t}))", notation)


class Exponential(SubsetLoss, ConvexLoss):
    """The exponential loss, `sum exp(-margin)`.

    In minus the margin it is `l(u) = exp(u)`, with `l*(s) = s log s - s` for s >= 0.

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
        ratio = np.divide(t, s, out=np.full_like(s, np.inf), where=s > 0.0)
        return 1.0 / (1.0 + ratio)  # l*''(s) = 1 / s

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


class LeastSquares(SubsetLoss, ConvexLoss):
    """The squared loss `sum (1 - margin)^2 = sum (y_i - f(x_i))^2`.

    Its conjugate is `l*(s) = s^2 / 4`. Margins above 1 have a loss too, and dual weights of samples may be
    negative. `LeastSquares() + lam * L2()` is `sklearn.linear_model.RidgeClassifier(alpha=lam)`, also called
    least-squares SVM. The loss has no set of weights; `SquaredHinge()` has one.

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
