"""One level of the banded semismooth Newton augmented Lagrangian for two hulls, or for two boxes.

`min |x|^2 / 2` over `x = sum_c Z_c'q_c`, `0 <= q_c <= cap_c`, `sum q_c = mass_c`. From q, an outer step
minimises over w

    |w|^2 / 2 + sum_c max over p_c of { -<Z_c w, p_c> - |p_c - q_c|^2 / (2 sigma) },

whose gradient is `w - x(p)` and whose generalised Hessian is
`I + sigma (sum over free rows of z z' - sum_c s_c s_c' / f_c)`, s_c the sum and f_c the number of the
free rows of a class. Then q becomes p, and sigma grows. Rows far from their kinks are held at 0 or at
the cap: only the others, the band, are looked at.

The hinge loss is the same without masses: the dual of `|w|^2 / 2 + sum cap_i max(0, o - t_i)`, with the
margins `t_i = a_i + y_i b`, is `max o sum p - |x|^2 / 2` over the boxes `0 <= p <= cap` with
`sum y_i p_i = 0`. One multiplier b stands for both thetas, `theta_c = o - y_c b`, and `s_1 - s_2` in the
Hessian for both sums.
"""

from __future__ import annotations

import numpy as np
from numba import types

from ucm.numerics._cache import mark
from ucm.numerics._jit import READ, WRITE, i8, inner, jit
from ucm.numerics._lapack import SQUARE
from ucm.numerics.band import (
    ROWS,
    A,
    P,
    Q,
    R,
    balance,
    beneath,
    clip,
    compact,
    held,
    least,
    project,
    slope,
)  # fmt: skip
from ucm.numerics.palm import MOST, growth, line_search, ridge_solve
from ucm.numerics.rows import PART, TAGS, exchange, move, pull
from ucm.numerics.states import SEPARATED, STATE
from ucm.numerics.vectors import dot, plus

__all__ = ["march"]

(
    SIGMA, TOL, REACH, SLACK, PASSES, SYSTEMS, FORMING, GAP, STEPS, STATUS, LARGEST, ZERO, VERIFY, TRAVEL,
    OFFSET, VALUE,
) = range(len(STATE))  # fmt: skip
CAP, MASS, FACTOR, THETA, HELD, STEP, OLD, COUNT = range(8)
_PARTS = types.UniTuple(PART, 2)
_ENDS = types.Array(types.int64, 2, "C")


@inner(inline=True)
def score(parts, stride, ends, side, state, w, V, tags):
    """`a = Z w` on all rows, which all become the band."""
    for c in range(side.shape[0]):
        lo, hi = ends[c, 0], ends[c, 2]
        ends[c, 1] = hi
        side[c, HELD] = 0.0
        side[c, STEP] = 0.0
        pull(parts[c], stride, side[c, FACTOR], tags[lo:hi], w, V[A, lo:hi])
    state[PASSES] += 0.5
    state[SLACK] = np.inf


@inner()
def targets(ends, side, state, V, along, t, theta, work):
    """p at the scores `a + t along` over the band, in the second row of `work`; theta with them."""
    sigma = state[SIGMA]
    if np.isnan(state[OFFSET]):
        for c in range(side.shape[0]):
            lo, mid = ends[c, 0], ends[c, 1]
            theta[c] = project(
                V[Q, lo:mid], V[A, lo:mid], along[lo:mid], t, sigma, theta[c],
                side[c, CAP], side[c, MASS] - side[c, HELD], work[1, lo:mid],
            )  # fmt: skip
        return
    b = 0.5 * (theta[1] - theta[0])
    theta[0], theta[1] = state[OFFSET] - b, state[OFFSET] + b
    for c in range(side.shape[0]):
        for i in range(ends[c, 0], ends[c, 1]):
            work[1, i] = V[Q, i] - sigma * ((V[A, i] + t * along[i]) - theta[c])
    first, second = work[1, ends[0, 0] : ends[0, 1]], work[1, ends[1, 0] : ends[1, 1]]
    s = balance(first, second, side[0, CAP], side[1, CAP], side[0, HELD] - side[1, HELD])
    clip(first, s, side[0, CAP])
    clip(second, -s, side[1, CAP])
    theta[0] -= s / sigma
    theta[1] += s / sigma


@inner(inline=True)
def settle(parts, stride, ends, side, state, x, V, tags, work):
    """theta and p at the scores a, over the band; x with them."""
    changed = 0
    theta = np.empty(2)
    theta[0], theta[1] = side[0, THETA], side[1, THETA]
    targets(ends, side, state, V, V[A], 0.0, theta, work)
    for c in range(side.shape[0]):
        lo, mid = ends[c, 0], ends[c, 1]
        side[c, THETA] = theta[c]
        target = work[1, lo:mid]
        changed += move(parts[c], stride, side[c, FACTOR], tags[lo:mid], target, V[P, lo:mid], x)
    state[PASSES] += 0.5 * changed / V.shape[1]


@inner(inline=True)
def narrow(ends, side, state, reach, V, tags, work):
    """Hold the rows of the band that are farther than `reach` from their kinks; at least two rows of
    each class stay. Movement is counted from here."""
    for c in range(side.shape[0]):
        lo, mid = ends[c, 0], ends[c, 1]
        own = reach
        while True:
            end = compact(V, tags, lo, mid, state[SIGMA], side[c, THETA], side[c, CAP], own, work)
            if end - lo >= min(2, mid - lo) or not own < np.inf:
                break
            own *= 4.0
        ends[c, 1] = end
        for i in range(end, mid):
            side[c, HELD] += V[P, i]
            side[c, STEP] += (V[P, i] - V[Q, i]) ** 2
        for i in range(lo, end):
            V[R, i] = V[A, i]
        side[c, OLD] = side[c, THETA]
    whole = ends[0, 1] == ends[0, 2] and ends[1, 1] == ends[1, 2]
    state[REACH] = reach
    state[SLACK] = np.inf if whole else min(state[SLACK], max(1.0, -state[VERIFY]) * reach)


@inner()
def moved(ends, side, V):
    """How far scores, and theta with them, have moved since they were last compared."""
    top = 0.0
    for c in range(side.shape[0]):
        own = 0.0
        for i in range(ends[c, 0], ends[c, 1]):
            own = max(own, abs(V[A, i] - V[R, i]))
        top = max(top, own + abs(side[c, THETA] - side[c, OLD]))
    return top


@inner()
def relative_gap(ends, side, state, w, x, V, work, far):
    """`(|x| - bound) / |x|`, the bound from w: `min over p' of <Z w, p'> / |w|`.

    The minimum is bounded at theta first, which is enough where the gap is proven, or beyond `far`, 0 for
    always.
    For the hinge loss `|w - x|^2 / 2 + sum cap max(theta - a, 0) - (theta - a) p` over the objective.
    """
    if not np.isnan(state[OFFSET]):
        apart = 0.5 * (dot(w, w) + dot(x, x)) - dot(w, x)
        total = 0.0
        for c in range(side.shape[0]):
            lo, mid = ends[c, 0], ends[c, 1]
            p = V[P, lo:mid]
            mass = held(p)
            apart -= beneath(V[A, lo:mid], p, side[c, CAP], mass, side[c, THETA])
            total += mass + side[c, HELD]
        state[VALUE] = state[OFFSET] * total - 0.5 * dot(x, x) + apart
        return apart / abs(state[VALUE])
    size = np.sqrt(dot(x, x))
    length = np.sqrt(dot(w, w))
    state[VALUE] = size
    if not (size > 0.0 and length > 0.0):
        return np.inf
    gap = 0.0
    for exact in range(2):
        bound = dot(w, x)
        for c in range(side.shape[0]):
            lo, mid = ends[c, 0], ends[c, 1]
            a, p, cap, mass = (
                V[A, lo:mid],
                V[P, lo:mid],
                side[c, CAP],
                side[c, MASS] - side[c, HELD],
            )
            if exact:
                bound += least(a, p, cap, mass, work[1, lo:mid])
            else:
                bound += beneath(a, p, cap, mass, side[c, THETA])
        gap = (size - bound / length) / size
        if gap <= 0.8 * state[TOL] or gap > far:
            break
    return gap


@inner(inline=True)
def sharpen(ends, side, state, w, x, V, work):
    """sigma for a start: kinks 0.2 times as wide as the scores are off in the mean, which its gap says.
    Most of that gap is of q, and w is nearer (along paths 0.1 to 0.8 cost the same)."""
    gap = relative_gap(ends, side, state, w, x, V, work, np.inf)
    gap = max(gap, 0.1 * state[TOL])
    if np.isnan(state[OFFSET]):
        mass = side[0, MASS] + side[1, MASS]
        gap *= np.sqrt(dot(x, x) * dot(w, w))
    else:
        mass = held(V[P])
        gap *= abs(state[VALUE])
    state[SIGMA] = max(side[0, CAP], side[1, CAP]) * mass / (0.4 * gap)
    state[REACH] = 20.0 * gap / mass


@inner()
def count_free(parts, stride, ends, side, state, V, tags, H, S):
    """Bring H and S up to date with the free rows of the band."""
    n = S.shape[1]
    cost = 0.25 * n / V.shape[1]
    for c in range(side.shape[0]):
        lo, mid = ends[c, 0], ends[c, 1]
        part, factor, cap = parts[c], side[c, FACTOR], side[c, CAP]
        own, p = tags[lo:mid], V[P, lo:mid]
        left = exchange(part, stride, factor, own, p, cap, -1.0, H, S[c])
        came = exchange(part, stride, factor, own, p, cap, 1.0, H, S[c])
        side[c, COUNT] += came - left
        state[FORMING] += cost * (came + left)


@inner(reduction=True)
def hessian(parts, ridge, work):
    """The upper triangle of `ridge I + sigma (H - sum_c s_c s_c' / f_c)`."""
    counts, sigma, H, S = parts
    n = H.shape[0]
    for i in range(n):
        first = S[0, i] / max(counts[0], 1.0)
        second = S[1, i] / max(counts[1], 1.0)
        for j in range(i, n):
            work[i, j] = sigma * (H[i, j] - first * S[0, j] - second * S[1, j])
        work[i, i] += ridge


@inner(inline=True)
def direction(parts, stride, ends, side, state, g, V, tags, H, S, work, d):
    """`d = -(I + sigma (H - sum_c s_c s_c' / f_c))^-1 g`; False when the system is not definite."""
    count_free(parts, stride, ends, side, state, V, tags, H, S)
    top = 0.0
    for i in range(g.size):
        d[i] = -g[i]
        top = max(top, H[i, i])
    sigma = state[SIGMA]
    counts = np.empty(2)
    counts[0], counts[1] = side[0, COUNT], side[1, COUNT]
    sums = S
    if not np.isnan(state[OFFSET]):  # one multiplier for both
        counts[0] += counts[1]
        sums = np.zeros_like(S)
        for i in range(g.size):
            sums[0, i] = S[0, i] - S[1, i]
    if not ridge_solve(hessian, (counts, sigma, H, sums), 1.0, sigma * top, work, d):
        return False
    state[SYSTEMS] += 1.0
    return True


@inner()
def slope_along(t, parts):
    """The slope of the augmented Lagrangian at w + t d, with theta and p there."""
    ends, side, state, V, start, square, theta, work = parts
    targets(ends, side, state, V, work[0], t, theta, work)
    f = start + t * square
    for c in range(side.shape[0]):
        lo, mid = ends[c, 0], ends[c, 1]
        f -= slope(work[1, lo:mid], V[P, lo:mid], work[0, lo:mid], V[Q, lo:mid])[0]
    return f


@inner(inline=True)
def descend(parts, stride, ends, side, state, w, x, g, d, V, tags, work):
    """Move along d to where the slope is small; p and x follow."""
    start = dot(g, d)
    if not start < 0.0:
        return False
    rows = 0
    for c in range(side.shape[0]):
        lo, mid = ends[c, 0], ends[c, 1]
        rows += mid - lo
        pull(parts[c], stride, side[c, FACTOR], tags[lo:mid], d, work[0, lo:mid])
    state[PASSES] += 0.5 * rows / V.shape[1]
    theta = np.empty(2)
    theta[0], theta[1] = side[0, THETA], side[1, THETA]
    along = (ends, side, state, V, start, dot(d, d), theta, work)
    t = line_search(slope_along, along, start)
    changed = 0
    plus(w, t, d, w)
    for c in range(side.shape[0]):
        lo, mid = ends[c, 0], ends[c, 1]
        side[c, THETA] = theta[c]
        plus(V[A, lo:mid], t, work[0, lo:mid], V[A, lo:mid])
        changed += move(
            parts[c], stride, side[c, FACTOR], tags[lo:mid], work[1, lo:mid], V[P, lo:mid], x
        )
    state[PASSES] += 0.5 * changed / V.shape[1]
    return True


@inner(inline=True)
def minimise(parts, stride, ends, side, state, w, x, V, tags, H, S, system, work, stop):
    """Newton steps over the band until the gradient is small against the proximal step, or `stop`."""
    d = np.empty(w.size)
    g = np.empty(w.size)
    steps = 0
    travel = state[TRAVEL] = 0.0  # before movement was last counted from 0
    look = 0.0  # how far the next band reaches; 0: the present one serves
    begin = True
    if state[SIGMA] == 0.0:
        sharpen(ends, side, state, w, x, V, work)
    while True:
        if look > 0.0:
            score(parts, stride, ends, side, state, w, V, tags)
        if look > 0.0 or begin:
            settle(parts, stride, ends, side, state, x, V, tags, work)
        if begin and look == 0.0 and state[SLACK] < np.inf:
            state[SLACK] -= moved(ends, side, V)
            if state[SLACK] < state[REACH]:
                look = state[REACH]
                continue
        state[STEPS] = steps
        far = 8.0 * state[TOL] if state[VERIFY] >= 0.0 else 0.0
        gap = relative_gap(ends, side, state, w, x, V, work, far)
        state[GAP] = gap
        whole = ends[0, 1] == ends[0, 2] and ends[1, 1] == ends[1, 2]
        size = np.sqrt(dot(x, x))
        if np.isnan(state[OFFSET]) and size <= state[ZERO] * state[LARGEST]:
            exact = relative_gap(ends, side, state, w, x, V, work, np.inf)
            if not (1.0 - exact) * size > SEPARATED * state[LARGEST]:
                state[STATUS] = 2.0
                return
        if gap <= 0.8 * state[TOL]:
            if whole or state[VERIFY] <= 0.0:
                state[STATUS] = 1.0
                return
            look = 2.0 * state[REACH]
            continue
        if look > 0.0 or begin:
            count_free(parts, stride, ends, side, state, V, tags, H, S)
            narrow(ends, side, state, look if look > 0.0 else state[REACH], V, tags, work)
            begin = False
            look = 0.0
        plus(w, -1.0, x, g)
        step = 0.0
        for c in range(side.shape[0]):
            lo, mid = ends[c, 0], ends[c, 1]
            p = V[P, lo:mid]
            step += side[c, STEP] + slope(p, p, p, V[Q, lo:mid])[1]
        if dot(g, g) <= max(step / state[SIGMA], 1e-32 * dot(w, w)) or steps == MOST:
            return
        if stop[0] > 0.0:
            return
        if not direction(parts, stride, ends, side, state, g, V, tags, H, S, system, d):
            return
        if not descend(parts, stride, ends, side, state, w, x, g, d, V, tags, work):
            return
        steps += 1
        step = moved(ends, side, V)
        state[TRAVEL] = travel + step
        if step > state[SLACK]:
            # rows outside the band may have crossed a kink: the same q and sigma, a wider band
            travel = state[TRAVEL]
            look = 4.0 * step


@jit(
    i8(
        _PARTS, i8, _ENDS, ROWS, WRITE, WRITE, WRITE, ROWS, TAGS, SQUARE, ROWS, SQUARE, ROWS, READ, ROWS
    )
)  # fmt: skip
def march(parts, stride, ends, side, state, w, x, V, tags, H, S, system, work, stop, log):
    """One outer step for each row of `log`, fewer when done or stopped; returns how many.

    parts : samples of both classes; stride : of the rows of this level
    ends : (2, 3) for each class its first row in V, the end of its band, the end of its rows
    side, state : see `ucm.numerics.states`; the scores in V are those of w, the point x that of V[P]
    w, x : (n,) dual vector and point; V : (4, M), see `ucm.numerics.band`
    tags : (M,) the samples in the order of V, see `ucm.numerics.rows`
    H, S : (n, n), (2, n) sums over the free rows; system, work : (n, n), (2, M) scratch
    stop : (1,) not 0 when it is to stop, also within a step
    log : passes, relative gap and `value` after each outer step
    """
    for k in range(log.shape[0]):
        minimise(parts, stride, ends, side, state, w, x, V, tags, H, S, system, work, stop)
        log[k, 0], log[k, 1], log[k, 2] = state[PASSES], state[GAP], state[VALUE]
        if state[STATUS] > 0.0 or stop[0] > 0.0:
            return k + 1
        for i in range(V.shape[1]):
            V[Q, i] = V[P, i]
        side[0, STEP] = side[1, STEP] = 0.0
        state[SIGMA] *= growth(int(state[STEPS]), 3.0)
        state[REACH] = max(
            0.3 * state[TRAVEL], 2.0 * max(side[0, CAP], side[1, CAP]) / state[SIGMA]
        )
    return log.shape[0]


mark(__name__)
