"""Active-set Newton solver for the hinge loss with the squared l2 norm, via its dual over boxes.

With `u = 2 c w` the dual of `c |w|^2 + sum top_i max(0, o - t_i) - <v, t> - <r, w>` is, times 2 c, the
problem over two boxes of `ucm/native/hulls.c`, with `x` from `Z'v + r` on. Its course is that of
`ucm.solvers.sample_layout`.
"""

from __future__ import annotations

import numpy as np

from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite
from ucm.forms.solver import Answer
from ucm.solvers.sample_layout import FeatureLevel, SampleTables

_COARSE = 1500  # fewest samples of a coarse level
_ENOUGH = 0.5  # gap to reach, in tolerances: the certificate rounds differently
_BLUNT = 0.5  # offsets over the width of the first smoothed breakpoints


class HingeActiveSet(SampleTables):
    """Dual of the hinge loss with squared l2 norm: sample tables by class and boxes `[0, top_i]`."""

    c: float
    boxes = True

    def __init__(self, form: Composite) -> None:
        X, y, tops = form.X, form.y, form.caps
        self.rows = [np.flatnonzero(y > 0.0), np.flatnonzero(y < 0.0)]
        caps = [tops[rows] for rows in self.rows]
        most = np.array([c.max(initial=0.0) for c in caps])
        tables = [X[rows] for rows in self.rows]
        factors = np.array([1.0, -1.0])
        super().__init__(tables, most, np.full(2, np.inf), factors, form.unit_entries)
        if any(c.min(initial=top) < top for c, top in zip(caps, most, strict=True)):
            self.row_caps = np.concatenate(caps)
        self.y = y

    @classmethod
    def of(cls, form: Composite) -> HingeActiveSet | None:
        """Return the sample tables of a problem; None if its terms, weights or intercept do not fit."""
        one = len(form.losses) == 1 and form.losses[0].slope() is not None and form.losses[0].offset > 0.0
        weighted = form.single is None or form.single.all()
        return cls(form) if form.intercept and one and weighted and form.penalty.square is not None else None

    def _take(self, form: Composite) -> None:
        """Set the data of the objective: c, the offset o and the linear term."""
        self.c, tilt = form.norms[1], form.linear
        self.offset = 2.0 * self.c * form.losses[0].offset / self.unit / self.unit
        self.excess, self.center = float(self.y @ tilt.margin), None
        if tilt.normal.any():
            self.center = tilt.normal / self.unit
        if tilt.margin.any():
            for X, rows, factor in zip(self.tables, self.rows, self.factors, strict=True):
                part = factor * (X.T @ tilt.margin[rows])
                self.center = part if self.center is None else self.center + part

    def objective(self, found: float) -> float:
        return found * self.unit * (self.unit / (2.0 * self.c))

    def begin(self, level: FeatureLevel) -> None:
        """Start a level at w = 0, with thetas equal to the offset."""
        level.w[:], level.thetas[:] = 0.0, self.offset
        level["sigma"] = _BLUNT * float(level.caps.max()) / abs(self.offset)

    def solve(self, form: Composite, monitor: Monitor, start: Answer | None, most: int) -> Answer:
        """Solve a problem over these samples and losses in at most `most` outer steps a level.

        The start is an answer with slopes, or a coarse level of the samples.
        """
        self._take(form)
        unit = self.unit * (self.unit / (2.0 * self.c))
        if start is None or start.slopes is None:
            coarser = self.levels(_COARSE)
            table = FeatureLevel(self, coarser.pop())
            self.begin(table)
        else:
            coarser, table = [], FeatureLevel(self, 1)
            (w, b), slopes = start.plane, start.slopes
            q = np.concatenate([slopes[rows] for rows in self.rows])
            table.begin_near(q, w * (2.0 * self.c / self.unit))
            table.thetas[:] = self.offset - b / unit, self.offset + b / unit
        table, status = self.descend(table, coarser, monitor, _ENOUGH * monitor.tol, most)
        alpha = np.empty(self.sizes.sum())
        alpha[np.concatenate(self.rows)] = np.concatenate(table.weights())
        b = 0.5 * float(table.thetas[1] - table.thetas[0]) * unit
        last = monitor.history[-1]["gap"] if monitor.history else np.inf
        left = f"{monitor.iterations} multiplier steps left a relative gap of {last:.2g}"
        answer = Answer(w=table.w * (self.unit / (2.0 * self.c)), b=b, slopes=alpha)
        return answer.after(status, left)
