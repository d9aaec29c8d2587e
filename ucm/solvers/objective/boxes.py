"""The hinge loss with the squared l2 norm on many samples: those near their kinks, from few to all.

With `u = 2 c w` the dual of `c |w|^2 + sum top_i max(0, o - t_i)` is, times 2 c, the problem over two
boxes of `ucm.numerics.newton_hull`. Its course is that of `ucm.solvers.levels`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ucm import numerics
from ucm.data.linear import Vec
from ucm.forms.monitor import Monitor
from ucm.solvers.tables import FeatureLevel, SampleTables

__all__ = ["Boxes"]

_COARSE = 1500  # fewest samples of a coarse level
_BLUNT = 0.5  # offsets over the width of the first kinks


class Boxes(SampleTables):
    """The samples of both classes, the boxes `[0, top]` of their weights, and the level at work.

    Parameters
    ----------
    X : (m, n) array or CSR matrix
    y : (m,) labels
    tops : of class +1 and of class -1
    c, offset : of the objective
    stored : entries of a pass
    """

    def __init__(
        self, X: Any, y: Vec, tops: tuple[float, float], c: float, offset: float, stored: int
    ) -> None:
        self.rows = [np.flatnonzero(y > 0.0), np.flatnonzero(y < 0.0)]
        side = np.zeros((2, len(numerics.SIDE)))
        side[:, :3] = np.column_stack([tops, [np.inf, np.inf], [1.0, -1.0]])
        super().__init__([X[rows] for rows in self.rows], side, stored)
        self.c = c
        self.offset = 2.0 * c * offset / self.unit / self.unit

    def objective(self, found: float) -> float:
        return found * self.unit * (self.unit / (2.0 * self.c))

    def uniform(self, level: FeatureLevel) -> Vec:
        """The best weights that are the same over each class."""
        ends = [
            factor * np.asarray(level.rows(X).mean(axis=0)).ravel()
            for X, factor in zip(self.tables, level.side[:, 2])
        ]
        square = float(np.sum((ends[0] + ends[1]) ** 2))
        most = float((level.side[:, 0] * level.sizes).min())
        mass = min(most, 2.0 * self.offset / square) if square > 0.0 else most
        return np.repeat(mass / level.sizes, level.sizes)

    def solve(self, monitor: Monitor, near: tuple[Vec, Vec] | None) -> tuple[Vec, float, Vec, str]:
        """w, b, the dual point and how it ended; `near` a dual point and the normal that go with another
        problem."""
        if near is None:
            rest = self.levels(_COARSE)
            level = FeatureLevel(self, rest.pop())
            level.begin(self.uniform(level))
            level["sigma"] = _BLUNT * float(level.side[:, 0].max()) / self.offset
        else:
            rest, level = [], FeatureLevel(self, 1)
            q = np.concatenate([near[0][rows] for rows in self.rows])
            level.begin_near(q, near[1] * (2.0 * self.c / self.unit))
        level, ended = self.descend(level, rest, monitor)
        parts = level.weights()
        if level.stride > 1:  # of all samples, those that w stands for
            parts = np.split(level.refined(1).V[0], self.sizes[:1])
        alpha = np.empty(self.sizes.sum())
        for rows, q in zip(self.rows, parts, strict=True):
            alpha[rows] = q
        w = level.w * (self.unit / (2.0 * self.c))
        theta = level.side[:, level.theta]
        b = 0.5 * float(theta[1] - theta[0]) * self.unit * (self.unit / (2.0 * self.c))
        return w, b, alpha, ended
