"""Sums over rows of losses at affine functions of the samples: value, gradient, Hessian and weights.

A part p is a loss over the rows of one class. Its value is `t_p share_p sum_i c_i l_p(v_i)`, with
`v_i = (-f_p w'x_i - mu_p) / t_p` and c_i the weight of sample i. Its weights are
`q_i = share_p c_i l_p'(v_i)`. The numbers mu_p and t_p are affine functions of variables u beside w.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.linear_map import Vec
from ucm.data.source import RowSource, as_double
from ucm.forms.objective import curvature
from ucm.language.terms import ConvexLoss


class ClassLoss(NamedTuple):
    """A loss over the rows of one class.

    Attributes
    ----------
    side : 0 for class +1, 1 for class -1
    factor, share : the numbers f_p and share_p
    fixed, slopes : (2,) and (2, k) arrays, `(mu_p, t_p) = fixed + slopes u`
    """

    loss: ConvexLoss
    side: int
    factor: float
    share: float
    fixed: Vec
    slopes: NDArray[np.float64]

    def points(self, scores: Vec, u: Vec) -> Vec:
        """Return v for the scores w'x."""
        mu, t = self.fixed + self.slopes @ u
        return (-self.factor * scores - mu) / t


class RowSums(NamedTuple):
    """The sums of one pass, by part unless stated otherwise.

    Attributes
    ----------
    losses, heights : the sums of `share c_i l(v_i)` and of the conjugates at the weights q_i
    totals, points : the sums of q_i and, (P, n), of `q_i x_i`
    top : the largest v
    hessian : (n + k, n + k) the Hessian of the sum of the values of all parts in (w, u)
    samples : (2, n) by class the sums of `c_i x_i`; empty if no t depends on u
    """

    losses: Vec
    heights: Vec
    totals: Vec
    points: NDArray[np.float64]
    top: Vec
    hessian: NDArray[np.float64]
    samples: NDArray[np.float64]


def row_sums(X: Any, y: Any, w: Vec, u: Vec, parts: Sequence[ClassLoss]) -> RowSums:
    """Return the sums over a block; y holds labels times weights."""
    X, y = as_double(X), np.asarray(y, dtype=np.float64)
    count, n, k = len(parts), w.size, u.size
    scores = np.asarray(X @ w).ravel()
    weights = np.zeros((count, y.size))
    if any(part.slopes[1].any() for part in parts):
        weights = np.vstack([weights, np.maximum(y, 0.0), np.maximum(-y, 0.0)])
    index = np.flatnonzero(y > 0.0), np.flatnonzero(y <= 0.0)
    losses, heights = np.zeros((2, count))
    top = np.full(count, -np.inf)
    bend, mixed, lower = np.zeros(y.size), np.zeros((y.size, k)), np.zeros((k, k))
    with np.errstate(over="ignore", invalid="ignore"):
        for p, part in enumerate(parts):
            rows = index[part.side]
            if not rows.size:
                continue
            v = part.points(scores[rows], u)
            top[p], each = v.max(), part.loss.each(part.loss.offset - v)
            s, share = part.loss.gradient(v), part.share * np.abs(y[rows])
            losses[p], heights[p] = share @ each, share @ (v * s - each)
            weights[p, rows] = share * s
            t = (part.fixed + part.slopes @ u)[1]
            d = share / t * curvature(part.loss, part.loss.offset - v)
            slopes = part.slopes[0] + v[:, None] * part.slopes[1]
            bend[rows] += part.factor**2 * d
            mixed[rows] += part.factor * d[:, None] * slopes
            lower += slopes.T @ (d[:, None] * slopes)
        sums = np.asarray((X.T @ weights.T).T)
        H = np.empty((n + k, n + k))
        DX = X.multiply(bend[:, None]).tocsr() if sparse.issparse(X) else X * bend[:, None]
        inner = X.T @ DX
        H[:n, :n] = inner.toarray() if sparse.issparse(inner) else inner
        H[:n, n:] = X.T @ mixed
        H[n:, :n], H[n:, n:] = H[:n, n:].T, lower
    totals = weights[:count].sum(axis=1)
    return RowSums(losses, heights, totals, sums[:count], top, H, sums[count:])


def added(a: RowSums, b: RowSums) -> RowSums:
    return RowSums(*(u + v for u, v in zip(a, b, strict=True)))._replace(top=np.maximum(a.top, b.top))


def _weights(X: Any, y: Any, w: Vec, u: Vec, parts: Sequence[ClassLoss]) -> tuple[Vec, NDArray[np.intp], Vec]:
    """Return the weights of the rows of a block, their classes, and the weights of the samples."""
    y = np.asarray(y, dtype=np.float64)
    side, scores = np.where(y > 0.0, 0, 1), np.asarray(as_double(X) @ w).ravel()
    q, c = np.zeros(y.size), np.abs(y)
    for part in parts:
        rows = np.flatnonzero(side == part.side)
        q[rows] += part.share * c[rows] * part.loss.gradient(part.points(scores[rows], u))
    return q, side, c


@dataclass(frozen=True)
class RowWeights:
    """The weights of all rows, computed in one pass: `scale q_i + shift c_i` in each class."""

    source: RowSource
    message: tuple[Vec, Vec, tuple[ClassLoss, ...]]
    scale: Vec = field(default_factory=lambda: np.ones(2))
    shift: Vec = field(default_factory=lambda: np.zeros(2))

    def weights(self, factors: tuple[float, float] = (1.0, 1.0)) -> Vec:
        """Return the (m,) weights, those of a class times the absolute value of its factor."""
        blocks = self.source.map_reduce(_weights, *self.message)
        size = np.abs(factors)
        return np.concatenate([size[side] * self._of(q, side, c) for q, side, c in blocks])

    def written(self, sample: tuple[Any, Vec]) -> tuple[Any, Vec, Vec]:
        """Return the rows that a reference problem holds, labels times weights, and their weights."""
        return *sample, self._of(*_weights(*sample, *self.message))

    def _of(self, q: Vec, side: NDArray[np.intp], c: Vec) -> Vec:
        return self.scale[side] * q + self.shift[side] * c
