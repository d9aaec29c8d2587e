"""Multipliers and Newton for a slanted plus function with the squared l2 norm."""

from __future__ import annotations

import numpy as np
from numba import types

from ucm.numerics._jit import READ, WRITE, f8, i8, jit

__all__ = ["plus_newton"]

TABLE = types.Array(f8, 2, "C", readonly=True)
SQUARE = types.Array(f8, 2, "C")


@jit(types.boolean(SQUARE, WRITE), reduction=True)
def cholesky_solve(H, x):
    """`x <- H^-1 x` in place, H overwritten by its factor; False when H is not positive definite."""
    n = x.size
    for i in range(n):
        for j in range(i):
            s = H[i, j]
            for k in range(j):
                s -= H[i, k] * H[j, k]
            H[i, j] = s / H[j, j]
        pivot = H[i, i]
        for k in range(i):
            pivot -= H[i, k] * H[i, k]
        if not pivot > 0.0:
            return False
        H[i, i] = np.sqrt(pivot)
    for i in range(n):
        s = x[i]
        for k in range(i):
            s -= H[i, k] * x[k]
        x[i] = s / H[i, i]
    for i in range(n - 1, -1, -1):
        x[i] /= H[i, i]
        for k in range(i):
            x[k] -= H[i, k] * x[i]
    return True


@jit(f8(TABLE, READ, READ, f8, READ, f8))
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
    square = 0.0
    for j in range(k - 1):
        square += pull[j] * pull[j]
    return offset * total - 0.25 * square / c


@jit(f8(READ, READ, READ, READ, f8, f8, READ, f8), reduction=True)
def slope_along(t, along, alpha, v, sigma, offset, top, s):
    """`-<along, a + v>` at the proximal points a of the margins `t + s along`."""
    total = 0.0
    for i in range(t.size):
        a = alpha[i] + sigma * (offset - t[i] - s * along[i])
        a = min(max(a, 0.0), top[i])
        total -= along[i] * (a + v[i])
    return total


@jit(types.UniTuple(f8, 3)(TABLE, READ, WRITE, WRITE, f8, READ, f8, f8, f8, i8))
def plus_newton(Z, v, z, alpha, offset, top, c, sigma, tol, outers):
    """`min c |w|^2 + sum top_i max(0, offset - t_i) - <v, t>`, t = Z z, z = (w, b).

    z and alpha are overwritten, as in `ucm.solvers.objective.quadratic`. Returns the relative gap, the outer
    steps, and the passes over Z.
    """
    m, k = Z.shape
    t = Z @ z
    g = np.empty(k)
    a = np.empty(m)
    H, H0 = np.empty((k, k)), np.zeros((k, k))  # H0 sums z z' over the free samples
    free = np.zeros(m, dtype=np.bool_)
    passes = 0.5
    gap = np.inf
    for outer in range(outers):
        b0 = z[k - 1]
        ridge = 1e-8 * sigma
        steps = stuck = 0
        least = np.inf
        for step in range(40):
            steps = step
            moved = 0.0
            mass = 0.0
            g[:] = 2.0 * c * z
            g[k - 1] = ridge * (z[k - 1] - b0)
            for i in range(m):
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
                    sign = 1.0 if free[i] else -1.0
                    for j in range(k):
                        h = sign * Z[i, j]
                        for p in range(j + 1):
                            H0[j, p] += h * Z[i, p]
            passes += 0.5
            size = 0.0
            for j in range(k):
                size += g[j] * g[j]
            small = 0.1 * np.sqrt(moved / sigma * 2.0 * c) * min(1.0, 1e3 * tol)
            if np.sqrt(size) <= max(small, 1e-13 * (1.0 + mass)):
                break
            # a gradient that rounding keeps from falling further
            stuck = stuck + 1 if np.sqrt(size) >= 0.5 * least else 0
            least = min(least, np.sqrt(size))
            if stuck >= 5 and least <= 1e-9 * (1.0 + mass):
                break
            for j in range(k):
                for p in range(j + 1):
                    H[j, p] = sigma * H0[j, p]
                H[j, j] += ridge if j == k - 1 else 2.0 * c
            d = -g
            if not cholesky_solve(H, d):
                return gap, outer + 0.0, passes
            start = 0.0
            curve = 0.0
            fixed = 0.0
            for j in range(k):
                start += g[j] * d[j]
                weight = ridge if j == k - 1 else 2.0 * c
                centre = z[j] - b0 if j == k - 1 else z[j]
                curve += weight * d[j] * d[j]
                fixed += weight * d[j] * centre
            if not start < 0.0:
                break
            along = Z @ d
            low, f_low, high, f_high, s = 0.0, start, np.inf, np.inf, 1.0
            for _ in range(40):
                f = fixed + s * curve + slope_along(t, along, alpha, v, sigma, offset, top, s)
                if abs(f) <= 0.3 * abs(start):
                    break
                if f < 0.0:
                    low, f_low, f_high = s, f, 0.5 * f_high
                else:
                    high, f_high, f_low = s, f, 0.5 * f_low
                s = 2.0 * s if np.isinf(high) else low - f_low * (high - low) / (f_high - f_low)
            for j in range(k):
                z[j] += s * d[j]
            for i in range(m):
                t[i] += s * along[i]
            steps = step + 1
        t[:] = Z @ z
        value = 0.0
        for j in range(k - 1):
            value += c * z[j] * z[j]
        for i in range(m):
            alpha[i] = min(max(alpha[i] + sigma * (offset - t[i]), 0.0), top[i])
            value += top[i] * max(0.0, offset - t[i]) - v[i] * t[i]
        gap = (value - dual_value(Z, v, alpha, offset, top, c)) / max(abs(value), 1e-300)
        passes += 1.0
        if gap <= 0.3 * tol:
            return gap, outer + 1.0, passes
        if steps >= 40:
            sigma *= 0.3
        elif steps <= 1:
            sigma *= 9.0
        elif steps == 2:
            sigma *= 6.0
        elif steps == 3:
            sigma *= 4.2
        else:
            sigma *= 3.0
        if sigma > 1e13:
            break
    return gap, outers + 0.0, passes
