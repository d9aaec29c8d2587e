"""Problems with the squared l2 norm and more features than samples, in coordinates of the span of the
samples.

The margins depend on the part of w in the span of the samples only. Outside of it `c ||w||_2^2 - <u, w>` is
least at `u / 2c`, for a linear function u of the normal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from scipy import sparse

from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, LinearTerm
from ucm.forms.solver import Session, Solver
from ucm.solvers.coordinates import GramCoordinates, OrthonormalCoordinates, Span


def in_range_space(
    solver: Solver[Composite], form: Composite, begin: Callable[[Composite], Session[Composite]]
) -> Session[Composite]:
    """Return a session of a solver, over coordinates of the span of the samples if they are fewer."""
    if form.n <= form.m or form.penalty.square is None:
        return begin(form)
    return _RangeSpace(solver, form, begin)


class _RangeSpace(Session[Composite]):
    """A session over samples in coordinates of their span.

    Attributes
    ----------
    span : the coordinates
    form : the samples in these coordinates
    inner : the session over them
    forming : the passes of the coordinates, until a monitor has counted them
    """

    def __init__(
        self,
        solver: Solver[Composite],
        form: Composite,
        begin: Callable[[Composite], Session[Composite]],
    ) -> None:
        super().__init__(solver)
        X = form.X
        self.span: Span = GramCoordinates([X]) if sparse.issparse(X) else OrthonormalCoordinates(X)
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
