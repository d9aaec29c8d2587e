"""Trust-region problems by their secular equation `sum_i b_i / (u + e_i)^2 = r^2`.

Conn, Gould and Toint (2000), Trust-region methods, chapter 7.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import Vec

_ROUNDING = 1e-14  # of an eigenvalue, and of every term
_NEGLIGIBLE = 1e-200  # of the largest b_i: squares of smaller ones underflow
_STEPS = 100


def secular_root(e: Vec, b: Vec, radii: Vec | float, least: float = 0.0) -> Vec:
    """Return for every radius the root u of the secular equation, or `least` where that is larger.

    With g the vector of `sqrt(b_i) / (u + e_i)`, 1 / ||g|| is concave and nearly linear in u: Newton's method
    for it climbs to the root from the left, and never passes it.

    Parameters
    ----------
    e : (n,)
    b : (n,) not negative
    radii : (k,) or a number
    least : at least `-min e`
    """
    r = np.atleast_1d(np.asarray(radii, dtype=np.float64))
    used = b > _NEGLIGIBLE * float(b.max(initial=0.0))
    if not used.any():
        return np.full(r.shape, least)
    e, b = e[used], b[used]
    first = np.max(np.sqrt(b) / r[:, None] - e, axis=1)  # where one term alone is r^2
    u = np.maximum(least, np.maximum(first, np.sqrt(b.sum()) / r - e.max()))
    for _ in range(_STEPS):
        near = 1.0 / (u[:, None] + e)
        square = (near * near) @ b
        size = np.sqrt(square)
        step = (size / r - 1.0) * square / ((near * near * near) @ b)
        step[size <= r] = 0.0  # the root, or `least`
        u = u + step
        if np.all(step <= 1e-15 * np.abs(u)):
            break
    return u


def least_on_sphere(A: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return a lower bound of `min <b, w> + w'Aw` over `||w||_2 = 1`, exact but for rounding.

    For every `t <= min eig A` the value is at least `t - b'(A - t I)^-1 b / 4`, and the largest of these
    is attained: the trust region problem has no gap. Where b is orthogonal to the least eigenvectors (the
    hard case, b = 0 above all) that is at the least eigenvalue itself.

    Parameters
    ----------
    A : (n, n) symmetric
    b : (n,)
    """
    e, V = np.linalg.eigh(A)
    beta = 0.25 * (V.T @ b) ** 2
    size = float(np.abs(e).max()) + 2.0 * float(np.sqrt(beta.sum()))
    rounding = _ROUNDING * e.size * size
    away = e - e[0]
    below = max(float(secular_root(away, beta, 1.0)[0]), 0.0)
    used = (beta > 0.0) & (away + below > 0.0)
    return float(e[0]) - below - float((beta[used] / (away[used] + below)).sum()) - 2.0 * rounding
