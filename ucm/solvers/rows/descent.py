"""The course of the nearest-point methods of Lopez, Barbero and Dorronsoro (2011): gaps, stops, reports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from ucm.data.linear import Vec
from ucm.data.options import POSITIVE, STOP, check_fields
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.nearest import HullsByRows, NearestPoint, small
from ucm.solvers.threads import blas_threads

__all__ = ["Descending", "Descent", "Place"]


class Place(NamedTuple):
    """||W||, the class gaps' sum relative to its square, and the largest class gap that ends a run."""

    W: float
    gap: float
    level: float


class Descent(ABC):
    """A method at work.

    hulls : the problem
    monitor : of the solve
    a, F : weights, and derivatives `<W, z_i>`
    limit : of the steps, unless the caller sets one
    steps, operations : so far; inner products count whether they are in the cache or not
    """

    hulls: HullsByRows
    monitor: Monitor
    a: Vec
    F: Vec
    limit: int = 100_000
    steps: int = 0
    operations: int = 0

    @abstractmethod
    def go(self, at: Place, tol: float, limit: int) -> None:
        """Steps, `limit` of them since the start at most, until it is worth while to look again."""

    @abstractmethod
    def ended(self, gap: float, limit: int) -> Answer | None:
        """Status and message, where no further step is made."""


class Descending(NearestPoint):
    """A solver that goes down step by step.

    Parameters
    ----------
    stop : "gap" (relative duality gap below tol), or "paper" (every class gap below `eps ||W||`)
    eps : of the paper's rule
    """

    stop: str
    eps: float

    def check(self) -> None:
        """Raises ParameterError where the rule of stopping is none."""
        check_fields(self, stop=STOP, eps=POSITIVE)

    @abstractmethod
    def begin(self, hulls: HullsByRows, start: list[Vec] | None, monitor: Monitor) -> Descent:
        """The method at its start."""

    def solve(self, form: MinNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        with blas_threads(form.n):
            hulls = HullsByRows.of(form)
            run = self.begin(hulls, None if start is None else form.begin(start), monitor)
            answer = self._run(form, run, monitor)
            answer.q = hulls.blocks(form, run.a)
            return answer

    def _run(self, form: MinNorm, run: Descent, monitor: Monitor) -> Answer:
        hulls, paper, limit = run.hulls, self.stop == "paper", monitor.limit(run.limit)
        while True:
            W, gaps = hulls.norm(run.a, run.F), hulls.gaps(run.a, run.F)
            level = self.eps * W if paper else 0.9 * monitor.tol * W * W / gaps.size
            at = Place(W, float(gaps.sum()) / max(W * W, 1e-300), level)
            monitor.kernel_operations = run.operations
            monitor.passes = hulls.gram.computed / (2.0 * hulls.gram.m)
            stop = monitor.report(run.steps, -W, at.gap, lambda: {"q": hulls.blocks(form, run.a)})
            near = float(gaps.max()) <= level if paper else at.gap <= 0.9 * monitor.tol
            if near or hulls.negligible(run.a, W, at.gap, small(monitor)):
                return Answer()
            if stop:
                return Answer().interrupted()
            end = run.ended(at.gap, limit)
            if end is not None:
                return end
            run.go(at, monitor.tol, monitor.next(run.steps, limit))
