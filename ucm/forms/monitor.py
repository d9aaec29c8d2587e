"""One owner of the limit, the clock, the callback, the printed table and the history."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["Monitor"]

_HEADER = (
    f"{'iteration':>9}  {'objective':>16}  {'relative gap':>12}  {'passes':>9}  {'seconds':>8}"
)


@dataclass
class Monitor:
    """Watches one solve.

    Attributes
    ----------
    tol : relative gap to reach
    max_iter : None for the solver's own limit
    callback : called with the record of every report; returning True stops the solve
    verbose : print a table
    factor : what a reported objective is multiplied by, to be that of the declared problem
    passes : products with the data so far, in units of one A q plus one A' w; a product with some
        rows counts as their part of all rows
    systems : linear systems so far, by a solver that forms them
    forming : what forming them took, in passes: n^2 / 2 multiplications for a row that enters or leaves,
        and one for each entry that a product with the low-rank part of a Jacobian touches
    """

    tol: float = 1e-6
    max_iter: int | None = None
    callback: Callable[[dict[str, float]], object] | None = None
    verbose: bool = False
    factor: float = 1.0
    passes: float = 0.0
    systems: int = 0
    forming: float = 0.0
    kernel_operations: int = 0
    iterations: int = 0
    history: list[dict[str, float]] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    def limit(self, own: int) -> int:
        """The number of iterations allowed, `own` unless the caller set one."""
        return own if self.max_iter is None else self.max_iter

    @property
    def goes_on(self) -> bool:
        """Whether the caller allows more iterations."""
        return self.max_iter is None or self.iterations < self.max_iter

    @property
    def zero(self) -> float:
        """The part of the largest norm met at which a norm counts as 0."""
        return max(0.1 * self.tol, 1e-10)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    def report(self, iteration: int, objective: float, gap: float) -> bool:
        """Record one state; True when the callback asks to stop."""
        self.iterations = iteration
        objective *= self.factor
        record = {
            "iteration": iteration,
            "objective": objective,
            "gap": gap,
            "passes": self.passes,
            "seconds": self.seconds,
        }
        self.history.append(record)
        if self.verbose:
            if len(self.history) == 1:
                print(_HEADER)
            print(
                f"{iteration:9d}  {objective:16.9g}  {gap:12.3e}  {self.passes:9.1f}  "
                f"{self.seconds:8.3f}"
            )
        return self.callback is not None and self.callback(record) is True
