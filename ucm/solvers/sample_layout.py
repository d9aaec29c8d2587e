"""Multilevel driver of the compiled Newton method `solve_hulls` for samples of two classes.

The last level has all samples of each class, the one before every 8th, the one before that every 64th, and
so on while enough are left. The weights q of a level say little about those of the next, but the dual vector
w and the multipliers theta do, and so does the sharpness `cap / sigma` of the kinks that it could resolve.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import Vec, stored_entries
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Status
from ucm.native import library, point, structure

_STRIDE = 8  # ratio of the strides of successive levels
_LIMIT = 150  # outer steps
_STATUS: dict[int, Status] = {1: "converged", 2: "converged", 3: "stalled"}


class SampleTables(ABC):
    """Base class of two-class problems for the compiled `solve_hulls`: samples, caps and masses by class.

    Attributes
    ----------
    n : the dimension worked in
    tables : the samples of each, dense or CSR; parts : their values, columns and starts, see `rows_t` in
        `ucm/native/structures.h`
    caps, masses, factors : (2,) of the classes; of boxes no mass counts
    row_caps : the cap of each sample, class after class; None: that of its class
    sizes : how many samples each has
    entries : of the tables
    share : passes over the bound data in one over the parts
    unit : what w and x are measured in
    boxes : 1 for a hinge loss, 2 for one with b = 0, else 0
    offset, excess : of a hinge loss, the offset in units of w and x, and `y'v` of a linear term
    center : the point from which x starts; None for 0
    joint : whether both classes make one point, and not the difference of two
    """

    boxes: int = 0
    offset: float = 0.0
    excess: float = 0.0
    row_caps: Vec | None = None
    center: Vec | None = None
    joint: bool = True

    def __init__(self, tables: list, caps: Vec, masses: Vec, factors: Vec, stored: int) -> None:
        self.tables = [_table(X) for X in tables]
        self.caps, self.masses = caps, masses
        self.sizes = np.array([X.shape[0] for X in tables])
        self.n = tables[0].shape[1]
        self.unit = max(largest(X) for X in tables) or 1.0
        self.factors = factors / self.unit
        self.parts = [_part(X) for X in self.tables]
        self.entries = sum(map(stored_entries, tables))
        self.share = self.entries / max(1, stored)

    @abstractmethod
    def begin(self, level: FeatureLevel) -> None:
        """Set the starting point of a level without a warm start."""

    @abstractmethod
    def objective(self, found: float) -> float:
        """Convert the `value` of the compiled code to the objective of the problem."""

    def descend(
        self,
        level: FeatureLevel,
        rest: list[int],
        monitor: Monitor,
        tol: float | None = None,
        most: int = _LIMIT,
    ) -> tuple[FeatureLevel, Status]:
        """Solve a level and then the finer levels in turn; return the last level and its status.

        All levels but the last are solved to a coarse gap, in at most `most` outer steps each. A coarse level
        may stall. `rest` are the strides of the finer levels, the finest first; `tol` is the relative gap of
        all samples, by default that of the monitor.
        """
        tol = monitor.tol if tol is None else tol
        while True:
            ended = level.run(monitor, 0.1 if rest else tol, most)
            if not rest or ended not in ("converged", "stalled"):
                return level, ended
            level = level.refined(rest.pop())

    def levels(self, least: int) -> list[int]:
        """Return the strides of the levels, finest first, the coarsest with at least `least` samples."""
        strides = [1]
        while True:
            sizes = -(-self.sizes // (_STRIDE * strides[-1]))
            if sizes.sum() < max(least, 10 * self.n) or sizes.min() < 2 * self.n:
                return strides
            strides.append(_STRIDE * strides[-1])


def largest(X: Any) -> float:
    """Return the largest absolute entry of a dense or sparse matrix."""
    entries = X if isinstance(X, np.ndarray) else X.data
    return max(float(entries.max(initial=0.0)), -float(entries.min(initial=0.0)))


def _table(X: Any) -> Any:
    """Return the matrix, converted to dense if CSR with density above 0.3."""
    if isinstance(X, np.ndarray) or X.nnz <= 0.3 * X.shape[0] * X.shape[1]:  # above, dense rows are faster
        return X
    return X.toarray()


def _part(X: Any) -> tuple[NDArray[np.float64], Any, Any]:
    """Return (values, columns, starts) of a CSR matrix, or (array, None, None) of a dense one."""
    if isinstance(X, np.ndarray):
        return X, None, None
    columns, starts = (v.astype(np.int32, copy=False).view(np.uint32) for v in (X.indices, X.indptr))
    return X.data, columns, starts


class FeatureLevel:
    """State of the compiled `solve_hulls` over every `stride`-th sample of each class.

    Its fields are read and set by name.

    Attributes
    ----------
    sizes, starts : (2,) how many samples a class has here, and where they begin
    caps, masses, thetas : (2,) of the classes, the last the multipliers of the masses
    w, x : (n,) the dual vector and the point
    V : (5, M) proximal centre, trial point, scores, scores when last compared and caps of each sample
    tags : (M,) twice the place of each sample in its class, and 1 where it counts as free
    ends : (2, 3) the first row of each class in V, the end of its active rows, its end
    verify : 1 to look at all rows in the end, where these are all samples; -k not to, and before only where
        scores have moved k times as far as the active rows reach
    """

    verify: float = 1.0

    def __init__(self, hulls: SampleTables, stride: int) -> None:
        self.hulls, self.stride = hulls, stride
        self.sizes = -(-hulls.sizes // stride)
        M, n, a = int(self.sizes.sum()), hulls.n, int(self.sizes[0])
        self.starts = np.array([0, a])
        self.share = hulls.share * M / hulls.sizes.sum()  # passes over the data in a pass over this level
        self.spent = 0.0  # passes over this level that the monitor has counted
        self.V = np.zeros((4 if hulls.row_caps is None else 5, M))
        self.tags = np.empty(M, dtype=np.uint32)
        self.w, self.x, self.H, self.S = (
            np.zeros(n),
            np.zeros(n),
            np.zeros((n, n)),
            np.zeros((2, n)),
        )
        self.scratch = np.empty(2 * M + n * (n + 2 + 64))  # CHUNK of native.h
        if hulls.center is not None:
            self.x += hulls.center
        self._state()
        self.cap_at(hulls.caps * hulls.sizes / self.sizes)

    def _state(self) -> None:
        """Fill the C structure `hulls_t` with pointers to the arrays of this level."""
        hulls, V = self.hulls, self.V
        self.state = state = np.zeros((), structure("hulls_t"))
        state["n"], state["boxes"] = hulls.n, hulls.boxes
        state["offset"], state["excess"] = hulls.offset, hulls.excess
        state["entries"] = hulls.entries * V.shape[1] / max(1, hulls.sizes.sum())
        state["first"], state["active"] = self.starts, self.starts + self.sizes
        state["end"], state["mass"] = state["active"], hulls.masses
        state["slack"] = state["reach"] = state["best"] = state["nearest"] = np.inf
        rows = V if hulls.row_caps is not None else [*V, None]
        point(
            state, "hulls_t", w=self.w, x=self.x, q=rows[0], p=rows[1], a=rows[2], reference=rows[3],
            caps=rows[4], tags=self.tags, H=self.H, S=self.S, scratch=self.scratch,
        )  # fmt: skip
        each = zip(state["rows"], hulls.parts, hulls.factors, self.starts, self.sizes, strict=True)
        for part, (values, columns, starts), factor, lo, size in each:
            part["n"], part["stride"], part["factor"] = hulls.n, self.stride, factor
            point(part, "rows_t", values=values, columns=columns, starts=starts)
            self.tags[lo : lo + size] = np.arange(0, 2 * size, 2, dtype=np.uint32)
        self.caps, self.masses, self.thetas = state["cap"], state["mass"], state["theta"]

    def __getitem__(self, name: str) -> float:
        return float(self.state[name])

    def __setitem__(self, name: str, value: float) -> None:
        self.state[name] = value

    def cap_at(self, caps: Vec) -> None:
        """Set the caps, raised where needed so that the weights of each class can sum to its mass."""
        mass = self.masses
        limited = np.isfinite(mass)
        # the caps sum to the mass with room for rounding
        least = np.divide((1.0 + 1e-12) * mass, self.sizes, out=np.zeros(2), where=limited)
        self.caps[:] = np.minimum(np.maximum(caps, least), mass)
        if self.hulls.row_caps is not None:
            parts = np.split(self.hulls.row_caps, self.hulls.sizes[:1])
            for (lo, hi), part, size in zip(self.bounds, parts, self.sizes, strict=True):
                self.V[4, lo:hi] = part[:: self.stride] * (part.size / size)

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """The half-open column ranges of V, one for each class."""
        a = int(self.sizes[0])
        return [(0, a), (a, self.V.shape[1])]

    def begin(self, q: Vec) -> None:
        """Start at the weights q with `w = x`, x the point at q, theta the mean score of each class.

        sigma comes from the spread of the scores.
        """
        self._place(q)
        self.w[:] = self.x
        scores, caps, totals = self._score(), self.caps, self.masses
        self.thetas[:] = np.add.reduceat(scores, self.starts) / self.sizes
        cap = min(caps.max(), 2.0 * (totals / self.sizes).max())
        size = float(np.linalg.norm(scores - scores.mean())) / scores.size**0.5
        spread = size or float(np.abs(scores).max()) or 1.0
        self["sigma"] = 30.0 * cap / max(spread, 1e-280)  # kinks of a thirtieth of the spread of the scores

    def begin_near(self, q: Vec, w: Vec | None) -> None:
        """Start at the weights q and, if given, the dual vector w of a similar problem.

        The compiled code takes sigma from their gap. If x is 0 or the scores are, the start is that of
        `hulls.begin`.
        """
        for part, cap in zip(self._split(q), self.caps):
            if self.hulls.row_caps is None and part.max() < cap < 1.25 * part.max():
                part *= cap / part.max()  # weights at their cap stay at their cap
        self._place(q)
        self.w[:] = self.x if w is None else w
        if not self.x.any() or not self._score().any():
            self.hulls.begin(self)

    def _place(self, q: Vec) -> None:
        """Store the weights q in V, and set x to the point `center + Z'q`."""
        points = [
            factor * (self.rows(X).T @ part)
            for X, factor, part in zip(self.hulls.tables, self.hulls.factors, self._split(q))
        ]
        self.V[0] = self.V[1] = q
        self.x[:] = points[0] + points[1]
        self["passes"] += 0.5
        if self.hulls.joint:
            points = [self.x]
        self["largest"] = sum(float(np.linalg.norm(x)) for x in points)
        if self.hulls.center is not None:
            self.x += self.hulls.center
            self["largest"] += float(np.linalg.norm(self.hulls.center))

    def refined(self, stride: int) -> FeatureLevel:
        """Return a finer level that starts at the w and theta of this level, and free the arrays of this one.

        Its kinks are twice as wide. If x is 0, w is not used.
        """
        self.V = self.scratch = np.empty((4, 0))  # free memory before the finer level allocates
        level = FeatureLevel(self.hulls, stride)
        if self["status"] == 2.0:
            self.hulls.begin(level)
            return level
        level.w[:], level["largest"], level.thetas[:] = self.w, self["largest"], self.thetas
        # kinks twice as wide as those of the coarser level
        scores, width = level._score(), 2.0 * float(self.caps.max()) / self["sigma"]
        level["sigma"] = float(level.caps.max()) / width
        for (lo, hi), cap, theta in zip(level.bounds, level.caps, level.thetas, strict=True):
            p = np.subtract(theta, scores[lo:hi], out=level.V[0, lo:hi])
            p *= level["sigma"]
            p += 0.5 * cap
            np.clip(p, 0.0, cap, out=p)
        level["reach"] = 4.0 * level.caps.max() / level["sigma"]
        return level

    def _split(self, v: Vec) -> list[Vec]:
        """Split a vector over the samples of this level by class."""
        return [v[lo:hi] for lo, hi in self.bounds]

    def rows(self, X: Any) -> Any:
        """Return every `stride`-th row of X; X itself, not a copy, at stride 1."""
        return X if self.stride == 1 else X[:: self.stride]

    def _score(self) -> Vec:
        """Compute the scores Z w into row 2 of V, and return that row."""
        for X, factor, a in zip(self.hulls.tables, self.hulls.factors, self._split(self.V[2])):
            if isinstance(X, np.ndarray):
                np.matmul(self.rows(X), factor * self.w, out=a)
            else:
                a[:] = self.rows(X) @ (factor * self.w)
        self["passes"] += 0.5
        return self.V[2]

    def look_at_all(self) -> None:
        """Make all samples active and reset the loop, so that an outer step comes next."""
        self.state["active"] = self.state["end"]
        for name in ("held_mass", "held_step", "status", "phase", "idle"):
            self.state[name] = 0
        self["slack"] = self["best"] = self["nearest"] = np.inf

    def run(self, monitor: Monitor, tol: float, most: int = _LIMIT) -> Status:
        """Run at most `most` outer steps, to a relative gap of `tol`; return the status.

        A compiled call does several steps at a time if no callback watches.
        """
        self["tol"], self["zero"] = tol, monitor.zero
        self["verify"] = self.verify if self.stride == 1 else 0.0
        left = min(monitor.limit(_LIMIT) - monitor.iterations, most)
        watched = monitor.callback is not None or monitor.verbose or monitor.trace > 0
        while left > 0:
            if monitor.timed_out:
                return "interrupted"
            stop = False
            for passes, gap, value in self._steps(1 if watched else left, monitor):
                monitor.passes += self.share * (passes - self.spent)
                self.spent = passes
                left -= 1
                objective = self.hulls.objective(value)
                stop = monitor.report(monitor.iterations + 1, objective, gap)
            ended, stop = _STATUS.get(int(self["status"])), stop or monitor.timed_out
            if ended is not None and (self.stride == 1 or (left > 0 and not stop)):
                return ended
            if stop:
                return "interrupted"
        return "max_iter"

    def _steps(self, most: int, monitor: Monitor) -> list[list[float]]:
        """Run up to `most` compiled outer steps; return (passes, gap, value) of each.

        They are fewer than `most` at the end of the solve, or after the time of one call.
        """
        log = np.empty((min(most, _LIMIT), 3))
        before = self["systems"], self["forming"]
        count: int = library.solve_hulls(self.state, len(log), log, 2e7)  # some 20 ms
        monitor.systems += int(self["systems"] - before[0])
        monitor.hessian_passes += self.share * (self["forming"] - before[1])
        return log[:count].tolist()

    def weights(self) -> list[Vec]:
        """Return the weights p of all samples by class; of a coarse level those that w and theta give."""
        if self.stride > 1:
            return np.split(self.refined(1).V[0], self.hulls.sizes[:1])
        blocks = []
        for lo, hi in self.bounds:
            q = np.empty(hi - lo)
            q[self.tags[lo:hi] >> 1] = self.V[1, lo:hi]
            blocks.append(q)
        return blocks
