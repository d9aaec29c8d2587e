"""What one pass over all rows proves of hinge losses with the squared l2 norm.

With slopes `0 <= a_i` (`<= C_c` for p = 1), `A_c` their sums over a class and `V_c = sum a_i x_i`, Fenchel's
inequality gives for any `s >= 0`, the slopes of each class brought to the sum s,

    optimum  >=  2 s - sum_c (s / A_c)^p' B_c - s^2 ||V_+ / A_+ - V_- / A_-||^2 / (4 lam),

`1/p + 1/p' = 1`, `B_c = C_c (p - 1) sum (a_i / (C_c p))^p'`; Sun (2024), equation (17). The best s is that of
a concave function of one number. All sums are over rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear import Vec
from ucm.forms.rows import RowHinge
from ucm.forms.solution import Certificate

__all__ = ["HingeProof", "hinge_proven"]


@dataclass(frozen=True)
class HingeProof:
    """What the last pass over the rows told, by class.

    Attributes
    ----------
    w, b : normal and bias
    losses : the sums of `max(0, 1 - margin)^p`
    slopes, conjugates, points : A, B and V; None where no slopes are known yet
    rows : what knows the slopes, where they are
    """

    w: Vec
    b: float
    losses: Any
    slopes: Any = None
    conjugates: Any = (0.0, 0.0)
    points: NDArray[np.float64] | None = None
    rows: Any = None


def hinge_proven(form: RowHinge, proof: HingeProof) -> Certificate:
    """The certificate of a pass."""
    primal = form.lam * float(proof.w @ proof.w) + float(np.dot(form.C, proof.losses))
    if proof.slopes is None or proof.points is None:
        return Certificate(primal, 0.0, primal, 1.0, 0.0)
    dual, A = 0.0, np.asarray(proof.slopes, dtype=np.float64)
    if A.min() > 0.0:
        d = proof.points[0] / A[0] - proof.points[1] / A[1]
        dual = _best(form.p, A, np.asarray(proof.conjugates), float(d @ d) / (4.0 * form.lam))
    gap = primal - dual
    return Certificate(primal, dual, gap, gap / max(abs(primal), 1e-300), 0.0)


def _best(p: float, A: Vec, B: Vec, Q: float) -> float:
    """The largest `2 s - sum (s / A)^p' B - s^2 Q`; for p = 1 over `s <= min A`."""
    if p == 1.0:
        s = min(float(A.min()), 1.0 / Q) if Q > 0.0 else float(A.min())
        return 2.0 * s - s * s * Q
    power = p / (p - 1.0)
    K = B / A**power

    def slope(s: float) -> float:
        return 2.0 - power * s ** (power - 1.0) * float(K.sum()) - 2.0 * s * Q

    low, high = 0.0, float(A.min())
    while slope(high) > 0.0 and high < 1e300:
        low, high = high, 2.0 * high
    for _ in range(100):
        s = 0.5 * (low + high)
        low, high = (s, high) if slope(s) > 0.0 else (low, s)
    return 2.0 * low - low**power * float(K.sum()) - low * low * Q
