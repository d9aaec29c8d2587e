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
from ucm.data.options import COUNT, check_fields, optional
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.objective import INNER, Composite, InnerSolver, Session
from ucm.solvers.objective.generation import Generation, Index, Program, linear_program
from ucm.solvers.programs import LinearProgram

__all__ = ["HiGHS"]

_OF_THE_PRIMAL = {"infeasible": "unbounded", "unbounded": "infeasible"}


@dataclass(frozen=True)
class HiGHS(InnerSolver):
    """Dual simplex method, warm from problem to problem.

    Parameters
    ----------
    samples, features
        Take them in as needed where there are more than this many; None: all at once.
    pivots
        Limit of one program; None: that of HiGHS.
    rough
        Of its answer the samples near their kinks and the features in use make the first program, where
        samples are taken in as needed; None: a share of the samples.
    """

    samples: int | None = 20_000
    features: int | None = 150
    pivots: int | None = None
    rough: InnerSolver | None = None
    name: ClassVar[str] = "highs"

    def __post_init__(self) -> None:
        size = optional(COUNT)
        check_fields(self, samples=size, features=size, pivots=size, rough=optional(INNER))

    def refuse(self, form: Composite) -> str | None:
        return linear_program(form)

    def predicted_passes(self, form: Composite) -> float:
        return float("nan")

    def open(self, form: Composite, monitor: Monitor) -> Session:
        program = _Dual(form, self.pivots, monitor)
        rough = None
        if self.rough is not None and self.rough.refuse(form) is None:
            rough = self.rough.open(form, monitor)
        return Generation(form, program, monitor, self.samples, self.features, rough)


class _Dual(Program):
    """The dual program in HiGHS: row 0 is `y'alpha`, then one row for every feature inside."""

    def __init__(self, form: Composite, pivots: int | None, monitor: Monitor) -> None:
        self.y, self.caps = form.y, form.caps
        self.offset = form.losses[0].offset
        self.dense = isinstance(form.X, np.ndarray)
        self.X = form.X if self.dense else form.X.tocsc()
        self.samples = self.features = np.zeros(0, dtype=np.intp)
        limit: dict[str, Any] = {} if pivots is None else {"simplex_iteration_limit": pivots}
        self.program = LinearProgram(monitor.below(monitor.tol), presolve="off", **limit)
        self.program.rows([], 0.0, np.zeros(1))

    def take(self, samples: Index, features: Index) -> None:
        self.samples = np.concatenate([self.samples, samples])
        if samples.size:  # in the rows that are there
            part, labels = self._signed(samples, self.features), self.y[samples, None]
            part = np.column_stack([labels, part]) if self.dense else sparse.hstack([labels, part])
            self.program.columns(samples.size, 0.0, self.caps[samples], -self.offset, part)
        self.features = np.concatenate([self.features, features])
        if features.size:
            part, free = self._signed(self.samples, features).T, np.full(features.size, np.inf)
            self.program.rows([(np.arange(self.samples.size), part)], -free, free)

    def _signed(self, samples: Index, features: Index) -> Any:
        """The samples times their labels, (samples, features)."""
        if self.dense:
            return self.X[np.ix_(samples, features)] * self.y[samples, None]
        return self.X[:, features][samples].multiply(self.y[samples, None])

    def solve(self, a: float, s: float, linear: Vec, bias: float) -> Answer:
        self.program.sides(np.append(-bias, -a - linear), np.append(-bias, a - linear))
        found = self.program.solve()
        dual = -found.dual if found.dual.size else np.zeros(self.features.size + 1)
        answer = Answer(w=dual[1:], b=float(dual[0]), slopes=found.x if found.x.size else None)
        self.passes += 0.5 * max(1, found.pivots)
        if found.status == "optimal":
            return answer
        if found.status == "late":
            return answer.interrupted()
        status = _OF_THE_PRIMAL.get(found.status, "max_iter")
        advice = "raise pivots" if status == "max_iter" else "scale the features"
        return answer.ended(status, f"HiGHS ended with the status {found.words!r}; {advice}")
