"""The scalar equation behind every p-norm, `q + c q^e = u`, and the projection on its ball."""

from __future__ import annotations

import numpy as np
from numba import types

from ucm.numerics._jit import READ, WRITE, f8, inner, jit

__all__ = ["power_root", "project_power"]

_SQUARABLE = 1e300
_EPS = np.finfo(np.float64).eps


@jit(f8(f8, f8, f8))
def root(u, c, e):
    """Newton for `x + c x^e = u`, e >= 1: convex and increasing, so from a point right of the root
    it descends; `min(u, (u/c)^(1/e))` is one, within a factor 2 of the root. For e = 2 in closed form."""
    if e == 2.0 and c * u < _SQUARABLE:
        return 2.0 * u / (1.0 + np.sqrt(1.0 + 4.0 * c * u))
    x = min(u, (u / c) ** (1.0 / e))
    for _ in range(200):
        power = x ** (e - 1.0)
        after = x - (x + c * power * x - u) / (1.0 + c * e * power)
        if not after < x:
            break
        x = after
    return x


@jit(types.void(READ, READ, f8, WRITE))
def power_root(u, c, e, out):
    """`q >= 0` with `q + c q^e = max(u, 0)` elementwise, c >= 0 (one, or one for each) and e > 0."""
    for i in range(u.size):
        k = c[i if c.size > 1 else 0]
        if not u[i] > 0.0:
            out[i] = 0.0
        elif k == 0.0:
            out[i] = u[i]
        elif e >= 1.0:
            out[i] = root(u[i], k, e)
        else:  # z = q^e: z + z^(1/e) / c = u / c
            out[i] = root(u[i] / k, 1.0 / k, 1.0 / e) ** (1.0 / e)


@inner()
def at(lam, u, c, p, s, w):
    """The entries s at lam, their derivatives, `sum c s^p`, and its slope over p in -lam."""
    power_root(u / c, lam / c, p - 1.0, s)
    total = 0.0
    slope = 0.0
    for i in range(u.size):
        k = lam / c[i] * (p - 1.0)
        if p >= 2.0:
            w[i] = (u[i] > 0.0) / (1.0 + k * s[i] ** (p - 2.0))
        else:
            smooth = s[i] ** (2.0 - p)
            w[i] = smooth / (smooth + k)
        total += c[i] * s[i] ** p
        slope += w[i] * s[i] ** (2.0 * (p - 1.0))
    return total, slope


@jit(types.void(READ, READ, f8, WRITE, WRITE, WRITE))
def project_power(u, c, p, q, w, normal):
    """The q nearest to `u >= 0` with `sum c (q / c)^p = 1`, 1 < p < inf, u outside; dq of a change of
    u - lam normal, and `normal = (q / c)^(p-1)`.

    With `s = q / c` the equations are `s + (lam / c) s^(p-1) = u / c`. As `(sum c s^p)^(-1/2)` is nearly
    linear in lam, Newton's method is applied to that, in a bracket.
    """
    s = np.empty(u.size)
    beyond = np.empty(u.size)
    close = 8.0 * _EPS * p
    lo = 0.0
    hi = np.inf
    above = below = np.nan
    before = np.inf
    lam = u.max()
    for _ in range(300):
        total, slope = at(lam, u, c, p, s, w)
        excess = total - 1.0
        if abs(excess) <= close:
            break
        if excess > 0.0:
            lo, above = lam, excess
            beyond[:] = s
        else:
            hi, below = lam, excess
        step = 2.0 * total * (np.sqrt(total) - 1.0) / (p * slope) if slope > 0.0 else np.inf
        after = lam + step
        if lo < after < hi and abs(step) <= 0.5 * before and lam <= 64.0 * after <= 4096.0 * lam:
            before = abs(step)
        else:
            after = (
                16.0 * lam
                if hi == np.inf
                else 0.0625 * lam
                if lo == 0.0
                else np.sqrt(lo) * np.sqrt(hi)
            )
            before = np.inf
        if not lo < after < hi:  # lo and hi are neighbours, and lam one of them
            if lam == lo:
                at(hi, u, c, p, s, w)
            share = -below / (above - below)
            s = share * beyond + (1.0 - share) * s
            break
        lam = after
    for i in range(u.size):
        q[i] = c[i] * s[i]
        normal[i] = s[i] ** (p - 1.0)
