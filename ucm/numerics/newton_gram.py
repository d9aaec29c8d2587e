"""The semismooth Newton augmented Lagrangian of `ucm.numerics.newton_hull` over rows of a Gram matrix.

`min |x|^2 / 2` over `x = c + sum_i p_i z_i`, `0 <= p_i <= cap_g` and `sum p_i = mass_g` in every group
g. Vectors are met through inner products only: `z_i = s_i x_i` with the Gram matrix K of the x_i. The
dual vector is `w = c + sum_i u_i z_i`. Woodbury's identity turns the Newton system
`(I + sigma (sum of z z' over free samples, centred)) d = x - w` into

    d = x - w + sum over free y_i z_i,    (K_free + 1 / sigma) y + E tau = <w - x, z>,    E'y = 0,

E the indicators of the groups: its order is the number of free samples, however many features there are.
"""

from __future__ import annotations

import numpy as np
from numba import types

from ucm.numerics._jit import READ, WRITE, f8, i8, inner, jit
from ucm.numerics._lapack import cholesky_solve
from ucm.numerics.band import ROWS, least, project
from ucm.numerics.gram import add_rows
from ucm.numerics.palm import MOST, growth, line_search, ridge_solve
from ucm.numerics.states import GRAM_STATE
from ucm.numerics.vectors import copy, dot, plus

__all__ = ["gram_march"]

SIGMA, TOL, SQUARE, FLOOR, GAP, NORM, STEPS, SYSTEMS, MISSING, STATUS, LARGEST, LEAST, IDLE = range(
    len(GRAM_STATE)
)
CAP, MASS, THETA = range(3)
Q, P, U, F, A, B, TARGET, WORK, BEST = range(9)
"""Rows of V: the proximal centre q, the trial point p, the weights u of w, the scores of x, those of
w, those of a direction, the next p, scratch, the p with the least gap."""
_MATRIX = types.Array(f8, 2, "C", readonly=True)
_INDEX = types.Array(i8, 1, "C", readonly=True)
_LIST = types.Array(i8, 1, "C")
_MAX_IDLE = 3


@inner()
def gather(points, index, s, out):
    """`<., z_k>` from the products with the samples."""
    for k in range(index.size):
        out[k] = s[k] * points[index[k]]


@inner()
def settle(ends, side, state, V, t, theta):
    """theta and the p that minimises the augmented Lagrangian at the scores A + t B, in `V[TARGET]`."""
    for g in range(side.shape[0]):
        lo, hi = ends[g], ends[g + 1]
        theta[g] = project(
            V[Q, lo:hi], V[A, lo:hi], V[B, lo:hi], t, state[SIGMA], theta[g],
            side[g, CAP], side[g, MASS], V[TARGET, lo:hi],
        )  # fmt: skip


@inner()
def absent(where, index, V, need):
    """How many samples whose weight changes have no row at hand; which, in `need`."""
    count = 0
    for k in range(index.size):
        if V[TARGET, k] != V[P, k] and where[index[k]] < 0:
            need[count] = index[k]
            count += 1
    return count


@inner()
def arrive(rows, where, index, s, pull, V, points):
    """`p <- V[TARGET]`, x and its scores with it."""
    n = index.size
    slots = np.empty(n, dtype=np.int64)
    c = np.empty(n)
    count = 0
    for k in range(n):
        change = V[TARGET, k] - V[P, k]
        if change != 0.0:
            slots[count] = where[index[k]]
            c[count] = s[k] * change
            count += 1
            V[P, k] = V[TARGET, k]
    add_rows(rows, slots[:count], c[:count], points)
    gather(points, index, s, V[F])
    plus(V[F], 1.0, pull, V[F])


@inner()
def judge(ends, side, state, pull, V):
    """|x| and the relative gap of p, from the scores of x."""
    square = state[SQUARE] + dot(V[P], pull) + dot(V[P], V[F])
    gap = 0.0
    for g in range(side.shape[0]):
        lo, hi = ends[g], ends[g + 1]
        gap -= least(V[F, lo:hi], V[P, lo:hi], side[g, CAP], side[g, MASS], V[WORK, lo:hi])
    state[NORM] = np.sqrt(max(square, 0.0))
    state[GAP] = gap / max(square, 1e-300)
    if gap < state[LEAST]:
        state[LEAST] = gap
        state[IDLE] = 0.0
        copy(V[P], V[BEST])


@inner()
def multipliers(Y, owner, groups, y):
    """y without its part that would change the mass of a group: `y - Y tau` with `E'y = E'Y tau`."""
    f = owner.size
    M = np.zeros((groups, groups))
    tau = np.zeros(groups)
    for i in range(f):
        tau[owner[i]] += y[i]
        for g in range(groups):
            M[owner[i], g] += Y[g * f + i]
    for g in range(groups):
        if M[g, g] == 0.0:  # none of its samples is free
            M[g, g] = 1.0
    if not cholesky_solve(M, tau):
        return False
    for i in range(f):
        for g in range(groups):
            y[i] -= Y[g * f + i] * tau[g]
    return True


@inner()
def free_gram(parts, ridge, K):
    """The upper triangle of `K_free + ridge I`."""
    rows, where, index, s, free = parts
    for i in range(free.size):
        row, si = rows[where[index[free[i]]]], s[free[i]]
        for j in range(i, free.size):
            K[i, j] = si * s[free[j]] * row[index[free[j]]]
        K[i, i] += ridge


@inner()
def newton(rows, where, index, s, groups, state, target, free, owner):
    """y of the free samples for the right-hand side `target`; False when no system is definite."""
    f = free.size
    y = np.zeros(f)
    if f == 0:
        return True, y
    sides = np.zeros((groups + 1) * f)
    top = 0.0
    for i in range(f):
        k = index[free[i]]
        top = max(top, s[free[i]] ** 2 * rows[where[k], k])
        sides[i] = target[free[i]]
        sides[(owner[i] + 1) * f + i] = 1.0
    K = np.empty((f, f))
    if not ridge_solve(free_gram, (rows, where, index, s, free), 1.0 / state[SIGMA], top, K, sides):
        return False, y
    copy(sides[:f], y)
    if not multipliers(sides[f:], owner, groups, y):
        return False, y
    state[SYSTEMS] += 1.0
    return True, y


@inner()
def free_samples(ends, side, V, free, owner):
    """The samples with `0 < p < cap` and their groups; returns how many."""
    count = 0
    for g in range(side.shape[0]):
        for k in range(ends[g], ends[g + 1]):
            if 0.0 < V[P, k] < side[g, CAP]:
                free[count] = k
                owner[count] = g
                count += 1
    return count


@inner()
def spread(rows, where, index, s, free, y, out):
    """`out <- out + sum y_i <z_i, .>` over the free samples."""
    slots = np.empty(free.size, dtype=np.int64)
    c = np.empty(free.size)
    for i in range(free.size):
        slots[i] = where[index[free[i]]]
        c[i] = s[free[i]] * y[i]
    add_rows(rows, slots, c, out)


@inner()
def direction(rows, where, index, s, ends, side, state, V, points, d):
    """The Newton direction: its weights over the w - x that was, in d, its products with the samples
    in `points[2]`, its scores in V; False when there is none."""
    free = np.empty(index.size, dtype=np.int64)
    owner = np.empty(index.size, dtype=np.int64)
    count = free_samples(ends, side, V, free, owner)
    free, owner = free[:count], owner[:count]
    plus(V[A], -1.0, V[F], V[WORK])
    found, y = newton(rows, where, index, s, side.shape[0], state, V[WORK], free, owner)
    if not found:
        return False
    plus(V[P], -1.0, V[U], d)
    for i in range(count):
        d[free[i]] += y[i]
    plus(points[0], -1.0, points[1], points[2])
    spread(rows, where, index, s, free, y, points[2])
    gather(points[2], index, s, V[B])
    return True


@inner()
def predict(rows, where, index, s, ends, side, state, pull, V, points):
    """w where the outer step ends if the free samples of q stay the free ones: x(q + y) with
    `(K_free + 1 / sigma) y + E tau = -<x, z>`, `E'y = 0`."""
    free = np.empty(index.size, dtype=np.int64)
    owner = np.empty(index.size, dtype=np.int64)
    count = free_samples(ends, side, V, free, owner)
    free, owner = free[:count], owner[:count]
    for k in range(index.size):
        V[WORK, k] = -V[F, k]
    found, y = newton(rows, where, index, s, side.shape[0], state, V[WORK], free, owner)
    if not found or count == 0:
        return
    copy(V[P], V[U])
    for i in range(count):
        V[U, free[i]] += y[i]
    copy(points[0], points[1])
    spread(rows, where, index, s, free, y, points[1])
    gather(points[1], index, s, V[A])
    plus(V[A], 1.0, pull, V[A])


@inner()
def slope_along(t, parts):
    """The slope of the augmented Lagrangian at w + t d, with theta and p there."""
    ends, side, state, V, start, square, theta = parts
    settle(ends, side, state, V, t, theta)
    f = start + t * square
    for k in range(V.shape[1]):
        f -= (V[TARGET, k] - V[P, k]) * V[B, k]
    return f


@inner()
def descend(ends, side, state, V, points, d):
    """Move w along d to where the slope is small, and theta with it."""
    start = 0.0
    for k in range(d.size):
        start += d[k] * (V[A, k] - V[F, k])
    if not start < 0.0:
        return False
    theta = np.empty(side.shape[0])
    copy(side[:, THETA], theta)
    along = (ends, side, state, V, start, dot(d, V[B]), theta)
    t = line_search(slope_along, along, start)
    copy(theta, side[:, THETA])
    plus(V[U], t, d, V[U])
    plus(V[A], t, V[B], V[A])
    plus(points[1], t, points[2], points[1])
    return True


@inner()
def minimise(rows, where, index, s, pull, ends, side, state, V, points, need, stop):
    """Newton steps until the gradient is small against the proximal step, or `stop`; False when rows
    that it needs are not at hand."""
    d = np.empty(index.size)
    theta = np.empty(side.shape[0])
    copy(side[:, THETA], theta)
    settle(ends, side, state, V, 0.0, theta)
    copy(theta, side[:, THETA])
    while True:
        count = absent(where, index, V, need)
        state[MISSING] = count
        if count > 0:
            return False
        arrive(rows, where, index, s, pull, V, points[0])
        judge(ends, side, state, pull, V)
        if state[GAP] <= 0.8 * state[TOL]:
            state[STATUS] = 1.0
        elif state[NORM] <= state[FLOOR]:
            state[STATUS] = 2.0
        gradient = 0.0
        step = 0.0
        for k in range(index.size):
            gradient += (V[U, k] - V[P, k]) * (V[A, k] - V[F, k])
            step += (V[P, k] - V[Q, k]) ** 2
        small = max(step / state[SIGMA], 1e-32 * state[NORM] ** 2)
        if state[STATUS] > 0.0 or gradient <= small or state[STEPS] == MOST or stop[0] > 0.0:
            return True
        if not direction(rows, where, index, s, ends, side, state, V, points, d):
            return True
        if not descend(ends, side, state, V, points, d):
            return True
        state[STEPS] += 1.0


@jit(i8(_MATRIX, _INDEX, _INDEX, READ, READ, _INDEX, ROWS, WRITE, ROWS, ROWS, _LIST, READ, ROWS))
def gram_march(rows, where, index, s, pull, ends, side, state, V, points, need, stop, log):
    """One outer step for each row of `log`, fewer when done, stopped or when rows are missing; how many.

    rows, where : rows of the Gram matrix; that of sample i is `rows[where[i]]`, missing if negative
    index, s, pull : (n,) sample, factor and `<c, z>` of each variable, group after group
    ends : (groups + 1,) where the groups begin
    side : (groups, 3) cap, mass and theta; state : see `ucm.numerics.states`; V : (9, n), see above
    points : (3, m) products with the samples of the sums behind x, w and a direction
    need : (n,) the samples whose rows are missing; stop : (1,) not 0 when it is to stop
    log : relative gap and |x| after each outer step
    """
    for k in range(log.shape[0]):
        if not minimise(rows, where, index, s, pull, ends, side, state, V, points, need, stop):
            return k
        log[k, 0], log[k, 1] = state[GAP], state[NORM]
        if state[SIGMA] >= state[LARGEST]:
            state[IDLE] += 1.0
            if state[IDLE] > _MAX_IDLE and state[STATUS] == 0.0:
                state[STATUS] = 3.0
        if state[STATUS] > 0.0 or stop[0] > 0.0:
            return k + 1
        copy(V[P], V[Q])
        factor = growth(int(state[STEPS]), 20.0)
        state[SIGMA] = min(factor * state[SIGMA], max(state[LARGEST], state[SIGMA]))
        state[STEPS] = 0.0
        predict(rows, where, index, s, ends, side, state, pull, V, points)
    return log.shape[0]
