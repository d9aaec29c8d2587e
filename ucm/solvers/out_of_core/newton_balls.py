"""Newton's method for hulls whose weights lie in balls of conjugates of losses.

With `v_i = (-f_c w'x_i - mu_c) / t_k` the nearest point is w of the least

    1/2 ||w||_2^2 + sum_c mass_c mu_c + sum_k t_k (radius_k + sum_c share_c sum_i l_k(v_i)),

jointly convex in w, mu and t > 0. Its gradient and its Hessian are sums over rows: of `q_i = share l'(v_i)`
and of `share l''(v_i) / t` times the products of (x_i, 1, v_i). A sample gives the start; rows far beyond it
come, and are added to it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import Vec
from ucm.data.source import as_double, gathered
from ucm.evidence.row_hulls import HullProof, hulls_proven
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.out_of_core import RowHulls
from ucm.forms.solution import Certificate
from ucm.language.terms import ConvexLoss
from ucm.solvers.out_of_core.newton import RowNewton, over_rows, over_sample
from ucm.solvers.out_of_core.row_sums import ClassLoss, RowSums, RowWeights, scaled_solve

__all__ = ["solve_balls"]

_SHRINK = 0.5  # of t in one step, at most; below it w does not follow where t falls to 0
_FAR = 1e150
_NEAR = 1e-9
_FLOOR = 0.1  # of the tolerance: the cost of t that are held above 0
_LARGE = 10.0  # mass that indicates rows far beyond the rows of the sample
_MOST = 100  # of these rows from a block
_FETCHES = 4
_LITTLE = 1e-2  # of the support


def _beyond(
    X: Any, y: Any, w: Vec, u: Vec, parts: Sequence[ClassLoss], top: Vec
) -> tuple[Any, Vec]:
    """Return the rows with a v above `top`, at most `_MOST` of a class in a block."""
    y, scores = np.asarray(y, dtype=np.float64), np.asarray(as_double(X) @ w).ravel()
    chosen = []
    for part, own, limit in zip(parts, (y > 0.0, y <= 0.0), top, strict=True):
        rows = np.flatnonzero(own)
        v = part.points(scores[rows], u)
        last = max(v.size - _MOST, 0)
        largest = np.argpartition(v, last)[last:] if last else np.arange(v.size)
        chosen.append(rows[largest[v[largest] > limit]])
    index = np.sort(np.concatenate(chosen))
    return as_double(X[index]), y[index]


def solve_balls(form: RowHulls, monitor: Monitor) -> Answer:
    """Solve over a sample, which rows far beyond it join, then over all rows."""
    X, y = form.data.scaled_sample
    z = np.concatenate([np.zeros(form.n), [-1.0, -1.0], np.ones(len(form.balls))])
    function, all_rows = Balls(form, form.data.counts, monitor.tol), over_rows(form, monitor)
    found: RowSums | None = None
    for _ in range(_FETCHES):
        counts = float(y[y > 0.0].sum()), -float(y[y < 0.0].sum())
        sums = over_sample(form, X, y, monitor)
        own = monitor.child(monitor.tol)
        z, _ = Balls(form, counts, monitor.tol).minimise(z, sums, own)
        message = function.message(z)
        found = all_rows(*message)
        if np.all(found.totals <= _LARGE) or monitor.timed_out:
            break
        monitor.count_read()
        top = sums(*message).top
        beyond = form.data.source.map_reduce(_beyond, *message, top, merge=_joined)
        if not beyond[1].size:
            break
        X, y = gathered([(X, y), beyond])
    return function.minimise(z, all_rows, monitor, known=found)[1]


def _argument(loss: ConvexLoss, slope: float) -> float:
    """Return the least v at which the loss has a slope."""

    def above(v: float) -> bool:
        return float(loss.gradient(np.array([v]))[0]) >= slope

    low, high = -1.0, 1.0
    while above(low) and low > -_FAR:
        low *= 2.0
    while not above(high) and high < _FAR:
        high *= 2.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if above(middle) else (middle, high)
    return high


def _joined(a: Any, b: Any) -> Any:
    return gathered([a, b])


class Balls(RowNewton):
    """`||w||^2 / 2 + S(w, mu, t)` for the bound S of `max over the set of -w'x`.

    While S is not negative, S itself falls, the sum of t staying as it is: it ends at weights of the point 0
    within the balls, or becomes negative, and w separates the set from 0. Then w, mu and t have the length at
    which `||w||^2 / 2 + S` is least.

    Attributes
    ----------
    counts : the weights of the rows of each class
    tol : relative gap
    """

    def __init__(self, form: RowHulls, counts: tuple[float, float], tol: float) -> None:
        self.form, self.counts, self.tol = form, counts, tol
        parts = []
        for c, k in enumerate(form.of):
            slopes = np.zeros((2, 2 + len(form.balls)))
            slopes[0, c] = slopes[1, 2 + k] = 1.0
            loss, factor, share = form.balls[k][0], form.factors[c], form.shares[c]
            parts.append(ClassLoss(loss, c, factor, share, np.zeros(2), slopes))
        linear = np.concatenate([np.zeros(form.n), form.masses, form.radii])
        super().__init__(form.n, tuple(parts), linear, 0.0)

    @functools.cached_property
    def low(self) -> Vec:
        """By class, the v at which equal weights have its mass."""
        sizes = zip(self.form.masses, self.form.shares, self.counts, strict=True)
        means = [mass / (share * count) for mass, share, count in sizes]
        return np.array([_argument(p.loss, s) for p, s in zip(self.parts, means, strict=True)])

    def value(self, z: Vec, found: RowSums) -> float:
        """Return S; at w = 0 it is not negative, and less is rounding."""
        support = super().value(z, found)
        return support if z[: self.n].any() else max(support, 0.0)

    def scaled(self, z: Vec, found: RowSums, value: float) -> tuple[Vec, RowSums, float]:
        n = self.form.n
        if not value < 0.0:
            return z, found, value / float(np.sum(z[n + 2 :]))
        size = -value / float(z[:n] @ z[:n])
        found = found._replace(hessian=found.hessian / size)  # v stays
        return size * z, found, 0.5 * size * value

    def corrected(self, z: Vec, found: RowSums) -> Vec | None:
        """Return z with each mu lowered to where the largest weight of its class is the mean at least."""
        n = self.form.n
        t, below = z[n + 2 :][list(self.form.of)], found.top - self.low
        shift = t * np.where(below < -_NEAR * (1.0 + np.abs(self.low)), below, 0.0)
        if not shift.any():
            return None
        return z + np.concatenate([np.zeros(n), shift, np.zeros(z.size - n - 2)])

    def answer(self, z: Vec, found: RowSums) -> tuple[Answer, Certificate]:
        form, n = self.form, self.form.n
        w = z[:n]
        scale, shift = form.within(found.totals, found.heights)
        points = scale[:, None] * found.points + shift[:, None] * found.samples
        proof = HullProof(
            w, z[n : n + 2], z[n + 2 :], found.losses, points,
            rows=RowWeights(form.data.source, self.message(z), scale, shift), heights=found.heights,
        )  # fmt: skip
        answer = Answer(w=w / (np.linalg.norm(w) or 1.0), rows=proof)
        return answer, hulls_proven(form, proof)

    def at_zero(self, answer: Answer, certificate: Certificate, monitor: Monitor) -> bool:
        norm, size = self.form.norm_and_size(answer.rows.points)
        return monitor.at_zero(norm, -certificate.primal, size)

    def step(self, z: Vec, found: RowSums, value: float) -> Vec:
        """Return Newton's step, no t below where it costs more than a part of the support."""
        form, n, separated = self.form, self.form.n, value < 0.0
        (g, H), t = self.derivatives(z, found), z[n + 2 :]
        if not separated:
            return self._step_within(g, H, t, value * float(t.sum()))
        g[:n] += z[:n]
        H[np.arange(n), np.arange(n)] += 1.0
        # a ball that does not bind has t = 0; in units of z the support is twice the value
        room, share = form.rooms, 2.0 * value / t.size
        floor = -_FLOOR * self.tol * share / np.where(room > 0.0, room, np.inf)
        low = np.minimum(np.maximum(_SHRINK * t, floor) - t, 0.0)
        step, held = -scaled_solve(H, g), np.zeros(t.size, dtype=bool)
        while np.any(step[n + 2 :][~held] < low[~held]):
            held |= step[n + 2 :] < low
            fixed = n + 2 + np.flatnonzero(held)
            rows = np.delete(np.arange(z.size), fixed)
            step[fixed] = low[held]
            rest = g[rows] + H[np.ix_(rows, fixed)] @ step[fixed]
            step[rows] = -scaled_solve(H[np.ix_(rows, rows)], rest)
        return step

    def _step_within(self, g: Vec, H: NDArray[np.float64], t: Vec, support: float) -> Vec:
        """Return the step that leaves t or, where that gains little, the sum of t."""
        rest = g.size - t.size
        step = np.zeros(g.size)
        step[:rest] = -scaled_solve(H[:rest, :rest], g[:rest])
        if t.size == 1 or -float(g @ step) > _LITTLE * support:
            return step
        P = np.eye(g.size)[:, : g.size - 1]
        P[-1, -1] = -1.0
        step = -P @ scaled_solve(P.T @ H @ P, P.T @ g)
        dt = step[rest:]
        room = np.min(np.where(dt < 0.0, (1.0 - _SHRINK) * t / np.maximum(-dt, 1e-300), np.inf))
        return min(1.0, float(room)) * step
