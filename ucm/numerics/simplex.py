"""Projection on the capped simplex: the root theta of `sum clip(v - theta, 0, cap) = mass`.

The sum is piecewise linear and non-increasing in theta, and both its sets, {v > theta} and
{v >= theta + cap}, shrink as theta grows: equal counts at two points mean equal sets, hence one
linear piece, on which Newton's step is exact. Every pass over the data is branch-free, so that it
vectorises; sorting would cost more than all passes together.

theta is returned as an unevaluated sum `ref + shift`: with entries near 1e12 a single double would
leave an error of 1e-4 in every `v - theta`, while `(v - ref) - shift` is exact where it matters.
"""

from __future__ import annotations

import numpy as np
from numba import types

from ucm.numerics._jit import READ, WRITE, f8, i8, jit

__all__ = ["newton", "pack", "project_capped", "start", "threshold"]

_SAMPLE = 4096
_PAIR = types.UniTuple(f8, 2)


@jit(types.Tuple((f8, i8, i8))(READ, f8, f8), reduction=True)
def clipped(v, x, cap):
    """Sum of `clip(v - x, 0, cap)`, the count of positive entries and that of capped ones."""
    total = 0.0
    positive = 0
    capped = 0
    for i in range(v.size):
        t = v[i] - x
        positive += t > 0.0
        capped += t >= cap
        t = t if t > 0.0 else 0.0
        total += t if t < cap else 0.0
    return (total + capped * cap if capped > 0 else total), positive, capped


@jit(types.Tuple((f8, f8, types.boolean, f8, f8))(READ, f8, f8, f8, f8, f8))
def newton(v, lo, hi, x, cap, mass):
    """Safeguarded Newton for the root in [lo, hi], from x.

    Returns the last x, the step from there, whether `x + step` is exact, and the bracket.
    """
    positive_before = -1
    capped_before = -1
    before = np.inf
    direct = False
    while True:
        total, positive, capped = clipped(v, x, cap)
        excess = total - mass
        free = positive - capped
        step = excess / free if free > 0 else 0.0
        same = positive == positive_before and capped == capped_before
        if excess == 0.0 or (direct and same):
            return x, step, True, lo, hi
        positive_before = positive
        capped_before = capped
        if excess > 0.0:
            lo = max(lo, x)
        else:
            hi = min(hi, x)
        after = x + step
        if free > 0 and after == x:
            return x, step, False, lo, hi
        direct = free > 0 and lo <= after <= hi and abs(step) <= 0.7 * before
        if direct:
            before = abs(step)
        else:
            after = lo + 0.5 * (hi - lo)
            if not lo < after < hi:  # also when v holds NaN
                return x, 0.0, False, lo, hi
            before = np.inf
        x = after


@jit(_PAIR(READ, f8), reduction=True)
def bracket(v, mass):
    """At `min v - mass/n` no clipped entry is below mass/n, at `max v - mass/n` none above it."""
    low = v[0]
    high = v[0]
    for i in range(v.size):
        low = v[i] if v[i] < low else low
        high = v[i] if v[i] > high else high
    return low - mass / v.size, high - mass / v.size


@jit(f8(READ, f8, f8))
def start(v, cap, mass):
    """The root for a strided sample of v, with its share of the mass."""
    stride = v.size // _SAMPLE
    sample = v[: stride * _SAMPLE : stride].copy()
    mass *= sample.size / v.size
    lo, hi = bracket(sample, mass)
    x, step, _, _, _ = newton(sample, lo, hi, 0.5 * (lo + hi), cap, mass)
    return x + step


@jit(_PAIR(READ, f8, f8, f8))
def solve(v, cap, mass, guess):
    if cap * v.size <= mass:
        return -np.inf, 0.0
    lo, hi = bracket(v, mass)
    if cap >= mass:
        lo = max(lo, hi + mass / v.size - mass)  # the largest entry alone would reach the mass
    x = guess if lo < guess < hi else lo + 0.5 * (hi - lo)
    x, step, exact, lo, hi = newton(v, lo, hi, x, cap, mass)
    if exact:
        return x, step
    # No double near x is the root: solve for the rest, relative to x.
    rest = v - x
    slack = 4.0 * np.finfo(np.float64).eps * max(abs(lo), abs(hi)) + abs(step)
    shift, step, _, _, _ = newton(rest, lo - x - slack, hi - x + slack, step, cap, mass)
    return x, shift + step


@jit(_PAIR(READ, f8, f8))
def threshold(v, cap, mass):
    """`(ref, shift)` with `sum clip((v - ref) - shift, 0, cap) = mass`; ref = -inf: all capped."""
    guess = start(v, cap, mass) if v.size >= 4 * _SAMPLE else np.nan
    return solve(v, cap, mass, guess)


@jit(i8(READ, READ, WRITE))
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
