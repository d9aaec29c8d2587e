"""Linear programs through HiGHS, by column and constraint generation.

`min c sum_i max(0, o - t_i) + a ||w||_1 - <v, t> - <u, w>` is solved in its dual,

    max o sum_i beta_i  s.t.  v_i <= beta_i <= c + v_i,  y'beta = 0,  |(Z'beta + u)_j| <= a,

Z the samples times their labels: one row per feature where the primal has one per sample, so a basis of
order n + 1, and every sample a column between two bounds. w and b are minus the duals of the rows. The
tilts (v, u) move bounds only, so from one problem of a DCA to the next the basis stays dual feasible
and the dual simplex method goes on from it.

Features enter as rows when they are violated: a feature outside of the program has weight 0, which
is optimal exactly when `|(Z'beta + u)_j| <= a`; this is tested over all of them before an answer is
returned. Equations (24), (28) and (31) of Ong and Le Thi (2013) are the primal programs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ucm.composite import Composite, InnerSolver, Point, Session, Tilt
from ucm.contracts import Vec
from ucm.errors import ParameterError
from ucm.solvers.driver import Monitor

__all__ = ["HiGHS"]


@dataclass(frozen=True)
class HiGHS(InnerSolver):
    """Dual simplex method, warm from problem to problem.

    Parameters
    ----------
    generate : take features in as they are violated when there are more than this many; None
        passes the whole program at once
    """

    generate: int | None = 150
    name: ClassVar[str] = "highs"

    def __post_init__(self) -> None:
        if self.generate is not None and self.generate < 1:
            raise ParameterError(
                f"HiGHS: generate is a positive number or None, got {self.generate}"
            )

    def refuse(self, form: Composite) -> str | None:
        if len(form.losses) != 1 or form.losses[0].slope() is None:
            return "it takes one piecewise linear loss (Hinge, Ramp)"
        a, c, s, others = form.norms
        if c > 0.0 or s > 0.0 or others or a == 0.0:
            return "it takes the l1 norm as the only convex penalty"
        return None

    def predicted_passes(self, form: Composite) -> float:
        return float("nan")

    def open(self, form: Composite, monitor: Monitor) -> Session:
        return _Program(form, monitor, self.generate)

    def solve(self, form: Composite, monitor: Monitor, start: Any = None) -> Point:
        return self.open(form, monitor).solve(form, form.flat(), monitor.tol)


class _Program(Session):
    """The program in HiGHS: its rows are the features taken in so far, then `y'beta = 0`.

    rows : the features that have a row, in the order of the rows after row 0
    """

    def __init__(self, form: Composite, monitor: Monitor, generate: int | None) -> None:
        import highspy

        self.monitor = monitor
        loss = form.losses[0]
        self.slope, self.offset = float(loss.slope() or 0.0), loss.offset
        self.m, self.n = form.m, form.n
        self.y, self.X = form.y, form.X
        self.columns = form.X.tocsc() if hasattr(form.X, "tocsc") else None
        self.inside = np.zeros(self.n, dtype=bool)
        self.rows = np.zeros(0, dtype=np.int64)
        self.all = generate is None or self.n <= generate
        self.highs: Any = highspy.Highs()
        highs = self.highs
        highs.setOptionValue("output_flag", False)
        highs.setOptionValue("presolve", "off")
        highs.setOptionValue("primal_feasibility_tolerance", 1e-10)
        highs.setOptionValue("dual_feasibility_tolerance", 1e-10)
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = self.m, 1
        lp.col_cost_ = np.full(self.m, -self.offset)
        lp.col_lower_, lp.col_upper_ = np.zeros(self.m), np.full(self.m, self.slope)
        lp.row_lower_ = lp.row_upper_ = np.zeros(1)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_ = np.arange(self.m + 1)
        lp.a_matrix_.index_ = np.zeros(self.m, dtype=np.int64)
        lp.a_matrix_.value_ = self.y
        highs.passModel(lp)
        self.done = highspy.HighsModelStatus.kOptimal
        self.status = {
            highspy.HighsModelStatus.kInfeasible: "unbounded",  # of the dual program
            highspy.HighsModelStatus.kUnbounded: "infeasible",
        }

    def place(self, w: Vec, b: float) -> None:
        self._take_in(np.flatnonzero(w))

    def _take_in(self, features: np.ndarray) -> None:
        features = features[~self.inside[features]]
        if features.size == 0:
            return
        if self.columns is None:
            block = (self.X[:, features] * self.y[:, None]).T
            counts = np.full(features.size, self.m)
            index, entries = np.tile(np.arange(self.m), features.size), block.ravel()
        else:
            part = self.columns[:, features]
            counts, index = np.diff(part.indptr), part.indices
            entries = part.data * self.y[part.indices]
        start = np.concatenate([[0], np.cumsum(counts)[:-1]])
        free = np.full(features.size, np.inf)
        self.highs.addRows(
            features.size, -free, free, entries.size,
            start.astype(np.int32), index.astype(np.int32), np.ascontiguousarray(entries),
        )  # fmt: skip
        self.inside[features] = True
        self.rows = np.concatenate([self.rows, features])

    def _bound(self, a: float, u: Vec) -> None:
        index = np.arange(1, self.rows.size + 1, dtype=np.int32)
        self.highs.changeRowsBounds(index.size, index, -a - u[self.rows], a - u[self.rows])

    def solve(self, form: Composite, tilt: Tilt, tol: float) -> Point:
        a = form.norms[0]
        index = np.arange(self.m, dtype=np.int32)
        self.highs.changeColsBounds(self.m, index, tilt.margin, self.slope + tilt.margin)
        if self.all:
            self._take_in(np.arange(self.n))
        elif self.rows.size == 0:
            self._take_in(_largest(form.pull(self._balanced() * self.slope) + tilt.normal, 20))
        self._bound(a, tilt.normal)
        cost = self.rows.size / max(1, self.n)
        while True:
            self.highs.run()
            self.monitor.passes += cost * max(1, self.highs.getInfo().simplex_iteration_count)
            verdict = self.highs.getModelStatus()
            if verdict != self.done:
                break
            answer = self.highs.getSolution()
            beta = np.array(answer.col_value)
            z = form.pull(beta) + tilt.normal
            self.monitor.passes += 0.5
            short = np.flatnonzero((np.abs(z) > a * (1.0 + 1e-9)) & ~self.inside)
            if short.size == 0:
                break
            most = max(10, self.rows.size // 3)
            self._take_in(short[_largest(z[short], most)])
            self._bound(a, tilt.normal)
        return self._answer(verdict, tilt)

    def _balanced(self) -> Vec:
        """The share of every sample when both classes have equal mass and the smaller one all."""
        up, down = float((self.y > 0).sum()), float((self.y < 0).sum())
        return np.where(self.y > 0, min(1.0, down / up), min(1.0, up / down))

    def _answer(self, verdict: Any, tilt: Tilt) -> Point:
        answer = self.highs.getSolution()
        w = np.zeros(self.n)
        dual = -np.array(answer.row_dual) if answer.dual_valid else np.zeros(1)
        if dual.size > 1:
            w[self.rows] = dual[1:]
        slopes = np.array(answer.col_value) - tilt.margin if answer.value_valid else None
        point = Point(w, float(dual[0]), slopes)
        if verdict != self.done:
            point.status = self.status.get(verdict, "max_iter")
            name = self.highs.modelStatusToString(verdict)
            point.message = f"HiGHS ended with the status {name!r}; scale the features"
        return point


def _largest(z: Vec, count: int) -> np.ndarray:
    """Indices of the `count` largest absolute entries."""
    if z.size <= count:
        return np.arange(z.size)
    return np.argpartition(-np.abs(z), count)[:count]
