"""Recovery of the sample weights, the normal in the features, and the bias."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucm.data.bound_data import Data
from ucm.data.gram import Gram
from ucm.data.linear_map import Matrix, Vec
from ucm.data.moments import Moments
from ucm.data.source import RowSource, as_double
from ucm.errors import ParameterError
from ucm.forms.distance import MinNorm
from ucm.language.contracts import FeatureNode, MassMultipliers, UncertaintySet
from ucm.language.node import Node
from ucm.language.parameter import value
from ucm.language.robust import RobustMargin
from ucm.language.sets.affine_image import AffineImage, Ball, Ellipsoid, Point
from ucm.language.sets.combination import Combination, is_number, times
from ucm.language.sets.hull import Hull
from ucm.language.sets.intersection import Intersection
from ucm.language.sets.union import ConvexUnion
from ucm.language.statistics.affine import ConstantVector, MatrixNode, Origin, VectorSum
from ucm.language.statistics.samples import Mean, Points, Samples, kinds_of

BIAS_RULES = ("auto", "multipliers", "midpoint", "means", "min_error", "odds", "boundary", "zero")
_ROUNDING = 1e-12  # relative to the largest score
_BINS = 1 << 16  # of a histogram of scores


def sample_weights(form: MinNorm, q: Sequence[Vec], m: int) -> Vec | None:
    """Return the non-negative weight of every sample; None if the set has no samples."""
    if not any(b.carries for b in form.blocks):
        return None
    weights, parts = np.zeros(m), list(zip(form.blocks, q, strict=True))
    while parts:
        b, v = parts.pop()
        if b.samples is not None:
            weights[b.samples] += abs(b.weight) * np.maximum(v, 0.0)
        parts += [(part, v[where]) for where, part in b.parts]
    return weights


def _matrix_chains(node: Node, chain: tuple = ()) -> Iterator[tuple[str, tuple]]:
    """Yield the kind of every leaf of samples, with the matrices applied to the leaf, outermost first."""
    match node:
        case Samples():
            yield node.kind, chain
        case Combination():
            for U, L in node.terms():
                yield from _matrix_chains(U, chain if is_number(L) else (*chain, L))
        case _:
            for x in node.children():
                yield from _matrix_chains(x, chain)


def feature_normal(U: UncertaintySet, w: Vec, read_as: str | None = None) -> Vec | None:
    """Return the normal of the original features: `M' w` under a matrix M, w without matrices.

    None if leaves of samples have different matrices, or a set without samples is in another space.
    `read_as` is "pos" or "neg" for the leaves of that class alone, of both for a `signed` one; None for all.
    """
    every = U.once("chains", lambda: tuple(_matrix_chains(U)))
    chains = [chain for kind, chain in every if read_as is None or kind in (read_as, "signed")]
    if not chains:
        return w if read_as is None else None
    first = chains[0]
    for other in chains[1:]:
        pairs = zip(first, other, strict=False)
        if len(other) != len(first) or any(
            a is not b and (a.shape != b.shape or abs(a - b).max() > 0.0) for a, b in pairs
        ):
            return None
    for M in first:
        w = M.T @ w
    return w


def bias(
    rule: str,
    U: UncertaintySet,
    form: MinNorm,
    data: Data,
    q: Sequence[Vec],
    w: Vec,
    read_as: str | None = None,
) -> tuple[float | None, str, float | None]:
    """Return the bias b of `w'x + b`, the applied rule and the margin rho, which only "multipliers" has.

    At `y (w'x + b) = rho` the weights leave their bounds.

    rule : "multipliers" (of the mass constraints, when each class is one hull and no more: Barbero, Takeda
        and Lopez 2015, appendix E), "midpoint" (of the nearest points, when each summand uses one class),
        "means" (midpoint of the class means: Table 9 of Ito, Takeda and Toh 2015, for MM-FDA), "min_error"
        (least training error), "odds" (least error of two normal distributions), "boundary" (through the
        point nearest to 0 of a set of one class), "zero", or "auto": the first of "multipliers", "midpoint"
        and "min_error" that applies; if all samples are of one class, of "multipliers" and "boundary". If the
        objective is 0, "auto" is "min_error", because rounding decides the others. If the classes have
        different weights, "auto" is "multipliers" or "odds", because the midpoint ignores weights
    read_as : "pos" or "neg", if the classes stand under different matrices: the class whose matrix maps a new
        sample. "auto" is then "min_error" or "odds" of the mapped samples
    """
    normal, one_map = feature_normal(U, w), True
    if normal is None and read_as is not None:
        normal, one_map = feature_normal(U, w, read_as), False
    if normal is None or normal.size != data.n:
        return None, "none", None
    if rule == "zero" or not w.any():
        return 0.0, "zero", None
    single = data.source is None and abs(data.y.sum()) == data.y.size  # all samples are of one class
    rules = {
        "multipliers": lambda: _bias_of_multipliers(form, w, single),
        "midpoint": lambda: midpoint_of(
            U, ((leaf, x) for leaf, _, x in _summands(U, data, iter(q))), lambda x: data.space.inner(w, x)
        ),
        "means": lambda: -0.5 * float(normal @ (data.mean("pos") + data.mean("neg"))),
        "min_error": lambda: least_error_bias(data, normal),
        "odds": lambda: _bias_of_odds(data, normal),
        "boundary": lambda: _bias_of_boundary(U, data, q, w),
    }
    weighted = data.weighing.classes[0] != data.weighing.classes[1]
    automatic = ("multipliers", "odds", "min_error") if weighted else ("multipliers", "midpoint", "min_error")
    automatic = automatic if one_map else [n for n in automatic if n in ("odds", "min_error")]
    automatic = ("multipliers", "boundary", "zero") if single else automatic
    for name in automatic if rule == "auto" else (rule,):
        b, rho = found if isinstance(found := rules[name](), tuple) else (found, None)
        if b is not None and math.isfinite(b):
            return b, name, rho
    raise ParameterError(
        f"bias_rule={rule!r} does not apply to {U!r}; "
        'use bias_rule="auto", or "min_error" for the least training error'
    )


def _bias_of_multipliers(form: MinNorm, w: Vec, single: bool) -> tuple[float | None, float | None]:
    """Return b and rho from the multipliers of the mass constraints; (None, None) if not defined.

    `b = -(alpha + beta) / 2` and `rho = (alpha - beta) / 2` for the scores w'x alpha of class +1 and beta of
    class -1. Needs one uncoupled hull per class, or one joint hull, and no other summand: in
    `0.5 * pos.mean + 0.5 * Hull(pos)` the weights do not leave their bounds at the boundary of the set. If a
    `single` class has samples, b is minus its score: minus the rho of a one-class SVM.
    """
    if form.couplings or form.center.any():
        return None, None
    thresholds: dict[float, list[float]] = {1.0: [], -1.0: []}
    for b in form.blocks:
        if not b.carries:
            continue
        if not isinstance(b.domain, MassMultipliers):
            return None, None
        # -A'w = -weight y w'x for signed samples, -weight w'x for one class
        sides = [(math.copysign(1.0, b.weight), b.weight)]
        if b.classes is not None:
            sides = [(1.0, b.weight), (-1.0, -b.weight)]
        intervals = b.domain.mass_multipliers(b.map.rmatvec(-w))
        for (label, weight), interval in zip(sides, intervals, strict=True):
            theta = _point_between(*interval)
            if theta is not None and weight != 0.0:
                thresholds[label].append(-theta / weight)
    if single:
        scores = thresholds[1.0] + thresholds[-1.0]
        return (-scores[0], None) if len(scores) == 1 else (None, None)
    if any(len(scores) != 1 for scores in thresholds.values()):
        return None, None
    (alpha,), (beta,) = thresholds[1.0], thresholds[-1.0]
    return -0.5 * (alpha + beta), 0.5 * (alpha - beta)


def _bias_of_boundary(U: UncertaintySet, data: Data, q: Sequence[Vec], w: Vec) -> float | None:
    """Return the bias at which the point of a set of one class has the value 0; None for both classes."""
    kinds = kinds_of(U)
    if kinds not in ({"pos"}, {"neg"}):
        return None
    score = data.space.inner(w, U.evaluate(data, iter(q))[0])
    return -score if "pos" in kinds else score


def _point_between(low: float, high: float) -> float | None:
    """Return the midpoint of an interval, the finite end of a half-line, or None for the whole line."""
    if math.isfinite(low) and math.isfinite(high):
        return 0.5 * (low + high)
    return low if math.isfinite(low) else (high if math.isfinite(high) else None)


def _summands(U: UncertaintySet, data: Data, q: Iterator[Vec]) -> Iterator[tuple[UncertaintySet, Vec, Vec]]:
    """Yield every Minkowski summand: the set, its point, and the contribution of the point to the sum."""
    for V, L in (terms := U.terms()):
        for leaf, point, x in _summands(V, data, q):
            yield leaf, point, times(L, x)
    if not terms:
        x = U.evaluate(data, q)[0]
        yield U, x, x


def summand_points(U: UncertaintySet, data: Data, q: Sequence[Vec]) -> tuple[Vec, ...]:
    """Return the point of every Minkowski summand, in the order of the declaration."""
    return tuple(point for _, point, _ in _summands(U, data, iter(q)))


def class_points(U: UncertaintySet, data: Data, q: Sequence[Vec]) -> tuple[Vec, Vec] | None:
    """Return the class points of x = x_+ - x_-; None if a summand uses both classes or a class is absent."""
    return _class_points((leaf, x) for leaf, _, x in _summands(U, data, iter(q)))


def _class_points(summands: Iterable[tuple[UncertaintySet, Vec]]) -> tuple[Vec, Vec] | None:
    """Return x_+ and x_- as sums of the contributions of the summands; None as in `class_points`."""
    point: dict = {}
    for leaf, x in summands:
        kinds = kinds_of(leaf)
        if len(kinds) > 1 or kinds == {"signed"}:
            return None
        for kind in kinds:
            point[kind] = point.get(kind, 0.0) + (x if kind == "pos" else -x)
    return (point["pos"], point["neg"]) if len(point) == 2 else None


def _translation(x: Node) -> dict[str, float]:
    """Return by class the translation of a set or vector for a unit translation of the samples of the class.

    1 for a hull or a mean, 0 for a covariance, the factor for a multiple; NaN where it is not known, as for
    the union or intersection of sets with different translations.
    """
    match x:
        case Samples(kind="signed"):  # of a hull: each class has mass 1/2
            return {"pos": 0.5, "neg": -0.5}
        case Samples():
            return {x.kind: 1.0}
        case ConvexUnion() | Intersection():
            each = [_translation(V) for V in x.children()]
            first, kinds = each[0], dict.fromkeys(kind for moved in each for kind in moved)
            same = (k for k in kinds if len({moved.get(k, 0.0) for moved in each}) == 1)
            return dict.fromkeys(kinds, math.nan) | {k: first.get(k, 0.0) for k in same}
        case Combination():
            terms = [(value(L) if is_number(L) else 1.0, V) for V, L in x.terms()]
        case VectorSum():
            terms = [(value(c), v) for c, v in x.terms]
        case Mean() | MatrixNode() if "signed" in kinds_of(x):
            return {"pos": math.nan, "neg": math.nan}
        case MatrixNode() | Points() | ConstantVector() | Origin():
            return {}
        case Hull() | Mean() | Point() | AffineImage() | Ball() | Ellipsoid():
            terms = [(1.0, y) for y in x.children() if isinstance(y, FeatureNode)]
        case _:
            return {"pos": math.nan, "neg": math.nan}
    total: dict[str, float] = {}
    for factor, y in terms:
        for kind, moved in _translation(y).items():
            total[kind] = total.get(kind, 0.0) + factor * moved
    return total


def ignores_origin(U: UncertaintySet, n: int) -> bool:
    """True if U is known not to move when all samples, of n features, move by one vector."""
    one_map = feature_normal(U, np.zeros(U.dimension(n) or n)) is not None
    return one_map and sum(U.once("translation", lambda: _translation(U)).values()) == 0.0


def midpoint_of(
    U: UncertaintySet, summands: Iterable[tuple[UncertaintySet, Vec]], score: Callable[[Vec], float]
) -> float | None:
    """Return b of the hyperplane midway between the class points; None if no midpoint exists.

    No midpoint exists if a summand uses both classes, or the set does not move with the samples of a class.
    `summands` are those of U, each with its contribution to the nearest point, and `score(x)` is w'x.
    """
    points = _class_points(summands)
    if points is None:
        return None
    factors = U.once("translation", lambda: _translation(U))
    shifts = {"pos": factors.get("pos", 0.0), "neg": -factors.get("neg", 0.0)}
    # a set that does not move with the samples (0, or nan) has no midpoint
    if not all(shift > _ROUNDING for shift in shifts.values()):
        return None
    return -0.5 * sum(score(x) / shifts[kind] for kind, x in zip(shifts, points, strict=True))


def _score_moments(data: Data, normal: Vec) -> list[tuple[float, float, float]]:
    """Return (count, mean, variance) of the scores of class +1, and of class -1; of rows in the sample."""
    if data.source is not None and data.moments is not None:
        return [
            (count, float(normal @ data.mean(kind)), float(normal @ data.covariance(kind) @ normal))
            for kind, count in zip(("pos", "neg"), data.counts, strict=True)
        ]
    scores, samples = (data.X @ normal)[:, None], data.weighing.samples
    sides = data.y > 0, data.y < 0
    each = [Moments.of(scores[rows], None if samples is None else samples[rows]) for rows in sides]
    return [(one.total, float(one.mean[0]), float(one.covariance[0, 0])) for one in each]


def _bias_of_odds(data: Data, normal: Vec) -> float | None:
    """Return the bias of least error without class weights, plus a shift by the log ratio of class weights.

    For two normal distributions of the scores with means mu_o and one variance s^2, weights c shift b by
    `s^2 log(c_+ / c_-) / (mu_+ - mu_-)`. The weighted training error would not depend on c where a kernel
    separates the classes.
    """
    (m, mean, variance), (other_m, other_mean, other_variance) = _score_moments(data, normal)
    if not mean > other_mean:
        return None
    pooled = (m * variance + other_m * other_variance) / (m + other_m)
    plus, minus = data.weighing.classes
    shift = pooled * math.log(plus / minus) / (mean - other_mean)
    return least_error_bias(data, normal, weighted=False) + shift


def least_error_bias(data: Data, normal: Vec, weighted: bool = True) -> float:
    """Return the bias of least training error, with class weights only if `weighted`."""
    if data.source is None:
        costs = data.weights if weighted else data.weighing.samples
        return least_error(data.X @ normal, data.y > 0, costs)
    (_, mean, variance), (_, other_mean, other_variance) = _score_moments(data, normal)
    spread = math.sqrt(max(variance, other_variance)) + abs(mean - other_mean)
    costs = data.weighing.classes if weighted else (1.0, 1.0)
    center, source = 0.5 * (mean + other_mean), data.source.of_all_groups()
    return _error_over_rows(source, normal, costs, center, spread)


def least_error(
    scores: Vec, positive: NDArray[np.bool_], costs: Vec | None, before: float | None = None
) -> float:
    """Return b in the middle of the widest interval of least weighted training error, or cost.

    `before` is the error with all of the (m,) scores called positive, if there are other scores.
    """
    order = np.argsort(scores)
    s, positive = scores[order], positive[order]
    weight = np.ones(s.size) if costs is None else costs[order]
    # threshold after the first k samples: those k are called negative
    errors = np.concatenate([[0.0], np.cumsum(np.where(positive, weight, -weight))])
    errors += weight[~positive].sum() if before is None else before
    gaps = np.concatenate([[np.inf], s[1:] - s[:-1], [np.inf]])
    # smaller gaps are rounding errors
    usable = gaps > _ROUNDING * max(abs(float(s[0])), abs(float(s[-1])))
    best = float(errors[usable].min())
    ties = np.flatnonzero(usable & (errors <= best + 1e-12 * weight.sum()))
    between = ties[(ties > 0) & (ties < s.size)]
    span = float(s[-1] - s[0]) or max(abs(float(s[0])), 1.0)
    if between.size == 0:
        return -(float(s[0]) - span) if ties[0] == 0 else -(float(s[-1]) + span)
    k = int(between[np.argmax(gaps[between])])
    return -0.5 * float(s[k - 1] + s[k])


# --- the least training error over rows: a histogram of scores, then the scores near the least error ---
def _scores(X: Matrix, normal: Vec) -> Vec:
    return np.asarray(as_double(X) @ normal).ravel()


def _edges(center: float, width: float) -> Vec:
    """Return the inner edges of the histogram bins, equidistant over `width` around `center`."""
    return center + width * np.linspace(-0.5, 0.5, _BINS - 1)


def _histograms(X: Matrix, y: ArrayLike, normal: Vec, center: float, width: float) -> Vec:
    """Return the score histograms of class +1 and class -1, (2, bins), with unbounded end bins."""
    bins = np.searchsorted(_edges(center, width), _scores(X, normal))
    classes = (np.maximum(side * np.asarray(y, dtype=np.float64), 0.0) for side in (1.0, -1.0))
    return np.array([np.bincount(bins, weights, _BINS) for weights in classes], dtype=np.float64)


def _scores_between(X: Matrix, y: ArrayLike, normal: Vec, low: float, high: float) -> tuple[Vec, Vec]:
    scores = _scores(X, normal)
    inside = (low < scores) & (scores <= high)
    return scores[inside], np.asarray(y)[inside]


def _error_over_rows(
    source: RowSource, normal: Vec, costs: tuple[float, float], center: float, spread: float
) -> float:
    """Return the bias of least weighted training error over out-of-core rows, by bins, in two passes."""
    width = 16.0 * max(spread, 1e-280)
    counts = source.map_reduce(_histograms, normal, center, width, merge=operator.add)
    P, N = costs[0] * counts[0], costs[1] * counts[1]
    # The error with all bins from one on called positive is exact at the lower end of the bin; inside it is
    # less by at most the cost of class -1 in the bin.
    error = np.cumsum(P - N) - (P - N) + N.sum()
    filled = np.flatnonzero(N + P)
    least = float(error[filled].min()) + 1e-12 * float(P.sum() + N.sum())
    possible = np.flatnonzero((error - N)[filled] <= least)
    # one more bin on either side
    first, last = filled[max(possible[0] - 1, 0)], filled[min(possible[-1] + 1, filled.size - 1)]
    ends = np.concatenate([[-np.inf], _edges(center, width), [np.inf]])
    blocks = source.map_reduce(_scores_between, normal, ends[first], ends[last + 1])
    scores, y = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return least_error(scores, y > 0.0, np.abs(y) * np.where(y > 0.0, *costs), float(error[first]))


def coefficients_of(
    model: RobustMargin, data: Data, gram: Gram, q: Sequence[Vec], w: Vec, x: Vec
) -> tuple[Vec, Vec]:
    """Return the sample coefficients of w, `w = sum_i c_i phi(x_i)`, and of the point x.

    The nearest point x is a combination of samples, so its coefficients are exact: the set is evaluated with
    unit vectors as samples. The rest of w comes from the factor of the Gram matrix.
    """
    point = x if data.space.gram is not None else model.set.evaluate(data.over_samples, iter(q))[0]
    norm = data.space.norm(x)
    # if 0 lies in U, x and w have opposite directions
    side = -1.0 if data.space.inner(w, x) < 0.0 else 1.0
    c, remainder = np.zeros(gram.m), w
    if norm != 0.0 and w.any():
        c = side * point / norm
        remainder = w - side * data.space.dual_vector(x, 2.0)
    if float(np.linalg.norm(remainder)) > 1e-13:
        c = c + gram.combination(data.X, remainder)
        if data.origin.any():  # of total 0, so that it gives w from the samples as given, too
            ones = np.ones(gram.m)
            free = ones - data.X @ np.linalg.lstsq(data.X, ones)[0]  # orthogonal to all features
            c -= float(c.sum()) / (float(free.sum()) or 1.0) * free
    return c, point
