"""Two-variable updates of pSMO: Algorithm 1 of Sun (2024), on rows of the Gram matrix.

The dual of `|w|^2/2 + sum C_i max(0, 1 - y_i (w'x_i + b))^p` is, with `s_i = y_i a_i`,

    min  s'K s/2 - sum a_i + sum C_i (p - 1) xi_i^p,   xi_i = (a_i / (C_i p))^(1/(p-1)),
    subject to  y'a = 0,  a >= 0   (p = 1: no xi, and a_i <= C_i).

`F_i = y_i (1 - xi_i) - (K s)_i` is minus y_i times the gradient, and equals the bias at every free i.
A pair with `F_i > F_j` improves along `s_i += t, s_j -= t`. The derivative along it is

    -(F_i - F_j) + eta t + y_i [xi_i(a_i + y_i t) - xi_i(a_i)] - y_j [xi_j(a_j - y_j t) - xi_j(a_j)],

increasing in t: linear for p in {1, 2}, quadratic for p = 1.5, else a bracketed Newton root.
"""

from __future__ import annotations

import math

import numpy as np
from numba import types

from ucm.numerics._jit import READ, WRITE, f8, i8, jit

__all__ = ["hinge_gap", "hinge_levels", "slacks", "smo"]

_MATRIX = types.Array(types.float64, 2, "C", readonly=True)
_INDEX = types.Array(types.int64, 1, "C", readonly=True)
_EPS = float(np.finfo(np.float64).eps)


@jit(f8(f8, f8, f8))
def slack(a, c, p):
    """xi of a multiplier: `(a / (C p))^(1/(p-1))`; 0 for p = 1."""
    if p == 1.0 or a <= 0.0:
        return 0.0
    r = a / (c * p)
    if p == 2.0:
        return r
    if p == 1.5:
        return r * r
    return r ** (1.0 / (p - 1.0))


@jit(f8(f8, f8, f8))
def multiplier(xi, c, p):
    """`C p xi^(p-1)`, the inverse of `slack`."""
    if xi <= 0.0:
        return 0.0
    if p == 1.5:
        return 1.5 * c * math.sqrt(xi)
    return c * p * xi ** (p - 1.0)


@jit(f8(f8, f8, f8, f8, f8))
def stiffness(a, xi, c, p, v):
    """The slope of xi(a) over a move of the size v in xi: a secant, as the tangent at a = 0 is
    infinite for p > 2 and 0 for p < 2."""
    if p == 1.0:
        return 0.0
    if p == 2.0:
        return 1.0 / (2.0 * c)
    width = multiplier(xi + v, c, p) - a
    return v / width if width > 0.0 else (xi / ((p - 1.0) * a) if a > 0.0 else 0.0)


@jit(f8(f8, f8, f8, f8, f8, f8, f8, f8, f8, f8))
def general(d, eta, ai, yi, ci, aj, yj, cj, p, top):
    """The root t in (0, top] of the derivative, or top."""
    xi, xj = slack(ai, ci, p), slack(aj, cj, p)
    # each term alone bounds the root: the others only add to the derivative
    hi = min(top, d / eta) if eta > 0.0 else top
    if yi > 0.0:
        hi = min(hi, max(multiplier(xi + d, ci, p) - ai, 0.0) + 4.0 * _EPS * ai)
    elif xi > d:
        hi = min(hi, max(ai - multiplier(xi - d, ci, p), 0.0) + 4.0 * _EPS * ai)
    if yj < 0.0:
        hi = min(hi, max(multiplier(xj + d, cj, p) - aj, 0.0) + 4.0 * _EPS * aj)
    elif xj > d:
        hi = min(hi, max(aj - multiplier(xj - d, cj, p), 0.0) + 4.0 * _EPS * aj)
    e = 1.0 / (p - 1.0)
    lo = 0.0
    t = hi
    for _ in range(200):
        bi, bj = ai + yi * t, aj - yj * t
        si, sj = slack(bi, ci, p), slack(bj, cj, p)
        g = eta * t - d + yi * (si - xi) - yj * (sj - xj)
        if t == hi and g <= 0.0:
            return hi
        if abs(g) <= 1e-15 * d:
            return t
        if g > 0.0:
            hi = t
        else:
            lo = t
        slope = eta
        slope += e * si / bi if bi > 0.0 else 0.0
        slope += e * sj / bj if bj > 0.0 else 0.0
        after = t - g / slope if slope > 0.0 else -1.0
        if not lo < after < hi:
            if lo == 0.0:
                after = 0.03125 * hi
            else:
                after = math.sqrt(lo) * math.sqrt(hi) if hi > 4.0 * lo else 0.5 * (lo + hi)
        if not lo < after < hi or abs(after - t) <= _EPS * t:
            return t
        t = after
    return t


@jit(f8(f8, f8, f8, f8, f8, f8, f8, f8, f8, f8))
def move(d, eta, ai, yi, ci, aj, yj, cj, p, top):
    """The best t in (0, top] for a pair with F_i - F_j = d > 0."""
    if p == 1.0:
        return min(top, d / eta) if eta > 0.0 else top
    if p == 2.0:
        return min(top, d / (max(eta, 0.0) + 0.5 / ci + 0.5 / cj))
    if p == 1.5:  # xi = k a^2:  A t^2 + B t = d
        ki, kj = 1.0 / (2.25 * ci * ci), 1.0 / (2.25 * cj * cj)
        B = max(eta, 0.0) + 2.0 * (ki * ai + kj * aj)
        A = yi * ki - yj * kj
        inside = B * B + 4.0 * A * d
        if inside < 0.0:
            return top
        below = B + math.sqrt(inside)
        return min(top, 2.0 * d / below) if below > 0.0 else top
    return general(d, max(eta, 0.0), ai, yi, ci, aj, yj, cj, p, top)


@jit(types.UniTuple(f8, 2)(f8, f8, f8, types.boolean))
def sides(a, c, y, bounded):
    """(0, 0) for a free multiplier; -inf in the first place when y a cannot grow, +inf in the second
    when it cannot fall."""
    full = bounded and a >= c
    empty = a <= 0.0
    grows = not full if y > 0.0 else not empty
    falls = not empty if y > 0.0 else not full
    return 0.0 if grows else -np.inf, 0.0 if falls else np.inf


@jit(types.Tuple((i8, f8, f8))(READ, READ, READ))
def extremes(F, up, low):
    """Where F is largest over I_up, that value, and the least over I_low."""
    i = -1
    best, least = -np.inf, np.inf
    for k in range(F.size):
        if F[k] + up[k] > best:
            best = F[k]
            i = k
        if F[k] + low[k] < least:
            least = F[k]
    return i, best, least


@jit(i8(READ, READ, READ, READ, READ, f8, f8))
def partner(F, low, diagonal, h, Ki, best, base):
    """The j of the largest `(best - F_j)^2 / curvature`, without a branch and without a division."""
    j = -1
    top_gain, top_curve = 0.0, 1.0
    tiny = 1e-12 * max(abs(base), 1e-300)
    for k in range(F.size):
        d = max(best - (F[k] + low[k]), 0.0)
        curve = max(base + diagonal[k] - 2.0 * Ki[k] + h[k], tiny)
        gain = d * d
        if gain * top_curve > top_gain * curve:
            top_gain, top_curve = gain, curve
            j = k
    return j


@jit(types.void(WRITE, READ, READ, f8))
def slide(F, Ki, Kj, t):
    """`F -= t (K_i - K_j)`."""
    for k in range(F.size):
        F[k] -= t * (Ki[k] - Kj[k])


@jit(
    types.Tuple((i8, i8, i8, f8))(
        _MATRIX, _INDEX, _INDEX, READ, READ, READ, f8, f8, i8, i8, f8, WRITE, READ, WRITE, WRITE
    )
)
def smo(rows, where, index, diagonal, y, C, p, eps, limit, seed, clock, used, stop, a, F):
    """Pair updates until `max F over I_up - min F over I_low <= eps`; a and F in place.

    I_up holds i whose s_i can grow (y = +1 and below its bound, or y = -1 and a > 0), I_low those
    whose s_i can fall. i has the largest F; j the largest decrease by second order, or with
    seed >= 0 a random one among the violators, as in the paper.

    Sample k of the n at hand is sample `index[k]` of all; its Gram row is `rows[where[index[k]]]`,
    and `used` of that slot is set to the clock. It ends where `stop` is not 0. Returns the
    number of updates, a code (0 done, 1 limit or stopped, 2 the kernel is indefinite, 3 a row is
    missing), the sample whose row is missing, and the violation.
    """
    n = a.size
    bounded = p == 1.0
    whole = n == rows.shape[1]  # then index counts 0, 1, ...
    gi = np.empty(0 if whole else n)
    xi = np.empty(n)
    h = np.zeros(n)
    up = np.zeros(n)  # 0 in I_up, -inf outside; F + up needs no branch
    low = np.zeros(n)  # 0 in I_low, +inf outside
    for k in range(n):
        xi[k] = slack(a[k], C[k], p)
        up[k], low[k] = sides(a[k], C[k], y[k], bounded)
    reference = -1.0
    state = seed
    i, best, least = extremes(F, up, low)
    for step in range(limit):
        violation = best - least
        if i < 0 or not violation > eps:
            return step, 0, -1, max(violation, 0.0)
        if stop[0] > 0.0:
            return step, 1, -1, violation
        slot = where[index[i]]
        if slot < 0:
            return step, 3, index[i], violation
        used[slot] = clock + step
        Ki = rows[slot]
        if not bounded and (reference < 0.0 or violation < 0.25 * reference):
            reference = violation
            for k in range(n):
                h[k] = stiffness(a[k], xi[k], C[k], p, reference)
        j = -1
        if seed >= 0:
            state = (state * 1103515245 + 12345) % 2147483648
            for shift in range(n):
                k = (state + shift) % n
                if best - (F[k] + low[k]) > 0.5 * eps:
                    j = k
                    break
        else:
            if whole:
                j = partner(F, low, diagonal, h, Ki, best, diagonal[i] + h[i])
            else:
                for k in range(n):
                    gi[k] = Ki[index[k]]
                j = partner(F, low, diagonal, h, gi, best, diagonal[i] + h[i])
        slot = where[index[j]]
        if slot < 0:
            return step, 3, index[j], violation
        used[slot] = clock + step
        Kj = rows[slot]
        size = abs(diagonal[i]) + abs(diagonal[j])
        eta = diagonal[i] + diagonal[j] - 2.0 * Ki[index[j]]
        if eta < -1e-8 * (size + 2.0 * abs(Ki[index[j]])):
            return step, 2, -1, violation
        eta = eta if eta > 1e-15 * size else 0.0
        room_i = a[i] if y[i] < 0.0 else (C[i] - a[i] if bounded else np.inf)
        room_j = a[j] if y[j] > 0.0 else (C[j] - a[j] if bounded else np.inf)
        top = min(room_i, room_j)
        t = move(best - F[j], eta, a[i], y[i], C[i], a[j], y[j], C[j], p, top)
        # a bound that was met is met exactly
        a[i] = (0.0 if y[i] < 0.0 else C[i]) if t >= room_i else a[i] + y[i] * t
        a[j] = (0.0 if y[j] > 0.0 else C[j]) if t >= room_j else a[j] - y[j] * t
        for k in (i, j):
            old = xi[k]
            xi[k] = slack(a[k], C[k], p)
            F[k] -= y[k] * (xi[k] - old)
            h[k] = stiffness(a[k], xi[k], C[k], p, reference)
            up[k], low[k] = sides(a[k], C[k], y[k], bounded)
        if whole:
            slide(F, Ki, Kj, t)
        else:
            for k in range(n):
                F[k] -= t * (Ki[index[k]] - Kj[index[k]])
        i, best, least = extremes(F, up, low)
    return limit, 1, -1, best - least


@jit(WRITE(READ, READ, f8))
def slacks(a, C, p):
    """xi of every multiplier."""
    xi = np.empty(a.size)
    for k in range(a.size):
        xi[k] = slack(a[k], C[k], p)
    return xi


@jit(types.UniTuple(f8, 2)(READ, READ, READ, f8, READ))
def hinge_levels(y, C, a, p, F):
    """`max F over I_up` and `min F over I_low`: the bias lies between them at the optimum."""
    best, least = -np.inf, np.inf
    for k in range(a.size):
        up, low = sides(a[k], C[k], y[k], p == 1.0)
        best = max(best, F[k] + up)
        least = min(least, F[k] + low)
    return best, least


@jit(types.Tuple((f8, f8))(READ, READ, READ, READ, f8, f8))
def hinge_gap(y, C, a, f, b, p):
    """Loss of the scores `f + b` and the linear and power terms of the dual at a:
    `sum C max(0, 1 - y (f + b))^p` and `sum a - sum C (p - 1) xi^p`."""
    loss, dual = 0.0, 0.0
    for k in range(a.size):
        u = 1.0 - y[k] * (f[k] + b)
        if u > 0.0:
            loss += C[k] * (u if p == 1.0 else (u * u if p == 2.0 else u**p))
        dual += a[k]
        if p != 1.0 and a[k] > 0.0:
            xi = slack(a[k], C[k], p)
            dual -= (p - 1.0) / p * a[k] * xi  # C xi^p = a xi / p
    return loss, dual
