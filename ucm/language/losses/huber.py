"""The Huberised hinge loss."""

from __future__ import annotations

import numpy as np

from ucm.data.linear import Vec
from ucm.errors import CompositionError
from ucm.language import cvx as cp
from ucm.language.node import Notation, Scalar, value
from ucm.language.parameter import Scope, as_declared, shown
from ucm.language.terms import Bound, ConvexLoss, OfSamples

__all__ = ["HuberHinge"]


class HuberHinge(OfSamples, ConvexLoss):
    """The Huberised hinge loss: the Moreau envelope of `Hinge()`.

    It is 0 for margins t >= 1, `(1 - t)^2 / (2 delta)` for `1 - delta < t < 1`, and `1 - t - delta / 2`
    below. Its gradient has the Lipschitz constant 1 / delta; it tends to `Hinge()` as delta goes to 0.
    `l*(s) = delta s^2 / 2` on [0, 1].

    Parameters
    ----------
    delta : float or Param, optional
        Positive, in units of the margin.
    on : pos, neg or a group of samples, optional
        Whose samples count, as `pos` or `neg.group("A")`; None for all.

    Raises
    ------
    CompositionError
        delta is not positive and finite.

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

    delta: Scalar = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < as_declared(self.delta) < np.inf:
            raise CompositionError(
                f"HuberHinge: delta is positive and finite, got {shown(self.delta)}; for a kink write Hinge()"
            )

    @property
    def offset(self) -> float:
        return 1.0

    def smooth(self) -> bool:
        return True

    def each(self, margin: Vec) -> Vec:
        delta, u = value(self.delta), np.maximum(1.0 - margin, 0.0)
        bent = np.minimum(u, delta)
        return u - bent + 0.5 * bent * bent / delta

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
        t = notation.sub("t", "i")
        name = notation.sub(notation.word("huber"), notation.scalar(self.delta))
        return self.over(f"{name}({notation.word('max')}(0, 1 - {t}))", notation)
