"""Sets of means, covariances and whole hulls over rows: few rows are vertices, the others lie between them.

Over means and covariances of all rows, and the hulls of some, the problem is solved in memory. Its point lies
in the hulls of all rows too. A pass looks along the directions in which the certificate asked for the hulls,
and brings the rows that lie further out than those here; with them the certificate is one over all rows.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ucm.compiler.lowering import ExternalAnswer, Lowering, Proof, Recovered, Verdict
from ucm.compiler.robust import DistanceLowering
from ucm.data.bound import Data
from ucm.data.first_pass import drawn, refuse_gathering
from ucm.data.linear import Vec
from ucm.data.maps import SampleMap
from ucm.data.source import as_double, gathered, given_rows, spread
from ucm.evidence.certificate import certify
from ucm.evidence.verify import Verification
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.lazy import LazyVector
from ucm.forms.monitor import Monitor
from ucm.forms.solution import Certificate, Solution
from ucm.forms.solver import Solver
from ucm.language.domains import Simplex
from ucm.language.node import Node
from ucm.language.robust import RobustMargin
from ucm.language.sets.hull import Hull
from ucm.language.statistics.samples import Covariance, Mean, SampleNode, Samples
from ucm.solvers.out_of_core.by_rounds import by_rounds

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["ColumnGenerationLowering", "of_vertices"]

_LIMIT = 40  # rounds
_SAMPLE = 2000  # rows to begin with
_MOST = 20  # rows of a class that a block brings for one direction
_COARSE = 0.3  # of the tolerance: what is asked over the rows that are here


def of_vertices(U: Node) -> bool:
    """Whether the samples of a set stand under means, covariances and whole hulls only, under no group."""
    if isinstance(U, Hull) and U.weights not in (None, Simplex()):
        return False
    if isinstance(U, Mean | Covariance | Hull):
        return isinstance(U.samples, Samples) and U.samples.label is None
    return not isinstance(U, SampleNode) and all(map(of_vertices, U.below()))


def _beyond(X: Any, y: Any, D: Any, sides: Vec, tops: Vec) -> Any:
    """The rows of a class, 1.0 or -1.0, whose products with a direction are above `tops`."""
    X, y = as_double(X), np.asarray(y, dtype=np.float64)
    scores, met = np.asarray(X @ D.T), np.zeros(y.size, dtype=bool)
    for j, (side, top) in enumerate(zip(sides, tops, strict=True)):
        rows = np.flatnonzero((side * y > 0.0) & (scores[:, j] > top))
        if rows.size > _MOST:
            rows = rows[np.argpartition(scores[rows, j], -_MOST)[-_MOST:]]
        met[rows] = True
    rows = np.flatnonzero(met)
    return X[rows], y[rows], rows, y.size


class _Recorded(SampleMap):
    """Samples that record the directions in which a certificate asks for them."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner.X, inner.s)
        self.directions: list[Vec] = []

    def rmatvec(self, w: Vec) -> Vec:
        self.directions.append(w.copy())
        return super().rmatvec(w)


@dataclass
class _Vertices:
    """The rows that are here, and where they come from.

    Attributes
    ----------
    moments : the means and covariances of all rows
    X, y : the rows
    places : of each its number among all
    """

    moments: Data
    X: Any = None
    y: Vec = field(default_factory=lambda: np.zeros(0))
    places: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def added(self, found: list[Any]) -> _Vertices:
        """With the rows of a round."""
        starts = np.cumsum([0, *(part[3] for part in found)])
        places = np.concatenate([s + p[2] for s, p in zip(starts, found, strict=False)])
        X, y = gathered([part[:2] for part in found])
        new = ~np.isin(places, self.places)
        X, y = X[new], y[new]
        if self.X is not None:
            X, y = gathered([(self.X, self.y), (X, y)])
        return _Vertices(self.moments, X, y, np.concatenate([self.places, places[new]]))

    def data(self) -> Data:
        """Bound data of these rows, with the means and covariances of all."""
        moments = self.moments
        found = Data(self.X, np.sign(self.y), moments.weighing, source=moments.source)
        found.scale, found.counts, found.origin = moments.scale, moments.counts, moments.origin
        found.approx = moments.approx
        for kind in ("pos", "neg", "signed"):
            for name in ("mean", "covariance", "centred"):
                key = (name, kind, None)
                found.once(key, functools.partial(moments.once, key, lambda: None))
        return found


class ColumnGenerationLowering(Lowering[MinNorm]):
    """`min ||x||_q` over such a set, whose hulls are of rows that are read block by block."""

    def __init__(
        self, model: RobustMargin, moments: Data, asked: str | Solver[Any] = "auto"
    ) -> None:
        source: Any = moments.source
        self.model, self.asked, self.source = model, asked, source
        self.untold = 0
        self._sample(_Vertices(moments), _SAMPLE)

    def _sample(self, vertices: _Vertices, size: int) -> None:
        step = max(1, self.source.m // size)
        self._lower(vertices.added(self.source.map_reduce(drawn, (step, step))))
        self.untold += 1  # a pass that no solve has counted

    def _lower(self, vertices: _Vertices) -> None:
        """All at once: Ctrl-C may come in between."""
        data = vertices.data()
        inner = DistanceLowering(self.model, data, self.asked, None)
        self.vertices, self.data, self.inner, self.form = vertices, data, inner, inner.form

    def _count(self, monitor: Monitor) -> None:
        monitor.passes += self.untold
        monitor.reads += self.untold
        self.untold = 0

    def describe(self) -> list[str]:
        return [
            *self.inner.describe(),
            f"rows      {self.here} of {self.source.m} are here, vertices come; {self.source!r}",
        ]

    @property
    def here(self) -> int:
        """The number of rows so far."""
        return self.vertices.y.size

    def run(
        self, solver: Solver[MinNorm], monitor: Monitor, start: Answer | None, starts: int
    ) -> list[Answer]:
        answer = by_rounds(lambda: self._run(solver, monitor, start), self.data.stored, monitor)
        return [self._padded(answer)]

    def _run(self, solver: Solver[MinNorm], monitor: Monitor, start: Answer | None) -> Answer:
        self._count(monitor)
        answer, limit = Answer(), monitor.limit(_LIMIT)
        for k in range(limit):
            own = monitor.below(_COARSE * monitor.tol)
            answer = self.inner.answer(solver, own, start)
            monitor.passes += 1.0 + own.passes * self.data.stored / self.source.m / self.source.n
            monitor.reads += 1
            if answer.status == "infeasible" and self.here < self.source.m:
                self._sample(self.vertices, 8 * self.here)  # few rows miss the rest of the set
                self._count(monitor)
                start = monitor.latest = None
                continue
            vertices = self.vertices.added(self.source.map_reduce(_beyond, *self._asked(answer)))
            stalled = answer.status != "converged" and vertices.y.size == self.here
            if vertices.y.size > self.here:
                self._lower(vertices)
                answer = self._padded(answer)
            proof = self.inner.certify(answer, monitor.tol)
            gap = proof.certificate.relative_gap
            monitor.latest = answer
            stop = monitor.report(k, proof.certificate.dual, gap)
            if monitor.reached(gap) or not answer.q or (proof.w is not None and not proof.w.any()):
                return answer
            if stop or monitor.late or answer.status == "interrupted":
                return answer.interrupted()
            if stalled:
                return answer
            start = answer
        return answer.ended("max_iter", f"{limit} rounds did not reach the tolerance")

    def _padded(self, answer: Answer) -> Answer:
        """With weight 0 for rows that came."""
        sizes = [b.map.shape[1] for b in self.form.blocks]
        padded = [np.append(v, np.zeros(k - v.size)) for v, k in zip(answer.q, sizes, strict=False)]
        return replace(answer, q=padded)

    def _asked(self, answer: Answer) -> tuple[Any, Vec, Vec]:
        """The directions in which the certificate asks for hulls, their classes, and how far the rows that
        are here reach."""
        data = self.vertices.data()
        maps = {kind: _Recorded(self.data.samples(kind)) for kind in ("pos", "neg", "signed")}
        for kind, own in maps.items():
            data.once(("samples", kind, None), lambda own=own: own)
        certify(self.model, data, answer.q, answer.w, self.form.splits(answer))
        asked: list[tuple[Vec, float]] = []
        for kind, own in maps.items():
            for d in own.directions:
                asked += [(d, 1.0)] if kind != "neg" else []
                asked += [(-d if kind == "signed" else d, -1.0)] if kind != "pos" else []
        D = np.reshape([d for d, _ in asked], (len(asked), self.source.n))
        sides = np.array([side for _, side in asked])
        scores = np.asarray(self.vertices.X @ D.T)
        tops = [scores[side * self.vertices.y > 0.0, j].max() for j, side in enumerate(sides)]
        return D, sides, np.array(tops)

    def certify(self, answer: Answer, tol: float) -> Proof:
        return self.inner.certify(answer, tol)

    def certify_external(self, given: ExternalAnswer) -> Certificate:
        refuse_gathering(self.source, "a certificate of an answer from elsewhere")

    def verdict(self, proof: Proof, solver: str, monitor: Monitor) -> Verdict | None:
        return self.inner.verdict(proof, solver, monitor)

    def recover(self, proof: Proof, bias_rule: str) -> Recovered:
        parts = self.inner.recover(proof, bias_rule)
        if parts.weights is None:
            return parts
        return replace(
            parts,
            weights=LazyVector(
                given_rows(self.source), functools.partial(self._weights, parts.weights)
            ),
        )

    def _weights(self, own: Vec) -> Vec:
        found = np.zeros(self.source.m)
        found[self.vertices.places] = own
        return spread(self.source, lambda: found)

    def reference(self, at: Solution | None, scaled: bool) -> cp.Problem:
        return self.inner.reference(at, scaled)

    def verify(self, solution: Solution, tol: float, **options: Any) -> Verification:
        return self.inner.verify(replace(solution, weights=None), tol, **options)
