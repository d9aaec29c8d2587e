"""The limits, clock, callback, printed table and history of a solve."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from ucm.data.deadline import limited
from ucm.data.options import SECONDS, optional
from ucm.language.contracts import ROUNDING

ZERO = 1e-9
"""The norm that counts as 0, relative to the largest norm so far, whatever the tolerance is."""

SEPARATED = 1e-12
"""The proven distance from 0 that is no rounding error, relative to the largest norm so far."""

CROSSED = 1e-9
"""The largest negative relative gap that rounding explains; a gap below -CROSSED proves nothing."""

INSIDE = ROUNDING
"""The violation up to which a point counts as one of U, or of the domain of a dual problem."""

CRITICAL = 1e-9
"""The violation up to which a point counts as a subgradient at a critical point, where it bounds nothing."""

_HALF = 0.5  # of the tolerance: the gap that solvers aim at
_LIMIT = optional(SECONDS)
_LEAST = 1e-6  # seconds: a limit is positive

clock = time.perf_counter  # of every monitor; tests replace it

_HEADER = f"{'iteration':>9}  {'objective':>16}  {'relative gap':>12}  {'passes':>9}  {'seconds':>8}"


class TimeLimit(float):
    """A time limit in seconds, counted from `began`, a time of `time.perf_counter`."""

    began: float

    def __new__(cls, seconds: float, began: float) -> Self:
        limit = super().__new__(cls, seconds)
        limit.began = began
        return limit


@dataclass
class Monitor:
    """The limits, the callback, the counts of work and the history of one solve.

    Attributes
    ----------
    tol : relative gap to reach
    max_iter : None for the solver's own limit
    callback : called with the record of every report; returning True stops the solve
    verbose : print a table
    time_limit : seconds from `started` on, or from the begin of a `TimeLimit`; None for no limit
    factor : the factor from a reported objective to the objective of the declared problem
    trace : k to record every k-th iterate with its details; 0 to record the reports of the solver
    start : the index of the current start, of solvers with several starts
    start_objectives : the objective at the end of every start so far
    zero_tol : the norm that counts as 0, relative to the largest norm so far; None for `ZERO`
    passes : products with the data so far, in units of one A q plus one A' w; a product with some
        rows counts as their fraction of all rows
    systems : the number of linear systems so far, if the solver forms them
    hessian_passes : the work of forming them, in passes: n^2 / 2 multiplications for a row that enters or
        leaves,
        and one for each entry that a product with the low-rank part of a Jacobian touches
    kernel_operations : inner products of samples, if the solver counts them
    reads : the number of reads of all rows of a row source
    latest, interrupted : over a row source the last answer with a proof, and True if Ctrl-C ended the solve
    fallbacks : the fallbacks that continued, each with the solver before it; shared with the inner problems
    iterations, history : the number of the last reported iteration, and every record
    started : the begin of the solve, by `time.perf_counter`
    bound : True to search for a lower bound if 0 lies in U
    outer : the monitor of the problem around an inner one
    over : True once work was left out that would have taken more than the remaining time
    """

    tol: float = 1e-6
    max_iter: int | None = None
    callback: Callable[[dict], object] | None = None
    verbose: bool = False
    time_limit: float | None = None
    factor: float = 1.0
    trace: int = 0
    start: int = 0
    start_objectives: list[float] = field(default_factory=list)
    zero_tol: float | None = None
    passes: float = 0.0
    systems: int = 0
    hessian_passes: float = 0.0
    kernel_operations: int = 0
    reads: int = 0
    latest: Any = None
    interrupted: bool = False
    fallbacks: dict[str, str] = field(default_factory=dict)
    iterations: int = 0
    history: list[dict] = field(default_factory=list)
    started: float = field(default_factory=lambda: clock())
    bound: bool = True
    outer: Monitor | None = None
    over: bool = False

    def limit(self, own: int) -> int:
        """Return the iteration limit `max_iter`, or the solver's `own` limit without one."""
        return own if self.max_iter is None else self.max_iter

    @property
    def may_continue(self) -> bool:
        """True if `max_iter` is None or exceeds the last reported iteration."""
        return self.max_iter is None or self.iterations < self.max_iter

    @property
    def zero(self) -> float:
        """The norm that counts as 0, relative to the largest norm so far: `zero_tol`, by default `ZERO`."""
        return ZERO if self.zero_tol is None else self.zero_tol

    def at_zero(self, norm: float, bound: float, largest: float) -> bool:
        """True if the norm is a rounding error of the largest norm, and no lower bound separates 0."""
        return norm <= self.zero * largest and not bound > SEPARATED * largest

    def met(self, violation: float) -> bool:
        """True if a point counts as feasible: its violation is at most `ZERO`, whatever the tolerance is."""
        return violation <= ZERO

    def reached(self, gap: float, tol: float | None = None) -> bool:
        """True if a relative gap proves `tol`; by default half of `self.tol`, as the certificate rounds.

        A gap below `-CROSSED` proves nothing: its point lies outside of the set, or rounding decides.
        """
        return -CROSSED <= gap <= (_HALF * self.tol if tol is None else tol)

    @property
    def seconds(self) -> float:
        return clock() - self.started

    def count_read(self) -> None:
        """Count one pass over all rows of a row source, in `passes` and `reads`."""
        self.passes += 1.0
        self.reads += 1

    @property
    def timed_out(self) -> bool:
        """True if the time limit is over, which long work checks before each product and factorisation."""
        return self.over or (self.time_limit is not None and clock() >= self._ends(self.time_limit))

    def allows(self, seconds: float) -> bool:
        """True if more than `seconds` remain; else the time is over, here and in the problems around.

        It precedes work that nothing interrupts, with an estimate of its duration.
        """
        if not self.over and (self.time_limit is None or clock() + seconds < self._ends(self.time_limit)):
            return True
        monitor: Monitor | None = self
        while monitor is not None:
            monitor.over, monitor = True, monitor.outer
        return False

    @property
    def seconds_left(self) -> float:
        """The remaining seconds, always positive, for external programs; inf without a limit."""
        if self.time_limit is None:
            return math.inf
        return max(_LEAST, self._ends(self.time_limit) - clock())

    def _ends(self, limit: float) -> float:
        return (limit.began if isinstance(limit, TimeLimit) else self.started) + limit

    def child(self, tol: float, max_iter: int | None = None, zero_tol: float | None = None) -> Monitor:
        """Return the monitor of an inner problem, with the same time limit and the same fallback record."""
        return Monitor(
            tol, max_iter, time_limit=self.time_limit, zero_tol=zero_tol, started=self.started,
            fallbacks=self.fallbacks, outer=self,
        )  # fmt: skip

    @classmethod
    def within_limit(cls, tol: float = 1e-6) -> Monitor:
        """Return the monitor of a solve inside of a computation, with the time limit that holds there."""
        outer = limited.get()
        return outer.child(tol) if isinstance(outer, Monitor) else cls(tol)

    def count_work(self, own: Monitor, share: float = 1.0) -> None:
        """Add the work of an inner problem; passes count times `share`, the fraction of the samples."""
        self.passes += share * own.passes
        self.systems += own.systems
        self.hessian_passes += share * own.hessian_passes

    def record_fallback(self, solver: str, unproven: str) -> None:
        """Record that `solver` continued from the answer without proof of the solver `unproven`."""
        self.fallbacks[solver] = unproven

    @property
    def fallback_note(self) -> str:
        """The clause of a message that names the fallbacks that continued; "" without fallbacks."""
        return "".join(
            f"; {solver} went on from the answer of {first}, which ended without proof"
            for solver, first in self.fallbacks.items()
        )

    @property
    def last_report(self) -> str:
        """The text on the last reported iteration, for the note of an interruption."""
        text = f"interrupted after {self.seconds:.3g} s"
        if not self.history:
            return f"{text}, before the first report"
        last = self.history[-1]
        return (
            f"{text}: iteration {last['iteration']} had the objective {last['objective']:.6g} and the "
            f"relative gap {last['gap']:.2g}"
        )

    def due(self, iteration: int) -> bool:
        """True if tracing is on and the trace records this iteration."""
        return self.trace > 0 and iteration % self.trace == 0

    def next(self, iteration: int, limit: int) -> int:
        """Return the iteration of the next stop: the smaller of `limit` and the next traced iteration."""
        return min(limit, (iteration // self.trace + 1) * self.trace) if self.trace else limit

    def report(
        self, iteration: int, objective: float, gap: float, more: Callable[[], dict] | None = None
    ) -> bool:
        """Append the record of an iteration to the history, with a trace also the details `more()`.

        Return True if the callback asks to stop or the time is over.
        """
        self.iterations = iteration
        objective *= self.factor
        record = {
            "iteration": iteration, "objective": float(objective), "gap": float(gap),
            "passes": float(self.passes), "seconds": self.seconds, "start": self.start,
        }  # fmt: skip
        last = self.history[-1] if self.history else None
        if self.trace:
            record.update(more() if more is not None else {})
            # an untraced record, or one of this iteration, makes room
            untraced = last and (last["iteration"] % self.trace or last["iteration"] == iteration)
            if last and untraced and last["start"] == self.start:
                self.history.pop()
        self.history.append(record)
        if self.verbose:
            if len(self.history) == 1:
                print(_HEADER)
            print(f"{iteration:9d}  {objective:16.9g}  {gap:12.3e}  {self.passes:9.1f}  {self.seconds:8.3f}")
        stop_requested = self.callback is not None and self.callback(record) is True
        return stop_requested or self.timed_out

    def end_start(self, objective: float) -> None:
        """Record the final objective of a start, and begin the next start."""
        self.start_objectives.append(objective * self.factor)
        self.start += 1


@contextmanager
def time_of(monitor: Monitor | None) -> Iterator[None]:
    """Set the time limit of the computations inside, None for no limit; they raise `OutOfTime`."""
    token = limited.set(monitor)
    try:
        yield
    finally:
        limited.reset(token)


def check_time_limit(time_limit: object, where: str) -> None:
    """Raise `ParameterError` unless the time limit is a positive number of seconds or None."""
    if time_limit is not None:
        _LIMIT.check(where, "time_limit", time_limit, "leave it out to solve to the end")


def limit_from(time_limit: float | None, began: float) -> TimeLimit | None:
    """Return the limit of several tasks as a `TimeLimit` from `began` on, unless it is one, or None."""
    if time_limit is None or isinstance(time_limit, TimeLimit):
        return time_limit
    return TimeLimit(time_limit, began)
