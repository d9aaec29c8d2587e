"""Steps of nearest-point algorithms for reduced convex hulls: Lopez, Barbero and Dorronsoro (2011).

They minimise `||W||^2 / 2` with `W = c + sum_i a_i z_i`, `0 <= a_i <= cap_g` and `sum a_i = mass_g` in
every group g (a class). Vectors are met through inner products only: `z_i = s_i x_i` with the Gram
matrix K of the x_i, so `<z_i, z_j> = s_i s_j K_ij`, and `F_i = <W, z_i>` is the derivative for a_i.
"""

from __future__ import annotations

import numpy as np
from numba import types

from ucm.numerics._jit import READ, WRITE, f8, i8, jit

__all__ = ["class_gaps", "clip_gsk", "clip_mdm", "extreme_steps"]

_MATRIX = types.Array(types.float64, 2, "C", readonly=True)
_OUT = types.Array(types.float64, 2, "C")
_INDEX = types.Array(types.int64, 1, "C", readonly=True)


@jit(types.Tuple((i8, f8))(WRITE, f8, f8))
def extreme_weights(v, cap, mass):
    """How many of the sorted entries carry the cap, and the weight of the next one."""
    count = int(mass / cap * (1.0 + 1e-13)) if cap * v.size > mass else v.size
    count = min(count, v.size)
    rest = mass - count * cap
    return count, rest if count < v.size and rest > 1e-13 * mass else 0.0


@jit(types.void(READ, READ, _INDEX, READ, READ, WRITE))
def class_gaps(F, a, group, cap, mass, gaps):
    """`sum a_i F_i - min <W, Z>` over the extreme points Z of each reduced hull; never negative."""
    for g in range(cap.size):
        n = 0
        for k in range(a.size):
            if group[k] == g:
                n += 1
        v = np.empty(n)
        n = 0
        now = 0.0
        for k in range(a.size):
            if group[k] == g:
                v[n] = F[k]
                now += a[k] * F[k]
                n += 1
        v.sort()
        count, rest = extreme_weights(v, cap[g], mass[g])
        least = 0.0
        for k in range(count):
            least += cap[g] * v[k]
        if rest > 0.0:
            least += rest * v[count]
        gaps[g] = now - least


@jit(
    types.Tuple((i8, i8, i8, f8))(
        _MATRIX, _INDEX, _INDEX, READ, READ, _INDEX, READ, i8, f8, i8, f8, WRITE, READ, WRITE, WRITE
    )
)
def clip_mdm(
    rows, where, index, diagonal, s, group, cap, choice, eps, limit, clock, used, stop, a, F
):
    """Clipped MDM, equations (7), (13) and (14), until no pair violates by more than eps; a and F in
    place.

    In each group L has the least F among `a < cap` and U the largest among `a > 0`; the group with the
    larger `F_U - F_L` moves weight from U to L: choice 0. With choice 1, U is the one that lowers the
    norm most, as far as the bounds allow; with choice 2 the best pair with L or U of any group.

    Variable k of the n at hand, with the bound `cap[k]`, is sample `index[k]`; its Gram row is
    `rows[where[index[k]]]`, and `used` of that slot is set to the clock. It ends where `stop` is not
    0. Returns the number of steps, a code (0 done, 1 limit or stopped, 3 a row is missing), the sample
    whose row is missing, and the violation.
    """
    n = a.size
    groups = 0
    for k in range(n):
        groups = max(groups, group[k] + 1)
    lowest = np.empty(groups, dtype=np.int64)
    highest = np.empty(groups, dtype=np.int64)
    whole = n == rows.shape[1]  # as index increases, it then counts 0, 1, ...
    for step in range(limit + 1):
        for g in range(groups):
            lowest[g] = -1
            highest[g] = -1
        for k in range(n):
            g = group[k]
            f = F[k]
            if a[k] < cap[k] and (lowest[g] < 0 or f < F[lowest[g]]):
                lowest[g] = k
            if a[k] > 0.0 and (highest[g] < 0 or f > F[highest[g]]):
                highest[g] = k
        violation, chosen = 0.0, -1
        for g in range(groups):
            if lowest[g] >= 0 and highest[g] >= 0:
                d = F[highest[g]] - F[lowest[g]]
                if d > violation:
                    violation, chosen = d, g
        if chosen < 0 or not violation > eps:
            return step, 0, -1, violation
        if step == limit or stop[0] > 0.0:
            return step, 1, -1, violation
        L, U = lowest[chosen], highest[chosen]
        if choice > 0:
            gain = 0.0
            for g in range(groups):
                if lowest[g] < 0 or highest[g] < 0 or (choice == 1 and g != chosen):
                    continue
                for side in range(choice):
                    i = lowest[g] if side == 0 else highest[g]
                    slot = where[index[i]]
                    if slot < 0:
                        return step, 3, index[i], violation
                    used[slot] = clock + step
                    Ki = rows[slot]
                    base, si = diagonal[i], 2.0 * s[i]
                    tiny = 1e-12 * max(abs(base), 1e-300)
                    room_i = cap[i] - a[i] if side == 0 else a[i]
                    sign = 1.0 if side == 0 else -1.0
                    for k in range(n):
                        d = sign * (F[k] - F[i])
                        room = min(room_i, a[k] if side == 0 else cap[k] - a[k])
                        if group[k] == g and room > 0.0 and d > 0.0:
                            eta = max(base + diagonal[k] - si * s[k] * Ki[index[k]], tiny)
                            t = min(room, d / eta)
                            fall = t * (d - 0.5 * t * eta)
                            if fall > gain:
                                gain = fall
                                L = i if side == 0 else k
                                U = k if side == 0 else i
                                chosen = g
        slot = where[index[L]]
        if slot < 0:
            return step, 3, index[L], violation
        used[slot] = clock + step
        KL = rows[slot]
        sL, base = s[L], diagonal[L]
        slot = where[index[U]]
        if slot < 0:
            return step, 3, index[U], violation
        used[slot] = clock + step
        KU = rows[slot]
        sU = s[U]
        room = min(cap[L] - a[L], a[U])
        eta = base + diagonal[U] - 2.0 * sL * sU * KL[index[U]]
        t = room  # of equal points: all of the weight moves, at no change of W
        if eta > 1e-14 * (abs(base) + abs(diagonal[U])):
            t = min(room, (F[U] - F[L]) / eta)
        full = t >= cap[L] - a[L]
        empty = t >= a[U]
        a[L] = cap[L] if full else a[L] + t
        a[U] = 0.0 if empty else a[U] - t
        tL, tU = t * sL, t * sU
        if whole:
            for k in range(n):
                F[k] += s[k] * (tL * KL[k] - tU * KU[k])
        else:
            for k in range(n):
                j = index[k]
                F[k] += s[k] * (tL * KL[j] - tU * KU[j])
    return limit, 1, -1, 0.0


@jit(
    types.Tuple((i8, i8, i8))(
        _MATRIX,
        _INDEX,
        _INDEX,
        READ,
        READ,
        _INDEX,
        READ,
        READ,
        f8,
        i8,
        f8,
        WRITE,
        READ,
        WRITE,
        _OUT,
        WRITE,
    )
)
def clip_gsk(
    rows, where, index, diagonal, s, group, cap, mass, eps, limit, clock, used, stop, a, H, F
):
    """Clipped GSK, equations (3), (11) and (12), until every class gap is at most eps; a, H and F in
    place, `H[g, k] = <Z_g, z_k>` for the point `Z_g = sum a_i z_i` of the group.

    Returns the number of steps, a code (0 done, 1 limit or stopped, 3 a row is missing, 4 stuck: no
    candidate is left that lowers the norm), and the sample whose row is missing.
    """
    n, groups = a.size, cap.size
    gaps = np.empty(groups)
    level = np.empty(groups)
    lowest = np.empty(groups, dtype=np.int64)
    check = 0
    for step in range(limit + 1):
        if step >= check:
            class_gaps(F, a, group, cap, mass, gaps)
            if gaps.max() <= eps:
                return step, 0, -1
            check = step + max(1, step // 100)
        if step == limit or stop[0] > 0.0:
            return step, 1, -1
        for g in range(groups):
            level[g] = 0.0
            lowest[g] = -1
        for k in range(n):
            level[group[k]] += a[k] * F[k]
        for k in range(n):
            g = group[k]
            if a[k] < cap[g] and (lowest[g] < 0 or F[k] < F[lowest[g]]):
                lowest[g] = k
        best, L = 0.0, -1
        for g in range(groups):
            if lowest[g] >= 0:
                d = level[g] - mass[g] * F[lowest[g]]
                if d > best:
                    best, L = d, lowest[g]
        if L < 0:
            return step, 4, -1
        g = group[L]
        slot = where[index[L]]
        if slot < 0:
            return step, 3, index[L]
        used[slot] = clock + step
        KL = rows[slot]
        # Z_g' = (1 - t) Z_g + t mass z_L
        square = 0.0
        for k in range(n):
            if group[k] == g:
                square += a[k] * H[g, k]
        eta = square - 2.0 * mass[g] * H[g, L] + mass[g] * mass[g] * diagonal[L]
        most = (cap[g] - a[L]) / (mass[g] - a[L])
        t = min(1.0, most)
        if eta > 1e-14 * (abs(square) + diagonal[L] * mass[g] * mass[g]):
            t = min(t, best / eta)
        if t <= 1e-15:
            return step, 4, -1
        for k in range(n):
            if group[k] == g:
                a[k] *= 1.0 - t
        a[L] = min(a[L] + t * mass[g], cap[g])
        weight = t * mass[g] * s[L]
        for k in range(n):
            change = weight * s[k] * KL[index[k]] - t * H[g, k]
            H[g, k] += change
            F[k] += change
    return limit, 1, -1


@jit(
    types.Tuple((i8, i8, i8))(
        _MATRIX,
        _INDEX,
        _INDEX,
        READ,
        _INDEX,
        READ,
        READ,
        types.boolean,
        f8,
        i8,
        f8,
        WRITE,
        READ,
        types.boolean,
        WRITE,
        WRITE,
        WRITE,
        _OUT,
        WRITE,
    )
)
def extreme_steps(
    rows, where, index, s, group, cap, mass, pairs, eps, limit, clock, used, stop, known, row, share,
    a, H, F,
):  # fmt: skip
    """mu-GSK, equation (9), or with `pairs` mu-MDM, equation (10), until every class gap is at most
    eps; a, H and F in place as in `clip_gsk`. Where H has one row only, `<sum_g Z_g, z_k>`, all points move
    at once by the same share, Gilbert's method on the Minkowski difference.

    GSK moves Z_g towards the extreme point of its reduced hull with the least `<W, Z>`. MDM moves
    weight from the support vector with the largest F to that point, whose terms must have room: those
    at the cap are passed over. A step needs the rows of all these samples, `sum_r share_r K[r]`: where one
    of them is missing, it ends with their shares in `share`; with `known` that sum stands in `row`, over the
    variables, for the first step. Returns the number of steps, a code (0 done, 1 limit or stopped, 3 a row is
    missing, 4 stalled), and the inner products that were used.
    """
    n, groups = a.size, cap.size
    gaps = np.empty(groups)
    w = np.empty((groups, n))
    joint = H.shape[0] < groups
    operations = 0
    for step in range(limit + 1):
        class_gaps(F, a, group, cap, mass, gaps)
        if gaps.max() <= eps:
            return step, 0, operations
        if step == limit or stop[0] > 0.0:
            return step, 1, operations
        best, chosen, out, total = 0.0, -1, -1, 0.0
        for g in range(groups):
            # the extreme point, and for MDM the support vector that gives
            top = -1
            if pairs:
                for k in range(n):
                    if group[k] == g and a[k] > 0.0 and (top < 0 or F[k] > F[top]):
                        top = k
            m = 0
            for k in range(n):
                w[g, k] = 0.0
                if group[k] == g and (not pairs or (k != top and a[k] < cap[g])):
                    m += 1
            member = np.empty(m, dtype=np.int64)
            v = np.empty(m)
            m = 0
            for k in range(n):
                if group[k] == g and (not pairs or (k != top and a[k] < cap[g])):
                    member[m] = k
                    v[m] = F[k]
                    m += 1
            count, rest = extreme_weights(v, cap[g], mass[g])
            if count * cap[g] + rest < mass[g] * (1.0 - 1e-9):
                continue  # too few with room
            order = np.argsort(v)
            d = mass[g] * F[top] if pairs else 0.0
            for r in range(count):
                w[g, member[order[r]]] = cap[g]
                d -= cap[g] * v[order[r]]
            if rest > 0.0:
                w[g, member[order[count]]] = rest
                d -= rest * v[order[count]]
            if not pairs:
                for k in range(n):
                    if group[k] == g:
                        d += a[k] * F[k]
            total += d
            if d > best:
                best, chosen, out = d, g, top
        if chosen < 0:
            return step, 4, operations
        g = chosen
        if joint:
            g, best = 0, total
            for h in range(1, groups):
                for k in range(n):
                    w[0, k] += w[h, k]
        count = 0
        missing = False
        for r in range(n):
            share[r] = w[g, r] * s[r]
            if pairs and r == out:
                share[r] -= mass[g] * s[out]
            if share[r] != 0.0:
                count += 1
                slot = where[index[r]]
                if slot < 0:
                    missing = True
                else:
                    used[slot] = clock + step
        if step > 0 or not known:
            if missing:
                return step, 3, operations
            for k in range(n):
                row[k] = 0.0
            for r in range(n):
                if share[r] != 0.0:
                    Kr = rows[where[index[r]]]
                    for k in range(n):
                        row[k] += share[r] * Kr[index[k]]
        for k in range(n):
            row[k] *= s[k]
        operations += count * n + 2 * count * count
        # row_k = <V, z_k> for V = X_L - Z_g (GSK, below) or X_L - mass z_U (MDM)
        eta = 0.0
        most = 1.0
        if pairs:
            most = a[out] / mass[g]
            for r in range(n):
                if w[g, r] > 0.0:
                    eta += w[g, r] * row[r]
                    most = min(most, (cap[g] - a[r]) / w[g, r])
            eta -= mass[g] * row[out]
        else:
            for r in range(n):
                if joint or group[r] == g:
                    eta += w[g, r] * row[r] + a[r] * (H[g, r] - 2.0 * row[r])
        t = most
        if eta > 0.0:
            t = min(most, best / eta)
        if t <= 1e-15:
            return step, 4, operations
        if pairs:
            for r in range(n):
                if w[g, r] > 0.0:
                    a[r] = min(a[r] + t * w[g, r], cap[g])
            a[out] = 0.0 if t >= a[out] / mass[g] else a[out] - t * mass[g]
        else:
            for r in range(n):
                if joint or group[r] == g:
                    a[r] = (1.0 - t) * a[r] + t * w[g, r]
                row[r] -= H[g, r]
        for k in range(n):
            H[g, k] += t * row[k]
            F[k] += t * row[k]
    return limit, 1, operations
