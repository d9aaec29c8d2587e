"""The proximal augmented Lagrangian of a slanted plus function with the squared l2 norm, on few samples.

The method of `ucm.solvers.objective.dual_newton`, all of it compiled: where a product with the samples takes
microseconds, calls between interpreted steps would take longer than the steps.
"""

from __future__ import annotations

import numpy as np
from numba import types

from ucm.numerics._jit import READ, WRITE, f8, i8, inner, jit
from ucm.numerics.palm import MOST, PATIENCE, accuracy, growth, idle, line_search, ridge_solve
from ucm.numerics.vectors import copy, dot, plus

__all__ = ["plus_newton"]

VALUE, GAP, PASSES, SYSTEMS, ROWS = range(5)
_TABLE = types.Array(f8, 2, "C", readonly=True)
_LOG = types.Array(f8, 2, "C")


@inner(reduction=True)
def dual_value(Z, v, alpha, offset, top, c):
    """The dual value once the heavier class is scaled down to `y'beta = 0`."""
    m, k = Z.shape
    up = 0.0
    down = 0.0
    for i in range(m):
        signed = Z[i, k - 1] * (alpha[i] + v[i])
        if signed > 0.0:
            up += signed
        else:
            down -= signed
    less_up = 0.0
    less_down = 0.0
    if up > 0.0 and down > 0.0:
        less_up = min(1.0, down / up)
        less_down = min(1.0, up / down)
    pull = np.zeros(k - 1)
    total = 0.0
    for i in range(m):
        b = alpha[i] + v[i]
        b *= less_up if Z[i, k - 1] * b > 0.0 else less_down
        total += min(max(b - v[i], 0.0), top[i])
        if b != 0.0:
            for j in range(k - 1):
                pull[j] += b * Z[i, j]
    return offset * total - 0.25 * dot(pull, pull) / c


@inner(reduction=True)
def settle(Z, v, t, alpha, offset, top, sigma, free, H, a, g):
    """The proximal points a at the margins t; `g <- g - Z'(a + v)`, and H with the free samples. Returns
    `|a - alpha|^2`, `sum a` and how many samples became free or ceased to be."""
    k = g.size
    moved = 0.0
    mass = 0.0
    changed = 0
    for i in range(t.size):
        raw = alpha[i] + sigma * (offset - t[i])
        a[i] = min(max(raw, 0.0), top[i])
        moved += (a[i] - alpha[i]) ** 2
        mass += a[i]
        beta = a[i] + v[i]
        if beta != 0.0:
            for j in range(k):
                g[j] -= beta * Z[i, j]
        if (0.0 < raw < top[i]) != free[i]:
            free[i] = not free[i]
            changed += 1
            sign = 1.0 if free[i] else -1.0
            for j in range(k):
                h = sign * Z[i, j]
                for p in range(j + 1):  # from 0 on, it vectorises
                    H[j, p] += h * Z[i, p]
    return moved, mass, changed


@inner(reduction=True)
def hessian(parts, ridge, work):
    """The upper triangle of `diag(curve) + ridge I + sigma H`."""
    H, sigma, curve = parts
    for j in range(curve.size):
        for p in range(j + 1):
            work[p, j] = sigma * H[j, p]
        work[j, j] += curve[j] + ridge


@inner(reduction=True)
def slope_along(s, parts):
    """The slope of the augmented Lagrangian at z + s d, from that at z."""
    t, along, alpha, offset, top, sigma, a, start, bent = parts
    total = start + s * bent
    for i in range(t.size):
        raw = alpha[i] + sigma * (offset - t[i] - s * along[i])
        total -= along[i] * (min(max(raw, 0.0), top[i]) - a[i])
    return total


@inner(inline=True)
def minimise(Z, v, z, t, alpha, offset, top, sigma, c, curve, share, free, H, work, a, stop, log):
    """Newton steps on (w, b) until the gradient is small against the proximal step, or `stop`; how many."""
    k = z.size
    g, d = np.empty(k), np.empty(k)
    steps = stuck = 0
    least = np.inf
    while True:
        for j in range(k - 1):
            g[j] = 2.0 * c * z[j]
        g[k - 1] = 0.0
        moved, mass, changed = settle(Z, v, t, alpha, offset, top, sigma, free, H, a, g)
        log[PASSES] += 0.5
        log[ROWS] += changed
        size = np.sqrt(dot(g, g))
        small = share * np.sqrt(moved / sigma * 2.0 * c)
        if size <= max(small, 1e-13 * (1.0 + mass)) or steps == MOST or stop[0] > 0.0:
            return steps
        # a gradient that rounding keeps from falling further
        stuck = stuck + 1 if size >= 0.5 * least else 0
        least = min(least, size)
        if stuck >= 5 and least <= 1e-9 * (1.0 + mass):
            return steps
        biggest = 0.0
        for j in range(k):
            d[j] = -g[j]
            biggest = max(biggest, sigma * H[j, j])
        if not ridge_solve(hessian, (H, sigma, curve), 0.0, biggest, work, d):
            return steps
        log[SYSTEMS] += 1.0
        start = dot(g, d)
        if not start < 0.0:
            return steps
        bent = 2.0 * c * dot(d[: k - 1], d[: k - 1])
        along = Z @ d
        log[PASSES] += 0.5
        s = line_search(slope_along, (t, along, alpha, offset, top, sigma, a, start, bent), start)
        plus(z, s, d, z)
        plus(t, s, along, t)
        steps += 1


@jit(i8(_TABLE, READ, WRITE, WRITE, f8, READ, f8, f8, f8, READ, _LOG))
def plus_newton(Z, v, z, alpha, offset, top, c, sigma, tol, stop, log):
    """`min c |w|^2 + sum top_i max(0, offset - t_i) - <v, t>`, t = Z z, z = (w, b).

    z and alpha, a start, become those of the smallest gap. One outer step for each row of `log`, fewer when
    the gap is proven or does not fall, or where `stop` is not 0; returns how many. A row holds the
    objective, the relative gap, and what was spent so far: products with Z, in passes; systems; samples that
    entered or left them.
    """
    m, k = Z.shape
    t = Z @ z
    best_z, best_alpha = z.copy(), alpha.copy()
    a, curve = np.empty(m), np.full(k, 2.0 * c)
    H, work = np.zeros((k, k)), np.empty((k, k))  # H sums z z' over the free samples
    free = np.zeros(m, dtype=np.bool_)
    log[0, PASSES], log[0, SYSTEMS], log[0, ROWS] = 0.5, 0.0, 0.0
    best = np.inf
    done = since = 0
    while done < log.shape[0] and since < PATIENCE:
        own = log[done]
        if done > 0:
            copy(log[done - 1], own)
        curve[k - 1] = 1e-8 * sigma  # b has no curvature of its own where no sample is free
        steps = minimise(
            Z,
            v,
            z,
            t,
            alpha,
            offset,
            top,
            sigma,
            c,
            curve,
            accuracy(best),
            free,
            H,
            work,
            a,
            stop,
            own,
        )
        copy(Z @ z, t)
        value = c * dot(z[: k - 1], z[: k - 1])
        for i in range(m):
            alpha[i] = min(max(alpha[i] + sigma * (offset - t[i]), 0.0), top[i])
            value += top[i] * max(0.0, offset - t[i]) - v[i] * t[i]
        gap = (value - dual_value(Z, v, alpha, offset, top, c)) / max(abs(value), 1e-300)
        own[VALUE], own[GAP] = value, gap
        own[PASSES] += 1.0
        done += 1
        since = idle(since, gap, best)
        if gap < best:
            best = gap
            copy(z, best_z)
            copy(alpha, best_alpha)
        if gap <= tol or stop[0] > 0.0:
            break
        sigma *= growth(steps, 9.0)
    copy(best_z, z)
    copy(best_alpha, alpha)
    return done
