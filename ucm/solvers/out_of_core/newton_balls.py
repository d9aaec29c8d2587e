"""Newton's method for hulls whose weights lie in balls of conjugates of losses, one pass over rows a step.

With `v_i = (-f_c w'x_i - mu_c) / t_k` the nearest point is w of the least

    1/2 ||w||_2^2 + sum_c mass_c mu_c + sum_k t_k (radius_k + sum_c share_c sum_i l_k(v_i)),

jointly convex in w, mu and t > 0. Its gradient and its Hessian are sums over rows: of `q_i = share l'(v_i)`
and of `share l''(v_i) / t` times the products of (x_i, 1, v_i). A sample gives the start; rows far beyond it
come, and are added to it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear import Vec
from ucm.data.options import COUNT, check_fields
from ucm.data.source import RowSource, as_double, gathered
from ucm.evidence.row_hulls import HullProof, hulls_proven
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.rows import RowHulls
from ucm.forms.solver import Solver
from ucm.language.terms import ConvexLoss
from ucm.solvers.out_of_core.by_rounds import by_rounds
from ucm.solvers.out_of_core.row_derivatives import (
    Message,
    RowSums,
    added,
    gradient_hessian,
    row_derivatives,
    scaled_solve,
    slopes,
)

__all__ = ["NewtonBalls"]

_LIMIT = 60  # steps
_COARSE = 1e-5  # relative gap over the sample
_SHRINK = 0.5  # of t in one step, at most; below it w does not follow where t falls to 0
_FAR = 1e150
_NEAR = 1e-9
_FLOOR = 0.1  # of the tolerance: what t that are held above 0 cost
_MUCH = 10.0  # mass, which tells of rows far beyond those of the sample
_MOST = 100  # of these from a block
_FETCHES = 4
_LITTLE = 1e-2  # of the support


def _beyond(
    X: Any, y: Any, w: Vec, mu: Vec, t: Vec, factors: Any, losses: Any, top: Vec
) -> tuple[Any, Vec]:
    """The rows with a v above `top`, `_MOST` of a class in a block at most."""
    y, scores = np.asarray(y, dtype=np.float64), np.asarray(as_double(X) @ w).ravel()
    rows = []
    for c, own in enumerate((y > 0.0, y <= 0.0)):
        index = np.flatnonzero(own)
        v = slopes(scores[index], c, mu, t, factors, losses)[0]
        last = max(v.size - _MOST, 0)
        above = np.argpartition(v, last)[last:] if last else np.arange(v.size)
        rows.append(index[above[v[above] > top[c]]])
    part = np.sort(np.concatenate(rows))
    return as_double(X[part]), y[part]


def _weights(
    X: Any, y: Any, w: Vec, mu: Vec, t: Vec, factors: Any, shares: Any, losses: Any
) -> tuple[Vec, NDArray[np.intp], Vec]:
    positive, scores = np.asarray(y) > 0.0, np.asarray(as_double(X) @ w).ravel()
    q = np.empty(scores.size)
    for c, own in enumerate((positive, ~positive)):
        q[own] = (
            shares[c]
            * np.abs(np.asarray(y)[own])
            * slopes(scores[own], c, mu, t, factors, losses)[1]
        )
    return q, np.where(positive, 0, 1), np.abs(y)


@dataclass(frozen=True)
class BallRows:
    """The weights of all rows, by one round: `scale q_i + shift c_i` in each class."""

    source: RowSource
    message: Message
    scale: Vec
    shift: Vec

    def weights(self, factors: tuple[float, float] = (1.0, 1.0)) -> Vec:
        size = np.abs(factors)
        return np.concatenate(
            [
                size[side] * (self.scale[side] * q + self.shift[side] * c)
                for q, side, c in self.source.map_reduce(_weights, *self.message)
            ]
        )

    def of(self, X: Any, y: Vec) -> Vec:
        """The weights of these rows."""
        q, side, c = _weights(X, y, *self.message)
        return self.scale[side] * q + self.shift[side] * c


@dataclass(frozen=True)
class NewtonBalls(Solver[RowHulls]):
    """Newton's method from sums over all rows of out-of-core data.

    Parameters
    ----------
    max_order
        Largest number of features.
    """

    max_order: int = 2000
    name: ClassVar[str] = "newton-balls"

    def __post_init__(self) -> None:
        check_fields(self, max_order=COUNT)

    def refuse(self, form: RowHulls) -> str | None:
        if not all(loss.smooth() for loss, _ in form.balls):
            return "it takes balls of smooth losses"
        if form.n > self.max_order:
            return f"its linear systems would have order {form.n}, above {self.max_order}"
        return None

    def predicted_passes(self, form: RowHulls) -> float:
        return 7.0

    def solve(self, form: RowHulls, monitor: Monitor, start: Answer | None = None) -> Answer:
        return by_rounds(lambda: self._solve(form, monitor), form.data.stored, monitor)

    def _solve(self, form: RowHulls, monitor: Monitor) -> Answer:

        def over_rows(*message: Any, kernel: Any = row_derivatives, merge: Any = added) -> Any:
            monitor.count_read()
            return form.data.source.map_reduce(kernel, *message, merge=merge)

        X, y = form.data.sample
        counts = float(y[y > 0.0].sum()), -float(y[y < 0.0].sum())
        shares = [s * m / k for s, m, k in zip(form.shares, form.data.counts, counts, strict=True)]
        each = np.where(y > 0.0, *shares)
        z = np.concatenate([np.zeros(form.n), [-1.0, -1.0], np.ones(len(form.balls))])
        found: RowSums | None = None
        wholes = form.shares[0] * form.data.counts[0], form.shares[1] * form.data.counts[1]
        for _ in range(_FETCHES):
            own = each[y > 0.0], each[y < 0.0]
            part = y.size / form.data.m

            def over_sample(*message: Any, X: Any = X, y: Vec = y, part: float = part) -> RowSums:
                monitor.passes += part
                return row_derivatives(X, y, *message)

            sums = float(own[0] @ y[y > 0.0]), -float(own[1] @ y[y < 0.0])
            sample = _Descent(form, own, sums)
            z = sample.run(z, over_sample, monitor, max(_COARSE, monitor.tol), _LIMIT)[0]
            message = sample.message(z)
            top = over_sample(*message).top
            found = all_rows = over_rows(*_Descent(form, form.shares, wholes).message(z))
            if np.all(all_rows.totals <= _MUCH) or monitor.late:
                break
            w, mu, t, factors, _, kinds = message
            beyond = over_rows(w, mu, t, factors, kinds, top, kernel=_beyond, merge=_joined)
            if not beyond[1].size:
                break
            X, y = gathered([(X, y), beyond])
            each = np.concatenate([each, np.where(beyond[1] > 0.0, *form.shares)])
        whole = _Descent(form, form.shares, wholes, True)
        return whole.run(z, over_rows, monitor, monitor.tol, monitor.limit(_LIMIT), found)[1]


def _where(loss: ConvexLoss, slope: float) -> float:
    """The least v of a slope that the loss has."""

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


@dataclass
class _Descent:
    """Newton's method over a sample, or over all rows.

    While the bound S of `max over the set of -w'x` is not negative, S itself falls, the sum of t staying as
    it is: it ends at weights of the point 0 within the balls, or becomes negative, and w separates the set
    from 0. Then w, mu and t have the length at which `||w||^2 / 2 + S` is least.
    """

    form: RowHulls
    shares: Any  # of class +1 and of class -1: of each row, or of all
    wholes: tuple[float, float]  # their sums, times the weights of the rows
    all_rows: bool = False

    @functools.cached_property
    def low(self) -> Vec:
        """By class, the v at which weights that are all the same have its mass."""
        form, found = self.form, []
        for k, mass, whole in zip(form.of, form.masses, self.wholes, strict=True):
            found.append(_where(form.balls[k][0], mass / whole))
        return np.array(found)

    def message(self, z: Vec) -> Message:
        form, of = self.form, list(self.form.of)
        w, mu, t = z[: form.n], z[form.n : form.n + 2], z[form.n + 2 :]
        losses = tuple(form.balls[k][0] for k in of)
        return w, mu, t[of], form.factors, self.shares, losses

    def run(
        self,
        z: Vec,
        sums: Any,
        monitor: Monitor,
        tol: float,
        limit: int,
        known: RowSums | None = None,
    ) -> tuple[Vec, Answer]:
        """From z on, where the sums may be known."""
        form, n = self.form, self.form.n
        before: tuple[Vec, float] | None = None
        answer = Answer(w=np.zeros(n))
        for k in range(limit + 1):
            found = sums(*self.message(z)) if known is None else known
            known = None
            support = form.support(z[n : n + 2], z[n + 2 :], found.losses)
            if not z[:n].any():  # the support function of every set is 0 there: less is rounding
                support = max(support, 0.0)
            if np.isnan(support) and self.all_rows:  # numbers at the first look only
                return z, Answer(w=z[:n], rows=self.proof(z, found))
            if before is None and not np.isfinite(support):
                return z, answer.ended(
                    "stalled", "weights of far rows overflow; scale the features"
                )
            shift = self.shift(z, found)
            if shift.any():
                z = z + np.concatenate([np.zeros(n), shift, np.zeros(z.size - n - 2)])
                continue
            if support < 0.0:  # scaled: v, and what depends on it alone, stays
                size = -support / float(z[:n] @ z[:n])
                z, found = size * z, found._replace(moments=found.moments / size)
                value = 0.5 * size * support
            else:
                value = support / float(np.sum(z[n + 2 :]))
            if before is not None and not value <= before[1] + 1e-14 * abs(before[1]):
                if np.abs(z - before[0]).max() <= 1e-12 * np.abs(z).max():
                    return before[0], answer.ended("stalled", "no step leads down")
                z = before[0] + 0.25 * (z - before[0])
                continue
            proof = self.proof(z, found)
            certificate, points = hulls_proven(form, proof), np.array(proof.points)
            answer = Answer(w=z[:n] / (np.linalg.norm(z[:n]) or 1.0), rows=proof)
            norms = [float(np.linalg.norm(point)) for point in points]
            gap = certificate.relative_gap
            if self.all_rows:
                monitor.latest = answer if certificate.kind == "global" else None
                if monitor.report(k, certificate.dual, gap):
                    return z, answer.interrupted()
            norm = float(np.linalg.norm(np.array(form.factors) @ points))
            size = float(np.abs(form.factors) @ norms)
            if monitor.reached(gap) or monitor.at_zero(norm, -certificate.primal, size):
                return z, answer
            if monitor.late and z[:n].any():  # w = 0 bounds nothing
                return z, answer.interrupted()
            monitor.systems += 1
            before = z, value
            z = z + self.step(z, found, support, _FLOOR * tol)
        return z, answer.ended("max_iter", f"{limit} steps did not reach the tolerance")

    def proof(self, z: Vec, found: RowSums) -> HullProof:
        form, n = self.form, self.form.n
        scale, shift = form.within(found.totals, found.heights)
        points = scale[:, None] * found.sums + (shift / form.shares)[:, None] * found.all
        rows = BallRows(form.data.source, self.message(z), scale, shift)
        return HullProof(
            z[:n], z[n : n + 2], z[n + 2 :], found.losses, points, rows=rows, heights=found.heights
        )

    def shift(self, z: Vec, found: RowSums) -> Vec:
        """What brings each mu to where the largest weight of its class is the mean at least."""
        t, below = z[self.form.n + 2 :][list(self.form.of)], found.top - self.low
        return t * np.where(below < -_NEAR * (1.0 + np.abs(self.low)), below, 0.0)

    def step(self, z: Vec, found: RowSums, support: float, tol: float) -> Vec:
        """Newton's step, no t below where it costs more than this part of the support."""
        form, n, separated = self.form, self.form.n, support < 0.0
        g, H = gradient_hessian(form, z, found, separated)
        t = z[n + 2 :]
        if not separated:
            return self._within(g, H, t, support)
        room, share = form.rooms, support / t.size  # a ball that does not bind has t = 0
        floor = -tol * share / np.where(room > 0.0, room, np.inf)
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

    def _within(self, g: Vec, H: NDArray[np.float64], t: Vec, support: float) -> Vec:
        """The step that leaves t, or, where that gains little, their sum."""
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
