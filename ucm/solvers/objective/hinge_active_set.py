"""Active-set Newton solvers for the hinge loss, and for its CVaR, with the squared l2 norm, via the dual.

With `u = 2 c w` the dual of `c |w|^2 + sum top_i max(0, o - t_i) - <v, t> - <r, w>` is, times 2 c, the
problem over two boxes of `ucm/native/hulls.c`, with `x` from `Z'v + r` on.

The dual of the CVaR, `max over q of sum q_i max(0, o - t_i)` with `sum q = 1, 0 <= q_i <= cap_i`, has these
boxes and a sum of at most 1. Where the sum is 1, half of it is in each class, and x is the nearest point of
two reduced hulls; else the bound on the sum falls away.

A row `g'w <= h` of a linear constraint is one more sample, with its own offset and no cap, outside of the
equation of b: the limit `-g'w >= -h` of the compiled code.

The hinge losses of the worst points of boxes have the weights (w, t) with `sum k_j |w_j| <= t`, and t is that
of a feature with the values `-y_i r_i`. With `w = u - v`, `u, v >= 0` and `t = sum k_j (u_j + v_j)` they are
losses of 2 n features; as they fall where u_j and v_j fall together, `|u|^2 + |v|^2 = |w|^2` at the optimum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ucm.data.linear_map import Vec
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite
from ucm.forms.solver import Answer
from ucm.language.objective import multiplied
from ucm.language.penalties.constraints import Bounds, LinearConstraint
from ucm.language.penalties.epigraph import Epigraph
from ucm.language.penalties.norms import L2
from ucm.solvers.objective.proximal_step import LARGEST, constrained
from ucm.solvers.sample_layout import CompiledLoop, SampleTables

Judge = Callable[[Answer], tuple[Answer, float, float]]
_ENOUGH = 0.5  # gap to reach, in tolerances: the certificate rounds differently
_LEAST = 1e-4  # gap to reach, in tolerances, after which no smaller one is tried


class HingeActiveSet(SampleTables):
    """The boxes `[0, top_i]`, with a `mass` of this sum in each class, of the dual of the hinge loss.

    c : of the penalty
    stiffness : the norm of a limit: about that of all samples, so that Newton systems are well scaled
    prices : the multipliers of the limits, in their units
    """

    c: float
    prices: Vec = np.zeros(0)

    def __init__(self, form: Composite, mass: float = np.inf) -> None:
        X, y, tops = form.X, form.y, form.caps
        self.rows = [np.flatnonzero(y > 0.0), np.flatnonzero(y < 0.0)]
        caps = [tops[rows] for rows in self.rows]
        most = np.array([c.max(initial=0.0) for c in caps])
        tables = [X[rows] for rows in self.rows]
        factors = np.array([1.0, -1.0])
        super().__init__(tables, most, np.full(2, mass), factors, form.unit_entries)
        if any(c.min(initial=top) < top for c, top in zip(caps, most, strict=True)):
            self.row_caps = np.concatenate(caps)
        self.joint = mass == np.inf
        lengths = (float(np.linalg.norm(values)) for values, _, _ in self.parts)
        self.stiffness = math.hypot(*lengths) / self.unit
        self.y, self.boxes = y, 0 if not self.joint else 1 if form.intercept else 2

    @staticmethod
    def fits(form: Composite) -> bool:
        """True for one hinge loss with the squared l2 norm, and constraints of w in not too many features."""
        if form.worst or len(form.losses) != 1 or np.any(form.shift):
            return False
        (loss,) = form.losses
        if loss.slope() is None or not loss.offset > 0.0 or not (form.single is None or form.single.all()):
            return False
        constraint, c = constrained(form.penalty, form.n)
        return form.penalty.square is not None or (constraint is not None and c > 0.0 and form.n <= LARGEST)

    @classmethod
    def of(cls, form: Composite) -> HingeActiveSet | None:
        """Return the sample tables of a problem that fits; else None."""
        return cls(form) if cls.fits(form) else None

    def _take(self, form: Composite) -> LinearConstraint | None:
        """Set the data of the objective: c, the offset o, the linear term and the constraint, returned."""
        constraint, _ = constrained(form.penalty, form.n)
        self.c, tilt = form.norms[1], form.linear
        self.level = form.losses[0].offset
        self.offset = 2.0 * self.c * self.level / self.unit / self.unit
        self.excess, self.center = float(self.y @ tilt.margin), None
        if tilt.normal.any():
            self.center = tilt.normal / self.unit
        if tilt.margin.any():
            for X, rows, factor in zip(self.tables, self.rows, self.factors, strict=True):
                part = factor * (X.T @ tilt.margin[rows])
                self.center = part if self.center is None else self.center + part
        if constraint is not None:
            G, h, _, _ = constraint.upper
            length = np.linalg.norm(G, axis=1)
            size = self.stiffness / np.where(length > 0.0, length, 1.0)
            self.limits = -size[:, None] * G, -size * h * (2.0 * self.c / self.unit)
        if self.prices.size != self.limits[1].size:
            self.prices = np.zeros(self.limits[1].size)
        return constraint

    def objective(self, found: float) -> float:
        if self.boxes:
            return found * self.unit * (self.unit / (2.0 * self.c))
        return self.level * float(self.masses.sum()) - (found * self.unit) ** 2 / (4.0 * self.c)

    def begin(self, loop: CompiledLoop) -> None:
        """Start boxes at w = 0, with thetas equal to the offset."""
        if not self.boxes:
            super().begin(loop)
            return
        loop.w[:], loop.thetas[:] = 0.0, self.offset
        # the first smoothed breakpoints are two offsets wide
        loop["sigma"] = 0.5 * float(loop.caps.max()) / abs(self.offset)

    def solve(
        self, form: Composite, monitor: Monitor, start: Answer | None, most: int, judge: Judge | None = None
    ) -> Answer:
        """Solve a problem over these samples in at most `most` outer steps at a time.

        `judge` completes an answer and returns it with its value and gap: while the gap is too large, the
        loop goes on to a smaller one. Without it, and without limits, the gap of the loop is enough. With
        limits w is moved to the nearest point where they hold, with equality if they have a multiplier.
        """
        constraint = self._take(form)
        unit = self.unit * (self.unit / (2.0 * self.c))
        loop = CompiledLoop(self)
        if start is None or start.slopes is None:
            self.begin(loop)
        else:
            (w, b), slopes = start.plane, start.slopes
            q = np.concatenate([slopes[rows] for rows in self.rows])
            loop.begin_near(q, w * (2.0 * self.c / self.unit))
            loop.thetas[:] = self.offset - b / unit, self.offset + b / unit
            loop.price(self.prices)
        part = _ENOUGH
        while True:
            status = loop.run(monitor, part * monitor.tol, most)
            if start is not None and not np.isfinite(loop.thetas).all():  # a start far from the optimum
                return self.solve(form, monitor, None, most, judge)
            alpha = np.empty(self.sizes.sum())
            alpha[np.concatenate(self.rows)] = np.concatenate(loop.weights())
            b = 0.5 * float(loop.thetas[1] - loop.thetas[0]) * unit
            self.above = self.level - 0.5 * float(loop.thetas.sum()) * unit
            left = f"{monitor.iterations} multiplier steps left a relative gap of {loop['gap']:.2g}"
            answer = Answer(w=loop.w * (self.unit / (2.0 * self.c)), b=b, slopes=alpha).after(status, left)
            if judge is not None:
                answer, value, gap = judge(answer)
            elif constraint is not None:
                self.prices = loop.L[1]
                w = constraint.nearest(answer.plane[0], np.flatnonzero(self.prices > 0.0))
                answer = replace(answer, w=constraint.project(w)[0])
                value = form.value(form.margins(*answer.plane), answer.plane[0])
                gap = value - self.objective(loop["value"] - loop["gap"] * abs(loop["value"]))
            else:
                return answer
            if status != "converged" or monitor.reached(gap / max(abs(value), 1e-300)):
                return answer
            part *= min(0.3 * monitor.tol * abs(value) / gap, 0.5)
            if not part > _LEAST:
                return answer.ended("stalled", "")
            loop["status"] = 0


class SplitActiveSet:
    """Hinge loss of the worst points of boxes with the squared l2 norm, over the parts u and v of w."""

    def __init__(self, split: Composite, k: Vec) -> None:
        self.tables, self.k = HingeActiveSet(split), k

    @classmethod
    def of(cls, form: Composite) -> SplitActiveSet | None:
        """Return the sample tables of a problem with a dense table; None if its terms do not fit."""
        split = cls.parts(form)
        return cls(*split) if split is not None and HingeActiveSet.fits(split[0]) else None

    @staticmethod
    def parts(form: Composite) -> tuple[Composite, Vec] | None:
        """Return the problem over the parts (u, v) of w, and the k_j; None for other penalties."""
        R = form.penalties[0] if len(form.penalties) == 1 else None
        if not isinstance(R, Epigraph) or R.boxes is None or not isinstance(form.X, np.ndarray):
            return None
        lower, upper, c, most = R.boxes
        if np.any(lower) or np.any(upper) or not c > 0.0 or form.tilt is not None:
            return None
        k = np.zeros(form.n - 1) + most
        X, moved = form.X[:, :-1], form.X[:, -1:] * k
        penalties = (multiplied(c, L2()), Bounds(0.0))
        return replace(form, X=np.hstack([moved + X, moved - X]), penalties=penalties), k

    def solve(self, form: Composite, monitor: Monitor, start: Answer | None, most: int) -> Answer:
        """Solve a problem over these samples."""
        split = self.parts(form)
        if split is None or not np.array_equal(split[1], self.k):
            return Answer(w=np.zeros(form.n), b=0.0, status="stalled")
        if start is not None:
            w = start.plane[0][:-1]
            start = replace(start, w=np.concatenate([np.maximum(w, 0.0), np.maximum(-w, 0.0)]))
        answer = self.tables.solve(split[0], monitor, start, most)
        above, below = np.split(answer.plane[0], 2)
        w = above - below
        return replace(answer, w=np.append(w, self.k @ np.abs(w)))


class TailActiveSet:
    """Dual of the CVaR of the hinge loss with squared l2 norm: two reduced hulls, or boxes without a mass."""

    def __init__(self, form: Composite, caps: Vec) -> None:
        self.boxed, self.caps = form.fixed(np.zeros(form.m), [caps]), caps
        self.steep = self.boxed.losses[0].steepest()
        tops, half = self.boxed.caps, 0.5 * self.steep
        both = min(float(tops[form.y > 0.0].sum()), float(tops[form.y < 0.0].sum())) >= half
        self.hulls = HingeActiveSet(self.boxed, half) if both else None

    @classmethod
    def of(cls, form: Composite) -> TailActiveSet | None:
        """Return the sample tables of a problem; None if its terms or its domain do not fit."""
        if form.losses or len(form.worst) != 1 or not form.intercept or form.penalty.square is None:
            return None
        if np.any(form.shift):
            return None
        (h,) = form.worst
        groups = h.domains[0].groups if len(h.domains) == 1 and h.by_sample else None
        if h.loss.slope() is None or groups is None or len(groups) > 1:
            return None
        return cls(form, np.zeros(form.m) + groups[0].most)

    def solve(self, form: Composite, monitor: Monitor, start: Answer | None, most: int) -> Answer:
        """Solve a problem over these samples and this worst mean, not from its start.

        The hulls have the answer if the losses that they weigh are not below 0.
        """
        if form.tilt is not None:
            return Answer(w=np.zeros(form.n), b=0.0, status="stalled")
        boxed = replace(self.boxed, penalties=form.penalties)
        if self.hulls is not None:
            answer = self._answer(self.hulls, boxed, form, monitor, most)
            if answer.status == "interrupted" or self.hulls.above >= 0.0:
                return answer
        return self._answer(HingeActiveSet(boxed), boxed, form, monitor, most)

    def _answer(
        self, tables: HingeActiveSet, boxed: Composite, form: Composite, monitor: Monitor, most: int
    ) -> Answer:
        """Return the answer of the tables with its q, to a gap that proves that of F."""

        def judge(answer: Answer) -> tuple[Answer, float, float]:
            q = np.minimum(answer.slopes / self.steep, self.caps)  # type: ignore[operator]
            room, left = self.caps - q, 1.0 - float(q.sum())
            q += room * (max(left, 0.0) / (float(room.sum()) or 1.0))
            answer.multipliers = [q]
            value, gap = form.duality_gap(answer)
            hopeless = left < -1e-6 or (tables is self.hulls and tables.above < 0.0)
            return answer, value, np.inf if hopeless else gap

        return tables.solve(boxed, monitor, None, most, judge)
