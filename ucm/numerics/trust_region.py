"""Trust-region problems by their secular equation `sum_i b_i / (u + e_i)^2 = r^2`.

Conn, Gould and Toint (2000), Trust-region methods, chapter 7.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import Vec

_ROUNDING = 1e-14  # of an eigenvalue, and of every term


def secular_root(e: Vec, b: Vec, radii: Vec | float, least: float = 0.0) -> Vec:
    """Return for every radius the larger of `least` and the root u of the secular equation.

    With g the vector of `sqrt(b_i) / (u + e_i)`, 1 / ||g|| is concave and nearly linear in u: Newton's method
    for it climbs to the root from the left, and never passes it. b is not negative, and `least` at least
    `-min e`.
    """
    r = np.atleast_1d(np.asarray(radii, dtype=np.float64))
    used = b > 1e-200 * float(b.max(initial=0.0))  # squares of smaller entries underflow
    if not used.any():
        return np.full(r.shape, least)
    e, b = e[used], b[used]
    first = np.max(np.sqrt(b) / r[:, None] - e, axis=1)  # where one term alone is r^2
    u = np.maximum(least, np.maximum(first, np.sqrt(b.sum()) / r - e.max()))
    for _ in range(100):
        inverses = 1.0 / (u[:, None] + e)
        square = (inverses * inverses) @ b
        size = np.sqrt(square)
        step = (size / r - 1.0) * square / ((inverses * inverses * inverses) @ b)
        step[size <= r] = 0.0  # the root, or `least`
        u = u + step
        if np.all(step <= 1e-15 * np.abs(u)):
            break
    return u


def nearest_on_ellipsoid(S: NDArray[np.float64], c: Vec) -> tuple[float, Vec]:
    """Return a lower bound of the minimum of `sqrt(w'S w) - <c, w>` over `||w||_2 = 1`, and a minimiser.

    It is the distance from 0 to the surface of the ellipsoid `{c + S^(1/2) u : ||u||_2 <= 1}` around 0. With
    `S = V diag(s) V'` and `a = V'c` the nearest point has the coordinates `t a_i / (s_i + t)` for the root t
    in `[-min s, 0]` of `sum s_i a_i^2 / (s_i + t)^2 = 1`; w is along `a_i / (s_i + t)`. In the hard case, c
    orthogonal to the thinnest axes, `t = -min s` and w has any part of these. For every t the square of the
    distance is at least `sum t a_i^2 / (s_i + t) - t`, at the root exactly: there is no duality gap. The
    bound is -inf if 0 lies outside.

    Ito, Takeda and Toh (2015), equation (34), beyond its largest kappa. S is positive semidefinite.
    """
    s, V = np.linalg.eigh(S)
    if not s[-1] > 0.0:
        return -np.inf, V[:, 0]
    s = np.maximum(s, 1e-30 * s[-1])
    a, away = V.T @ c, s - s[0]
    above = float(secular_root(away, s * a * a, 1.0)[0])  # t + min s
    t = min(above - float(s[0]), 0.0)  # 0: the point 0 lies on the surface
    gaps = away + (float(s[0]) if t == 0.0 else above)
    w = np.divide(a, gaps, out=np.zeros(a.size), where=gaps > 0.0)
    missing = 1.0 - float((s * w * w).sum())
    if above == 0.0 and missing > 0.0:
        w[0] = -np.sqrt(missing / s[0])
    t = min(max(t, 1e-13 * float(s[-1]) - float(s[0])), 0.0)
    if not s[0] + t > 0.0 or not float((a * a / s).sum()) <= 1.0:
        return -np.inf, V @ w
    rounding = 0.1 * _ROUNDING * s.size * float(s[-1])
    square = float((t * a * a / (s + t)).sum()) - t - rounding
    return float(np.sqrt(max(square, 0.0))), V @ w


def polar_rule(F: NDArray[np.float64], radius: float) -> NDArray[np.float64]:
    """Return V, `||V||_2 = radius`, so that `F'V` maps the unit ball onto `F'` times the ball of this radius.

    It is the polar factor of F, (d, r).
    """
    P, s, Q = np.linalg.svd(F, full_matrices=False)
    used = s > _ROUNDING * s.max(initial=0.0)
    return radius * (P[:, used] @ Q[used])
