"""Convex problems in a series by one solver, and by a second one where the first ends without proof."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ucm.data.options import COUNT, check_fields
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite
from ucm.forms.solver import Session, Solver, solver_of

_UNPROVEN = ("max_iter", "stalled")


@dataclass(frozen=True)
class WithFallback(Solver[Composite]):
    """A solver of convex problems with a fallback.

    Where the first solver ends without proof, the second continues from its answer, and solves all further
    problems of the session if its objective is no worse.

    Parameters
    ----------
    first, second
        The solvers.
    most
        Largest number of samples times features that the second solver takes.
    """

    first: Solver[Composite]
    second: Solver[Composite]
    most: int = 200_000
    name: ClassVar[str] = "with-fallback"

    def __post_init__(self) -> None:
        check_fields(self, first=solver_of(Composite), second=solver_of(Composite), most=COUNT)
        vars(self)["name"] = self.first.name  # the session begins with it

    def refuse(self, form: Composite) -> str | None:
        return self.first.refuse(form)

    def applies(self, form: Composite) -> bool:
        """True if the second solver takes the form, and solves a series of such problems in seconds."""
        return form.m * form.n <= self.most and self.second.refuse(form) is None

    def session(self, form: Composite) -> Solver[Composite]:
        first = self.first.session(form)
        return _FallbackSession(self, first) if self.applies(form) else first

    def solve(self, form: Composite, monitor: Monitor, start: Answer | None = None) -> Answer:
        return self.session(form).solve(form, monitor, start)


class _FallbackSession(Session[Composite]):
    """The session of the first solver, or that of the second after it continued once."""

    def __init__(self, both: WithFallback, first: Solver[Composite]) -> None:
        super().__init__(both)
        self.both, self.current, self.replaced = both, first, False

    def solve(self, form: Composite, monitor: Monitor, start: Answer | None = None) -> Answer:
        answer = self.current.solve(form, monitor, start)
        if self.replaced or answer.status not in _UNPROVEN or monitor.timed_out:
            return answer
        second = self.both.second.session(form)
        other = second.solve(form, monitor, answer)
        if other.slopes is None:
            return answer
        before, after = (form.value(form.margins(*a.plane), a.plane[0]) for a in (answer, other))
        if after > before + monitor.tol * abs(before):
            return answer
        self.current, self.replaced = second, True
        monitor.record_fallback(self.both.second.name, self.both.first.name)
        return other
