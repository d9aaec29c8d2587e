"""Linear programs through HiGHS.

`min sum_i c_i max(0, o - t_i) + a ||w||_1 - <u, w> - u_b b` is solved in its dual,

    max o sum_i alpha_i  s.t.  0 <= alpha_i <= c_i,  y'alpha = -u_b,  |(Z'alpha + u)_j| <= a,

Z the samples times their labels: one row per feature where the primal has one per sample, so a basis of
order n + 1, and every sample a column between two bounds. w and b are minus the duals of the rows. The
tilts of a DCA are in u: from one problem to the next only the bounds of rows move, the basis stays dual
feasible and the dual simplex method goes on from it. Samples are new columns, features new rows.
Equations (24), (28) and (31) of Ong and Le Thi (2013) are the primal programs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from ucm.data.linear import Vec
from ucm.errors import ParameterError
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, InnerSolver, Session
from ucm.solvers.objective.generation import Generation, Index, Optimum, Program, linear_program

__all__ = ["HiGHS"]


@dataclass(frozen=True)
class HiGHS(InnerSolver):
    """Dual simplex method, warm from problem to problem.

    Parameters
    ----------
    samples, features : take them in as needed where there are more than this many; None: all at once
    pivots : limit of one program; None: that of HiGHS
    """

    samples: int | None = 20_000
    features: int | None = 150
    pivots: int | None = None
    name: ClassVar[str] = "highs"

    def __post_init__(self) -> None:
        for name in ("samples", "features", "pivots"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise ParameterError(f"HiGHS: {name} is a positive number or None, got {number}")

    def refuse(self, form: Composite) -> str | None:
        return linear_program(form)

    def predicted_passes(self, form: Composite) -> float:
        return float("nan")

    def open(self, form: Composite, monitor: Monitor) -> Session:
        program = _Dual(form, self.pivots)
        return Generation(form, program, monitor, self.samples, self.features)


class _Dual(Program):
    """The dual program in HiGHS: row 0 is `y'alpha`, then one row for every feature inside."""

    def __init__(self, form: Composite, pivots: int | None) -> None:
        import highspy

        self.y, self.caps = form.y, form.caps
        self.offset = form.losses[0].offset
        self.dense = isinstance(form.X, np.ndarray)
        self.X = form.X if self.dense else form.X.tocsc()
        self.samples = self.features = np.zeros(0, dtype=np.intp)
        self.highs: Any = highspy.Highs()
        for name, option in (
            ("output_flag", False),
            ("presolve", "off"),
            ("primal_feasibility_tolerance", 1e-10),
            ("dual_feasibility_tolerance", 1e-10),
        ):
            self.highs.setOptionValue(name, option)
        if pivots is not None:
            self.highs.setOptionValue("simplex_iteration_limit", pivots)
        self.highs.addRow(0.0, 0.0, 0, np.zeros(0, dtype=np.int32), np.zeros(0))
        self.done = highspy.HighsModelStatus.kOptimal
        self.status = {
            highspy.HighsModelStatus.kInfeasible: "unbounded",  # of the dual program
            highspy.HighsModelStatus.kUnbounded: "infeasible",
        }

    def take(self, samples: Index, features: Index) -> None:
        self.samples = np.concatenate([self.samples, samples])
        if samples.size:  # in the rows that are there
            part = self._signed(samples, self.features)
            labels = self.y[samples, None]
            part = np.column_stack([labels, part]) if self.dense else sparse.hstack([labels, part])
            start, index, entries = _compressed(part)
            self.highs.addCols(
                samples.size, np.full(samples.size, -self.offset), np.zeros(samples.size),
                self.caps[samples], entries.size, start, index, entries,
            )  # fmt: skip
        self.features = np.concatenate([self.features, features])
        if features.size:
            start, index, entries = _compressed(self._signed(self.samples, features).T)
            free = np.full(features.size, np.inf)
            self.highs.addRows(features.size, -free, free, entries.size, start, index, entries)

    def _signed(self, samples: Index, features: Index) -> Any:
        """The samples times their labels, (samples, features)."""
        if self.dense:
            return self.X[np.ix_(samples, features)] * self.y[samples, None]
        return self.X[:, features][samples].multiply(self.y[samples, None])

    def solve(self, a: float, linear: Vec, bias: float) -> Optimum:
        index = np.arange(self.features.size + 1, dtype=np.int32)
        low, high = np.append(-bias, -a - linear), np.append(-bias, a - linear)
        self.highs.changeRowsBounds(index.size, index, low, high)
        self.highs.run()
        verdict = self.highs.getModelStatus()
        found = self.highs.getSolution()
        dual = -np.array(found.row_dual) if found.dual_valid else np.zeros(index.size)
        alpha = np.array(found.col_value) if found.value_valid else None
        passes = 0.5 * max(1, self.highs.getInfo().simplex_iteration_count)
        answer = Optimum(dual[1:], float(dual[0]), alpha, passes)
        if verdict != self.done:
            answer.status = self.status.get(verdict, "max_iter")
            name = self.highs.modelStatusToString(verdict)
            advice = "raise pivots" if answer.status == "max_iter" else "scale the features"
            answer.message = f"HiGHS ended with the status {name!r}; {advice}"
        return answer


def _compressed(part: Any) -> tuple[Any, Any, Any]:
    """Starts, indices and entries of the rows of a matrix."""
    if isinstance(part, np.ndarray):
        rows, columns = part.shape
        start = columns * np.arange(rows, dtype=np.int32)
        index = np.tile(np.arange(columns, dtype=np.int32), rows)
        return start, index, np.ascontiguousarray(part).ravel()
    part = sparse.csr_matrix(part)
    return part.indptr[:-1].astype(np.int32), part.indices.astype(np.int32), part.data
