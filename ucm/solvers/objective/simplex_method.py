"""A compiled simplex method for the linear program of a hinge or ramp loss and l1, dense samples.

It goes from vertex to vertex of `sum c_i max(0, o - t_i) + a ||w||_1 - <v, t> - <u, w>`, a function of
(w, b) alone: the linear programs (24), (28) and (31) of Ong and Le Thi (2013) without their slack
variables. The tilts (v, u) move costs only, so from one problem of a DCA to the next the vertex stays
feasible and the method goes on from it. The norm of l infinity is one more coordinate and two rows for each
feature, as `||w||_inf = min over v of v + 2 sum_j max(0, w_j - v) + 2 sum_j max(0, -w_j - v)`.

Kinks of many samples may meet in one vertex (at w = 0 those of a whole class do). They are moved apart
by a tiny amount, and back at the end; where that changes the side of a sample, the rest is done with a
smaller amount, at last with none.

A problem with a start moves few margins past their kinks: it is solved over the samples near them, the
others as linear functions, and again with those that are then on the wrong side.

HiGHS solves the same programs, as warm, in 2.3 times the seconds of the processor over whole runs of DCA
(geometric mean of 90, from 1 to 7.1 times; `ucm bench dca-speed simplex`): it goes through all samples
where this goes through those near their kinks, and follows an edge over many kinks at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from ucm import numerics
from ucm.data.linear import Vec
from ucm.data.options import COUNT, check_fields, optional
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.objective import INNER, Composite, InnerSolver, Session, Tilt
from ucm.solvers.objective.generation import Generation, Index, Program, linear_program
from ucm.solvers.threads import blas_threads

__all__ = ["Simplex"]

# how far the kinks of the samples are moved, in units of the offset
_APART = (1e-7, 1e-9, 1e-11, 0.0)
_GAP = 1e-10  # relative, that moving them back may leave
_NEAR = 0.25  # share of the samples that a problem with a start works on
_TIMES = 3  # at least, as many samples as features
_FEW = 250  # samples that are always worked on
_SLACK = 1e-9  # of the margin, that a sample left out may be on the wrong side
_DENSE = 0.3  # share of entries above which a sparse matrix is treated as a dense one


@dataclass(frozen=True)
class Simplex(InnerSolver):
    """Steepest edges, followed over kinks for as long as the function falls.

    Parameters
    ----------
    fallback
        The solver of programs that this one does not finish.
    samples, features
        Take them in as needed where there are more than this many; None: all at once.
        Some of the samples cost as much as all 245,057 of skin-nonskin: the pivots are few.
    entries
        Largest number of entries of the samples.
    pivots
        Limit of one program; None: 1000 and 50 for every sample and feature.
    rest
        The solver of programs with l infinity that this one does not finish.
    """

    fallback: InnerSolver | None = None
    samples: int | None = None
    features: int | None = 1000
    entries: int = 20_000_000
    pivots: int | None = None
    rest: InnerSolver | None = None
    name: ClassVar[str] = "simplex"

    def __post_init__(self) -> None:
        check_fields(self, fallback=optional(INNER), rest=optional(INNER), entries=COUNT)
        check_fields(self, **dict.fromkeys(("samples", "features", "pivots"), optional(COUNT)))

    def refuse(self, form: Composite) -> str | None:
        why, largest = linear_program(form, largest=True), form.norms[2] > 0.0
        if why is None and largest and form.n > (self.features or form.n):
            why = f"with l infinity it takes at most {self.features} features, got {form.n}"
        entries = (form.m + (2 * form.n if largest else 0)) * form.n
        if why is None and entries > self.entries:
            why = f"it takes at most {self.entries} entries, got {entries}"
        if why is None and form.entries < _DENSE * form.m * form.n:
            why = "it works on dense samples"
        return why

    def predicted_passes(self, form: Composite) -> float:
        return float("nan")

    def open(self, form: Composite, monitor: Monitor) -> Session:
        program = _Vertex(form, self.pivots, monitor)
        sizes = (None, None) if program.largest else (self.samples, self.features)
        other = self.rest if program.largest else self.fallback
        return _Guarded(Generation(form, program, monitor, *sizes), other, form, monitor)


class _Guarded(Session):
    """The session, and that of the fallback from the first program on that it does not finish."""

    def __init__(
        self, session: Session, fallback: InnerSolver | None, form: Composite, monitor: Monitor
    ) -> None:
        self.session, self.fallback = session, fallback
        self.form, self.monitor = form, monitor

    def place(self, w: Vec, b: float) -> None:
        self.session.place(w, b)

    def solve(self, form: Composite, tilt: Tilt, tol: float) -> Answer:
        answer = self.session.solve(form, tilt, tol)
        if answer.status in ("converged", "interrupted") or self.fallback is None:
            return answer
        self.session, self.fallback = self.fallback.open(self.form, self.monitor), None
        self.session.place(*answer.plane)
        return self.session.solve(form, tilt, tol)


class _Vertex(Program):
    """A vertex of the program: as many kinks as coordinates, of rows and of coordinates that are 0.

    largest : whether v stands for `||w||_inf`; then all samples and features come in at once
    rows : of the samples times labels, in the coordinates w, v and b; then v - w_j and v + w_j, in units of X
    offsets, caps : of the rows
    basic : the rows at their kinks
    active : the coordinates that are not 0, the bias (the last one) among them; as many
    sign : of the active coordinates; 0 elsewhere
    costs : of the absolute coordinates
    z, alpha : the coordinates and the slopes of the rows, from the last problem
    """

    def __init__(self, form: Composite, pivots: int | None, monitor: Monitor) -> None:
        self.pivots, self.monitor = pivots, monitor
        self.X = form.X.toarray() if sparse.issparse(form.X) else form.X
        self.y, self.all_caps, self.offset = form.y, form.caps, form.losses[0].offset
        self.largest = form.norms[2] > 0.0
        self.unit = (form.scale or 1.0) if self.largest else 1.0
        self.apart = np.random.default_rng(0).random(form.m + (2 * form.n if self.largest else 0))
        self.samples = self.features = np.zeros(0, dtype=np.intp)
        self.basic = np.zeros(0, dtype=np.int64)
        self.active, self.sign = np.zeros(1, dtype=np.int64), np.zeros(1)
        self.z, self.alpha, self.costs = np.zeros(1), np.zeros(0), np.zeros(1)

    def take(self, samples: Index, features: Index) -> None:
        before = self.features.size
        self.samples = np.concatenate([self.samples, samples])
        self.features = np.concatenate([self.features, features])
        m, n = self.samples.size, self.features.size
        last, more = (n + 1, 2 * n) if self.largest else (n, 0)
        self.rows = np.zeros((m + more, last + 1))
        if samples.size == self.X.shape[0] and features.size == self.X.shape[1]:
            self.rows[:m, :n] = self.X
        else:
            self.rows[:m, :n] = self.X[np.ix_(self.samples, self.features)]
        self.rows[:m, last] = 1.0
        self.rows[:m] *= self.y[self.samples, None]
        if self.largest:
            each = np.arange(n)
            self.rows[m + each, each], self.rows[m + n + each, each] = -self.unit, self.unit
            self.rows[m:, n] = self.unit
        self.columns = np.ascontiguousarray(self.rows.T)
        self.caps = np.concatenate([self.all_caps[self.samples], np.zeros(more)])
        self.offsets = np.concatenate([np.full(m, self.offset), np.zeros(more)])
        self.shifts = abs(self.offset) * self.apart[np.append(self.samples, np.arange(-more, 0))]
        size = np.abs(self.rows).max(initial=0.0) * self.caps.max(initial=0.0)
        self.rounding = 1e-14 * float(size)
        self.active = np.where(self.active == before, last, self.active)
        self.sign = np.concatenate([self.sign[:before], np.zeros(last + 1 - before)])
        self.z = np.concatenate([self.z[:before], np.zeros(last - before), self.z[-1:]])
        self.alpha = np.zeros(m + more)

    def solve(self, a: float, s: float, linear: Vec, bias: float) -> Answer:
        self.caps[self.samples.size :] = 2.0 * s / self.unit
        everything = np.arange(self.caps.size)
        if self.basic.size == 0:  # w = 0, and the kink of a sample of the heavier class
            heavier = np.sign(float(self.columns[-1] @ self.caps) + bias) or 1.0
            self.basic = np.flatnonzero(self.columns[-1] == heavier)[:1]
            near = everything
        else:
            near = self._near()
        v = self.z.size - 1 - linear.size  # of these coordinates there is 1, or none
        self.costs = np.repeat([a, s, 0.0], [linear.size, v, 1])
        u = np.concatenate([linear, np.full(v, a - s), [bias]])  # a v is what all cost but the bias
        while True:
            answer = self._among(near, u, a)
            if near.size == everything.size or answer.status == "interrupted":
                return answer
            if answer.status != "converged":
                near = everything
                continue
            over = self.rows @ self.z - self.offsets
            wrong = np.where(self.alpha > 0.0, over, -over) > _SLACK
            wrong[near] = False
            if not wrong.any():
                return answer
            near = np.union1d(near, np.flatnonzero(wrong))

    def _near(self) -> Index:
        """The rows whose kinks are near; the others are put on the side where they are."""
        over = self.rows @ self.z - self.offsets
        count = max(int(_NEAR * over.size), _TIMES * self.z.size, _FEW)
        if over.size < 2 * count:
            return np.arange(over.size)
        near = np.sort(np.argpartition(np.abs(over), count - 1)[:count])
        self.alpha = np.where(over < 0.0, self.caps, 0.0)
        return np.union1d(near, self.basic)

    def _among(self, near: Index, u: Vec, a: float) -> Answer:
        """The program with the other rows as linear functions."""
        every = near.size == self.caps.size
        rows, columns, caps, offsets = self.rows, self.columns, self.caps, self.offsets
        if not every:
            fixed = self.alpha.copy()
            fixed[near] = 0.0
            u = u + columns @ fixed
            rows, caps, offsets = rows[near], caps[near], offsets[near]
            columns = np.ascontiguousarray(rows.T)
        m, n = self.samples.size, self.features.size
        answer = Answer(w=np.zeros(n), b=0.0)
        for apart in _APART:
            moved = offsets + apart * self.shifts[near]
            try:
                pivots, alpha = self._descend(near, rows, columns, u, moved, caps, a)
                self.z = self._solution()
            except np.linalg.LinAlgError:
                return answer.ended("max_iter", "a basis became singular")
            self.passes += (0.5 * abs(pivots) + 1.0) * near.size / self.caps.size
            self.alpha[near] = alpha
            answer = Answer(w=self.z[:n], b=float(self.z[-1]))
            if pivots < 0:
                return answer.ended("unbounded", "an edge falls without end; scale the features")
            answer.slopes = self.alpha[:m].copy()
            if self.monitor.late:
                return answer.interrupted()
            if pivots == self.limit():
                return answer.ended("max_iter", f"{pivots} pivots made")
            if self._missed(rows, offsets, caps, alpha, a) <= _GAP:
                break
        return answer

    def limit(self) -> int:
        """Of the pivots."""
        return self.pivots or 1000 + 50 * (self.samples.size + self.features.size)

    def _descend(
        self, near: Index, rows: Any, columns: Any, u: Vec, offsets: Vec, caps: Vec, a: float
    ) -> tuple[int, Vec]:
        """Pivots, and the slopes of the rows at the last vertex."""
        m, p = rows.shape
        z, t, alpha = np.zeros(p), np.zeros(m), np.zeros(m)
        waiting = np.ones(p, dtype=bool)
        waiting[self.active] = False
        slot = np.concatenate([np.searchsorted(near, self.basic), m + np.flatnonzero(waiting)])
        active = np.concatenate([self.active, np.zeros(p - self.active.size, dtype=np.int64)])
        tol = 1e-10 * self.costs.max() + self.rounding
        with blas_threads(0):
            pivots = numerics.edge_descent(
                rows, columns, u, offsets, caps, a, tol, self.limit(),
                self.monitor.stop, z, t, alpha, self.sign, slot, active,
            )  # fmt: skip
        self.basic = near[slot[slot < m]]
        self.active = active[: self.basic.size]
        return int(pivots), np.clip(alpha, 0.0, caps)

    def _solution(self) -> Vec:
        """The coordinates with the kinks where they belong."""
        z = np.zeros(self.z.size)
        corner = self.rows[np.ix_(self.basic, self.active)]
        z[self.active] = np.linalg.solve(corner, self.offsets[self.basic])
        return z

    def _missed(self, rows: Any, offsets: Vec, caps: Vec, alpha: Vec, a: float) -> float:
        """The relative gap that is left once the kinks are moved back: rows and coordinates on
        the other side of them."""
        short = offsets - rows @ self.z
        sides = np.where(short > 0.0, caps - alpha, alpha) @ np.abs(short)
        sides += 2.0 * a * np.maximum(-self.z * self.sign, 0.0).sum()
        value = caps @ np.maximum(short, 0.0) + self.costs @ np.abs(self.z)
        return float(sides / max(value, 1e-300))
