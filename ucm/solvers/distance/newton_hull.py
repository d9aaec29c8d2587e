"""Nearest point of two hulls, and a point: semismooth Newton over a band of samples, level after level.

The method is that of `ucm.numerics.newton_hull`, its course that of `ucm.solvers.levels`. Zhao, Sun and Toh
(2010) give the augmented Lagrangian; Ito, Takeda and Toh (2015), equation (12), the problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from ucm import numerics
from ucm.data.linear import LinearMap, Vec
from ucm.data.maps import ComposedMap, SampleMap
from ucm.errors import ParameterError
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Solver
from ucm.solvers.coordinates import ByInnerProducts
from ucm.solvers.levels import Level, descend, strides
from ucm.solvers.threads import blas_threads

__all__ = ["NewtonHull"]

_COARSE_GAP, _WIDER = 0.1, 2.0  # of a coarse level; its kinks become so much wider on the next
_WHOLE = 1_000_000  # entries of the samples up to which all outer steps are one compiled call
_DENSE = 0.3  # density of a CSR matrix above which rows are faster dense
_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class NewtonHull(Solver[MinNorm]):
    """Proximal augmented Lagrangian with semismooth Newton steps, for two (reduced) hulls.

    Parameters
    ----------
    max_order
        Largest order of the linear systems, the smaller one of features and samples.
    coarse
        Fewest samples of a coarse level.
    """

    max_order: int = 2000
    coarse: int = 1500
    name: ClassVar[str] = "newton-hull"

    def __post_init__(self) -> None:
        if self.max_order < 1 or self.coarse < 1:
            raise ParameterError("NewtonHull: max_order and coarse must be at least 1")

    def refuse(self, form: MinNorm) -> str | None:
        if form.norm != 2.0:
            return "it takes the Euclidean norm only"
        if form.couplings:
            return "it takes two hulls, and there are intersections"
        hulls = [b.groups for b in form.blocks if _samples(b.map) is not None]
        if (
            len(hulls) != len(form.blocks)
            or sum(len(groups or ()) for groups in hulls) != 2
            or None in hulls
        ):
            return "it takes two hulls of samples, with caps or without"
        samples = sum(b.map.shape[1] for b in form.blocks)
        if form.center.any() and form.n > samples:
            return "a point beside the hulls may lie outside of the span of the samples"
        order = min(form.n, samples)
        if order > self.max_order:
            return f"its linear systems would have order {order}, above {self.max_order}"
        return None

    def predicted_passes(self, form: MinNorm) -> float:
        return 11.0

    def solve(self, form: MinNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        hulls = _Sides(form, monitor)
        with blas_threads(0, hulls.entries):  # one thread factors such systems best
            if start is None:
                rest = strides(lambda stride: hulls.can_skip(stride, self.coarse))
                level = _FeatureLevel(hulls, rest.pop())
                level.begin(hulls.uniform(level))
            else:
                rest, level = [], _FeatureLevel(hulls, 1)
                near = None if start.w is None else hulls.inward(start.w)
                level.begin_near(hulls.joined(start.q), near)
            level, ended = descend(
                level, rest, monitor, _COARSE_GAP, at_once=hulls.entries <= _WHOLE
            )
            return self._answer(level, ended)

    def _answer(self, level: _FeatureLevel, ended: str) -> Answer:
        hulls = level.hulls
        if level.stride > 1:  # the weights of all samples that w stands for
            q = hulls.projected(np.split(level.refined(1).V[0], hulls.sizes[:1]))
        else:
            q = hulls.blocks(level.weights())
        message = f"the gap stayed at {level['gap']:.2g}; raise max_iter or tol"
        return Answer(q, hulls.normal(level.w)).after(ended, message)


def _samples(A: LinearMap) -> tuple[Any, float] | None:
    """The samples behind a map, in rows, and their factor."""
    factor = 1.0
    if isinstance(A, ComposedMap) and A.M is None:
        A, factor = A.inner, A.factor
    return (A.X, factor) if isinstance(A, SampleMap) else None


class _Sides:
    """The samples of both hulls, as compiled code takes them.

    Attributes
    ----------
    n : the dimension worked in
    tables : the samples of each, dense or CSR; parts : as compiled code takes them, see
        `ucm.numerics.rows`
    side : (2, k) its cap, mass and factor in front, see `ucm.numerics.SIDE`
    sizes : how many samples it has
    share : passes over the bound data in one over the parts
    unit : what w and x are measured in
    center : the point from which x starts; None for 0
    """

    def __init__(self, form: MinNorm, monitor: Monitor) -> None:
        self.form = form
        self.side = np.zeros((2, len(numerics.SIDE)))
        self.places: list[tuple[int, Any]] = []  # the block of each hull, and its rows there
        tables = []
        for k, b in enumerate(form.blocks):
            found = _samples(b.map)
            X, factor = found if found is not None else (np.empty((0, 0)), 0.0)
            for g, sign in zip(b.groups or (), (1.0, -1.0), strict=False):
                self.side[len(tables), :3] = g.most, g.mass, factor * sign
                tables.append(X if b.classes is None else X[g.entries])
                self.places.append((k, g.entries))
        self.sizes = np.array([X.shape[0] for X in tables])
        self.n = form.n
        self.span: ByInnerProducts | None = None
        if form.n > self.sizes.sum():
            tables = self._in_span(tables, monitor)
        self.tables = [_table(X) for X in tables]
        self.unit = max(_largest(X) for X in tables) or 1.0
        self.side[:, 2] /= self.unit
        self.center = form.center / self.unit if form.center.any() else None
        self.parts = tuple(_part(X) for X in self.tables)
        self.entries = sum(X.nnz if sparse.issparse(X) else X.size for X in tables)
        self.share = self.entries / max(1, form.stored)

    def _in_span(self, tables: list[Any], monitor: Monitor) -> list[Any]:
        """The samples in coordinates of their span."""
        unit = max(_largest(X) for X in tables) or 1.0
        if not 1e-100 < unit < 1e100:  # inner products may overflow
            tables = [X / unit for X in tables]
            self.side[:, 2] *= unit
        with blas_threads(int(self.sizes.sum())):
            self.span = ByInnerProducts(tables)
        monitor.forming += 0.5 * self.span.forming / max(1, self.form.stored)
        self.n = self.span.tables[0].shape[1]
        return self.span.tables

    def normal(self, w: Vec) -> Vec | None:
        """w in the space of the samples, of norm 1; None for w = 0."""
        w = w if self.span is None else self.span.outward(w)
        norm = float(np.linalg.norm(w))
        return w / norm if norm > _TINY else None

    def inward(self, x: Vec) -> Vec:
        """A point in the space of the samples, in the coordinates worked in."""
        return (x if self.span is None else self.span.inward(x)) / self.unit

    def can_skip(self, stride: int, least: int) -> bool:
        """Whether every `stride`-th sample makes a level of its own."""
        sizes = -(-self.sizes // stride)
        return sizes.sum() >= max(least, 10 * self.n) and sizes.min() >= 2 * self.n

    def uniform(self, level: _FeatureLevel) -> Vec:
        return np.repeat(self.side[:, 1] / level.sizes, level.sizes)

    def joined(self, q: Sequence[Vec]) -> Vec:
        return np.concatenate([q[k][rows] for k, rows in self.places])

    def projected(self, parts: list[Vec]) -> list[Vec]:
        """The weights by block, those of the domains nearest to the weights of both hulls."""
        return [
            b.domain.project(v, classes=b.classes)  # type: ignore[attr-defined]
            for b, v in zip(self.form.blocks, self.blocks(parts), strict=True)
        ]

    def blocks(self, parts: list[Vec]) -> list[Vec]:
        """The weights by block."""
        if len(self.form.blocks) == 2:
            return parts
        joint = np.empty(self.form.blocks[0].map.shape[1])
        for (_, rows), part in zip(self.places, parts, strict=True):
            joint[rows] = part
        return [joint]


def _largest(X: Any) -> float:
    """The largest absolute entry."""
    entries = X.data if sparse.issparse(X) else X
    return max(float(entries.max(initial=0.0)), -float(entries.min(initial=0.0)))


def _table(X: Any) -> Any:
    """The samples as they are faster to work with: CSR where few entries are stored."""
    full = sparse.issparse(X) and X.nnz > _DENSE * X.shape[0] * X.shape[1]
    return X.toarray() if full else X


def _part(X: Any) -> tuple[Any, Any, Any]:
    if not sparse.issparse(X):
        none = np.empty(0, dtype=np.uint32)
        return X.reshape(-1), none, none
    index = [v.astype(np.int32, copy=False).view(np.uint32) for v in (X.indices, X.indptr)]
    return X.data, index[0], index[1]


class _FeatureLevel(Level):
    """As `numerics.march` takes it.

    Attributes
    ----------
    w, x : (n,) the dual vector and the point
    V, tags : (4, M), (M,) what is known of each sample, see `ucm.numerics.band` and `rows`
    ends : (2, 3) the first row of each hull in V, the end of its band, its end
    """

    names, theta = numerics.STATE, numerics.SIDE.index("theta")

    def __init__(self, hulls: _Sides, stride: int) -> None:
        self.hulls, self.stride = hulls, stride
        self.sizes = -(-hulls.sizes // stride)
        M, n = int(self.sizes.sum()), hulls.n
        a = int(self.sizes[0])
        self.ends = np.array([[0, a, a], [a, M, M]])
        self.starts = self.ends[:, 0]
        self.side = hulls.side.copy()
        self.side[:, 0] = np.minimum(self.side[:, 0] * hulls.sizes / self.sizes, self.side[:, 1])
        self.share = hulls.share * M / hulls.sizes.sum()  # passes over the bound data in one here
        self.spent = 0.0  # passes here, as far as they are counted
        self.state = np.zeros(len(numerics.STATE))
        self["slack"] = self["reach"] = np.inf
        self.V, self.work = np.zeros((4, M)), np.empty((2, M))
        self.tags = np.empty(M, dtype=np.uint32)
        for lo, _, hi in self.ends:
            self.tags[lo:hi] = np.arange(0, 2 * (hi - lo), 2, dtype=np.uint32)
        self.H, self.S, self.system = np.zeros((n, n)), np.zeros((2, n)), np.empty((n, n))
        self.w, self.x = np.zeros(n), np.zeros(n)
        if hulls.center is not None:
            self.x += hulls.center

    def begin(self, q: Vec) -> None:
        """Start at the weights q: `w = x = Z'q`, sigma by the spread of the scores."""
        self._place(q)
        self.w[:] = self.x
        self.begin_at(self._score())

    def begin_near(self, q: Vec, w: Vec | None) -> None:
        """Start at the weights q and, where it is known, the dual vector w of a near problem; sigma
        by their gap."""
        for part, cap in zip(self._split(q), self.side[:, 0]):
            if part.max() < cap < 1.25 * part.max():  # these were at a cap: so they stay
                part *= cap / part.max()
        self._place(q)
        self.w[:] = self.x if w is None else w
        if self.x.any() and self.w.any():
            self._score()
        else:
            self.begin(self.hulls.uniform(self))

    def _place(self, q: Vec) -> None:
        """q in V, and `x = Z'q`, from the centre on."""
        points = [
            factor * (self._rows(X).T @ part)
            for X, factor, part in zip(self.hulls.tables, self.side[:, 2], self._split(q))
        ]
        self.V[0] = self.V[1] = q
        self.x[:] = points[0] + points[1]
        self["passes"] += 0.5
        if len(self.hulls.form.blocks) == 1:  # both hulls make one point
            points = [self.x]
        self["largest"] = sum(float(np.linalg.norm(point)) for point in points)
        if self.hulls.center is not None:
            self.x += self.hulls.center
            self["largest"] += float(np.linalg.norm(self.hulls.center))

    def refined(self, stride: int) -> _FeatureLevel:
        """The level of more samples, from the w and theta of this one: the kinks begin twice as wide
        as they were here. Where x is 0 here, w says nothing."""
        self.V, self.work = np.empty((4, 0)), np.empty((2, 0))  # to be replaced by larger ones
        level = _FeatureLevel(self.hulls, stride)
        if self["status"] == 2.0:
            level.begin(self.hulls.uniform(level))
            return level
        level.w[:], level["largest"] = self.w, self["largest"]
        level.begin_after(self, _WIDER, level._score(), level.V[0])
        level["reach"] = 4.0 * level.side[:, 0].max() / level["sigma"]
        return level

    def _split(self, v: Vec) -> list[Vec]:
        """The parts of both hulls."""
        return [v[lo:hi] for lo, _, hi in self.ends]

    def _rows(self, X: Any) -> Any:
        """The samples of this level; all of them without a copy."""
        return X if self.stride == 1 else X[:: self.stride]

    def _score(self) -> Vec:
        """The scores Z w, also in V."""
        for X, factor, a in zip(self.hulls.tables, self.side[:, 2], self._split(self.V[2])):
            if sparse.issparse(X):
                a[:] = self._rows(X) @ (factor * self.w)
            else:
                np.matmul(self._rows(X), factor * self.w, out=a)
        self["passes"] += 0.5
        return self.V[2]

    def march(self, log: Any, monitor: Monitor) -> int:
        hulls = self.hulls
        self["zero"] = monitor.zero
        self["verify"] = float(self.stride == 1)
        before = self["systems"], self["forming"]
        done = numerics.march(
            hulls.parts, self.stride, self.ends, self.side, self.state, self.w, self.x, self.V,
            self.tags, self.H, self.S, self.system, self.work, monitor.stop, log,
        )  # fmt: skip
        monitor.systems += int(self["systems"] - before[0])
        monitor.forming += self.share * (self["forming"] - before[1])
        return done

    def told(self, row: list[float], monitor: Monitor) -> tuple[float, float]:
        passes, gap, norm = row
        monitor.passes += self.share * (passes - self.spent)
        self.spent = passes
        return -norm * self.hulls.unit, gap

    def ended(self, monitor: Monitor) -> str | None:
        return "converged" if self["status"] > 0.0 else None

    def weights(self) -> list[Vec]:
        """p of both hulls in the order of the samples."""
        self.work = np.empty((2, 0))  # as large as the answer
        found = []
        for lo, _, hi in self.ends:
            q = np.empty(hi - lo)
            q[self.tags[lo:hi] >> 1] = self.V[1, lo:hi]
            found.append(q)
        return found
