"""Steps over the band of a hull: the projection along a line, the bound, the choice of rows.

The rows of one class lie in `V[:, lo:hi]`, the band among them in front. At `w + t d` with scores
`a + t b`, the projection is `p = clip(q - sigma (a + t b - theta), 0, cap)` with `sum p = mass`.
"""

from __future__ import annotations

import numpy as np
from numba import types

from ucm.numerics._jit import f8, inner
from ucm.numerics.root import clipped, solve

__all__ = [
    "ROWS", "A", "P", "Q", "R", "balance", "beneath", "clip", "compact", "held", "least", "project", "slope",
]  # fmt: skip

ROWS = types.Array(f8, 2, "C")
Q, P, A, R = 0, 1, 2, 3
"""Rows of V: the proximal centre q, the trial point p, the scores a, the scores when last compared."""


@inner()
def project(q, a, b, t, sigma, theta, cap, mass, out):
    """p in `out`; returns theta, found from the one given."""
    for i in range(q.size):
        out[i] = q[i] - sigma * ((a[i] + t * b[i]) - theta)
    slack = 1e-11 * cap  # of a mass that is a whole number of caps, up to rounding
    if mass >= cap * q.size - slack:
        for i in range(q.size):
            out[i] = cap
        return theta
    if mass <= slack:
        for i in range(q.size):
            out[i] = 0.0
        return theta
    ref, shift = solve(out, cap, mass, 0.0)
    below = -np.inf  # the largest entry at 0 and the smallest at the cap, when none lies between
    above = np.inf
    free = 0
    for i in range(q.size):
        v = (out[i] - ref) - shift
        if v <= 0.0:
            below = max(below, v)
            out[i] = 0.0
        elif v >= cap:
            above = min(above, v - cap)
            out[i] = cap
        else:
            free += 1
            out[i] = v
    if free == 0 and below > -np.inf and above < np.inf:
        shift += 0.5 * (below + above)
    return theta - (ref + shift) / sigma


@inner()
def balance(first, second, cap, other, excess):
    """s with `sum clip(first - s, 0, cap) + excess = sum clip(second + s, 0, other)`: the difference is
    piecewise linear and does not grow with s, as in `ucm.numerics.root`."""
    s = 0.0
    lo, hi, far = -np.inf, np.inf, max(cap, other)
    over = under = at_cap = at_other = -1  # counts at the last s
    direct = False
    for _ in range(200):
        up, more, capped = clipped(first, s, cap)
        down, less, filled = clipped(second, -s, other)
        rest = up - down + excess
        same = more == over and less == under and capped == at_cap and filled == at_other
        if abs(rest) <= 1e-15 * (up + down) or (direct and same):
            break
        over, under, at_cap, at_other = more, less, capped, filled
        if rest > 0.0:
            lo = s
        else:
            hi = s
        free = more - capped + less - filled
        if free > 0:
            step = rest / free
        else:
            step = far if rest > 0.0 else -far
            far *= 2.0
        after = s + step
        direct = free > 0 and lo < after < hi
        if not lo < after < hi:
            after = lo + 0.5 * (hi - lo)
            if not lo < after < hi:
                break
        s = after
    return s


@inner()
def clip(v, s, cap):
    """`v <- clip(v - s, 0, cap)`."""
    for i in range(v.size):
        v[i] = min(max(v[i] - s, 0.0), cap)


@inner(reduction=True)
def held(p):
    """`sum p`."""
    total = 0.0
    for i in range(p.size):
        total += p[i]
    return total


@inner(reduction=True)
def slope(target, p, b, q):
    """`<target - p, b>` and `||target - q||^2`."""
    total = 0.0
    square = 0.0
    for i in range(p.size):
        total += (target[i] - p[i]) * b[i]
        square += (target[i] - q[i]) * (target[i] - q[i])
    return total, square


@inner()
def select(v, k):
    """The k-th smallest entry, from 0; v is reordered (Hoare's quickselect)."""
    lo = 0
    hi = v.size - 1
    while lo < hi:
        mid = (lo + hi) // 2
        x = max(min(v[lo], v[hi]), min(max(v[lo], v[hi]), v[mid]))
        i = lo
        j = hi
        while i <= j:
            while v[i] < x:
                i += 1
            while v[j] > x:
                j -= 1
            if i <= j:
                v[i], v[j] = v[j], v[i]
                i += 1
                j -= 1
        if k <= j:
            hi = j
        elif k >= i:
            lo = i
        else:
            break
    return v[k]


@inner(reduction=True)
def beneath(a, p, cap, mass, theta):
    """The bound of `least` at any theta: `mass theta - cap sum max(theta - a, 0) - <a, p>`."""
    total = 0.0
    for i in range(a.size):
        below = theta - a[i]
        total += (cap * below if below > 0.0 else 0.0) + p[i] * a[i]
    return theta * mass - total


@inner()
def least(a, p, cap, mass, scratch):
    """A lower bound of `<a, p'> - <a, p>` over `0 <= p' <= cap`, `sum p' = mass`: its minimum, but for
    rounding."""
    if a.size == 0:
        return 0.0
    for i in range(a.size):
        scratch[i] = a[i]
    k = min(max(int(np.ceil(mass / cap * (1.0 - 1e-12))) - 1, 0), a.size - 1)
    return beneath(a, p, cap, mass, select(scratch, k))


@inner()
def sift(v, marks, rest):
    """The marked entries in front, all orders kept; `rest` is scratch."""
    front = 0
    back = 0
    for i in range(v.size):
        if marks[i] != 0.0:
            v[front] = v[i]
            front += 1
        else:
            rest[back] = v[i]
            back += 1
    for i in range(back):
        v[front + i] = rest[i]


@inner()
def compact(V, tags, lo, hi, sigma, theta, cap, reach, work):
    """Bring the rows of `lo:hi` whose argument of the projection comes within `sigma reach` of
    [0, cap] to the front, all orders kept; returns the end of them. The scores last compared stay."""
    marks, rest = work[0, lo:hi], work[1, lo:hi]
    size = 0
    for i in range(lo, hi):
        v = V[Q, i] - sigma * (V[A, i] - theta)
        inside = -sigma * reach < v < cap + sigma * reach
        marks[i - lo] = 1.0 if inside else 0.0
        size += inside
    if size < hi - lo:
        for r in (Q, P, A):
            sift(V[r, lo:hi], marks, rest)
        sift(tags[lo:hi], marks, rest)
    return lo + size
