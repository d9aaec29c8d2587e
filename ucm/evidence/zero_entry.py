"""The least size at which a growing set U(t) contains 0.

Let U(t) grow with t. For any w the number `h(t) = min over U(t) of w'x` does not rise, and 0 lies outside of
U(t) wherever h(t) > 0: the root of h is a lower bound of the size at which 0 enters. With w along the point
of U(t) nearest to 0, the step to this root is at least as long as the Newton step for the distance of U(t)
from 0, and never too long. For reduced hulls this size is the solution of equation (30) of Barbero, Takeda
and Lopez (2015).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq

from ucm.data.bound_data import Data
from ucm.data.linear_map import Vec
from ucm.errors import CompositionError, SolverError
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import ZERO, Monitor
from ucm.forms.solver import Solver
from ucm.language.contracts import Splits
from ucm.language.robust import RobustMargin
from ucm.solvers import APG, SSNAL, ActiveSet, Conic, TrustRegionSecular

_SOLVERS: tuple[Solver, ...] = (
    TrustRegionSecular(), ActiveSet(), SSNAL(), SSNAL(iterative=True), APG(), Conic("clarabel"),
)  # fmt: skip
_WIDTH = 1e-6  # relative distance of both proofs
_ENOUGH = 1e-4  # the largest such distance that counts as proven
_GAP = 1e-2  # relative gap of a nearest point
_SHARPER = 1e-2  # factor of the gap after a step without progress
_INNER = 50  # iterations of a solver
_INWARD = 1.0001  # times the smallest size, where all weights are tied
_LARGE = 1e7  # in units of the smallest size: as large as any
_ROOT = 1e-10  # relative accuracy of a root


@dataclass(frozen=True)
class ZeroEntry:
    """Lower and upper bound of the least size t at which U(t) contains 0.

    Attributes
    ----------
    lower : 0 is separated from U at every smaller size; inf where one w separates it at all sizes
    upper : U contains 0 at this size; inf where no such size was found
    """

    lower: float
    upper: float

    @property
    def proven(self) -> bool:
        """True if the bounds agree to a relative 1e-4, or if 0 is separated from U at every size."""
        return math.isinf(self.lower) or self.upper - self.lower <= _ENOUGH * self.lower


def contains_zero(model: RobustMargin, data: Data) -> bool:
    """True if a solver finds a point of U that is 0 within the tolerance of the status "zero_in_set"."""
    form = _form(model, data)
    answer = _nearest(form, 1e-6, Monitor(), None)
    return answer is not None and _is_zero(model, data, form, answer)


def zero_entry(
    at: Callable[[float], RobustMargin],
    data: Data,
    start: float,
    monitor: Monitor,
    solves: int = 10,
) -> ZeroEntry:
    """Return bounds of the least size t at which the set of `at(t)` contains 0, by at most `solves` solves.

    Parameters
    ----------
    at : the model as a function of its size; sets grow with it
    start : the smallest size at which U is not empty
    """
    at = lru_cache(maxsize=4)(at)
    lower, upper, answer, stalled = start, math.inf, None, 0
    form = _form(at(start), data)
    center = form.space.direction(form.matvec(form.centers()), 2.0)
    if center is not None and not form.couplings:
        lower = _root(at, data, center, {}, start, start)
    for _ in range(solves):
        if math.isinf(lower) or upper - lower <= _WIDTH * lower or monitor.timed_out:
            break
        t = max(lower, _INWARD * start)
        if stalled:  # lower is then the root to rounding: take a size slightly larger
            t = lower * (1.0 + _WIDTH * 10.0 ** (stalled - 1)) if lower > 0.0 else 1e-12
        form = _form(at(t), data)
        answer = _nearest(form, _GAP * _SHARPER**stalled, monitor, answer)
        if answer is None:
            break
        if _is_zero(at(t), data, form, answer):
            upper = min(upper, t)
        before = lower
        for w in _directions(form, answer):
            if math.isfinite(lower):
                lower = max(lower, _root(at, data, w, form.splits(answer), lower, start))
        stalled = 0 if lower - before > 0.1 * _WIDTH * lower else stalled + 1
    return ZeroEntry(lower, max(lower, upper))


def _form(model: RobustMargin, data: Data) -> MinNorm:
    return MinNorm.of(model.set.lower(data), 2.0, data.stored, data.space)


def _nearest(form: MinNorm, gap: float, monitor: Monitor, start: Answer | None) -> Answer | None:
    """Return an approximate answer for the point of U nearest to 0, or None if no solver succeeds.

    The relative gap is `gap` if the solver reaches it within its limits.
    """
    solver = next((s for s in _SOLVERS if s.refuse(form) is None), None)
    if solver is None or not form.blocks:
        return None
    sub_monitor = monitor.child(gap, _INNER, zero_tol=1e-12)
    try:
        answer = solver.solve(form, sub_monitor, start)
    except SolverError:
        return None
    monitor.count_work(sub_monitor)
    monitor.iterations += sub_monitor.iterations
    return None if answer.status == "infeasible" else answer


def _is_zero(model: RobustMargin, data: Data, form: MinNorm, answer: Answer) -> bool:
    """True if the point of an answer lies in U and is 0, by the tolerance of the status "zero_in_set"."""
    x, violation = model.set.evaluate(data, iter(answer.q))
    size = max(form.size(answer.q), data.scale)
    return violation <= ZERO and data.space.norm(x) <= ZERO * size


def _directions(form: MinNorm, answer: Answer) -> list[Vec]:
    """Return the dual vector and the point of an answer, scaled to length 1; zero vectors are left out."""
    dual_vectors = [] if answer.w is None else [answer.w]
    directions = [form.space.direction(v, 2.0) for v in (*dual_vectors, form.matvec(answer.q))]
    return [w for w in directions if w is not None]


def _root(
    at: Callable[[float], RobustMargin],
    data: Data,
    w: Vec,
    splits: Splits,
    low: float,
    start: float,
) -> float:
    """Return the largest size found at which w separates 0 from U(t).

    It is `low` if w does not separate at `low`, and inf if w separates at every size.
    """
    best, unit = low, start if start > 0.0 else 1.0

    @cache
    def height(t: float) -> float:
        """Return `min over U(t) of w'x`; -1 if U(t) is empty or t outside the range of the parameter."""
        nonlocal best
        try:
            model = at(t)
            if model.set.infeasibility_reason(data) is not None:
                return -1.0
        except CompositionError:
            return -1.0
        h = -model.set.support(data, -w, splits)[0]
        if h > 0.0:
            best = max(best, t)
        return h

    if not height(low) > 0.0:
        return low
    t = low + 1e-3 * (low + unit)
    while height(t) > 0.0:
        if t > _LARGE * unit:
            return math.inf
        t = low + 4.0 * (t - low)
    options: Any = {"xtol": 1e-300, "rtol": np.float64(_ROOT), "disp": False}
    end: Any = brentq(height, best, t, **options)
    back = 1e-15 * end  # from the far side of the root
    while end - back > best and height(end - back) <= 0.0:
        back *= 4.0
    if height(best) > 0.0 and height(best * (1.0 + 1e-9) + 1e-300) == -1.0:
        return math.inf  # up to the end of the range of the parameter
    return best
