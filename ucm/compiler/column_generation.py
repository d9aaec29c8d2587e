"""Column generation for sets of means, covariances and whole hulls of out-of-core samples.

The problem over the means and covariances of all rows, and the hulls of some rows, is solved in memory. Its
point lies in the hulls of all rows too. A pass looks along the directions in which the certificate asks for
the hulls, and adds the rows that lie further out than the rows in memory. With these rows the certificate
holds for all rows.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.compiler.lowering import BoundModel, ExternalAnswer, Lowering, Proof, Recovered, Regime
from ucm.compiler.robust import DistanceLowering, minimum_norm
from ucm.data.bound_data import Data
from ucm.data.first_pass import drawn, outermost, refuse_gathering
from ucm.data.linear_map import Matrix, SampleMap, Vec
from ucm.data.source import RowSource, gathered
from ucm.evidence.certificate import certify
from ucm.evidence.reference import Verification
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.solution import Certificate, Solution
from ucm.forms.solver import Answer, Solver
from ucm.language.domains import Simplex
from ucm.language.node import Node
from ucm.language.robust import RobustMargin
from ucm.language.sets.hull import Hull
from ucm.language.statistics.samples import Covariance, Mean, SampleNode, Samples
from ucm.solvers.out_of_core.active_set import by_rounds

_LIMIT = 40  # passes
_SAMPLE = 2000  # rows in memory at the start
_MOST = 20  # rows of a class that a block adds for one direction
_COARSE = 0.3  # of the tolerance: the gap over the rows in memory


def of_vertices(U: Node) -> bool:
    """True if the samples of a set enter only through means, covariances and whole hulls, without groups."""
    match U:
        case Mean(samples=Samples(label=None)) | Covariance(samples=Samples(label=None)):
            return True
        case Hull(samples=Samples(label=None), weights=None | Simplex()):
            return True
        case Hull() | SampleNode():
            return False
    return all(map(of_vertices, U.children()))


class _Recorded(SampleMap):
    """Sample map that records the directions of its transposed products."""

    def __init__(self, samples: Any) -> None:
        super().__init__(samples.X, samples.s)
        self.directions: list[Vec] = []

    def rmatvec(self, w: Vec) -> Vec:
        self.directions.append(w.copy())
        return super().rmatvec(w)


class ColumnGenerationLowering(DistanceLowering):
    """The lowering of means, covariances and whole hulls of out-of-core samples, by column generation.

    `min ||x||_q`, by generation of the rows of the hulls.

    moments, source : the means and covariances of all rows, and these rows
    X, y, places : the rows in memory, their labels, and the number of each among all rows
    data, form : these rows as bound data, and the problem over them
    uncounted : passes that no solve has counted
    seen : directions, and classes of rows, of which the rows in memory hold those that lie furthest out
    """

    def __init__(
        self, model: RobustMargin, moments: Data, source: RowSource, requested: str | Solver = "auto"
    ) -> None:
        self.model, self.moments, self.requested, self.source = model, moments, requested, source
        self.X: Matrix = None
        self.y, self.places = np.zeros(0), np.zeros(0, dtype=np.int64)
        self.uncounted, self.seen = 0, set[tuple[bytes, float]]()
        self._sample(_SAMPLE)

    @classmethod
    def candidates(cls, bound: BoundModel) -> tuple[Lowering, ...]:
        """Return the lowering of a set with hulls for the means and covariances of all rows."""
        source = bound.data.source
        if source is None or not bound.model.nodes_of_type(Hull):
            return ()
        return (ColumnGenerationLowering(bound.model, bound.data, source, bound.requested),)

    def _sample(self, size: int) -> None:
        step = max(1, self.source.m // size)
        self._add(self.source.map_reduce(drawn, (step, step)))
        self.uncounted += 1

    def _add(self, parts: list) -> None:
        """Add the new rows of a pass to the rows in memory, and lower the set again."""
        starts = np.cumsum([0, *(part[3] for part in parts)])
        places = np.concatenate([s + p[2] for s, p in zip(starts, parts, strict=False)])
        X, y = gathered([part[:2] for part in parts])
        new = ~np.isin(places, self.places)
        X, y, places = X[new], y[new], np.concatenate([self.places, places[new]])
        if self.X is not None:
            X, y = gathered([(self.X, self.y), (X, y)])
        data = self._bound(X, y)
        minimum_norm(self.model, data)  # kept with the data
        # the assignments stand together, as Ctrl-C may come before them
        self.X, self.y, self.places = X, y, places
        super().__init__(self.model, data, self.requested, None)

    def _bound(self, X: Matrix, y: Vec) -> Data:
        """Return the given rows as bound data, with the means and covariances of all rows of the source."""
        moments = self.moments
        data = Data(X, np.sign(y), moments.weighing, source=moments.source, moments=moments.moments)
        data.scale, data.counts, data.approx = moments.scale, moments.counts, moments.approx
        return data

    def _count(self, monitor: Monitor) -> None:
        monitor.passes += self.uncounted
        monitor.reads += self.uncounted
        self.uncounted = 0

    warm_start = Lowering.warm_start  # none

    @property
    def regime(self) -> Regime:
        return Regime(True, "the solve decides")

    def describe(self) -> dict[str, str]:
        rows = f"{self.y.size} of {self.source.m} in memory, vertices join; {self.source!r}"
        return {**super().describe(), "rows": rows}

    def run(
        self, solver: Solver[MinNorm], monitor: Monitor, start: Answer | None, starts: int
    ) -> list[Answer]:
        answer = by_rounds(lambda: self._run(solver, monitor, start), self.data.stored, monitor)
        return [self._padded(answer)]

    def _run(self, solver: Solver[MinNorm], monitor: Monitor, start: Answer | None) -> Answer:
        self._count(monitor)
        answer, limit = Answer(), monitor.limit(_LIMIT)
        for k in range(limit):
            inner_monitor = monitor.child(_COARSE * monitor.tol)
            answer = self.answer(solver, inner_monitor, start)
            monitor.passes += inner_monitor.passes * self.data.stored / self.source.m / self.source.n
            if answer.status == "infeasible" and self.y.size < self.source.m:
                self._sample(8 * self.y.size)  # few rows miss the rest of the set
                self._count(monitor)
                start = monitor.latest = None
                continue
            size = self.y.size
            proof = self.certify(answer, monitor.tol)
            answer, stalled = proof.answer, answer.status != "converged" and self.y.size == size
            self._count(monitor)
            gap = proof.certificate.relative_gap
            monitor.latest = answer
            stop = monitor.report(k, proof.certificate.dual, gap)
            if monitor.reached(gap) or not answer.q or (proof.w is not None and not proof.w.any()):
                return answer
            if stop or monitor.timed_out or answer.status == "interrupted":
                return answer.interrupted()
            if stalled:
                return answer
            start = answer
        return answer.ended("max_iter", f"{limit} passes did not reach the tolerance")

    def certify(self, answer: Answer, tol: float) -> Proof:
        """Return the proof of an answer, after a pass for the rows furthest out along new directions."""
        while answer.q:
            D, sides, tops = self._directions(answer)
            new = [k for k in range(sides.size) if (D[k].tobytes(), sides[k]) not in self.seen]
            if not new:
                break
            self._add(self.source.map_reduce(outermost, D[new], sides[new], tops[new], _MOST))
            self.uncounted += 1
            self.seen |= {(D[k].tobytes(), sides[k]) for k in new}
            answer = self._padded(answer)
        return super().certify(answer, tol)

    def _padded(self, answer: Answer) -> Answer:
        """Return the answer, its weights padded with zeros for rows added after the solve."""
        sizes = [b.map.shape[1] for b in self.form.blocks]
        padded = [np.append(v, np.zeros(k - v.size)) for v, k in zip(answer.q, sizes, strict=False)]
        return replace(answer, q=padded)

    def _directions(self, answer: Answer) -> tuple[NDArray[np.float64], Vec, Vec]:
        """Return the directions in which the certificate asks for hulls, their classes, and products."""
        data = self._bound(self.X, self.y)
        maps = {kind: _Recorded(self.data.samples(kind)) for kind in ("pos", "neg", "signed")}
        for kind, recorded in maps.items():
            data.once(("samples", kind, None), lambda recorded=recorded: recorded)
        certify(self.model, data, answer.q, answer.w, self.form.splits(answer))
        directions: list[tuple[Vec, float]] = []
        for kind, recorded in maps.items():
            for d in recorded.directions:
                directions += [(d, 1.0)] if kind != "neg" else []
                directions += [(-d if kind == "signed" else d, -1.0)] if kind != "pos" else []
        D = np.reshape([d for d, _ in directions], (len(directions), self.source.n))
        sides = np.array([side for _, side in directions])
        scores = np.asarray(self.X @ D.T)
        tops = [scores[side * self.y > 0.0, j].max() for j, side in enumerate(sides)]
        return D, sides, np.array(tops)

    def certify_external(self, external: ExternalAnswer) -> Certificate:
        refuse_gathering(self.source, "a certificate of an answer from elsewhere")

    def recover(self, proof: Proof, bias_rule: str) -> Recovered:
        parts = super().recover(proof, bias_rule)
        in_memory, places = parts.weights, self.places
        if in_memory is None:
            return parts

        def weights() -> Vec:
            all_weights = np.zeros(self.source.m)
            all_weights[places] = in_memory
            return all_weights

        return replace(parts, weights=None, make_weights=partial(self.source.spread, weights))

    def verify(self, solution: Solution, tol: float, **options: object) -> Verification:
        return super().verify(replace(solution, weights=None), tol, **options)
