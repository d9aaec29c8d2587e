"""Nearest point of two hulls, and a point: semismooth Newton over a band of samples, level after level.

The method is that of `ucm.numerics.newton_hull`, its course that of `ucm.solvers.levels`. Zhao, Sun and Toh
(2010) give the augmented Lagrangian; Ito, Takeda and Toh (2015), equation (12), the problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ucm import numerics
from ucm.data.linear import LinearMap, Vec
from ucm.data.maps import ComposedMap, SampleMap
from ucm.data.options import COUNT, check_fields
from ucm.errors import ParameterError
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Solver
from ucm.solvers.coordinates import ByInnerProducts
from ucm.solvers.tables import FeatureLevel, SampleTables, largest
from ucm.solvers.threads import blas_threads

__all__ = ["HullChain", "NewtonHull"]


_OFF, _NARROWEST = 0.05, 1e-4  # how wide the kinks begin along a chain, of the spread of the scores
_NARROW, _WIDE, _MANY = 0.5, 1.6, 6  # what that is multiplied by, after how many steps
_REACH = 5.0  # of that width: the band
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
        check_fields(self, max_order=COUNT, coarse=COUNT)

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
                rest = hulls.levels(self.coarse)
                level = FeatureLevel(hulls, rest.pop())
                level.begin(hulls.uniform(level))
            else:
                rest, level = [], FeatureLevel(hulls, 1)
                near = None if start.w is None else hulls.inward(start.w)
                level.begin_near(hulls.joined(start.q), near)
            level, ended = hulls.descend(level, rest, monitor)
            return self._answer(hulls, level, ended)

    def _answer(self, hulls: _Sides, level: FeatureLevel, ended: str) -> Answer:
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


class _Sides(SampleTables):
    """The samples of both hulls."""

    def __init__(self, form: MinNorm, monitor: Monitor) -> None:
        self.form = form
        side = np.zeros((2, len(numerics.SIDE)))
        self.places: list[tuple[int, Any]] = []  # the block of each hull, and its rows there
        tables = []
        for k, b in enumerate(form.blocks):
            found = _samples(b.map)
            X, factor = found if found is not None else (np.empty((0, 0)), 0.0)
            for g, sign in zip(b.groups or (), (1.0, -1.0), strict=False):
                side[len(tables), :3] = g.most, g.mass, factor * sign
                tables.append(X if b.classes is None else X[g.entries])
                self.places.append((k, g.entries))
        self.joint = len(form.blocks) == 1
        self.span: ByInnerProducts | None = None
        if form.n > sum(X.shape[0] for X in tables):
            tables = self._in_span(tables, side, monitor)
        super().__init__(tables, side, form.stored)
        self.center = form.center / self.unit if form.center.any() else None

    def _in_span(self, tables: list[Any], side: NDArray[np.float64], monitor: Monitor) -> list[Any]:
        """The samples in coordinates of their span."""
        unit = max(largest(X) for X in tables) or 1.0
        if not 1e-100 < unit < 1e100:  # inner products may overflow
            tables = [X / unit for X in tables]
            side[:, 2] *= unit
        with blas_threads(sum(X.shape[0] for X in tables)):
            self.span = ByInnerProducts(tables)
        monitor.forming += 0.5 * self.span.forming / max(1, self.form.stored)
        return self.span.tables

    def normal(self, w: Vec) -> Vec | None:
        """w in the space of the samples, of norm 1; None for w = 0."""
        w = w if self.span is None else self.span.outward(w)
        norm = float(np.linalg.norm(w))
        return w / norm if norm > _TINY else None

    def inward(self, x: Vec) -> Vec:
        """A point in the space of the samples, in the coordinates worked in."""
        return (x if self.span is None else self.span.inward(x)) / self.unit

    def objective(self, found: float) -> float:
        return -found * self.unit

    def uniform(self, level: FeatureLevel) -> Vec:
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


class HullChain:
    """The nearest points of two hulls for one pair of caps after another, from the one level of all samples
    that stays: weights, band and sums over the free samples go on from where they were.

    Parameters
    ----------
    form : the problem, which `NewtonHull` does not refuse, at the first caps
    """

    def __init__(self, form: MinNorm, monitor: Monitor) -> None:
        self.hulls, self.monitor = _Sides(form, monitor), monitor
        self.level: FeatureLevel | None = None
        self.off = _OFF

    def first(self, coarse: int) -> tuple[list[Vec], Vec]:
        """The weights by hull, and w as long as the nearest point; w = 0 where that is 0."""
        hulls = self.hulls
        with blas_threads(0, hulls.entries):
            rest = hulls.levels(coarse)
            level = FeatureLevel(hulls, rest.pop())
            level.begin(hulls.uniform(level))
            level, _ = hulls.descend(level, rest, self.monitor)
        self.level = level if level.stride == 1 else level.refined(1)
        return self._found()

    def at(self, caps: Sequence[float], w: Vec) -> tuple[list[Vec], Vec]:
        """As `first`, for other caps, from a dual vector as long as the nearest point.

        The kinks begin as wide as they had to before: narrower where that took several outer steps, wider
        where a single one took many Newton steps.
        """
        level, hulls = self.level, self.hulls
        if level is None:
            raise ParameterError("HullChain: expected caps after the first ones; call first()")
        with blas_threads(0, hulls.entries):
            level.w[:] = hulls.inward(w)
            side, V = level.side, level.V
            before = side[:, 0].copy()
            level.cap_at(np.asarray(caps))
            for c, (lo, _, hi) in enumerate(level.ends):
                q, p = V[0, lo:hi], V[1, lo:hi]
                np.minimum(p, side[c, 0], out=q)
                q[p >= before[c]] = side[c, 0]
                scores = hulls.tables[c] @ (side[c, 2] * level.w)
                np.take(scores, level.tags[lo:hi] >> 1, out=V[2, lo:hi])
                level.ends[c, 1] = hi
            side[:, numerics.SIDE.index("held mass")] = 0.0
            side[:, numerics.SIDE.index("held step")] = 0.0
            width = self.off * float(level.V[2].std())
            level["sigma"] = side[:, 0].max() / width
            level["reach"] = _REACH * width
            level["slack"], level["status"] = np.inf, 0.0
            level["passes"] += 0.5
            self.monitor.iterations = 0
            before = level["systems"]
            level.run(self.monitor, self.monitor.tol, at_once=True)
            outer, steps = self.monitor.iterations, level["systems"] - before
            if outer > 2 or steps < outer:
                self.off = max(self.off * _NARROW, _NARROWEST)
            elif steps > _MANY * outer:
                self.off = min(self.off * _WIDE, 1.0)
        return self._found()

    @property
    def proven(self) -> bool:
        """Whether the last point is within the tolerance, as the loop itself sees it."""
        return self.level is not None and self.level["status"] == 1.0

    def _found(self) -> tuple[list[Vec], Vec]:
        """The weights of both hulls and w."""
        level, hulls = self.level, self.hulls
        if level is None or level["status"] == 2.0:
            return [], np.zeros(hulls.form.n)
        w, length = hulls.normal(level.w), float(np.linalg.norm(level.x)) * hulls.unit
        q = []
        for lo, _, hi in level.ends:
            part = np.empty(hi - lo)
            part[level.tags[lo:hi] >> 1] = level.V[1, lo:hi]
            q.append(part)
        return q, np.zeros(hulls.form.n) if w is None else length * w
