"""Out-of-core active-set solver for the hinge and the ramp loss with any penalty.

The losses are linear between their kinks: all held rows of a class and a zone together cost as much as one
sample at their mean, with their weight. The active set, the rows near the kinks, is solved in memory beside
these samples, a ramp loss by DCA (Ong and Le Thi 2013, Algorithm 1). A pass over all rows gives the value of
(w, b) and the slopes that bound it, or that bound the next convex problem of DCA. Where the objective of a
ramp loss rises, as held rows have left their zones, the next problem begins at the plane before.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import Matrix, Vec, stored_entries
from ucm.data.source import gathered
from ucm.forms.monitor import Monitor
from ucm.forms.out_of_core import LossProof, LossSums, RowLosses
from ucm.forms.solver import Answer, Solver
from ucm.solvers.out_of_core.active_set import ActiveSetRun, ActiveSetWeights, InnerSolve, PassSums


class HingeRun(ActiveSetRun[RowLosses]):
    """State of one out-of-core solve of the hinge or ramp loss.

    b : the current bias
    less : by class the slope of the subtracted loss, of rows in zone 2
    slopes : (2, 3) of the held rows, by class and zone; None before the first problem
    least : of a problem that is not convex, the plane with the least objective, without its slopes
    """

    slopes: NDArray[np.float64] | None = None
    least: LossProof | None = None

    def __init__(self, form: RowLosses, monitor: Monitor, inner: InnerSolve, budget: int) -> None:
        super().__init__(form, monitor, inner, budget)
        (self.kink, self.caps), (end, self.less) = form.kinks()
        self.depth = self.kink - end
        self.limit = self.limit if form.convex else 200  # passes where a term is subtracted

    @staticmethod
    def refuse(inner: Solver, form: RowLosses) -> str | None:
        if not form.kinked:
            return "it takes the hinge or the ramp loss"
        problem = form.over(np.broadcast_to(0.0, (2 * form.n, form.n)), np.repeat([1.0, -1.0], form.n))
        if type(problem) not in inner.takes:
            missing = "losses" if form.convex else "subtracted terms, as DCA does"
            return f"its inner solver does not take {missing}"
        return inner.refuse(problem)

    @property
    def theta(self) -> Vec:  # type: ignore[override]
        """The scores of the kink of the loss, `y_i w'x_i = o - y_i b`."""
        return self.kink - np.array(self.factors) * self.b

    def begin(self) -> None:
        X, y = self.form.data.scaled_sample
        self._solve(X, y, None, max(1e-4, self.monitor.tol))
        X, y = self.form.data.sample
        short = self.kink - np.sign(y) * (np.asarray(X @ self.w).ravel() + self.b)
        distances = np.minimum(np.abs(short), np.abs(short - self.depth))
        self.reach = self.reach_of(X, [distances[y > 0.0], distances[y <= 0.0]])

    def verified(self, sums: PassSums) -> tuple[Answer, float, float]:
        """Return the answer proved by the slopes of the last problem and the tangent at (w, b)."""
        form, kink = self.form, self.kink
        loss = float(self.caps @ sums.shortfalls[0] - self.less @ sums.shortfalls[1])
        proof = LossProof(self.w, self.b, loss, kink_distance=sums.nearest)
        if self.slopes is not None:
            active, depth = self.active, 0.0 if np.isinf(self.depth) else self.depth
            slopes, tail = self.slopes - np.outer(self.less, [0.0, 0.0, 1.0]), np.zeros(active.y.size)
            if active.y.size:
                beyond = np.sign(active.y) * (active.X @ self.w + self.b) < kink - self.depth
                tail = beyond * np.abs(active.y) * np.where(active.y > 0.0, *self.less)
            totals, points = self.weighted(sums, slopes, active.p - tail)
            gain = kink * float((active.p - tail).sum()) + depth * float(tail.sum())
            rows = ActiveSetWeights(form.data.source, self.states, active, slopes, active.p - tail, gain)
            constant = depth * float(tail.sum() + self.less @ sums.counts[:, 2])
            dual = LossSums(totals, kink * totals, points)
            proof = LossProof(self.w, self.b, loss, dual, rows, constant, sums.nearest)
        proof = proof if form.convex else self._fallen(proof)
        return Answer(w=self.w, b=self.b, rows=proof), form.value(proof), form.gap(proof)

    def _fallen(self, proof: LossProof) -> LossProof:
        """Return a proof unless its objective has risen; else go back to the plane of the least objective."""
        value, least = self.form.value(proof), self.least
        if least is not None and value > (before := self.form.value(least)) + 1e-12 * abs(before):
            self.w, self.b = least.w, least.b
            return least
        self.least = replace(proof, sums=None, rows=None, constant=0.0)
        return proof

    def solve(self, sums: PassSums) -> Answer | None:
        """Solve over the active set and the means of held rows; set the plane and all slopes."""
        active, held = self.active, np.argwhere(sums.counts > 0.0)
        counts, points = sums.counts[tuple(held.T)], sums.points[tuple(held.T)]
        means = points / counts[:, None], np.array(self.factors)[held[:, 0]] * counts
        X, y = gathered([means] if active.X is None else [(active.X, active.y), means])
        slopes = self._solve(X, y, Answer(w=self.w, b=self.b), self.exact)
        active.p, self.slopes = slopes[: active.y.size], np.zeros((2, 3))
        self.slopes[tuple(held.T)] = slopes[active.y.size :] / counts
        self.narrow()
        return None

    def _solve(self, X: Matrix, y: Vec, start: Answer | None, tol: float) -> Vec:
        """Set the plane to the solution over rows in memory; return the slopes of their convex losses."""
        own = self.monitor.child(tol)
        answer = self.inner(self.form.over(X, y), own, start)
        self.monitor.count_work(own, stored_entries(X) / max(1, self.form.data.stored))
        self.w, self.b = answer.plane
        slopes = np.zeros(y.size) if answer.slopes is None else answer.slopes
        return np.clip(slopes, 0.0, np.abs(y) * np.where(y > 0.0, *self.caps))
