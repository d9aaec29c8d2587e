"""Bounds for losses with the squared l2 norm from one pass over all rows.

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

from ucm.data.linear_map import Vec
from ucm.evidence.feasible_point import INSIDE
from ucm.evidence.objective import of_objective
from ucm.evidence.row_hulls import PASS
from ucm.forms.out_of_core import RowLosses
from ucm.forms.solution import Certificate

__all__ = ["LossProof", "losses_proven", "tangent_gap"]


@dataclass(frozen=True)
class LossProof:
    """The sums of the last pass over the rows.

    Attributes
    ----------
    w, b : normal and bias
    loss : the sum of all losses
    slopes, gains, points : by class A, `O - B` and V; None if no slopes are known yet
    rows : the slopes of all rows
    tail : the sum of the subtracted losses
    rest : by class the sums of their slopes g_i, and of `g_i x_i`; None without subtracted losses
    near : the least distance of a margin from the kink of the subtracted loss
    """

    w: Vec
    b: float
    loss: float
    slopes: Any = None
    gains: Any = None
    points: NDArray[np.float64] | None = None
    rows: Any = None
    tail: float = 0.0
    rest: tuple[Vec, NDArray[np.float64]] | None = None
    near: float = 0.0

    @property
    def tangent(self) -> float:
        """The value at zero margins of the tangent of the subtracted function."""
        if self.rest is None:
            return 0.0
        own, at = self.rest
        sums = float(own[0] - own[1]) * self.b + float((at[0] - at[1]) @ self.w)
        return float(self.tail) + sums


def losses_proven(form: RowLosses, proof: LossProof) -> Certificate:
    """Return the certificate of a pass."""
    primal = form.penalty.value(proof.w) + float(proof.loss) - float(proof.tail)
    primal -= sum(h.value(proof.w) for h in form.taken)
    dual, missed = _lower_bound(form, proof)
    kind = "global" if form.convex else "local"
    return of_objective(primal, dual, missed, form.at_rest, kind=kind, wrong=PASS)


def _balance(A: Vec) -> Vec:
    """Return the largest parts f <= 1 with `f_1 A_1 = f_2 A_2`; 0 for two signs."""
    return A[np.abs(A).argmin()] / A if A[0] * A[1] > 0.0 else np.zeros(2)


def _lower_bound(form: RowLosses, proof: LossProof) -> tuple[float, float]:
    """Return the lower bound of the convex problem with the tangent at w and b of the subtracted terms, and
    the distance of its dual point from the domain of R*.

    With `g_i` the slopes of the subtracted loss, which the other loss can have too, and parts f_c of
    `a_i - g_i` for which `y'(a - g) = 0`,

        sum_i o g_i + sum_c f_c (O_c - B_c + Z_c - o sum_i g_i) - Z_c
        -  R*(sum_i y_i f (a_i - g_i) x_i + u)  -  tangent at 0,

    u a subgradient of h at w; with subtracted terms the losses are piecewise linear and `B = Z = 0`.
    """
    offset, w = form.losses[0][0].offset, proof.w
    slopes, points, gains = np.zeros(2), np.zeros((2, form.n)), np.zeros(2)
    own, at = slopes, points
    if proof.rest is not None:
        own, at = proof.rest
    at_zero = sum(
        np.array(C) * form.data.counts * float(loss.conjugate(np.zeros(1))[0])
        for loss, C in form.losses
    )
    if proof.slopes is not None and proof.points is not None:
        slopes, points = np.asarray(proof.slopes) - own, proof.points - at
        gains = proof.gains - offset * own + at_zero
    f = _balance(slopes)
    if form.lam is not None:  # the best multiple is known
        d = f[0] * points[0] - f[1] * points[1]
        gain, cost = float(f @ gains), float(d @ d) / (2.0 * form.lam)
        f = f * (np.clip(gain / cost, 0.0, 1.0) if cost > 0.0 else float(gain > 0.0))
    u = sum((h.subgradient(w) for h in form.taken), start=np.zeros(form.n))
    z = f[0] * points[0] - f[1] * points[1]

    def size() -> float:
        return form.data.scale * float((np.abs(slopes) + np.abs(own)).sum())

    height, share, missed = form.penalty.conjugate_bound(z, u, size, w)
    least = offset * float(own.sum()) - float(np.sum(at_zero))
    bound = least + share * float(f @ gains) - height
    # f = 0 is a dual point too, because penalties are not negative
    if not form.taken and (missed > INSIDE or not bound > least):
        bound, missed = least, 0.0
    tangent = proof.tangent + sum(h.value(w) for h in form.taken) - float(u @ w)
    return bound - tangent, missed


def tangent_gap(form: RowLosses, at: LossProof, proof: LossProof) -> float:
    """Return the relative gap of w and b in the convex problem with the tangent of the subtracted terms at
    another point.

    Parameters
    ----------
    at : the point of the tangent, with slopes
    """
    own, sums = (np.zeros(2), np.zeros((2, form.n))) if at.rest is None else at.rest
    value = form.penalty.value(proof.w) + proof.loss - at.tangent
    value += float(own[0] - own[1]) * proof.b + float((sums[0] - sums[1]) @ proof.w)
    for h in form.taken:
        value -= h.value(at.w) + float(h.subgradient(at.w) @ (proof.w - at.w))
    return (value - _lower_bound(form, at)[0]) / max(abs(value), 1e-300)
