"""Sequential minimal optimisation (SMO) for reduced convex hulls and hinge losses, mostly with a kernel.

Pairs of variables move in compiled code on float32 rows of the Gram matrix (`ucm/native/smo.c`). Then the
gradient is brought up to date in float64 by the variables that moved; where the gap is still too large, the
pairs go on from it, so that rounding of the rows bounds the speed, and not the accuracy. Levels of samples,
each a sixth of the next, give the start.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import Vec
from ucm.data.options import COUNT, check_fields, integer_from
from ucm.errors import SolverError
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.hinge_dual import HingeDual
from ucm.forms.monitor import Monitor
from ucm.forms.nearest import KernelHulls, NearestPoint
from ucm.solvers.smo.problem import Pairs
from ucm.solvers.smo.state import DONE, INDEFINITE, LIMIT, State

_COARSE_GAP = 1e-2  # of a level of some of the samples
_INNER = 0.7  # of the tolerance: the gap of the pair updates, on rows that are rounded
_REACHED = 0.9  # of the tolerance: the exact gap
_STALLS = 3  # rounds that do not halve the gap
_NEGATIVE = -1e-6  # a relative gap below it is no rounding: the kernel is indefinite
_INDEFINITE = (
    "the kernel is indefinite: samples have a negative squared distance; use a positive semidefinite "
    "kernel such as rbf"
)
_UPDATES = 10_000_000  # at most, and 100 for each variable


def _support(c: Vec) -> tuple[NDArray[np.intp], Vec]:
    rows = np.flatnonzero(c)
    return rows, c[rows]


def _state(problem: Pairs, u: Vec, F: Vec, gap: float, scale: float) -> State:
    # one row of each group is looked at before a pair moves, and all of them stay
    room = max(problem.gram.limit // 4, (problem.mass.size + 2) * problem.n)
    store = np.empty(min(room, problem.n**2), np.float32)
    value = scale - gap if problem.hinge else scale
    return State(problem, u, F, value, store)


Told = Callable[[Vec], dict[str, Any]]


def descend(
    problem: Pairs,
    u: Vec,
    monitor: Monitor,
    zero: Callable[[Vec, float, float], bool],
    told: Told,
    exact: bool = True,
) -> tuple[Vec, Vec, Answer]:
    """Return the variables, the derivatives and the answer of pair updates to the monitor's tolerance.

    Parameters
    ----------
    zero : returns True if the objective counts as 0, from u, the objective and the relative gap
    told : returns the record of a trace from u
    exact : False to begin with float32 derivatives

    Raises
    ------
    SolverError
        The kernel has values that are not finite.
    """
    limit, done, stalls, least = monitor.limit(_UPDATES + 100 * problem.n), 0, 0, np.inf
    best, code = (u, u), LIMIT
    while True:
        c, gram = problem.coefficients(u), problem.gram
        F = problem.gradient(u, gram.follow(c) if exact else gram.sums(*_support(c), single=True))
        value, gap, scale = problem.gap(u, F)
        if np.isnan(gap):
            raise SolverError(
                "kernel: expected finite values of k(x_i, x_j), got NaN or infinite ones; scale the "
                "features, or give gamma"
            )
        relative = gap / max(scale, 1e-300)
        monitor.kernel_operations = problem.gram.computed
        monitor.passes = problem.gram.computed / (2.0 * problem.gram.m)
        stop = monitor.report(done, value, relative, functools.partial(told, u))
        stalls = stalls + 1 if code == DONE and gap > 0.5 * least else 0
        if exact and gap < least:
            best, least = (u, F), gap
        if (exact and relative < _NEGATIVE) or code == INDEFINITE:
            return u, F, Answer().ended("indefinite", _INDEFINITE)
        reached = monitor.reached(relative, _REACHED * monitor.tol) or zero(u, value, relative)
        if reached and exact:
            return u, F, Answer()
        if stop:
            return u, F, Answer().interrupted()
        left = f"{done} pair updates left a relative gap of {relative:.2g}"
        if done >= limit:
            return u, F, Answer().ended("max_iter", f"{left}; raise max_iter")
        if stalls >= _STALLS:
            return *best, Answer().ended("max_iter", f"{left}, by rounding; raise tol")
        if not reached:
            state = _state(problem, u, F, gap, scale)
            code = state.run(_INNER * monitor.tol, monitor.next(done, limit) - done, monitor)
            u, done = state.variables(), done + state.updates
        exact = True


@dataclass(frozen=True)
class SMO(NearestPoint):
    """Reduced convex hulls, and hinge losses with the squared l2 norm, by inner products only.

    Pairs within each hull exchange weight, or pairs of multipliers move: the pair of the largest decrease by
    second order (Fan, Chen and Lin 2005), the step for hinge losses by Algorithm 1 of Sun (2024): closed
    forms for p in {1, 1.5, 2}, a root for other p.

    Parameters
    ----------
    coarse
        Fewest variables that are solved on a part of the samples first.
    stride
        Every stride-th sample makes the part.
    """

    coarse: int = 700
    stride: int = 6
    name: ClassVar[str] = "smo"
    takes: ClassVar[tuple[type, ...]] = (MinNorm, HingeDual)

    def __post_init__(self) -> None:
        check_fields(self, coarse=COUNT, stride=integer_from(2))

    def refuse(self, form: MinNorm | HingeDual) -> str | None:
        return None if isinstance(form, HingeDual) else super().refuse(form)

    def solve(self, form: MinNorm | HingeDual, monitor: Monitor, start: Answer | None = None) -> Answer:
        if isinstance(form, HingeDual):
            return self._hinge(form, monitor, start)
        hulls = KernelHulls.of(form)
        problem, order = Pairs.of_hulls(hulls)
        floor = monitor.zero

        def weights(u: Vec) -> Vec:
            a = np.empty(hulls.n)
            a[order] = u
            return a

        def zero(u: Vec, value: float, gap: float) -> bool:
            return hulls.negligible(weights(u), -value, gap, floor)

        def told(u: Vec) -> dict[str, Any]:
            return {"q": hulls.blocks(form, weights(u))}

        if start is None:
            u = self._first(problem, max(monitor.tol, _COARSE_GAP), monitor)
        else:
            u = problem.feasible(hulls.start(form.begin(start))[order])
        u, _, answer = descend(problem, u, monitor, zero, told, start is not None)
        answer.q = hulls.blocks(form, weights(u))
        return answer

    def _hinge(self, form: HingeDual, monitor: Monitor, start: Answer | None) -> Answer:
        problem = Pairs.of_hinge(form)
        known = None if start is None else start.slopes
        if known is None:
            u = self._first(problem, max(monitor.tol, _COARSE_GAP), monitor)
        else:
            u = form.y * form.feasible(known)
        u, F, answer = descend(problem, u, monitor, lambda *_: False, _slopes, known is not None)
        answer.slopes, answer.b = np.abs(u), -float(problem.thresholds(u, F)[0])
        return answer

    def _first(self, problem: Pairs, tol: float, monitor: Monitor) -> Vec:
        """Return a start from the solution over a part of the samples."""
        members = problem.every(self.stride)
        if problem.n < self.coarse or members.size == problem.n or monitor.timed_out:
            return problem.centre()
        part = problem.part(members)
        first = self._first(part, tol, monitor)
        products = part.gram.sums(*_support(part.coefficients(first)), single=True)
        F = part.gradient(first, products)
        _, gap, scale = part.gap(first, F)
        state = _state(part, first, F, gap, scale)
        state.run(tol, _UPDATES, monitor)
        u = np.zeros(problem.n)
        u[members] = state.variables()
        free = int(np.count_nonzero((u > problem.lo) & (u < problem.hi)))
        return problem.lifted(free, problem.gram.sums(*_support(problem.coefficients(u)), single=True))


def _slopes(u: Vec) -> dict[str, Any]:
    return {"slopes": np.abs(u)}
