"""Edge descent over vertices: the long-step simplex method for hinge losses with an l1 norm."""

from __future__ import annotations

import numpy as np
from numba import types

from ucm.numerics._jit import READ, WRITE, f8, i8, inner, jit

__all__ = ["edge_descent"]

_MATRIX = types.Array(f8, 2, "C", readonly=True)
_TABLE = types.Array(f8, 2, "C")
_INDEX = types.Array(i8, 1, "C")

_REFACTOR = 100  # pivots between two factorisations
_TINY = 1e-10  # relative size of a rate that counts as 0
_HIDDEN = 1e-13  # of the slope of an edge, that the rounding of its sums leaves


@jit(types.void(WRITE, READ, f8))
def _add(x, y, factor):
    """`x += factor y`."""
    for i in range(x.size):
        x[i] += factor * y[i]


@jit(types.void(_MATRIX, _INDEX, _INDEX, i8, _TABLE))
def _factor(Z, slot, active, k, T):
    """The edges of a vertex from its kinks: the first k slots hold samples, the others `m + feature`."""
    m, p = Z.shape
    M = np.empty((k, k))
    R = np.empty((k, p - k))
    for r in range(k):
        for c in range(k):
            M[r, c] = Z[slot[r], active[c]]
        for s in range(k, p):
            R[r, s - k] = -Z[slot[r], slot[s] - m]
    N = np.linalg.inv(M)
    E = np.dot(N, R)
    for c in range(k):
        for r in range(k):
            T[c, r] = N[c, r]
        for s in range(k, p):
            T[c, s] = E[c, s - k]


@inner(inline=True)
def _fresh(Z, columns, u, o, top, a, slot, active, k, basic, z, t, beta, sign, gamma, norm, T):
    """Everything of the vertex from its kinks alone, which are brought into order."""
    m, p = Z.shape
    r = 0
    for s in range(p):
        if slot[s] < m:
            slot[r], slot[s] = slot[s], slot[r]
            r += 1
    _factor(Z, slot, active, k, T)
    z[:] = 0.0
    t[:] = 0.0
    for c in range(k):
        x = 0.0
        for r in range(k):
            x += T[c, r] * o[slot[r]]
        j = active[c]
        z[j] = x
        _add(t, columns[j], x)
        sign[j] = 0.0 if j == p - 1 else (1.0 if x > 0.0 else (-1.0 if x < 0.0 else sign[j]))
    gamma[:] = u
    for c in range(k):
        gamma[active[c]] -= a * sign[active[c]]
    for i in range(m):
        if basic[i]:
            t[i] = o[i]
            beta[i] = 0.0
        else:
            beta[i] = top[i] if t[i] < o[i] else 0.0
        if beta[i] != 0.0:
            _add(gamma, Z[i], top[i])
    norm[:] = 0.0
    for c in range(k):
        for s in range(p):
            norm[s] += T[c, s] * T[c, s]


@inner(inline=True)
def _steepest(m, slot, active, k, gamma, norm, top, a, tol, T, mu):
    """Multipliers of the slots; the slot of the steepest edge that descends, and its slope. -1: none."""
    p = slot.size
    for s in range(p):
        mu[s] = 0.0 if slot[s] < m else gamma[slot[s] - m]
    for c in range(k):
        _add(mu, T[c], gamma[active[c]])
    best, leave, slope = 0.0, -1, 0.0
    for s in range(p):
        if slot[s] < m:
            x, size, least = max(mu[s], -mu[s] - top[slot[s]]), norm[s], 1e-10 * top[slot[s]]
        else:
            x, size, least = abs(mu[s]) - a, norm[s] + 1.0, tol
        if x > least and x * x > best * size:
            best, leave, slope = x * x / size, s, x
    return leave, slope


@inner(inline=True)
def _follow(columns, out, way, leave, active, k, T, d, rate):
    """The edge: what the active coordinates and the scores change by; the smallest rate that counts."""
    m = rate.size
    largest = 0.0 if out < m else 1.0
    for c in range(k):
        d[c] = way * T[c, leave]
        largest = max(largest, abs(d[c]))
    for i in range(m):
        rate[i] = 0.0 if out < m else way * columns[out - m, i]
    for c in range(k):
        _add(rate, columns[active[c]], d[c])
    return _TINY * largest


@inner(inline=True)
def _ahead(o, top, a, z, t, beta, sign, basic, active, k, d, rate, small, step, weight, queue):
    """Kinks on the edge: how far, by how much the slope grows there, and which; returns how many."""
    m = rate.size
    count = 0
    for i in range(m):
        x = rate[i]
        if not basic[i] and (x > small if beta[i] > 0.0 else x < -small):
            step[count] = max((o[i] - t[i]) / x, 0.0)
            weight[count] = top[i] * abs(x)
            queue[count] = i
            count += 1
    for c in range(k):
        j = active[c]
        if sign[j] * d[c] < -small:
            step[count] = max(-z[j] / d[c], 0.0)
            weight[count] = 2.0 * a * abs(d[c])
            queue[count] = m + c
            count += 1
    return count


@inner()
def _swap(i, j, step, weight, queue):
    step[i], step[j] = step[j], step[i]
    weight[i], weight[j] = weight[j], weight[i]
    queue[i], queue[j] = queue[j], queue[i]


@inner(inline=True)
def _stop(step, weight, queue, count, over):
    """Where the slope `-over` has become 0, by selection: kinks before that place come first.

    Returns the place, or -1 when all kinks together are not enough.
    """
    low, high, least = 0, count, _HIDDEN * over
    while high - low > 1:
        x, y, w = step[low], step[(low + high) // 2], step[high - 1]
        middle = max(min(x, y), min(max(x, y), w))
        cut, total = low, 0.0
        for i in range(low, high):
            if step[i] < middle:
                total += weight[i]
                _swap(i, cut, step, weight, queue)
                cut += 1
        if total >= over:
            high = cut
            continue
        over -= total
        low = cut
        # those equal to the middle: the one with the largest weight ends the edge, or all are crossed
        total, most = 0.0, low
        for i in range(low, high):
            if step[i] == middle:
                total += weight[i]
                _swap(i, cut, step, weight, queue)
                if weight[cut] > weight[most]:
                    most = cut
                cut += 1
        if total >= over:
            _swap(low, most, step, weight, queue)
            return low
        over -= total
        low = cut
    if low < high:
        over -= weight[low]
    else:
        low -= 1  # of those that are crossed the last, one of the farthest
    return low if over <= least else -1


@inner(inline=True)
def _cross(Z, top, a, queue, place, active, beta, sign, gamma):
    """Go over the kinks before the place."""
    m = Z.shape[0]
    for q in range(place):
        i = queue[q]
        if i < m:
            x = -top[i] if beta[i] > 0.0 else top[i]
            beta[i] = max(x, 0.0)
            _add(gamma, Z[i], x)
        else:
            j = active[i - m]
            gamma[j] += 2.0 * a * sign[j]
            sign[j] = -sign[j]


@inner(inline=True)
def _eliminate(Z, enter, leave, slot, active, k, norm, rho, T):
    """The entering kink takes the slot: the rows of the table that stay. `rho` becomes the row of the
    entering kink without its pivot, which is returned."""
    m, p = Z.shape
    if enter < m:
        for s in range(p):
            rho[s] = 0.0 if slot[s] < m else Z[enter, slot[s] - m]
        for c in range(k):
            _add(rho, T[c], Z[enter, active[c]])
    else:
        rho[:] = T[enter - m]
    pivot = rho[leave]
    rho[leave] = 0.0
    norm[:] = 0.0
    for c in range(k):
        x = T[c, leave] / pivot
        for s in range(p):
            y = T[c, s] - rho[s] * x
            T[c, s] = y
            norm[s] += y * y
        norm[leave] += x * x - T[c, leave] * T[c, leave]
        T[c, leave] = x
    return pivot


@inner(inline=True)
def _exchange(Z, enter, out, leave, slot, active, k, norm, rho, pivot, T):
    """The slot's new kink, the active coordinates, and the row of the one that leaves 0; returns k."""
    m, p = Z.shape
    row = k  # of the coordinate that becomes active
    if enter < m:
        slot[leave] = enter
    else:
        row = enter - m
        slot[leave] = m + active[row]
    if out >= m:
        active[row] = out - m
        for s in range(p):
            y = -rho[s] / pivot
            norm[s] += y * y
            if enter >= m:
                norm[s] -= T[row, s] * T[row, s]
            T[row, s] = y
        T[row, leave] = 1.0 / pivot
        norm[leave] += T[row, leave] * T[row, leave]
    if enter >= m:
        norm[leave] -= 1.0
        if out < m:  # one active coordinate less
            active[row] = active[k - 1]
            T[row] = T[k - 1]
    return k + (out >= m) - (enter >= m)


@jit(
    i8(
        _MATRIX,
        _MATRIX,
        READ,
        READ,
        READ,
        f8,
        f8,
        i8,
        READ,
        WRITE,
        WRITE,
        WRITE,
        WRITE,
        _INDEX,
        _INDEX,
    )
)
def edge_descent(Z, columns, u, o, top, a, tol, limit, stop, z, t, beta, sign, slot, active):
    """Minimise `sum top_i max(0, o_i - t_i) + a sum_{j < n} |z_j| - <u, z>`, `t = Z z`, from a vertex.

    A vertex lies at n + 1 kinks, one in each slot: samples with `t_i = o_i` and coordinates with
    `z_j = 0`; as many coordinates are active as samples are. Column s of the table T holds the edge that
    leaves the kink of slot s along the active coordinates, and with

        gamma = Z'beta + u - a sign    (beta of the samples outside of the slots)

    the multiplier of a slot is `gamma . edge`: -beta of its sample, which must lie in [0, top_i], or a
    number that must lie in [-a, a] for a coordinate. The steepest edge that descends is followed over
    kinks for as long as the function falls; the kink where it stops takes the slot.

    Parameters
    ----------
    Z, columns : (m, n + 1) rows, and its transpose
    u, o, top : (n + 1,), (m,), (m,)
    tol : violation that counts of the multiplier of a coordinate; of a sample it is 1e-10 top_i
    limit : of the pivots
    stop : (1,) not 0 when it is to stop at the next vertex
    z, t, beta, sign : (n + 1,), (m,), (m,), (n + 1,) results; `sign` is that of z, 0 where not active
    slot : (n + 1,) the kinks: samples, then m + coordinate
    active : (n + 1,) the active coordinates, as many as there are samples in `slot`, read and written

    Returns
    -------
    The pivots; -1 - pivots when the function is unbounded below or the vertex is not one.
    """
    m, p = Z.shape
    room = min(m, p)
    T = np.empty((room, p))
    gamma, mu, norm, rho = np.empty(p), np.empty(p), np.empty(p), np.empty(p)
    d, rate = np.empty(room), np.empty(m)
    step, weight = np.empty(m + room), np.empty(m + room)
    queue = np.empty(m + room, dtype=np.int64)
    basic = np.zeros(m, dtype=np.bool_)
    k = 0
    for s in range(p):
        if slot[s] < m:
            basic[slot[s]] = True
            k += 1
    pivots, since = 0, _REFACTOR
    while True:
        if since >= _REFACTOR:
            _fresh(
                Z, columns, u, o, top, a, slot, active, k, basic, z, t, beta, sign, gamma, norm, T
            )
            since = 0
        leave, slope = _steepest(m, slot, active, k, gamma, norm, top, a, tol, T, mu)
        if leave < 0 and since > 0 and pivots < limit and stop[0] == 0.0:
            since = _REFACTOR  # the same answer from a fresh table
            continue
        if leave < 0 or pivots >= limit or stop[0] > 0.0:
            break
        out = slot[leave]
        way = 1.0 if mu[leave] > 0.0 else -1.0
        small = _follow(columns, out, way, leave, active, k, T, d, rate)
        count = _ahead(
            o, top, a, z, t, beta, sign, basic, active, k, d, rate, small, step, weight, queue
        )
        place = _stop(step, weight, queue, count, slope)
        if place < 0:
            return -1 - pivots
        _cross(Z, top, a, queue, place, active, beta, sign, gamma)
        length, enter = step[place], queue[place]
        for c in range(k):
            z[active[c]] += length * d[c]
        _add(t, rate, length)
        if enter < m:
            if beta[enter] != 0.0:
                _add(gamma, Z[enter], -beta[enter])
            basic[enter] = True
            t[enter] = o[enter]
            beta[enter] = 0.0
        pivot = _eliminate(Z, enter, leave, slot, active, k, norm, rho, T)
        if out < m:
            basic[out] = False
            beta[out] = 0.0 if way > 0.0 else top[out]
            if beta[out] != 0.0:
                _add(gamma, Z[out], top[out])
        else:
            j = out - m
            z[j] = length * way
            sign[j] = 0.0 if j == p - 1 else way
            gamma[j] -= a * sign[j]
        if enter >= m:
            j = active[enter - m]
            gamma[j] += a * sign[j]
            z[j] = sign[j] = 0.0
        k = _exchange(Z, enter, out, leave, slot, active, k, norm, rho, pivot, T)
        pivots += 1
        since += 1
    for s in range(p):
        if slot[s] < m:
            beta[slot[s]] = -mu[s]
    return pivots
