"""Out-of-core active-set solver, for two reduced hulls and for hinge or ramp losses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ucm.data.options import COUNT, OptionSpec, option, optional
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, DifferenceOfConvex
from ucm.forms.out_of_core import RowHulls, RowLosses
from ucm.forms.solver import Answer, Solver, solver_of
from ucm.solvers.objective.sessions import session_of
from ucm.solvers.out_of_core.active_set import ActiveSetRun, by_rounds
from ucm.solvers.out_of_core.hinge import HingeRun
from ucm.solvers.out_of_core.hulls import HullsRun

_INNER = OptionSpec(
    "a solver of MinNorm, of composite problems, or of differences of convex functions",
    lambda x: isinstance(x, Solver) and not {MinNorm, Composite, DifferenceOfConvex}.isdisjoint(x.takes),
    "ucm.solvers.SSNAL()",
)

_RUNS: dict[type, type[ActiveSetRun]] = {RowHulls: HullsRun, RowLosses: HingeRun}


@dataclass(frozen=True)
class OutOfCoreActiveSet(Solver[RowHulls | RowLosses]):
    """Solve out-of-core reduced hulls, or hinge and ramp losses, by an active set of rows in memory.

    The steps are: sample, screen, solve, verify.

    Parameters
    ----------
    inner
        The solver of the sample and of the active set, in memory: of hulls one of `MinNorm`, of hinge losses
        one of composite problems, and where terms are subtracted one such as `DCA`.
    budget
        The largest number of bytes of the active set.
    fallback
        The solver that continues composite problems where `inner` ends without proof; None: none does.
    """

    inner: Solver = option(_INNER)
    budget: int = option(COUNT, 1 << 28)
    fallback: Solver[Composite] | None = option(optional(solver_of(Composite)), None)
    name: ClassVar[str] = "out-of-core"

    @property
    def inner_solvers(self) -> tuple[Solver, ...]:
        return (self.inner,) if self.fallback is None else (self.inner, self.fallback)

    def refuse(self, form: RowHulls | RowLosses) -> str | None:
        return _RUNS[type(form)].refuse(self.inner, form)

    def solve(self, form: RowHulls | RowLosses, monitor: Monitor, start: Answer | None = None) -> Answer:
        inner = self.inner.solve if self.fallback is None else self._continued
        run = _RUNS[type(form)](form, monitor, inner, self.budget)
        return by_rounds(run.run, form.data.stored, monitor)

    def _continued(self, form: Composite, monitor: Monitor, start: Answer | None = None) -> Answer:
        return session_of(self.inner, self.fallback, form).solve(form, monitor, start)
