"""Nearest points of reduced hulls of many samples behind a kernel: `ucm.solvers.rows.banded` for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear import Vec
from ucm.data.options import check_fields, whole
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.nearest import IMPROVING, HullsByRows, Improving, NearestPoint, small
from ucm.solvers.rows.banded import Band, Banded, Levels, sieved
from ucm.solvers.rows.faces import on_faces
from ucm.solvers.threads import blas_threads

__all__ = ["GramSieve"]

_WIDER = 1.5  # the free weights that a level begins with, against those of the coarser one


@dataclass(frozen=True)
class GramSieve(Levels, NearestPoint):
    """A sample, the weights near their bounds, the scores of all samples, and again.

    Parameters
    ----------
    newton
        What solves a band of few free weights.
    pairs
        Goes on over all samples where bands gain nothing more.
    free
        How many are few; others, and those where most samples are free, conjugate gradients on faces solve.
    coarse, stride, band
        As in `Levels`; a kink is a bound of a weight.
    """

    newton: Improving
    pairs: Improving
    free: int = 1500
    name: ClassVar[str] = "gram-sieve"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, newton=IMPROVING, pairs=IMPROVING, free=whole(0))

    def solve(self, form: MinNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        with blas_threads(0):
            hulls = HullsByRows.of(form)
            first = None if start is None else hulls.start(form.begin(start))
            problem = _Hulls(hulls, self, small(monitor))
            found = sieved(problem, self, monitor, first)
        answer = Answer(hulls.blocks(form, found.p)).ended(found.status, found.message)
        return self.pairs.solve(form, monitor, answer) if found.status == "stalled" else answer


class _Hulls(Banded):
    """Reduced hulls by the weights of their samples.

    Attributes
    ----------
    zero : the part of the size of U below which a distance counts as 0
    """

    def __init__(self, hulls: HullsByRows, solver: GramSieve, zero: float) -> None:
        self.hulls, self.solver, self.zero = hulls, solver, zero
        self.gram, self.index, self.s = hulls.gram, hulls.index, hulls.s
        self.top = hulls.cap[hulls.group]

    def every(self, stride: int) -> NDArray[np.intp]:
        return self.hulls.every(stride)

    def part(self, members: NDArray[np.intp]) -> Self:
        return type(self)(self.hulls.part(members), self.solver, self.zero)

    def begin(self) -> Vec:
        return self.hulls.start(None)

    def lifted(self, free: int, products: Vec) -> Vec:
        """The kinks are as wide as lets `_WIDER` times as many weights be free as there."""
        F = self.hulls.pull + self.s * products[self.index]
        theta = self.hulls.levels(F)[self.hulls.group]
        off = np.abs(F - theta)
        k = min(off.size - 1, int(_WIDER * free) + 20)
        width = 2.0 * float(np.partition(off, k)[k])
        return self.hulls.nearest(self.top * (0.5 - (F - theta) / max(width, 1e-300)))

    def derivatives(self, p: Vec, products: Vec) -> Vec:
        return self.hulls.pull + self.s * products[self.index]

    def value(self, p: Vec, F: Vec) -> tuple[float, float]:
        W = self.hulls.norm(p, F)
        gap = float(self.hulls.gaps(p, F).sum()) / max(W * W, 1e-300)
        return -W, 0.0 if self.hulls.negligible(p, W, gap, self.zero) else gap

    def sides(self, p: Vec, F: Vec) -> tuple[NDArray[np.bool_], NDArray[np.bool_], Vec]:
        free = (p > 0.0) & (p < self.top)
        theta = self.hulls.levels(F)
        for g in range(theta.size):
            own = F[free & (self.hulls.group == g)]
            theta[g] = np.median(own) if own.size else theta[g]
        r = F - theta[self.hulls.group]
        wrong = ((p <= 0.0) & (r < 0.0)) | ((p >= self.top) & (r > 0.0))
        return free, wrong, r

    def solved(self, band: Band, monitor: Monitor) -> Vec:
        inner, a = self.hulls.while_held(*band), band.p[band.members]
        if not a.any():  # their sums stay 0
            return a
        count = np.count_nonzero((a > 0.0) & (a < self.top[band.members]))
        monitor.least = self.zero
        if self.mostly or count > self.solver.free:
            return on_faces(inner, a, monitor)
        return self.solver.newton.improved(inner, a, monitor)
