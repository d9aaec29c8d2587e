"""Out-of-core active-set solver for the nearest points of two reduced hulls of rows.

A sample of the rows gives an estimate of w and of the thresholds theta. In one pass the rows far from their
threshold are held, at 0 above it and at the cap below. The other rows are the active set, over which the
problem is solved in memory, from the point that the held rows make. The next pass bounds the optimum over all
rows, which is the certificate. Held rows that turn out to be on the wrong side join the active set with the
weight that they had, and it is solved again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from ucm import native
from ucm.data.first_pass import sampled
from ucm.data.linear_map import ComposedMap, SampleMap, Vec
from ucm.errors import SolverError
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import SEPARATED, ZERO, Monitor
from ucm.forms.out_of_core import HullProof, RowHulls
from ucm.forms.solver import Solver
from ucm.language.contracts import Block, SampleWeights
from ucm.language.domains import CappedSimplex
from ucm.language.losses import HuberHinge
from ucm.solvers.out_of_core.active_set import ActiveSetRun, ActiveSetWeights, PassSums
from ucm.solvers.out_of_core.newton import ClassLoss, RowFunction, RowSums, newton_steps, over_rows

_TINY = float(np.finfo(float).tiny)
_COARSE = 1e-4  # relative gap over the sample
_RESTARTS = 3  # largest number of restarts of an active set over its budget
_FALL = 0.2  # ratio of successive widths of the smoothed problem
_BESIDE = 1.5  # widths on either side of the middle of the zone that the active set covers
_WIDTHS = 20  # the largest number of widths
_GAIN = 1e-3  # predicted relative decrease of F below which the width shrinks
_STEPS = 60  # largest number of steps at one width
_SMALLER = 6  # solves of sample hulls, each with half the caps of the previous solve


def refuse_hulls(inner: Solver, form: RowHulls) -> str | None:
    """Return the reason why the active set does not apply to the hulls of a form; None if it applies."""
    if not form.capped:
        return "it takes weights of rows below caps"
    if MinNorm not in inner.takes:
        return "its inner solver does not take hulls"
    nothing = np.broadcast_to(0.0, (form.n, form.n))  # as many rows as features
    ones, c = (1.0, 1.0), np.ones(form.n)
    c[0] += 0.0 if form.data.plain else 1.0
    return inner.refuse(_problem([nothing] * 2, [c, c], ones, ones, ones, np.zeros(form.n), 1))


def _problem(
    tables: list,
    weights: list[Vec],
    factors: Any,
    caps: Any,
    weight_sums: Any,
    center: Vec,
    stored: int,
) -> MinNorm:
    """Return the nearest-point problem of two reduced hulls in memory and a centre, with masses 1."""
    blocks = []
    for X, c, factor, cap, weight_sum in zip(tables, weights, factors, caps, weight_sums, strict=True):
        sample_weights = None if (c == 1.0).all() else c
        domain = CappedSimplex(float(cap / weight_sum)).bind(SampleWeights(c.size, sample_weights))
        blocks.append(Block(ComposedMap(SampleMap(X), factor=factor * weight_sum), domain))
    return MinNorm(center, tuple(blocks), stored=max(1, stored))


class HullsRun(ActiveSetRun[RowHulls]):
    """State of one out-of-core solve of two reduced hulls.

    Attributes
    ----------
    widest : the reach of the first pass
    """

    widest: Vec
    solved = False
    restarts = 0

    def __init__(self, form: RowHulls, monitor: Monitor, inner: Solver, budget: int) -> None:
        super().__init__(form, monitor, inner, budget)
        self.caps, self.factors = np.array(form.scales), form.factors

    def verified(self, sums: PassSums) -> tuple[Answer, float, float]:
        proof = self._proof(sums, self.solved)
        answer = Answer(w=self.w, rows=proof)
        return answer, -self.form.bounds(proof)[1], self.form.gap(proof)

    def solve(self, sums: PassSums) -> Answer | None:
        form, active = self.form, self.active
        weight_sums = np.array(form.weight_sums) - self.caps * sums.counts[:, 1]
        totals = np.array([c.sum() for c in active.c])
        short = ~((weight_sums > 0.0) & (weight_sums <= self.caps * totals * (1.0 + 1e-12)))
        if short.any():  # the sample misled: the held rows leave no point
            self.widest = np.where(short, 4.0 * self.widest, self.widest)
            self.reach = np.where(short, self.widest, self.reach)
            return None
        if self.monitor.timed_out:  # the remaining weight, spread over the active set, gives a point of U
            active.p = [part * c for part, c in zip(weight_sums / totals, active.c, strict=True)]
            return Answer(w=self.w, rows=self._proof(sums, True)).interrupted()
        self._solve((np.array(form.factors) * self.caps) @ sums.points[:, 1], weight_sums)
        self.solved = True
        self.narrow()
        return None

    # --- the sample --------------------------------------------------------------------------------
    def begin(self) -> None:
        form, sizes = self.form, self.form.data.class_sizes
        X, y = form.data.sample
        least = 4 * form.n + 10
        counts = [int((y > 0.0).sum()), int((y < 0.0).sum())]
        if any(c < min(least, size) for c, size in zip(counts, sizes, strict=True)):
            steps = [max(1, size // max(least, c)) for c, size in zip(counts, sizes, strict=True)]
            X, y = sampled(form.data.source, (steps[0], steps[1]))
            self.monitor.count_read()
        tables, weights = [X[y > 0.0], X[y < 0.0]], [y[y > 0.0], -y[y < 0.0]]
        caps = self.caps * form.data.counts / [float(c.sum()) for c in weights]
        if form.data.plain:
            caps = np.minimum(caps, form.weight_sums)
        self.w = self._direction(tables, weights, caps)
        scores, self.theta = self._thresholds(tables, weights, caps, form.weight_sums)
        self.reach = self.reach_of(X, [np.abs(a - t) for a, t in zip(scores, self.theta, strict=True)])
        self.widest = self.reach.copy()

    def _direction(self, tables: list, weights: list[Vec], caps: Vec) -> Vec:
        """Return w of the hulls of a sample, with caps halved until the hulls are separated.

        It is the first axis if the smallest hulls tried are not separated.
        """
        form = self.form
        if np.dot(form.factors, form.weight_sums) == 0.0 and not sparse.issparse(tables[0]):
            origin = 0.5 * sum(T.mean(axis=0) for T in tables)  # a translation changes no difference
            tables = [T - origin for T in tables]
        for _ in range(_SMALLER):
            problem = _problem(
                tables, weights, form.factors, caps, form.weight_sums, np.zeros(form.n), form.data.stored
            )
            sample_monitor = self.monitor.child(max(_COARSE, self.monitor.tol))
            answer = self.inner.solve(problem, sample_monitor)
            self.monitor.count_work(sample_monitor)
            x = problem.matvec(answer.q)
            norm, size = float(np.linalg.norm(x)), problem.size(answer.q)
            w = x / max(norm, _TINY) if answer.w is None else answer.w
            if norm > 1e-6 * size or problem.lower_bound(w) > SEPARATED * size:
                return w
            uniform = np.array(form.weight_sums) / [float(c.sum()) for c in weights]
            caps = np.maximum(0.5 * caps, uniform)
        return np.eye(1, form.n)[0]

    def _thresholds(
        self, tables: list, weights: list[Vec], caps: Vec, weight_sums: Any
    ) -> tuple[list[Vec], Vec]:
        """Return by class the scores `f_c w'x`, and the thresholds of the weights that minimise w'x."""
        scores = [
            factor * np.asarray(T @ self.w).ravel()
            for factor, T in zip(self.form.factors, tables, strict=True)
        ]
        each = zip(scores, weights, weight_sums, caps, strict=True)
        return scores, np.array([_threshold(*values) for values in each])

    # --- a pass ------------------------------------------------------------------------------------
    def _proof(self, sums: PassSums, solved: bool) -> HullProof:
        form, active, caps = self.form, self.active, np.outer(self.caps, [0.0, 1.0, 1.0])
        totals, points = self.weighted(sums, caps, active.p)
        violation = float(np.abs(totals / form.weight_sums - 1.0).max())
        for cap, p, c in zip(self.caps, active.p, active.c, strict=True):
            if p.size:
                violation = max(violation, float((p / c).max()) / cap - 1.0, -float(p.min()) / cap)
        rows = ActiveSetWeights(form.data.source, self.states, active, caps, active.p)
        losses, ones = self.caps * sums.shortfalls[0], np.ones(len(form.balls))
        return HullProof(
            self.w, -self.theta, ones, losses, points if solved else None, violation, rows, np.zeros(2)
        )

    def restarted(self) -> bool:
        """Start again from a smoothed Newton solve over all rows, for a smaller active set.

        The sizes are half the budget, then a quarter, ...

        False if no reach has so few rows.
        """
        self.restarts += 1
        row = self.active.nbytes / self.active.size
        rows, least = self.budget / row, 4.0 * self.form.n
        if self.restarts > _RESTARTS or rows < 2.0 * least:
            return False
        start = smoothed_newton(
            self.form, self.w, self.theta, self.widest, max(0.5**self.restarts * rows, least),
            over_rows(self.form, self.monitor), lambda: self.monitor.timed_out,
        )  # fmt: skip
        if start is None:
            return False
        self.w, self.theta, self.reach = start
        self.widest, self.solved = self.reach.copy(), False
        self.clear()
        return True

    def _solve(self, held: Vec, left: Vec) -> None:
        """Solve over the active set from the point of the held rows; set w, theta and the weights."""
        form, active = self.form, self.active
        problem = _problem(active.X, active.c, form.factors, self.caps, left, held, form.data.stored)
        q = problem.begin(Answer([p / weight_sum for p, weight_sum in zip(active.p, left, strict=True)]))
        norm = float(np.linalg.norm(problem.matvec(q)))
        # the points of the classes are smaller than those of the held rows and the active set
        inner_monitor = self.monitor.child(self.exact, zero_tol=0.1 * ZERO)
        answer = self.inner.solve(problem, inner_monitor, Answer(q, norm * self.w))
        self.monitor.count_work(inner_monitor)
        active.p = [weight_sum * v for weight_sum, v in zip(left, answer.q, strict=True)]
        x = problem.matvec(answer.q)
        norm = float(np.linalg.norm(x))
        if answer.w is not None:
            self.w = answer.w
        elif norm > 0.0:
            self.w = x / norm
        self.theta = self._thresholds(active.X, active.c, self.caps, left)[1]


def _threshold(a: Vec, weights: Vec, weight_sum: float, cap: float) -> float:
    """Return the multiplier of the sum in `min <a, p>`, `0 <= p <= cap weights`, `sum p = weight_sum`."""
    plain = (weights == 1.0).all()
    low, high = native.fill_to_mass(-a, cap if plain else cap * weights, weight_sum)[2]
    return -high if np.isinf(low) else -0.5 * (low + high)


def smoothed_newton(
    form: RowHulls,
    w: Vec,
    theta: Vec,
    reach: Vec,
    most: float,
    evaluate: Callable[..., RowSums],
    timed_out: Callable[[], bool],
) -> tuple[Vec, Vec, Vec] | None:
    """Return w of length 1, thresholds and a reach with few rows, by smoothed Newton steps; or None.

    The method is Newton's in w and both thresholds, with dual multipliers of the weight sums, so that the
    domain of the weights is a box: for a width delta > 0

        F(w, mu) = 1/2 ||w||_2^2 + sum_c total_c mu_c + cap_c sum_i h((-f_c w'x_i - mu_c) / delta) delta,

    h the Huber function, 0 below 0 and of slope 1 above 1. `q_i = cap_c h'` are weights near the best, and
    the rows with weights between 0 and the cap lie in a zone of this width. A step takes one pass and
    n^2 / 2 + 3 n numbers of a class; the width falls until the rows near the zone are few.

    Parameters
    ----------
    w, theta, reach : the start; w separates the hulls
    most : the largest number of rows
    evaluate : `row_sums` over all rows

    Raises
    ------
    SolverError
        A sum is NaN.
    """
    n, z, width = form.n, np.concatenate([w, -theta]), float(reach.max())
    F = _smoothed(form, width)
    first_sums: RowSums | None = evaluate(*F.message(z))
    size = 0.5 - F.value(z, first_sums) / float(w @ w)
    if size <= 0.0:
        return None
    if size > 0.0:  # the best multiple of w
        z, width, first_sums = size * z, size * width, first_sums._replace(hessian=first_sums.hessian / size)
    delta = width
    for _ in range(_WIDTHS):
        F = _smoothed(form, delta)
        for _, at, sums, value in newton_steps(F, z, evaluate, _STEPS, first_sums):
            first_sums = None
            if np.isnan(value):
                raise SolverError(
                    "rows: expected entries that stay finite numbers, got a NaN in sums over them; see "
                    "that no row changes, scale the features, and solve again"
                )
            if timed_out():
                return None
            if sums is None:
                continue
            zone = delta * np.diagonal(sums.hessian)[n:] / form.scales  # rows of each class
            if zone.min() == 0.0:  # no row determines the threshold
                delta, z = 2.0 * delta, at
                break
            step = F.step(at, sums, value)
            if -float(F.derivatives(at, sums)[0] @ step) > _GAIN * abs(value):
                continue
            if 2.0 * _BESIDE * zone.sum() <= most:
                length = float(np.linalg.norm(at[:n]))
                middle = -(at[n:] + 0.5 * delta) / length
                wide = np.maximum(_BESIDE, n / zone)  # rows enough for a point of n numbers
                return at[:n] / length, middle, wide * delta / length
            delta, z = _FALL * delta, at + step
            break
        else:
            return None
    return None


def _smoothed(form: RowHulls, delta: float) -> RowFunction:
    """Return the function F of `smoothed_newton` for the width delta."""
    fixed, slopes = np.array([0.0, delta]), np.eye(2)
    parts = tuple(
        ClassLoss(HuberHinge(1.0), c, f, scale, fixed, np.stack([slopes[c], np.zeros(2)]))
        for c, (f, scale) in enumerate(zip(form.factors, form.scales, strict=True))
    )
    linear = np.concatenate([np.zeros(form.n), form.weight_sums])
    return RowFunction(form.n, parts, linear, 1.0)
