"""The rows of a band: what separates them from the others, and where their weights are.

A row is held at weight 0 above a threshold, at the cap below it; those near it, or on the wrong side, are the
band, and come. A row leaves one byte where it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.linear import Vec
from ucm.data.row_metadata import magnitudes
from ucm.data.source import RowSource, as_double, gathered
from ucm.evidence.row_hulls import below

__all__ = [
    "HELD", "WIDE", "WRITTEN", "ActiveSet", "ActiveSetWeights", "Screened", "margins", "reach_of", "screen",
    "stacked",
]  # fmt: skip

HELD, _BAND = np.int8(1), np.int8(2)  # the state of a row; 0: held at weight 0
_DROPPED = 0.25  # part of rows below which a sum takes them out
WRITTEN = 1000  # rows of a twin, where there is no band
WIDE = 3.0  # standard errors of a sample that the band covers


def margins(X: Any, y: Any, w: Vec, b: float) -> Vec:
    """Return `y_i (w'x_i + b)`; y may hold labels times weights."""
    return np.sign(y) * (np.asarray(as_double(X) @ w).ravel() + b)


class Screened(NamedTuple):
    """What a block tells: the terms of the bound; of the rows held at the cap their weighed sums and what
    they weigh; the rows that join the band, class +1 first, their labels times weights, states so far, and
    places."""

    below: tuple[float, float]
    points: NDArray[np.float64]
    counts: tuple[float, float]
    X: Any
    y: Vec
    was: NDArray[np.int8]
    places: NDArray[np.int32]


def screen(
    X: Any,
    y: Any,
    state: Any,
    w: Vec,
    theta: Vec,
    reach: Vec,
    factors: tuple[float, float],
) -> tuple[NDArray[np.int8], Screened]:
    """The kernel of a round: rows nearer than `reach` to their threshold, or on the wrong side, join."""
    table, X, y = X, as_double(X), np.asarray(y)
    positive, weights = y > 0.0, magnitudes(y)
    side = (~positive).astype(np.intp)
    d = X @ w
    d *= np.take(factors, side)
    d -= np.take(theta, side)
    short = below(d, positive, weights)
    under = d < 0.0
    join = np.abs(d) <= np.take(reach, side)
    if state is None:
        state = under.astype(np.int8)
    else:
        join |= np.where(under, state == 0, (state == HELD) & (d > 0.0))
        join &= state != _BAND
        state = state.copy()
    places = np.concatenate([np.flatnonzero(join & positive), np.flatnonzero(join & ~positive)])
    was = state[places]
    state[places] = _BAND
    held = np.flatnonzero(state == HELD)
    c = np.ones(held.size) if weights is None else weights[held]
    first = np.where(positive[held], c, 0.0)
    points = np.zeros((2, X.shape[1]))
    if held.size <= _DROPPED * d.size or sparse.issparse(X):
        own = X[held]
        points[0] = np.asarray(own.T @ first).ravel()
        points[1] = np.asarray(own.T @ (c - first)).ravel()
    else:
        at = np.zeros((2, d.size))
        at[side[held], held] = c
        points = at @ X
    counts = float(first.sum()), float((c - first).sum())
    labels = y[places].astype(np.float64)
    return state, Screened(
        short, points, counts, table[places], labels, was, places.astype(np.int32)
    )


def _held(X: Any, y: Any, state: Any) -> tuple[Any, Any]:
    """Labels times weights of the rows that are held at the cap, 0 for others; a byte each where no row has a
    weight."""
    y = np.asarray(y)
    found = np.where(state == HELD, y, 0)
    return state, found.astype(np.int8) if magnitudes(y) is None else found


class ActiveSet:
    """The rows that came, by class: tables, weights in the answer, weights of the samples, and where they are
    (block, row)."""

    def __init__(self) -> None:
        self.X: list[Any] = [None, None]
        self.p = [np.empty(0), np.empty(0)]
        self.c = [np.empty(0), np.empty(0)]
        self.places: list[list[tuple[int, NDArray[np.int32]]]] = [[], []]

    def add(self, found: list[Screened], caps: tuple[float, float]) -> int:
        """The rows of a round; how many."""
        for c, sign in enumerate((1.0, -1.0)):
            tables: list[Any] = []
            weights: list[Any] = [self.p[c]]
            counts: list[Any] = [self.c[c]]
            for block, part in enumerate(found):
                first = int(np.count_nonzero(part.y > 0.0))
                own = slice(first) if sign > 0.0 else slice(first, None)
                if part.y[own].size:
                    tables.append(part.X[own])
                    counts.append(np.abs(part.y[own]))
                    weights.append(part.was[own] * caps[c] * counts[-1])
                    self.places[c].append((block, part.places[own]))
            if tables:
                self.X[c] = stacked(tables if self.X[c] is None else [self.X[c], *tables])
                self.p[c], self.c[c] = np.concatenate(weights), np.concatenate(counts)
        return sum(part.y.size for part in found)

    def put(self, blocks: list[Vec], values: list[Vec]) -> None:
        """Write a value for each row that came into the vectors of the blocks."""
        for places, own in zip(self.places, values, strict=True):
            at = 0
            for block, rows in places:
                blocks[block][rows] = own[at : at + rows.size]
                at += rows.size

    @property
    def nbytes(self) -> int:
        return sum(12 * X.nnz if sparse.issparse(X) else X.nbytes for X in self.X if X is not None)

    def table(self) -> tuple[Any, Vec]:
        """The rows and their labels times their weights, class +1 first."""
        met = [
            (T, s * c) for T, s, c in zip(self.X, (1.0, -1.0), self.c, strict=True) if T is not None
        ]
        return gathered(met)


def stacked(tables: list[Any]) -> Any:
    """Rows in double precision, C-contiguous or CSR."""
    if sparse.issparse(tables[0]):
        return as_double(sparse.csr_matrix(sparse.vstack(tables, format="csr")))
    return np.ascontiguousarray(np.concatenate(tables, dtype=np.float64))


@dataclass
class ActiveSetWeights:
    """The weights of all rows: a state of one byte for each row, and the weights of the band."""

    source: RowSource
    states: dict[int, Any]
    band: ActiveSet
    caps: tuple[float, float]
    counts: tuple[float, float]

    def weights(self, factors: tuple[float, float] = (1.0, 1.0)) -> Vec:
        """(m,) the weights of all rows, by one pass."""
        states = self.source.map_reduce(_held, states=self.states)
        plus, minus = (cap * abs(f) for cap, f in zip(self.caps, factors, strict=True))
        found = np.empty(sum(s.size for s in states))
        known = np.split(found, np.cumsum([s.size for s in states[:-1]]))
        for v, s in zip(known, states, strict=True):
            np.multiply(np.where(s > 0, plus, -minus), s, out=v)
        own = [abs(f) * p for f, p in zip(factors, self.band.p, strict=True)]
        self.band.put(known, own)
        return found


def reach_of(off: Vec, part: float, more: int) -> float:
    """How far the nearest `part` of rows, and `more`, are off their threshold; inf for all."""
    k = int(np.ceil(part * off.size)) + more
    return float(np.partition(off, k)[k]) if k < off.size - 1 else np.inf
