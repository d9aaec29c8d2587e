"""The contract of a solver: it takes a standard form, and never sees a declaration."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from ucm.data.linear import Vec

__all__ = ["Resumable", "Solver"]


class Solver(ABC):
    """An algorithm for one standard form (`ucm.forms`). Never sees a declaration."""

    name: ClassVar[str]

    @abstractmethod
    def refuse(self, form: Any) -> str | None:
        """Why this solver does not take the form; None when it does."""

    @abstractmethod
    def predicted_passes(self, form: Any) -> float:
        """A rough number of passes over the data to a relative gap of 1e-6, for `explain()`."""

    @abstractmethod
    def solve(self, form: Any, monitor: Any, start: Sequence[Vec] | None = None) -> Any:
        """Run until the monitor says stop; returns the raw answer (`ucm.forms.Raw`)."""


class Resumable(Solver):
    """A solver that can start from a dual vector too, where the solution of a near problem is known."""

    @abstractmethod
    def resume(self, form: Any, monitor: Any, start: Sequence[Vec], near: Vec) -> Any:
        """As `solve`, where the nearest point is expected at `near`. The blocks `start` may be outside of
        their domains."""
