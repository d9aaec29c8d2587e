"""Losses as functions of the margin: the hinge loss and its kin, and differentiable losses."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, wrightomega, xlogy

from ucm.data.linear_map import Vec
from ucm.language import cvx as cp
from ucm.language.cone import Bound
from ucm.language.node import Notation, number_in
from ucm.language.objective import multiple, multiplied
from ucm.language.parameter import Expression, Scalar, Scope, value
from ucm.language.power import power_root
from ucm.language.statistics.samples import Samples
from ucm.language.terms import ConvexLoss, PointwiseLoss, SubsetLoss

_TINY = np.finfo(float).tiny
_BELOW_ONE = 1.0 - 2.0**-53


# --- the hinge loss, its powers and its Huberised form; the ramp loss and its convex parts ----------
def _plus(start: Scalar, notation: Notation) -> str:
    return f"{notation.word('max')}(0, {notation.scalar(start)} - {notation.sub('t', 'i')})"


class Hinge(SubsetLoss, ConvexLoss):
    """The hinge loss to the power p, `sum max(0, start - margin)^p`, start = 1 by default.

    `Hinge() + lam * L2()` is `sklearn.svm.SVC(kernel="linear", C=1 / (2 lam))`.

    `LossBall` and the generalised nu-SVM use it without the offset, since their margin is a variable:
    `l(u) = max(0, u)^p`, u minus the margin. Then, with 1/p + 1/p' = 1,
    `l*(s) = (p - 1) (s/p)^p'` for s >= 0; for p = 1 it is the indicator of [0, 1].

    Parameters
    ----------
    p : float, optional
        1 <= p < inf.
    on : pos, neg or a group of samples, optional
        Whose samples count, as `pos` or `neg.group("A")`; None for all.
    start : float or Param, optional
        The margin below which a sample has a loss, of any sign.

    Notes
    -----
    Sun (2024), equation (1); Ito, Takeda and Toh (2015), section 5.2.

    Examples
    --------
    >>> import ucm
    >>> ucm.Hinge(2).value([0.0, 3.0])
    1.0
    >>> ucm.Hinge(on=ucm.pos) + 3 * ucm.Hinge(2, on=ucm.neg)
    Hinge(on=pos) + 3 * Hinge(p=2, on=neg)
    >>> ucm.Hinge(start=0.5).value([0.25, 3.0])
    0.25
    """

    p: float = number_in("[1, inf)", "p", "write Hinge(p=1.5)", default=1.0)
    start: Scalar = number_in("(-inf, inf)", "start", "leave it out for 1", default=1.0, kw_only=True)

    @property
    def offset(self) -> float:
        return value(self.start)

    def slope(self) -> float | None:
        return 1.0 if self.p == 1.0 else None

    def smooth(self) -> bool:
        return self.p >= 2.0

    def each(self, margin: Vec) -> Vec:
        return np.maximum(0.0, self.offset - margin) ** self.p

    def conjugate(self, s: Vec) -> Vec:
        s = np.asarray(s, dtype=float)
        if self.p == 1.0:
            return np.where((s >= 0.0) & (s <= 1.0), 0.0, np.inf)
        part = np.maximum(s, 0.0) / self.p
        with np.errstate(over="ignore"):  # the last power is a square for p = 1.5, fast in NumPy
            power = (self.p - 1.0) * part * part ** (1.0 / (self.p - 1.0))
        return np.where(s >= 0.0, power, np.inf)

    def conjugate_prox(self, v: Vec, t: Bound) -> Vec:
        v = np.atleast_1d(np.asarray(v, dtype=float))
        if self.p == 1.0:
            return np.clip(v, 0.0, 1.0)
        e = 1.0 / (self.p - 1.0)  # the derivative of l* is (s/p)^e
        return power_root(v, t * self.p**-e, e)

    def conjugate_prox_slope(self, v: Vec, t: Bound, s: Vec) -> Vec:
        if self.p == 1.0:
            return ((v > 0.0) & (v < 1.0)).astype(float)
        difference = np.maximum(v - s, 0.0)  # t (s/p)^e, and l*''(s) = (s/p)^e e / s
        return np.divide(s, s + difference / (self.p - 1.0), out=np.zeros_like(s), where=s > 0.0)

    def gradient(self, u: Vec) -> Vec:
        u = np.asarray(u, dtype=float)
        if self.p == 1.0:
            return (u > 0.0).astype(float)
        return self.p * np.maximum(u, 0.0) ** (self.p - 1.0)

    def conjugate_cvxpy(self, s: cp.Expression) -> tuple[cp.Expression, list[cp.Constraint]]:
        if self.p == 1.0:
            return 0.0 * s, [s >= 0, s <= 1]
        power = cp.power(s / self.p, self.p / (self.p - 1.0), approx=False)
        return (self.p - 1.0) * power, [s >= 0]

    def cvxpy(self, margin: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        if isinstance(self.start, Expression):  # f max(0, start - t)^p = max(0, c start - c t)^p keeps it DPP
            c = factor if self.p == 1.0 else factor ** (1.0 / self.p)
            factor, short = 1.0, cp.pos(scope.of(c * self.start, signed=True) - scope.of(c) * margin)
        else:
            short = cp.pos(self.start - margin)
        if self.p != 1.0:
            short = cp.square(short) if self.p == 2.0 else cp.power(short, self.p, approx=False)
        return scope.of(factor) * short

    def formula(self, notation: Notation) -> str:
        term = _plus(self.start, notation)
        return self.over(term if self.p == 1.0 else notation.power(term, f"{self.p:.6g}"), notation)


def SquaredHinge(*, on: Samples | None = None) -> Hinge:
    """The squared hinge loss `sum max(0, 1 - margin)^2`, which is `Hinge(2)`.

    `SquaredHinge() + lam * L2()` is `sklearn.svm.LinearSVC(C=1 / (2 lam))`, except that the intercept is not
    penalised.

    Parameters
    ----------
    on : pos, neg or a group of samples, optional
        Whose samples count, as `pos` or `neg.group("A")`; None for all.

    Examples
    --------
    >>> import ucm
    >>> ucm.SquaredHinge()
    Hinge(p=2)
    """
    return Hinge(2.0, on=on)


class HuberHinge(SubsetLoss, ConvexLoss):
    """The Huberised hinge loss: the Moreau envelope of `Hinge()` with parameter delta.

    It is 0 for margins t >= 1, `(1 - t)^2 / (2 delta)` for `1 - delta < t < 1`, and `1 - t - delta / 2`
    below. Its gradient has the Lipschitz constant 1 / delta; it tends to `Hinge()` as delta goes to 0.
    `l*(s) = delta s^2 / 2` on [0, 1].

    Parameters
    ----------
    delta : float or Param, optional
        Positive, in units of the margin.
    on : pos, neg or a group of samples, optional
        Whose samples count, as `pos` or `neg.group("A")`; None for all.

    Notes
    -----
    Wang, Zhu and Zou (2008), Hybrid huberized support vector machines for microarray classification,
    equation (4).

    Examples
    --------
    >>> import ucm
    >>> ucm.HuberHinge(0.5).value([2.0, 0.75, 0.0])
    0.8125
    """

    delta: Scalar = number_in("(0, inf)", "delta", "for a kink write Hinge()", default=1.0)

    @property
    def offset(self) -> float:
        return 1.0

    def smooth(self) -> bool:
        return True

    def each(self, margin: Vec) -> Vec:
        delta, u = value(self.delta), np.maximum(1.0 - margin, 0.0)
        clipped = np.minimum(u, delta)
        return u - clipped + 0.5 * clipped * clipped / delta

    def conjugate(self, s: Vec) -> Vec:
        s = np.asarray(s, dtype=float)
        return np.where((s >= 0.0) & (s <= 1.0), 0.5 * value(self.delta) * s * s, np.inf)

    def conjugate_prox(self, v: Vec, t: Bound) -> Vec:
        return np.clip(np.asarray(v, dtype=float) / (1.0 + t * value(self.delta)), 0.0, 1.0)

    def conjugate_prox_slope(self, v: Vec, t: Bound, s: Vec) -> Vec:
        return ((s > 0.0) & (s < 1.0)) / (1.0 + t * value(self.delta))

    def gradient(self, u: Vec) -> Vec:
        return np.clip(np.asarray(u, dtype=float) / value(self.delta), 0.0, 1.0)

    def conjugate_cvxpy(self, s: cp.Expression) -> tuple[cp.Expression, list[cp.Constraint]]:
        return 0.5 * value(self.delta) * cp.square(s), [s >= 0, s <= 1]

    def cvxpy(self, margin: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        # f l(u) = huber(c u, c delta) / 2 with c^2 = f / delta: parameters stand inside only
        c = scope.of((factor / self.delta) ** 0.5)
        return 0.5 * cp.huber(cp.pos(c - c * margin), scope.of((factor * self.delta) ** 0.5))

    def formula(self, notation: Notation) -> str:
        name = notation.sub(notation.word("huber"), notation.scalar(self.delta))
        return self.over(f"{name}({_plus(1.0, notation)})", notation)


class Ramp(SubsetLoss, PointwiseLoss):
    """The ramp loss, `sum (max(0, mu - t) - max(0, -mu^2 - t)) / mu` at the margins t.

    It is 0 from t = mu on, 1 + mu below t = -mu^2, a straight line between; it bounds the 0-1 loss
    from above and tends to it as mu goes to 0.

    Parameters
    ----------
    mu : float or Param, optional
        0 < mu <= 1.
    on : pos, neg or a group of samples, optional
        Whose samples count, as `pos` or `neg.group("A")`; None for all.

    Notes
    -----
    Ong and Le Thi (2013), equations (2) and (3); mu = 0 is excluded, (3) divides by it.

    Examples
    --------
    >>> import ucm
    >>> ucm.Ramp().value([-3.0, 0.0, 2.0])
    3.0
    """

    mu: Scalar = number_in(
        "(0, 1]", "mu", "1 is the truncated hinge loss, a smaller mu is closer to the 0-1 loss", default=1.0
    )

    def each(self, margin: Vec) -> Vec:
        mu = value(self.mu)
        return np.clip(mu - margin, 0.0, mu + mu * mu) / mu

    def split(self) -> tuple[tuple[ConvexLoss, ...], tuple[ConvexLoss, ...]]:
        ends = (self.mu, -(self.mu**2))
        added, subtracted = (multiplied(1.0 / self.mu, Hinge(start=end, on=self.on)) for end in ends)
        return (added,), (subtracted,)

    def formula(self, notation: Notation) -> str:
        both = " - ".join(_plus(end, notation) for end in (self.mu, -(self.mu**2)))
        return multiple(1.0 / self.mu, self.over(f"({both})", notation), notation)


# --- differentiable losses ---------------------------------------------------------------------------
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
        v, zero = np.asarray(v, dtype=float), np.equal(t, 0.0)
        if np.any(zero):
            return np.where(zero, np.clip(v, 0.0, 1.0), self.conjugate_prox(v, np.where(zero, 1.0, t)))
        upper = v >= 0.5
        x = np.where(upper, v, 1.0 - v)
        with np.errstate(over="ignore", invalid="ignore"):  # z may be inf for a tiny t
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
        with np.errstate(all="ignore"):
            s = t * wrightomega(v / t - np.log(t))  # s + t log s = v
        return np.where(np.isfinite(s), s, np.maximum(v, 0.0))  # t is 0, or v / t overflows

    def conjugate_prox_slope(self, v: Vec, t: Bound, s: Vec) -> Vec:
        with np.errstate(over="ignore"):
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
