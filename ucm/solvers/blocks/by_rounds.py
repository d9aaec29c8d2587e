"""What the methods for rows that are read block by block share: they end between rounds, also on Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.solvers.threads import blas_threads

__all__ = ["by_rounds"]


def by_rounds(run: Callable[[Any, Monitor], Answer], form: Any, monitor: Monitor) -> Answer:
    """`run(form, monitor)`, the survey of the rows behind it; on Ctrl-C what it left in `monitor.latest`."""
    monitor.passes, monitor.reads = 1.0, 1
    try:
        with blas_threads(0, form.data.stored):  # blocks have threads of their own
            return run(form, monitor)
    except KeyboardInterrupt:
        if monitor.latest is None:
            raise
        monitor.broken = True
        return monitor.latest.interrupted()
