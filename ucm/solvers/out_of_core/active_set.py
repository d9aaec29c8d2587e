"""Common parts of the out-of-core active-set solvers: screening passes, rows in memory, rounds.

A row is held at weight 0 above its threshold, and at its cap below. The rows near the threshold, or on the
wrong side of it, join the active set. A ramp loss has a second threshold, where it becomes constant. The
block of a row stores one byte of state for it: its zone between the thresholds, or that it is active.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ucm.data.linear_map import Matrix, Vec
from ucm.data.source import RowSource, by_parts, gathered
from ucm.forms.monitor import Monitor
from ucm.forms.out_of_core import OutOfCoreForm
from ucm.forms.solver import Answer, Solver
from ucm.native.threads import blas_threads

_LEAST = 1e-13  # smallest relative gap asked of the problem over the active set
_ACTIVE = np.int8(3)  # the state of an active row; 0, 1 and 2: the zone of a held row

Plane = tuple[Vec, float]  # w and b
InnerSolve = Callable[..., Answer]  # of a form, a monitor and a start
Form = TypeVar("Form", bound=OutOfCoreForm)


class PassSums(NamedTuple):
    """Sums over all rows that one screening pass returns.

    shortfalls : (2, 2) by threshold and class the sums of `c_i max(0, -d_i)`, d_i the distances from it
    counts, points : (2, 3) and (2, 3, n) by class and zone the weights and weighted sums of the held rows;
        with one threshold 0 for zone 0
    nearest : the least distance of a row from the second threshold
    """

    shortfalls: NDArray[np.float64]
    counts: NDArray[np.float64]
    points: NDArray[np.float64]
    nearest: float


class Thresholds(NamedTuple):
    """What a screening pass compares: by class c, `d = f_c w'x - theta_c` with 0, and with -depth."""

    w: Vec
    theta: Vec
    reach: Vec
    factors: tuple[float, float]
    depth: float


class NewRows(NamedTuple):
    """Rows of a block that join the active set: rows, labels times weights, states before, places."""

    X: Matrix
    y: Vec
    states: NDArray[np.int8]
    places: NDArray[np.intp]


def screened(
    X: Matrix, y: ArrayLike, state: NDArray[np.int8] | None, at: Thresholds
) -> tuple[NDArray[np.int8], tuple[PassSums, NewRows]]:
    """Classify the rows of a block by their thresholds; return states, sums and rows that become active."""

    def of_part(p: slice, X: Matrix, y: Vec) -> list[tuple[NDArray[np.int8], PassSums, NewRows]]:
        before = None if state is None else state[p]
        states, sums, new = _screened(X, y, before, at)
        return [(states, sums, new._replace(places=p.start + new.places))]

    states, sums, new = zip(*by_parts(of_part, X, y, operator.add), strict=True)
    X_new, y_new = gathered([rows[:2] for rows in new])
    joined = NewRows(X_new, y_new, *map(np.concatenate, zip(*(rows[2:] for rows in new), strict=True)))
    return np.concatenate(states), (_added(sums), joined)


def _added(sums: Sequence[PassSums]) -> PassSums:
    short, counts, points, nearest = zip(*sums, strict=True)
    return PassSums(np.sum(short, axis=0), np.sum(counts, axis=0), np.sum(points, axis=0), min(nearest))


def _screened(
    X: Matrix, y: Vec, state: NDArray[np.int8] | None, at: Thresholds
) -> tuple[NDArray[np.int8], PassSums, NewRows]:
    """Return the states, sums and new rows of a part of a block.

    Zone 0 lies above the threshold, at `d = f_c w'x - theta_c >= 0`, zone 1 below it, and zone 2 below the
    second threshold, `d < -depth`. A row becomes active within `reach_c` of a threshold, or where it leaves
    its zone.
    """
    positive, c = y > 0.0, np.abs(y)
    side = (~positive).astype(np.intp)
    d = np.asarray(X @ at.w).ravel() * np.take(at.factors, side) - np.take(at.theta, side)
    distances, near = [d] if np.isinf(at.depth) else [d, d + at.depth], np.take(at.reach, side)
    zone, join = np.zeros(y.size, dtype=np.int8), np.zeros(y.size, dtype=bool)
    short, nearest = np.zeros((2, 2)), np.inf
    for k, v in enumerate(distances):
        zone += v < 0.0
        join |= np.abs(v) <= near
        negative = np.minimum(v, 0.0) * c
        of_positive = float(negative @ positive)
        short[k] = -of_positive, of_positive - float(negative.sum())
    if len(distances) == 2:
        nearest = float(np.abs(distances[1]).min(initial=np.inf))
    state = zone if state is None else state.copy()
    places = np.flatnonzero((join | (zone != state)) & (state != _ACTIVE))
    new = NewRows(X[places], y[places], state[places], places)
    state[places] = _ACTIVE
    counts, points = np.zeros((2, 3)), np.zeros((2, 3, X.shape[1]))
    for k in (0, 1, 2) if len(distances) == 2 else (1,):
        rows = np.flatnonzero(state == k)
        by_class = np.zeros((2, rows.size))
        by_class[side[rows], np.arange(rows.size)] = c[rows]
        counts[:, k], points[:, k] = by_class.sum(axis=1), (X[rows].T @ by_class.T).T
    return state, PassSums(short, counts, points, nearest), new


def _held(
    X: Matrix, y: ArrayLike, state: NDArray[np.int8], caps: NDArray[np.float64]
) -> tuple[NDArray[np.int8], Vec]:
    """Return the weights in the answer of the rows of a block, by class and zone; 0 for active rows."""
    caps, y = np.column_stack([caps, np.zeros(2)]), np.asarray(y)
    return state, np.abs(y) * caps[(y <= 0.0).astype(np.intp), state]


def _held_apart(
    X: Matrix,
    y: ArrayLike,
    state: NDArray[np.int8],
    caps: NDArray[np.float64],
    function: Callable,
    message: tuple,
    merge: Callable,
) -> tuple[NDArray[np.int8], Any]:
    """Return the states of a block, and `function(X, y, weights, *message)` with labels 0 of active rows."""

    def of_part(p: slice, X: Matrix, y: Vec) -> Any:
        labels = np.where(state[p] == _ACTIVE, 0.0, y)
        return function(X, labels, _held(X, labels, state[p], caps)[1], *message)

    return state, by_parts(of_part, X, y, merge)


class ActiveSet:
    """Rows of the active set, in memory.

    X is the table, None without rows, y labels times weights, p the weights in the answer, places the rows by
    block.
    """

    def __init__(self) -> None:
        self.X: Matrix = None
        self.y = self.p = np.empty(0)
        self.places: list[tuple[int, NDArray[np.intp]]] = []

    def add(self, blocks: Sequence[NewRows], caps: Vec) -> int:
        """Add the rows that joined in a pass; return their number."""
        new = [(block, part) for block, part in enumerate(blocks) if part.y.size]
        if new:
            before = [] if self.X is None else [(self.X, self.y)]
            X, y = gathered([*before, *((part.X, part.y) for _, part in new)])
            c = np.abs(y[self.y.size :])
            states = np.concatenate([part.states for _, part in new])
            p = np.minimum(states, 1) * c * np.where(y[self.y.size :] > 0.0, *caps)
            # the assignments stand together, as Ctrl-C may come before them
            self.X, self.y, self.p = X, y, np.concatenate([self.p, p])
            self.places += [(block, part.places) for block, part in new]
        return sum(part.y.size for _, part in new)

    def put(self, blocks: list[Vec], values: Vec) -> None:
        """Write one value for each row of the active set into the vectors of the blocks, in place."""
        start = 0
        for block, rows in self.places:
            blocks[block][rows] = values[start : start + rows.size]
            start += rows.size

    @property
    def nbytes(self) -> int:
        if self.X is None:
            return 0
        return 12 * self.X.nnz if sparse.issparse(self.X) else self.X.nbytes


@dataclass(frozen=True)
class ActiveSetWeights:
    """Weights of all rows in an answer: one state byte for each row, and weights of the active set.

    caps : (2, 3) the weights of held rows with c_i = 1, by class and zone
    p : weights of the active set
    gain : the part of the active rows in the lower bound of `RowLosses`, without the penalty
    """

    source: RowSource
    states: dict[int, list[NDArray[np.int8]]]
    active: ActiveSet
    caps: NDArray[np.float64]
    p: Vec
    gain: float = 0.0

    def weights(self, factors: tuple[float, float] = (1.0, 1.0)) -> Vec:
        """Return the (m,) weights, multiplied by the absolute value of the factor of each class."""
        size = np.abs(factors)
        blocks = self.source.map_reduce(_held, size[:, None] * self.caps, states=self.states)
        self.active.put(blocks, np.where(self.active.y > 0.0, *size) * self.p)
        return np.concatenate(blocks)

    def reduce(self, function: Callable, message: tuple, merge: Callable) -> Any:
        """Return the merged results of `function(X, y, weights, *message)` over held and active rows."""
        held = self.source.map_reduce(
            _held_apart, self.caps, function, message, merge, merge=merge, states=self.states
        )
        active = self.active
        return held if active.X is None else merge(held, function(active.X, active.y, self.p, *message))

    def written(self, sample: tuple[Matrix, Vec]) -> tuple[Matrix, Vec, Vec, float]:
        """Return X, labels times sample weights, weights and gain for a reference: the active set."""
        return self.active.X, self.active.y, self.p, self.gain


class ActiveSetRun(ABC, Generic[Form]):
    """Base class of the state of one out-of-core solve by an active set.

    inner : the `solve` of the solver of the problem over the active set
    budget : the largest number of bytes of the active set
    caps : by class the weight of a row held at the cap
    factors : by class the factor f_c of the scores
    depth : the distance of the second threshold below the first
    w, theta : the current normal, and by class the threshold of `f_c w'x`
    states : of the rows, by block
    reach : by class the distance from a threshold up to which rows join
    exact : the relative gap required of the problem over the active set
    solved : True if the current point may be the answer
    limit : the largest number of passes
    """

    caps: Vec
    factors: tuple[float, float] = (1.0, -1.0)
    depth: float = np.inf
    w: Vec
    theta: Vec
    reach: Vec
    solved = True
    limit = 30

    def __init__(self, form: Form, monitor: Monitor, inner: InnerSolve, budget: int) -> None:
        self.form, self.monitor, self.inner, self.budget = form, monitor, inner, budget
        self.exact = max(0.3 * monitor.tol, _LEAST)  # the first gap leaves room for the rows outside

    @staticmethod
    @abstractmethod
    def refuse(inner: Solver, form: Form) -> str | None:
        """Return the reason why the active set does not apply to a form; None if it applies."""

    @abstractmethod
    def begin(self) -> None:
        """Set the first point and the reach from a solve over a sample."""

    @abstractmethod
    def verified(self, sums: PassSums) -> tuple[Answer, float, float]:
        """Return the answer proved by the sums of a pass, its objective and its relative gap."""

    @abstractmethod
    def solve(self, sums: PassSums) -> Answer | None:
        """Solve the problem over the active set in memory; return an answer only to end the run."""

    def restarted(self) -> bool:
        """Start again with a smaller active set; return False if impossible, as by default."""
        return False

    def run(self) -> Answer:
        """Alternate passes over all rows and solves over the active set, from a sample on."""
        self.begin()
        self.clear()
        monitor, answer, gap = self.monitor, Answer(), np.inf
        limit = monitor.limit(self.limit)
        for k in range(limit + 1):
            new, sums = self.screen()
            answer, objective, gap = self.verified(sums)
            if self.solved:
                monitor.latest = answer
                stop = monitor.report(k, objective, gap)
                if monitor.reached(gap):
                    return answer
                if stop:
                    return answer.interrupted()
                if new == 0:
                    self.exact *= 0.2
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
        self.states: dict[int, list[NDArray[np.int8]]] = {}
        self.active = ActiveSet()

    def screen(self) -> tuple[int, PassSums]:
        """Screen all rows in a pass, add new ones to the active set; return their number and the sums."""
        at = Thresholds(self.w, self.theta, self.reach, self.factors, self.depth)
        blocks = self.form.data.source.map_reduce(screened, at, states=self.states)
        self.monitor.count_read()
        new = self.active.add([rows for _, rows in blocks], self.caps)
        return new, _added([sums for sums, _ in blocks])

    def weighted(
        self, sums: PassSums, slopes: NDArray[np.float64], p: Vec
    ) -> tuple[Vec, NDArray[np.float64]]:
        """Return by class the sums of the weights q_i of all rows and, (2, n), of `q_i x_i`."""
        totals, points = (slopes * sums.counts).sum(axis=1), (slopes[:, :, None] * sums.points).sum(axis=1)
        if p.size:
            by_class = np.where([self.active.y > 0.0, self.active.y <= 0.0], p, 0.0)
            totals += by_class.sum(axis=1)
            points += np.asarray((self.active.X.T @ by_class.T).T)
        return totals, points

    def reach_of(self, X: Matrix, distances: Sequence[Vec]) -> Vec:
        """Return by class the reach of the active set, a quantile of the distances of sampled rows."""
        rows, n = sum(d.size for d in distances), self.form.n
        row = X.nnz * 12 / rows if sparse.issparse(X) else 8 * n
        fewest = max(1, min(d.size for d in distances))
        fraction = 3.0 * float(np.sqrt(n / fewest))  # three standard errors of a sample
        fraction = min(fraction, 0.75 * self.budget / max(1.0, row * self.form.data.m))
        return np.array([_quantile(d, fraction, 2 * n) for d in distances])

    def narrow(self) -> None:
        """Multiply the finite reaches of the next pass by 0.1."""
        self.reach = np.where(np.isfinite(self.reach), 0.1 * self.reach, self.reach)


def _quantile(distances: Vec, fraction: float, more: int) -> float:
    """Return the quantile of the distances at `fraction` plus `more` rows; inf if those are all rows."""
    k = int(np.ceil(fraction * distances.size)) + more
    return float(np.partition(distances, k)[k]) if k < distances.size - 1 else np.inf


def by_rounds(run: Callable[[], Answer], stored: int, monitor: Monitor) -> Answer:
    """Return the answer of `run()`; on Ctrl-C the latest proven answer if there is one, else re-raise."""
    monitor.passes, monitor.reads = 1.0, 1
    try:
        with blas_threads(0, stored):  # blocks have threads of their own
            return run()
    except KeyboardInterrupt:
        if monitor.latest is None:
            raise
        monitor.interrupted = True
        return monitor.latest.interrupted()
