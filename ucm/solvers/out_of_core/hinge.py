"""Out-of-core active-set solver for the hinge and the ramp loss with any penalty.

Margins far above the kink cost nothing. Margins far below it cost a linear function of (w, b): all rows of a
class together cost as much as one sample at their mean, with their weight. The active set between is solved
in memory beside these two samples, and a pass over all rows gives the value of (w, b) and the slopes that
bound it.

The subtracted term, the tail of a ramp loss, is replaced by its tangent at the last (w, b), as in DCA (Ong
and Le Thi 2013, Algorithm 1). The tangent is a linear function of the margins, 0 except for rows below the
kink of the tail. These rows are in the active set, or held below the kink of the loss, where their sums are
known. The active set stays from one convex problem to the next, and a pass verifies one problem and gives the
tangent for the next.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.linear_map import Vec
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, LinearTerm
from ucm.forms.out_of_core import LossProof, RowLosses
from ucm.forms.solver import Solver
from ucm.solvers.out_of_core.active_set import (
    ActiveSetRun,
    ActiveSetWeights,
    PassSums,
    Plane,
    margins,
    stacked,
)

_LIMIT = 30  # passes of a convex problem
_OUTER = 200  # passes where a term is subtracted
_COARSE = 1e-4  # relative gap over the sample
_MOVED = 1.5  # times the first size of an active set, beyond which a new one begins
_PART = 0.3  # of the tolerance: the gap of a convex problem
_FINER = 1e-2  # of the tolerance: the gap of a convex problem inside of a descent
_SETTLED = 1e-3  # of the tolerance: the decrease at the end of a descent
_GAIN = 1e-12  # relative decrease that counts as rounding
_SIGNS = (1.0, -1.0)


def refuse_losses(inner: Solver, form: RowLosses) -> str | None:
    """Return the reason why the active set does not apply to the losses of a form; None if it applies."""
    if not form.kinked:
        return "it takes the hinge or the ramp loss"
    if Composite not in inner.takes:
        return "its inner solver does not take losses"
    nothing = np.broadcast_to(0.0, (2 * form.n, form.n))
    y, loss = np.repeat(_SIGNS, form.n), form.losses[0][0]
    both = dict.fromkeys((form.penalties, form.first.penalties))
    reasons = (inner.refuse(Composite(nothing, y, (loss,), p)) for p in both)
    return next((reason for reason in reasons if reason is not None), None)


class HingeRun(ActiveSetRun[RowLosses]):
    """State of one out-of-core solve of the hinge or ramp loss.

    Attributes
    ----------
    problem : the convex problem to start from, then the form
    at : the plane of the next pass
    plane : where the subtracted term has its tangent; None without one
    slopes : of the held rows, by class and side of the tail at the plane; None before the first problem
    least : the least value of the objective
    best : the answer with this value
    fell : True if the last pass lowered the objective
    coarsest : the relative gap for the first problem over an active set
    initial_size : the size with which the active set began
    """

    plane: Plane | None = None
    slopes: NDArray[np.float64] | None = None
    initial_size = 0
    solved = True

    def __init__(self, form: RowLosses, monitor: Monitor, inner: Solver, budget: int) -> None:
        super().__init__(form, monitor, inner, budget)
        self.loss, self.caps, tail, self.less = form.sides()
        self.kink, self.end = self.loss.offset, -np.inf if tail is None else tail.offset
        self.at: Plane = np.zeros(form.n), 0.0

    def run(self) -> Answer:
        form, first = self.form, self.form.first
        self.at = self._sample(first)
        self._new_active_set()
        answer = self._descend(first, _PART, _LIMIT)
        if form.convex or answer.status == "interrupted":
            return answer
        if answer.status != "converged":
            return answer.ended(answer.status, f"the convex problem to start from: {answer.message}")
        if form.hinged is not None:
            w, b = answer.plane
            self.at = w / form.unit, b / form.unit
            self._new_active_set()
        self.monitor.latest = None
        return self._descend(form, _FINER, _OUTER)

    def _descend(self, problem: RowLosses, fraction: float, limit: int) -> Answer:
        """Minimise a problem from the current plane, by rounds over an active set.

        Without a subtracted term every problem is the same but for its active set. With one, the tangent
        moves to where the objective has decreased.
        """
        self.problem, self.least, self.best = problem, np.inf, Answer(w=self.at[0], b=self.at[1])
        self.coarsest = self.exact = fraction * self.monitor.tol
        return self.rounds(self.monitor.limit(limit))

    def screened(self) -> tuple[int, PassSums]:
        return self._pass(() if self.problem.convex else (self.plane or self.at, self.at))

    def verified(self, new: int, sums: PassSums) -> tuple[Answer, float, float]:
        form, convex, tol = self.problem, self.problem.convex, self.monitor.tol
        proof = self._proof(sums)
        value, gap = form.value(proof), form.gap(proof)
        self.settled = convex or self.least - value <= _SETTLED * tol * abs(value)
        self.fell = not value >= self.least - _GAIN * abs(self.least)
        before = None if self.best.rows is None else self._again(self.best.rows, proof, sums)
        if before is not None and new and not convex:  # new rows may refine the problem
            self.fell &= form.tangent_gap(before, proof) <= _FINER * tol
        if self.fell:
            self.least, self.best = value, Answer(w=proof.w, b=proof.b, rows=proof)
        elif before is not None:  # the last problem proves more of the plane of its tangent
            self.best = replace(self.best, rows=before)
            gap = form.gap(before)
        return self.best, self.least, gap

    def moved(self, sums: PassSums) -> PassSums | None:
        if self.problem.convex or not self.fell:
            return None
        self.plane, self.exact = self.at, self.coarsest
        if self.active.size > _MOVED * self.initial_size:  # a new active set is smaller
            self._new_active_set()
            return self._pass((self.at,))[1]
        return sums._replace(under_counts=sums.under_counts[-1:], under_points=sums.under_points[-1:])

    # --- a pass ------------------------------------------------------------------------------------
    def _new_active_set(self) -> None:
        """Start a new active set, with a reach around the kink at the current plane."""
        self.clear()
        self.slopes, self.initial_size = None, 0
        X, y = self.form.data.sample
        distances = np.abs(self.kink - margins(X, y, self.at))
        self.reach = self.reach_of(X, [distances[sign * y > 0.0] for sign in _SIGNS])

    def _pass(self, planes: tuple[Plane, ...]) -> tuple[int, PassSums]:
        w, b = self.at
        theta = np.array([self.kink - b, self.kink + b])
        new, sums = self.screened_by(w, theta, self.reach, _SIGNS, self.end, planes)
        self.initial_size = self.initial_size or new
        return new, sums

    def _proof(self, sums: PassSums) -> LossProof:
        """Return the proof of the current plane from the slopes of the rows, and from the tangent."""
        (w, b), active = self.at, self.active
        proof = LossProof(w, b, float(self.caps @ sums.shortfalls))
        if sums.under_counts.size:
            tangent = self._tangent(self.at, sums, -1)
            tail = float(self.less @ sums.tail)
            proof = replace(proof, tail=tail, kink_distance=sums.nearest, tangent_sums=tangent)
        if self.slopes is None:
            return proof
        totals, points = self.weighted(*self._held(sums), self.slopes)
        rows = ActiveSetWeights(self.form.data.source, self.states, active, self.slopes, active.p)
        if sums.under_counts.size:
            rows = self._less(rows, self.plane or self.at)
        gains = self.kink * totals
        return replace(proof, slopes=totals, gains=gains, points=points, rows=rows)

    def _held(self, sums: PassSums) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return weight sums and weighted row sums of the held rows, by class and side of the tail."""
        count, points = 0.0 * sums.counts, 0.0 * sums.points
        if sums.under_counts.size:
            count, points = sums.under_counts[0], sums.under_points[0]
        above = sums.counts - count
        above = np.where(above > 1e-9 * sums.counts, above, 0.0)
        return np.stack([above, count], axis=1), np.stack([sums.points - points, points], axis=1)

    def _tangent(self, plane: Plane, sums: PassSums, k: int) -> tuple[Vec, NDArray[np.float64]]:
        """Return by class the slope sums of the subtracted term at plane k, and its weighted row sums."""
        counts, points = sums.under_counts[k].copy(), sums.under_points[k].copy()
        for c, weights in enumerate(self._under(plane)):
            if weights.size:
                counts[c] += weights.sum()
                points[c] += self.active.X[c].T @ weights
        return self.less * counts, self.less[:, None] * points

    def _under(self, plane: Plane) -> list[Vec]:
        """Return by class the sample weights of the active rows, set to 0 for margins of at least `end`."""
        return [
            np.where(margins(X, sign * c, plane) < self.end, c, 0.0) if c.size else c
            for X, c, sign in zip(self.active.X, self.active.c, _SIGNS, strict=True)
        ]

    def _again(self, earlier: LossProof, proof: LossProof, sums: PassSums) -> LossProof:
        """Return the proof of an earlier plane with the slopes of the current proof and its own tangent."""
        tangent = None
        if sums.under_counts.size:
            tangent = self._tangent((earlier.w, earlier.b), sums, 0)
        return replace(
            earlier, slopes=proof.slopes, gains=proof.gains, points=proof.points, rows=proof.rows,
            tangent_sums=tangent,
        )  # fmt: skip

    def _less(self, rows: ActiveSetWeights, plane: Plane) -> ActiveSetWeights:
        """Return row weights with the slopes of the subtracted term at a plane deducted."""
        caps = rows.caps - np.stack([np.zeros(2), self.less], axis=1)
        parts = zip(rows.p, self._under(plane), self.less, strict=True)
        p = [a - d * under for a, under, d in parts]
        return replace(rows, caps=caps, p=p, plane=plane, end=self.end)

    # --- in memory ---------------------------------------------------------------------------------
    def _sample(self, form: RowLosses) -> Plane:
        """Solve over the scaled sample in memory, and return the plane."""
        X, y = form.data.scaled_sample
        problem = self._composite(form, X, np.sign(y), np.abs(y))
        return self._inside(problem, None, max(_COARSE, self.monitor.tol)).plane

    def _composite(self, form: RowLosses, X: Any, y: Vec, weights: Vec) -> Composite:
        """Return the convex part of the problem over rows in memory."""
        weights = weights * np.where(y > 0.0, *self.caps) / (self.loss.slope() or 1.0)
        return Composite(X, y, (self.loss,), form.penalties, (weights,))

    def _inside(self, problem: Composite, start: Plane | None, tol: float) -> Answer:
        inner_monitor = self.monitor.child(tol)
        begin = None if start is None else Answer(w=start[0], b=start[1])
        answer = self.inner.solve(problem, inner_monitor, begin)
        self.monitor.count_work(inner_monitor, problem.entries / max(1, self.form.data.stored))
        return answer

    def solve(self, sums: PassSums) -> Answer | None:
        """Solve over the active set, with held rows as class means; set the plane and all slopes."""
        form, active = self.problem, self.active
        weights, points = self._held(sums)
        under = [0.0 * c for c in active.c] if self.plane is None else self._under(self.plane)
        classes = [c for c in (0, 1) if active.c[c].size]
        tables = [active.X[c] for c in classes]
        labels = [np.full(active.c[c].size, _SIGNS[c]) for c in classes]
        sizes, tilts = [active.c[c] for c in classes], [-self.less[c] * under[c] for c in classes]
        held = [(c, f) for c in (0, 1) for f in (0, 1) if weights[c, f] > 0.0]
        for c, f in held:
            mean = points[c, f][None, :] / weights[c, f]
            tables.append(sparse.csr_matrix(mean) if any(map(sparse.issparse, tables)) else mean)
            labels.append(np.array([_SIGNS[c]]))
            sizes.append(weights[c, f : f + 1])
            tilts.append(np.array([-self.less[c] * f * weights[c, f]]))
        y, c_of = np.concatenate(labels), np.concatenate(sizes)
        problem = self._composite(form, stacked(tables), y, c_of)
        if self.plane is not None:
            slopes = (h.subgradient(self.plane[0]) for h in form.subtracted_penalties)
            normal = sum(slopes, start=np.zeros(form.n))
            problem = problem.tilted(LinearTerm(np.concatenate(tilts), normal))
        answer = self._inside(problem, self.at, self.accuracy())
        self.at = answer.plane
        slopes = np.zeros(problem.m) if answer.slopes is None else answer.slopes
        slopes = np.clip(slopes, 0.0, c_of * np.where(y > 0.0, *self.caps))
        plus, inside = active.c[0].size, active.size
        active.p = [slopes[:plus], slopes[plus:inside]]
        self.slopes = np.zeros((2, 2))
        for (c, f), slope in zip(held, slopes[inside:], strict=True):
            self.slopes[c, f] = slope / weights[c, f]
        self.narrow()
        return None
