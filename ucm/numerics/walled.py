"""Proximal Newton steps for a smooth loss with an l1 norm or another box of slopes, on few samples.

The method of `ucm.solvers.objective.proximal_step`, all of it compiled: where a product with the samples
takes microseconds, calls between interpreted steps would take longer than the steps.
"""

from __future__ import annotations

import math

import numpy as np
from numba import types

from ucm.numerics._jit import READ, WRITE, f8, i8, inner, jit
from ucm.numerics.boxed import boxed_quadratic
from ucm.numerics.states import LOGISTIC, SQUARED, STEPS
from ucm.numerics.vectors import copy, dot

__all__ = ["walled_newton", "walled_path"]

VALUE, GAP, PASSES, SYSTEMS = range(4)
_TABLE = types.Array(f8, 2, "C", readonly=True)
_SQUARE = types.Array(f8, 2, "C")
_SUFFICIENT = 1e-4  # of the decrease that the model foretells
_HALVINGS = 40
_ROUNDING = 1e-14  # of the objective
_ROUNDS = 50  # of a quadratic program
_FEASIBLE = 1e-10  # of the walls, to which its slopes keep
_AGAIN = 1e-2  # ratio of two gains below which a matrix serves once more
_NEAR = 1e-2  # of the objective, the gain of a step after which the gap is looked at
_STUCK = 3  # steps in a row that gain nothing
_NAMED = 1e-7  # over a wall, where the slopes of the tilt are at it: named, not pulled back


@inner()
def _losses(kind, t, c, s, h):
    """Their sum at the margins t; s minus the slopes, h the second derivatives."""
    total = 0.0
    for i in range(t.size):
        if kind == LOGISTIC:
            e = math.exp(-abs(t[i]))
            p = (e if t[i] > 0.0 else 1.0) / (1.0 + e)
            total += c[i] * (math.log1p(e) - min(t[i], 0.0))
            s[i], h[i] = c[i] * p, c[i] * p * (1.0 - p)
        else:
            short = max(0.0, 1.0 - t[i])
            total += c[i] * short * short
            s[i], h[i] = 2.0 * c[i] * short, 2.0 * c[i] if short > 0.0 else 0.0
    return total


@inner()
def _conjugate(kind, a, c):
    """`c l*(a / c)`, less the offset times a."""
    if c == 0.0:
        return 0.0
    p = a / c
    if kind == SQUARED:
        return c * (0.25 * p * p - p)
    low = p * math.log(p) if p > 0.0 else 0.0
    return c * (low + (1.0 - p) * math.log1p(-p) if p < 1.0 else low)


@inner(reduction=True)
def _pull(X, y, beta, z):
    """`z <- sum_i beta_i y_i x_i`; answers `sum_i beta_i y_i`."""
    total = 0.0
    for j in range(z.size):
        z[j] = 0.0
    for i in range(y.size):
        b = y[i] * beta[i]
        if b != 0.0:
            total += b
            for j in range(z.size):
                z[j] += b * X[i, j]
    return total


@inner(reduction=True)
def _bound(kind, X, y, c, v, u, a, lower, upper, ridge, beta, z):
    """`Composite.lower_bound` of the dual point a: the bound, and what is missed."""
    m, n = X.shape
    up = 0.0
    down = 0.0
    for i in range(m):
        beta[i] = a[i] + v[i]
        if y[i] * beta[i] > 0.0:
            up += y[i] * beta[i]
        else:
            down -= y[i] * beta[i]
    less_up = 0.0
    less_down = 0.0
    if up > 0.0 and down > 0.0:
        less_up = min(1.0, down / up)
        less_down = min(1.0, up / down)
    for i in range(m):
        beta[i] *= less_up if y[i] * beta[i] > 0.0 else less_down
    _pull(X, y, beta, z)
    share, over, before, conjugate = 1.0, -1.0, 0.0, 0.0
    for j in range(n):
        at, wall = u[j] + z[j], upper[j] if z[j] > 0.0 else lower[j]
        if ridge > 0.0:
            out = max(at - upper[j], 0.0) + min(at - lower[j], 0.0)
            conjugate += 0.25 * out * out / ridge
            continue
        over = max(over, at / (upper[j] if at > 0.0 else lower[j]) - 1.0)
        before = max(before, u[j] / (upper[j] if u[j] > 0.0 else lower[j]))
        if abs(at) > abs(wall) and at * z[j] > 0.0:
            share = min(share, (wall - u[j]) / z[j])
    missed = 0.0
    if 0.0 < over <= _NAMED and before >= 1.0 - 1e-6:
        share, missed = 1.0, over
    share = max(share, 0.0)
    total = -conjugate
    for i in range(m):
        top = c[i] if kind == LOGISTIC else np.inf
        still = min(max(-v[i], 0.0), top)
        total -= _conjugate(
            kind, min(max(still + share * (beta[i] - v[i] - still), 0.0), top), c[i]
        )
    return total, missed


@inner(reduction=True)
def _form(X, h, H, mean):
    """`H <- (X - 1 mean')' diag(h) (X - 1 mean')`, mean that of the samples by h; behind it the sum of h."""
    m, n = X.shape
    mass = 0.0
    for j in range(n):
        mean[j] = 0.0
        for p in range(n):
            H[j, p] = 0.0
    for i in range(m):
        if h[i] != 0.0:
            mass += h[i]
            for j in range(n):
                a = h[i] * X[i, j]
                mean[j] += a
                for p in range(j + 1):  # from 0 on, it vectorises
                    H[j, p] += a * X[i, p]
    mean[n] = mass if mass > 0.0 else 1.0
    for j in range(n):
        mean[j] /= mean[n]
    for j in range(n):
        for p in range(j + 1):
            H[j, p] -= mean[n] * mean[j] * mean[p]
            H[p, j] = H[j, p]


@inner()
def _penalty(w, lower, upper, ridge):
    total = ridge * dot(w, w)
    for j in range(w.size):
        total += (upper[j] if w[j] > 0.0 else lower[j]) * w[j]
    return total


@inner(reduction=True)
def _margins(X, y, w, b, t):
    for i in range(y.size):
        total = b
        for j in range(w.size):
            total += w[j] * X[i, j]
        t[i] = y[i] * total


@jit(
    i8(
        _TABLE, READ, READ, i8, READ, READ, READ, READ, f8, WRITE, WRITE, WRITE, _SQUARE, WRITE, WRITE, f8,
        READ, _SQUARE,
    )
)  # fmt: skip
def walled_newton(X, y, c, kind, v, u, lower, upper, ridge, z, t, a, H, mean, h, tol, stop, log):
    """`min sum_i c_i l(t_i) + ridge |w|^2 + sup over lower <= x <= upper of <w, x> - <v, t> - <u, w>`, l the
    logistic or the squared hinge loss, `t_i = y_i (w'x_i + b)`; z = (w, b) and t, the start, become the
    end.

    H, mean and h are the matrix of the last problem over the same samples, its mean of the samples with the
    sum of the weights behind it, and these weights; a sum of 0 says that there is none. a becomes the dual
    point of the gap. A step for each row of `log`: the objective, the relative gap (inf where it was not
    looked at), passes and systems so far. Ends when the gap is proven, or nothing is gained: below 0 is minus
    the number of steps then, above it the number.
    """
    m, n = X.shape
    w, b = z[:n], z[n]
    s, curve = np.empty(m), np.empty(m)
    t2, s2, curve2 = np.empty(m), np.empty(m), np.empty(m)
    beta, pulled, move = np.empty(m), np.empty(n), np.empty(m)
    g, r, new, best = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    smooth = _losses(kind, t, c, s, curve) - dot(v, t)
    fixed = _penalty(w, lower, upper, ridge) - dot(u, w)
    value, before, gap = smooth + fixed, np.inf, np.inf
    passes, systems, stuck = 0.0, 0.0, 0
    wide = 0.0
    for j in range(n):
        wide = max(wide, upper[j], -lower[j])
    stale = mean[n] == 0.0
    for k in range(log.shape[0]):
        for i in range(m):
            beta[i] = s[i] + v[i]
        bend = -_pull(X, y, beta, g)
        passes += 0.5
        for j in range(n):
            g[j] = -(g[j] + u[j])
        while True:
            kept = not stale
            if stale:
                copy(curve, h)
                _form(X, h, H, mean)
                systems += 1.0
                stale = False
            for j in range(n):
                r[j] = g[j] - bend * mean[j]
            copy(w, new)
            boxed_quadratic(H, r, new, lower, upper, 2.0 * ridge, _FEASIBLE * wide, _ROUNDS, stop)
            height = _penalty(new, lower, upper, ridge) - dot(u, new)
            e = -bend / mean[n]
            for j in range(n):
                best[j] = new[j] - w[j]
                e -= mean[j] * best[j]
            gain = fixed - height - bend * e
            for j in range(n):
                gain -= (g[j] + u[j]) * best[j]
            if kept and (gain > _AGAIN * before or not gain > -_ROUNDING * abs(value)):
                stale = True
                continue
            break
        slack = _ROUNDING * abs(value)
        if not gain > -slack:
            return -k
        before = gain
        _margins(X, y, best, e, move)
        passes += 0.5
        share, taken, after = 1.0, False, 0.0
        for _ in range(_HALVINGS):
            for i in range(m):
                t2[i] = t[i] + share * move[i]
            for j in range(n):
                new[j] = w[j] + share * best[j]
            after = _losses(kind, t2, c, s2, curve2) - dot(v, t2)
            height = _penalty(new, lower, upper, ridge) - dot(u, new)
            if after + height <= value - _SUFFICIENT * share * gain + slack:
                taken = True
                break
            share *= 0.5
        if not taken:
            if not kept:
                return -k
            stale = True
            log[k, VALUE], log[k, GAP] = value, np.inf
            log[k, PASSES], log[k, SYSTEMS] = passes, systems
            continue
        stuck = 0 if after + height < value - slack else stuck + 1
        near = share == 1.0 and gain <= _NEAR * abs(value)
        if near:
            for i in range(m):
                top = c[i] if kind == LOGISTIC else np.inf
                a[i] = min(max(s[i] - h[i] * move[i], 0.0), top)
        copy(new, w)
        b += share * e
        z[n] = b
        copy(t2, t)
        copy(s2, s)
        copy(curve2, curve)
        smooth, fixed = after, height
        value, gap = smooth + fixed, np.inf
        if near:
            bound, missed = _bound(kind, X, y, c, v, u, a, lower, upper, ridge, beta, pulled)
            passes += 0.5
            gap = (value - bound) / max(abs(value), 1e-300) if missed <= tol else np.inf
        log[k, VALUE], log[k, GAP] = value, gap
        log[k, PASSES], log[k, SYSTEMS] = passes, systems
        if abs(gap) <= tol:
            return k + 1
        if stuck == _STUCK or stop[0] > 0.0:
            return -(k + 1)
    return -log.shape[0]


@jit(
    i8(
        _TABLE, READ, READ, i8, _TABLE, _TABLE, READ, _SQUARE, _SQUARE, _SQUARE, WRITE, WRITE, f8, READ,
        _SQUARE,
    )
)  # fmt: skip
def walled_path(X, y, c, kind, lower, upper, ridge, Z, A, H, mean, h, tol, stop, log):
    """`walled_newton` for one row of lower and upper and entry of ridge after another, without tilts, each
    from the end of the one before it, the first from 0; the ends in the rows of Z, which is 0 at first, the
    dual points in those of A. How many were proven, in order; a row of log has the objective, the gap,
    passes, systems and steps of one."""
    v, u, steps = np.zeros(y.size), np.zeros(Z.shape[1] - 1), np.empty((STEPS, 4))
    t = np.zeros(y.size)
    for k in range(ridge.size):
        if k > 0:
            copy(Z[k - 1], Z[k])
        done = walled_newton(
            X, y, c, kind, v, u, lower[k], upper[k], ridge[k], Z[k], t, A[k], H, mean, h, tol, stop, steps
        )  # fmt: skip
        if done <= 0:
            return k
        for place in range(4):
            log[k, place] = steps[done - 1, place]
        log[k, 4] = done
    return ridge.size
