"""The hinge loss with the squared l2 norm, by the active-set method for two hulls.

With `u = 2 c w` the dual of `c |w|^2 + sum top_i max(0, o - t_i) - <v, t> - <r, w>` is, times 2 c, the
problem over two boxes of `ucm/native/hulls.c`, with `x` from `Z'v + r` on. Its course is that of
`ucm.solvers.sample_layout`.
"""

from __future__ import annotations

import numpy as np

from ucm.data.linear_map import Vec
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, LinearTerm
from ucm.solvers.sample_layout import FeatureLevel, SampleTables

__all__ = ["HingeActiveSet"]

_COARSE = 1500  # fewest samples of a coarse level
_BLUNT = 0.5  # offsets over the width of the first smoothed breakpoints
_ENOUGH = 0.5  # of the tolerance, in problems inside of another method


class HingeActiveSet(SampleTables):
    """The samples of both classes and the boxes `[0, top_i]` of their weights."""

    c: float
    boxes = True

    def __init__(self, form: Composite) -> None:
        X, y, tops = form.X, form.y, form.caps
        self.rows = [np.flatnonzero(y > 0.0), np.flatnonzero(y < 0.0)]
        caps = [tops[rows] for rows in self.rows]
        most = np.array([own.max(initial=0.0) for own in caps])
        tables = [X[rows] for rows in self.rows]
        factors = np.array([1.0, -1.0])
        super().__init__(tables, most, np.full(2, np.inf), factors, form.unit_entries)
        if any(own.min(initial=top) < top for own, top in zip(caps, most, strict=True)):
            self.row_caps = np.concatenate(caps)
        self.y = y

    @classmethod
    def of(cls, form: Composite) -> HingeActiveSet | None:
        """Return the method for a problem; None for other losses and penalties."""
        one = len(form.losses) == 1 and form.losses[0].slope() is not None
        weighted = form.single is None or form.single.all()
        return cls(form) if one and weighted and form.penalty.square is not None else None

    def _take(self, c: float, offset: float, tilt: LinearTerm) -> None:
        """Set the objective: c and o, and the linear function that is subtracted."""
        self.c, self.offset = c, 2.0 * c * offset / self.unit / self.unit
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
        """Begin at w = 0, where all samples are on the steep side of their breakpoints."""
        level.thetas[:] = self.offset
        level["sigma"] = _BLUNT * float(level.caps.max()) / abs(self.offset)

    def solve(
        self, form: Composite, tilt: LinearTerm, tol: float, near: tuple[Vec, Vec, float] | None,
        outer: Monitor, most: int | None,
    ) -> Answer:  # fmt: skip
        """Solve the tilted problem.

        Parameters
        ----------
        near : a dual point, the normal and the bias of a problem that is near; None for none
        outer : the monitor
        most : limit of the iterations of a problem inside of another method; None for the problem itself
        """
        self._take(form.norms[1], form.losses[0].offset, tilt)
        monitor = outer if most is None else outer.child(_ENOUGH * tol, most)
        unit = self.unit * (self.unit / (2.0 * self.c))
        if near is None:
            rest = self.levels(_COARSE)
            level = FeatureLevel(self, rest.pop())
            self.begin(level)
        else:
            rest, level = [], FeatureLevel(self, 1)
            q = np.concatenate([near[0][rows] for rows in self.rows])
            level.begin_near(q, near[1] * (2.0 * self.c / self.unit))
            level.thetas[:] = self.offset - near[2] / unit, self.offset + near[2] / unit
        level, status = self.descend(level, rest, monitor)
        if monitor is not outer:
            outer.passes += monitor.passes
            outer.systems += monitor.systems
            outer.hessian_passes += monitor.hessian_passes
        parts = level.weights()
        if level.stride > 1:  # of all samples, those that w stands for
            parts = np.split(level.refined(1).V[0], self.sizes[:1])
        alpha = np.empty(self.sizes.sum())
        for rows, q in zip(self.rows, parts, strict=True):
            alpha[rows] = q
        b = 0.5 * float(level.thetas[1] - level.thetas[0]) * unit
        last = monitor.history[-1]["gap"] if monitor.history else np.inf
        left = f"{monitor.iterations} multiplier steps left a relative gap of {last:.2g}"
        answer = Answer(w=level.w * (self.unit / (2.0 * self.c)), b=b, slopes=alpha)
        return answer.after(status, left)
