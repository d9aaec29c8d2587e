"""Newton steps for penalties of w with a bound `h(w) <= t` whose parts are straight in every orthant.

With `h(w) = sum_j k_j |w_j|` and R the support function of a box plus `c ||w||_2^2`, the objective of w at the
least t is smooth in an orthant, `t = <k s, w>` for the signs s. A step is Newton's in the weights that are not
0 and those that leave 0 with a gain, and ends at 0 where it changes a sign: the projected Newton method of
Bertsekas (1982), Projected Newton methods for optimization problems with simple constraints.
"""

from __future__ import annotations

import numpy as np

from ucm.data.linear_map import Vec
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite
from ucm.language.penalties.epigraph import Epigraph
from ucm.numerics.newton_steps import ridge_solve
from ucm.solvers.objective.proximal_step import Losses, ProximalIterate
from ucm.solvers.objective.quadratic_models import NewtonCG

_SUFFICIENT = 1e-4  # least decrease relative to the predicted decrease
_HALVINGS = 40
_ROUNDING = 1e-14  # of the objective


def orthant_bound(form: Composite) -> Epigraph | None:
    """Return the penalty of a form if it is an `Epigraph` whose parts are straight in every orthant."""
    (R, *others) = form.penalties or (None,)
    straight = isinstance(R, Epigraph) and not others and R.boxes is not None
    return R if straight else None


def iterate(
    form: Composite, start: tuple[Vec, float], monitor: Monitor, systems: NewtonCG | None,
    losses: Losses | None = None,
) -> ProximalIterate:  # fmt: skip
    """Return the iterate of the Newton steps that fit the penalty of a form."""
    kind = ProximalIterate if orthant_bound(form) is None else OrthantIterate
    return kind(form, start, monitor, systems, losses)


class OrthantIterate(ProximalIterate):
    """Iterate of projected Newton steps in (w, b), with t = h(w) as the last entry of `w`."""

    def advance(self) -> bool:
        form, bound = self.form, orthant_bound(self.form)
        lower, upper, c, k = bound.boxes  # type: ignore[union-attr, misc]
        w, g, rate = self.w[:-1], self.g[:-1], float(self.g[-1])
        k = np.broadcast_to(k, w.size)
        right, left = g + upper + rate * k, g + lower - rate * k  # derivatives at 0 to both sides
        signs = np.where(w != 0.0, np.sign(w), 1.0 * (right < 0.0) - (left > 0.0))
        slope = np.where(signs > 0.0, right, left) + 2.0 * c * w
        model, self.before, self.foretold = self._formed(None), self.gain, None
        H = model.H.T @ model.H if self.rows else model.H
        S, d, mean = np.flatnonzero(signs), np.zeros(0), np.zeros(0)
        while S.size:
            e = signs[S] * k[S]
            cross = np.outer(H[S, -1], e)
            A = H[np.ix_(S, S)] + cross + cross.T + H[-1, -1] * np.outer(e, e)
            A[np.diag_indices_from(A)] += 2.0 * c
            mean = model.mean[S] + model.mean[-1] * e
            d = -ridge_solve(A, slope[S] - self.bend * mean)
            wrong = (w[S] == 0.0) & (d * signs[S] <= 0.0)
            if not wrong.any():
                break
            S, d, mean = S[~wrong], np.zeros(0), np.zeros(0)
        move = -self.bend / model.mass - float(mean @ d)
        self.gain = -float(slope[S] @ d) - self.bend * move
        slack, a = _ROUNDING * abs(self.value), 1.0
        if not self.gain > -slack:
            return False
        for _ in range(_HALVINGS):
            x = self.w.copy()
            x[S] += a * d
            x[S] = np.where(x[S] * signs[S] > 0.0, x[S], 0.0)
            x[-1] = float(k @ np.abs(x[:-1]))
            b = self.b + a * move
            t = form.margins(x, b)
            self.monitor.passes += 0.5 * self.cost
            smooth = self._smooth(t)
            value = smooth + self.R.value(x) - float(self.tilt.normal @ x)
            if value <= self.value - _SUFFICIENT * a * self.gain + slack:
                break
            a *= 0.5
        else:
            return False
        self.damping = self._damped(a)
        gained = value < self.value - slack
        self.w, self.b, self.t, self.smooth, self.value = x, b, t, smooth, value
        return gained
