"""Active-set Newton solvers for the hinge loss, and for its CVaR, with the squared l2 norm, via the dual.

With `u = 2 c w` the dual of `c |w|^2 + sum top_i max(0, o - t_i) - <v, t> - <r, w>` is, times 2 c, the
problem over two boxes of `ucm/native/hulls.c`, with `x` from `Z'v + r` on.

The dual of the CVaR, `max over q of sum q_i max(0, o - t_i)` with `sum q = 1, 0 <= q_i <= cap_i`, has these
boxes and a sum of at most 1. Where the sum is 1, half of it is in each class, and x is the nearest point of
two reduced hulls; else the bound on the sum falls away.

A row `g'w <= h` of a linear constraint adds its multiplier mu to r, as `-mu g`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ucm.data.linear_map import Vec
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, LinearTerm
from ucm.forms.solver import Answer
from ucm.language.objective import ScaledPenalty
from ucm.language.penalties.constraints import LinearConstraint
from ucm.language.penalties.norms import L2
from ucm.solvers.objective.proximal_step import constrained
from ucm.solvers.sample_layout import CompiledLoop, SampleTables

_ENOUGH = 0.5  # gap to reach, in tolerances: the certificate rounds differently
_MULTIPLIERS = 40  # tried for a row of a constraint
_NEAREST, _FARTHEST = 2.0, 10.0  # ratios of a multiplier to the last one, before there is a bracket
_BEYOND = 1.3  # times the step of the secant, before there is a bracket


class HingeActiveSet(SampleTables):
    """The boxes `[0, top_i]`, with a `mass` of this sum in each class, of the dual of the hinge loss."""

    c: float

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
        self.y, self.boxes = y, 0 if not self.joint else 1 if form.intercept else 2

    @classmethod
    def of(cls, form: Composite) -> HingeActiveSet | None:
        """Return the sample tables of a problem; None if its terms, weights or intercept do not fit."""
        if form.worst or len(form.losses) != 1 or np.any(form.shift):
            return None
        (loss,) = form.losses
        if loss.slope() is None or not loss.offset > 0.0:
            return None
        weighted = form.single is None or form.single.all()
        return cls(form) if weighted and form.penalty.square is not None else None

    def _take(self, form: Composite) -> None:
        """Set the data of the objective: c, the offset o and the linear term."""
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
        self, form: Composite, monitor: Monitor, start: Answer | None, most: int, part: float = _ENOUGH
    ) -> Answer:
        """Solve a problem over these samples in at most `most` outer steps, to `part` of the tolerance."""
        self._take(form)
        unit = self.unit * (self.unit / (2.0 * self.c))
        loop = CompiledLoop(self)
        if start is None or start.slopes is None:
            self.begin(loop)
        else:
            (w, b), slopes = start.plane, start.slopes
            q = np.concatenate([slopes[rows] for rows in self.rows])
            loop.begin_near(q, w * (2.0 * self.c / self.unit))
            loop.thetas[:] = self.offset - b / unit, self.offset + b / unit
        status = loop.run(monitor, part * monitor.tol, most)
        if start is not None and not np.isfinite(loop.thetas).all():  # a start far from the optimum
            return self.solve(form, monitor, None, most, part)
        alpha = np.empty(self.sizes.sum())
        alpha[np.concatenate(self.rows)] = np.concatenate(loop.weights())
        b = 0.5 * float(loop.thetas[1] - loop.thetas[0]) * unit
        self.above = self.level - 0.5 * float(loop.thetas.sum()) * unit
        last = monitor.history[-1]["gap"] if monitor.history else np.inf
        left = f"{monitor.iterations} multiplier steps left a relative gap of {last:.2g}"
        answer = Answer(w=loop.w * (self.unit / (2.0 * self.c)), b=b, slopes=alpha)
        return answer.after(status, left)


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
        """Return the answer of the tables with its q, solved again if their gap does not prove that of F."""
        part = _ENOUGH
        while True:
            answer = tables.solve(boxed, monitor, None, most, part)
            q = np.minimum(answer.slopes / self.steep, self.caps)  # type: ignore[operator]
            room, left = self.caps - q, 1.0 - float(q.sum())
            q += room * (max(left, 0.0) / (float(room.sum()) or 1.0))
            answer.multipliers = [q]
            value, gap = form.duality_gap(answer)
            if monitor.reached(gap / abs(value)) or answer.status != "converged":
                return answer
            part *= 0.3 * monitor.tol * abs(value) / gap
            if left < -1e-6 or not part > 1e-4 or (tables is self.hulls and tables.above < 0.0):
                return answer.ended("stalled", "")


class ConstrainedActiveSet:
    """Hinge loss with squared l2 norm and a linear constraint of one row.

    The minimiser w of the objective plus `mu g'w` has a `v = g'w - h` that falls in mu. With `v_low` and
    `v_high` at the ends of a bracket of the root, the convex combination of both minimisers with `g'w = h`
    has a gap of at most theirs plus `(mu_high - mu_low) (v_low - v_high) / 4`: of second order. With several
    rows, w moved onto a further row that nearly holds changes the gap at second order but the multipliers at
    first order: they were wrong beside a proven gap.
    """

    def __init__(self, tables: HingeActiveSet, plain: Composite, constraint: LinearConstraint) -> None:
        self.tables, self.plain, self.constraint = tables, plain, constraint

    @classmethod
    def of(cls, form: Composite) -> ConstrainedActiveSet | None:
        """Return the sample tables of a problem; None if its terms, weights or intercept do not fit."""
        constraint, c = constrained(form.penalty, form.n)
        if constraint is None or len(constraint.A) > 1 or not c > 0.0:
            return None
        plain = replace(form, penalties=(ScaledPenalty(c, L2()),))
        tables = HingeActiveSet.of(plain)
        return None if tables is None else cls(tables, plain, constraint)

    def solve(self, form: Composite, monitor: Monitor, start: Answer | None, most: int) -> Answer:
        """Solve a problem over these samples and this constraint."""
        self.tilt, self.monitor, self.most = form.linear, monitor, most
        answer = self._at(0.0, np.zeros(form.n), start)
        G, h, _, _ = self.constraint.upper
        over = np.flatnonzero(self.constraint.slacks(answer.plane[0]) < 0.0)
        if over.size:
            answer = self._on_row(form, answer, G[over[0]], float(h[over[0]]))
        w = form.penalty.project_domain(answer.plane[0])
        answer = replace(answer, w=w)
        if answer.status == "converged":
            value, gap = form.duality_gap(answer)
            return answer if monitor.reached(gap / max(abs(value), 1e-300)) else answer.ended("stalled", "")
        return answer

    def _at(self, mu: float, g: Vec, start: Answer | None) -> Answer:
        """Return the answer of the problem without the constraint, plus `mu g'w`."""
        inner = self.monitor.child(self.monitor.tol, self.monitor.max_iter)
        problem = self.plain.tilted(LinearTerm(self.tilt.margin, self.tilt.normal - mu * g))
        answer = self.tables.solve(problem, inner, start, self.most, 0.5 * _ENOUGH)
        self.monitor.count_work(inner)
        return answer

    def _on_row(self, form: Composite, answer: Answer, g: Vec, h: float) -> Answer:
        """Return the answer with `g'w = h` from that with `g'w > h` and the multiplier 0."""
        low, below, f_low = 0.0, answer, float(g @ answer.plane[0]) - h
        high, above, f_high = np.inf, answer, 0.0
        v_low, v_high = f_low, 0.0  # which the Illinois rule does not halve
        value = abs(form.loss(form.margins(*answer.plane)) + form.norms[1] * float(answer.w @ answer.w))  # type: ignore[operator]
        mu = _NEAREST * 2.0 * form.norms[1] * f_low / float(g @ g)  # v falls by at most |g|^2 / 2c
        for step in range(1, _MULTIPLIERS + 1):
            answer = self._at(mu, g, answer)
            f = float(g @ answer.plane[0]) - h
            if answer.status != "converged":
                return answer
            if f > 0.0:
                farther = mu + _BEYOND * f * (mu - low) / max(v_low - f, 1e-300)
                f_high, low, below, f_low, v_low = 0.5 * f_high, mu, answer, f, f
            else:
                farther, f_low, high, above, f_high, v_high = mu, 0.5 * f_low, mu, answer, f, f
            if high < np.inf:
                width = 0.25 * (high - low) * (v_low - v_high)
                ended = self.monitor.report(step, value, width / max(value, 1e-300))
                if ended or width <= _ENOUGH * self.monitor.tol * value:
                    mixed = _mixed(below, above, v_low / ((v_low - v_high) or 1.0))
                    return mixed.interrupted() if ended else mixed
                mu = low + f_low * (high - low) / (f_low - f_high)
            else:
                mu = float(np.clip(farther, _NEAREST * mu, _FARTHEST * mu))
            if self.monitor.timed_out or not self.monitor.may_continue:
                break
        return answer.ended("stalled", "")


def _mixed(a: Answer, b: Answer, part: float) -> Answer:
    """Return the answer a with the plane and the slopes of `a + part (b - a)`."""
    (w, b0), (other, b1) = a.plane, b.plane
    slopes = a.slopes + part * (b.slopes - a.slopes)  # type: ignore[operator]
    return replace(a, w=w + part * (other - w), b=b0 + part * (b1 - b0), slopes=slopes)
