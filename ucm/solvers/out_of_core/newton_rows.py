"""Newton solver over rows for smooth losses with the squared l2 norm, and for balls of weights.

For losses the Hessian is `2 lam I + sum_i d_i z_i z_i'`, z_i a sample and a 1, with the curvature
`d_i = sum_k C_k l_k''(o_k - t_i)` at its margin t_i. It is a sum over rows, as are the gradient, the value
and the slopes of the dual point.

For hulls whose weights lie in balls of conjugates of losses, the nearest point is w of the least

    1/2 ||w||_2^2 + sum_c total_c mu_c + sum_k t_k (radius_k + sum_c scale_c sum_i l_k(v_i)),

`v_i = (-f_c w'x_i - mu_c) / t_k`, jointly convex in w, mu and t > 0. Its gradient and its Hessian are sums
over rows: of `q_i = scale l'(v_i)` and of `scale l''(v_i) / t` times the products of (x_i, 1, v_i). A sample
gives the start; rows far beyond the sample join it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ucm.data.first_pass import outermost
from ucm.data.linear_map import Vec
from ucm.data.options import COUNT, option
from ucm.data.source import gathered
from ucm.forms.monitor import Monitor
from ucm.forms.out_of_core import HullProof, LossProof, LossSums, RowHulls, RowLosses
from ucm.forms.solver import Answer, Solver
from ucm.language.terms import ConvexLoss, last
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

_SHRINK = 0.5  # least ratio of t after a step to t before; w lags where t falls faster
_FAR = 1e150  # the largest v that is tried
_NEAR = 1e-9  # rounding of v, relative


@dataclass(frozen=True)
class NewtonRows(Solver[RowHulls | RowLosses]):
    """Solve out-of-core problems of differentiable losses, or balls of weights, by Newton's method over rows.

    Parameters
    ----------
    max_order
        Largest number of features.
    """

    max_order: int = option(COUNT, 2000)
    name: ClassVar[str] = "newton-rows"

    def refuse(self, form: RowHulls | RowLosses) -> str | None:
        why = form.not_smooth()
        if why is None and form.n > self.max_order:
            why = f"its linear systems would have order {form.n}, above {self.max_order}"
        return why

    def solve(self, form: RowHulls | RowLosses, monitor: Monitor, start: Answer | None = None) -> Answer:
        def run() -> Answer:
            return solve_balls(form, monitor) if isinstance(form, RowHulls) else solve_losses(form, monitor)

        return by_rounds(run, form.data.stored, monitor)


# --- losses ------------------------------------------------------------------------------------------
def solve_losses(form: RowLosses, monitor: Monitor) -> Answer:
    """Solve smooth losses: over a sample, then over all rows, with w = 0 to fall back on."""
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
        if not self.form.split.G.intercept:
            g[-1], H[-1], H[:, -1] = 0.0, 0.0, 0.0
        H[-1, -1] = H[-1, -1] * (1.0 + 1e-12) or 1.0  # a ridge for the rounding of the curvature in b
        return -scaled_solve(H, g)

    def by_class(self, values: Vec) -> Vec:
        """Return the sums by class of values given by part."""
        masks = np.array([[part.side == c for part in self.parts] for c in (0, 1)])
        return masks.astype(np.float64) @ values

    def answer(self, z: Vec, sums: RowSums, value: float) -> tuple[Answer, float, float]:
        w, b, total = z[:-1], float(z[-1]), float(sums.losses.sum())
        slopes, points = self.by_class(sums.totals), self.by_class(sums.points)
        offsets = np.array([part.loss.offset for part in self.parts])
        gains = self.by_class(offsets * sums.totals - sums.heights)
        rows = RowWeights(self.form.data.source, self.message(z))
        proof = LossProof(w, b, total, LossSums(slopes, gains, points), rows)
        return Answer(w=w, b=b, rows=proof), value, self.form.gap(proof)


# --- balls -------------------------------------------------------------------------------------------
def solve_balls(form: RowHulls, monitor: Monitor) -> Answer:
    """Solve hulls with balls of weights: over a sample, extended by outlying rows, then over all rows.

    A larger sample begins anew: where the weights of the new rows overflow, no step leads back.
    """
    X, y = form.data.scaled_sample
    start = np.concatenate([np.zeros(form.n), [-1.0, -1.0], np.ones(len(form.balls))])
    z, function, evaluate_all = start, Balls(form, form.data.counts, monitor.tol), over_rows(form, monitor)
    sums: RowSums | None = None
    for _ in range(4):
        counts = float(y[y > 0.0].sum()), -float(y[y < 0.0].sum())
        evaluate = over_sample(form, X, y, monitor)
        sample_monitor = monitor.child(monitor.tol)
        new, _ = minimise(Balls(form, counts, monitor.tol), start, evaluate, sample_monitor)
        if not np.isfinite(new).all():  # entries of far rows overflow
            break
        z = new
        message = function.message(z)
        sums = evaluate_all(*message)
        # larger sums of weights come from rows far beyond those of the sample
        if np.all(sums.totals <= 10.0) or monitor.timed_out:
            break
        monitor.count_read()
        w, mu, t = z[: form.n], z[form.n : form.n + 2], z[form.n + 2 :][list(form.of)]
        directions = -np.outer(form.factors, w), np.array([1.0, -1.0])
        top = evaluate(*message).top
        tops = mu + t * (top + _NEAR * (1.0 + np.abs(top)))
        # at most 100 rows from a block
        parts = form.data.source.map_reduce(outermost, *directions, tops, 100)
        beyond = gathered([part[:2] for part in parts])
        if not beyond[1].size:
            break
        X, y = gathered([(X, y), beyond])
    return minimise(function, z, evaluate_all, monitor, sums=sums)[1]


def _argument(loss: ConvexLoss, slope: float) -> float:
    """Return the least v at which the derivative of a loss is at least `slope`."""

    def below(v: float) -> bool:
        return float(loss.gradient(np.array([v]))[0]) < slope

    low, high = -1.0, 1.0
    while not below(low) and low > -_FAR:
        low *= 2.0
    while below(high) and high < _FAR:
        high *= 2.0
    return last(below, low, high)[1]


class Balls(RowFunction):
    """Function `||w||^2 / 2 + S(w, mu, t)`, S an upper bound of the support `max over the set of -w'x`.

    While S is not negative, S itself falls, the sum of t staying as it is: it ends at weights of the point 0
    within the balls, or becomes negative, and w separates the set from 0. Then w, mu and t have the length at
    which `||w||^2 / 2 + S` is least.

    counts : the weights of the rows of each class
    tol : relative gap
    """

    def __init__(self, form: RowHulls, counts: tuple[float, float], tol: float) -> None:
        self.form, self.counts, self.tol = form, counts, tol
        parts = []
        for c, k in enumerate(form.of):
            slopes = np.zeros((2, 2 + len(form.balls)))
            slopes[0, c] = slopes[1, 2 + k] = 1.0
            loss, factor, scale = form.balls[k][0], form.factors[c], form.scales[c]
            parts.append(ClassLoss(loss, c, factor, scale, np.zeros(2), slopes))
        linear = np.concatenate([np.zeros(form.n), form.weight_sums, form.radii])
        super().__init__(form.n, parts, linear, 0.0)

    @functools.cached_property
    def low(self) -> Vec:
        """Argument v of each class at which equal weights sum to the weight sum of the class."""
        sizes = zip(self.form.weight_sums, self.form.scales, self.counts, strict=True)
        means = [weight_sum / (scale * count) for weight_sum, scale, count in sizes]
        return np.array([_argument(p.loss, s) for p, s in zip(self.parts, means, strict=True)])

    def value(self, z: Vec, sums: RowSums) -> float:
        """Return S at z, clipped to at least 0 at w = 0."""
        support = super().value(z, sums)
        return support if z[: self.n].any() else max(support, 0.0)

    def scaled(self, z: Vec, sums: RowSums, value: float) -> tuple[Vec, RowSums, float]:
        n = self.form.n
        if not value < 0.0:
            return z, sums, value / float(np.sum(z[n + 2 :]))
        size = -value / float(z[:n] @ z[:n])
        sums = sums._replace(hessian=sums.hessian / size)  # v stays
        return size * z, sums, 0.5 * size * value

    def corrected(self, z: Vec, sums: RowSums) -> Vec | None:
        """Return z with each mu low enough that the largest weight is at least the mean; None if it is."""
        n = self.form.n
        t, below = z[n + 2 :][list(self.form.of)], sums.top - self.low
        shift = t * np.where(below < -_NEAR * (1.0 + np.abs(self.low)), below, 0.0)
        if not shift.any():
            return None
        return z + np.concatenate([np.zeros(n), shift, np.zeros(z.size - n - 2)])

    def answer(self, z: Vec, sums: RowSums, value: float) -> tuple[Answer, float, float]:
        form, n = self.form, self.form.n
        w = z[:n]
        scale, shift = form.within(sums.totals, sums.heights)
        points = scale[:, None] * sums.points + shift[:, None] * sums.samples
        proof = HullProof(
            w, z[n : n + 2], z[n + 2 :], sums.losses, points,
            rows=RowWeights(form.data.source, self.message(z), scale, shift), heights=sums.heights,
        )  # fmt: skip
        answer = Answer(w=w / (np.linalg.norm(w) or 1.0), rows=proof)
        return answer, -form.bounds(proof)[1], form.gap(proof)

    def step(self, z: Vec, sums: RowSums, value: float) -> Vec:
        """Return the Newton step; no t falls below its half, or a floor whose cost is a small part."""
        form, n, separated = self.form, self.form.n, value < 0.0
        (g, H), t = self.derivatives(z, sums), z[n + 2 :]
        if not separated:
            return self._step_within(g, H, t, value * float(t.sum()))
        g[:n] += z[:n]
        H[np.arange(n), np.arange(n)] += 1.0
        # a ball that does not bind has t = 0; in units of z the support is twice the value
        slacks, per_ball = form.slacks, 2.0 * value / t.size
        # each t held above 0 costs a tenth of the tolerance at most
        floor = -0.1 * self.tol * per_ball / np.where(slacks > 0.0, slacks, np.inf)
        low = np.minimum(np.maximum(_SHRINK * t, floor) - t, 0.0)
        step, held = -scaled_solve(H, g), np.zeros(t.size, dtype=bool)
        while np.any(step[n + 2 :][~held] < low[~held]):
            held |= step[n + 2 :] < low
            fixed = n + 2 + np.flatnonzero(held)
            rows = np.delete(np.arange(z.size), fixed)
            step[fixed] = low[held]
            remainder = g[rows] + H[np.ix_(rows, fixed)] @ step[fixed]
            step[rows] = -scaled_solve(H[np.ix_(rows, rows)], remainder)
        return step

    def slope(self, z: Vec, sums: RowSums, step: Vec) -> float:
        return 0.0  # z is rescaled after each step

    def _step_within(self, g: Vec, H: NDArray[np.float64], t: Vec, support: float) -> Vec:
        """Return the Newton step with t fixed; if its gain is small, the step with the sum of t fixed."""
        first_t = g.size - t.size
        step = np.zeros(g.size)
        step[:first_t] = -scaled_solve(H[:first_t, :first_t], g[:first_t])
        if t.size == 1 or -float(g @ step) > 1e-2 * support:
            return step
        P = np.eye(g.size)[:, : g.size - 1]
        P[-1, -1] = -1.0
        step = -P @ scaled_solve(P.T @ H @ P, P.T @ g)
        dt = step[first_t:]
        longest = np.min(np.where(dt < 0.0, (1.0 - _SHRINK) * t / np.maximum(-dt, 1e-300), np.inf))
        return min(1.0, float(longest)) * step
