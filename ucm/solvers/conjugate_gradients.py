"""Preconditioned conjugate gradients.

Hestenes and Stiefel (1952), Methods of conjugate gradients for solving linear systems.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ucm.data.linear_map import Vec


def conjugate_gradients(
    times: Callable[[Vec], Vec],
    g: Vec,
    accuracy: float,
    most: int,
    timed_out: Callable[[], bool],
    precondition: Callable[[Vec], Vec] = lambda v: v,
) -> tuple[Vec, int]:
    """Return an approximate solution of `H d = g`, and the number of products with H.

    Parameters
    ----------
    times : v to H v, H symmetric and positive definite
    g : (n,)
    accuracy : residual to reach, relative to g
    most : limit of products
    timed_out : called before each product; True stops
    precondition : v to an approximation of `H^-1 v`
    """
    d, residual, count = np.zeros_like(g), g, 0
    wanted = accuracy * float(np.linalg.norm(g))
    z = precondition(residual)
    p, height = z, float(residual @ z)
    while count < most and float(np.linalg.norm(residual)) > wanted and not timed_out():
        Hp = times(p)
        count += 1
        t = height / float(p @ Hp)
        d = d + t * p
        residual = residual - t * Hp
        z = precondition(residual)
        before, height = height, float(residual @ z)
        p = z + (height / before) * p
    return d, count
