"""Nearest points of reduced hulls by gradient projection and conjugate gradients on faces.

Where most weights are free and their Gram matrix is well conditioned, as behind a narrow kernel, a system of
their order takes long, and some tens of products with the matrix solve it: the method of Moré and Toraldo
(1991), "On the solution of large quadratic programming problems with bound constraints".
"""

from __future__ import annotations

import numpy as np

from ucm.data.linear import Vec
from ucm.forms.monitor import Monitor
from ucm.forms.nearest import HullsByRows

__all__ = ["on_faces"]

_ROUNDS, _STEPS = 100, 30  # of both parts; of conjugate gradients on a face
_GAIN = 0.1  # of the best step on a face: a smaller one ends it
_FALL = 0.1  # of the fall that the slope promises, at least
_SHORT, _LONGER, _SHORTER = 0.6, 1.5, 0.3  # the step of gradients, by the part of it that was taken
_LEAST = 1e-3  # of a step to the end of a face
_ROUNDING = 1e-14  # of a bound


def on_faces(hulls: HullsByRows, a: Vec, monitor: Monitor) -> Vec:
    """Weights from the weights a, to the tolerance of the monitor, or as far as `_ROUNDS` lead.

    A round is a step along the projected gradient, exact on its segment, which changes the face, then
    conjugate gradients on the face, whose sum is projected.

    Parameters
    ----------
    hulls : over samples whose Gram matrix is there
    """
    K, s, top = hulls.gram.X, hulls.s, hulls.cap[hulls.group]
    step = 1.0 / float(np.mean(hulls.gram.diagonal) or 1.0)

    def times(v: Vec) -> Vec:
        return s * (K @ (s * v))

    p = a.copy()
    F = hulls.pull + times(p)
    for _ in range(_ROUNDS):
        W = hulls.norm(p, F)
        if float(hulls.gaps(p, F).sum()) <= monitor.tol * W * W or monitor.late:
            break
        d = hulls.nearest(p - step * F) - p
        Hd = times(d)
        slope, curve = float(F @ d), float(d @ Hd)
        if slope >= 0.0:  # but for rounding there is nothing to gain
            break
        part = min(1.0, -slope / curve) if curve > 0.0 else 1.0
        p, F = p + part * d, F + part * Hd
        p = np.where(p <= _ROUNDING * top, 0.0, np.where(p >= (1.0 - _ROUNDING) * top, top, p))
        step *= _LONGER if part == 1.0 else max(part, _SHORTER) if part < _SHORT else 1.0
        z, Hz = _on_face(hulls, p, F, top)
        part = 1.0
        while True:
            d = hulls.nearest(p + part * z) - p
            Hd = Hz if part == 1.0 and np.allclose(d, z, rtol=0.0, atol=1e-15) else times(d)
            slope = float(F @ d)
            fall = slope + 0.5 * float(d @ Hd)
            if fall <= _FALL * slope or part < _LEAST:
                break
            part *= 0.5
        if fall < 0.0:
            p, F = p + d, F + Hd
    return p


def _on_face(hulls: HullsByRows, p: Vec, F: Vec, top: Vec) -> tuple[Vec, Vec]:
    """The sum z of steps of conjugate gradients among the free weights, their masses kept, and its product
    with the Hessian."""
    K, s, groups = hulls.gram.X, hulls.s, hulls.mass.size
    free = (p > 0.0) & (p < top)
    count = np.maximum(np.bincount(hulls.group[free], minlength=groups), 1)

    def kept(v: Vec) -> Vec:
        v = np.where(free, v, 0.0)
        mean = np.bincount(hulls.group, v, minlength=groups) / count
        return np.where(free, v - mean[hulls.group], 0.0)

    z, Hz, best = np.zeros_like(p), np.zeros_like(p), 0.0
    r = kept(-F)
    d, square = r, float(r @ r)
    for k in range(_STEPS):
        Hd = s * (K @ (s * d))
        curve = float(d @ Hd)
        if not curve > 0.0:
            break
        length = square / curve
        z, Hz = z + length * d, Hz + length * Hd
        fall = 0.5 * square * length
        best = max(best, fall)
        q = p + z
        if fall <= _GAIN * best or (k > 0 and bool(((q < 0.0) | (q > top)).any())):
            break
        r = kept(-F - Hz)
        before, square = square, float(r @ r)
        d = r + (square / before) * d
    return z, Hz
