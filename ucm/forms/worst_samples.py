"""The worst points of samples that are perturbed in sets whose shape differs by sample.

With points d_i of the sets U_i, the problem of the samples x_i + d_i is nowhere above that of the worst
points: its lower bounds are lower bounds. At a plane w the worst points attain its value; the best bound has
points with which w is optimal, and where several points are worst at w a program finds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ucm.data.linear_map import Matrix, Vec, column_sizes
from ucm.forms.monitor import Monitor
from ucm.language import cvx as cp
from ucm.language.cvx import quiet_solve
from ucm.language.parameter import Scope
from ucm.language.sample_sets import BoundSets
from ucm.language.terms import ProximalPenalty

_TOLERANCES = 1e-11, 1e-9, 1e-7  # of Clarabel
_COUNTED = 1e-12  # of the largest weight of a sample: a weight that counts
_GRACE = 0.1  # least seconds of the program
_SMALL = 1e-3  # a size of w, in units of the features: below it that of the program


def worst_samples(
    X: Matrix, moved: BoundSets, penalties: Sequence[ProximalPenalty], w: Vec, slopes: Vec | None
) -> Iterator[Matrix]:
    """Yield the samples at their worst points for w; then those with which the slopes make w optimal.

    The second samples are the multipliers of `V_i = G_i'x`, over a_i r_i, in the program (in other units)

        min over x   ||x - (w + z)||^2 / 2 + R(x) + sum_i a_i r_i h_i(V_i),   z = sum_i a_i y_i x_i,

    for the slopes a: where w is optimal, so is x = w. Any points of the sets give valid bounds, so that an
    inaccurate program, or none by the time limit, costs no more than a part of the bound. The penalties are
    of all columns of X, the sets of the first ones.
    """
    n = moved.G.shape[1]
    C = moved.sets.maximisers(moved.images(w[:n]))
    yield moved.moved(X, C)
    left = Monitor.within_limit().seconds_left
    if slopes is None or not np.isfinite(slopes).all() or left < _GRACE:
        return
    z, mass = np.asarray(X.T @ (moved.y * slopes)).ravel(), np.maximum(slopes, 0.0) * moved.sizes
    counted = mass > _COUNTED * mass.max(initial=0.0)
    if not counted.any():
        return
    few = replace(moved, G=moved.G[counted], y=moved.y[counted], sizes=moved.sizes[counted])
    # in units of the features, and of w, which near 0 is rounding: there of margins of size 1
    unit = column_sizes(X)
    unit = np.maximum(unit, 1e-9 * unit.max(initial=0.0))
    size = max(float(np.abs(unit * w).max(initial=0.0)), _SMALL) / unit
    steep = float(np.abs(size * z).max(initial=0.0)) or 1.0
    x, V = cp.Variable(w.size), cp.Variable((int(counted.sum()), C.shape[1]))
    point = cp.multiply(size, x)
    images = few.images_cvxpy(point[:n]) == V
    total = 0.5 * cp.sum_squares(x - (w / size + size * z / steep))
    total += cp.sum(cp.multiply(mass[counted] / steep, few.sets.cvxpy(V, Scope())))
    total += sum(R.cvxpy(point, 1.0 / steep, Scope()) for R in penalties)
    problem = cp.Problem(cp.Minimize(total), [images])
    for tol in _TOLERANCES:  # cones of powers, at x = 0, fail at the least ones
        options: dict[str, float] = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), tol)
        if (left := Monitor.within_limit().seconds_left) < _GRACE:
            return
        if np.isfinite(left):
            options["time_limit"] = left
        try:
            quiet_solve(problem, "CLARABEL", **options)
        except (cp.SolverError, ArithmeticError, ValueError):
            continue
        break
    else:  # without an answer the first points remain
        return
    if images.dual_value is None or not np.isfinite(images.dual_value).all():
        return
    C[counted] = moved.sets.members(images.dual_value / (mass[counted] / steep)[:, None])
    yield moved.moved(X, C)
