"""The base of methods for rows that are read block by block: they end between rounds, also on Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable

from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.native.functions import blas_threads


def by_rounds(run: Callable[[], Answer], stored: int, monitor: Monitor) -> Answer:
    """Return the answer of `run()`, after a first pass; on Ctrl-C the latest answer, `monitor.latest`."""
    monitor.passes, monitor.reads = 1.0, 1
    try:
        with blas_threads(0, stored):  # blocks have threads of their own
            return run()
    except KeyboardInterrupt:
        if monitor.latest is None:
            raise
        monitor.interrupted = True
        return monitor.latest.interrupted()
