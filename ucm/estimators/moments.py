"""Classifiers of ellipsoids of class means and covariances, without the samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ucm.compiler.recover import bias
from ucm.compiler.robust import minimum_norm
from ucm.data.bound_data import known_by
from ucm.data.linear_map import Vec
from ucm.data.moments import Moments
from ucm.errors import ParameterError
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Answer
from ucm.language.robust import RobustMargin
from ucm.language.sets import Ellipsoid, Point
from ucm.language.sets.combination import summands
from ucm.language.statistics.samples import Samples
from ucm.solvers.secular import TrustRegionSecular

_RULES = {"auto": "midpoint", "midpoint": "midpoint", "means": "means", "zero": "zero"}  # without samples


def is_sum_of_ellipsoids(model: object) -> bool:
    """True if U is a weighted sum of points and at least one ellipsoid of class moments, and `norm` is 2.

    The means and covariances are those of whole classes.
    """
    if not isinstance(model, RobustMargin) or model.norm != 2.0:
        return False
    leaves = list(summands(model.set))
    return (
        all(isinstance(U, Ellipsoid | Point) and math.isfinite(f) for U, f in leaves)
        and any(isinstance(U, Ellipsoid) for U, _ in leaves)
        and all(s.kind != "signed" and s.label is None for s in model.set.nodes_of_type(Samples))
    )


def by_moments(
    models: Sequence[RobustMargin], moments: Mapping[str, Moments], rule: str, tol: float
) -> tuple[NDArray[np.float64], Vec]:
    """Return the normals W, (n, models), and biases of sums of ellipsoids, from the moments of the classes.

    w is nan where the secular equations prove no gap below `tol`, and where 0 lies in U; b is nan where the
    `rule`, one of `ucm.compiler.recover.bias`, asks for the samples. The moments are those of "pos" and
    "neg". Models that differ in radii share the eigendecompositions.
    """
    data, known_rule = known_by(moments), _RULES.get(rule)
    solver = TrustRegionSecular(max_order=data.n)
    W, b = np.full((data.n, len(models)), np.nan), np.full(len(models), np.nan)
    start: Answer | None = None
    for j, model in enumerate(models):
        form = minimum_norm(model, data)
        answer = solver.solve(form, Monitor(tol=tol), start)
        separate = form.space.norm(form.matvec(answer.q)) > 1e-9 * form.space.norm(form.center)
        if answer.status != "converged" or answer.w is None or not separate:
            continue
        W[:, j], start = answer.w, answer
        if known_rule is not None:
            try:
                b[j] = bias(known_rule, model.set, form, data, answer.q, answer.w)[0]
            except ParameterError:  # for these leaves "auto" is the least training error, whatever the radii
                known_rule = None
    return W, b
