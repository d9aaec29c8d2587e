"""The least value of a quadratic over the unit sphere."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["least_on_sphere"]

_HALVINGS = 80
_ROUNDING = 1e-14  # of an eigenvalue, and of every term


def least_on_sphere(A: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """A lower bound of `min <b, w> + w'Aw` over `||w||_2 = 1`, exact but for rounding.

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
    e = e - rounding

    def bound(t: float) -> float:
        used = beta > 0.0
        return t - float((beta[used] / (e[used] - t)).sum())

    high = float(e[0])
    if beta[0] == 0.0 and not (beta[1:][e[1:] <= high] > 0.0).any():
        used = e > high
        if float((beta[used] / (e[used] - high) ** 2).sum()) <= 1.0:
            return bound(high) - rounding
    low = high - float(np.sqrt(beta.sum())) - rounding  # the slope in t is not negative there
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        if float((beta / (e - middle) ** 2).sum()) > 1.0:
            high = middle
        else:
            low = middle
    return bound(low) - rounding
