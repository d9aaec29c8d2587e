"""Active-set semismooth Newton solver for the nearest points of two hulls.

The method is that of `ucm/native/hulls.c`. Zhao, Sun and Toh (2010) give the augmented Lagrangian; Ito,
Takeda and Toh (2015), equation (12), the problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import LinearMap, Matrix, SampleMap, Vec
from ucm.data.options import COUNT, option
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Answer, Solver
from ucm.native.threads import blas_threads
from ucm.numerics.coordinates import SpanCoordinates
from ucm.solvers.sample_layout import CompiledLoop, SampleTables, largest

_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class ActiveSet(Solver[MinNorm]):
    """Solve for the nearest points of two (reduced) hulls: proximal augmented Lagrangian, active samples.

    Parameters
    ----------
    max_order
        Largest order of the linear systems, the smaller one of features and samples.
    """

    max_order: int = option(COUNT, 2000)
    name: ClassVar[str] = "active-set"

    def refuse(self, form: MinNorm) -> str | None:
        if (why := form.reason_against()) is not None:
            return why
        hulls = [b.groups for b in form.blocks if _samples(b.map) is not None]
        if len(hulls) != len(form.blocks) or sum(len(groups or ()) for groups in hulls) != 2 or None in hulls:
            return "it takes two hulls of samples, with caps or without"
        samples = sum(b.map.shape[1] for b in form.blocks)
        if form.center.any() and form.n > samples:
            return "a point beside the hulls may lie outside of the span of the samples"
        order = min(form.n, samples)
        if order > self.max_order:
            return f"its linear systems would have order {order}, above {self.max_order}"
        return None

    def solve(self, form: MinNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        hulls = _Sides(form, monitor)
        with blas_threads(0, hulls.entries):  # one thread factors such systems best
            loop = CompiledLoop(hulls)
            if start is None:
                hulls.begin(loop)
            else:
                direction = None if start.w is None else hulls.inward(start.w)
                loop.begin_near(hulls.joined(start.q), direction)
            ended = loop.run(monitor, monitor.tol)
        message = f"the gap stayed at {loop['gap']:.2g}; raise max_iter or tol"
        return Answer(hulls.blocks(loop.weights()), hulls.normal(loop.w)).after(ended, message)


def _samples(A: LinearMap) -> tuple[Matrix, float] | None:
    """Return the sample matrix of a map and its scalar factor; None for other maps."""
    A, factor = A.without_factor()
    return (A.X, factor) if isinstance(A, SampleMap) else None


class _Sides(SampleTables):
    """Sample tables of two hulls, in coordinates of their span if there are more features than samples."""

    def __init__(self, form: MinNorm, monitor: Monitor) -> None:
        self.form = form
        caps, totals = [], []
        self.places: list[tuple[int, slice | NDArray[np.intp]]] = []  # block and rows of each hull
        self.declared: list[float] = []  # signed factor of the samples of each hull
        tables = []
        for k, b in enumerate(form.blocks):
            samples = _samples(b.map)
            X, factor = samples if samples is not None else (np.empty((0, 0)), 0.0)
            for g, sign in zip(b.groups or (), (1.0, -1.0), strict=False):
                caps.append(g.most)
                totals.append(g.mass)
                tables.append(X if b.classes is None else X[g.entries])
                self.places.append((k, g.entries))
                self.declared.append(factor * sign)
        self.joint, unit = len(form.blocks) == 1, 1.0
        self.span: SpanCoordinates | None = None
        if form.n > sum(X.shape[0] for X in tables):
            tables, unit = self._in_span(tables, monitor)
        factors = unit * np.array(self.declared)
        super().__init__(tables, np.array(caps), np.array(totals), factors, form.stored)
        self.center = form.center / self.unit if form.center.any() else None

    def _in_span(self, tables: list, monitor: Monitor) -> tuple[list, float]:
        """Return the sample tables in coordinates of their span, and the unit of length of these."""
        unit = max(largest(X) for X in tables) or 1.0
        if 1e-100 < unit < 1e100:
            unit = 1.0
        else:  # inner products may overflow
            tables = [X / unit for X in tables]
        with blas_threads(sum(X.shape[0] for X in tables)):
            self.span = SpanCoordinates(tables)
        monitor.hessian_passes += 0.5 * self.span.forming / max(1, self.form.stored)
        return self.span.tables, unit

    def normal(self, w: Vec) -> Vec | None:
        """Return w in feature space, scaled to norm 1; None if w is 0 or its norm underflows."""
        w = w if self.span is None else self.span.outward(w)
        norm = float(np.linalg.norm(w))
        return w / norm if norm > _TINY else None

    def inward(self, x: Vec) -> Vec:
        """Convert a vector of feature space to the coordinates and units of the tables."""
        return (x if self.span is None else self.span.inward(x)) / self.unit

    def objective(self, found: float) -> float:
        return -found * self.unit

    def joined(self, q: Sequence[Vec]) -> Vec:
        return np.concatenate([q[k][rows] for k, rows in self.places])

    def blocks(self, parts: list[Vec]) -> list[Vec]:
        """Return the class weights as parameters by block of the form."""
        if len(self.form.blocks) == 2:
            return parts
        joint = np.empty(self.form.blocks[0].map.shape[1])
        for (_, rows), part in zip(self.places, parts, strict=True):
            joint[rows] = part
        return [joint]
