"""The least size at which a growing set U(t) contains 0, or at which the operands of intersections meet.

Let U(t) grow with t. For any w the number `h(t) = min over U(t) of w'x` does not rise, and 0 lies outside of
U(t) wherever h(t) > 0: the root of h is a lower bound of the size at which 0 enters. With w along the point
of U(t) nearest to 0, the step to this root is at least as long as the Newton step for the distance of U(t)
from 0, and never too long. For reduced hulls this size is the solution of equation (30) of Barbero, Takeda
and Lopez (2015). Operands meet where 0 enters the set of their differences, the residuals of the couplings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from scipy.optimize import brentq

from ucm.data.bound_data import Data
from ucm.data.linear_map import Vec
from ucm.errors import CompositionError, SolverError
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import ZERO, Monitor
from ucm.forms.solver import Answer, Solver
from ucm.language.robust import RobustMargin
from ucm.numerics.coordinates import columns
from ucm.solvers import APG, SSNAL, ActiveSet, Conic, TrustRegionSecular

_SOLVERS: tuple[Solver, ...] = (
    TrustRegionSecular(), ActiveSet(), SSNAL(), SSNAL(iterative=True), APG(), Conic("clarabel"),
)  # fmt: skip
_WIDTH = 1e-6  # relative distance of both proofs
_TINY = 1e-6  # a size that may stand for 0
_STALLS = 3  # steps without progress, the last of them to a relative distance of `_ENOUGH`

FormAt = Callable[[float], MinNorm | None]
"""The form of U(t) as a function of the size; None where U(t) is known to be empty."""


@dataclass(frozen=True)
class ZeroEntry:
    """Bounds of the least size at which U contains 0: 0 is separated below `lower`, and in U at `upper`.

    Both are inf where one w separates 0 from U at every size.
    """

    lower: float
    upper: float

    @property
    def proven(self) -> bool:
        """True if the bounds agree to a relative 1e-4, or if 0 is separated from U at every size."""
        return math.isinf(self.lower) or self.upper - self.lower <= 1e-4 * max(self.lower, _TINY)


def forms_of(at: Callable[[float], RobustMargin], data: Data) -> FormAt:
    """Return the form of the set of `at(t)` as a function of the size t."""

    def form_at(t: float) -> MinNorm | None:
        try:
            U = at(t).set
        except CompositionError:  # outside of the range of a parameter
            return None
        if U.infeasibility_reason(data) is not None:
            return None
        return MinNorm.of(U.lower(data), 2.0, data.stored, data.space)

    return form_at


def coupling_units(form: MinNorm) -> list[float]:
    """Return the size of the terms of every coupling at the centres of the domains, without cancellation."""
    q = form.centers()
    terms = [[c.offset, *(B.sizes(q[k]) for k, B in c.terms)] for c in form.couplings]
    return [sum(float(np.linalg.norm(v)) for v in each) or 1.0 for each in terms]


def contains_zero(form: MinNorm, unit: float) -> bool:
    """True if a solver finds a point of U that is 0 within the tolerance of the status "zero_in_set"."""
    answer = _nearest(form, 1e-6, Monitor(), None)
    return answer is not None and _is_zero(form, answer, unit)


def zero_entry(form_at: FormAt, start: float, unit: float, monitor: Monitor) -> ZeroEntry:
    """Return bounds of the least size t at which a set that grows with t contains 0.

    `start` is the smallest size at which U is not empty; points are 0 relative to `unit`, the size of
    the data.
    """
    form_at = lru_cache(maxsize=4)(form_at)

    def far() -> bool:
        """True if rounding bounds the size up to which w separates 0, once steps make no progress."""
        return math.isinf(upper) and lower > 1e5 * (start or 1.0)

    lower, upper, answer, stalled, turn = start, math.inf, None, 0, 0
    first = form_at(start)
    if first is None:
        return ZeroEntry(lower, upper)
    center = first.space.direction(first.matvec(first.centers()), 2.0)
    if center is not None and not first.couplings:
        lower = _root(form_at, center, (), start, start, unit)
    for _ in range(40):  # mostly below 10
        proven = math.isinf(lower) or upper - lower <= _WIDTH * max(lower, _TINY)
        if proven or stalled > _STALLS or (stalled > 2 and far()) or monitor.timed_out:
            break
        t = max(lower, 1.0001 * start)  # at the smallest size itself all weights are tied
        further = lower + max(lower, _TINY) * _WIDTH * 10.0 ** (stalled - 1)
        ends = bool(stalled) and form_at(further) is None  # the range of the parameter ends here
        if stalled and not ends:  # lower is then the root to rounding
            t = further
        form = form_at(t)
        # each step without progress asks for a gap a hundredth of the last, from the third on by the next
        # solver, which then remains
        turn = max(turn, stalled - 1)
        gap = 1e-2 * 1e-2 ** max(stalled, turn)
        answer = None if form is None else _nearest(form, gap, monitor, answer, turn)
        if form is None or answer is None:
            break
        if _is_zero(form, answer, unit):
            upper = min(upper, t)
        before = lower
        for v in (answer.w, form.matvec(answer.q)):
            w = None if v is None else form.space.direction(v, 2.0)
            if w is not None and math.isfinite(lower):
                w = w if (within := form.bounded(w)) is None else within
                lower = max(lower, _root(form_at, w, answer.multipliers, lower, start, unit))
        stalled = 0 if lower - before > 0.1 * _WIDTH * lower else stalled + 1
        if ends and stalled > _STALLS:
            upper = lower
    if stalled > 2 and far():
        lower = math.inf
    return ZeroEntry(lower, max(lower, upper))


def _nearest(
    form: MinNorm, gap: float, monitor: Monitor, start: Answer | None, turn: int = 0
) -> Answer | None:
    """Return an approximate answer for the point of U nearest to 0, or None if no solver succeeds.

    The relative gap is `gap` if the solver reaches it within its limits. `turn` counts the solvers that
    take the form, as scalar roots end far from the gap where a set is long in few directions.
    """
    wide = form.n > columns(form)  # where forming matrices costs more than products
    solvers = [s for s in _SOLVERS[wide:] if s.refuse(form) is None]
    if not solvers or not form.blocks:
        return None
    solver = solvers[min(turn, len(solvers) - 1)]
    sub_monitor = monitor.child(gap, 50, zero_tol=1e-12)
    try:
        answer = solver.solve(form, sub_monitor, start)
    except SolverError:
        return None
    monitor.count_work(sub_monitor)
    return None if answer.status == "infeasible" else answer


def _is_zero(form: MinNorm, answer: Answer, unit: float) -> bool:
    """True if the point of an answer lies in U and is 0, by the tolerance of the status "zero_in_set"."""
    outside = [b.domain.violation(q) for b, q in zip(form.blocks, answer.q, strict=True)]
    apart = map(np.linalg.norm, form.residuals(answer.q))
    outside += [float(r) / size for r, size in zip(apart, coupling_units(form), strict=True)]
    size = max(form.size(answer.q), unit)
    return max(outside) <= ZERO and form.space.norm(form.matvec(answer.q)) <= ZERO * size


def _root(
    form_at: FormAt, w: Vec, multipliers: Sequence[Vec], low: float, start: float, unit: float
) -> float:
    """Return the largest size found at which w separates 0 from U(t).

    It is `low` if w does not separate at `low`, and inf if w separates at every size.
    """
    best, step = low, start if start > 0.0 else 1.0

    @cache
    def height(t: float) -> float:
        """Return `min over U(t) of w'x`; -1 if U(t) is empty or t outside the range of the parameter."""
        nonlocal best
        form = form_at(t)
        if form is None:
            return -1.0
        h = form.lower_bound(w, multipliers) - 1e-15 * unit  # less the rounding of a height
        if h > 0.0:
            best = max(best, t)
        return h

    if not height(low) > 0.0:
        return low
    t = low + 1e-3 * (low + step)
    while height(t) > 0.0:
        if t > 1e7 * step:  # as large as any
            return math.inf
        t = low + 4.0 * (t - low)
    end, _ = brentq(height, best, t, xtol=1e-300, rtol=np.float64(1e-10), full_output=True, disp=False)
    back = 1e-15 * end  # from the far side of the root
    while end - back > best and height(end - back) <= 0.0:
        back *= 4.0
    if height(best * (1.0 + 1e-9) + 1e-300) == -1.0:
        return math.inf  # up to the end of the range of the parameter
    return best
