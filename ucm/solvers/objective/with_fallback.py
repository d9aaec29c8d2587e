"""Convex problems in a series by one solver, and by a second one where the first ends without proof."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ucm.data.linear_map import Vec
from ucm.data.options import COUNT, check_fields
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.objective import INNER, Composite, InnerSolver, LinearTerm, Session

__all__ = ["WithFallback"]

_UNPROVEN = ("max_iter", "stalled")


@dataclass(frozen=True)
class WithFallback(InnerSolver):
    """A solver for the convex problems inside of another method, with a fallback.

    The first solver is asked. Where it ends without proof, the second goes on from its answer, and is asked
    for all further problems of the session if its objective is no worse.

    Parameters
    ----------
    first, second
        The solvers.
    most
        Largest number of samples times features that the second solver is asked for.
    """

    first: InnerSolver
    second: InnerSolver
    most: int = 200_000
    name: ClassVar[str] = "with-fallback"

    def __post_init__(self) -> None:
        check_fields(self, first=INNER, second=INNER, most=COUNT)
        vars(self)["name"] = self.first.name  # the session begins with it

    def refuse(self, form: Composite) -> str | None:
        return self.first.refuse(form)

    def applies(self, form: Composite) -> bool:
        """Whether the second solver takes the form, and in a series of problems takes seconds."""
        return form.m * form.n <= self.most and self.second.refuse(form) is None

    def open(self, form: Composite, monitor: Monitor) -> Session:
        first = self.first.open(form, monitor)
        return _FallbackSession(self, first, monitor) if self.applies(form) else first


class _FallbackSession(Session):
    """The session of the first solver, or that of the second once it went on."""

    def __init__(self, solver: WithFallback, first: Session, monitor: Monitor) -> None:
        self.solver, self.session, self.monitor = solver, first, monitor
        self.handed = False

    def place(self, w: Vec, b: float) -> None:
        self.session.place(w, b)

    def solve(self, form: Composite, tilt: LinearTerm, tol: float) -> Answer:
        self.session.whole = self.whole
        answer = self.session.solve(form, tilt, tol)
        if self.handed or answer.status not in _UNPROVEN or self.monitor.timed_out:
            return answer
        second = self.solver.second.open(form, self.monitor)
        w, b = answer.plane
        second.whole = self.whole
        second.place(w, b)
        other = second.solve(form, tilt, tol)
        if other.slopes is None:
            return answer
        below = form.value(form.margins(w, b), w, tilt)
        v, c = other.plane
        if form.value(form.margins(v, c), v, tilt) > below + tol * abs(below):
            return answer
        self.session, self.handed = second, True
        self.monitor.record_fallback(self.solver.second.name, self.solver.first.name)
        return other
