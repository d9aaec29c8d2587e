"""Samples of two classes as compiled code takes them, and a level of them, for `numerics.march`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm import numerics
from ucm.data.linear import Vec
from ucm.forms.monitor import Monitor
from ucm.solvers.levels import Level, descend, strides

__all__ = ["FeatureLevel", "SampleTables", "largest"]

if numerics.ready("newton_hull"):
    numerics.march  # noqa: B018  loaded here, with numba, and not in the first solve

_COARSE_GAP = 0.1  # of a coarse level
_WHOLE = 1_000_000  # entries of the samples up to which all outer steps are one compiled call
_WIDER = 2.0  # the kinks of a level against those of the coarser one
_ROOM = 1.0 + 1e-12  # of a cap, over that of a point
_DENSE = 0.3  # density of a CSR matrix above which rows are faster dense


class SampleTables(ABC):
    """The samples of two classes, as compiled code takes them.

    Attributes
    ----------
    n : the dimension worked in
    tables : the samples of each, dense or CSR; parts : as compiled code takes them, see
        `ucm.numerics.rows`
    side : (2, k) its cap, mass and factor in front, see `ucm.numerics.SIDE`
    sizes : how many samples it has
    entries : of the tables
    share : passes over the bound data in one over the parts
    unit : what w and x are measured in
    offset : of a hinge loss, in units of w and x; NaN for hulls
    center : the point from which x starts; None for 0
    joint : whether both classes make one point, and not the difference of two
    """

    offset: float = np.nan
    center: Vec | None = None
    joint: bool = True

    def __init__(self, tables: list[Any], side: NDArray[np.float64], stored: int) -> None:
        self.tables, self.side = [_table(X) for X in tables], side
        self.sizes = np.array([X.shape[0] for X in tables])
        self.n = tables[0].shape[1]
        self.unit = max(largest(X) for X in tables) or 1.0
        self.side[:, 2] /= self.unit
        self.parts = tuple(_part(X) for X in self.tables)
        self.entries = sum(X.size if isinstance(X, np.ndarray) else X.nnz for X in tables)
        self.share = self.entries / max(1, stored)

    @abstractmethod
    def uniform(self, level: FeatureLevel) -> Vec:
        """The weights to start from."""

    @abstractmethod
    def objective(self, found: float) -> float:
        """Of the problem, from the `value` of compiled code."""

    def descend(
        self, level: FeatureLevel, rest: list[int], monitor: Monitor
    ) -> tuple[FeatureLevel, str]:
        """From a level through those of the strides that are left: where it ended, and how."""
        return descend(level, rest, monitor, _COARSE_GAP, at_once=self.entries <= _WHOLE)

    def levels(self, least: int) -> list[int]:
        """The strides of the levels, the coarsest with `least` samples."""
        return strides(lambda stride: self._can_skip(stride, least))

    def _can_skip(self, stride: int, least: int) -> bool:
        """Whether every `stride`-th sample makes a level of its own."""
        sizes = -(-self.sizes // stride)
        return sizes.sum() >= max(least, 10 * self.n) and sizes.min() >= 2 * self.n


def largest(X: Any) -> float:
    """The largest absolute entry."""
    entries = X if isinstance(X, np.ndarray) else X.data
    return max(float(entries.max(initial=0.0)), -float(entries.min(initial=0.0)))


def _table(X: Any) -> Any:
    """The samples as they are faster to work with: CSR where few entries are stored."""
    if isinstance(X, np.ndarray) or X.nnz <= _DENSE * X.shape[0] * X.shape[1]:
        return X
    return X.toarray()


def _part(X: Any) -> tuple[Any, Any, Any]:
    if isinstance(X, np.ndarray):
        none = np.empty(0, dtype=np.uint32)
        return X.reshape(-1), none, none
    index = [v.astype(np.int32, copy=False).view(np.uint32) for v in (X.indices, X.indptr)]
    return X.data, index[0], index[1]


class FeatureLevel(Level):
    """As `numerics.march` takes it.

    Attributes
    ----------
    w, x : (n,) the dual vector and the point
    V, tags : (4, M), (M,) what is known of each sample, see `ucm.numerics.band` and `rows`
    ends : (2, 3) the first row of each hull in V, the end of its band, its end
    verify : 1 to look at all rows in the end, where these are all samples; -k not to, and before only where
        scores have moved k times as far as the band reaches
    """

    verify: float = 1.0
    names, theta = numerics.STATE, numerics.SIDE.index("theta")

    def __init__(self, hulls: SampleTables, stride: int) -> None:
        self.hulls, self.stride = hulls, stride
        self.sizes = -(-hulls.sizes // stride)
        M, n = int(self.sizes.sum()), hulls.n
        a = int(self.sizes[0])
        self.ends = np.array([[0, a, a], [a, M, M]])
        self.starts = self.ends[:, 0]
        self.side = hulls.side.copy()
        self.cap_at(self.side[:, 0] * hulls.sizes / self.sizes)
        self.share = hulls.share * M / hulls.sizes.sum()  # passes over the bound data in one here
        self.spent = 0.0  # passes here, as far as they are counted
        self.state = np.zeros(len(numerics.STATE))
        self["slack"] = self["reach"] = np.inf
        self["offset"] = hulls.offset
        self.V, self.work = np.zeros((4, M)), np.empty((2, M))
        self.tags = np.empty(M, dtype=np.uint32)
        for lo, _, hi in self.ends:
            self.tags[lo:hi] = np.arange(0, 2 * (hi - lo), 2, dtype=np.uint32)
        self.H, self.S, self.system = np.zeros((n, n)), np.zeros((2, n)), np.empty((n, n))
        self.w, self.x = np.zeros(n), np.zeros(n)
        if hulls.center is not None:
            self.x += hulls.center

    def cap_at(self, caps: Vec) -> None:
        """Take these caps; where they leave a single point, it is one beyond rounding too."""
        mass = self.side[:, 1]
        whole = np.isfinite(mass)
        least = np.divide(_ROOM * mass, self.sizes, out=np.zeros(2), where=whole)
        self.side[:, 0] = np.minimum(np.maximum(caps, least), mass)

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
            factor * (self.rows(X).T @ part)
            for X, factor, part in zip(self.hulls.tables, self.side[:, 2], self._split(q))
        ]
        self.V[0] = self.V[1] = q
        self.x[:] = points[0] + points[1]
        self["passes"] += 0.5
        if self.hulls.joint:
            points = [self.x]
        self["largest"] = sum(float(np.linalg.norm(point)) for point in points)
        if self.hulls.center is not None:
            self.x += self.hulls.center
            self["largest"] += float(np.linalg.norm(self.hulls.center))

    def refined(self, stride: int) -> FeatureLevel:
        """The level of more samples, from the w and theta of this one: the kinks begin twice as wide
        as they were here. Where x is 0 here, w says nothing."""
        self.V, self.work = np.empty((4, 0)), np.empty((2, 0))  # to be replaced by larger ones
        level = FeatureLevel(self.hulls, stride)
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

    def rows(self, X: Any) -> Any:
        """The samples of this level; all of them without a copy."""
        return X if self.stride == 1 else X[:: self.stride]

    def _score(self) -> Vec:
        """The scores Z w, also in V."""
        for X, factor, a in zip(self.hulls.tables, self.side[:, 2], self._split(self.V[2])):
            if isinstance(X, np.ndarray):
                np.matmul(self.rows(X), factor * self.w, out=a)
            else:
                a[:] = self.rows(X) @ (factor * self.w)
        self["passes"] += 0.5
        return self.V[2]

    def march(self, log: Any, monitor: Monitor) -> int:
        hulls = self.hulls
        self["zero"] = monitor.zero
        self["verify"] = self.verify if self.stride == 1 else 0.0
        before = self["systems"], self["forming"]
        done = numerics.march(
            hulls.parts, self.stride, self.ends, self.side, self.state, self.w, self.x, self.V,
            self.tags, self.H, self.S, self.system, self.work, monitor.stop, log,
        )  # fmt: skip
        monitor.systems += int(self["systems"] - before[0])
        monitor.forming += self.share * (self["forming"] - before[1])
        return done

    def told(self, row: list[float], monitor: Monitor) -> tuple[float, float]:
        passes, gap, value = row
        monitor.passes += self.share * (passes - self.spent)
        self.spent = passes
        return self.hulls.objective(value), gap

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
