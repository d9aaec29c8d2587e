"""Driver of the compiled Newton method `solve_hulls` for samples of two classes."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import Matrix, Vec, stored_entries
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Status
from ucm.native import library, point, structure

_LIMIT = 150  # outer steps
_STATUS: dict[int, Status] = {1: "converged", 2: "converged", 3: "stalled"}


class SampleTables(ABC):
    """Base class of two-class problems for the compiled `solve_hulls`: samples, caps and masses by class.

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
    limits : (k, n) and (k,), of boxes the G and level of limits `G w >= level`
    """

    boxes: int = 0
    offset: float = 0.0
    excess: float = 0.0
    row_caps: Vec | None = None
    center: Vec | None = None
    joint: bool = True
    limits: tuple[Vec, Vec]

    def __init__(self, tables: list, caps: Vec, masses: Vec, factors: Vec, stored: int) -> None:
        self.tables = [_table(X) for X in tables]
        self.caps, self.masses = caps, masses
        self.sizes = np.array([X.shape[0] for X in tables])
        self.n = tables[0].shape[1]
        self.limits = np.zeros((0, self.n)), np.zeros(0)
        self.unit = max(largest(X) for X in tables) or 1.0
        self.factors = factors / self.unit
        self.parts = [_part(X) for X in self.tables]
        self.entries = sum(map(stored_entries, tables))
        self.share = self.entries / max(1, stored)

    def begin(self, loop: CompiledLoop) -> None:
        """Start at equal weights within each class."""
        loop.begin(np.repeat(self.masses / self.sizes, self.sizes))

    @abstractmethod
    def objective(self, found: float) -> float:
        """Convert the `value` of the compiled code to the objective of the problem."""


def largest(X: Matrix) -> float:
    """Return the largest absolute entry of a dense or sparse matrix."""
    entries = X if isinstance(X, np.ndarray) else X.data
    return max(float(entries.max(initial=0.0)), -float(entries.min(initial=0.0)))


def _table(X: Matrix) -> Matrix:
    """Return the matrix, converted to dense if CSR with density above 0.3."""
    if isinstance(X, np.ndarray) or X.nnz <= 0.3 * X.shape[0] * X.shape[1]:  # above, dense rows are faster
        return X
    return X.toarray()


def _part(X: Matrix) -> tuple[NDArray[np.float64], NDArray | None, NDArray | None]:
    """Return (values, columns, starts) of a CSR matrix, or (array, None, None) of a dense one."""
    if isinstance(X, np.ndarray):
        return X, None, None
    columns, starts = (v.astype(np.int32, copy=False).view(np.uint32) for v in (X.indices, X.indptr))
    return X.data, columns, starts


class CompiledLoop:
    """State of the compiled `solve_hulls` over the samples of each class.

    Its fields are read and set by name.

    sizes, starts : (2,) how many samples a class has, and where they begin
    caps, masses, thetas : (2,) of the classes, the last the multipliers of the masses
    w, x : (n,) the dual vector and the point
    V : (5, M) proximal centre, trial point, scores, scores when last compared and caps of each sample
    L : (5, k) proximal centre, multipliers, those of a trial point, scores, those of a step, of each limit
    tags : (M,) twice the place of each sample in its class, and 1 where it counts as free
    ends : (2, 3) the first row of each class in V, the end of its active rows, its end
    """

    def __init__(self, hulls: SampleTables) -> None:
        self.hulls, self.sizes = hulls, hulls.sizes
        M, n, a = int(self.sizes.sum()), hulls.n, int(self.sizes[0])
        self.starts = np.array([0, a])
        self.spent = 0.0  # passes that the monitor has counted
        self.V = np.zeros((4 if hulls.row_caps is None else 5, M))
        self.L = np.zeros((5, hulls.limits[1].size))
        self.tags = np.empty(M, dtype=np.uint32)
        self.w, self.x, self.H, self.S = np.zeros(n), np.zeros(n), np.zeros((n, n)), np.zeros((2, n))
        self.scratch = np.empty(2 * M + n * (n + 2 + 64))  # CHUNK of native.h
        if hulls.center is not None:
            self.x += hulls.center
        self._state()
        self._cap(hulls.caps)

    def _state(self) -> None:
        """Fill the C structure `hulls_t` with pointers to the arrays."""
        hulls, V = self.hulls, self.V
        self.state = state = np.zeros((), structure("hulls_t"))
        state["n"], state["boxes"] = hulls.n, hulls.boxes
        state["offset"], state["excess"] = hulls.offset, hulls.excess
        state["entries"] = hulls.entries
        state["first"], state["active"] = self.starts, self.starts + self.sizes
        state["end"], state["mass"] = state["active"], hulls.masses
        state["slack"] = state["reach"] = state["best"] = state["nearest"] = np.inf
        rows = V if hulls.row_caps is not None else [*V, None]
        point(
            state, "hulls_t", w=self.w, x=self.x, q=rows[0], p=rows[1], a=rows[2], reference=rows[3],
            caps=rows[4], tags=self.tags, H=self.H, S=self.S, scratch=self.scratch,
        )  # fmt: skip
        G, level = hulls.limits
        state["limits"]["count"] = level.size
        names = ("center", "mu", "next", "a", "b")
        point(state["limits"], "limits_t", G=G, level=level, **dict(zip(names, self.L, strict=True)))
        each = zip(state["rows"], hulls.parts, hulls.factors, self.starts, self.sizes, strict=True)
        for part, (values, columns, starts), factor, lo, size in each:
            part["n"], part["factor"] = hulls.n, factor
            point(part, "rows_t", values=values, columns=columns, starts=starts)
            self.tags[lo : lo + size] = np.arange(0, 2 * size, 2, dtype=np.uint32)
        self.caps, self.masses, self.thetas = state["cap"], state["mass"], state["theta"]

    def __getitem__(self, name: str) -> float:
        return float(self.state[name])

    def __setitem__(self, name: str, value: float) -> None:
        self.state[name] = value

    def _cap(self, caps: Vec) -> None:
        """Set the caps, raised where needed so that the weights of each class can sum to its mass."""
        mass = self.masses
        limited = np.isfinite(mass)
        # the caps sum to the mass with room for rounding
        least = np.divide((1.0 + 1e-12) * mass, self.sizes, out=np.zeros(2), where=limited)
        self.caps[:] = np.minimum(np.maximum(caps, least), mass)
        if self.hulls.row_caps is not None:
            self.V[4] = self.hulls.row_caps

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """The half-open column ranges of V, one for each class."""
        a = int(self.sizes[0])
        return [(0, a), (a, self.V.shape[1])]

    def begin(self, q: Vec) -> None:
        """Start at q with `w = x`, theta the mean scores of the classes, sigma by their spread."""
        self._place(q)
        self.w[:] = self.x
        scores, caps, totals = self._score(), self.caps, self.masses
        self.thetas[:] = np.add.reduceat(scores, self.starts) / self.sizes
        cap = min(caps.max(), 2.0 * (totals / self.sizes).max())
        size = float(np.linalg.norm(scores - scores.mean())) / scores.size**0.5
        spread = size or float(np.abs(scores).max()) or 1.0
        self["sigma"] = 30.0 * cap / max(spread, 1e-280)  # kinks of a thirtieth of the spread of the scores

    def begin_near(self, q: Vec, w: Vec | None) -> None:
        """Start at the weights q and, if given, the dual vector w of a similar problem."""
        for part, cap in zip(self._split(q), self.caps):
            if self.hulls.row_caps is None and part.max() < cap < 1.25 * part.max():
                part *= cap / part.max()  # weights at their cap stay at their cap
        self._place(q)
        self.w[:] = self.x if w is None else w
        if not self.x.any() or not self._score().any():
            self.hulls.begin(self)

    def price(self, mu: Vec) -> None:
        """Start at the multipliers mu of the limits, and add their part of x."""
        G, _ = self.hulls.limits
        self.L[:2], self.L[3] = mu, G @ self.w
        self.x += mu @ G

    def _place(self, q: Vec) -> None:
        """Store the weights q in V, and set x to the point `center + Z'q`."""
        points = [
            factor * (X.T @ part)
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

    def _split(self, v: Vec) -> list[Vec]:
        """Split a vector over the samples by class."""
        return [v[lo:hi] for lo, hi in self.bounds]

    def _score(self) -> Vec:
        """Compute the scores Z w into row 2 of V, and return that row."""
        for X, factor, a in zip(self.hulls.tables, self.hulls.factors, self._split(self.V[2])):
            if isinstance(X, np.ndarray):
                np.matmul(X, factor * self.w, out=a)
            else:
                a[:] = X @ (factor * self.w)
        self["passes"] += 0.5
        return self.V[2]

    def run(self, monitor: Monitor, tol: float, most: int = _LIMIT) -> Status:
        """Run at most `most` outer steps to a relative gap of `tol`; return the status."""
        self["tol"], self["zero"] = tol, monitor.zero
        left = min(monitor.limit(_LIMIT) - monitor.iterations, most)
        watched = monitor.callback is not None or monitor.verbose or monitor.trace > 0
        while left > 0:
            if monitor.timed_out:
                return "interrupted"
            stop = False
            for passes, gap, objective in self._steps(1 if watched else left, monitor):
                monitor.passes += self.hulls.share * (passes - self.spent)
                self.spent = passes
                left -= 1
                stop = monitor.report(monitor.iterations + 1, objective, gap)
            ended = _STATUS.get(int(self["status"]))
            if ended is not None:
                return ended
            if stop or monitor.timed_out:
                return "interrupted"
        return "max_iter"

    def _steps(self, most: int, monitor: Monitor) -> list[tuple[float, float, float]]:
        """Run up to `most` compiled outer steps, as time allows; return (passes, gap, objective) of each."""
        log = np.empty((min(most, _LIMIT), 3))
        before = self["systems"], self["forming"]
        count: int = library.solve_hulls(self.state, len(log), log, 2e7)  # some 20 ms
        monitor.systems += int(self["systems"] - before[0])
        monitor.hessian_passes += self.hulls.share * (self["forming"] - before[1])
        return [(passes, gap, self.hulls.objective(value)) for passes, gap, value in log[:count].tolist()]

    def weights(self) -> list[Vec]:
        """Return the weights p of the samples by class."""
        blocks = []
        for lo, hi in self.bounds:
            q = np.empty(hi - lo)
            q[self.tags[lo:hi] >> 1] = self.V[1, lo:hi]
            blocks.append(q)
        return blocks
