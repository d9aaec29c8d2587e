"""The hinge and the ramp loss with convex penalties over rows: sample, screen, solve, verify.

Margins far above the kink cost nothing, those far below it a linear function of (w, b): all of a class
together what one sample at their mean costs, as many times. The band between is solved in memory beside
these two, and a pass over all rows gives the value of (w, b) and the slopes that bound it.

What is subtracted, the tail of a ramp loss, is replaced by its tangent at the last (w, b), as in DCA (Ong and
Le Thi 2013, Algorithm 1): a linear function of the margins, 0 but for rows below the kink of the tail. These
are in the band or held below the kink of the loss, where their sums are known. The band stays from one convex
problem to the next, and a pass verifies one and gives the tangent for the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.linear import Vec
from ucm.data.options import COUNT, check_fields
from ucm.data.source import as_double
from ucm.evidence.row_hulls import below
from ucm.evidence.row_losses import LossProof, losses_proven, tangent_gap
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.objective import INNER, Composite, InnerSolver, LinearTerm
from ucm.forms.rows import RowLosses
from ucm.forms.solver import Solver
from ucm.solvers.out_of_core.active_set import (
    HELD,
    WIDE,
    ActiveSet,
    ActiveSetWeights,
    Screened,
    margins,
    reach_of,
    screen,
    stacked,
)
from ucm.solvers.out_of_core.by_rounds import by_rounds

__all__ = ["OutOfCoreHinge", "TiltedRows"]

_LIMIT = 30  # rounds of a convex problem
_OUTER = 200  # rounds where some of it is subtracted
_NARROWER = 0.1  # of the band from one round to the next
_COARSE = 1e-4  # relative gap over the sample
_LEAST = 1e-13  # relative gap that is asked of the band
_MOVED = 1.5  # times the rows with which a band began, beyond which another one begins
_FINER, _SETTLED = 1e-2, 1e-3  # of the tolerance: a problem of a descent, and the fall at its end
_GAIN = 1e-12  # of the objective, below which it stays
_SIGNS = (1.0, -1.0)

Plane = tuple[Vec, float]  # w and b


class _Told(NamedTuple):
    """What a block tells: of the screening; of the tail of the loss; for each plane the weighed sums and
    the weights of the held rows with margins below the tail, by class."""

    screened: Screened
    tail: tuple[float, float]
    points: NDArray[np.float64]
    counts: NDArray[np.float64]
    near: float


def _split(
    X: Any,
    y: Any,
    state: Any,
    at: Plane,
    reach: Vec,
    kinks: tuple[float, float],
    planes: Sequence[Plane],
) -> tuple[Any, _Told]:
    """The kernel of a round: `screen` around the kink of the loss, and what lies below that of its tail."""
    X, y, (w, b) = as_double(X), np.asarray(y), at
    kink, end = kinks
    state, screened = screen(X, y, state, w, np.array([kink - b, kink + b]), reach, _SIGNS)
    points, counts = np.zeros((len(planes), 2, X.shape[1])), np.zeros((len(planes), 2))
    if not planes:
        return state, _Told(screened, (0.0, 0.0), points, counts, np.inf)
    positive, c = y > 0.0, np.abs(y).astype(np.float64)
    off = margins(X, y, *at) - end
    near, tail = float(np.abs(off).min(initial=np.inf)), below(off, positive, c)
    for k, plane in enumerate(planes):
        under = (state == HELD) & (margins(X, y, *plane) < end)
        own = np.stack([np.where(under & side, c, 0.0) for side in (positive, ~positive)])
        points[k] = (X.T @ own.T).T
        counts[k] = own.sum(axis=1)
    return state, _Told(screened, tail, points, counts, near)


def _table(
    X: Any, y: Any, state: Any, slopes: NDArray[np.float64], plane: Plane, end: float
) -> tuple[Any, Vec]:
    """The slopes of the held rows, by class and side of the tail."""
    y = np.asarray(y)
    under = (margins(X, y, *plane) < end).astype(np.intp)
    side = (y <= 0.0).astype(np.intp)
    return state, np.where(state == HELD, np.abs(y) * slopes[side, under], 0.0)


@dataclass(frozen=True)
class TiltedRows:
    """The slopes of all rows less those of what is subtracted, by one round.

    Attributes
    ----------
    slopes : of the held rows by class and side of the tail
    p : those of the band
    """

    rows: ActiveSetWeights
    slopes: NDArray[np.float64]
    p: list[Vec]
    plane: Plane
    end: float
    D: Vec

    def here(self, kink: float) -> tuple[Any, Vec, Vec, float]:
        """The rows of the band, their labels times weights, slopes less those of what is subtracted, and what
        the bound gains by them."""
        X, y = self.rows.band.table()
        p, t = np.concatenate(self.p), margins(X, y, *self.plane)
        steep = np.where(t < self.end, np.abs(y) * np.where(y > 0.0, *self.D), 0.0)
        under = steep > 0.0
        gain = kink * float((p + steep).sum()) - float(steep[under].sum()) * max(self.end, -1e300)
        return X, y, p, gain

    def weights(self) -> Vec:
        message = self.slopes, self.plane, self.end
        found = self.rows.source.map_reduce(_table, *message, states=self.rows.states)
        self.rows.band.put(found, self.p)
        return np.concatenate(found)


@dataclass(frozen=True)
class OutOfCoreHinge(Solver[RowLosses]):
    """An out-of-core active set method: sample, screen, solve, verify.

    Parameters
    ----------
    inner
        What solves the sample and the band, in memory.
    budget
        Bytes of the band at most.
    """

    inner: InnerSolver
    budget: int = 1 << 28
    name: ClassVar[str] = "out-of-core-hinge"

    def __post_init__(self) -> None:
        check_fields(self, inner=INNER, budget=COUNT)

    def refuse(self, form: RowLosses) -> str | None:
        if not form.kinked:
            return "it takes the hinge or the ramp loss"
        nothing = np.broadcast_to(0.0, (2 * form.n, form.n))
        y, loss = np.repeat(_SIGNS, form.n), form.losses[0][0]
        both = dict.fromkeys((form.penalties, form.first.penalties))
        reasons = (self.inner.refuse(Composite(nothing, y, (loss,), p)) for p in both)
        return next((reason for reason in reasons if reason is not None), None)

    def predicted_passes(self, form: RowLosses) -> float:
        return 4.0

    def solve(self, form: RowLosses, monitor: Monitor, start: Answer | None = None) -> Answer:
        return by_rounds(lambda: _Run(self, form, monitor).run(), form.data.stored, monitor)


@dataclass(frozen=True)
class _Pass:
    """The result of a pass over all blocks.

    Attributes
    ----------
    new : rows that joined the band
    counts, points : weights and weighed sums of the rows held below the kink, by class
    under : of these the ones below the tail at each plane
    near : the distance of the margins from the kink of the tail
    """

    new: int
    loss: float
    tail: float
    counts: Vec
    points: NDArray[np.float64]
    under: list[tuple[Vec, NDArray[np.float64]]]
    near: float


@dataclass
class _Run:
    """One solve.

    Attributes
    ----------
    at : the normal and the bias of the next pass
    plane : where what is subtracted has its tangent; None where nothing is
    slopes : of the held rows, by class and side of the tail at the plane; None before the band is solved
    first : rows with which the band began
    """

    solver: OutOfCoreHinge
    form: RowLosses
    monitor: Monitor
    at: Plane = field(init=False)
    reach: Vec = field(init=False)
    plane: Plane | None = None
    slopes: NDArray[np.float64] | None = None
    first: int = 0

    def __post_init__(self) -> None:
        self.loss, C, tail, D = self.form.sides()
        self.kink, self.end = self.loss.offset, -np.inf if tail is None else tail.offset
        self.C, self.D = C, D
        self.states: dict[int, Any] = {}
        self.band = ActiveSet()

    def run(self) -> Answer:
        form, monitor = self.form, self.monitor
        first = form.first
        w, b = self.at = self._sample(first)
        self.reach = self._reach(w, b)
        answer = self._convex(first)
        if form.convex or answer.status == "interrupted":
            return answer
        if answer.status != "converged":
            return answer.ended(
                answer.status, f"the convex problem to start from: {answer.message}"
            )
        if form.hinged is not None:
            w, b = answer.plane
            self.at = w / form.unit, b / form.unit
            self._anew()
        monitor.latest = None
        return self._descend()

    def _convex(self, form: RowLosses) -> Answer:
        """The problem without what is subtracted."""
        monitor, exact = self.monitor, 0.3 * self.monitor.tol
        answer, limit = Answer(w=self.at[0], b=self.at[1]), self.monitor.limit(_LIMIT)
        for k in range(limit + 1):
            found = self._pass(())
            proof = self._proof(found)
            certificate = losses_proven(form, proof)
            answer = monitor.latest = Answer(w=proof.w, b=proof.b, rows=proof)
            stop = monitor.report(k, certificate.primal, certificate.relative_gap)
            if monitor.reached(certificate.relative_gap):
                return answer
            if stop or monitor.late:
                return answer.interrupted()
            again = self.slopes is not None and found.new == 0
            exact *= 0.2 if again else 1.0
            ended = self._ended(answer, certificate.relative_gap, again and exact < _LEAST)
            if ended is not None:
                return ended
            self._solve(form, found, exact)
        return answer.ended("max_iter", f"{limit} rounds did not reach the tolerance")

    def _descend(self) -> Answer:
        """From a point on with tangents of what is subtracted, one pass each where the objective falls."""
        form, monitor = self.form, self.monitor
        kept, least, exact = Answer(w=self.at[0], b=self.at[1]), np.inf, _FINER * monitor.tol
        limit = monitor.limit(_OUTER)
        for k in range(limit + 1):
            found = self._pass((self.plane or self.at, self.at))
            proof = self._proof(found)
            certificate = losses_proven(form, proof)
            value, gap = certificate.primal, certificate.relative_gap
            small = least - value <= _SETTLED * monitor.tol * abs(value)
            fell = not value >= least - _GAIN * abs(least)
            before = None if kept.rows is None else self._again(kept.rows, proof, found)
            if before is not None and found.new:  # rows that joined the band may tell more
                fell &= tangent_gap(form, before, proof) <= _FINER * monitor.tol
            if fell:
                least, kept = value, Answer(w=proof.w, b=proof.b, rows=proof)
            elif before is not None:  # what was solved proves more of where its tangent is
                kept = replace(kept, rows=before)
                gap = losses_proven(form, before).relative_gap
            monitor.latest = kept
            stop = monitor.report(k, least, gap)
            if monitor.reached(gap) and small:
                return kept
            if stop or monitor.late:
                return kept.interrupted()
            if fell:
                self.plane, exact = self.at, _FINER * monitor.tol
                found = replace(found, under=found.under[-1:])
                rows = sum(p.size for p in self.band.p)
                if rows > _MOVED * self.first:  # a band around where it is now is smaller
                    self._anew()
                    found = self._pass((self.at,))
            again = not fell and found.new == 0
            exact *= 0.2 if again else 1.0
            ended = self._ended(kept, gap, again and exact < _LEAST)
            if ended is not None:
                return ended
            self._solve(form, found, exact)
        return kept.ended("max_iter", f"{limit} convex problems solved; raise max_iter")

    def _ended(self, answer: Answer, gap: float, still: bool) -> Answer | None:
        if still:
            return answer.ended("stalled", f"the gap stayed at {gap:.2g}")
        if self.band.nbytes > self.solver.budget:
            return answer.ended(
                "stalled",
                f"the rows with margins near {self.kink:.3g} take {self.band.nbytes / 1e6:.3g} MB; raise the "
                "budget, ucm.solvers.OutOfCoreHinge(budget=...)",
            )
        return None

    # --- a pass ------------------------------------------------------------------------------------
    def _anew(self) -> None:
        """No band, and the next one around where the normal is."""
        self.states, self.band, self.slopes, self.first = {}, ActiveSet(), None, 0
        self.reach = self._reach(*self.at)

    def _pass(self, planes: tuple[Plane, ...]) -> _Pass:
        kinks = self.kink, self.end
        message = self.at, self.reach, kinks, planes
        told = self.form.data.source.map_reduce(_split, *message, states=self.states)
        self.monitor.count_read()
        screened = [part.screened for part in told]
        new = self.band.add(screened, (float(self.C[0]), float(self.C[1])))
        self.first = self.first or new
        return _Pass(
            new,
            float(self.C @ np.sum([part.below for part in screened], axis=0)),
            float(self.D @ np.sum([part.tail for part in told], axis=0)),
            np.sum([part.counts for part in screened], axis=0),
            np.sum([part.points for part in screened], axis=0),
            [
                (
                    np.sum([part.counts[k] for part in told], axis=0),
                    np.sum([part.points[k] for part in told], axis=0),
                )
                for k in range(len(planes))
            ],
            min(part.near for part in told),
        )

    def _proof(self, found: _Pass) -> LossProof:
        """Return the proof of a point from its pass: by the slopes of the rows, and by the tangent of a
        subtracted function."""
        (w, b), counts = self.at, (float(found.counts[0]), float(found.counts[1]))
        caps = self.C if self.slopes is None else self.slopes[:, 0]
        rows: Any = ActiveSetWeights(
            self.form.data.source, self.states, self.band, (float(caps[0]), float(caps[1])), counts
        )
        proof = LossProof(w, b, found.loss, rows=rows)
        if found.under:
            proof = replace(
                proof,
                tail=found.tail,
                rest=self._tangent(self.at, found.under[-1]),
                near=found.near,
            )
        if self.slopes is None:
            return proof
        weights, points = self._parts(found)
        sums = (self.slopes * weights).sum(axis=1)
        at_sums = (self.slopes[:, :, None] * points).sum(axis=1)
        for c in range(2):
            if self.band.p[c].size:
                sums[c] += self.band.p[c].sum()
                at_sums[c] += self.band.X[c].T @ self.band.p[c]
        if found.under:
            rows = self._less(rows, self.slopes.copy(), self.plane or self.at)
        return replace(proof, slopes=sums, gains=self.kink * sums, points=at_sums, rows=rows)

    def _parts(self, found: _Pass) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights and sums of the held rows, by class and side of the tail at the plane."""
        count, sums = found.under[0] if found.under else (0.0 * found.counts, 0.0 * found.points)
        above = found.counts - count
        above = np.where(above > 1e-9 * found.counts, above, 0.0)
        return np.stack([above, count], axis=1), np.stack([found.points - sums, sums], axis=1)

    def _tangent(self, plane: Plane, under: tuple[Vec, NDArray[np.float64]]) -> tuple[Vec, Any]:
        """The slopes of what is subtracted at a plane, and their sums times the rows, by class."""
        counts, points = under[0].copy(), under[1].copy()
        for c, own in enumerate(self._under(plane)):
            if own.size:
                counts[c] += own.sum()
                points[c] += self.band.X[c].T @ own
        return self.D * counts, self.D[:, None] * points

    def _under(self, plane: Plane) -> list[Vec]:
        """By class the weights of the rows of the band below the tail at a plane, 0 of the others."""
        w, b = plane
        return [
            np.empty(0)
            if X is None
            else np.where(sign * (np.asarray(X @ w).ravel() + b) < self.end, weights, 0.0)
            for X, weights, sign in zip(self.band.X, self.band.c, _SIGNS, strict=True)
        ]

    def _again(self, kept: Any, proof: LossProof, found: _Pass) -> LossProof:
        """The proof of a point before by the slopes of the problem with its tangent."""
        plane = kept.w, kept.b
        return replace(
            kept, slopes=proof.slopes, gains=proof.gains, points=proof.points, rows=proof.rows,
            rest=self._tangent(plane, found.under[0]),
        )  # fmt: skip

    def _less(self, rows: Any, slopes: NDArray[np.float64], plane: Plane) -> TiltedRows:
        slopes[:, 1] -= self.D
        own = zip(self.band.p, self._under(plane), self.D, strict=True)
        p = [a - d * v for a, v, d in own]
        return TiltedRows(rows, slopes, p, plane, self.end, self.D)

    # --- in memory ---------------------------------------------------------------------------------
    def _sample(self, form: RowLosses) -> Plane:
        """w and b of the sample."""
        X, y = form.data.sample
        own, sign = np.abs(y), np.sign(y)
        shares = [
            total / float(own[sign == s].sum())
            for total, s in zip(form.data.counts, _SIGNS, strict=True)
        ]
        weights = np.where(sign > 0.0, *shares) * own
        problem = self.composite(form, X, sign, weights)
        answer = self._inside(problem, None, max(_COARSE, self.monitor.tol), None)
        return answer.plane

    def _reach(self, w: Vec, b: float) -> Vec:
        """Return the width of the band around the kink."""
        X, y = self.form.data.sample
        sign = np.sign(y)
        off = np.abs(self.kink - sign * (np.asarray(X @ w).ravel() + b))
        n, m = self.form.n, self.form.data.m
        row = X.nnz * 12 / y.size if sparse.issparse(X) else 8 * n
        fewest = max(1, min(int((sign == s).sum()) for s in _SIGNS))
        part = min(WIDE * float(np.sqrt(n / fewest)), 0.75 * self.solver.budget / (row * m))
        return np.array([reach_of(off[sign == s], part, 2 * n) for s in _SIGNS])

    def composite(self, form: RowLosses, X: Any, y: Vec, weights: Vec) -> Composite:
        """The convex part over samples in memory."""
        weights = weights * np.where(y > 0.0, *self.C) / (self.loss.slope() or 1.0)
        return Composite(X, y, (self.loss,), form.penalties, (weights,))

    def _inside(
        self, problem: Composite, start: Plane | None, tol: float, tilt: LinearTerm | None
    ) -> Answer:
        own = self.monitor.below(tol)
        inner = self.solver.inner
        if tilt is None:
            answer = inner.solve(
                problem, own, None if start is None else Answer(w=start[0], b=start[1])
            )
        else:
            session = inner.open(problem, own)
            if start is not None:
                session.place(*start)
            answer = session.solve(problem, tilt, tol)
        share = problem.entries / max(1, self.form.data.stored)
        self.monitor.passes += share * own.passes
        self.monitor.systems += own.systems
        self.monitor.forming += share * own.forming
        return answer

    def _solve(self, form: RowLosses, found: _Pass, tol: float) -> None:
        """w, b and the slopes of the held rows; those of the band, in it."""
        band, sparse_rows = self.band, any(sparse.issparse(X) for X in self.band.X)
        weights, points = self._parts(found)
        under = [0.0 * c for c in band.c] if self.plane is None else self._under(self.plane)
        tables, labels, sizes, tilts = [], [], [], []
        for c, sign in enumerate(_SIGNS):
            if band.p[c].size:
                tables.append(band.X[c])
                labels.append(np.full(band.p[c].size, sign))
                sizes.append(band.c[c])
                tilts.append(-self.D[c] * under[c])
        inside = sum(v.size for v in labels)
        held = [(c, f) for c in range(2) for f in range(2) if weights[c, f] > 0.0]
        for c, f in held:
            mean = points[c, f][None, :] / weights[c, f]
            tables.append(sparse.csr_matrix(mean) if sparse_rows else mean)
            labels.append(np.array([_SIGNS[c]]))
            sizes.append(weights[c, f : f + 1])
            tilts.append(np.array([-self.D[c] * f * weights[c, f]]))
        y, c_of = np.concatenate(labels), np.concatenate(sizes)
        problem, tilt = self.composite(form, stacked(tables), y, c_of), None
        if self.plane is not None:
            normal = sum((h.subgradient(self.plane[0]) for h in form.taken), start=np.zeros(form.n))
            tilt = LinearTerm(np.concatenate(tilts), normal)
        answer = self._inside(problem, self.at, max(tol, _LEAST), tilt)
        self.at = answer.plane
        slopes = np.zeros(problem.m) if answer.slopes is None else answer.slopes
        slopes = np.clip(slopes, 0.0, c_of * np.where(y > 0.0, *self.C))
        plus = band.p[0].size
        band.p = [slopes[:plus], slopes[plus:inside]]
        self.slopes = np.zeros((2, 2))
        for (c, f), slope in zip(held, slopes[inside:], strict=True):
            self.slopes[c, f] = slope / weights[c, f]
        self.reach = np.where(np.isfinite(self.reach), _NARROWER * self.reach, self.reach)
