"""Successive linearisation of the unit sphere: one convex program per step, for any set U."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ucm.data.linear_map import Vec
from ucm.data.options import SEED, option, optional
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Answer, Solver, solver_of
from ucm.forms.sphere import UnitNorm
from ucm.forms.sphere_proof import LowerBoundProof
from ucm.solvers.sphere.quasi_newton import descended
from ucm.solvers.sphere.ray_shooting import Reach, radial


@dataclass(frozen=True)
class Linearize(Solver[UnitNorm]):
    """Minimise f over the unit sphere locally, by successive linearisation of the norm.

    `min f(w)` over `<g_k, w> = 1`, g_k a subgradient of `||.||_p` at w_k; then `w / ||w||_p`.

    As `||w||_p >= <g_k, w> = 1` and f >= 0 the objective never increases, and where it stays w_k is
    stationary. Each problem is solved in its dual, `max {s : -s g_k in U}`: for sums of reduced hulls one
    linear program with the basis of the last one (HiGHS), for the others a conic program (Clarabel), or
    nearest points. Sets other than polytopes begin with quasi-Newton steps for `f(w) / ||w||_p`, as balls
    make f differentiable: the programs then mostly confirm their end. Where rays of U span the space, the
    first program is that of a vector that proves a lower bound.

    Parameters
    ----------
    nearest
        Solver of the points of U nearest to others, in place of conic programs that would be large.
    seed
        Of the further starts.

    Notes
    -----
    The method of Perez-Cruz et al. (2003) and of Takeda and Sugiyama (2008) for p = 2; see Barbero,
    Takeda and Lopez (2015), section 6.4. With w_k in place of g_k the objective can increase when p != 2.
    """

    nearest: Solver[MinNorm] | None = option(optional(solver_of(MinNorm)), None)
    seed: int = option(SEED, 0)
    name: ClassVar[str] = "linearize"

    def refuse(self, form: UnitNorm) -> str | None:
        return None

    def solve(self, form: UnitNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        reach = radial(form, monitor, self.nearest)
        cone = next(form.vertices(), None) if form.rays.size else None
        first = None if cone is None else reach(cone)
        if first is None:
            return self._descend(form, monitor, reach, form.begin(start))
        v = form.unit(first.v) if start is None else form.begin(start)
        proof = LowerBoundProof("vertices", [first.q])
        return replace(self._descend(form, monitor, reach, v), witness=proof)

    def _descend(self, form: UnitNorm, monitor: Monitor, reach: Reach, v: Vec) -> Answer:
        """Return the answer of successive linearisations from the coordinates v."""
        if form.hulls is None and not form.image.couplings and not form.rays.size:
            v = descended(form, v, monitor)
        least = np.inf if form.image.couplings else form.height(v)
        answer = Answer(form.centers(), form.lift(v))
        # a conic answer is known to its tolerance only
        same = 1e-13 if form.hulls is not None else 1e-2 * monitor.tol
        limit = monitor.limit(500)  # programs
        zero = monitor.zero * form.height(v)
        if monitor.trace:
            monitor.report(monitor.iterations, least, float("nan"), functools.partial(form.trace_record, v))
        for _ in range(limit):
            better = False
            for g in form.corners(v):
                point = reach(g)
                monitor.passes += 1.0
                if point is None and monitor.timed_out:
                    return answer.interrupted()
                if point is None:
                    return answer.ended("max_iter", "a program had no answer; scale the features")
                length = form.length(point.v)
                new = point.v / length
                value = point.s / length if form.image.couplings else form.height(new)
                better = value < least * (1.0 - same)
                answer.q = point.q
                if better:
                    answer = point.answer(form)
                    v, least = new, value
                    break
            record = functools.partial(form.trace_record, v)
            if monitor.report(monitor.iterations + 1, least, float("nan"), record):
                return answer.interrupted()
            if not better or least <= zero:
                return answer
        return answer.ended("max_iter", f"{limit} programs solved; raise max_iter")
