"""Level-set Newton: q-norm nearest points from Euclidean distances to U plus a growing q-norm ball.

For the ball B of the q-norm let `phi(t)` be the Euclidean distance of 0 from U + t B, convex and decreasing
in t; its root is the optimum. The normal w of that distance has the slope `-||w||_p`, 1/p + 1/q = 1, so that
Newton's step from the left ends at the bound that w proves, `-sigma_U(-w) / ||w||_p`, and never beyond the
root. No power of a coordinate is taken: the exponent may be as near to 1 or as large as one likes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ucm.data.linear_map import IdentityMap, Vec
from ucm.data.options import COUNT, option
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Answer, Solver, solvers_of
from ucm.language.contracts import Block
from ucm.language.domains import NormBall
from ucm.language.robust import dual_exponent
from ucm.numerics.newton_steps import Stall


@dataclass(frozen=True)
class LevelSetNewton(Solver[MinNorm]):
    """Solve q-norm nearest points by Newton's method in the ball radius, a Euclidean problem each step.

    Parameters
    ----------
    inner
        Solvers of the Euclidean problems; the first that takes the form is asked.
    inner_limit
        Iterations in one of them.
    """

    inner: tuple[Solver[MinNorm], ...] = option(solvers_of(MinNorm))
    inner_limit: int = option(COUNT, 50)
    name: ClassVar[str] = "level-set"

    def refuse(self, form: MinNorm) -> str | None:
        if form.norm == 2.0:
            return "it takes the norms but the Euclidean one"
        problem = _with_ball(form, 1.0)
        reasons = [(solver.name, solver.refuse(problem)) for solver in self.inner]
        if any(why is None for _, why in reasons):
            return None
        return "; ".join(f"{name}: {why}" for name, why in reasons)

    def solve(self, form: MinNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        solver = next(s for s in self.inner if s.refuse(_with_ball(form, 1.0)) is None)
        q = form.begin(start)
        # four gaps in a row above 0.9 times the gap before
        lower, upper, best, stalled, ends = -np.inf, np.inf, np.inf, Stall(4, 0.9), False
        answer, ball = Answer(q), np.zeros(form.n)
        for step in range(1, monitor.limit(60) + 1):
            problem = _with_ball(form, max(lower, 0.0))
            # the distance is about `best` times the optimum: a relative gap of tol / best is enough
            tol = max(1e-3 * min(best, 1.0), 0.1 * min(monitor.tol / best, 1.0))
            # the radius needs tiny distances
            inner_monitor = monitor.child(max(tol, 1e-7), self.inner_limit, zero_tol=1e-9)
            inner_answer = solver.solve(problem, inner_monitor, Answer([*q, ball]))
            monitor.count_work(inner_monitor)
            if inner_answer.status == "infeasible":
                return replace(inner_answer, q=inner_answer.q[:-1])
            *q, ball = inner_answer.q
            x = form.matvec(q)
            monitor.passes += form.pass_cost()
            size = form.space.norm(x, form.norm)
            if size < upper or form.couplings:  # points that violate the couplings may have any norm
                upper, answer = size, replace(answer, q=q)
            for w, mu in _duals(form, x, inner_answer):
                bound = form.lower_bound(w, mu)
                if bound > lower:
                    lower, answer = bound, replace(answer, w=w, multipliers=mu)
            gap = abs(upper - lower) / max(upper, 1e-300)
            apart = form.coupling_violation(q)
            best = min(best, max(gap, 20.0 * apart))
            ends = stalled.after(best)
            if monitor.report(step, -upper, gap):
                return answer.interrupted()
            close = apart <= 0.05 * monitor.tol and monitor.reached(gap)
            if close or upper <= 0.5 * monitor.zero * form.size(q):
                return answer
            if ends:
                break
        remedy = "scale the features" if ends else "raise max_iter"
        message = (
            f"the gap stayed at {best:.2g} after {monitor.iterations} steps; {remedy}, or take "
            'solver="clarabel"'
        )
        return answer.ended("stalled" if ends else "max_iter", message)


def _with_ball(form: MinNorm, t: float) -> MinNorm:
    """Return the Euclidean nearest-point problem of U + t B, B the unit ball of the q-norm."""
    ball = Block(IdentityMap(form.n), NormBall(t, form.norm))
    return replace(form, norm=2.0, blocks=(*form.blocks, ball))


def _duals(form: MinNorm, x: Vec, inner_answer: Answer) -> Iterator[tuple[Vec, list[Vec]]]:
    """Yield dual vectors with multipliers: the inner normal, then (without couplings) that of x."""
    if len(inner_answer.multipliers) != len(form.couplings):
        return  # after an overflow the inner solver has no multipliers
    if inner_answer.w is not None and inner_answer.w.any():
        length = form.space.norm(inner_answer.w, dual_exponent(form.norm))
        yield inner_answer.w / length, [mu / length for mu in inner_answer.multipliers]
    if not form.couplings:
        yield form.space.dual_vector(x, form.norm), []
