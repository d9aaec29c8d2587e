"""Newton's method in w and both thresholds for two reduced hulls of rows whose active set is too large.

The masses are dualised, so that the domain of the weights becomes a box: for a width delta > 0

    F(w, mu) = 1/2 ||w||_2^2 + sum_c mass_c mu_c + cap_c sum_i h((-f_c w'x_i - mu_c) / delta) delta,

h the Huber function, 0 below 0 and of slope 1 above 1. `q_i = cap_c h'` are weights near the best, and the
rows with weights between 0 and the cap lie in a zone of this width. A step takes one pass and n^2 / 2 + 3 n
numbers of a class; the width falls until the rows near the zone are few.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ucm.data.linear_map import Vec
from ucm.errors import SolverError
from ucm.forms.out_of_core import RowHulls
from ucm.language.losses import HuberHinge
from ucm.solvers.out_of_core.newton import RowFunction, newton_steps
from ucm.solvers.out_of_core.row_sums import ClassLoss, RowSums

_FALL = 0.2  # ratio of successive widths
_BESIDE = 1.5  # widths on either side of the middle of the zone that the active set covers
_WIDTHS = 20  # that are tried
_NEAR = 1e-3  # of F, the least gain of a step at one width
_STEPS = 60  # at one width


def smoothed_newton(
    form: RowHulls,
    w: Vec,
    theta: Vec,
    reach: Vec,
    most: float,
    sums: Callable[..., RowSums],
    timed_out: Callable[[], bool],
) -> tuple[Vec, Vec, Vec] | None:
    """Return w of length 1, thresholds and a reach with at most so many rows within, or None.

    Parameters
    ----------
    w, theta, reach : the start; w separates the hulls
    most : the largest number of rows
    sums : `row_sums` over all rows

    Raises
    ------
    SolverError
        A sum is NaN.
    """
    n, z, width = form.n, np.concatenate([w, -theta]), float(reach.max())
    F = _smoothed(form, width)
    found: RowSums | None = sums(*F.message(z))
    size = 0.5 - F.value(z, found) / float(w @ w)
    if size <= 0.0:
        return None
    if size > 0.0:  # the best multiple of w
        z, width, found = size * z, size * width, found._replace(hessian=found.hessian / size)
    delta = width
    for _ in range(_WIDTHS):
        F = _smoothed(form, delta)
        for _, at, sums_at, value in newton_steps(F, z, sums, _STEPS, found):
            found = None
            if np.isnan(value):
                raise SolverError(
                    "rows: expected entries that stay finite numbers, got a NaN in sums over them; see "
                    "that no row changes, scale the features, and solve again"
                )
            if timed_out():
                return None
            if sums_at is None:
                continue
            zone = delta * np.diagonal(sums_at.hessian)[n:] / form.shares  # rows of each class
            if zone.min() == 0.0:  # no row determines the threshold
                delta, z = 2.0 * delta, at
                break
            step = F.step(at, sums_at, value)
            if -float(F.derivatives(at, sums_at)[0] @ step) > _NEAR * abs(value):
                continue
            if 2.0 * _BESIDE * zone.sum() <= most:
                length = float(np.linalg.norm(at[:n]))
                middle = -(at[n:] + 0.5 * delta) / length
                wide = np.maximum(_BESIDE, n / zone)  # rows enough for a point of n numbers
                return at[:n] / length, middle, wide * delta / length
            delta, z = _FALL * delta, at + step
            break
        else:
            return None
    return None


def _smoothed(form: RowHulls, delta: float) -> RowFunction:
    """Return F for a width."""
    fixed, slopes = np.array([0.0, delta]), np.eye(2)
    parts = tuple(
        ClassLoss(HuberHinge(1.0), c, f, share, fixed, np.stack([slopes[c], np.zeros(2)]))
        for c, (f, share) in enumerate(zip(form.factors, form.shares, strict=True))
    )
    linear = np.concatenate([np.zeros(form.n), form.masses])
    return RowFunction(form.n, parts, linear, 1.0)
