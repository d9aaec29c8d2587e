"""Out-of-core active set for two reduced hulls over rows: sample, screen, solve, verify.

A sample of the rows tells w and the thresholds theta nearly. In one pass the rows far from their threshold
are held, at 0 above it and at the cap below; the others, the band, come here. Over the band the problem is
solved in memory, x beginning at the point that the held rows make. The next pass bounds the optimum over all
rows, which is the certificate; held rows that turn out to be on the wrong side join the band with the weight
that they had, and it is solved again. A row leaves one byte where it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from ucm.data.first_pass import taken
from ucm.data.linear import Vec
from ucm.data.maps import ComposedMap, SampleMap
from ucm.data.options import COUNT, check_fields
from ucm.evidence.row_hulls import HullProof, hulls_proven
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import SEPARATED, ZERO, Monitor
from ucm.forms.rows import RowHulls
from ucm.forms.solver import Solver, solver_of
from ucm.language.contracts import Block, SampleWeights
from ucm.language.domains import CappedSimplex
from ucm.language.domains.simplex import Capped
from ucm.language.simplex_projection import fill_to_mass
from ucm.solvers.out_of_core.active_set import (
    WIDE,
    ActiveSet,
    ActiveSetWeights,
    Screened,
    reach_of,
    screen,
)
from ucm.solvers.out_of_core.by_rounds import by_rounds
from ucm.solvers.out_of_core.newton import over_rows
from ucm.solvers.out_of_core.smoothed_newton import smoothed_newton

__all__ = ["OutOfCoreActiveSet"]

_TINY = float(np.finfo(float).tiny)
_NARROWER = 0.1  # of the band from one round to the next
_COARSE = 1e-4  # relative gap over the sample
_LIMIT = 30  # rounds
_LEAST = 1e-13  # relative gap that is asked of the band
_JOINT = 3  # times that a band over its budget begins anew
_SMALLER = 6  # hulls of a sample that are tried, each with half the caps of the one before
_TOO_WIDE = (
    "the rows near their thresholds take {:.3g} MB; raise the budget, "
    "ucm.solvers.OutOfCoreActiveSet(budget=...)"
)


@dataclass(frozen=True)
class OutOfCoreActiveSet(Solver[RowHulls]):
    """An out-of-core active set method: sample, screen, solve, verify.

    Parameters
    ----------
    inner
        What solves the band, in memory.
    budget
        Bytes of the band at most.
    """

    inner: Solver[MinNorm]
    budget: int = 1 << 28
    name: ClassVar[str] = "out-of-core"

    def __post_init__(self) -> None:
        check_fields(self, inner=solver_of(MinNorm), budget=COUNT)

    def refuse(self, form: RowHulls) -> str | None:
        if not form.capped:
            return "it takes weights of rows below caps"
        nothing = np.broadcast_to(0.0, (form.n, form.n))  # as many rows as features
        ones, center = (1.0, 1.0), np.zeros(form.n)
        c = np.ones(form.n)
        c[0] += 0.0 if form.data.plain else 1.0
        return self.inner.refuse(_problem([nothing, nothing], [c, c], ones, ones, ones, center, 1))

    def predicted_passes(self, form: RowHulls) -> float:
        return 4.0

    def solve(self, form: RowHulls, monitor: Monitor, start: Answer | None = None) -> Answer:
        return by_rounds(lambda: self._solve(form, monitor), form.data.stored, monitor)

    def _solve(self, form: RowHulls, monitor: Monitor) -> Answer:
        return _Run(self, form, monitor).run()


def _problem(
    tables: list[Any],
    weights: list[Vec],
    factors: Any,
    caps: Any,
    masses: Any,
    center: Vec,
    stored: int,
) -> MinNorm:
    """Two hulls of rows in memory, from a point on; their weights in parts of the masses."""
    blocks = tuple(
        Block(ComposedMap(SampleMap(X), factor=factor * mass), _below(cap / mass, c))
        for X, c, factor, cap, mass in zip(tables, weights, factors, caps, masses, strict=True)
    )
    return MinNorm(center, blocks, stored=max(1, stored))


def _below(cap: float, weights: Vec) -> Capped:
    given = None if (weights == 1.0).all() else weights
    return CappedSimplex(float(cap)).bind(SampleWeights(weights.size, given))


@dataclass
class _Run:
    """One solve.

    Attributes
    ----------
    w : (n,) of length 1
    theta, reach : the thresholds of both classes, and how far from them the band goes
    first : the reach of the first round
    """

    solver: OutOfCoreActiveSet
    form: RowHulls
    monitor: Monitor
    w: Vec = field(init=False)
    theta: Vec = field(init=False)
    reach: Vec = field(init=False)
    first: Vec = field(init=False)

    def run(self) -> Answer:
        form, monitor, tol = self.form, self.monitor, self.monitor.tol
        states: dict[int, Any] = {}
        band, solved, exact, joint = ActiveSet(), False, 0.3 * tol, 0
        self._sample()
        answer = Answer(w=self.w)
        for k in range(monitor.limit(_LIMIT) + 1):
            found = form.data.source.map_reduce(
                screen, self.w, self.theta, self.reach, form.factors, states=states
            )
            monitor.count_read()
            new = band.add(found, form.shares)
            proof = self._proof(states, band, found, solved)
            certificate = hulls_proven(form, proof)
            answer = Answer(w=self.w, rows=proof)
            if proof.points is not None:
                gap, monitor.latest = certificate.relative_gap, answer
                stop = monitor.report(k, certificate.dual, gap)
                norm, size = form.norm_and_size(proof.points)
                if monitor.reached(gap) or monitor.at_zero(norm, -certificate.primal, size):
                    return answer
                if stop or monitor.late:
                    return answer.interrupted()
                if new == 0:
                    exact *= 0.2
                    if exact < _LEAST:
                        return answer.ended("stalled", f"the gap stayed at {gap:.2g}")
            if k == monitor.limit(_LIMIT):
                return answer.ended("max_iter", f"{k} rounds left a gap of {certificate.gap:.2g}")
            if band.nbytes > self.solver.budget:
                joint += 1
                if joint > _JOINT or not self._joint(band, joint):
                    return answer.ended("stalled", _TOO_WIDE.format(band.nbytes / 1e6))
                self.first = self.reach.copy()
                states, band, solved = {}, ActiveSet(), False
                continue
            left = [
                m - cap * h
                for m, cap, h in zip(form.masses, form.shares, proof.rows.counts, strict=True)
            ]
            room = [cap * float(c.sum()) for cap, c in zip(form.shares, band.c, strict=True)]
            short = [not 0.0 < a <= b * (1.0 + 1e-12) for a, b in zip(left, room, strict=True)]
            if any(short):  # the sample misled: the held rows leave no point
                self.reach = np.where(short, 4.0 * self.first, self.reach)
                self.first = np.where(short, 4.0 * self.first, self.first)
                continue
            if monitor.late:  # the mass that is left, spread over the band, is a point of U
                band.p = [a / float(c.sum()) * c for a, c in zip(left, band.c, strict=True)]
                return Answer(w=self.w, rows=self._proof(states, band, found, True)).interrupted()
            held, found = self._held(found), []  # whose rows are in the band now
            self._solve(band, held, left, exact)
            solved = True
            self.reach = np.where(np.isfinite(self.reach), _NARROWER * self.reach, self.reach)
        return answer.ended("stalled", "the rows held leave no point; raise tol")

    # --- the sample --------------------------------------------------------------------------------
    def _sample(self) -> None:
        """w, theta and reach from a sample."""
        form = self.form
        sizes = form.data.class_sizes
        X, y = form.data.sample
        least = 4 * form.n + 10
        counts = [int((y > 0.0).sum()), int((y < 0.0).sum())]
        if any(c < min(least, size) for c, size in zip(counts, sizes, strict=True)):
            steps = [max(1, size // max(least, c)) for c, size in zip(counts, sizes, strict=True)]
            X, y = taken(form.data.source, (steps[0], steps[1]))
            self.monitor.count_read()
        tables, weights = [X[y > 0.0], X[y < 0.0]], [y[y > 0.0], -y[y < 0.0]]
        totals = form.data.counts
        shares = [total / float(c.sum()) for total, c in zip(totals, weights, strict=True)]
        caps = [cap * s for cap, s in zip(form.shares, shares, strict=True)]
        if form.data.plain:
            caps = np.minimum(caps, form.masses).tolist()
        self.w = self._direction(tables, weights, caps)
        m, row = form.data.m, X.nnz * 12 / y.size if sparse.issparse(X) else 8 * form.n
        part = WIDE * np.sqrt(form.n / min(T.shape[0] for T in tables))
        part = min(part, 0.75 * self.solver.budget / max(1.0, row * m))
        self.theta, self.reach = np.zeros(2), np.zeros(2)
        for c, (T, own, factor, cap, mass) in enumerate(
            zip(tables, weights, form.factors, caps, form.masses, strict=True)
        ):
            a = factor * np.asarray(T @ self.w).ravel()
            self.theta[c] = _threshold(a, own, mass, cap)
            self.reach[c] = reach_of(np.abs(a - self.theta[c]), part, 2 * form.n)
        self.first = self.reach.copy()

    def _direction(self, tables: list[Any], weights: list[Vec], caps: list[float]) -> Vec:
        """w of the hulls of the sample; where 0 lies in them, of smaller ones, and where it lies in the
        smallest too, the first axis."""
        form = self.form
        if sum(f * m for f, m in zip(form.factors, form.masses, strict=True)) == 0.0:
            tables = _centred(tables)  # the hulls lie to each other as before
        for _ in range(_SMALLER):
            problem = _problem(
                tables, weights, form.factors, caps, form.masses, np.zeros(form.n), form.data.stored
            )
            own = self.monitor.below(max(_COARSE, self.monitor.tol))
            answer = self.solver.inner.solve(problem, own)
            self.monitor.passes += own.passes
            x = problem.matvec(answer.q)
            norm, size = float(np.linalg.norm(x)), problem.size(answer.q)
            w = x / max(norm, _TINY) if answer.w is None else answer.w
            if norm > 1e-6 * size or problem.lower_bound(w) > SEPARATED * size:
                return w
            caps = [
                max(0.5 * cap, mass / float(c.sum()))
                for cap, mass, c in zip(caps, form.masses, weights, strict=True)
            ]
        return np.eye(1, form.n)[0]

    # --- a round -----------------------------------------------------------------------------------
    def _proof(
        self, states: dict[int, Any], band: ActiveSet, found: list[Screened], solved: bool
    ) -> HullProof:
        form = self.form
        counts = tuple(sum(part.counts[c] for part in found) for c in range(2))
        short = np.sum([part.below for part in found], axis=0)
        points: Any = np.sum([part.points for part in found], axis=0)
        violation = 0.0
        for c, (cap, mass) in enumerate(zip(form.shares, form.masses, strict=True)):
            p = band.p[c]
            points[c] *= cap
            violation = max(violation, abs(cap * counts[c] + float(p.sum()) - mass) / mass)
            if p.size:
                points[c] += band.X[c].T @ p
                over = float((p / band.c[c]).max() - cap) / cap
                violation = max(violation, over, -float(p.min()) / cap)
        rows = ActiveSetWeights(form.data.source, states, band, form.shares, counts)  # type: ignore[arg-type]
        losses, ones = np.array(form.shares) * short, np.ones(len(form.balls))
        points = points if solved else None
        return HullProof(self.w, -self.theta, ones, losses, points, violation, rows)

    def _joint(self, band: ActiveSet, number: int) -> bool:
        """w, theta and reach by Newton's method over all rows, at half the budget, then a quarter, ...;
        whether there is such a reach."""

        row = band.nbytes / sum(T.shape[0] for T in band.X if T is not None)
        rows, least = self.solver.budget / row, 4.0 * self.form.n
        if rows < 2.0 * least:
            return False
        found = smoothed_newton(
            self.form, self.w, self.theta, self.first, max(0.5**number * rows, least),
            over_rows(self.form, self.monitor), lambda: self.monitor.late,
        )  # fmt: skip
        if found is not None:
            self.w, self.theta, self.reach = found
        return found is not None

    def _held(self, found: list[Screened]) -> Vec:
        """The point that the held rows make."""
        sums = np.sum([part.points for part in found], axis=0)
        shares = np.array(self.form.factors) * np.array(self.form.shares)
        return shares @ sums

    def _solve(self, band: ActiveSet, held: Vec, left: list[float], tol: float) -> None:
        """The band, from the point of the held rows on: w, theta, the weights."""
        form = self.form
        problem = _problem(band.X, band.c, form.factors, form.shares, left, held, form.data.stored)
        q = [
            b.domain.project(p / mass)  # type: ignore[attr-defined]
            for b, p, mass in zip(problem.blocks, band.p, left, strict=True)
        ]
        norm = float(np.linalg.norm(problem.matvec(q)))
        # the points of the classes are smaller than those of the held rows and the band
        own = self.monitor.below(max(tol, _LEAST), least=0.1 * ZERO)
        answer = self.solver.inner.solve(problem, own, Answer(q, norm * self.w))
        self.monitor.passes += own.passes
        self.monitor.systems += own.systems
        self.monitor.forming += own.forming
        band.p = [mass * v for mass, v in zip(left, answer.q, strict=True)]
        x = problem.matvec(answer.q)
        norm = float(np.linalg.norm(x))
        if answer.w is not None:
            self.w = answer.w
        elif norm > 0.0:
            self.w = x / norm
        for c, (T, own, factor, cap, mass) in enumerate(
            zip(band.X, band.c, form.factors, form.shares, left, strict=True)
        ):
            self.theta[c] = _threshold(factor * np.asarray(T @ self.w).ravel(), own, mass, cap)


def _centred(tables: list[Any]) -> list[Any]:
    """Return dense rows relative to a point between the classes."""
    if sparse.issparse(tables[0]):
        return tables
    origin = 0.5 * sum(T.mean(axis=0) for T in tables)
    return [T - origin for T in tables]


def _threshold(a: Vec, weights: Vec, mass: float, cap: float) -> float:
    """The theta of `min <a, p>` over `0 <= p <= cap weights` of this mass."""
    plain = (weights == 1.0).all()
    low, high = fill_to_mass(-a, cap if plain else cap * weights, mass)[1]
    return -high if np.isinf(low) else -0.5 * (low + high)
