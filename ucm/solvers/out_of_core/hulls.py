"""Out-of-core active set for two reduced hulls of rows: sample, screen, solve, verify.

A sample of the rows gives an estimate of w and of the thresholds theta. In one pass the rows far from their
threshold are held, at 0 above it and at the cap below. The other rows are the active set, over which the
problem is solved in memory, from the point that the held rows make. The next pass bounds the optimum over all
rows, which is the certificate. Held rows that turn out to be on the wrong side join the active set with the
weight that they had, and it is solved again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ucm import native
from ucm.data.first_pass import taken
from ucm.data.linear_map import Vec
from ucm.data.maps import ComposedMap, SampleMap
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import SEPARATED, ZERO, Monitor
from ucm.forms.out_of_core import HullProof, RowHulls
from ucm.forms.solver import Solver
from ucm.language.contracts import Block, SampleWeights
from ucm.language.domains import CappedSimplex
from ucm.solvers.out_of_core.active_set import LEAST, ActiveSetRun, ActiveSetWeights, PassSums
from ucm.solvers.out_of_core.newton import over_rows
from ucm.solvers.out_of_core.smoothed_newton import smoothed_newton

_TINY = float(np.finfo(float).tiny)
_COARSE = 1e-4  # relative gap over the sample
_LIMIT = 30  # passes
_RESTARTS = 3  # of an active set over its budget
_SMALLER = 6  # hulls of a sample that are tried, each with half the caps of the one before


def refuse_hulls(inner: Solver[Any], form: RowHulls) -> str | None:
    """Return the reason for which the hulls of a form have no active set, or None."""
    if not form.capped:
        return "it takes weights of rows below caps"
    if MinNorm not in inner.takes:
        return "its inner solver does not take hulls"
    nothing = np.broadcast_to(0.0, (form.n, form.n))  # as many rows as features
    ones, c = (1.0, 1.0), np.ones(form.n)
    c[0] += 0.0 if form.data.plain else 1.0
    return inner.refuse(_problem([nothing] * 2, [c, c], ones, ones, ones, np.zeros(form.n), 1))


def _problem(
    tables: list[Any],
    weights: list[Vec],
    factors: Any,
    caps: Any,
    masses: Any,
    center: Vec,
    stored: int,
) -> MinNorm:
    """Return the problem of two hulls of rows in memory and a point, their weights in parts of the masses."""
    blocks = []
    for X, c, factor, cap, mass in zip(tables, weights, factors, caps, masses, strict=True):
        given = None if (c == 1.0).all() else c
        domain = CappedSimplex(float(cap / mass)).bind(SampleWeights(c.size, given))
        blocks.append(Block(ComposedMap(SampleMap(X), factor=factor * mass), domain))
    return MinNorm(center, tuple(blocks), stored=max(1, stored))


class HullsRun(ActiveSetRun[RowHulls]):
    """The state of one solve.

    Attributes
    ----------
    w : (n,) of length 1
    theta : the thresholds of both classes
    first : the reach of the first pass
    """

    w: Vec
    theta: Vec
    first: Vec

    def __init__(self, form: RowHulls, monitor: Monitor, inner: Solver[Any], budget: int) -> None:
        super().__init__(form, monitor, inner, budget)
        self.caps, self.exact = np.array(form.shares), 0.3 * monitor.tol

    def run(self) -> Answer:
        form, monitor, limit = self.form, self.monitor, self.monitor.limit(_LIMIT)
        self._sample()
        self.clear()
        answer, solved, restarts = Answer(w=self.w), False, 0
        for k in range(limit + 1):
            message = self.w, self.theta, self.reach, form.factors, -np.inf, ()
            new, sums = self.screened(*message)
            proof = self._proof(sums, solved)
            answer, gap = Answer(w=self.w, rows=proof), form.gap(proof)
            if solved:
                monitor.latest = answer
                stop = monitor.report(k, -form.bounds(proof)[1], gap)
                if monitor.reached(gap):
                    return answer
                if stop:
                    return answer.interrupted()
                ended = self.refined(answer, gap) if new == 0 else None
                if ended is not None:
                    return ended
            if k == limit:
                return answer.ended("max_iter", f"{k} rounds left a relative gap of {gap:.2g}")
            if self.active.nbytes > self.budget:
                restarts += 1
                if restarts > _RESTARTS or not self._restart(restarts):
                    return self.over_budget(answer, "near their thresholds")
                solved = False
                continue
            left = np.array(form.masses) - self.caps * sums.counts
            weights = np.array([c.sum() for c in self.active.c])
            short = ~((left > 0.0) & (left <= self.caps * weights * (1.0 + 1e-12)))
            if short.any():  # the sample misled: the held rows leave no point
                self.reach = np.where(short, 4.0 * self.first, self.reach)
                self.first = np.where(short, 4.0 * self.first, self.first)
                continue
            if monitor.timed_out:  # the mass that is left, spread over the active set, is a point of U
                spread = zip(left / weights, self.active.c, strict=True)
                self.active.p = [part * c for part, c in spread]
                return Answer(w=self.w, rows=self._proof(sums, True)).interrupted()
            self._solve((np.array(form.factors) * self.caps) @ sums.points, left)
            solved = True
            self.narrow()
        return answer.ended("stalled", "the rows held leave no point; raise tol")

    # --- the sample --------------------------------------------------------------------------------
    def _sample(self) -> None:
        """Set w, theta and reach from a sample."""
        form, sizes = self.form, self.form.data.class_sizes
        X, y = form.data.sample
        least = 4 * form.n + 10
        counts = [int((y > 0.0).sum()), int((y < 0.0).sum())]
        if any(c < min(least, size) for c, size in zip(counts, sizes, strict=True)):
            steps = [max(1, size // max(least, c)) for c, size in zip(counts, sizes, strict=True)]
            X, y = taken(form.data.source, (steps[0], steps[1]))
            self.monitor.count_read()
        tables, weights = [X[y > 0.0], X[y < 0.0]], [y[y > 0.0], -y[y < 0.0]]
        caps = self.caps * form.data.counts / [float(c.sum()) for c in weights]
        if form.data.plain:
            caps = np.minimum(caps, form.masses)
        self.w = self._direction(tables, weights, caps)
        scores, self.theta = self._thresholds(tables, weights, caps, form.masses)
        self.reach = self.reach_of(X, [np.abs(a - t) for a, t in zip(scores, self.theta, strict=True)])
        self.first = self.reach.copy()

    def _direction(self, tables: list[Any], weights: list[Vec], caps: Vec) -> Vec:
        """Return w of the hulls of the sample, of smaller hulls if 0 lies in these, and the first axis if 0
        lies in the smallest."""
        form = self.form
        if np.dot(form.factors, form.masses) == 0.0 and not sparse.issparse(tables[0]):
            origin = 0.5 * sum(T.mean(axis=0) for T in tables)  # a translation changes no difference
            tables = [T - origin for T in tables]
        for _ in range(_SMALLER):
            problem = _problem(
                tables, weights, form.factors, caps, form.masses, np.zeros(form.n), form.data.stored
            )
            own = self.monitor.child(max(_COARSE, self.monitor.tol))
            answer = self.inner.solve(problem, own)
            self.monitor.count_work(own)
            x = problem.matvec(answer.q)
            norm, size = float(np.linalg.norm(x)), problem.size(answer.q)
            w = x / max(norm, _TINY) if answer.w is None else answer.w
            if norm > 1e-6 * size or problem.lower_bound(w) > SEPARATED * size:
                return w
            uniform = np.array(form.masses) / [float(c.sum()) for c in weights]
            caps = np.maximum(0.5 * caps, uniform)
        return np.eye(1, form.n)[0]

    def _thresholds(
        self, tables: list[Any], weights: list[Vec], caps: Vec, masses: Any
    ) -> tuple[list[Vec], Vec]:
        """Return by class the scores `f_c w'x`, and the thresholds of the weights that minimise w'x."""
        scores = [
            factor * np.asarray(T @ self.w).ravel()
            for factor, T in zip(self.form.factors, tables, strict=True)
        ]
        each = zip(scores, weights, masses, caps, strict=True)
        return scores, np.array([_threshold(*values) for values in each])

    # --- a pass ------------------------------------------------------------------------------------
    def _proof(self, sums: PassSums, solved: bool) -> HullProof:
        form, active, violation = self.form, self.active, 0.0
        points = self.caps[:, None] * sums.points
        for c, (cap, mass, p) in enumerate(zip(self.caps, form.masses, active.p, strict=True)):
            violation = max(violation, abs(cap * sums.counts[c] + float(p.sum()) - mass) / mass)
            if p.size:
                points[c] += active.X[c].T @ p
                over = float((p / active.c[c]).max() - cap) / cap
                violation = max(violation, over, -float(p.min()) / cap)
        caps = np.stack([self.caps] * 2, axis=1)
        rows = ActiveSetWeights(form.data.source, self.states, active, caps, active.p)
        losses, ones = self.caps * sums.below, np.ones(len(form.balls))
        known = points if solved else None
        heights = np.zeros(2)
        return HullProof(self.w, -self.theta, ones, losses, known, violation, rows, heights)

    def _restart(self, number: int) -> bool:
        """Begin anew from Newton's method over all rows, at half the budget, then a quarter, ...; return
        False if no reach has so few rows."""
        row = self.active.nbytes / self.active.size
        rows, least = self.budget / row, 4.0 * self.form.n
        if rows < 2.0 * least:
            return False
        found = smoothed_newton(
            self.form, self.w, self.theta, self.first, max(0.5**number * rows, least),
            over_rows(self.form, self.monitor), lambda: self.monitor.timed_out,
        )  # fmt: skip
        if found is None:
            return False
        self.w, self.theta, self.reach = found
        self.first = self.reach.copy()
        self.clear()
        return True

    def _solve(self, held: Vec, left: Vec) -> None:
        """Solve the problem over the active set, from the point of the held rows: w, theta, the weights."""
        form, active = self.form, self.active
        problem = _problem(active.X, active.c, form.factors, self.caps, left, held, form.data.stored)
        q = problem.begin(Answer([p / mass for p, mass in zip(active.p, left, strict=True)]))
        norm = float(np.linalg.norm(problem.matvec(q)))
        # the points of the classes are smaller than those of the held rows and the active set
        own = self.monitor.child(max(self.exact, LEAST), zero_tol=0.1 * ZERO)
        answer = self.inner.solve(problem, own, Answer(q, norm * self.w))
        self.monitor.count_work(own)
        active.p = [mass * v for mass, v in zip(left, answer.q, strict=True)]
        x = problem.matvec(answer.q)
        norm = float(np.linalg.norm(x))
        if answer.w is not None:
            self.w = answer.w
        elif norm > 0.0:
            self.w = x / norm
        self.theta = self._thresholds(active.X, active.c, self.caps, left)[1]


def _threshold(a: Vec, weights: Vec, mass: float, cap: float) -> float:
    """Return the theta of `min <a, p>` over `0 <= p <= cap weights` of this mass."""
    plain = (weights == 1.0).all()
    low, high = native.fill_to_mass(-a, cap if plain else cap * weights, mass)[2]
    return -high if np.isinf(low) else -0.5 * (low + high)
