"""Projection on, and support of, the simplex intersected with a Euclidean ball.

Both are `q(t) = P_simplex(t v)` with `||q(t)|| = radius`: the projection has t in (0, 1], the
support function t in (0, inf]. On a fixed set of n_o positive entries in each class o, with mean
a_o and sum of squared deviations S_o of v,

    q_i = mass_o / n_o + t (v_i - a_o),        ||q||^2 = sum_o (mass_o^2 / n_o + t^2 S_o),

so t has a closed form once the sets are right. The sets shrink as t grows, so equal counts at two t
mean equal sets.
"""

from __future__ import annotations

import math

import numpy as np
from numba import types

from ucm.numerics._jit import READ, WRITE, f8, jit
from ucm.numerics.capped import pack, threshold

__all__ = ["project_ball_simplex"]

_FAR = 1e250
_PIECE = types.UniTuple(f8, 4)


@jit(types.UniTuple(f8, 2)(READ))
def ties(v):
    """The largest entry, and how many are equal to it."""
    high = v[0]
    for i in range(v.size):
        high = v[i] if v[i] > high else high
    count = 0
    for i in range(v.size):
        count += v[i] == high
    return high, float(count)


@jit(types.UniTuple(f8, 3)(READ, f8, f8, f8), reduction=True)
def moments(v, ref, shift, high):
    """Count, mean of `v - high`, sum of squared deviations; over entries above `ref + shift`."""
    count = 0
    total = 0.0
    for i in range(v.size):
        free = v[i] - ref > shift
        count += free
        total += v[i] - high if free else 0.0
    mean = total / max(count, 1)
    squares = 0.0
    for i in range(v.size):
        u = v[i] - high - mean
        squares += u * u if v[i] - ref > shift else 0.0
    return float(count), mean, squares


@jit(_PIECE(READ, f8, f8, f8))
def piece(v, mass, t, high):
    """`mass/n, mean, S, n` of the entries that are positive in `P_simplex(t v)`."""
    if v.size == 0:
        return 0.0, 0.0, 0.0, 0.0
    if t == 0.0:
        count, mean, squares = moments(v, -np.inf, 0.0, high)
    else:
        ref, shift = threshold(v, np.inf, mass / t)
        count, mean, squares = moments(v, ref, shift, high)
    return mass / count, mean, squares, count


@jit(types.Tuple((f8, _PIECE, _PIECE))(READ, READ, f8, f8, f8, f8, f8))
def scale(pos, neg, mass, radius, limit, high_pos, high_neg):
    """t and the pieces of both classes (`neg` may be absent) at which the norm is the radius."""
    lo = 0.0
    hi = np.inf
    a = piece(pos, mass, 0.0, high_pos)
    b = piece(neg, mass, 0.0, high_neg)
    excess = radius * radius - mass * (a[0] + b[0])
    if excess <= 0.0:
        return 0.0, a, b
    if not (a[2] + b[2] < _FAR) or (limit == np.inf and a[2] + b[2] < 1.0 / _FAR):
        return np.nan, a, b
    t = 1.0 if limit == 1.0 else math.sqrt(excess / (a[2] + b[2]))
    direct = False
    while True:
        count = a[3] + b[3]
        a = piece(pos, mass, t, high_pos)
        b = piece(neg, mass, t, high_neg)
        excess = radius * radius - mass * (a[0] + b[0])
        squares = a[2] + b[2]
        if t * t * squares > excess:
            hi = t
        elif t == limit:
            return t, a, b
        else:
            lo = t
        after = math.sqrt(excess / squares) if excess > 0.0 and squares > 0.0 else 0.0
        if direct and a[3] + b[3] == count:
            return after, a, b
        direct = lo < after < hi
        if not direct:
            after = 0.125 * hi if lo == 0.0 else (8.0 * lo if hi == np.inf else math.sqrt(lo * hi))
            if not lo < after < hi:
                return t, a, b
        t = after


@jit(types.UniTuple(f8, 3)(READ, READ, f8, f8, WRITE))
def project_ball_simplex(v, classes, radius, limit, out):
    """q(t) of the largest t <= limit with `||q(t)|| <= radius`; limit is 1 (projection) or inf.

    Mass 1, or 1/2 in each class. Returns t and, for each class, tau with `q = t (v - tau)_+`;
    t = 0 is the uniform vector, t = inf the entries equal to the largest, t = nan says that the squares of v
    overflow or vanish. out may be v.
    """
    n = v.size
    mass = 1.0 if classes.size == 0 else 0.5
    packed = v.copy()
    m = n if classes.size == 0 else pack(v, classes, packed)
    pos = packed[:m]
    neg = packed[m:]
    high_pos, top_pos = ties(pos)
    high_neg, top_neg = ties(neg) if m < n else (0.0, np.inf)
    if limit == np.inf and mass * mass * (1.0 / top_pos + 1.0 / top_neg) <= radius * radius:
        t = limit
        a = (mass / top_pos, 0.0, 0.0, top_pos)
        b = (mass / top_neg, 0.0, 0.0, top_neg)
    else:
        t, a, b = scale(pos, neg, mass, radius, limit, high_pos, high_neg)
    for i in range(n):
        is_positive = classes.size == 0 or classes[i] > 0.0
        d = (v[i] - high_pos) - a[1] if is_positive else (v[i] - high_neg) - b[1]
        q = a[0] if is_positive else b[0]
        if d != 0.0:
            q += t * d
        out[i] = q if q > 0.0 else 0.0
    return t, high_pos + a[1] - a[0] / t, high_neg + b[1] - b[0] / t
