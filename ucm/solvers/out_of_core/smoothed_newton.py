"""Newton's method in w and both thresholds for two reduced hulls of rows, where their band is too large.

The masses are dualised, so that what is left of the domain of the weights is a box: for a width delta > 0

    F(w, mu) = 1/2 ||w||_2^2 + sum_c mass_c mu_c + cap_c sum_i h((-f_c w'x_i - mu_c) / delta) delta,

h the Huber function, 0 below 0 and of slope 1 above 1. `q_i = cap_c h'` are weights near the best, and the
rows with weights between 0 and the cap lie in a zone of this width. A step takes one pass and n^2 / 2 + 3 n
numbers of a class; the width falls until the rows near the zone are few.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ucm.data.linear import Vec
from ucm.errors import SolverError
from ucm.forms.rows import RowHulls
from ucm.language.losses import HuberHinge
from ucm.solvers.out_of_core.row_derivatives import RowSums, gradient_hessian, scaled_solve

__all__ = ["smoothed_newton"]

_LIMIT = 60  # steps
_FALL = 0.2  # of the width, from one to the next
_BESIDE = 1.5  # widths on either side of the middle of the zone that the band covers
_LEAST = 1e-9  # of the width at first
_NEAR = 1e-3  # of F, what a step at one width has to gain


def smoothed_newton(
    form: RowHulls,
    w: Vec,
    theta: Vec,
    reach: Vec,
    most: float,
    sums: Callable[..., RowSums],
    late: Callable[[], bool],
) -> tuple[Vec, Vec, Vec] | None:
    """w of length 1, thresholds and a reach with at most so many rows within; None where no width has so few.

    Parameters
    ----------
    w, theta, reach : where to begin; w separates the hulls
    sums : the sums of `ucm.solvers.out_of_core.row_derivatives.row_derivatives` over all rows

    Raises
    ------
    SolverError
        A sum is no number.
    """
    n, caps, masses = form.n, np.array(form.shares), np.array(form.masses)
    losses = (HuberHinge(1.0), HuberHinge(1.0))
    delta = width = float(reach.max())
    z = np.concatenate([w, -theta])
    before: tuple[Vec, float] | None = None
    for _ in range(_LIMIT):
        if late() or delta <= _LEAST * width:
            return None
        found = sums(z[:n], z[n:], np.full(2, delta), form.factors, form.shares, losses)
        linear = float(masses @ z[n:] + delta * found.losses.sum())
        if np.isnan(linear):
            raise SolverError(
                "rows: expected entries that stay finite numbers, got a NaN in sums over them; see that no "
                "row changes, scale the features, and solve again"
            )
        if before is None:  # as long as is best on the ray of w
            if not linear < 0.0:
                return None
            size = -linear / float(z[:n] @ z[:n])
            z, delta, width = size * z, size * delta, size * width
            found = found._replace(moments=found.moments / size)
            linear *= size
        value = 0.5 * float(z[:n] @ z[:n]) + linear
        if before is not None and not value <= before[1] + 1e-12 * abs(before[1]):
            z = before[0] + 0.25 * (z - before[0])
            continue
        zone = delta * found.moments[:, n, n] / caps  # rows of each class
        if zone.min() == 0.0:  # nothing tells where the threshold goes
            delta, before = 2.0 * delta, (z, np.inf)
            continue
        length = float(np.linalg.norm(z[:n]))
        g, H = gradient_hessian(form, z, found)
        g, H = g[: n + 2], H[: n + 2, : n + 2]  # the width stays
        step = -scaled_solve(H, g)
        gain = -float(g @ step)
        if gain <= _NEAR * abs(value):
            if 2.0 * _BESIDE * zone.sum() <= most:
                middle = -(z[n:] + 0.5 * delta) / length
                wide = np.maximum(_BESIDE, n / zone)  # rows enough for a point of n numbers
                return z[:n] / length, middle, wide * delta / length
            delta *= _FALL
            before = z, np.inf
        else:
            before = z, value
        z = z + step
    return None
