"""Newton solver over rows for smooth losses with the squared l2 norm, and for balls of weights.

For losses the Hessian is `2 lam I + sum_i d_i z_i z_i'`, z_i a sample and a 1, with the curvature
`d_i = sum_k C_k l_k''(o_k - t_i)` at its margin t_i. It is a sum over rows, as are the gradient, the value
and the slopes of the dual point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ucm.data.linear_map import Vec
from ucm.data.options import COUNT, check_fields
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.out_of_core import LossProof, RowHulls, RowLosses
from ucm.forms.solver import Solver
from ucm.language.losses import Hinge
from ucm.language.objective import split_scalar
from ucm.language.terms import ConvexLoss
from ucm.solvers.out_of_core.active_set import by_rounds
from ucm.solvers.out_of_core.newton import (
    ClassLoss,
    RowFunction,
    RowSums,
    RowWeights,
    minimise,
    over_rows,
    over_sample,
    scaled_solve,
)
from ucm.solvers.out_of_core.newton_balls import solve_balls

_BIAS = 1e-12  # of the curvature in b


@dataclass(frozen=True)
class NewtonRows(Solver[RowHulls | RowLosses]):
    """Solve out-of-core problems of differentiable losses, or balls of weights, by Newton's method over rows.

    Parameters
    ----------
    max_order
        Largest number of features.
    """

    max_order: int = 2000
    name: ClassVar[str] = "newton-rows"

    def __post_init__(self) -> None:
        check_fields(self, max_order=COUNT)

    def refuse(self, form: RowHulls | RowLosses) -> str | None:
        if isinstance(form, RowHulls):
            if not all(loss.smooth() for loss, _ in form.balls):
                return "it takes balls of smooth losses"
        elif form.lam is None:
            return "it takes lam L2() as penalty, and no term that is subtracted"
        elif not all(loss.smooth() or _is_power(loss) for loss, _ in form.losses):
            return "it takes smooth losses, and powers of the hinge loss above 1"
        if form.n > self.max_order:
            return f"its linear systems would have order {form.n}, above {self.max_order}"
        return None

    def solve(self, form: RowHulls | RowLosses, monitor: Monitor, start: Answer | None = None) -> Answer:
        def run() -> Answer:
            if isinstance(form, RowHulls):
                return solve_balls(form, monitor)
            return _solve_losses(form, monitor)

        return by_rounds(run, form.data.stored, monitor)


def _is_power(loss: ConvexLoss) -> bool:
    """Return True if the loss is a power p > 1 of the hinge loss."""
    base = split_scalar(loss)[1]
    return isinstance(base, Hinge) and base.p > 1.0


def _solve_losses(form: RowLosses, monitor: Monitor) -> Answer:
    function, zero = SmoothLosses(form), np.zeros(form.n + 1)
    evaluate = over_sample(form, *form.data.scaled_sample, monitor)
    z, _ = minimise(function, zero, evaluate, monitor.child(monitor.tol))
    origin = zero, form.value_at_zero
    return minimise(function, z, over_rows(form, monitor), monitor, previous=origin)[1]


class SmoothLosses(RowFunction):
    """Objective `lam ||w||_2^2` plus smooth losses, as a function of z = (w, b)."""

    def __init__(self, form: RowLosses) -> None:
        self.form = form
        parts = (
            ClassLoss(loss, c, y, C[c], np.array([-loss.offset, 1.0]), np.array([[y], [0.0]]))
            for loss, C in form.losses
            for c, y in enumerate((1.0, -1.0))
            if C[c] > 0.0
        )
        super().__init__(form.n, tuple(parts), np.zeros(form.n + 1), 2.0 * (form.lam or 0.0))

    def step(self, z: Vec, sums: RowSums, value: float) -> Vec:
        g, H = self.derivatives(z, sums)
        H[-1, -1] = H[-1, -1] * (1.0 + _BIAS) or 1.0
        return -scaled_solve(H, g)

    def by_class(self, values: Vec) -> Vec:
        """Return the sums by class of values given by part."""
        masks = np.array([[part.side == c for part in self.parts] for c in (0, 1)])
        return masks.astype(np.float64) @ values

    def gains(self, sums: RowSums) -> Vec:
        """Return by class the terms `offset total - conjugate` of the dual lower bound."""
        offsets = np.array([part.loss.offset for part in self.parts])
        return self.by_class(offsets * sums.totals - sums.heights)

    def answer(self, z: Vec, sums: RowSums, value: float) -> tuple[Answer, float, float]:
        w, b, total = z[:-1], float(z[-1]), float(sums.losses.sum())
        slopes, points = self.by_class(sums.totals), self.by_class(sums.points)
        rows = RowWeights(self.form.data.source, self.message(z))
        proof = LossProof(w, b, total, slopes, self.gains(sums), points, rows)
        return Answer(w=w, b=b, rows=proof), value, self.form.gap(proof)
