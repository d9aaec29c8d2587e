"""lambda_max: the least multiplier of a penalty for which w = 0 is optimal or critical.

w = 0 solves `sum_i c_i l(t_i) + R(w)` when some dual point a has `g = sum_i y_i a_i x_i` in the
subdifferential of R at 0. At w = 0 all samples of a class have one margin. Where the loss has a slope there,
g is one point and lambda_max its dual norm; at a kink lambda_max is the largest decrease of the losses over
the unit ball of R.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy import sparse

from ucm.data.bound_data import Data
from ucm.data.deadline import check_time
from ucm.data.linear_map import Vec
from ucm.data.weights import class_totals
from ucm.errors import CompositionError
from ucm.forms.monitor import Monitor
from ucm.forms.objective import lifted, slopes_of, weighed
from ucm.language import cvx as cp
from ucm.language.objective import Objective
from ucm.language.parameter import Scope
from ucm.language.penalties.combined import CombinedPenalty
from ucm.language.penalties.constraints import LinearConstraint
from ucm.language.penalties.quadratic import evaluated
from ucm.language.terms import ConvexLoss, JointLoss, Penalty, ProximalPenalty
from ucm.numerics.conic_programs import attempt
from ucm.ranges.interval import Interval

_LARGEST = 1e15  # the largest bias or multiple of the search
_JUMP = 1e-9  # relative: a larger jump of the slopes is a kink
_ROUNDING = 1e-14  # of a gradient, and of slopes
_PROGRAM = 1e-7  # relative accuracy of a conic program


def lambda_max(model: Objective, data: Data, name: str) -> Interval | None:
    """Return the interval (0, lambda_max] of the parameter `name`, or None if lambda_max is not known.

    At the upper end w = 0 is optimal, or critical if the objective is not convex; it is only excluded below
    the upper end minus the gap. None if a loss is not convex, is a worst mean, perturbs the samples or has
    the parameter, the features are limited, w = 0 breaks a constraint, the penalty is not affine in the
    parameter, the multiplied terms have no kink at 0, or a search fails.
    """
    if model.needs - {"worst mean"}:
        return None
    model, data = lifted(replace(model, penalty=evaluated(model.penalty, data)), data)
    losses, subtracted = model.loss.split()
    broken = any(R.value(np.zeros(data.n)) for R in model.penalty.nodes_of_type(LinearConstraint))
    if subtracted or broken or model.nodes_of_type(JointLoss):
        return None
    if name in model.loss.params() or name not in model.penalty.params():
        return None
    free = model.intercept is not None
    slopes = _slopes(losses, data, free) if is_multiple(model.penalty, name, data.n) else None
    if slopes is None:
        return None
    low, high = slopes
    if (high - low <= _JUMP * np.abs(high)).all():
        found = _at_gradient(model.penalty, name, _gradient(data, 0.5 * (low + high)))
        how = "there the penalty outweighs the gradient of the losses at w = 0"
    else:
        found = _at_kink(model.penalty, name, data, low, high, free)
        how = "the largest decrease of the losses at w = 0 over the unit ball of the penalty"
    if found is None:
        return None
    word = "optimal" if model.convex else "critical"
    return Interval(
        0.0, found[0], f"w = 0 is {word} from the upper end on: {how}", upper_closed=True, gap=found[1]
    )


def is_multiple(penalty: Penalty, name: str, n: int) -> bool:
    """True if the penalty is affine and increasing in the parameter, at the values 1, 2 and 3."""
    w = np.full(n, 0.37)
    try:
        heights = [penalty.with_params(**{name: x}).value(w) for x in (1.0, 2.0, 3.0)]
    except CompositionError:
        return False
    if not np.isfinite(heights).all():
        return False
    first, second = np.diff(heights)
    return bool(first > 0.0) and math.isclose(first, second, rel_tol=1e-9)


def _gradient(data: Data, a: Vec) -> Vec:
    """Return minus the gradient of the losses in w, `sum_i y_i a_i x_i`."""
    return np.asarray(data.X.T @ (data.y * a)).ravel()


def _slopes(losses: tuple[ConvexLoss, ...], data: Data, free: bool) -> tuple[Vec, Vec] | None:
    """Return the least and largest loss slope a_i of each sample at w = 0 with the optimal b, or None.

    Bisection finds b with `sum_i y_i a_i = 0`, a sum that falls in b; b is 0 if it is not free. None if there
    is no optimal b, or if all slopes are 0 there.
    """
    parts = list(zip(*weighed(losses, data), strict=True))
    by_class = [(loss, class_totals(c, data.y)) for loss, c in parts]

    def slopes(b: float) -> Vec:
        return slopes_of(parts, b * data.y)

    def rises(b: float) -> bool:
        plus, minus = slopes_of(by_class, np.array([b, -b]))
        return plus > minus

    low, high = (-1.0, 1.0) if free else (-_ROUNDING, _ROUNDING)
    with np.errstate(over="ignore"):
        while free and not rises(low) and low > -_LARGEST:
            low *= 2.0
        while free and rises(high) and high < _LARGEST:
            high *= 2.0
        if free and (not rises(low) or rises(high)):
            return None
        while free and low < (middle := 0.5 * (low + high)) < high and high - low > 1e-300:
            low, high = (middle, high) if rises(middle) else (low, middle)
        first, last = slopes(low), slopes(high)
        nearby = max(np.abs(slopes(low - 1.0)).max(), np.abs(slopes(high + 1.0)).max())
    if max(np.abs(first).max(), np.abs(last).max()) <= _ROUNDING * nearby:
        return None
    return np.minimum(first, last), np.maximum(first, last)


def _parts(penalty: Penalty, name: str) -> tuple[CombinedPenalty | None, list[ProximalPenalty]]:
    """Return the sum of the penalty terms with the parameter, and the list of the other terms.

    The sum is None if there is no such term or it has no proximal map. A subtracted part has no slope at 0
    and is left out.
    """
    added, _ = penalty.split()
    multiplied = [p for p in added if name in p.params()]
    total = CombinedPenalty(tuple(multiplied))
    usable = bool(multiplied) and total.proximal()
    return total if usable else None, [p for p in added if name not in p.params()]


def _at_gradient(penalty: Penalty, name: str, g: Vec) -> tuple[float, float] | None:
    """Return by bisection the least multiplier with g in the subdifferential at 0, and its error, or None."""

    def trivial(lam: float) -> bool:
        multiplied, remaining_terms = _parts(penalty.with_params(**{name: lam}), name)
        return (
            multiplied is not None
            and _holds(multiplied, g)
            and not any(_holds(p, 1e-6 * g) for p in remaining_terms)
        )

    if not g.any() or trivial(1.0 / _LARGEST):
        return None
    unit, _ = _parts(penalty.with_params(**{name: 1.0}), name)
    gauge = unit.gauge(g) if unit is not None else 1.0  # lambda_max of a norm times the parameter
    low, high = gauge * (1.0 - _ROUNDING), gauge * (1.0 + _ROUNDING)
    if not (0.0 < low < high < _LARGEST and trivial(high) and not trivial(low)):
        low, high = 0.0, 1.0
    while not trivial(high):
        high *= 4.0
        if high > _LARGEST:
            return None
    while high - low > 2.0 * _ROUNDING * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if trivial(middle) else (middle, high)
    high *= 1.0 + _ROUNDING
    return high, high - low


def _holds(penalty: ProximalPenalty | CombinedPenalty, g: Vec) -> bool:
    """True if g is a subgradient of the penalty at 0."""
    return penalty.gauge(g) <= 1.0 and penalty.conjugate(g) <= 0.0


def _at_kink(
    penalty: Penalty, name: str, data: Data, low: Vec, high: Vec, free: bool
) -> tuple[float, float] | None:
    """Return lambda_max and its error for a loss with a kink at w = 0, by a conic program, or None.

    It is `max over R(w) <= 1, b of sum_i min(low_i t_i, high_i t_i)`, `t_i = y_i (w'x_i + b)`.
    """
    multiplied, remaining_terms = _parts(penalty.with_params(**{name: 1.0}), name)
    double, _ = _parts(penalty.with_params(**{name: 2.0}), name)
    if multiplied is None or double is None or remaining_terms:
        return None
    unit, twice = multiplied.gauge(np.ones(data.n)), double.gauge(np.ones(data.n))
    if not (unit > 0.0 and math.isclose(unit, 2.0 * twice, rel_tol=1e-9)):
        return None  # no norm times the parameter
    jumps = high - low
    rows = np.flatnonzero(jumps > _JUMP * jumps.max())
    y, g, scale = data.y[rows], _gradient(data, high), data.scale
    w, b = cp.Variable(data.n), cp.Variable() if free else cp.Constant(0.0)
    Z = sparse.diags_array(y) @ data.X[rows]
    t = Z @ w + y * b  # CVXPY hands a product with y to solvers with wrong bounds
    gain = g @ w + float(data.y @ high) * b - jumps[rows] @ cp.pos(t)
    size: cp.Expression = sum((R.cvxpy(w, 1.0, Scope()) for R in multiplied.terms), start=cp.Constant(0.0))
    ball = size <= 1.0
    problem = cp.Problem(cp.Maximize(gain / scale), [ball])
    failure = attempt(problem, cp.CLARABEL, Monitor.within_limit())
    check_time()
    if failure or problem.status != "optimal":
        return None
    top = scale * float(problem.value) * (1.0 + _PROGRAM)
    if not top > 0.0:
        return None
    return top, 2.0 * _PROGRAM * top
