"""Quadratic functions plus the support function of a box: descent along coordinates, and Newton steps on the
coordinates that are not 0."""

from __future__ import annotations

import numpy as np
from numba import types

from ucm.numerics._jit import READ, WRITE, f8, i8, inner, jit
from ucm.numerics._lapack import SQUARE, cholesky_solve

__all__ = ["boxed_quadratic"]

_SWEEPS = 6  # over the coordinates that are not 0, before a step on all of them
_ROUNDS = 20  # such steps in a row, each of which loses a coordinate at least
_RIDGE = 1e-13


@inner(reduction=True)
def _add(row, t, r):
    for i in range(r.size):
        r[i] += t * row[i]


@inner()
def _coordinate(H, r, x, lower, upper, ridge, j):
    """The best x_j with the others fixed; answers by how much its slope left its walls before."""
    a, slope, low, high = H[j, j] + ridge, r[j] + ridge * x[j], lower[j], upper[j]
    if x[j] > 0.0:
        over = abs(slope + high)
    elif x[j] < 0.0:
        over = abs(slope + low)
    else:
        over = max(0.0, -slope - high, slope + low)
    if over == 0.0:
        return 0.0
    new = 0.0
    if a > 0.0:
        v = a * x[j] - slope
        new = (v - high) / a if v > high else ((v - low) / a if v < low else 0.0)
    elif x[j] * (slope + (high if x[j] > 0.0 else low)) <= 0.0:
        return over  # it falls for ever
    step = new - x[j]
    if step != 0.0:
        x[j] = new
        _add(H[j], step, r)
    return over


@inner()
def _on_support(H, r, x, lower, upper, ridge):
    """A Newton step on the coordinates that are not 0 or have no wall, up to the first change of a sign;
    answers whether it was a whole one. Where their columns depend on each other, that first change is what
    it is for: a ridge near rounding leaves the step along what costs nothing in the quadratic part."""
    n = x.size
    support = np.empty(n, dtype=np.int64)
    k = 0
    for j in range(n):
        if x[j] != 0.0 or (lower[j] == 0.0 and upper[j] == 0.0):
            support[k] = j
            k += 1
    if k == 0:
        return True
    system, d, more = np.empty((k, k)), np.empty(k), _RIDGE
    while True:
        for i in range(k):
            row = support[i]
            for j in range(k):
                system[i, j] = H[row, support[j]]
            system[i, i] = (system[i, i] + ridge) * (1.0 + more)
            wall = upper[row] if x[row] > 0.0 else (lower[row] if x[row] < 0.0 else 0.0)
            d[i] = -(r[row] + ridge * x[row] + wall)
        if cholesky_solve(system, d):
            break
        more *= 100.0
        if more > 1.0:
            return True
    t, first = 1.0, -1
    for i in range(k):
        j = support[i]
        if (lower[j] != 0.0 or upper[j] != 0.0) and x[j] * (x[j] + d[i]) < 0.0:
            until = -x[j] / d[i]
            if until < t:
                t, first = until, i
    for i in range(k):
        j = support[i]
        step = t * d[i]
        walled = lower[j] != 0.0 or upper[j] != 0.0
        if i == first or (walled and x[j] * (x[j] + step) < 0.0):  # by rounding, of several at once
            step = -x[j]
        x[j] += step
        _add(H[j], step, r)
    return first < 0


@jit(types.void(SQUARE, WRITE, WRITE, READ, READ, f8, f8, i8, READ))
def boxed_quadratic(H, r, x, lower, upper, ridge, tol, most, stop):
    """Minimises `x'Hx / 2 + ridge |x|^2 / 2 + ... + sup of <x, z> over lower <= z <= upper` from x on, r the
    gradient of the quadratic part without its ridge, which is kept; lower <= 0 <= upper. Ends when no
    slope leaves its walls by more than tol, after so many rounds, or where `stop` is not 0."""
    for _ in range(most):
        if stop[0] > 0.0:
            break
        worst = 0.0
        for j in range(x.size):
            worst = max(worst, _coordinate(H, r, x, lower, upper, ridge, j))
        if worst <= tol:
            break
        here = worst
        for _ in range(_SWEEPS):
            here = 0.0
            for j in range(x.size):
                if x[j] != 0.0:
                    here = max(here, _coordinate(H, r, x, lower, upper, ridge, j))
            if here <= 0.1 * tol:
                break
        if here > 0.1 * tol:
            for _ in range(_ROUNDS):
                if stop[0] > 0.0 or _on_support(H, r, x, lower, upper, ridge):
                    break
