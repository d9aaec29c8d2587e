"""Projection on the capped simplex, by the root of `ucm.numerics.root`."""

from __future__ import annotations

import numpy as np
from numba import types

from ucm.numerics._cache import mark
from ucm.numerics._jit import READ, WRITE, f8, inner, jit
from ucm.numerics.root import bracket, newton, solve

__all__ = ["newton", "pack", "project_capped", "start", "threshold"]

_SAMPLE = 4096
_PAIR = types.UniTuple(f8, 2)


@inner()
def start(v, cap, mass):
    """The root for a strided sample of v, with its share of the mass."""
    stride = v.size // _SAMPLE
    sample = v[: stride * _SAMPLE : stride].copy()
    mass *= sample.size / v.size
    lo, hi = bracket(sample, mass)
    x, step, _, _, _ = newton(sample, lo, hi, 0.5 * (lo + hi), cap, mass)
    return x + step


@jit(_PAIR(READ, f8, f8))
def threshold(v, cap, mass):
    """`(ref, shift)` with `sum clip((v - ref) - shift, 0, cap) = mass`; ref = -inf: all capped."""
    guess = start(v, cap, mass) if v.size >= 4 * _SAMPLE else np.nan
    return solve(v, cap, mass, guess)


@inner()
def pack(v, classes, out):
    """Entries of class +1 first, then those of class -1 in reverse; returns how many are +1."""
    head = 0
    tail = v.size - 1
    for i in range(v.size):
        out[head] = v[i]
        out[tail] = v[i]
        is_positive = classes[i] > 0.0
        head += is_positive
        tail -= not is_positive
    return head


@jit(types.void(READ, READ, f8, f8, WRITE))
def project_capped(v, classes, cap_pos, cap_neg, out):
    """The nearest q with 0 <= q <= cap and mass 1, or mass 1/2 in each class. out may be v."""
    if classes.size == 0:
        ref, shift = threshold(v, cap_pos, 1.0)
        for i in range(v.size):
            t = (v[i] - ref) - shift
            t = t if t > 0.0 else 0.0
            out[i] = t if t < cap_pos else cap_pos
        return
    packed = np.empty(v.size)
    m = pack(v, classes, packed)
    ref_pos, shift_pos = threshold(packed[:m], cap_pos, 0.5)
    ref_neg, shift_neg = threshold(packed[m:], cap_neg, 0.5)
    for i in range(v.size):
        is_positive = classes[i] > 0.0
        ref = ref_pos if is_positive else ref_neg
        shift = shift_pos if is_positive else shift_neg
        cap = cap_pos if is_positive else cap_neg
        t = (v[i] - ref) - shift
        t = t if t > 0.0 else 0.0
        out[i] = t if t < cap else cap


mark(__name__)
