"""The root theta of `sum clip(v - theta, 0, cap) = mass`.

The sum is piecewise linear and non-increasing in theta, and both its sets, {v > theta} and
{v >= theta + cap}, shrink as theta grows: equal counts at two points mean equal sets, hence one
linear piece, on which Newton's step is exact. Every pass over the data is branch-free, so that it
vectorises; sorting would cost more than all passes together.

theta is returned as an unevaluated sum `ref + shift`: with entries near 1e12 a single double would
leave an error of 1e-4 in every `v - theta`, while `(v - ref) - shift` is exact where it matters.
"""

from __future__ import annotations

import numpy as np

from ucm.numerics._jit import inner

__all__ = ["bracket", "clipped", "newton", "solve"]

_LOST = 1e3


@inner(reduction=True)
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


@inner()
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
        same = (
            same and abs(excess) <= _LOST * mass
        )  # else the rounding of excess is some of the mass
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


@inner(reduction=True)
def bracket(v, mass):
    """At `min v - mass/n` no clipped entry is below mass/n, at `max v - mass/n` none above it."""
    low = v[0]
    high = v[0]
    for i in range(v.size):
        low = v[i] if v[i] < low else low
        high = v[i] if v[i] > high else high
    return low - mass / v.size, high - mass / v.size


@inner()
def nearest(v, ref, shift):
    """The entry of v nearest to `ref + shift`."""
    best = v[0]
    least = np.inf
    for i in range(v.size):
        far = abs((v[i] - ref) - shift)
        if far < least:
            least = far
            best = v[i]
    return best


@inner()
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
    # No double near x is the root: solve for the rest, relative to the entry next to x; near it the rests
    # are exact. Where the root is found to be next to another entry, relative to that.
    slack = 4.0 * np.finfo(np.float64).eps * max(abs(lo), abs(hi)) + abs(step)
    ref = x
    shift = step
    lo -= x
    hi -= x
    for k in range(8):
        near = nearest(v, ref, shift)
        if k > 0 and near == ref:
            break
        shift -= near - ref
        lo -= near - ref
        hi -= near - ref
        ref = near
        rest = v - ref
        x, step, _, low, high = newton(rest, lo - slack, hi + slack, shift, cap, mass)
        shift = x + step
        lo = low
        hi = high
        slack = 4.0 * np.finfo(np.float64).eps * max(abs(low), abs(high)) + abs(step)
    return ref, shift
