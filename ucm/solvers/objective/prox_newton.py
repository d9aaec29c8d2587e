"""Newton's method on the primal, by proximal steps: smooth losses with any penalty that has a proximal map.

What a step is stands in `ucm.solvers.objective.proximal_step`. With more features than samples and L2 alone
w lies in the span of the samples: their coordinates there make small systems.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.linear import Vec
from ucm.data.options import COUNT, check_fields, optional
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.objective import INNER, Composite, InnerSolver, Session, Tilt
from ucm.solvers.coordinates import ByInnerProducts, Orthonormal, Span
from ucm.solvers.objective.proximal_step import LARGEST, Step, penalised
from ucm.solvers.objective.rest import instead, moderate
from ucm.solvers.objective.truncated import Truncated
from ucm.solvers.objective.walled import Walled

__all__ = ["Point", "ProxNewton"]

Table = NDArray[np.float64]

_ENOUGH = 0.3  # of the tolerance
_NEARLY = 0.8  # of it, for slopes that are foretold: what is left is rounding of sums
_DIRECT = 500  # order of a linear system, above which conjugate gradients take its place
_STUCK = 3  # steps in a row that gain nothing
_WINDOW = 20  # steps, after which they have stalled where they leave half of the gap
_FALL = 0.01  # and take no larger share off the objective
_COUNTED = 10.0  # in tolerances, the gain at which the gap is looked at


@dataclass(frozen=True)
class ProxNewton(InnerSolver):
    """Proximal Newton steps: smooth losses with any penalty that has a proximal map.

    Parameters
    ----------
    max_iter
        Limit of steps.
    max_order
        Most features where a penalty joins them.
    rest
        Goes on where the steps gain no more, if given; on small problems.

    Notes
    -----
    Lee, Sun and Saunders (2014); Yuan, Ho and Lin (2012).
    """

    max_iter: int = 300
    max_order: int = LARGEST
    rest: InnerSolver | None = None
    name: ClassVar[str] = "prox-newton"

    def __post_init__(self) -> None:
        check_fields(self, max_iter=COUNT, max_order=COUNT, rest=optional(INNER))

    def refuse(self, form: Composite) -> str | None:
        rough = [loss for loss in form.losses if not loss.smooth()]
        if rough:
            return f"{rough[0]!r} has no Lipschitz gradient"
        return penalised(form, self.max_order)

    def predicted_passes(self, form: Composite) -> float:
        return 10.0

    def open(self, form: Composite, monitor: Monitor) -> Session:
        return Point(form, monitor, self)


class Point(Session):
    """The last point, and the samples in coordinates of their span where L2 is all there is.

    Attributes
    ----------
    form : the samples as they are worked on
    span : these coordinates, or None
    handed : whether another solver goes on where the steps have stalled
    systems : those of L2 where they are too large to be formed, or None
    last : the last iterate, from whose margins and matrix the next problem goes on
    small : compiled steps, of few samples; or None
    """

    def __init__(self, form: Composite, monitor: Monitor, options: ProxNewton) -> None:
        self.monitor, self.options, self.entries = monitor, options, form.entries
        self.other: Session | None = None  # that goes on where the steps have stalled
        self.span: Span | None = None
        self.systems: Truncated | None = None
        if form.penalty.square is not None and min(form.m, form.n) > _DIRECT:
            self.systems = Truncated(form.X, lambda: monitor.late)
        elif form.n > form.m and form.penalty.square is not None:
            X = form.X
            self.span = ByInnerProducts([X]) if sparse.issparse(X) else Orthonormal(X)
            form = replace(form, X=self.span.tables[0])
            monitor.forming += 0.5 * self.span.forming / self.entries
        self.form, self.handed = form, moderate(options.rest, form)
        self.w, self.b = np.zeros(form.n), 0.0
        self.last: Step | None = None
        self.small = Walled.of(form)

    def place(self, w: Vec, b: float) -> None:
        self.w, self.b = (w.copy() if self.span is None else self.span.inward(w)), b

    def solve(self, form: Composite, tilt: Tilt, tol: float) -> Answer:
        if self.other is not None:
            return self.other.solve(form, tilt, tol)
        monitor = self.monitor
        watched = (
            monitor.callback is not None or monitor.verbose or monitor.trace or monitor.max_iter
        )
        if self.small is not None and not (self.whole and watched) and not monitor.late:
            start = (self.w, self.b)
            found = self.small.solve(form, tilt, _NEARLY * tol, start, monitor, self.whole)
            self.w, self.b, dual = found
            if dual is not None:
                return Answer(w=self.w, b=self.b, slopes=dual)
        whole, slant = form, tilt
        outside: float | Vec = 0.0  # the part of w outside of the span, which moves no margin
        if self.span is not None:
            normal = self.span.inward(tilt.normal)
            outside = (tilt.normal - self.span.outward(normal)) / (2.0 * form.norms[1])
            form, tilt = replace(form, X=self.form.X), Tilt(tilt.margin, normal)
        cost = form.entries / self.entries
        at = Step(form, tilt, (self.w, self.b), self.monitor, cost, self.systems, last=self.last)
        with np.errstate(over="ignore", invalid="ignore"):
            status, left = self._descend(at, tol)
        self.w, self.b, self.last = at.w, at.b, at
        w = (at.w if self.span is None else self.span.outward(at.w)) + outside
        if status == "stalled" or (status == "max_iter" and self.monitor.max_iter is None):
            rest = self.options.rest if self.handed or at.large else None
            found = instead(rest, whole, slant, tol, self.monitor, (w, at.b))
            if found is not None:
                self.other, answer = found
                return answer
        return Answer(w=w, b=at.b, slopes=at.dual).after(status, left)

    def along(
        self, walls: tuple[Table, Table, Vec], at: Callable[[int], Composite]
    ) -> tuple[Table, Table, Table]:
        """(k, n + 1) normals and biases, (k, m) dual points and (k, 5) the objective, the gap, passes,
        systems and steps of problems that differ by their penalties, each from the end of the one before it:
        as many as were proven, in order.

        Parameters
        ----------
        walls : (K, n), (K, n) and (K,): of the slopes of each penalty, and its multiple of `||w||_2^2`
        at : the problem in a place
        """
        monitor, tol = self.monitor, self.monitor.tol
        lower, upper, ridge = walls
        if self.small is not None and (upper > 0.0).all() and (lower < 0.0).all():
            return self.small.along(*walls, _NEARLY * tol, monitor)
        Z, A, steps = np.empty((ridge.size, lower.shape[1] + 1)), [], []
        self.whole = True
        for k in range(ridge.size):
            form, passes, systems = at(k), monitor.passes, monitor.systems
            answer = self.solve(form, form.flat(), tol)
            if answer.status != "converged" or answer.slopes is None or self.other is not None:
                break
            Z[k, :-1], Z[k, -1] = answer.plane
            A.append(answer.slopes)
            last, spent = monitor.history[-1], (monitor.passes - passes, monitor.systems - systems)
            steps.append([last["objective"], last["gap"], *spent, monitor.iterations])
        rows = len(A)
        return Z[:rows], np.reshape(A, (rows, -1)), np.reshape(steps, (rows, 5))

    def _descend(self, at: Step, tol: float) -> tuple[str, str]:
        """How it ended, and what was left."""
        monitor, step, stuck, known = self.monitor, 0, 0, (np.inf, np.inf)
        limit = monitor.limit(self.options.max_iter) if self.whole else self.options.max_iter
        for step in range(1, limit + 1):
            at.look()
            looked = self.handed and step % _WINDOW == 0
            if at.gain <= _COUNTED * tol * abs(at.value) or stuck or looked or monitor.late:
                at.measure()
            if self.whole and monitor.report(step, at.value, at.gap):
                return "interrupted", ""
            if abs(at.gap) <= _ENOUGH * tol and at.missed <= tol:
                return "converged", ""
            if monitor.late:
                return "interrupted", ""
            if looked:
                value, gap = known
                if at.value > (1.0 - _FALL) * value and at.gap > 0.5 * gap:
                    break
                known = at.value, at.gap
            stuck = 0 if at.advance() else stuck + 1
            if at.ends(_NEARLY * tol) and at.missed <= tol:
                if self.whole and step < limit:
                    monitor.report(step + 1, at.value, at.gap)
                return "converged", ""
            if stuck == _STUCK or at.lost or not np.isfinite(at.value):
                break
        at.look()
        at.measure()
        if abs(at.gap) <= tol and at.missed <= tol:
            return "converged", ""
        left = f"{step} Newton steps left a relative gap of {at.gap:.2g}"
        if step == limit:
            return "max_iter", f"{left}; raise max_iter"
        return "stalled", f"{left}; it falls no more; scale the features"
