"""Common parts of the out-of-core active-set solvers: screening passes, rows in memory, rounds.

A row is held at weight 0 above its threshold, and at its cap below. The rows near the threshold, or on the
wrong side of it, join the active set. The block of a row stores one byte of state for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.linear_map import Vec
from ucm.data.row_metadata import magnitudes
from ucm.data.source import RowSource, as_double, gathered
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.out_of_core import OutOfCoreForm
from ucm.forms.solver import Solver
from ucm.native.functions import blas_threads

_LEAST = 1e-13  # smallest relative gap asked of the problem over the active set
_HELD, _ACTIVE = np.int8(1), np.int8(2)  # the state of a row; 0: held at weight 0
_WIDE = 3.0  # standard errors of a sample that the active set covers
_NARROWER = 0.1  # ratio of the widths of successive passes
_FINER = 0.2  # ratio of the tolerances of successive problems over the same active set

Plane = tuple[Vec, float]  # w and b
Form = TypeVar("Form", bound=OutOfCoreForm)


class PassSums(NamedTuple):
    """Sums over all rows that one screening pass returns.

    Attributes
    ----------
    shortfalls : by class the sums of `c_i max(0, -d_i)` for the distances d_i from the threshold
    counts, points : by class the weights and weighted sums of the rows held at the cap
    tail : by class the sums of `c_i max(0, end - t_i)` for the margins t_i at the last plane
    under_counts, under_points : for each plane, `counts` and `points` of the rows with a margin below `end`
    nearest : the least distance of a margin at the last plane from `end`
    """

    shortfalls: Vec
    counts: Vec
    points: NDArray[np.float64]
    tail: Vec
    under_counts: NDArray[np.float64]
    under_points: NDArray[np.float64]
    nearest: float


class NewRows(NamedTuple):
    """Rows of a block that join the active set: rows, labels times weights, states before, places.

    Class +1 comes first.
    """

    X: Any
    y: Vec
    states: NDArray[np.int8]
    places: NDArray[np.int32]


def margins(X: Any, y: Any, plane: Plane) -> Vec:
    """Return the margins `sign(y_i) (w'x_i + b)` of rows; y may hold labels times weights."""
    w, b = plane
    return np.sign(y) * (np.asarray(as_double(X) @ w).ravel() + b)


def shortfalls(d: Vec, positive: NDArray[np.bool_], weights: Vec | None = None) -> Vec:
    """Return the sums of `c_i max(0, -d_i)` over class +1 and over class -1, c_i = 1 by default."""
    negative_parts = np.minimum(d, 0.0)
    if weights is not None:
        negative_parts *= weights
    total, first = float(negative_parts.sum()), float(negative_parts @ positive)
    return np.array([-first, first - total])


def screen(
    X: Any,
    y: Any,
    state: Any,
    w: Vec,
    theta: Vec,
    reach: Vec,
    factors: tuple[float, float],
    end: float,
    planes: Sequence[Plane],
) -> tuple[NDArray[np.int8], tuple[PassSums, NewRows]]:
    """Classify the rows of a block by their threshold; return states, sums and rows that join the active set.

    A row joins if `d = f_c w'x - theta_c` is at most `reach_c`, or on the wrong side.
    """
    table, X, y = X, as_double(X), np.asarray(y)
    positive, weights = y > 0.0, magnitudes(y)
    side = (~positive).astype(np.intp)
    d = X @ w
    d *= np.take(factors, side)
    d -= np.take(theta, side)
    sums = shortfalls(d, positive, weights)
    under = d < 0.0
    join = np.abs(d) <= np.take(reach, side)
    if state is None:
        state = under.astype(np.int8)
    else:
        join |= np.where(under, state == 0, (state == _HELD) & (d > 0.0))
        join &= state != _ACTIVE
        state = state.copy()
    places = np.concatenate([np.flatnonzero(join & positive), np.flatnonzero(join & ~positive)])
    new = NewRows(table[places], y[places].astype(np.float64), state[places], places.astype(np.int32))
    state[places] = _ACTIVE
    held = state == _HELD
    counts, points = _sums(X, side, weights, np.flatnonzero(held))
    tail, nearest, under_counts, under_points = np.zeros(2), np.inf, [], []
    for plane in planes:
        distances = margins(X, y, plane) - end
        tail = shortfalls(distances, positive, weights)
        nearest = float(np.abs(distances).min(initial=np.inf))
        plane_counts, plane_points = _sums(X, side, weights, np.flatnonzero(held & (distances < 0.0)))
        under_counts.append(plane_counts)
        under_points.append(plane_points)
    by_plane = np.reshape(under_counts, (-1, 2)), np.reshape(under_points, (-1, *points.shape))
    return state, (PassSums(sums, counts, points, tail, *by_plane, nearest), new)


def _sums(
    X: Any, side: NDArray[np.intp], weights: Vec | None, rows: NDArray[np.intp]
) -> tuple[Vec, NDArray[np.float64]]:
    """Return by class the sum of the sample weights c_i of some rows, and the sum of `c_i x_i`."""
    by_class = np.zeros((2, rows.size))
    by_class[side[rows], np.arange(rows.size)] = 1.0 if weights is None else weights[rows]
    return by_class.sum(axis=1), np.asarray((X[rows].T @ by_class.T).T)


def _total(parts: list[PassSums]) -> PassSums:
    sums: list = [np.sum(values, axis=0) for values in zip(*parts, strict=True)]
    return PassSums(*sums)._replace(nearest=min(part.nearest for part in parts))


def _held(
    X: Any, y: Any, state: Any, caps: NDArray[np.float64], plane: Plane | None, end: float
) -> tuple[Any, Vec]:
    """Return the weights in the answer of the rows of a block: those held at the cap, else 0."""
    y = np.asarray(y)
    under = 0 if plane is None else (margins(X, y, plane) < end).astype(np.intp)
    cap = caps[(y <= 0.0).astype(np.intp), under]
    return state, np.where(state == _HELD, np.abs(y) * cap, 0.0)


class ActiveSet:
    """Rows of the active set, in memory by class.

    X are the tables, p the weights in the answer, c the weights of the samples, places their (block, row).
    """

    def __init__(self) -> None:
        self.X: list = [None, None]
        self.p = [np.empty(0), np.empty(0)]
        self.c = [np.empty(0), np.empty(0)]
        self.places: list[list[tuple[int, NDArray[np.int32]]]] = [[], []]

    def add(self, blocks: Sequence[NewRows], caps: Vec) -> int:
        """Add the rows that joined in a pass; return their number."""
        p, weights = list(self.p), list(self.c)
        for c, sign in enumerate((1.0, -1.0)):
            tables, class_p, class_c = [], [p[c]], [weights[c]]
            for block, part in enumerate(blocks):
                rows = np.flatnonzero(sign * part.y > 0.0)
                if rows.size:
                    tables.append(part.X[rows])
                    class_c.append(np.abs(part.y[rows]))
                    class_p.append(part.states[rows] * caps[c] * class_c[-1])
                    self.places[c].append((block, part.places[rows]))
            if tables:
                self.X[c] = stacked(tables if self.X[c] is None else [self.X[c], *tables])
                p[c], weights[c] = np.concatenate(class_p), np.concatenate(class_c)
        self.p, self.c = p, weights
        return sum(part.y.size for part in blocks)

    def put(self, blocks: list[Vec], values: Sequence[Vec]) -> None:
        """Write one value for each row of the active set into the vectors of the blocks, in place."""
        for places, class_values in zip(self.places, values, strict=True):
            start = 0
            for block, rows in places:
                blocks[block][rows] = class_values[start : start + rows.size]
                start += rows.size

    @property
    def size(self) -> int:
        """Number of rows in both classes."""
        return sum(p.size for p in self.p)

    @property
    def nbytes(self) -> int:
        return sum(12 * X.nnz if sparse.issparse(X) else X.nbytes for X in self.X if X is not None)

    def table(self) -> tuple[Any, Vec]:
        """Return the rows of both classes and their labels times sample weights, class +1 first."""
        classes = zip(self.X, (1.0, -1.0), self.c, strict=True)
        return gathered([(T, sign * c) for T, sign, c in classes if T is not None])


def stacked(tables: list) -> Any:
    """Return tables stacked by rows in double precision, C-contiguous or CSR."""
    if sparse.issparse(tables[0]):
        return as_double(sparse.csr_matrix(sparse.vstack(tables, format="csr")))
    return np.ascontiguousarray(np.concatenate(tables, dtype=np.float64))


@dataclass(frozen=True)
class ActiveSetWeights:
    """Weights of all rows in an answer: one state byte for each row, and weights of the active set.

    Attributes
    ----------
    caps : (2, 2) weights of the rows held at the cap, by class and by side of `end` at the plane
    p : weights of the active set, by class
    """

    source: RowSource
    states: dict[int, Any]
    active: ActiveSet
    caps: NDArray[np.float64]
    p: Sequence[Vec]
    plane: Plane | None = None
    end: float = -np.inf

    def weights(self, factors: tuple[float, float] = (1.0, 1.0)) -> Vec:
        """Return the (m,) weights, multiplied by the absolute value of the factor of each class."""
        size = np.abs(factors)
        message = size[:, None] * self.caps, self.plane, self.end
        blocks = self.source.map_reduce(_held, *message, states=self.states)
        self.active.put(blocks, [f * p for f, p in zip(size, self.p, strict=True)])
        return np.concatenate(blocks)

    def written(self, sample: tuple[Any, Vec]) -> tuple[Any, Vec, Vec]:
        """Return rows, labels times sample weights, and weights for a reference problem: the active set."""
        return *self.active.table(), np.concatenate(self.p)


class ActiveSetRun(ABC, Generic[Form]):
    """Base class of the state of one out-of-core solve by an active set.

    Attributes
    ----------
    inner : the solver of the problem over the active set
    budget : the largest number of bytes of the active set
    caps : by class the weight of a row held at the cap
    states : of the rows, by block
    reach : by class the distance from the threshold up to which rows join
    exact : the relative gap required of the problem over the active set
    solved : True if the current point may be the answer
    settled : False while the objective still falls
    """

    caps: Vec
    reach: Vec
    exact: float
    solved: bool
    settled = True

    def __init__(self, form: Form, monitor: Monitor, inner: Solver, budget: int) -> None:
        self.form, self.monitor, self.inner, self.budget = form, monitor, inner, budget

    @abstractmethod
    def run(self) -> Answer:
        """Run the whole solve and return its answer: a sample first, then `rounds`."""

    @abstractmethod
    def screened(self) -> tuple[int, PassSums]:
        """Screen all rows in a pass; return the number of rows that joined, and the sums."""

    @abstractmethod
    def verified(self, new: int, sums: PassSums) -> tuple[Answer, float, float]:
        """Return the answer proved by the sums of a pass, its objective and its relative gap."""

    @abstractmethod
    def solve(self, sums: PassSums) -> Answer | None:
        """Solve the problem over the active set in memory; return an answer only to end the run."""

    def moved(self, sums: PassSums) -> PassSums | None:
        """Return sums for the next convex problem if the objective fell; by default None."""
        return None

    def restarted(self) -> bool:
        """Start again with a smaller active set; return False if impossible, as by default."""
        return False

    def rounds(self, limit: int) -> Answer:
        """Alternate passes over all rows and solves over the active set; `limit` such rounds at most."""
        monitor, answer, gap = self.monitor, Answer(), np.inf
        for k in range(limit + 1):
            new, sums = self.screened()
            answer, objective, gap = self.verified(new, sums)
            if self.solved:
                monitor.latest = answer
                stop = monitor.report(k, objective, gap)
                if monitor.reached(gap) and self.settled:
                    return answer
                if stop:
                    return answer.interrupted()
            next_sums = self.moved(sums)
            if next_sums is not None:
                sums = next_sums
            elif new == 0 and self.solved:
                self.exact *= _FINER
                if self.exact < _LEAST:
                    return answer.ended("stalled", f"the gap stayed at {gap:.2g}")
            if k == limit:
                break
            if self.active.nbytes <= self.budget:
                ended = self.solve(sums)
                if ended is not None:
                    return ended
            elif not self.restarted():
                size = self.active.nbytes / 1e6
                return answer.ended(
                    "stalled",
                    f"the rows near their thresholds take {size:.3g} MB; raise the budget, "
                    "ucm.solvers.OutOfCoreActiveSet(budget=...)",
                )
        return answer.ended("max_iter", f"{limit} passes left a relative gap of {gap:.2g}; raise max_iter")

    # --- parts of a round --------------------------------------------------------------------------
    def clear(self) -> None:
        """Start with an empty active set, and with no row states."""
        self.states: dict[int, Any] = {}
        self.active = ActiveSet()

    def screened_by(self, *message: Any) -> tuple[int, PassSums]:
        """Screen all rows, add new ones to the active set; return their number and the `PassSums`."""
        blocks = self.form.data.source.map_reduce(screen, *message, states=self.states)
        self.monitor.count_read()
        new = self.active.add([rows for _, rows in blocks], self.caps)
        return new, _total([sums for sums, _ in blocks])

    def weighted(
        self, counts: NDArray[np.float64], points: NDArray[np.float64], slopes: NDArray[np.float64]
    ) -> tuple[Vec, NDArray[np.float64]]:
        """Return by class the sums of q_i and of `q_i x_i` over all rows, q_i the weights in the answer.

        Parameters
        ----------
        counts, points : (2, k) and (2, k, n), by class and part of the held rows sums of c_i and c_i x_i
        slopes : (2, k) the weights of rows with c_i = 1
        """
        totals, sums = (slopes * counts).sum(axis=1), (slopes[:, :, None] * points).sum(axis=1)
        for c, p in enumerate(self.active.p):
            if p.size:
                totals[c] += p.sum()
                sums[c] += self.active.X[c].T @ p
        return totals, sums

    def accuracy(self) -> float:
        """Return the relative gap to ask of the problem over the active set."""
        return max(self.exact, _LEAST)

    def reach_of(self, X: Any, distances: Sequence[Vec]) -> Vec:
        """Return by class the reach of the active set, a quantile of the distances of sampled rows."""
        rows, n = sum(d.size for d in distances), self.form.n
        row = X.nnz * 12 / rows if sparse.issparse(X) else 8 * n
        fewest = max(1, min(d.size for d in distances))
        fraction = _WIDE * float(np.sqrt(n / fewest))
        fraction = min(fraction, 0.75 * self.budget / max(1.0, row * self.form.data.m))
        return np.array([_quantile(d, fraction, 2 * n) for d in distances])

    def narrow(self) -> None:
        """Multiply the finite reaches of the next pass by 0.1."""
        self.reach = np.where(np.isfinite(self.reach), _NARROWER * self.reach, self.reach)


def _quantile(distances: Vec, fraction: float, more: int) -> float:
    """Return the quantile of the distances at `fraction` plus `more` rows; inf if those are all rows."""
    k = int(np.ceil(fraction * distances.size)) + more
    return float(np.partition(distances, k)[k]) if k < distances.size - 1 else np.inf


def by_rounds(run: Callable[[], Answer], stored: int, monitor: Monitor) -> Answer:
    """Return the answer of `run()`; on Ctrl-C the latest proven answer if there is one, else re-raise.

    The monitor starts at one pass, the first pass over the data.
    """
    monitor.passes, monitor.reads = 1.0, 1
    try:
        with blas_threads(0, stored):  # blocks have threads of their own
            return run()
    except KeyboardInterrupt:
        if monitor.latest is None:
            raise
        monitor.interrupted = True
        return monitor.latest.interrupted()
