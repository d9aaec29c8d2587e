"""Proximal Newton solver for smooth losses with any penalty that has a proximal map.

The step is that of `ucm.solvers.objective.proximal_step`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ucm.data.options import COUNT, option
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite
from ucm.forms.solver import Answer, Session, Solver, Status
from ucm.solvers.objective.dense_newton import MOST, DenseNewton
from ucm.solvers.objective.orthant_step import iterate
from ucm.solvers.objective.proximal_step import LARGEST, ProximalIterate, penalised
from ucm.solvers.objective.quadratic_models import NewtonCG
from ucm.solvers.objective.sessions import in_range_space

_DIRECT = 500  # order of a linear system, above which conjugate gradients take its place


@dataclass(frozen=True)
class ProxNewton(Solver[Composite]):
    """Minimise smooth losses plus any penalty with a proximal map by proximal Newton steps.

    Parameters
    ----------
    max_iter
        Limit of steps.
    max_order
        Most features where a penalty joins them.

    Notes
    -----
    Lee, Sun and Saunders (2014); Yuan, Ho and Lin (2012).
    """

    max_iter: int = option(COUNT, 300)
    max_order: int = option(COUNT, LARGEST)
    name: ClassVar[str] = "prox-newton"

    def refuse(self, form: Composite) -> str | None:
        rough = [loss for loss in form.losses if not loss.smooth()]
        if rough:
            return f"{rough[0]!r} has no Lipschitz gradient"
        return penalised(form, self.max_order)

    def session(self, form: Composite) -> Session[Composite]:
        if form.penalty.square is not None and min(form.m, form.n) > _DIRECT:
            return _Steps(self, form)
        return in_range_space(self, form, lambda form: _Steps(self, form))

    def solve(self, form: Composite, monitor: Monitor, start: Answer | None = None) -> Answer:
        return self.session(form).solve(form, monitor, start)


class _Steps(Session[Composite]):
    """Session of ProxNewton, which keeps its compiled steps or its large systems of L2 for all problems."""

    def __init__(self, solver: ProxNewton, form: Composite) -> None:
        super().__init__(solver)
        # in larger problems features enter over many steps that gain little
        self.max_iter, self.watched = solver.max_iter, form.m * form.n <= 200_000
        self.systems: NewtonCG | None = None
        if form.penalty.square is not None and min(form.m, form.n) > _DIRECT:
            self.systems = NewtonCG(form.X)
        self.small = DenseNewton.of(form)

    def solve(self, form: Composite, monitor: Monitor, start: Answer | None = None) -> Answer:
        at = (np.zeros(form.n), 0.0) if start is None else start.plane
        if self.small is not None and not form.same_terms(self.small.form):
            self.small = DenseNewton.of(form)
        limit, done, stopped = monitor.limit(self.max_iter), 0, False
        if self.small is not None and not monitor.timed_out:
            found = self.small.solve(form, monitor, at, min(limit, MOST))
            if found.status == "converged":
                return found
            at, done = found.plane, int(self.small.state["steps"])
            stopped = found.status == "interrupted"
        step = iterate(form, at, monitor, self.systems)
        with np.errstate(over="ignore", invalid="ignore"):
            status, left = descend(step, monitor, done, done if stopped else limit, self.watched)
        if stopped and status != "converged":
            status = "interrupted"
        return Answer(w=step.w, b=step.b, slopes=step.dual).after(status, left)


def descend(
    at: ProximalIterate, monitor: Monitor, done: int, limit: int, watched: bool = False,
    patience: float = np.inf,
) -> tuple[Status, str]:  # fmt: skip
    """Run the Newton steps after number `done` in place; return the status and how large the gap is.

    watched : every 20 steps, end if neither the objective nor the gap has fallen
    patience : steps after which a predicted gain above a tenth of the objective ends them
    """
    step, stuck, previous, tol = done, 0, (np.inf, np.inf), monitor.tol
    for step in range(done + 1, limit + 1):
        at.look()
        looked = watched and step % 20 == 0
        # the gap, half a pass, may be small enough
        if at.gain <= 10.0 * tol * abs(at.value) or stuck or looked or monitor.timed_out:
            at.measure()
        if monitor.report(step, at.value, at.gap):
            return "interrupted", ""
        if monitor.reached(at.gap, 0.3 * tol) and monitor.met(at.missed):
            return "converged", ""
        if monitor.timed_out:
            return "interrupted", ""
        if looked:
            value, gap = previous
            if at.value > 0.99 * value and at.gap > 0.5 * gap:  # in the window neither value nor gap fell
                break
            previous = at.value, at.gap
        stuck = 0 if at.advance() else stuck + 1
        if at.ends(0.8 * tol) and monitor.met(at.missed):
            if step < limit:
                monitor.report(step + 1, at.value, at.gap)
            return "converged", ""
        slow = step >= patience and at.gain > 0.1 * abs(at.value)
        if stuck == 3 or slow or at.lost or not np.isfinite(at.value):
            break
    at.look()
    at.measure()
    if monitor.reached(at.gap, tol) and monitor.met(at.missed):
        return "converged", ""
    left = f"{step} Newton steps left a relative gap of {at.gap:.2g}"
    if step == limit:
        return "max_iter", f"{left}; raise max_iter"
    return "stalled", f"{left}; it falls no more; scale the features"
