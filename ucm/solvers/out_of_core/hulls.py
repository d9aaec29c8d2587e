"""Out-of-core active-set solver for the nearest points of two reduced hulls of rows.

A sample of the rows gives an estimate of w and of the thresholds theta. In one pass the rows far from their
threshold are held, at 0 above it and at the cap below. The other rows are the active set, over which the
problem is solved in memory, from the point that the held rows make. The next pass bounds the optimum over all
rows, which is the certificate. Held rows that turn out to be on the wrong side join the active set with the
weight that they had, and it is solved again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from ucm import native
from ucm.data.first_pass import sampled
from ucm.data.linear_map import ComposedMap, Matrix, SampleMap, Vec
from ucm.errors import SolverError
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import SEPARATED, ZERO, Monitor
from ucm.forms.out_of_core import HullProof, RowHulls
from ucm.forms.solver import Answer, Solver
from ucm.language.contracts import Block, SampleWeights
from ucm.language.domains import CappedSimplex
from ucm.language.losses import HuberHinge
from ucm.solvers.out_of_core.active_set import ActiveSetRun, ActiveSetWeights, InnerSolve, PassSums
from ucm.solvers.out_of_core.newton import ClassLoss, Evaluate, RowFunction, RowSums, minimise, over_rows

_TINY = float(np.finfo(float).tiny)
_BESIDE = 1.5  # widths on either side of the middle of the zone that the active set covers

Classes = list[tuple[Matrix, Vec]]
"""The table and the sample weights of rows in memory, of class +1 and of class -1."""


def _problem(
    classes: Classes,
    factors: Sequence[float],
    caps: Sequence[float] | Vec,
    weight_sums: Sequence[float] | Vec,
    center: Vec,
    stored: int,
) -> MinNorm:
    """Return the nearest-point problem of two reduced hulls in memory and a centre, with masses 1."""
    blocks = []
    for (X, c), factor, cap, weight_sum in zip(classes, factors, caps, weight_sums, strict=True):
        sample_weights = None if (c == 1.0).all() else c
        domain = CappedSimplex(float(cap / weight_sum)).bind(SampleWeights(c.size, sample_weights))
        blocks.append(Block(ComposedMap(SampleMap(X), factor=factor * weight_sum), domain))
    return MinNorm(center, tuple(blocks), stored=max(1, stored))


class HullsRun(ActiveSetRun[RowHulls]):
    """State of one solve: `widest`, the reach of the first pass, `upper`, the bound by the last one."""

    widest: Vec
    upper: float
    solved = False
    restarts = 0

    def __init__(self, form: RowHulls, monitor: Monitor, inner: InnerSolve, budget: int) -> None:
        super().__init__(form, monitor, inner, budget)
        self.caps, self.factors = np.array(form.scales), form.factors

    @staticmethod
    def refuse(inner: Solver, form: RowHulls) -> str | None:
        if not form.capped:
            return "it takes weights of rows below caps"
        if MinNorm not in inner.takes:
            return "its inner solver does not take hulls"
        nothing = np.broadcast_to(0.0, (form.n, form.n))  # as many rows as features
        ones, c = (1.0, 1.0), np.ones(form.n)
        c[0] += 0.0 if form.data.plain else 1.0
        return inner.refuse(_problem([(nothing, c)] * 2, ones, ones, ones, np.zeros(form.n), 1))

    def verified(self, sums: PassSums) -> tuple[Answer, float, float]:
        proof = self._proof(sums, self.solved)
        self.upper, norm = self.form.bounds(proof)
        return Answer(w=self.w, rows=proof), -norm, self.form.gap(proof)

    def solve(self, sums: PassSums) -> Answer | None:
        form, y = self.form, self.active.y
        weight_sums = np.array(form.weight_sums) - self.caps * sums.counts[:, 1]
        totals = np.array([np.maximum(y, 0.0).sum(), np.maximum(-y, 0.0).sum()])
        short = ~((weight_sums > 0.0) & (weight_sums <= self.caps * totals * (1.0 + 1e-12)))
        if short.any():  # the sample misled: the held rows leave no point
            self.widest = np.where(short, 4.0 * self.widest, self.widest)
            self.reach = np.where(short, self.widest, self.reach)
            return None
        if self.monitor.timed_out:  # the remaining weight, spread over the active set, gives a point of U
            self.active.p = np.abs(y) * np.where(y > 0.0, *(weight_sums / totals))
            return Answer(w=self.w, rows=self._proof(sums, True)).interrupted()
        held = (np.array(form.factors) * self.caps) @ sums.points[:, 1]
        classes = _by_class(self.active.X, y)
        problem = _problem(classes, form.factors, self.caps, weight_sums, held, form.data.stored)
        sides = y > 0.0, y < 0.0
        p = [self.active.p[on] / total for on, total in zip(sides, weight_sums, strict=True)]
        q = problem.begin(Answer(p))
        start = Answer(q, float(np.linalg.norm(problem.matvec(q))) * self.w)
        # the points of the classes are smaller than those of the held rows and the active set
        answer, x = self._nearest(problem, self.monitor.child(self.exact, zero_tol=0.1 * ZERO), start)
        self.active.p = np.empty(y.size)
        for on, total, v in zip(sides, weight_sums, answer.q, strict=True):
            self.active.p[on] = total * v
        if answer.w is not None or x.any():
            self.w = _direction(answer, x)
        self.theta = self._thresholds(classes, self.caps, weight_sums)[1]
        self.solved = True
        self.narrow()
        return None

    def _nearest(self, problem: MinNorm, own: Monitor, start: Answer | None = None) -> tuple[Answer, Vec]:
        """Return the answer of the inner solver and its point."""
        answer = self.inner(problem, own, start)
        self.monitor.count_work(own)
        return answer, problem.matvec(answer.q)

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
        classes = _by_class(X, y)
        caps = self.caps * form.data.counts / [float(c.sum()) for _, c in classes]
        if form.data.plain:
            caps = np.minimum(caps, form.weight_sums)
        self.w = self._of_sample(classes, caps)
        scores, self.theta = self._thresholds(classes, caps, form.weight_sums)
        self.reach = self.reach_of(X, [np.abs(a - t) for a, t in zip(scores, self.theta, strict=True)])
        self.widest = self.reach.copy()

    def _of_sample(self, classes: Classes, caps: Vec) -> Vec:
        """Return w of the hulls of a sample, caps halved until separated; else the first axis."""
        form = self.form
        if np.dot(form.factors, form.weight_sums) == 0.0 and not sparse.issparse(classes[0][0]):
            origin = 0.5 * sum(X.mean(axis=0) for X, _ in classes)  # a translation changes no difference
            classes = [(X - origin, c) for X, c in classes]
        uniform = np.array(form.weight_sums) / [float(c.sum()) for _, c in classes]
        for _ in range(6):  # each with half the caps of the previous solve
            nothing = np.zeros(form.n)
            problem = _problem(classes, form.factors, caps, form.weight_sums, nothing, form.data.stored)
            answer, x = self._nearest(problem, self.monitor.child(max(1e-4, self.monitor.tol)))
            w, size = _direction(answer, x), problem.size(answer.q)
            if np.linalg.norm(x) > 1e-6 * size or problem.lower_bound(w) > SEPARATED * size:
                return w
            caps = np.maximum(0.5 * caps, uniform)
        return np.eye(1, form.n)[0]

    def _thresholds(
        self, classes: Classes, caps: Vec, weight_sums: Sequence[float] | Vec
    ) -> tuple[list[Vec], Vec]:
        """Return by class the scores `f_c w'x`, and the thresholds of the weights that minimise w'x."""
        scores = [
            f * np.asarray(X @ self.w).ravel() for f, (X, _) in zip(self.form.factors, classes, strict=True)
        ]
        each = zip(scores, [c for _, c in classes], weight_sums, caps, strict=True)
        return scores, np.array([_threshold(*values) for values in each])

    # --- a pass ------------------------------------------------------------------------------------
    def _proof(self, sums: PassSums, solved: bool) -> HullProof:
        form, active, caps = self.form, self.active, np.outer(self.caps, [0.0, 1.0, 1.0])
        totals, points = self.weighted(sums, caps, active.p)
        violation = float(np.abs(totals / form.weight_sums - 1.0).max())
        if active.y.size:
            part = active.p / (np.abs(active.y) * np.where(active.y > 0.0, *self.caps))
            violation = max(violation, float(part.max()) - 1.0, -float(part.min()))
        rows = ActiveSetWeights(form.data.source, self.states, active, caps, active.p)
        losses, ones = self.caps * sums.shortfalls[0], np.ones(len(form.balls))
        return HullProof(
            self.w, -self.theta, ones, losses, points if solved else None, violation, rows, np.zeros(2)
        )

    def restarted(self) -> bool:
        """Start again from a smoothed Newton solve over all rows, for half the budget, a quarter, ...

        False if no reach has so few rows, or w does not separate the hulls.
        """
        form, monitor = self.form, self.monitor
        self.restarts += 1
        rows, least = self.budget * self.active.y.size / self.active.nbytes, 4.0 * form.n
        if self.restarts > 3 or rows < 2.0 * least or not self.upper < 0.0:
            return False
        z = -self.upper * np.concatenate([self.w, -self.theta])  # the best multiple
        width, most = -self.upper * float(self.widest.max()), max(0.5**self.restarts * rows, least)
        start = smoothed_newton(form, z, width, most, over_rows(form, monitor), monitor)
        if start is None:
            return False
        self.w, self.theta, self.reach = start
        self.widest, self.solved = self.reach.copy(), False
        self.clear()
        return True


def _by_class(X: Matrix, y: Vec) -> Classes:
    """Return the table and the weights of the rows of class +1 and of class -1."""
    return [(X[on], np.abs(y[on])) for on in (y > 0.0, y < 0.0)]


def _direction(answer: Answer, x: Vec) -> Vec:
    """Return w of an answer, or the direction of its point x."""
    return x / max(float(np.linalg.norm(x)), _TINY) if answer.w is None else answer.w


def _threshold(a: Vec, weights: Vec, weight_sum: float, cap: float) -> float:
    """Return the multiplier of the sum in `min <a, p>`, `0 <= p <= cap weights`, `sum p = weight_sum`."""
    plain = (weights == 1.0).all()
    low, high = native.fill_to_mass(-a, cap if plain else cap * weights, weight_sum)[2]
    return -high if np.isinf(low) else -0.5 * (low + high)


class SmoothedHulls(RowFunction):
    """Half the squared distance of two reduced hulls, smoothed, as a function of w and both thresholds.

    With dual multipliers of the weight sums, so that the domain of the weights is a box, it is for a width
    delta > 0

        F(w, mu) = 1/2 ||w||_2^2 + sum_c total_c mu_c + cap_c sum_i h((-f_c w'x_i - mu_c) / delta) delta,

    h the Huber function, 0 below 0 and of slope 1 above 1. `q_i = cap_c h'` are weights near the best, and
    the rows with weights between 0 and the cap lie in a zone of this width.
    """

    def __init__(self, form: RowHulls, delta: float) -> None:
        parts = [
            ClassLoss(
                HuberHinge(1.0), c, f, scale, np.array([0.0, delta]), np.eye(2)[[c, c]] * [[1.0], [0.0]]
            )
            for c, (f, scale) in enumerate(zip(form.factors, form.scales, strict=True))
        ]
        super().__init__(form.n, parts, np.concatenate([np.zeros(form.n), form.weight_sums]), 1.0)

    def answer(self, z: Vec, sums: RowSums, value: float) -> tuple[Answer, float, float]:
        """Return an answer with the sums; the gap is the relative decrease that the next step predicts."""
        gain = -self.slope(z, sums, self.step(z, sums, value))
        return Answer(w=z[: self.n], rows=sums), value, gain / max(abs(value), 1e-300)


def smoothed_newton(
    form: RowHulls, z: Vec, delta: float, most: float, evaluate: Evaluate, monitor: Monitor
) -> tuple[Vec, Vec, Vec] | None:
    """Return w of length 1, thresholds and a reach of `most` rows at most, for falling delta; or None."""
    n = form.n
    for _ in range(20):  # widths of the smoothing
        z, answer = minimise(SmoothedHulls(form, delta), z, evaluate, monitor.child(2e-3))
        if monitor.timed_out or answer.rows is None:
            return None
        zone = delta * np.diagonal(answer.rows.hessian)[n:] / form.scales  # rows of each class
        if np.isnan(zone).any():
            raise SolverError(
                "rows: expected entries that stay finite numbers, got a NaN in sums over them; see that no "
                "row changes, scale the features, and solve again"
            )
        if 2.0 * _BESIDE * zone.sum() <= most and zone.min() > 0.0:
            length = float(np.linalg.norm(z[:n]))
            wide = np.maximum(_BESIDE, n / zone)  # rows enough for a point of n numbers
            return z[:n] / length, -(z[n:] + 0.5 * delta) / length, wide * delta / length
        delta *= 0.2 if zone.min() > 0.0 else 2.0  # without rows there is no threshold
    return None
