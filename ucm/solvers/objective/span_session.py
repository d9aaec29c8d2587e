"""Problems with the squared l2 norm and more features than samples, in coordinates of the span of the
samples.

The margins depend on the part of w in the span of the samples only. Outside of it `c ||w||_2^2 - <u, w>` is
least at `u / 2c`, for a linear function u of the normal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from scipy import sparse

from ucm.data.linear_map import Vec
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, LinearTerm, Session
from ucm.solvers.coordinates import GramCoordinates, OrthonormalCoordinates, Span

__all__ = ["in_range_space"]


def in_range_space(
    form: Composite, monitor: Monitor, begin: Callable[[Composite, Monitor], Session]
) -> Session:
    """Return a session of a solver, over coordinates of the span where that is smaller."""
    if form.n <= form.m or form.penalty.square is None:
        return begin(form, monitor)
    return _RangeSpace(form, monitor, begin)


class _RangeSpace(Session):
    """A session around another one.

    Attributes
    ----------
    span : the coordinates
    form : the samples in these coordinates
    inner : the session over them
    """

    def __init__(
        self, form: Composite, monitor: Monitor, begin: Callable[[Composite, Monitor], Session]
    ) -> None:
        X, self.monitor = form.X, monitor
        self.span: Span = GramCoordinates([X]) if sparse.issparse(X) else OrthonormalCoordinates(X)
        self.form = replace(form, X=self.span.tables[0], stored=form.unit_entries)
        monitor.hessian_passes += 0.5 * self.span.forming / form.unit_entries
        self.inner = begin(self.form, monitor)

    def place(self, w: Vec, b: float) -> None:
        self.inner.place(self.span.inward(w), b)

    def solve(self, form: Composite, tilt: LinearTerm, tol: float) -> Answer:
        self.inner.monitor, self.inner.whole = self.monitor, self.whole
        normal = self.span.inward(tilt.normal)
        outside = (tilt.normal - self.span.outward(normal)) / (2.0 * form.norms[1])
        inside = replace(form, X=self.form.X, stored=self.form.stored)
        answer = self.inner.solve(inside, LinearTerm(tilt.margin, normal), tol)
        w, _ = answer.plane
        return replace(answer, w=self.span.outward(w) + outside)
