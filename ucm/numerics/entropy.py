"""Projection on, and support of, the simplex intersected with a ball of relative entropy.

With multipliers lam of `sum q log(N q) = r` and theta_o of the mass of each class,

    q_i + lam (log(N q_i) + 1) = v_i - theta_o,    q_i = lam omega((v_i - theta_o)/lam - 1 - log(N lam)),

omega the Wright function. Newton's method for all three multipliers at once: with
`w = dq/dv = q / (q + lam)`, `n = log(N q) + 1` and the sums W, A, B of w, w n, w n^2, the system is

    [W_o  A_o] [d theta_o]   [sum q - mass_o   ]
    [A_o'  B ] [d lam    ] = [sum q log(N q) - r].

For lam the step is taken on `(h - least)^(-1/2)`, h = sum q log(N q), which is nearly linear in lam; for
theta, far from its root, on the logarithm of the mass, which is exact where q is exponential in v.
"""

from __future__ import annotations

import math

import numpy as np
from numba import types

from ucm.numerics._jit import READ, WRITE, f8, inner, jit

__all__ = ["project_entropy", "support_entropy"]

_EPS = float(np.finfo(np.float64).eps)
_LIMIT = 60
_CLOSE = 1e-9  # of the multipliers: after such a step the error is below rounding


@inner()
def omega(z):
    """The root of `x + log x = z`, by the method of fourth order of Fritsch, Shafer and Crowley (1973)."""
    if z < -40.0:
        return math.exp(z)
    if z > 2.0:
        x = z - math.log(z)
    elif z > -2.0:
        x = math.exp(0.6 * (z - 1.0) - 0.05 * (z - 1.0) * (z - 1.0))
    else:
        x = math.exp(z)
        x = x / (1.0 + x)
    for _ in range(3):
        r = z - x - math.log(x)
        a = 1.0 + x
        t = a * (a + (2.0 / 3.0) * r)
        x *= 1.0 + (r / a) * (t - 0.5 * r) / (t - r)
        if abs(r) < 1e-4:  # the error left is of the fourth order
            break
    return x


@inner()
def sweep(v, classes, lam, tops, x, out, sums):
    """q at lam and `theta = top + x`; by class the sums of q, w, w n, w n^2 and q log(N q)."""
    shift = 1.0 + math.log(v.size) + math.log(lam)
    for c in range(2):
        for k in range(5):
            sums[c, k] = 0.0
    for i in range(v.size):
        c = 1 if classes.size > 0 and classes[i] <= 0.0 else 0
        z = ((v[i] - tops[c]) - x[c]) / lam - shift
        s = omega(z)
        q = lam * s
        out[i] = q
        if q > 0.0:
            n = z - s + shift
            w = s / (s + 1.0)
            sums[c, 0] += q
            sums[c, 1] += w
            sums[c, 2] += w * n
            sums[c, 3] += w * n * n
            sums[c, 4] += q * (n - 1.0)


@jit(types.UniTuple(f8, 4)(READ, READ, f8, f8, f8, WRITE))
def project_entropy(v, classes, radius, least, lam, out):
    """The point with `sum q log(N q) = radius` and mass 1, or 1/2 in each class; from a guess of lam.

    `least` is the entropy of the uniform vector. Returns lam, theta of each class, and 1 where the
    residuals are rounding (else out has no meaning).
    """
    count = 1 if classes.size == 0 else 2
    mass = 1.0 / count
    sums = np.zeros((2, 5))
    tops = np.full(2, -np.inf)
    x = np.zeros(2)
    for i in range(v.size):
        c = 1 if classes.size > 0 and classes[i] <= 0.0 else 0
        tops[c] = max(tops[c], v[i])
    mean = np.zeros(2)
    sizes = np.zeros(2)
    for i in range(v.size):
        c = 1 if classes.size > 0 and classes[i] <= 0.0 else 0
        mean[c] += v[i] - tops[c]
        sizes[c] += 1.0
    for c in range(count):  # as for the uniform vector
        flat = mass / sizes[c]
        x[c] = mean[c] / sizes[c] - flat - lam * (1.0 + math.log(v.size * flat))
    target = radius - least
    good = 8.0 * _EPS * max(abs(radius), abs(target))
    for _ in range(_LIMIT):
        sweep(v, classes, lam, tops, x, out, sums)
        height = -least
        slope = 0.0
        exact = True
        near = True
        for c in range(count):
            off = sums[c, 0] - mass
            exact = exact and abs(off) <= 8.0 * _EPS * mass
            near = near and abs(off) <= 0.5 * mass
            if not sums[c, 1] > 0.0:
                return lam, 0.0, 0.0, 0.0
            height += sums[c, 4] - sums[c, 2] * off / sums[c, 1]
            slope += sums[c, 3] - sums[c, 2] * sums[c, 2] / sums[c, 1]
        if exact and abs(height - target) <= good:
            return lam, tops[0] + x[0], tops[1] + x[1], 1.0
        step = 0.0
        if near:
            if not (slope > 0.0 and target > 0.0):
                return lam, 0.0, 0.0, 0.0
            height = max(height, 1e-3 * target)
            step = 2.0 * height * (math.sqrt(height / target) - 1.0) / slope
            step = min(max(step, -0.75 * lam), 3.0 * lam)
        moved = not near or abs(step) > _CLOSE * lam
        for c in range(count):
            total = sums[c, 0]
            off = total - mass
            if not near:
                off = math.log(total / mass) * total if total > 0.0 else np.nan
            move = (off - sums[c, 2] * step) / sums[c, 1]
            moved = moved or abs(move) > _CLOSE * (abs(x[c]) + lam)
            x[c] += move
        lam += step
        if not moved:
            sweep(v, classes, lam, tops, x, out, sums)
            return lam, tops[0] + x[0], tops[1] + x[1], 1.0
    return lam, 0.0, 0.0, 0.0


@inner()
def tilt(g, classes, lam, tops, out, sums):
    """`exp(u)` with `u = (g - top) / lam`; by class the sums of exp(u), u exp(u) and u^2 exp(u)."""
    for c in range(2):
        for k in range(3):
            sums[c, k] = 0.0
    for i in range(g.size):
        c = 1 if classes.size > 0 and classes[i] <= 0.0 else 0
        u = (g[i] - tops[c]) / lam
        share = math.exp(u)
        out[i] = share
        sums[c, 0] += share
        sums[c, 1] += share * u
        sums[c, 2] += share * u * u


@jit(types.UniTuple(f8, 3)(READ, READ, f8, f8, WRITE))
def support_entropy(g, classes, radius, least, out):
    """The maximiser of <g, q> with `sum q log(N q) = radius` and mass 1, or 1/2 in each class.

    It is `mass_o exp(g_i / lam) / sum_o exp(g_j / lam)`; lam by Newton's method on `(h - least)^(-1/2)`
    within a bracket. Returns lam and, for each class, theta with `lam (log(N q) + 1) = g - theta`.
    """
    count = 1 if classes.size == 0 else 2
    mass = 1.0 / count
    sums = np.zeros((2, 5))
    tops = np.full(2, -np.inf)
    bottom = np.inf
    for i in range(g.size):
        c = 1 if classes.size > 0 and classes[i] <= 0.0 else 0
        tops[c] = max(tops[c], g[i])
        bottom = min(bottom, g[i])
    lam = max(tops[0], tops[1]) - bottom
    low = 0.0
    high = np.inf
    target = radius - least
    for _ in range(200):
        tilt(g, classes, lam, tops, out, sums)
        height = -least
        slope = 0.0
        for c in range(count):
            mean = sums[c, 1] / sums[c, 0]
            height += mass * (math.log(g.size * mass / sums[c, 0]) + mean)
            slope += mass * max(sums[c, 2] / sums[c, 0] - mean * mean, 0.0) / lam
        excess = height - target
        if excess > 0.0:
            low = lam
        else:
            high = lam
        step = np.nan
        if slope > 0.0 and height > 0.0:
            step = 2.0 * height * (math.sqrt(height / target) - 1.0) / slope
        if abs(excess) <= 4.0 * _EPS * max(1.0, abs(radius)) or abs(step) <= 4.0 * _EPS * lam:
            break
        after = lam + step
        if not (low < after < high and lam / 64.0 <= after <= 64.0 * lam):
            if high == np.inf:
                after = 16.0 * lam
            elif low == 0.0:
                after = lam / 16.0
            else:
                after = math.sqrt(low * high) if high > 4.0 * low else 0.5 * (low + high)
            if not low < after < high:
                break
        lam = after
    for i in range(g.size):
        c = 1 if classes.size > 0 and classes[i] <= 0.0 else 0
        out[i] *= mass / sums[c, 0]
    theta = np.zeros(2)
    for c in range(count):
        theta[c] = tops[c] - lam * (1.0 + math.log(g.size * mass / sums[c, 0]))
    return lam, theta[0], theta[1]
