"""Linear programs in HiGHS with warm starts.

`scipy.optimize.linprog` takes the same linear programs to the same HiGHS, but every call begins anew; here
a program grows, its bounds and entries move, and the simplex method goes on from the last basis. CVXPY
writes them too, in three times the time that HiGHS needs for some hundred samples, and is slow to load.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.linear_map import Matrix, Vec
from ucm.errors import SolverError
from ucm.forms.monitor import Monitor

Index = NDArray[np.intp]
Side = float | Vec

_SHORT = 200_000  # entries up to which HiGHS runs in the main thread, for some 0.1 s


class Vertex(NamedTuple):
    """Result of the simplex method: a status of ours, HiGHS's `words`, x and dual (or empty), pivots."""

    status: str
    words: str
    x: Vec
    dual: Vec
    pivots: int


class LinearProgram:
    """Linear program in HiGHS, `min <cost, v>` over `lower <= v <= upper`, `least <= A v <= most`.

    It can grow and change between solves.

    monitor : of the solve: its limits are those of the program, whose pivots it counts as iterations; it
        prints the log of HiGHS if that one is verbose
    options : of HiGHS, beside tolerances of 1e-10
    """

    def __init__(self, monitor: Monitor | None = None, **options: Any) -> None:
        import highspy

        self.monitor = monitor or Monitor()
        self.highs: Any = _without_callbacks()()
        verbose = self.monitor.verbose
        tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
        for name, setting in {"output_flag": verbose, **tight, **options}.items():
            self.highs.setOptionValue(name, setting)
        verdicts = highspy.HighsModelStatus
        self.words = {
            verdicts.kOptimal: "optimal",
            verdicts.kInfeasible: "infeasible",
            verdicts.kUnbounded: "unbounded",
            verdicts.kTimeLimit: "time_limit",
            verdicts.kIterationLimit: "max_iter",
        }
        self.error = highspy.HighsStatus.kError
        self.has_basis = False

    def _accepted(self, code: object) -> None:
        """Raise `SolverError` if HiGHS has not taken a change of the program: entries beyond 1e15, NaN."""
        if code == self.error:
            raise SolverError(
                "highs: the linear program has numbers that HiGHS does not take; scale the features, or take "
                'solver="clarabel"'
            )

    def columns(
        self, count: int, lower: Side, upper: Side, cost: float = 0.0, entries: Matrix = None
    ) -> Index:
        """Add `count` variables with `entries` (count, rows) in the existing rows; return their indices."""
        before, rows = self.highs.getNumCol(), self.highs.getNumRow()
        terms = [] if entries is None else [(np.arange(rows), entries)]
        code = self.highs.addCols(
            count, np.full(count, cost), _each(lower, count), _each(upper, count),
            *_compressed(terms, (count, rows)),
        )  # fmt: skip
        self._accepted(code)
        return np.arange(before, before + count)

    def rows(self, terms: Sequence[tuple[Index, Matrix]], least: Side, most: Side) -> Index:
        """Add rows `least <= sum_k A_k v[at_k] <= most` for terms (at_k, A_k); return their indices."""
        before, count = self.highs.getNumRow(), np.size(most)
        code = self.highs.addRows(
            count, _each(least, count), _each(most, count),
            *_compressed(terms, (count, self.highs.getNumCol())),
        )  # fmt: skip
        self._accepted(code)
        return np.arange(before, before + count)

    def drop(self, columns: Index) -> None:
        """Delete variables; the later ones move up."""
        self._accepted(self.highs.deleteCols(columns.size, columns.astype(np.int32)))

    def sides(self, least: Vec, most: Vec) -> None:
        """Set the lower and upper bounds of all rows."""
        every = np.arange(least.size, dtype=np.int32)
        self._accepted(self.highs.changeRowsBounds(least.size, every, least, most))

    def bounds(self, lower: Vec, upper: Vec) -> None:
        """Set the bounds of the first variables, as many as there are entries."""
        every = np.arange(lower.size, dtype=np.int32)
        self._accepted(self.highs.changeColsBounds(lower.size, every, lower, upper))

    def column(self, at: int, entries: Vec) -> None:
        """Set the leading coefficients of a column, as many as `entries` has."""
        for row, entry in enumerate(entries.tolist()):
            self._accepted(self.highs.changeCoeff(row, at, entry))

    def row(self, at: int, entries: Vec, side: float) -> None:
        """Set the leading coefficients of a row, and both of its bounds to `side`."""
        for column, entry in enumerate(entries.tolist()):
            self._accepted(self.highs.changeCoeff(at, column, entry))
        self._accepted(self.highs.changeRowBounds(at, side, side))

    def solve(self) -> Vertex:
        """Solve from the last basis; if that fails, solve again from scratch."""
        verdict = self._run()
        if self.has_basis and self.words.get(verdict) not in ("optimal", "time_limit", "max_iter"):
            self.highs.clearSolver()
            verdict = self._run()
        self.has_basis = True
        solution = self.highs.getSolution()
        pivots = int(self.highs.getInfo().simplex_iteration_count)
        self.monitor.iterations += pivots
        return Vertex(
            self.words.get(verdict, "stopped"),
            self.highs.modelStatusToString(verdict),
            np.array(solution.col_value if solution.value_valid else []),
            np.array(solution.row_dual if solution.dual_valid else []),
            pivots,
        )

    def dual_ray(self) -> Vec:
        """Return a ray of the dual of an infeasible program, after its solve; empty if HiGHS has none."""
        has_ray, ray = self.highs.getDualRay()[1:]
        return np.array(ray if has_ray else [])

    def _run(self) -> Any:
        if self.monitor.time_limit is not None:  # the clock of HiGHS goes on from run to run
            self.highs.setOptionValue("time_limit", self.highs.getRunTime() + self.monitor.seconds_left)
        if self.monitor.max_iter is not None:
            left = max(0, self.monitor.max_iter - self.monitor.iterations)
            self.highs.setOptionValue("simplex_iteration_limit", left)
        if self.highs.getNumNz() <= _SHORT:
            self.highs.run()
        else:
            self._run_interruptibly()
        return self.highs.getModelStatus()

    def _run_interruptibly(self) -> None:
        """Run HiGHS in a thread, as Python handles Ctrl-C in the main thread only."""
        # an event, since before Python 3.13 a thread whose `join` is interrupted counts as ended
        ended = threading.Event()

        def run() -> None:
            try:
                self.highs.run()
            finally:
                ended.set()

        threading.Thread(target=run).start()
        try:
            while not ended.wait(0.1):  # seconds between checks for Ctrl-C
                pass
        except BaseException:
            self.highs.setOptionValue("time_limit", 0.0)
            ended.wait()
            self.highs.setOptionValue("time_limit", math.inf)
            raise


@functools.cache
def _without_callbacks() -> Any:
    """Return the class `Highs` with callbacks disabled, as version 1.16 prints its banner for them."""
    import highspy

    return type("Highs", (highspy.Highs,), {"enableCallbacks": lambda self: None})


def _each(side: Side, count: int) -> Vec:
    """Return a scalar or a vector as a new float64 vector of length `count`."""
    return np.array(np.broadcast_to(side, count), dtype=np.float64)


def _compressed(terms: Sequence[tuple[Index, Matrix]], shape: tuple[int, int]) -> tuple:
    """Return the sum of matrices A_k, placed in the columns at_k, as CSR: count, starts, indices, entries."""
    if len(terms) == 1 and isinstance(terms[0][1], np.ndarray):
        at, dense = terms[0]
        start = at.size * np.arange(shape[0], dtype=np.int32)
        index = np.tile(at.astype(np.int32), shape[0])
        return dense.size, start, index, np.ascontiguousarray(dense).ravel()
    parts = [(at, sparse.coo_array(A)) for at, A in terms]
    none = np.zeros(0, dtype=np.intp)
    i = np.concatenate([none, *(A.row for _, A in parts)])
    j = np.concatenate([none, *(at[A.col] for at, A in parts)])
    entries = np.concatenate([np.zeros(0), *(A.data for _, A in parts)])
    A: Matrix = sparse.csr_array((entries, (i, j)), shape=shape)
    return A.nnz, A.indptr[:-1].astype(np.int32), A.indices.astype(np.int32), A.data
