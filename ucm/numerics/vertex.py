"""Edge descent over vertices: the long-step simplex method for hinge losses with an l1 norm."""

from __future__ import annotations

import numpy as np
from numba import types

from ucm.numerics._jit import READ, WRITE, f8, i8, jit

__all__ = ["edge_descent"]

_MATRIX = types.Array(f8, 2, "C", readonly=True)
_TABLE = types.Array(f8, 2, "C")
_INDEX = types.Array(i8, 1, "C")

_REFACTOR = 100  # pivots between two factorisations
_TINY = 1e-10  # relative size of a rate that counts as 0


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


@jit(i8(_MATRIX, _MATRIX, READ, READ, READ, f8, f8, i8, WRITE, WRITE, WRITE, WRITE, _INDEX, _INDEX))
def edge_descent(Z, columns, u, o, top, a, tol, limit, z, t, beta, sign, slot, active):
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
    z, t, beta, sign : (n + 1,), (m,), (m,), (n + 1,) results; `sign` is that of z, 0 where not active
    slot : (n + 1,) the kinks: samples, then m + coordinate
    active : (n + 1,) the active coordinates, as many as there are samples in `slot`, read and written

    Returns
    -------
    The pivots; -1 - pivots when the function is unbounded below or the vertex is not one.
    """
    m, p = Z.shape
    last = p - 1
    room = min(m, p)
    T = np.empty((room, p))
    gamma, mu, norm, rho = np.empty(p), np.empty(p), np.empty(p), np.empty(p)
    d = np.empty(room)
    rate = np.empty(m)
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
            # samples first
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
                sign[j] = 0.0 if j == last else (1.0 if x > 0.0 else (-1.0 if x < 0.0 else sign[j]))
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
            since = 0
        # multipliers and the steepest edge
        for s in range(p):
            mu[s] = 0.0 if slot[s] < m else gamma[slot[s] - m]
        for c in range(k):
            _add(mu, T[c], gamma[active[c]])
        best, leave, over, way = 0.0, -1, 0.0, 1.0
        for s in range(p):
            if slot[s] < m:
                x, size = max(mu[s], -mu[s] - top[slot[s]]), norm[s]
            else:
                x, size = abs(mu[s]) - a, norm[s] + 1.0
            if x > (1e-10 * top[slot[s]] if slot[s] < m else tol) and x * x > best * size:
                best, leave, over = x * x / size, s, x
        if leave < 0 and since > 0 and pivots < limit:
            since = _REFACTOR  # the same answer from a fresh table
            continue
        if leave < 0 or pivots >= limit:
            break
        # the edge
        out = slot[leave]
        way = 1.0 if mu[leave] > 0.0 else -1.0
        largest = 0.0
        for c in range(k):
            d[c] = way * T[c, leave]
            largest = max(largest, abs(d[c]))
        if out < m:
            rate[:] = 0.0
        else:
            largest = max(largest, 1.0)
            for i in range(m):
                rate[i] = way * columns[out - m, i]
        for c in range(k):
            _add(rate, columns[active[c]], d[c])
        # kinks ahead
        small = _TINY * largest
        high = 0
        for i in range(m):
            x = rate[i]
            if not basic[i] and (x > small if beta[i] > 0.0 else x < -small):
                step[high] = max((o[i] - t[i]) / x, 0.0)
                weight[high] = top[i] * abs(x)
                queue[high] = i
                high += 1
        for c in range(k):
            j = active[c]
            if sign[j] * d[c] < -small:
                step[high] = max(-z[j] / d[c], 0.0)
                weight[high] = 2.0 * a * abs(d[c])
                queue[high] = m + c
                high += 1
        # the kink where the function stops falling, by selection
        low, everything = 0, high
        while high - low > 1:
            x, y, w = step[low], step[(low + high) // 2], step[high - 1]
            middle = max(min(x, y), min(max(x, y), w))
            cut, total = low, 0.0
            for i in range(low, high):
                if step[i] < middle:
                    total += weight[i]
                    step[i], step[cut] = step[cut], step[i]
                    weight[i], weight[cut] = weight[cut], weight[i]
                    queue[i], queue[cut] = queue[cut], queue[i]
                    cut += 1
            if total >= over:
                high = cut
                continue
            over -= total
            low = cut
            # those equal to the middle: the one with the largest weight ends the edge, or all are crossed
            cut, total, most = low, 0.0, low
            for i in range(low, high):
                if step[i] == middle:
                    total += weight[i]
                    step[i], step[cut] = step[cut], step[i]
                    weight[i], weight[cut] = weight[cut], weight[i]
                    queue[i], queue[cut] = queue[cut], queue[i]
                    if weight[cut] > weight[most]:
                        most = cut
                    cut += 1
            if total >= over:
                step[low], step[most] = step[most], step[low]
                queue[low], queue[most] = queue[most], queue[low]
                weight[low], weight[most] = weight[most], weight[low]
                high = low + 1
                over = 0.0
            elif cut < high:
                over -= total
                low = cut
            else:
                over, low = over - total, cut
        if low >= everything or (high - low == 1 and weight[low] < over):
            return -1 - pivots
        for q in range(low):
            i = queue[q]
            if i < m:
                x = -top[i] if beta[i] > 0.0 else top[i]
                beta[i] = max(x, 0.0)
                _add(gamma, Z[i], x)
            else:
                j = active[i - m]
                gamma[j] += 2.0 * a * sign[j]
                sign[j] = -sign[j]
        length, enter = step[low], queue[low]
        for c in range(k):
            z[active[c]] += length * d[c]
        _add(t, rate, length)
        # the table
        if enter < m:
            if beta[enter] != 0.0:
                _add(gamma, Z[enter], -beta[enter])
            for s in range(p):
                rho[s] = 0.0 if slot[s] < m else Z[enter, slot[s] - m]
            for c in range(k):
                _add(rho, T[c], Z[enter, active[c]])
            basic[enter] = True
            t[enter] = o[enter]
            beta[enter] = 0.0
        else:
            for s in range(p):
                rho[s] = T[enter - m, s]
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
        if out < m:
            basic[out] = False
            beta[out] = 0.0 if way > 0.0 else top[out]
            if beta[out] != 0.0:
                _add(gamma, Z[out], top[out])
        else:
            j = out - m
            z[j] = length * way
            sign[j] = 0.0 if j == last else way
            gamma[j] -= a * sign[j]
        if enter >= m:
            c = enter - m
            j = active[c]
            gamma[j] += a * sign[j]
            z[j] = sign[j] = 0.0
            slot[leave] = m + j
            if out >= m:
                active[c] = out - m
            else:
                k -= 1
                active[c] = active[k]
                for s in range(p):
                    T[c, s] = T[k, s]
                norm[leave] -= 1.0
        else:
            slot[leave] = enter
            c = k
            if out >= m:
                active[k] = out - m
                k += 1
        if out >= m:  # the row of the coordinate that leaves 0
            for s in range(p):
                y = -rho[s] / pivot
                if enter < m:
                    norm[s] += y * y
                else:
                    norm[s] += y * y - T[c, s] * T[c, s]
                T[c, s] = y
            T[c, leave] = 1.0 / pivot
            norm[leave] += T[c, leave] * T[c, leave]
            if enter >= m:
                norm[leave] -= 1.0
        pivots += 1
        since += 1
    for s in range(p):
        if slot[s] < m:
            beta[slot[s]] = -mu[s]
    return pivots
