"""The hinge loss and its powers."""

from __future__ import annotations

import numpy as np

from ucm import native
from ucm.data.linear import Vec
from ucm.errors import CompositionError, brief
from ucm.language import cvx as cp
from ucm.language.node import Notation
from ucm.language.parameter import Scalar, Scope
from ucm.language.statistics.samples import Samples
from ucm.language.terms import Bound, ConvexLoss, OfSamples

__all__ = ["Hinge", "SquaredHinge"]


class Hinge(OfSamples, ConvexLoss):
    """The p-hinge loss, `sum max(0, 1 - margin)^p`.

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

    Raises
    ------
    CompositionError
        p is no plain number of at least 1, or `on` no class.

    Notes
    -----
    Sun (2024), equation (1); Ito, Takeda and Toh (2015), section 5.2.

    Examples
    --------
    >>> import ucm
    >>> ucm.Hinge(2).value([0.0, 3.0])
    1.0
    >>> ucm.solve(ucm.Hinge() + 0.5 * ucm.L2(), *ucm.datasets.load("wine")).status
    'optimal'
    >>> ucm.Hinge(on=ucm.pos) + 3 * ucm.Hinge(2, on=ucm.neg)
    Hinge(on=pos) + 3 * Hinge(p=2, on=neg)
    """

    p: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1.0 <= self.p < np.inf:
            raise CompositionError(
                f"Hinge: p is a plain number with 1 <= p < inf, got {brief(self.p)}; write Hinge(p=1.5)"
            )

    @property
    def offset(self) -> float:
        return 1.0

    def slope(self) -> float | None:
        return 1.0 if self.p == 1.0 else None

    def smooth(self) -> bool:
        return self.p >= 2.0

    def each(self, margin: Vec) -> Vec:
        return np.maximum(0.0, 1.0 - margin) ** self.p

    def conjugate(self, s: Vec) -> Vec:
        s = np.asarray(s, dtype=float)
        if self.p == 1.0:
            return np.where((s >= 0.0) & (s <= 1.0), 0.0, np.inf)
        dual = self.p / (self.p - 1.0)
        with np.errstate(over="ignore"):
            power = (self.p - 1.0) * (np.maximum(s, 0.0) / self.p) ** dual
        return np.where(s >= 0.0, power, np.inf)

    def conjugate_prox(self, v: Vec, t: Bound) -> Vec:
        v = np.ascontiguousarray(v, dtype=float)
        if self.p == 1.0:
            return np.clip(v, 0.0, 1.0)
        e = 1.0 / (self.p - 1.0)  # the derivative of l* is (s/p)^e
        s = np.empty_like(v)
        native.power_root(v, np.atleast_1d(t * self.p**-e), e, s)
        return s

    def conjugate_prox_slope(self, v: Vec, t: Bound, s: Vec) -> Vec:
        if self.p == 1.0:
            return ((v > 0.0) & (v < 1.0)).astype(float)
        rest = np.maximum(v - s, 0.0)  # t (s/p)^e, and l*''(s) = (s/p)^e e / s
        return np.divide(s, s + rest / (self.p - 1.0), out=np.zeros_like(s), where=s > 0.0)

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
        short = cp.pos(1.0 - margin)
        if self.p != 1.0:
            short = cp.square(short) if self.p == 2.0 else cp.power(short, self.p, approx=False)
        return scope.of(factor) * short

    def formula(self, notation: Notation) -> str:
        t = notation.sub("t", "i")
        term = f"{notation.word('max')}(0, 1 - {t})"
        if self.p != 1.0:
            term = notation.power(term, f"{self.p:.6g}")
        return self.over(term, notation)


def SquaredHinge(*, on: Samples | None = None) -> Hinge:
    """The squared hinge loss, `Hinge(2)`.

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
