"""The hinge loss with the squared l2 norm over rows: sample, sieve, solve, verify.

Margins far above 1 cost nothing, those far below 1 a linear function of (w, b): all of a class together what
one sample at their mean costs, as many times. The band between is solved in memory beside these two, and a
pass over all rows gives the value of (w, b) and the slopes that bound it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from ucm.data.linear import Vec
from ucm.data.options import COUNT, check_fields
from ucm.data.source import StateLostError, once_more
from ucm.evidence.row_losses import LossProof, losses_proven
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.objective import INNER, Composite
from ucm.forms.rows import RowLosses
from ucm.forms.solver import Solver
from ucm.language.losses import Hinge
from ucm.language.penalties import L2
from ucm.language.term_algebra import ScaledPenalty
from ucm.solvers.blocks.band import WIDE, Band, SievedRows, reach_of, sift, stacked
from ucm.solvers.blocks.by_rounds import by_rounds

__all__ = ["HingeSieve"]

_LIMIT = 30  # rounds
_NARROWER = 0.1  # of the band from one round to the next
_COARSE = 1e-4  # relative gap over the sample
_SIGNS = (1.0, -1.0)


@dataclass(frozen=True)
class HingeSieve(Solver[RowLosses]):
    """Sample, sieve, solve, verify.

    Parameters
    ----------
    inner
        What solves the sample and the band, in memory.
    budget
        Bytes of the band at most.
    """

    inner: Solver[Composite]
    budget: int = 1 << 28
    name: ClassVar[str] = "hinge-sieve"

    def __post_init__(self) -> None:
        check_fields(self, inner=INNER, budget=COUNT)

    def refuse(self, form: RowLosses) -> str | None:
        if form.hinge is None:
            return "it takes the hinge loss itself, p = 1"
        nothing = np.broadcast_to(0.0, (2 * form.n, form.n))
        y = np.repeat(_SIGNS, form.n)
        return self.inner.refuse(_composite(nothing, y, np.ones(y.size), form.lam))

    def predicted_passes(self, form: RowLosses) -> float:
        return 4.0

    def solve(self, form: RowLosses, monitor: Monitor, start: Answer | None = None) -> Answer:
        return by_rounds(lambda: self._solve(form, monitor), form.data.stored, monitor)

    def _solve(self, form: RowLosses, monitor: Monitor) -> Answer:
        C = _weights(form)
        w, b, reach = self._sample(form, monitor)
        first, exact = reach.copy(), 0.3 * monitor.tol
        rounds, band = form.data.source.rounds(), Band()
        lost = 0
        held: Vec | None = None  # the slopes of those below 1, by class
        answer = Answer(w=w, b=b)
        for k in range(monitor.limit(_LIMIT) + 1):
            theta = np.array([1.0 - b, 1.0 + b])
            try:
                found = rounds.run(sift, w, theta, reach, _SIGNS)
            except StateLostError:
                lost = once_more(rounds, lost)
                reach, band, held = first.copy(), Band(), None
                continue
            monitor.passes += 1.0
            monitor.reads += 1
            new = band.add(found, C)
            counts = np.sum([part.counts for part in found], axis=0)
            points = np.sum([part.points for part in found], axis=0)
            losses = np.sum([part.below for part in found], axis=0)
            at = C if held is None else (float(held[0]), float(held[1]))
            rows = SievedRows(
                rounds, band, at, (float(counts[0]), float(counts[1])), (w, theta, _SIGNS)
            )
            proof = LossProof(w, b, float(np.dot(C, losses)), rows=rows)
            if held is not None:
                proof = _with_slopes(proof, band, held, counts, points)
            certificate = losses_proven(form, proof)
            answer = monitor.latest = Answer(w=w, b=b, rows=proof)
            stop = monitor.report(k, certificate.primal, certificate.relative_gap)
            if certificate.relative_gap <= monitor.tol:
                return answer
            if stop or monitor.late:
                return answer.interrupted()
            if held is not None and new == 0:
                exact *= 0.2
                if exact < 1e-13:
                    return answer.ended(
                        "stalled", f"the gap stayed at {certificate.relative_gap:.2g}"
                    )
            if band.nbytes > self.budget:
                return answer.ended(
                    "stalled",
                    f"the rows with margins near 1 take {band.nbytes / 1e6:.3g} MB; raise the budget, "
                    "ucm.solvers.HingeSieve(budget=...)",
                )
            w, b, held = self._band(form, monitor, band, counts, points, w, b, exact)
            reach = np.where(np.isfinite(reach), _NARROWER * reach, reach)
        return answer.ended(
            "max_iter", f"{monitor.limit(_LIMIT)} rounds did not reach the tolerance"
        )

    def _sample(self, form: RowLosses, monitor: Monitor) -> tuple[Vec, float, Vec]:
        """w, b, and how far from 1 the band goes."""
        X, y = form.data.sample
        counts = [max(1, int((s * y > 0.0).sum())) for s in _SIGNS]
        own, y = np.abs(y), np.sign(y)
        shares = [
            C * total / float(own[y == s].sum())
            for C, total, s in zip(_weights(form), form.data.totals, _SIGNS, strict=True)
        ]
        problem = _composite(X, y, np.where(y > 0.0, *shares) * own, form.lam)
        answer = self._inside(form, monitor, problem, None, max(_COARSE, monitor.tol))
        w, b = answer.plane
        off = np.abs(1.0 - y * (np.asarray(X @ w).ravel() + b))
        row = X.nnz * 12 / y.size if sparse.issparse(X) else 8 * form.n
        part = min(
            WIDE * float(np.sqrt(form.n / min(counts))), 0.75 * self.budget / (row * form.data.m)
        )
        return w, b, np.array([reach_of(off[y == s], part, 2 * form.n) for s in _SIGNS])

    def _inside(
        self,
        form: RowLosses,
        monitor: Monitor,
        problem: Composite,
        start: Answer | None,
        tol: float,
    ) -> Answer:
        own = monitor.below(tol)
        answer = self.inner.solve(problem, own, start)
        share = problem.entries / max(1, form.data.stored)
        monitor.passes += share * own.passes
        monitor.systems += own.systems
        monitor.forming += share * own.forming
        return answer

    def _band(
        self,
        form: RowLosses,
        monitor: Monitor,
        band: Band,
        counts: Any,
        points: Any,
        w: Vec,
        b: float,
        tol: float,
    ) -> tuple[Vec, float, Vec]:
        """w, b and the slopes of the held rows by class; those of the band, in it."""
        C, tables, labels, weights = _weights(form), [], [], []
        for c, sign in enumerate(_SIGNS):
            if band.p[c].size:
                tables.append(band.X[c])
                labels.append(np.full(band.p[c].size, sign))
                weights.append(C[c] * band.c[c])
        inside = sum(v.size for v in labels)
        for c, sign in enumerate(_SIGNS):
            if counts[c]:
                mean = points[c : c + 1] / counts[c]
                tables.append(sparse.csr_matrix(mean) if sparse.issparse(tables[0]) else mean)
                labels.append(np.array([sign]))
                weights.append(np.array([C[c] * counts[c]]))
        problem = _composite(
            stacked(tables), np.concatenate(labels), np.concatenate(weights), form.lam
        )
        answer = self._inside(form, monitor, problem, Answer(w=w, b=b), max(tol, 1e-13))
        w, b = answer.plane
        slopes = np.zeros(problem.m) if answer.slopes is None else answer.slopes
        slopes = np.clip(slopes, 0.0, np.concatenate(weights))
        own, rest = slopes[:inside], list(slopes[inside:])
        band.p = [own[: band.p[0].size], own[band.p[0].size :]]
        return w, b, np.array([rest.pop(0) / counts[c] if counts[c] else 0.0 for c in range(2)])


def _weights(form: RowLosses) -> tuple[float, float]:
    if form.hinge is None:
        raise TypeError("the hinge loss alone")
    return form.hinge


def _composite(X: Any, y: Vec, weights: Vec, lam: float) -> Composite:
    return Composite(X, y, (Hinge(),), (ScaledPenalty(lam, L2()),), (weights,))


def _with_slopes(proof: LossProof, band: Band, held: Vec, counts: Any, points: Any) -> LossProof:
    """With the slopes of the held rows, the same for all of a class, and of the band."""
    sums, at = held * counts, held[:, None] * points
    for c in range(2):
        if band.p[c].size:
            sums[c] += band.p[c].sum()
            at[c] += band.X[c].T @ band.p[c]
    return LossProof(proof.w, proof.b, proof.loss, sums, sums, at, proof.rows)
