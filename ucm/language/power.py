"""The scalar equation behind every p-norm, `q + c q^e = u`, and the projection on the ball of a p-norm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import brentq

from ucm.data.linear_map import Vec

_SQUARABLE = 1e300
_EPS = float(np.finfo(float).eps)
_NORMAL = float(np.finfo(float).tiny)  # the least number of full precision
_NEWTON = 200  # steps of one equation, whose iterates descend until rounding stops them


def power_root(u: Vec, c: Vec | float, e: float) -> Vec:
    """Return `q >= 0` with `q + c q^e = max(u, 0)` elementwise.

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
    """Return the root of `x + c x^e = u`, e >= 1, convex and increasing.

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
    """Return the q nearest to `u >= 0` with `sum q^p = 1`, 1 < p < inf, u outside; w, dq of a change of
    `u - lam normal`; and `normal = q^(p-1)`.

    The equations are `q + lam q^(p-1) = u`. Brent's method finds log(lam): lam is at most the dual norm of u,
    where `q <= (u / lam)^(1/(p-1))` has norm 1. The function
    `1 - 2 / (1 + sum q^p)` is bounded.
    """

    def excess(log_lam: float) -> float:
        return 1.0 - 2.0 / (1.0 + float((power_root(u, math.exp(log_lam), p - 1.0) ** p).sum()))

    q, w, top = u, np.ones(u.size), float(u.max(initial=0.0))
    with np.errstate(all="ignore"):
        low = math.log(_EPS * _EPS * top)  # a smaller lam changes u by far less than rounding
        if excess(low) > 0.0:
            dual = p / (p - 1.0)
            high = math.log(top) + math.log(float(((u / top) ** dual).sum())) / dual + 1.0
            root: Any = brentq(excess, low, high, xtol=1e-15, rtol=np.float64(1e-15))
            lam = math.exp(root)
            q = power_root(u, lam, p - 1.0)
            smooth = q ** abs(p - 2.0)
            slope = lam * (p - 1.0)
            w = 1.0 / (1.0 + slope * smooth) if p >= 2.0 else smooth / (smooth + slope)
    return q, w, q ** (p - 1.0)
