"""The scalar equation `q + c q^e = u` behind p-norms, and the projection on the ball of a p-norm."""

from __future__ import annotations

import numpy as np

from ucm.data.linear_map import Vec

_SQUARABLE = 1e300
_EPS = float(np.finfo(float).eps)
_NORMAL = float(np.finfo(float).tiny)  # the least number of full precision
_NEWTON = 200  # steps of one equation, whose iterates descend until rounding stops them
_STEPS = 300  # of the multiplier


def power_root(u: Vec, c: Vec | float, e: float) -> Vec:
    """Return the root `q >= 0` of `q + c q^e = max(u, 0)` elementwise.

    Parameters
    ----------
    u : (n,)
    c : (n,) or a number, not negative
    e : positive
    """
    c, out = np.broadcast_to(c, u.shape), np.where(u > 0.0, u, 0.0)
    at = np.flatnonzero((u > 0.0) & (c > 0.0))
    if not at.size:
        return out
    u, c = u[at], c[at]
    with np.errstate(all="ignore"):
        if e >= 1.0:
            out[at] = _descending(u, c, e)
        else:
            # z = q^e: z + z^(1/e) / c = u / c. Rounding of z is 1 / e times as large in q, which Newton's
            # step in q takes away
            q = _descending(u / c, 1.0 / c, 1.0 / e) ** (1.0 / e)
            power = c * q ** (e - 1.0)
            after = q - (q + power * q - u) / (1.0 + e * power)
            out[at] = np.where((q >= _NORMAL) & (after > 0.0), after, q)
    return out


def _descending(u: Vec, c: Vec, e: float) -> Vec:
    """Return the root x of `x + c x^e = u` elementwise for u, c > 0 and e >= 1.

    The left side is convex and increasing.

    Newton's method descends from a point right of the root; `min(u, (u/c)^(1/e))` is one, within a factor 2
    of the root. For e = 2 in closed form.
    """
    if e == 2.0 and float((c * u).max()) < _SQUARABLE:
        return 2.0 * u / (1.0 + np.sqrt(1.0 + 4.0 * c * u))
    x = np.minimum(u, (u / c) ** (1.0 / e))
    for _ in range(_NEWTON):
        power = x ** (e - 1.0)
        after = x - (x + c * power * x - u) / (1.0 + c * e * power)
        falls = after < x
        if not falls.any():
            break
        x = np.where(falls, after, x)
    return x


def project_power(u: Vec, p: float) -> tuple[Vec, Vec, Vec]:
    """Return the projection q of u on `sum q^p = 1`, w = dq/du at fixed multiplier, and `normal = q^(p-1)`.

    u >= 0 lies outside of the ball, and 1 < p < inf. With the multiplier lam, `dq = w (du - normal dlam)`.

    The equations are `q + lam q^(p-1) = u`. As `(sum q^p)^(-1/2)` is nearly linear in lam, Newton's method
    is applied to that, in a bracket.
    """
    q, w = u, np.ones(u.size)
    low, high, above, below, before = 0.0, np.inf, np.nan, np.nan, np.inf
    beyond = q  # the entries at low
    lam = float(u.max(initial=0.0))
    least = _EPS * _EPS * lam  # below it a change of u is far below rounding
    for _ in range(_STEPS if u.size else 0):
        q, w, total, slope = _at_multiplier(lam, u, p)
        excess = total - 1.0
        if abs(excess) <= 8.0 * _EPS * p:
            break
        if low == 0.0 and excess < 0.0 and lam <= least:  # u is on the sphere but for rounding
            q = u
            break
        if excess > 0.0:
            low, above, beyond = lam, excess, q
        else:
            high, below = lam, excess
        step = 2.0 * total * (np.sqrt(total) - 1.0) / (p * slope) if slope > 0.0 else np.inf
        after = lam + step
        within_factor = lam <= 64.0 * after and after <= 64.0 * lam
        if low < after < high and abs(step) <= 0.5 * before and within_factor:
            before = abs(step)
        else:
            after = 0.0625 * lam if low == 0.0 else np.sqrt(low) * np.sqrt(high)
            after = 16.0 * lam if high == np.inf else after
            before = np.inf
        if not low < after < high:  # low and high are neighbours, and lam is one of them
            if lam == low:
                q, w, _, _ = _at_multiplier(high, u, p)
            part = -below / (above - below)
            q = part * beyond + (1.0 - part) * q
            break
        lam = float(after)
    return q, w, q ** (p - 1.0)


def _at_multiplier(lam: float, u: Vec, p: float) -> tuple[Vec, Vec, float, float]:
    """Return q, w, `sum q^p` and the derivative of `sum q^p / p` in -lam, at the multiplier lam."""
    q, k = power_root(u, lam, p - 1.0), lam * (p - 1.0)
    with np.errstate(all="ignore"):
        if p >= 2.0:
            second = q ** (p - 2.0)
            first = second * q
            w = 1.0 / (1.0 + k * second)
        else:
            smooth = q ** (2.0 - p)
            first = np.where(q > 0.0, q / smooth, 0.0)
            w = smooth / (smooth + k)
    return q, w, float((first * q).sum()), float((w * first * first).sum())
