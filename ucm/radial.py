"""How far a sum of reduced hulls reaches: one linear program, warm from direction to direction.

For a normal g the program linearised at `<g, w> = 1`,

    min over <g, w> = 1 of max over x in U of -w'x = max {s : -s g in U},

has one column for every sample and one for s, one row for every feature and every group; w is the
dual vector of the feature rows. Another g changes the column of s only, so the basis is kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.contracts import Vec

__all__ = ["Radial"]


class Radial:
    """`fixed + sum_i q_i z_i`, `0 <= q <= caps`, the sum of group g `rest[g]`, in HiGHS.

    Parameters
    ----------
    fixed : (r,)
    points : (k, r)
    caps : (k,)
    group : (k,)
    rest : (G,)
    """

    def __init__(
        self,
        fixed: Vec,
        points: NDArray[np.float64],
        caps: Vec,
        group: NDArray[np.int64],
        rest: Vec,
    ) -> None:
        import highspy

        self.r, self.k = fixed.size, caps.size
        self.highs: Any = highspy.Highs()
        for option, setting in (
            ("output_flag", False),
            ("presolve", "off"),
            ("simplex_scale_strategy", 0),
            ("primal_feasibility_tolerance", 1e-10),
            ("dual_feasibility_tolerance", 1e-10),
        ):
            self.highs.setOptionValue(option, setting)
        self.done = highspy.HighsModelStatus.kOptimal
        # features in units of their own: rows of size one
        self.unit = np.maximum(np.abs(points).max(axis=0, initial=0.0), np.abs(fixed))
        self.unit[self.unit == 0.0] = 1.0
        r, k = self.r, self.k
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = k + 1, r + rest.size
        lp.col_cost_ = np.r_[np.zeros(k), -1.0]
        lp.col_lower_ = np.r_[np.zeros(k), -np.inf]
        lp.col_upper_ = np.r_[caps, np.inf]
        lp.row_lower_ = lp.row_upper_ = np.r_[-fixed / self.unit, rest]
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        rows = np.hstack([np.tile(np.arange(r), (k, 1)), r + group[:, None]]).ravel()
        values = np.hstack([points / self.unit, np.ones((k, 1))]).ravel()
        lp.a_matrix_.start_ = np.r_[np.arange(k + 1) * (r + 1), k * (r + 1) + r]
        lp.a_matrix_.index_ = np.r_[rows, np.arange(r)]
        lp.a_matrix_.value_ = np.r_[values, np.ones(r)]
        self.highs.passModel(lp)

    def reach(self, g: Vec) -> tuple[float, Vec, Vec] | None:
        """(s, w, q); None when no multiple of g is in the set."""
        for i, value in enumerate(g / self.unit):
            self.highs.changeCoeff(i, self.k, float(value))
        self.highs.run()
        if self.highs.getModelStatus() != self.done:
            return None
        answer = self.highs.getSolution()
        w = np.array(answer.row_dual)[: self.r] / self.unit
        q = np.array(answer.col_value)
        along = float(w @ g)
        return None if along == 0.0 else (float(q[-1]), w / along, q[:-1])
