"""The sign constraint."""

from __future__ import annotations

import numpy as np

from ucm.language import cvx as cp
from ucm.language.node import Notation
from ucm.language.parameter import Scalar, Scope
from ucm.language.terms import Bound, Boxed

__all__ = ["NonNegative"]


class NonNegative(Boxed):
    """The constraint `w >= 0` as a penalty: 0 if it holds, else infinite.

    Use it where the sign of every effect is known: a feature may only speak for class +1. Turn the sign of
    a feature for the opposite.

    Notes
    -----
    Parikh and Boyd (2014), Proximal algorithms, section 6.4.

    Examples
    --------
    >>> import ucm
    >>> ucm.NonNegative().value([3.0, 0.0]), ucm.NonNegative().value([3.0, -1.0])
    (0.0, inf)
    """

    def box(self) -> tuple[Bound, Bound]:
        return -np.inf, 0.0

    def cvxpy(self, w: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        return cp.indicator([w >= 0])

    def formula(self, notation: Notation) -> str:
        return f"{notation.word('ind')}(w{notation.geq}0)"
