"""What one pass over all rows proves of losses with the squared l2 norm.

With slopes `a_i = sum_k a_ki` in the domains of the conjugates, `A_c` their sums over a class and `V_c` those
of `a_i x_i`, Fenchel's inequality gives for parts `0 <= f_c <= 1` of them with `f_+ A_+ = f_- A_-`, as l* is
convex,

    optimum  >=  sum_c f_c (O_c - B_c + Z_c) - Z_c  -  ||f_+ V_+ - f_- V_-||^2 / (4 lam),

`O_c = sum_k o_k a_ki`, `B_c = sum C_kc l_k*(a_ki / C_kc)`, `Z_c = sum C_kc l_k*(0)`, over the samples i of
class c; for powers of the hinge loss Sun (2024), equation (17). All sums are over rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear import Vec
from ucm.forms.rows import RowLosses
from ucm.forms.solution import Certificate

__all__ = ["LossProof", "at_rest", "losses_proven"]


@dataclass(frozen=True)
class LossProof:
    """What the last pass over the rows told.

    Attributes
    ----------
    w, b : normal and bias
    loss : the sum of all losses
    slopes, gains, points : by class A, `O - B` and V; None where no slopes are known yet
    rows : what knows the slopes, where they are
    """

    w: Vec
    b: float
    loss: float
    slopes: Any = None
    gains: Any = None
    points: NDArray[np.float64] | None = None
    rows: Any = None


def losses_proven(form: RowLosses, proof: LossProof) -> Certificate:
    """The certificate of a pass."""
    primal = form.lam * float(proof.w @ proof.w) + float(proof.loss)
    conjugates = np.zeros(2)
    for loss, C in form.losses:
        conjugates += np.array(C) * form.data.totals * float(loss.conjugate(np.zeros(1))[0])
    dual = -float(conjugates.sum())
    if proof.slopes is not None and proof.points is not None:
        A = np.asarray(proof.slopes, dtype=np.float64)
        if A[0] * A[1] > 0.0:
            f = A[np.abs(A).argmin()] / A
            d = f[0] * proof.points[0] - f[1] * proof.points[1]
            gain, cost = float(f @ (proof.gains + conjugates)), float(d @ d) / (4.0 * form.lam)
            part = (
                float(np.clip(gain / (2.0 * cost), 0.0, 1.0)) if cost > 0.0 else float(gain > 0.0)
            )
            dual += part * gain - part * part * cost
    gap = primal - dual
    return Certificate(primal, dual, gap, gap / max(abs(primal), 1e-300), 0.0)


def at_rest(form: RowLosses) -> float:
    """The objective at w = 0 and b = 0."""
    return sum(
        float(np.dot(C, form.data.totals)) * float(loss.each(np.zeros(1))[0])
        for loss, C in form.losses
    )
