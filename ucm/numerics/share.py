"""The shares of a mixture of points, balls and capped simplices: see `ucm.language.domains.mixture`."""

from __future__ import annotations

import numpy as np
from numba import types

from ucm.numerics._jit import READ, f8, i8, jit

__all__ = ["shares"]

_EPS = 2.220446049250313e-16


@jit(types.UniTuple(f8, 2)(READ, f8, f8[::1]))
def _pivoted(v, cap, sums):
    """In `sums[j]` that of `v_i - v_k` over k <= i < j, below k minus that over j <= i < k, where k is the
    first entry that is not filled at the largest `<v, q>` of the capped simplex.

    Returns
    -------
    1 / cap, rounded where it is a whole number; and that largest `<v, q>`
    """
    n = v.size
    r = 1.0 / cap
    if abs(r - np.round(r)) <= 1e-12 * r:
        r = np.round(r)
    r = min(r, float(n))
    k = min(int(np.floor(r)), n - 1)
    pivot = v[k]
    sums[k] = 0.0
    for j in range(k, n):
        sums[j + 1] = sums[j] + (v[j] - pivot)
    for j in range(k - 1, -1, -1):
        sums[j] = sums[j + 1] - (v[j] - pivot)
    return r, pivot - sums[0] / r


@jit(types.UniTuple(f8, 4)(READ, READ, f8, f8, f8))
def _capped(v, sums, r, top, mu):
    """`argmin over (q, t) of ||q - v||^2 / 2 + mu t` with `0 <= q <= t / r`, `sum q = t`.

    The minimiser is `q = clip(v - theta, 0, t / r)`. With `G(x) = sum_i max(0, v_i - x) + r x`, convex
    and piecewise linear, `sum q = t` says that theta and `psi = theta + t / r` lie at one level, `G(theta) =
    G(psi) = L`, and the derivative in t vanishes where `L / r - (psi - theta) = mu`. The width of a level set
    is concave in L, and the left side convex and decreasing: Newton's steps from the lowest level rise to
    the root, and the last one is exact. Levels are counted from the lowest, v from its pivot, so that
    nothing large cancels.

    Parameters
    ----------
    v, sums, r, top : descending, and what `_pivoted` gave

    Returns
    -------
    theta, t / r, t and dt/dmu
    """
    n = v.size
    if mu >= top:
        return mu, 0.0, 0.0, 0.0
    if r >= n:  # all weights are equal
        t = n * (top - mu)
        return -np.inf, t / n, t, -float(n)
    if r <= 1.0:  # no cap
        low = 0
        high = n
        while low < high:
            k = (low + high) // 2
            if v[k] > mu:
                low = k + 1
            else:
                high = k
        pivot = v[min(int(np.floor(r)), n - 1)]
        return mu, np.inf, sums[low] - sums[0] + low * (pivot - mu), -float(low)
    k0 = int(np.floor(r))
    pivot = v[k0]
    need = top - mu
    level = 0.0
    left = k0
    right = k0
    theta = 0.0
    psi = 0.0
    width = 0.0
    slope = 0.0
    for step in range(200):
        low = left  # the last breakpoint of the falling branch that is not above the level
        high = n - 1
        while low < high:
            j = (low + high + 1) // 2
            if sums[j] + (v[j] - pivot) * (r - j) <= level:
                low = j
            else:
                high = j - 1
        j = low + 1
        fall = 1.0 / (r - j)
        theta = (level - sums[j]) * fall
        low = 0  # the first one of the rising branch
        high = right
        while low < high:
            i = (low + high) // 2
            if sums[i] + (v[i] - pivot) * (r - i) <= level:
                high = i
            else:
                low = i + 1
        i = low
        same = step > 0 and i == right and j == left + 1
        right = i
        left = j - 1
        if r > i:
            rise = 1.0 / (r - i)
            psi = (level - sums[i]) * rise
        else:
            rise = 0.0
            psi = v[i - 1] - pivot
        width = psi - theta
        slope = rise - fall
        excess = need + level / r - width
        if step == 0 and excess <= 0.0:  # at the lowest level, which may be flat
            return pivot + theta, need, need * r, -r
        if same:
            break
        level += excess / (slope - 1.0 / r)
    return pivot + theta, width, width * r, -(slope * r) / (slope - 1.0 / r)


@jit(types.UniTuple(f8, 2)(f8, f8, f8, f8, f8))
def _ball(radius, unit, length, at, mu):
    """The share of `||p|| <= radius t` beside `unit t`, p inside of the ball or on it, and dt/dmu."""
    inner = (unit * at - mu) / unit**2
    if inner > 0.0 and length <= radius * inner:
        return inner, -1.0 / unit**2
    t = (unit * at - mu + radius * length) / (unit**2 + radius * radius)
    if t <= 0.0:
        return 0.0, 0.0
    return t, -1.0 / (unit**2 + radius * radius)


@jit(types.void(READ, i8[::1], f8[::1], f8[::1], f8[::1], f8[::1], f8[::1], f8[:, ::1]))
def shares(v, ends, caps, units, radii, lengths, at, found):
    """The shares t_g at the price mu with `sum t_g(mu) = 1`, by Newton's method in a bracket.

    Parameters
    ----------
    v, ends : the scores of capped simplices, each descending, one after the other, and where each ends
    caps : of each simplex; of a ball or a point nothing counts
    units : 0 for a simplex
    radii, lengths, at : of a ball; its scores by their length, and that of the coordinate of the share
    found : (groups, 3) theta, the cap times t, and t
    """
    count = units.size
    sums = np.empty(v.size + count)
    tops = np.empty(count)
    rest = np.empty(count)
    first = 0
    for g in range(count):
        if units[g] == 0.0:
            own = sums[first + g : ends[g] + g + 1]
            rest[g], tops[g] = _pivoted(v[first : ends[g]], caps[g], own)
        else:
            tops[g] = radii[g] * lengths[g] + units[g] * at[g]
        first = ends[g]
    high = tops.max()  # no share is positive from there on
    low = -np.inf
    step = max(1.0, 4.0 * _EPS * abs(high))
    mu = high - step
    total = 0.0
    for _ in range(200):
        total = 0.0
        slope = 0.0
        first = 0
        for g in range(count):
            if units[g] == 0.0:
                own = sums[first + g : ends[g] + g + 1]
                theta, most, t, falls = _capped(v[first : ends[g]], own, rest[g], tops[g], mu)
                found[g, 0] = theta
                found[g, 1] = most
            else:
                t, falls = _ball(radii[g], units[g], lengths[g], at[g], mu)
            found[g, 2] = t
            total += t
            slope += falls
            first = ends[g]
        if abs(total - 1.0) <= _EPS:
            break
        if total > 1.0:
            low = max(low, mu)
        else:
            high = min(high, mu)
        after = mu + (1.0 - total) / slope if slope < 0.0 else np.nan
        if abs(after - mu) <= 2.0 * _EPS * max(abs(mu), abs(high)):
            break
        if not low < after < high:
            if low == -np.inf:
                step *= 2.0
                after = mu - step
            else:
                after = 0.5 * (low + high)
        if after in (mu, low, high):
            break
        mu = after
