"""Many samples behind a kernel: some first, then the weights near their kinks, the scores of all in between.

A round takes the free weights, and of the others those on the wrong side of their kink and the nearest to
it: the band. It is solved on its own block of the Gram matrix while the others stay, and the scores of all
samples follow in tiles that are not kept (`Gram.follow`): the matrix itself is never stored. A level with
more samples begins at the weights that the scores of the coarser one suggest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import isqrt
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ucm.data.gram import Gram
from ucm.data.linear import Vec
from ucm.data.options import check_fields, whole
from ucm.forms.monitor import Monitor

__all__ = ["Band", "Banded", "Ended", "Levels", "sieved"]

_COARSE_GAP = 1e-2
_MOST_GAP, _SHARE = 1e-2, 0.03  # of a band: at most, and against the gap of all
_FINER = 0.3  # of the gap of a band after a round without a better one of all
_LIMIT = 1000  # rounds
_IDLE = 10  # rounds without a better gap


@dataclass(frozen=True, kw_only=True)
class Levels:
    """How a solver takes the samples.

    Parameters
    ----------
    coarse
        Samples of the first level, at most.
    stride
        Samples of a level for each one of the coarser level.
    band
        Weights of a band, or twice the free ones if these are more; fewer where few are on the wrong side of
        their kink, or where half of `cache_size` holds no more.
    """

    coarse: int = 700
    stride: int = 6
    band: int = 3000

    def __post_init__(self) -> None:
        check_fields(self, coarse=whole(2), stride=whole(2), band=whole(2))


class Ended(NamedTuple):
    """The weights of a level, and how it ended: a status of `Answer`, and what was left."""

    p: Vec
    status: str
    message: str = ""


class Band(NamedTuple):
    """Some of the weights.

    Attributes
    ----------
    members : which they are
    p, F : all weights, and the derivatives by each
    K : the Gram matrix of the band
    """

    members: NDArray[np.intp]
    p: Vec
    F: Vec
    K: NDArray[np.float64]


class Banded(ABC):
    """A problem over weights p of samples, each with kinks where it may stay.

    Attributes
    ----------
    gram : of the samples
    index : (n,) the sample of each weight
    s : (n,) its factor in the point `sum_k s_k p_k phi(x_k)`
    top : (n,) its upper bound
    mostly : whether more than half of the weights of the coarser level were free
    """

    mostly: bool = False
    gram: Gram
    index: NDArray[np.intp]
    s: Vec
    top: Vec

    @abstractmethod
    def every(self, stride: int) -> NDArray[np.intp]:
        """The weights of every `stride`-th sample of each class."""

    @abstractmethod
    def part(self, members: NDArray[np.intp]) -> Self:
        """The problem of some of the samples."""

    @abstractmethod
    def begin(self) -> Vec:
        """Weights to start from."""

    @abstractmethod
    def lifted(self, free: int, products: Vec) -> Vec:
        """Weights from the point of a coarser level, with so many free, by its products with the samples."""

    @abstractmethod
    def derivatives(self, p: Vec, products: Vec) -> Vec:
        """F, of the objective by each weight."""

    @abstractmethod
    def value(self, p: Vec, F: Vec) -> tuple[float, float]:
        """The objective, and the relative gap."""

    @abstractmethod
    def sides(self, p: Vec, F: Vec) -> tuple[NDArray[np.bool_], NDArray[np.bool_], Vec]:
        """Which weights are free, which are on the wrong side of their kink, and their derivatives from
        the level of the free ones on."""

    @abstractmethod
    def solved(self, band: Band, monitor: Monitor) -> Vec:
        """The weights of the band, once it is solved to the tolerance of the monitor; the others stay."""

    def follow(self, p: Vec) -> Vec:
        """F at p, from the last products by the weights that changed."""
        c = np.zeros(self.gram.m)
        c[self.index] = self.s * p
        return self.derivatives(p, self.gram.follow(c))


def sieved(
    problem: Banded, levels: Levels, monitor: Monitor, start: Vec | None = None, top: bool = True
) -> Ended:
    """All levels up to that of the problem, to the tolerance of the monitor; `top` where it is the last."""
    p = _lifted(problem, levels, monitor) if start is None else start
    F = problem.follow(p)
    best, idle, gap = np.inf, 0, np.inf
    for k in range(monitor.limit(_LIMIT) + 1 if top else _LIMIT):
        value, gap = problem.value(p, F)
        stop = monitor.late
        if top:
            monitor.kernel_operations = problem.gram.computed
            monitor.passes = problem.gram.computed / (2.0 * problem.gram.m)
            stop = monitor.report(k, value, gap)
        if gap <= 0.8 * monitor.tol:
            return Ended(p, "converged")
        if stop:
            return Ended(p, "interrupted")
        idle = 0 if gap < 0.9 * best else idle + 1
        best = min(best, gap)
        inner = max(0.3 * monitor.tol, min(_SHARE * gap, _MOST_GAP)) * _FINER**idle
        q = _step(problem, levels, p, F, monitor.below(inner), monitor)
        if idle > _IDLE:
            return Ended(p, "stalled", f"the gap stayed at {gap:.2g}")
        p, F = q, problem.follow(q)
    return Ended(p, "max_iter", f"the gap stayed at {gap:.2g}; raise max_iter or tol")


def _lifted(problem: Banded, levels: Levels, monitor: Monitor) -> Vec:
    """Weights from the coarser levels; of few samples those of the problem itself."""
    if problem.index.size <= levels.coarse:
        return problem.begin()
    members = problem.every(levels.stride)
    part = problem.part(members)
    own = monitor.below(max(_COARSE_GAP, monitor.tol))
    p = sieved(part, levels, own, top=False).p
    monitor.systems += own.systems
    problem.gram.computed += part.gram.computed
    used = np.flatnonzero(p)
    products = problem.gram.sums(problem.index[members[used]], (part.s * p)[used])
    free = int(np.count_nonzero((p > 0.0) & (p < part.top)))
    problem.mostly = 2 * free > p.size
    return problem.lifted(free, products)


def _step(problem: Banded, levels: Levels, p: Vec, F: Vec, inner: Monitor, monitor: Monitor) -> Vec:
    """The weights once the band is solved, or on the way there, where the objective would rise, the best."""
    band = _band(problem, levels, p, F)
    index, s = problem.index[band], problem.s[band]
    K = problem.gram.between(index, index)
    found = problem.solved(Band(band, p, F, K), inner)
    monitor.systems += inner.systems
    step = found - p[band]
    fall, curvature = -float(step @ F[band]), float((s * step) @ (K @ (s * step)))
    q = p.copy()
    q[band] = found if 2.0 * fall >= curvature else p[band] + max(fall, 0.0) / curvature * step
    return q


def _band(problem: Banded, levels: Levels, p: Vec, F: Vec) -> NDArray[np.intp]:
    """The free weights, those on the wrong side of their kink, the farthest first, then the nearest. Where
    there is no room for all of these, half of them want to be larger and half smaller: the farthest."""
    free, wrong, r = problem.sides(p, F)
    off = np.abs(r)
    n, count = p.size, int(free.sum())
    room = max(64, isqrt(problem.gram.limit // 16))
    enough = max(levels.band // 3, count + 2 * int(wrong.sum()) + levels.band // 6)
    want = min(max(2 * count, levels.band), enough, room, n)
    if want == n:
        return np.arange(n)
    if 2 * count > want and count + int(wrong.sum()) > want:
        moved = np.flatnonzero(free | wrong)
        order = moved[np.argsort(r[moved])]
        return np.sort(np.concatenate([order[: want // 2], order[want // 2 - want :]]))
    far = 1.0 + float(off.max())
    key = np.where(wrong | (free & (count > want)), -far - off, np.where(free, -3.0 * far, off))
    return np.sort(np.argpartition(key, want - 1)[:want])
