"""Newton's method for convex functions whose value and derivatives are sums over rows, one pass a step.

A part p is a loss over the rows of one class. Its value is `t_p scale_p sum_i c_i l_p(v_i)`, with
`v_i = (-f_p w'x_i - mu_p) / t_p` and c_i the weight of sample i. Its weights are
`q_i = scale_p c_i l_p'(v_i)`. The numbers mu_p and t_p are affine functions of variables u beside w.

A step that does not lower the function is shortened. A sample in memory, whose weights stand for all rows,
gives the start, so that few steps over all rows are left.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ucm.data.linear_map import Matrix, Vec
from ucm.data.source import RowSource, as_double, by_parts
from ucm.forms.monitor import Monitor
from ucm.forms.objective import curvature
from ucm.forms.out_of_core import OutOfCoreForm
from ucm.forms.solver import Answer
from ucm.language.terms import ConvexLoss
from ucm.numerics.newton_steps import ridge_solve


class ClassLoss(NamedTuple):
    """Loss over the rows of one class, with its affine parameters mu and t.

    side : 0 for class +1, 1 for class -1
    factor, scale : the numbers f_p and scale_p
    fixed, slopes : (2,) and (2, k) arrays, `(mu_p, t_p) = fixed + slopes u`
    """

    loss: ConvexLoss
    side: int
    factor: float
    scale: float
    fixed: Vec
    slopes: NDArray[np.float64]

    def points(self, scores: Vec, u: Vec) -> Vec:
        """Return the arguments v of the loss for scores w'x and variables u."""
        mu, t = self.fixed + self.slopes @ u
        return (-self.factor * scores - mu) / t


class RowSums(NamedTuple):
    """Sums of one pass: values, conjugates, weights and the Hessian, by part unless stated otherwise.

    losses, heights : the sums of `scale c_i l(v_i)` and of the conjugates at the weights q_i
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


def row_sums(X: Matrix, y: ArrayLike, w: Vec, u: Vec, parts: Sequence[ClassLoss]) -> RowSums:
    """Return the `RowSums` of a block of rows; y holds labels times weights."""
    X, y = as_double(X), np.asarray(y, dtype=np.float64)
    count, n, k = len(parts), w.size, u.size
    scores = np.asarray(X @ w).ravel()
    weights = np.zeros((count, y.size))
    if any(part.slopes[1].any() for part in parts):
        weights = np.vstack([weights, np.maximum(y, 0.0), np.maximum(-y, 0.0)])
    index = np.flatnonzero(y > 0.0), np.flatnonzero(y <= 0.0)
    losses, heights = np.zeros((2, count))
    top = np.full(count, -np.inf)
    curvatures, mixed, lower = np.zeros(y.size), np.zeros((y.size, k)), np.zeros((k, k))
    with np.errstate(over="ignore", invalid="ignore"):
        for p, part in enumerate(parts):
            rows = index[part.side]
            if not rows.size:
                continue
            v = part.points(scores[rows], u)
            top[p], each = v.max(), part.loss.each(part.loss.offset - v)
            s, scale = part.loss.gradient(v), part.scale * np.abs(y[rows])
            losses[p], heights[p] = scale @ each, scale @ (v * s - each)
            weights[p, rows] = scale * s
            t = (part.fixed + part.slopes @ u)[1]
            d = scale / t * curvature(part.loss, part.loss.offset - v)
            slopes = part.slopes[0] + v[:, None] * part.slopes[1]
            curvatures[rows] += part.factor**2 * d
            mixed[rows] += part.factor * d[:, None] * slopes
            lower += slopes.T @ (d[:, None] * slopes)
        sums = np.asarray((X.T @ weights.T).T)
        H = np.empty((n + k, n + k))
        DX = X.multiply(curvatures[:, None]).tocsr() if sparse.issparse(X) else X * curvatures[:, None]
        weighted_gram = X.T @ DX
        H[:n, :n] = weighted_gram.toarray() if sparse.issparse(weighted_gram) else weighted_gram
        H[:n, n:] = X.T @ mixed
        H[n:, :n], H[n:, n:] = H[:n, n:].T, lower
    totals = weights[:count].sum(axis=1)
    return RowSums(losses, heights, totals, sums[:count], top, H, sums[count:])


def added(a: RowSums, b: RowSums) -> RowSums:
    return RowSums(*(u + v for u, v in zip(a, b, strict=True)))._replace(top=np.maximum(a.top, b.top))


def _weights(
    X: Matrix, y: ArrayLike, w: Vec, u: Vec, parts: Sequence[ClassLoss]
) -> tuple[Vec, NDArray[np.intp], Vec]:
    """Return the weights q_i of the rows of a block, their class indices, and the sample weights c_i."""
    y = np.asarray(y, dtype=np.float64)
    side, scores = np.where(y > 0.0, 0, 1), np.asarray(as_double(X) @ w).ravel()
    q, c = np.zeros(y.size), np.abs(y)
    for part in parts:
        rows = np.flatnonzero(side == part.side)
        q[rows] += part.scale * c[rows] * part.loss.gradient(part.points(scores[rows], u))
    return q, side, c


def _weighted(
    X: Matrix, y: ArrayLike, rule: tuple, function: Callable, message: tuple, merge: Callable
) -> Any:
    """Return `function(X, y, weights, *message)` of a block, by the rule of its weights."""
    of_sums, scale, shift = rule

    def of_part(_: slice, X: Matrix, y: Vec) -> Any:
        q, side, c = _weights(X, y, *of_sums)
        return function(X, y, scale[side] * q + shift[side] * c, *message)

    return by_parts(of_part, X, y, merge)


@dataclass(frozen=True)
class RowWeights:
    """Weights `scale q_i + shift c_i` of all rows by class, computed in one pass on request."""

    source: RowSource
    message: tuple[Vec, Vec, tuple[ClassLoss, ...]]
    scale: Vec = field(default_factory=lambda: np.ones(2))
    shift: Vec = field(default_factory=lambda: np.zeros(2))

    def weights(self, factors: tuple[float, float] = (1.0, 1.0)) -> Vec:
        """Return the (m,) weights, multiplied by the absolute value of the factor of each class."""
        blocks = self.source.map_reduce(_weights, *self.message)
        size = np.abs(factors)
        return np.concatenate([size[side] * self._of(q, side, c) for q, side, c in blocks])

    def reduce(self, function: Callable, message: tuple, merge: Callable) -> Any:
        """Return the merged results of `function(X, y, weights, *message)` over all rows."""
        rule = self.message, self.scale, self.shift
        return self.source.map_reduce(_weighted, rule, function, message, merge, merge=merge)

    def written(self, sample: tuple[Matrix, Vec]) -> tuple[Matrix, Vec, Vec, float]:
        """Return X, y times weights, q and the gain of the sample for a reference, without the penalty."""
        sums = row_sums(*sample, *self.message)
        offsets = [part.loss.offset for part in self.message[2]]
        gain = float(offsets @ sums.totals - sums.heights.sum())
        return *sample, self._of(*_weights(*sample, *self.message)), gain

    def _of(self, q: Vec, side: NDArray[np.intp], c: Vec) -> Vec:
        return self.scale[side] * q + self.shift[side] * c


Evaluate = Callable[[Vec, Vec, Sequence[ClassLoss]], RowSums]


def over_rows(form: OutOfCoreForm, monitor: Monitor) -> Evaluate:
    """Return a function that evaluates `row_sums` over all rows, and counts a pass for each call."""

    def evaluate(w: Vec, u: Vec, parts: Sequence[ClassLoss]) -> RowSums:
        monitor.count_read()
        return form.data.source.map_reduce(row_sums, w, u, parts, merge=added)

    return evaluate


def over_sample(form: OutOfCoreForm, X: Matrix, y: Vec, monitor: Monitor) -> Evaluate:
    """Return a function that evaluates `row_sums` over rows in memory, and counts a fraction of a pass."""

    def evaluate(w: Vec, u: Vec, parts: Sequence[ClassLoss]) -> RowSums:
        monitor.passes += y.size / form.data.m
        return row_sums(X, y, w, u, parts)

    return evaluate


def scaled_solve(H: NDArray[np.float64], g: Vec) -> Vec:
    """Return `H^-1 g`, computed with H scaled to unit diagonal."""
    diagonal = np.diagonal(H)
    d = np.sqrt(np.maximum(diagonal, 1e-30 * max(float(diagonal.max()), 1e-250)))
    return ridge_solve(np.ascontiguousarray(H / np.outer(d, d)), g / d) / d


class RowFunction(ABC):
    """Convex function of z = (w, u): `ridge ||w||_2^2 / 2 + linear'(w, u)` plus losses of the rows."""

    def __init__(self, n: int, parts: Sequence[ClassLoss], linear: Vec, ridge: float) -> None:
        self.n, self.parts, self.linear, self.ridge = n, tuple(parts), linear, ridge

    @abstractmethod
    def answer(self, z: Vec, sums: RowSums, value: float) -> tuple[Answer, float, float]:
        """Return the answer proved by the sums at z, its objective and its relative gap."""

    def message(self, z: Vec) -> tuple[Vec, Vec, tuple[ClassLoss, ...]]:
        """Return w, u and the parts, the arguments of `row_sums` after X and y."""
        return z[: self.n], z[self.n :], self.parts

    def value(self, z: Vec, sums: RowSums) -> float:
        t = [part.fixed[1] + part.slopes[1] @ z[self.n :] for part in self.parts]
        return float(0.5 * self.ridge * (z[: self.n] @ z[: self.n]) + self.linear @ z + t @ sums.losses)

    def derivatives(self, z: Vec, sums: RowSums) -> tuple[Vec, NDArray[np.float64]]:
        """Return the gradient and the Hessian in z = (w, u)."""
        n, g, H = self.n, self.linear.copy(), sums.hessian.copy()
        g[:n] += self.ridge * z[:n]
        H[np.arange(n), np.arange(n)] += self.ridge
        for p, part in enumerate(self.parts):
            g[:n] -= part.factor * sums.points[p]
            g[n:] -= part.slopes.T @ (sums.totals[p], sums.heights[p])
        return g, H

    def step(self, z: Vec, sums: RowSums, value: float) -> Vec:
        """Return the Newton step `-H^-1 g`."""
        g, H = self.derivatives(z, sums)
        return -scaled_solve(H, g)

    def slope(self, z: Vec, sums: RowSums, step: Vec) -> float:
        """Return the derivative of the value along a step; an override may return 0 for unknown."""
        return float(self.derivatives(z, sums)[0] @ step)

    def scaled(self, z: Vec, sums: RowSums, value: float) -> tuple[Vec, RowSums, float]:
        """Return the best multiple of z, its sums and its value; by default z unchanged."""
        return z, sums, value

    def corrected(self, z: Vec, sums: RowSums) -> Vec | None:
        """Return a replacement of z where Newton's method cannot start at z; by default None."""
        return None


def minimise(
    function: RowFunction,
    z: Vec,
    evaluate: Evaluate,
    monitor: Monitor,
    sums: RowSums | None = None,
    previous: tuple[Vec, float] | None = None,
) -> tuple[Vec, Answer]:
    """Run damped Newton steps to the tolerance of the monitor; return the last point and its answer.

    `sums` are those at z if known; `previous` is a point and its value, to return to.
    """
    limit, slope, answer = monitor.limit(60), 0.0, Answer(w=np.zeros(function.n), b=0.0)
    for k in range(limit + 1):
        sums = evaluate(*function.message(z)) if sums is None else sums
        value = function.value(z, sums)
        if np.isnan(value):  # rows have changed since the first pass; the certificate says so
            return z, function.answer(z, sums, value)[0]
        if previous is None and np.isinf(value):
            return z, answer.ended("stalled", "weights of far rows overflow; scale the features")
        moved = function.corrected(z, sums)
        if moved is not None:
            z, sums = moved, None
            continue
        z, sums, value = function.scaled(z, sums, value)
        if previous is not None and value > previous[1] + 1e-14 * abs(previous[1]):  # rounding
            if np.abs(z - previous[0]).max() <= 1e-12 * np.abs(z).max():  # the step is rounding
                return previous[0], answer.ended("stalled", "no step leads down")
            rise = value - previous[1] - slope  # above the tangent; 0 < t < 1/2 minimises a parabola
            t = -0.5 * slope / rise if np.isfinite(rise) and rise > 0.0 else 0.0
            t = max(t, 0.1) if t > 0.0 else 0.25  # 0.25 where no parabola is known
            slope, z, sums = t * slope, previous[0] + t * (z - previous[0]), None
            continue
        answer, objective, gap = function.answer(z, sums, value)
        monitor.latest = answer if np.isfinite(gap) else None
        stop = monitor.report(k, objective, gap)
        if monitor.reached(gap):
            return z, answer
        if stop and z[: function.n].any():  # w = 0 bounds nothing
            return z, answer.interrupted()
        monitor.systems += 1
        step = function.step(z, sums, value)
        previous, slope = (z, value), function.slope(z, sums, step)
        z, sums = z + step, None
    z = z if previous is None else previous[0]
    return z, answer.ended("max_iter", f"{limit} steps did not reach the tolerance")
