"""The scalar equation behind every p-norm: `q + c q^e = u`."""

from __future__ import annotations

import numpy as np
from numba import types

from ucm.numerics._jit import READ, WRITE, f8, jit

__all__ = ["power_root"]

_SQUARABLE = 1e300


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
