"""Reduced hulls seen from one direction: the threshold score, a line, the samples tied at it.

A group of samples has scores s, caps c and a mass; `max <q, s>` over `0 <= q <= c, sum q = mass` fills
the samples from the top. The score at which the mass runs out is the threshold; samples above it
weigh their cap, those below it nothing, those at it (tied) share the rest.
"""

from __future__ import annotations

from numba import types

from ucm.numerics._jit import READ, f8, jit

__all__ = ["line_minimum", "top_threshold"]

_INDEX = types.Array(types.int64, 1, "C", readonly=True)
_ROUNDING = 1e-12  # of a mass: 1/eta may be a whole number


@jit(f8(READ, READ, f8))
def top_threshold(s, c, mass):  # type: ignore[no-untyped-def]
    """The score at which the caps, taken from the largest score down, reach the mass."""
    a, w = s.copy(), c.copy()
    low, high = 0, a.size
    need = mass * (1.0 - _ROUNDING)
    while True:
        x, y, z = a[low], a[(low + high) // 2], a[high - 1]
        pivot = max(min(x, y), min(max(x, y), z))
        i, j, k = low, low, high
        above, equal = 0.0, 0.0
        while j < k:
            if a[j] > pivot:
                above += w[j]
                a[i], a[j] = a[j], a[i]
                w[i], w[j] = w[j], w[i]
                i += 1
                j += 1
            elif a[j] < pivot:
                k -= 1
                a[j], a[k] = a[k], a[j]
                w[j], w[k] = w[k], w[j]
            else:
                equal += w[j]
                j += 1
        if i > low and need <= above:
            high = i
        elif need <= above + equal or k >= high:
            return pivot
        else:
            need -= above + equal
            low = k


@jit(types.UniTuple(f8, 2)(READ, READ, READ, _INDEX, READ, f8, f8, f8))
def _at(s, d, c, bounds, masses, c0, c1, t):  # type: ignore[no-untyped-def]
    """Value and a slope of `c0 + c1 t + sum over groups of max <q, s + t d>`."""
    value, slope = c0 + c1 * t, c1
    for g in range(masses.size):
        a, b = bounds[g], bounds[g + 1]
        u = s[a:b] + t * d[a:b]
        theta = top_threshold(u, c[a:b], masses[g])
        rest = masses[g]
        for i in range(b - a):
            if u[i] > theta:
                rest -= c[a + i]
                value += c[a + i] * u[i]
                slope += c[a + i] * d[a + i]
        rest = max(rest, 0.0)
        value += rest * theta
        for i in range(b - a):
            if u[i] == theta and rest > 0.0:
                part = min(rest, c[a + i])
                slope += part * d[a + i]
                rest -= part
    return value, slope


@jit(f8(READ, READ, READ, _INDEX, READ, f8, f8, f8))
def line_minimum(s, d, c, bounds, masses, c0, c1, first):  # type: ignore[no-untyped-def]
    """The t > 0 where the convex, piecewise linear function of `_at` is least.

    Tangents of both sides meet above, or at, the minimum; where they meet at the graph it is found.
    """
    low, f_low, slope_low = 0.0, 0.0, 0.0
    f_low, slope_low = _at(s, d, c, bounds, masses, c0, c1, 0.0)
    high = first
    f_high, slope_high = _at(s, d, c, bounds, masses, c0, c1, high)
    for _ in range(60):
        if slope_high >= 0.0:
            break
        low, f_low, slope_low = high, f_high, slope_high
        high *= 4.0
        f_high, slope_high = _at(s, d, c, bounds, masses, c0, c1, high)
    if slope_low >= 0.0:  # ties at t = 0: any slope of the left may have come
        slope_low = min(slope_low, (f_high - f_low) / (high - low))
    for _ in range(100):
        if slope_high <= slope_low:
            break
        t = (f_low - f_high + slope_high * high - slope_low * low) / (slope_high - slope_low)
        if not low < t < high:
            break
        f, slope = _at(s, d, c, bounds, masses, c0, c1, t)
        meet = f_low + slope_low * (t - low)
        if f <= meet + 1e-14 * abs(meet):
            return t
        if slope < 0.0:
            low, f_low, slope_low = t, f, slope
        else:
            high, f_high, slope_high = t, f, slope
    return low if f_low <= f_high and low > 0.0 else high
