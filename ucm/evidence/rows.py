"""Certificates over samples read block by block: one pass of their own, from the w and weights of an answer.

No sum of the solver enters. Of its answer the pass takes the normal, the multipliers, and the weights
of the rows, which any solver may choose.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucm.data.linear_map import Matrix, Vec
from ucm.data.source import by_parts
from ucm.evidence.certificate import fault, interval, of_objective
from ucm.evidence.feasible_point import BESIDE
from ucm.evidence.penalty_split import split_by_program
from ucm.forms.bound import FeatureNormal, SampleDual, SumDual, lower_bound
from ucm.forms.objective import slopes_of
from ucm.forms.out_of_core import HullProof, LossProof, RowHulls, RowLosses, support_of_hulls
from ucm.forms.solution import Certificate
from ucm.language.terms import ConvexLoss

Table = NDArray[np.float64]
ByClass = Sequence[tuple[ConvexLoss, Vec]]
"""Losses, with the factors of class +1 and of class -1."""

_COUNTED = 1e-9  # relative deviation of the sum of the row weights from that of the first pass
_PASS = fault("the pass over the rows")
"""The probable cause of bounds that contradict each other."""


def _classes(y: Vec) -> tuple[Vec, Vec, NDArray[np.intp]]:
    """Return the labels, the weights and the class indices of rows from labels times weights."""
    return np.where(y > 0.0, 1.0, -1.0), np.abs(y), np.where(y > 0.0, 0, 1)


def _over(source: Any, rows: Any, function: Any, *message: object) -> Any:
    """Return the merged results of `function(X, y, weights, *message)`; the weights are None without rows."""
    if rows is None:
        return source.map_reduce(_unweighted, function, message, merge=_added)
    return rows.reduce(function, message, _added)


def _unweighted(X: Matrix, y: ArrayLike, function: Any, message: tuple) -> Any:
    return by_parts(lambda _, X, y: function(X, y, None, *message), X, y, _added)


def _added(a: tuple, b: tuple) -> tuple:
    """Return the sums of two results."""
    return tuple(u + v for u, v in zip(a, b, strict=True))


def _all_rows(form: RowHulls | RowLosses, weights: Vec) -> bool:
    """True if the weights of the rows of a pass add up to those of the first pass."""
    return bool(np.allclose(weights, form.data.counts, rtol=_COUNTED, atol=0.0))


# --- hulls -----------------------------------------------------------------------------------------
class HullSums(NamedTuple):
    """Sums of a pass by class, as in `HullProof`, with `q_i / (scale c_i)` clipped to the domain of l*.

    losses, heights, totals : the sums of `scale c_i l(v_i)`, of `scale c_i l*(q_i / (scale c_i))`, of q_i
    weights : the sums of c_i
    points : (2, n) the sums of q_i x_i
    """

    losses: Vec
    heights: Vec
    totals: Vec
    weights: Vec
    points: Table


def _hull_sums(
    X: Matrix, y: Vec, q: Vec | None, w: Vec, parts: Sequence[tuple[ConvexLoss, float, float, Vec]]
) -> HullSums:
    """Return the sums of a block of rows; parts are by class the loss, factor, scale and (mu, t)."""
    _, c, side = _classes(y)
    q, scores = np.zeros(c.size) if q is None else q, np.asarray(X @ w).ravel()
    losses, heights, by_class = np.zeros(2), np.zeros(2), np.zeros((2, c.size))
    for k, (loss, factor, scale, (mu, t)) in enumerate(parts):
        rows = np.flatnonzero((side == k) & (c > 0.0))
        of_rows, v = scale * c[rows], (-factor * scores[rows] - mu) / t
        losses[k] = of_rows @ loss.each(loss.offset - v)
        s = np.clip(q[rows] / of_rows, max(loss.lowest(), 0.0), loss.steepest())
        heights[k], by_class[k, rows] = of_rows @ loss.conjugate(s), of_rows * s
    weights = np.bincount(side, c, 2).astype(np.float64)
    return HullSums(losses, heights, by_class.sum(axis=1), weights, (X.T @ by_class.T).T)


def certify_hulls(form: RowHulls, proof: HullProof) -> tuple[Certificate, HullSums]:
    """Return the certificate of the distance of two hulls of row blocks, and the sums behind it."""
    losses, norm = [form.balls[k][0] for k in form.of], float(np.linalg.norm(proof.w))
    multipliers = zip(proof.mu, proof.t[list(form.of)], strict=True)
    parts = [*zip(losses, form.factors, form.scales, multipliers, strict=True)]
    sums = HullSums(*_over(form.data.source, proof.rows, _hull_sums, proof.w, parts))
    moved, violation = _moved_into_hulls(form, sums)
    every = _all_rows(form, sums.weights)
    if proof.points is None or not every:
        violation = np.nan
    height = support_of_hulls(form, proof.mu, proof.t, sums.losses)
    primal = height / norm if every and norm > 0.0 and (proof.t > 0.0).all() else np.inf
    size = float(np.linalg.norm(np.array(form.factors) @ sums.points)) + moved
    return interval(primal, size, violation, form.data.scale, wrong=_PASS), sums


def _moved_into_hulls(form: RowHulls, sums: HullSums) -> tuple[float, float]:
    """Return an upper bound of the distance from x to the set, and the violation of its weights.

    Equal and uniform weights, mixed in by `RowHulls.within`, give weights of the set.
    """
    kept, shift = form.within(sums.totals, sums.heights)
    change = (1.0 - kept) * sums.totals + shift * form.data.counts
    longest = math.sqrt(form.n) * form.data.scale
    excess, sizes = form.excess(sums.heights)
    apart = np.abs(sums.totals / form.weight_sums - 1.0), excess / np.maximum(sizes, 1e-300)
    missed = float(np.concatenate(apart).max())
    return float(np.abs(form.factors) @ change) * longest, 0.0 if missed <= BESIDE else missed


# --- losses ----------------------------------------------------------------------------------------
def _loss_sums(
    X: Matrix, y: Vec, change: Vec | None, w: Vec, b: float, added: ByClass, subtracted: ByClass
) -> tuple[Vec, Table]:
    """Return the sums of a block of rows: losses, heights and weights by class, and `SampleDual.sums`."""
    label, c, side = _classes(y)
    margin = label * (np.asarray(X @ w).ravel() + b)
    plus, minus = ([(loss, factor[side] * c) for loss, factor in part] for part in (added, subtracted))
    tilt = -slopes_of(minus, margin) if minus else None
    slopes = change if change is None or tilt is None else change - tilt
    values = [sum(loss.value(margin, None, c) for loss, c in part) for part in (plus, minus)]
    at_zero = sum(float(c.sum()) * float(loss.each(np.zeros(1))[0]) for loss, c in plus)
    height = 0.0 if tilt is None else values[1] - float(tilt @ margin)
    numbers = [values[0] - values[1], at_zero, height]
    dual = SampleDual(plus, label, margin, slopes, tilt)
    return np.array([*numbers, *np.bincount(side, c, 2)]), dual.sums(X)


def certify_losses(form: RowLosses, proof: LossProof) -> Certificate:
    """Return the certificate of an objective over row blocks, from (w, b) and the weights of the rows.

    Smooth losses take their slopes at (w, b) as dual point.
    """
    w, split = proof.w, form.split
    kinked = any(loss.slope() is not None for loss, _ in form.losses)
    rows = proof.rows if kinked else None
    passed = (w, proof.b, form.losses, form.subtracted)
    numbers, sums = _over(form.data.source, rows, _loss_sums, *passed)
    (value, at_zero, height), counts = numbers[:3].tolist(), numbers[3:]
    normal = FeatureNormal(np.empty((0, form.n)), w, lambda: form.data.scale)
    u, constant = normal.tangent(split.penalties)
    added_penalty = split.G.penalty.value(w)
    primal = value + added_penalty - sum(h.value(w) for h in split.penalties)
    point = SumDual(sums, split.G.intercept)
    bound, violation = lower_bound(point, normal, split.G.penalty, u, split=split_by_program)
    if not _all_rows(form, counts):
        primal, violation = np.inf, np.nan
    kind = "global" if form.convex else "local"
    dual = bound - height - constant
    return of_objective(primal, dual, violation, at_zero, added_penalty, kind=kind, wrong=_PASS)
