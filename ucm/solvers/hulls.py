"""Python side of `ucm/native/hulls.c`, the active-set Newton method for samples of two classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import Vec
from ucm.forms.monitor import Monitor
from ucm.native.binding import library, point, structure

_LIMIT = 150  # outer steps
_SHARP = 30.0  # factor of the first sigma, relative to cap / spread of the scores
_BUDGET = 2e7  # multiplications of one compiled call, some 20 ms
_ROOM = 1.0 + 1e-12  # least ratio of the sum of the caps to the mass
_DENSE = 0.3  # density of a CSR matrix above which rows are faster dense
_CHUNK = 64  # rows, see native.h
_STATUS = {1: "converged", 2: "converged", 3: "stalled"}


class CompiledHulls(ABC):
    """Two-class problem of `solve_hulls`: the samples by class, and the state of a solve.

    Numbers of the C structure are read and set by name.

    Attributes
    ----------
    n : the dimension worked in
    tables : the samples of each class, dense or CSR
    parts : their values, columns and starts, see `rows_t` in `ucm/native/declarations.h`
    limits, totals, factors : (2,) caps, masses and signed factors of the classes; of boxes no mass counts
    row_caps : the cap of each sample, class after class; None: that of its class
    sizes, starts : (2,) how many samples a class has, and where they begin
    entries : of the tables
    share : passes over the bound data in one over the tables
    unit : what w and x are measured in
    boxes, offset, excess : whether it is a hinge loss, its offset in units of w and x, `y'v` of a linear term
    center : the point from which x starts; None for 0
    joint : whether both classes make one point, and not the difference of two
    caps, masses, thetas : (2,) of the classes in the state; thetas are the multipliers of the masses
    w, x : (n,) the dual vector and the point
    V : (5, m) proximal centre, trial point, scores, scores when last compared and caps of each sample
    tags : (m,) twice the place of each sample in its class, and 1 where it counts as free
    """

    boxes: bool = False
    offset: float = 0.0
    excess: float = 0.0
    row_caps: Vec | None = None
    center: Vec | None = None
    joint: bool = True

    def __init__(self, tables: list, caps: Vec, masses: Vec, factors: Vec, stored: int) -> None:
        self.tables = [_table(X) for X in tables]
        self.limits, self.totals = caps, masses
        self.sizes = np.array([X.shape[0] for X in tables])
        self.starts = np.array([0, self.sizes[0]])
        self.n = tables[0].shape[1]
        self.unit = max(largest(X) for X in tables) or 1.0
        self.factors = factors / self.unit
        self.parts = [_part(X) for X in self.tables]
        self.entries = sum(X.size if isinstance(X, np.ndarray) else X.nnz for X in tables)
        self.share = self.entries / max(1, stored)

    @abstractmethod
    def begin(self) -> None:
        """Set the starting point of a solve without a warm start."""

    @abstractmethod
    def objective(self, found: float) -> float:
        """Convert the `value` of the compiled code to the objective of the problem."""

    def reset(self) -> None:
        """Create a new state for the data of the problem, without a starting point."""
        m, n = int(self.sizes.sum()), self.n
        self.spent = 0.0  # passes over the tables that the monitor has counted
        self.V = V = np.zeros((5, m))
        self.tags = np.concatenate([np.arange(0, 2 * size, 2, dtype=np.uint32) for size in self.sizes])
        self.w, self.x, self.H, self.S = np.zeros(n), np.zeros(n), np.zeros((n, n)), np.zeros((2, n))
        self.scratch = np.empty(2 * m + n * (n + 2 + _CHUNK))
        if self.center is not None:
            self.x += self.center
        self.state = state = np.zeros((), structure("hulls_t"))
        state["n"], state["boxes"], state["entries"] = n, self.boxes, self.entries
        state["offset"], state["excess"] = self.offset, self.excess
        state["first"], state["active"], state["mass"] = self.starts, self.starts + self.sizes, self.totals
        state["end"] = state["active"]
        state["slack"] = state["reach"] = state["best"] = state["nearest"] = np.inf
        caps = None
        if self.row_caps is not None:
            caps, V[4] = V[4], self.row_caps
        point(
            state, "hulls_t", w=self.w, x=self.x, q=V[0], p=V[1], a=V[2], reference=V[3], caps=caps,
            tags=self.tags, H=self.H, S=self.S, scratch=self.scratch,
        )  # fmt: skip
        for rows, part, factor in zip(state["rows"], self.parts, self.factors, strict=True):
            values, columns, starts = part
            rows["n"], rows["factor"] = n, factor
            point(rows, "rows_t", values=values, columns=columns, starts=starts)
        self.caps, self.masses, self.thetas = state["cap"], state["mass"], state["theta"]
        # the weights of each class have to be able to sum to its mass
        limited = np.isfinite(self.totals)
        least = np.divide(_ROOM * self.totals, self.sizes, out=np.zeros(2), where=limited)
        self.caps[:] = np.minimum(np.maximum(self.limits, least), self.totals)

    def __getitem__(self, name: str) -> float:
        return float(self.state[name])

    def __setitem__(self, name: str, value: float) -> None:
        self.state[name] = value

    def by_class(self, v: Vec) -> list[Vec]:
        """Split a vector over the samples by class."""
        return np.split(v, self.starts[1:])

    def begin_at(self, q: Vec) -> None:
        """Start at the weights q and `w = x`, x the point at q.

        Theta is the mean score of each class; sigma comes from the spread of the scores.
        """
        self._place(q)
        self.w[:] = self.x
        scores, caps, totals = self._score(), self.caps, self.masses
        self.thetas[:] = np.add.reduceat(scores, self.starts) / self.sizes
        cap = min(caps.max(), 2.0 * (totals / self.sizes).max())
        size = float(np.linalg.norm(scores - scores.mean())) / scores.size**0.5
        spread = size or float(np.abs(scores).max()) or 1.0
        self["sigma"] = _SHARP * cap / max(spread, 1e-280)

    def begin_near(self, q: Vec, w: Vec | None) -> None:
        """Start at the weights q and, if given, the dual vector w of a similar problem.

        The compiled code takes sigma from their gap. If x or w is 0, the start is that of `begin`.
        """
        for part, cap in zip(self.by_class(q), self.caps, strict=True):
            if self.row_caps is None and part.max() < cap < 1.25 * part.max():
                part *= cap / part.max()  # weights at their cap stay at their cap
        self._place(q)
        self.w[:] = self.x if w is None else w
        if self.x.any() and self.w.any():
            self._score()
        else:
            self.begin()

    def _place(self, q: Vec) -> None:
        """Store the weights q in V, and set x to the point `center + Z'q`."""
        each = zip(self.tables, self.factors, self.by_class(q), strict=True)
        points = [factor * (X.T @ part) for X, factor, part in each]
        self.V[0] = self.V[1] = q
        self.x[:] = points[0] + points[1]
        self["passes"] += 0.5
        if self.joint:
            points = [self.x]
        self["largest"] = sum(float(np.linalg.norm(x)) for x in points)
        if self.center is not None:
            self.x += self.center
            self["largest"] += float(np.linalg.norm(self.center))

    def _score(self) -> Vec:
        """Compute the scores Z w into row 2 of V, and return that row."""
        for X, factor, a in zip(self.tables, self.factors, self.by_class(self.V[2]), strict=True):
            a[:] = X @ (factor * self.w)
        self["passes"] += 0.5
        return self.V[2]

    def run(self, monitor: Monitor, tol: float, most: int = _LIMIT) -> str:
        """Run at most `most` outer steps, to a relative gap of `tol`; return the status.

        A compiled call does several steps at a time if no callback watches.
        """
        self["tol"], self["zero"] = tol, monitor.zero
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
                stop = monitor.report(monitor.iterations + 1, self.objective(value), gap)
            ended = _STATUS.get(int(self["status"]))
            if ended is not None:
                return ended
            if stop or monitor.timed_out:
                return "interrupted"
        return "max_iter"

    def _steps(self, most: int, monitor: Monitor) -> list[list[float]]:
        """Run up to `most` compiled outer steps; return (passes, gap, value) of each.

        They are fewer than `most` at the end of the solve, or after the time of one call.
        """
        log = np.empty((min(most, _LIMIT), 3))
        before = self["systems"], self["forming"]
        count: int = library.solve_hulls(self.state, len(log), log, _BUDGET)
        monitor.systems += int(self["systems"] - before[0])
        monitor.hessian_passes += self.share * (self["forming"] - before[1])
        return log[:count].tolist()

    def weights(self) -> list[Vec]:
        """Return the weights p by class, in the order of the samples."""
        blocks = [np.empty(size) for size in self.sizes]
        places = np.split(self.tags >> 1, self.starts[1:])
        for q, place, p in zip(blocks, places, self.by_class(self.V[1]), strict=True):
            q[place] = p
        return blocks


def largest(X: Any) -> float:
    """Return the largest absolute entry of a dense or sparse matrix."""
    entries = X if isinstance(X, np.ndarray) else X.data
    return max(float(entries.max(initial=0.0)), -float(entries.min(initial=0.0)))


def _table(X: Any) -> Any:
    """Return the matrix, converted to dense if CSR with density above 0.3."""
    if isinstance(X, np.ndarray) or X.nnz <= _DENSE * X.shape[0] * X.shape[1]:
        return X
    return X.toarray()


def _part(X: Any) -> Sequence[NDArray | None]:
    """Return (values, columns, starts) of a CSR matrix, or (array, None, None) of a dense one."""
    if isinstance(X, np.ndarray):
        return X, None, None
    columns, starts = (v.astype(np.int32, copy=False).view(np.uint32) for v in (X.indices, X.indptr))
    return X.data, columns, starts
