"""Newton steps for penalties of w with a bound `h(w) <= t` whose parts are straight in every orthant.

With `h(w) = sum_j k_j |w_j|` and R the support function of a box plus `c ||w||_2^2`, the objective of w at
the least t is smooth in an orthant, `t = <k s, w>` for the signs s. A step is Newton's in the weights that
are not 0 and those that leave 0 with a gain, and ends at 0 where it changes a sign: the projected Newton
method of Bertsekas (1982), Projected Newton methods for optimization problems with simple constraints.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import Vec
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite
from ucm.language.penalties.epigraph import Boxes, Epigraph
from ucm.numerics.newton_steps import line_search, ridge_solve
from ucm.solvers.objective.proximal_step import Losses, ProximalIterate
from ucm.solvers.objective.quadratic_models import NewtonCG

_SUFFICIENT = 1e-4  # least decrease relative to the predicted decrease
_AT_ONCE = 0.25  # at which a whole step needs no search
_HALVINGS = 40
_ROUNDING = 1e-14  # of the objective


def straight(form: Composite) -> Boxes | None:
    """Return the boxes of the penalty if it is an `Epigraph` that is straight in every orthant, else None."""
    match form.penalties:
        case (Epigraph() as R,):
            return R.boxes
    return None


def iterate(
    form: Composite, start: tuple[Vec, float], monitor: Monitor, systems: NewtonCG | None,
    losses: Losses | None = None,
) -> ProximalIterate:  # fmt: skip
    """Return the iterate of the Newton steps that fit the penalty of a form."""
    boxes = straight(form)
    if boxes is None:
        return ProximalIterate(form, start, monitor, systems, losses)
    return OrthantIterate(boxes, form, start, monitor, systems, losses)


class OrthantIterate(ProximalIterate):
    """Iterate of projected Newton steps in (w, b), with t = h(w) as the last entry of `w`."""

    def __init__(
        self, boxes: Boxes, form: Composite, start: tuple[Vec, float], monitor: Monitor,
        systems: NewtonCG | None, losses: Losses | None,
    ) -> None:  # fmt: skip
        super().__init__(form, start, monitor, systems, losses)
        lower, upper, c, k = boxes
        self.boxes = lower, upper, c, np.broadcast_to(k, self.w.size - 1)

    def advance(self) -> bool:
        form, (lower, upper, c, k) = self.form, self.boxes
        w, g, rate = self.w[:-1], self.g[:-1], float(self.g[-1])
        right, left = g + upper + rate * k, g + lower - rate * k  # derivatives at 0 to both sides
        signs = np.where(w != 0.0, np.sign(w), 1.0 * (right < 0.0) - (left > 0.0))
        edge = np.where(signs > 0.0, upper, lower)
        slope = np.where(signs > 0.0, right, left) + 2.0 * c * w
        model, self.before, self.foretold = self._formed(None), self.gain, None
        H = model.H.T @ model.H if self.rows else model.H
        S, d, mean = np.flatnonzero(signs), np.zeros(0), np.zeros(0)
        while S.size:
            e = signs[S] * k[S]
            cross = np.outer(H[S, -1], e)
            A = H[np.ix_(S, S)] + cross + cross.T + H[-1, -1] * np.outer(e, e)
            A.ravel()[:: S.size + 1] += 2.0 * c
            mean = model.mean[S] + model.mean[-1] * e
            d = -ridge_solve(A, slope[S] - self.bend * mean)
            wrong = (w[S] == 0.0) & (d * signs[S] <= 0.0)
            if not wrong.any():
                break
            S, d, mean = S[~wrong], np.zeros(0), np.zeros(0)
        move = -self.bend / model.mass - float(mean @ d)
        self.gain = -float(slope[S] @ d) - self.bend * move
        slack = _ROUNDING * abs(self.value)
        if not self.gain > -slack:
            return False
        a = 1.0
        for trial in range(_HALVINGS):
            x = self.w.copy()
            x[S] += a * d
            x[S] = z = np.where(x[S] * signs[S] > 0.0, x[S], 0.0)
            x[-1] = float(k[S] @ np.abs(z))
            b = self.b + a * move
            t = form.margins(x, b)
            self.monitor.passes += 0.5 * self.cost
            smooth = self._smooth(t)
            value = smooth + float((edge[S] + c * z) @ z) - float(self.tilt.normal @ x)
            enough = _SUFFICIENT if trial else _AT_ONCE
            if value <= self.value - enough * a * self.gain + slack:
                break
            a = 0.5 * a if trial else self._length(S, d, move, edge[S], k[S] * signs[S])
        else:
            return False
        self.lengths.after(min(a, 1.0))
        gained = value < self.value - slack
        self.w, self.b, self.t, self.smooth, self.value = x, b, t, smooth, value
        return gained

    def _length(self, S: NDArray[np.intp], d: Vec, move: float, edge: Vec, e: Vec) -> float:
        """Return the length of a step d of the weights S and `move` of b, by the slopes in their orthant.

        `edge` are the slopes of the box of R there, and e those of t.
        """
        direction = np.zeros(self.w.size)
        direction[S], direction[-1] = d, float(e @ d)
        moved, c = self.form.y * (self.form.X @ direction + move), self.boxes[2]
        fixed = float((edge + 2.0 * c * self.w[S]) @ d) - float(self.tilt.normal @ direction)
        fixed -= float(self.tilt.margin @ moved)
        curve = 2.0 * c * float(d @ d)

        def slope(a: float, moved: Vec) -> float:
            return fixed + a * curve - float(self.losses.gradient(self.t + a * moved) @ moved)

        start = slope(0.0, moved)
        return line_search(slope, moved, start) if start < 0.0 else 1.0
