"""A compiled simplex method for the linear program of a hinge or ramp loss and l1, dense samples.

It goes from vertex to vertex of `sum c_i max(0, o - t_i) + a ||w||_1 - <v, t> - <u, w>`, a function of
(w, b) alone: the linear programs (24), (28) and (31) of Ong and Le Thi (2013) without their slack
variables. The tilts (v, u) move costs only, so from one problem of a DCA to the next the vertex stays
feasible and the method goes on from it.

Kinks of many samples may meet in one vertex (at w = 0 those of a whole class do). They are moved apart
by a tiny amount, and back at the end; where that changes the side of a sample, the rest is done with a
smaller amount, at last with none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ucm import numerics
from ucm.composite import Composite, InnerSolver, Point, Session, Tilt
from ucm.contracts import Vec
from ucm.errors import ParameterError
from ucm.generation import Answer, Generation, Index, Program, linear_program
from ucm.solvers.driver import Monitor

__all__ = ["Simplex"]

_APART = (
    1e-7,
    1e-9,
    1e-11,
    0.0,
)  # how far the kinks of the samples are moved, in units of the offset
_GAP = 1e-10  # relative, that moving them back may leave
_DENSE = 0.3  # share of entries above which a sparse matrix is treated as a dense one


@dataclass(frozen=True)
class Simplex(InnerSolver):
    """Steepest edges, followed over kinks for as long as the function falls.

    Parameters
    ----------
    fallback : the solver of programs that this one does not finish
    samples, features : take them in as needed where there are more than this many; None: all at once
    entries : largest number of entries of the samples
    """

    fallback: InnerSolver | None = None
    samples: int | None = 4000
    features: int | None = 150
    entries: int = 50_000_000
    name: ClassVar[str] = "simplex"

    def __post_init__(self) -> None:
        if self.fallback is not None and not isinstance(self.fallback, InnerSolver):
            raise ParameterError(
                f"Simplex: fallback is a solver of composite problems, got {self.fallback!r}; "
                "for example ucm.solvers.HiGHS()"
            )
        for name in ("samples", "features", "entries"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise ParameterError(f"Simplex: {name} is a positive number, got {number}")

    def refuse(self, form: Composite) -> str | None:
        why = linear_program(form)
        if why is None and form.m * form.n > self.entries:
            why = f"it takes at most {self.entries} entries, got {form.m * form.n}"
        if why is None and form.entries < _DENSE * form.m * form.n:
            why = "it works on dense samples"
        return why

    def predicted_passes(self, form: Composite) -> float:
        return float("nan")

    def open(self, form: Composite, monitor: Monitor) -> Session:
        program = _Vertex(form)
        return _Guarded(
            Generation(form, program, monitor, self.samples, self.features),
            self.fallback, form, monitor,
        )  # fmt: skip

    def solve(self, form: Composite, monitor: Monitor, start: Any = None) -> Point:
        return self.open(form, monitor).solve(form, form.flat(), monitor.tol)


class _Guarded(Session):
    """The session, and that of the fallback from the first program on that it does not finish."""

    def __init__(
        self, session: Session, fallback: InnerSolver | None, form: Composite, monitor: Monitor
    ) -> None:
        self.session, self.fallback = session, fallback
        self.form, self.monitor = form, monitor

    def place(self, w: Vec, b: float) -> None:
        self.session.place(w, b)

    def solve(self, form: Composite, tilt: Tilt, tol: float) -> Point:
        point = self.session.solve(form, tilt, tol)
        if point.status == "converged" or self.fallback is None:
            return point
        self.session, self.fallback = self.fallback.open(self.form, self.monitor), None
        self.session.place(point.w, point.b)
        return self.session.solve(form, tilt, tol)


class _Vertex(Program):
    """A vertex of the program: n + 1 kinks, of samples and of coordinates that are 0.

    rows : (m, n + 1) samples times labels, then the labels
    basic : the samples at their kinks
    active : the coordinates that are not 0, the bias (the last one) among them; as many
    sign : (n + 1,) of the active coordinates; 0 elsewhere
    """

    def __init__(self, form: Composite) -> None:
        self.X = form.X.toarray() if hasattr(form.X, "toarray") else form.X
        self.y, self.all_caps, self.offset = form.y, form.caps, form.losses[0].offset
        self.apart = np.random.default_rng(0).random(form.m)
        self.samples = self.features = np.zeros(0, dtype=np.intp)
        self.basic = np.zeros(0, dtype=np.int64)
        self.active, self.sign = np.zeros(1, dtype=np.int64), np.zeros(1)

    def take(self, samples: Index, features: Index) -> None:
        before = self.features.size
        self.samples = np.concatenate([self.samples, samples])
        self.features = np.concatenate([self.features, features])
        n = self.features.size
        self.rows = np.empty((self.samples.size, n + 1))
        if samples.size == self.X.shape[0] and features.size == self.X.shape[1]:
            self.rows[:, :n] = self.X
        else:
            self.rows[:, :n] = self.X[np.ix_(self.samples, self.features)]
        self.rows[:, n] = 1.0
        self.rows *= self.y[self.samples, None]
        self.columns = np.ascontiguousarray(self.rows.T)
        self.caps = self.all_caps[self.samples]
        self.active = np.where(self.active == before, n, self.active)
        self.sign = np.concatenate([self.sign[:before], np.zeros(n + 1 - before)])

    def solve(self, a: float, linear: Vec, bias: float) -> Answer:
        if self.basic.size == 0:  # w = 0, and the kink of a sample of the heavier class
            heavier = np.sign(float(self.columns[-1] @ self.caps) + bias) or 1.0
            self.basic = np.flatnonzero(self.columns[-1] == heavier)[:1]
        u = np.append(linear, bias)
        answer = Answer(np.zeros(self.features.size), 0.0, None, 0.0)
        for apart in _APART:
            moved = self.offset + apart * abs(self.offset) * self.apart[self.samples]
            try:
                pivots, alpha = self._descend(u, moved, a)
                z = self._solution()
            except np.linalg.LinAlgError:
                answer.status, answer.message = "max_iter", "a basis became singular"
                break
            passes = answer.passes + 0.5 * abs(pivots) + 1.0
            answer = Answer(z[:-1], float(z[-1]), alpha, passes)
            if pivots < 0:
                answer.alpha, answer.status = None, "unbounded"
                answer.message = "an edge falls without end; scale the features"
            elif pivots == self.limit():
                answer.status, answer.message = "max_iter", f"{pivots} pivots made"
            elif self._missed(z, alpha, a) > _GAP:
                continue
            break
        return answer

    def limit(self) -> int:
        """Of the pivots."""
        return 1000 + 50 * (self.samples.size + self.features.size)

    def _descend(self, u: Vec, offsets: Vec, a: float) -> tuple[int, Vec]:
        """Pivots, and the slopes of the samples at the last vertex."""
        m, n = self.samples.size, self.features.size
        z, t, alpha = np.zeros(n + 1), np.zeros(m), np.zeros(m)
        waiting = np.ones(n + 1, dtype=bool)
        waiting[self.active] = False
        slot = np.concatenate([self.basic, m + np.flatnonzero(waiting)])
        active = np.concatenate([self.active, np.zeros(n + 1 - self.active.size, dtype=np.int64)])
        tol = 1e-10 * max(a, float(self.caps.max()))
        pivots = numerics.edge_descent(
            self.rows, self.columns, u, offsets, self.caps, a, tol, self.limit(),
            z, t, alpha, self.sign, slot, active,
        )  # fmt: skip
        self.basic = slot[slot < m]
        self.active = active[: self.basic.size]
        return int(pivots), np.clip(alpha, 0.0, self.caps)

    def _solution(self) -> Vec:
        """(w, b) with the kinks where they belong."""
        z = np.zeros(self.features.size + 1)
        corner = self.rows[np.ix_(self.basic, self.active)]
        z[self.active] = np.linalg.solve(corner, np.full(self.basic.size, self.offset))
        return z

    def _missed(self, z: Vec, alpha: Vec, a: float) -> float:
        """The relative gap that is left once the kinks are moved back: samples and coordinates on
        the other side of them."""
        short = self.offset - self.rows @ z
        sides = np.where(short > 0.0, self.caps - alpha, alpha) @ np.abs(short)
        sides += 2.0 * a * np.maximum(-z * self.sign, 0.0).sum()
        value = self.caps @ np.maximum(short, 0.0) + a * np.abs(z[:-1]).sum()
        return float(sides / max(value, 1e-300))
