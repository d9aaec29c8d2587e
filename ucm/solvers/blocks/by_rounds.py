"""What the methods for rows that are read block by block share: they end between rounds, also on Ctrl-C."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, TypeVar

from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Solver
from ucm.solvers.threads import blas_threads

__all__ = ["ByRounds"]

Form = TypeVar("Form", bound=Any)


class ByRounds(Solver[Form]):
    """A few passes over all rows, from a sample: it tells more than a start of another size."""

    def predicted_passes(self, form: Form) -> float:
        return 4.0

    def solve(self, form: Form, monitor: Monitor, start: Answer | None = None) -> Answer:
        monitor.passes, monitor.reads = 1.0, 1  # that of the survey
        try:
            with blas_threads(0, form.data.stored):  # blocks have threads of their own
                return self.run(form, monitor)
        except KeyboardInterrupt:
            if monitor.latest is None:
                raise
            monitor.broken = True
            return monitor.latest.interrupted()

    @abstractmethod
    def run(self, form: Form, monitor: Monitor) -> Answer:
        """`solve`, once the rows are known; it leaves what is proven in `monitor.latest`."""
