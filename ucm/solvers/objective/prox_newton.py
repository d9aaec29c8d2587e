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
from ucm.forms.solver import Answer, Session, Solver
from ucm.solvers.objective.dense_newton import MOST, DenseNewton
from ucm.solvers.objective.orthant_step import iterate
from ucm.solvers.objective.proximal_step import LARGEST, descend, penalised
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
