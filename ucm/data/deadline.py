"""The time limit of computations without a monitor: statistics, forms, intervals of parameters.

A compilation, or the change to another form within a solve, sets it, and long computations below ask for it.
Solvers have the monitor itself. Certificates end whatever the limit is, with a tenth of a second for each
search of a feasible point.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol

from ucm.errors import SolverError


class Limited(Protocol):
    """An object with a time limit, such as the monitor of a solve."""

    def allows(self, seconds: float) -> bool:
        """True if more than `seconds` remain."""
        ...


class OutOfTime(SolverError):
    """The time limit came before a solver began."""


limited: ContextVar[Limited | None] = ContextVar("limited", default=None)
"""The monitor whose time limit holds, which `ucm.forms.monitor.time_of` sets; None without a limit."""


def check_time(seconds: float = 0.0) -> None:
    """Raise `OutOfTime` unless more than `seconds`, the length of the work ahead, remain."""
    monitor = limited.get()
    if monitor is not None and not monitor.allows(seconds):
        raise OutOfTime("the time limit came first, while the problem was formed; raise time_limit")
