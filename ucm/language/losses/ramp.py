"""The ramp loss and its two convex parts."""

from __future__ import annotations

import numpy as np

from ucm.data.linear import Vec
from ucm.errors import CompositionError
from ucm.language import cvx as cp
from ucm.language.node import Expression, Node, Notation, Scalar, value
from ucm.language.parameter import Scope, as_declared, shown
from ucm.language.terms import Bound, ConvexLoss, OfSamples, PointwiseLoss

__all__ = ["Ramp", "RampPart"]


class Ramp(OfSamples, PointwiseLoss):
    """The ramp loss, `sum (max(0, mu - t) - max(0, -mu^2 - t)) / mu` at the margins t.

    It is 0 from t = mu on, 1 + mu below t = -mu^2, a straight line between; it bounds the 0-1 loss
    from above and tends to it as mu goes to 0.

    Parameters
    ----------
    mu : float or Param, optional
        0 < mu <= 1.
    on : pos, neg or a group of samples, optional
        Whose samples count, as `pos` or `neg.group("A")`; None for all.

    Raises
    ------
    CompositionError
        mu outside (0, 1].

    Notes
    -----
    Ong and Le Thi (2013), equations (2) and (3); mu = 0 is excluded, (3) divides by it.

    Examples
    --------
    >>> import ucm
    >>> ucm.Ramp().value([-3.0, 0.0, 2.0])
    3.0
    """

    mu: Scalar = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self, self.mu)

    def each(self, margin: Vec) -> Vec:
        mu = value(self.mu)
        return np.clip(mu - margin, 0.0, mu + mu * mu) / mu

    def split(self) -> tuple[tuple[ConvexLoss, ...], tuple[ConvexLoss, ...]]:
        return (RampPart(self.mu, on=self.on),), (RampPart(self.mu, tail=True, on=self.on),)

    def formula(self, notation: Notation) -> str:
        start, t = notation.scalar(self.mu), notation.sub("t", "i")
        both = f"{_plus(notation, start, t)} - {_plus(notation, _tail(notation, self.mu), t)}"
        return _over(notation, self.mu, self.over(f"({both})", notation))


class RampPart(OfSamples, ConvexLoss):
    """`sum max(0, mu - t) / mu`, or its tail `sum max(0, -mu^2 - t) / mu`: the ramp loss is their
    difference.

    Parameters
    ----------
    mu : float or Param
    tail : bool, optional
    on : pos or neg, optional

    Raises
    ------
    CompositionError
        mu outside (0, 1].

    Notes
    -----
    Ong and Le Thi (2013), equation (3).
    """

    mu: Scalar
    tail: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self, self.mu)

    @property
    def offset(self) -> float:
        mu = value(self.mu)
        return -mu * mu if self.tail else mu

    def slope(self) -> float | None:
        return 1.0 / value(self.mu)

    def each(self, margin: Vec) -> Vec:
        return np.maximum(0.0, self.offset - margin) / value(self.mu)

    def conjugate(self, s: Vec) -> Vec:
        s = np.asarray(s, dtype=float)
        return np.where((s >= 0.0) & (s <= 1.0 / value(self.mu)), 0.0, np.inf)

    def conjugate_prox(self, v: Vec, t: Bound) -> Vec:
        return np.clip(np.asarray(v, dtype=float), 0.0, 1.0 / value(self.mu))

    def conjugate_prox_slope(self, v: Vec, t: Bound, s: Vec) -> Vec:
        return ((v > 0.0) & (v < 1.0 / value(self.mu))).astype(float)

    def gradient(self, u: Vec) -> Vec:
        return (np.asarray(u, dtype=float) > 0.0) / value(self.mu)

    def conjugate_cvxpy(self, s: cp.Expression) -> tuple[cp.Expression, list[cp.Constraint]]:
        return 0.0 * s, [s >= 0, s <= 1.0 / value(self.mu)]

    def cvxpy(self, margin: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        # f max(0, mu - t) / mu = max(0, f - (f / mu) t), and with the tail max(0, -f mu - (f / mu) t)
        steep = scope.of(factor / self.mu)
        if self.tail:
            return cp.pos(-scope.of(factor * self.mu) - steep * margin)
        return cp.pos(scope.of(factor) - steep * margin)

    def formula(self, notation: Notation) -> str:
        t = notation.sub("t", "i")
        start = _tail(notation, self.mu) if self.tail else notation.scalar(self.mu)
        return _over(notation, self.mu, self.over(_plus(notation, start, t), notation))


def _check(node: Node, mu: Scalar) -> None:
    if not 0.0 < as_declared(mu) <= 1.0:
        raise CompositionError(
            f"{type(node).__name__}: mu lies in (0, 1], got {shown(mu)}; mu = 1 is the truncated hinge "
            "loss, a smaller mu is closer to the 0-1 loss"
        )


def _plus(notation: Notation, start: str, t: str) -> str:
    return f"{notation.word('max')}(0, {start} - {t})"


def _tail(notation: Notation, mu: Scalar) -> str:
    if isinstance(mu, Expression):
        return "-" + notation.power(notation.scalar(mu), "2")
    return notation.scalar(-mu * mu)


def _over(notation: Notation, mu: Scalar, total: str) -> str:
    """`total / mu`."""
    if isinstance(mu, Expression):
        return notation.fraction("1", notation.scalar(mu)) + notation.times + total
    return total if mu == 1.0 else notation.scalar(1.0 / mu) + notation.times + total
