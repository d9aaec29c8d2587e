"""The scalar equation `q + c q^e = u` behind p-norms."""

from __future__ import annotations

import numpy as np

from ucm.data.linear_map import Vec

_SQUARABLE = 1e300
_NORMAL = float(np.finfo(float).tiny)  # the least number of full precision
_NEWTON = 200  # steps of one equation, whose iterates descend until rounding stops them


def power_root(u: Vec, c: Vec | float, e: float) -> Vec:
    """Return the root `q >= 0` of `q + c q^e = max(u, 0)` elementwise, for c >= 0 and e > 0."""
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
