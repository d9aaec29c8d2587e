"""Sessions of convex problems that wrap others: in range-space coordinates, or with a fallback."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ucm.errors import SolverError
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, LinearTerm
from ucm.forms.solver import Answer, Session, Solver, checked
from ucm.numerics.coordinates import span_of

_MOST = 200_000  # largest number of samples times features that a fallback takes


def in_range_space(
    solver: Solver[Composite], form: Composite, begin: Callable[[Composite], Session[Composite]]
) -> Session[Composite]:
    """Return a session, over the span of the samples if m < n and the penalty is the squared l2 norm."""
    if form.n <= form.m or form.penalty.square is None:
        return begin(form)
    return _RangeSpace(solver, form, begin)


class _RangeSpace(Session[Composite]):
    """Session that solves in coordinates of the span of the samples, for the squared l2 norm.

    The margins depend on the part of w in the span of the samples only. Outside of it `c ||w||_2^2 - <u, w>`
    is least at `u / 2c`, for a linear function u of the normal. A monitor counts the `forming` once.
    """

    def __init__(
        self, solver: Solver[Composite], form: Composite, begin: Callable[[Composite], Session[Composite]]
    ) -> None:
        super().__init__(solver)
        self.span = span_of(form.X)
        self.form = replace(form, X=self.span.tables[0], stored=form.unit_entries)
        self.forming = 0.5 * self.span.forming / form.unit_entries
        self.inner = begin(self.form)

    def solve(self, form: Composite, monitor: Monitor, start: Answer | None = None) -> Answer:
        monitor.hessian_passes, self.forming = monitor.hessian_passes + self.forming, 0.0
        tilt, outside = form.tilt, 0.0
        if tilt is not None:
            normal = self.span.inward(tilt.normal)
            outside = (tilt.normal - self.span.outward(normal)) / (2.0 * form.norms[1])
            tilt = LinearTerm(tilt.margin, normal)
        if start is not None:
            start = replace(start, w=self.span.inward(start.plane[0]))
        inside = replace(form, X=self.form.X, stored=self.form.stored, tilt=tilt)
        answer = self.inner.solve(inside, monitor, start)
        return replace(answer, w=self.span.outward(answer.plane[0]) + outside)


def continues(second: Solver[Composite], form: Composite) -> bool:
    """Return True if a fallback takes convex problems of this size, and accepts the form."""
    return form.m * form.n <= _MOST and second.refuse(form) is None


def session_of(
    first: Solver[Composite], second: Solver[Composite] | None, form: Composite
) -> Solver[Composite]:
    """Return the session of a solver; the fallback `second` continues where it ends without proof."""
    return first.session(form) if second is None else _FallbackSession(first, second, form)


class _FallbackSession(Session[Composite]):
    """Session of the first solver until the second has continued once with success, then of the second."""

    def __init__(self, first: Solver[Composite], second: Solver[Composite], form: Composite) -> None:
        super().__init__(first)
        self.second, self.current, self.replaced = second, first.session(form), False

    def solve(self, form: Composite, monitor: Monitor, start: Answer | None = None) -> Answer:
        try:
            answer = checked(self.current.solve(form, monitor, start), form.expected, self.solver.name)
        except SolverError:  # squares of the samples over- or underflow
            if self.replaced:
                raise
            answer = replace(start or Answer(w=np.zeros(form.n), b=0.0), status="stalled")
        ended = self.replaced or answer.status not in ("max_iter", "stalled") or monitor.timed_out
        if ended or not continues(self.second, form):
            return answer
        second = self.second.session(form)
        other = second.solve(form, monitor, answer)
        if other.slopes is None:
            return answer
        before, after = (form.value(form.margins(*a.plane), a.plane[0]) for a in (answer, other))
        if after > before + monitor.tol * abs(before):
            return answer
        self.current, self.replaced = second, True
        monitor.record_fallback(self.second.name, self.name)
        return other


class InnerSession:
    """Session of the convex problems inside of a solver: checks the answers, and counts their work."""

    def __init__(
        self, first: Solver[Composite], second: Solver[Composite] | None, form: Composite, monitor: Monitor
    ) -> None:
        self.session, self.monitor = session_of(first, second, form), monitor

    def solve(self, form: Composite, tol: float, start: Answer | None = None) -> Answer:
        inner_monitor = self.monitor.child(tol)
        answer = self.session.solve(form, inner_monitor, start)
        self.monitor.count_work(inner_monitor)
        return checked(answer, form.expected, self.session.name)
