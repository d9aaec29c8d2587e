"""The certificate of `loss + penalty`: the Fenchel gap, or the residual of criticality if not convex.

Everything is computed from the declaration and the samples: the split of its terms, their values, slopes and
conjugates. The form that a solver was given is not used, so that a wrong one cannot confirm itself.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from ucm.data.bound_data import Data
from ucm.data.gram import Gram
from ucm.data.linear_map import Matrix, Vec
from ucm.errors import SolverError
from ucm.evidence.certificate import bracket, fault, interval
from ucm.evidence.feasible_point import INSIDE
from ucm.forms.objective import balance
from ucm.forms.out_of_core import HullProof, LossProof, RowHulls, RowLosses
from ucm.forms.solution import Certificate
from ucm.language.contracts import round_violation
from ucm.language.objective import ConvexPart, Objective
from ucm.language.penalties.penalty_sum import CombinedPenalty, slope_near
from ucm.language.terms import ConvexLoss, Penalty, SubtractedPart

Table = NDArray[np.float64]
Slope = TypeVar("Slope", float, Vec)
_CHUNK = 1 << 20  # margins of one product
_NOTHING, _SUM = 1e-15, 1e-14  # of the loss at w = 0: an objective that counts as 0; rounding of a sum
_SECOND_ORDER = 1e-14  # of a square: below it the square of a correction is rounding


# --- the normal: in features, or with a kernel ---------------------------------------------------
@dataclass(frozen=True)
class FeatureNormal:
    """A normal w with explicit coordinates in the features of the samples X, an array or CSR matrix."""

    X: Matrix
    w: Vec

    indefinite: ClassVar[bool] = False

    @functools.cached_property
    def scores(self) -> Vec:
        """The scores `<w, x_i>`, (m,)."""
        return np.asarray(self.X @ self.w).ravel()

    def value(self, penalty: Penalty) -> float:
        """Return the value of the penalty at w."""
        return penalty.value(self.w)

    def tangent(self, penalties: Sequence[SubtractedPart]) -> tuple[Vec, float]:
        """Return a subgradient u of the sum h of subtracted penalties at w, and `h(w) - <u, w>`."""
        u = sum((h.subgradient(self.w) for h in penalties), start=np.zeros_like(self.w))
        return u, sum(h.value(self.w) for h in penalties) - float(u @ self.w)

    def conjugates(self, R: CombinedPenalty, d: Vec, u: Vec) -> list[tuple[float, float, float]]:
        """Return upper bounds of the conjugate `R*(u + fraction z)`, `z = sum_i d_i x_i`, by several methods.

        Each is a triple: the bound, the largest fraction <= 1 with `u + fraction z` in dom R*, the violation.
        """
        z = np.asarray(self.X.T @ d).ravel()

        def size() -> float:
            return float(abs(self.X).max()) * float(np.abs(d).sum())

        bounds = [R.conjugate_bound(z, u, size, self.w)]
        for head, remaining_terms in R.prox_splittings():
            # R* is the least sum of conjugates over all ways to split z: the others take their slopes at w
            slopes = [slope_near(h, self.w, z) for h in remaining_terms]
            remainder = z - sum(slopes)
            value, fraction, missed = head.conjugate_bound(remainder, u, size, self.w)
            value += sum(h.conjugate(fraction * g) for h, g in zip(remaining_terms, slopes, strict=True))
            bounds.append((value, fraction, missed))
        return bounds


@dataclass(frozen=True)
class KernelNormal:
    """A normal `w = sum_i c_i phi(x_i)` of a kernel, for the penalty `lam ||w||_2^2` only."""

    gram: Gram
    c: Vec

    @property
    def indefinite(self) -> bool:
        """True if the kernel is indefinite, so that `||w||^2` may be negative."""
        return not self.gram.kernel.definite

    @functools.cached_property
    def scores(self) -> Vec:
        return self.gram.times(self.c)

    @functools.cached_property
    def _square(self) -> float:
        return float(self.c @ self.scores)

    def value(self, penalty: Penalty) -> float:
        return _multiple(CombinedPenalty(penalty.split()[0])) * self._square

    def tangent(self, penalties: Sequence[SubtractedPart]) -> tuple[Vec, float]:
        if penalties:
            raise SolverError(
                f"certify: {penalties!r} need the coordinates that a kernel hides; solve without a kernel"
            )
        return np.zeros(0), 0.0

    def conjugates(self, R: CombinedPenalty, d: Vec, u: Vec) -> list[tuple[float, float, float]]:
        """Return the upper bound `||z||^2 / (4 lam)` of the conjugate of `lam ||w||_2^2`, for u = 0.

        With `e = d - 2 lam c` and the scores f of w, the square is `4 lam^2 ||w||^2 + 4 lam <e, f> + e'Ke`,
        and `e'Ke <= (sum |e_i| sqrt K_ii)^2`. If this bound of e'Ke is small, no rows of K are computed.
        """
        lam = _multiple(R)
        e = d - 2.0 * lam * self.c
        size = float(np.abs(e) @ np.sqrt(np.maximum(self.gram.diagonal, 0.0)))
        square = 4.0 * lam * (lam * self._square + float(e @ self.scores))
        last = size * size
        if last > _SECOND_ORDER * abs(square):
            last = float(e @ self.gram.times(e))
        return [((square + last) / (4.0 * lam), 1.0, 0.0)]


def _multiple(R: CombinedPenalty) -> float:
    """Return lam of a penalty `lam ||w||_2^2`; raise SolverError for any other penalty."""
    if R.square is None:
        raise SolverError(
            f"certify: {R.terms!r} is no multiple of L2(), and a kernel hides the coordinates of w; "
            "solve without a kernel"
        )
    return R.square


Normal = FeatureNormal | KernelNormal
"""A normal w, with the penalty values and the conjugate bounds that a certificate needs."""


# --- the certificate -------------------------------------------------------------------------------
@dataclass(frozen=True)
class Tangent:
    """The tangent plane `height + <margin, t> + <normal, w>` of the subtracted function H at a point."""

    margin: Vec
    normal: Vec
    height: float


def tangent_plane(H: ConvexPart, data: Data, normal: Normal, margin: Vec) -> Tangent:
    """Return the tangent plane of the subtracted function H at a normal w and its margins."""
    slopes = _slopes(H, data, margin)
    height = sum(loss.value(margin, data.y, data.weights, data.groups) for loss in H.losses)
    u, constant = normal.tangent(H.penalties)  # type: ignore[arg-type]
    return Tangent(slopes, u, height - float(slopes @ margin) + constant)


def _slopes(part: ConvexPart, data: Data, margin: Vec) -> Vec:
    """Return the derivative of the losses of a convex part in each margin, at a kink a subgradient."""
    slopes = np.zeros(data.m)
    for loss in part.losses:
        c = weights_in(loss, data)
        slopes -= (1.0 if c is None else c) * loss.gradient(loss.offset - margin)
    return slopes


def loss_slopes(model: Objective, data: Data, margin: Vec) -> Vec:
    """Return the derivative of the total loss in each margin."""
    G, H = model.dc()
    return _slopes(G, data, margin) - _slopes(H, data, margin)


def certify_objective(
    model: Objective, data: Data, normal: Normal, b: float, slopes: Vec | None
) -> Certificate:
    """Return the certificate of (w, b) for `loss + penalty`, by Fenchel duality at a dual point.

    The split G - H of the declaration is majorised at (w, b) by G minus the tangent plane of H.
    Fenchel's inequality bounds this convex problem from below: for a convex objective (H = 0) the gap
    bounds the distance to the optimum (kind "global"); otherwise it is the residual of criticality, 0
    exactly when the slopes of the plane are a subgradient of G too, equation (12) of Ong and Le Thi
    (2013) (kind "local"). The dual point `slopes` is minus the slopes of the convex losses; None takes
    those at (w, b).
    """
    G, H = model.dc()
    margin = data.y * (normal.scores + b)
    primal = model.loss.value(margin, data.y, data.weights, data.groups)
    primal += normal.value(model.penalty)
    plane = tangent_plane(H, data, normal, margin)
    bound, violation = _lower_bound(G, data, normal, margin, slopes, plane)
    dual, at_zero = bound - plane.height, 0.0
    if primal < dual:  # only then the size of the terms matters
        at_zero = model.loss.value(np.zeros(data.m), data.y, data.weights, data.groups)
    # where a kernel is indefinite, the dual may exceed the primal objective
    return of_objective(
        primal, dual, violation, at_zero,
        kind="global" if model.convex else "local",
        wrong=None if normal.indefinite else fault("the conjugate of a term", model),
    )  # fmt: skip


def certify_batch(
    model: Objective, data: Data, Z: Table, slopes: Table, lower: Table, upper: Table, ridge: Vec
) -> list[Certificate]:
    """Return the certificates of `certify_objective` for many points, each with a penalty of its own.

    The loss of the model is a convex loss of all samples, and the penalty of point k is `R_k(w) =
    ridge_k ||w||_2^2 + sup of <w, z> over lower_k <= z <= upper_k` with `lower < 0 < upper`, (K, n). Z,
    (K, n + 1), are the points (w, b). One product with the dense samples serves many points.
    """
    step = max(1, _CHUNK // data.m)
    if len(Z) > step:
        tables = (Z, slopes, lower, upper, ridge)
        parts = [[each[k : k + step] for each in tables] for k in range(0, len(Z), step)]
        return [proof for part in parts for proof in certify_batch(model, data, *part)]
    loss: ConvexLoss = model.loss  # type: ignore[assignment]
    W, y, c = Z[:, :-1], data.y, data.factors
    primal = loss.values(y * (W @ data.X.T + Z[:, -1:])) @ c
    primal += ridge * (W * W).sum(axis=1) + np.maximum(W * lower, W * upper).sum(axis=1)
    low, top = loss.lowest(), loss.steepest()
    signed = y * c * np.clip(slopes / c, low, top)
    for each in signed:
        each *= balance(each)
    z = signed @ data.X
    gauge = np.maximum(np.maximum(z / lower, z / upper).max(axis=1), 1.0)
    fraction = np.where(ridge > 0.0, 1.0, 1.0 / gauge)
    a = np.clip(fraction[:, None] * signed / (y * c), low, top)
    beyond = np.square(z - np.clip(z, lower, upper)).sum(axis=1)
    dual = (loss.offset * a - loss.conjugate(a)) @ c
    dual -= np.divide(beyond, 4.0 * ridge, out=np.zeros(len(Z)), where=ridge > 0.0)
    at_zero = loss.value(np.zeros(data.m), None, c)
    least = -float(c.sum() * loss.conjugate(np.zeros(1))[0])  # of the dual point 0
    wrong = fault("the conjugate of a term", model)
    return [
        of_objective(p, least if np.isnan(d) else max(d, least), 0.0, at_zero, kind="global", wrong=wrong)
        for p, d in zip(primal.tolist(), dual.tolist(), strict=True)
    ]


def of_objective(
    primal: float, dual: float, violation: float, at_zero: float, *, kind: str, wrong: str | None
) -> Certificate:
    """Return the certificate of primal and dual bounds of `loss + penalty`, relative to the primal value.

    `at_zero` is the loss at w = 0, b = 0, which has the size of the terms of both bounds; `wrong` is
    the `fault` where a dual point is above the primal one, None where one may be.
    """
    if primal < dual <= _NOTHING * at_zero:  # both are the rounding of nothing
        dual = primal
    blame = None if wrong is None else f"a dual point above the primal one); {wrong}"
    size = max(abs(primal), 1e-300)
    return bracket(primal, dual, violation, size, rounding=_SUM * at_zero, size=size, wrong=blame, kind=kind)


def _lower_bound(
    G: ConvexPart, data: Data, normal: Normal, margin: Vec, slopes: Vec | None, plane: Tangent
) -> tuple[float, float]:
    """Return a lower bound of the convex function `G - <v, t> - <u, w>`, and the violation of its dual point.

    (v, u) are the slopes of the tangent plane of H in the margins t and in w.

    For any `s_min <= a_ki <= s_max` and `beta_i = c_i sum_k a_ki + v_i` with `y'beta = 0`, c_i the weights of
    the samples, it is `sum_k sum_i c_i (o_k a_ki - l_k*(a_ki)) - R*(sum_i beta_i y_i x_i + u)`; where a loss
    is of some samples, a_ki = 0 and l_k*(a_ki) counts as 0 for the others. The losses alone can make
    beta = 0, as H is no steeper than G: a point that misses a constraint is pulled there. Where u = 0, this
    point bounds too, as R is not negative, and so does every point between; along a multiple of the squared
    l2 norm the best one has a closed form.
    """
    losses = [_Counted(loss, loss.counts(data.y, data.groups)) for loss in G.losses]
    c = data.factors
    ends = [loss.ends() for loss in losses]
    point = _split_slopes(losses, ends, margin, None if slopes is None else slopes / c)
    remainder, still = -plane.margin / c if plane.margin.any() else np.zeros(1), []
    for low, top in ends:
        still.append(np.clip(remainder, low, top))
        remainder = remainder - still[-1]
    signed = data.y * (c * sum(point) + plane.margin)
    keep = balance(signed)
    outside = float(np.abs(remainder).max(initial=0.0))
    penalties = CombinedPenalty(G.penalties)  # type: ignore[arg-type]
    flat = not (plane.normal.any() or normal.indefinite)
    least = sum(_of_losses(loss, c, a0) for loss, a0 in zip(losses, still, strict=True))
    bounds = [(least if flat else -np.inf, outside)]
    for conjugate, fraction, missed in normal.conjugates(penalties, keep * signed, plane.normal):
        bound = -conjugate
        for loss, (low, top), a, a0 in zip(losses, ends, point, still, strict=True):
            bound += _of_losses(loss, c, np.clip(a0 + fraction * keep * (a - a0), low, top))
        gain = bound + conjugate - least
        if flat and penalties.square is not None and 0.0 < gain < 2.0 * conjugate:
            bound = max(bound, least + 0.25 * gain * gain / conjugate)
        bounds.append((bound, max(missed, outside)))
    # a NaN where squares overflow: nothing is proven
    valid = [(-np.inf if np.isnan(bound) else bound, missed) for bound, missed in bounds]
    return max(valid, key=lambda found: (found[1] <= INSIDE, *found))


def _of_losses(loss: _Counted, c: Vec, a: Vec) -> float:
    """Return the term of one loss in the dual objective, `sum_i c_i (o a_i - l*(a_i))`."""
    return float((c * (loss.offset * a - loss.conjugate(a))).sum())


@dataclass(frozen=True)
class _Counted:
    """A loss, with the mask of the samples that enter its sum; None for all samples."""

    loss: ConvexLoss
    counts: NDArray[np.bool_] | None

    @property
    def offset(self) -> float:
        return self.loss.offset

    def _where(self, each: Slope) -> Slope | Vec:
        return each if self.counts is None else np.where(self.counts, each, 0.0)

    def ends(self) -> tuple[float | Vec, float | Vec]:
        """Return the least and the largest slope of the loss, as numbers, or by sample with a mask."""
        return self._where(self.loss.lowest()), self._where(self.loss.steepest())

    def gradient(self, u: Vec) -> Vec:
        return self._where(self.loss.gradient(u))

    def conjugate(self, s: Vec) -> Vec:
        return self._where(self.loss.conjugate(s))


def weights_in(loss: ConvexLoss, data: Data) -> Vec | None:
    """Return the weights of all samples in a loss, 0 outside its group; None if all weights are 1."""
    counts = loss.counts(data.y, data.groups)
    return data.weights if counts is None else np.where(counts, data.factors, 0.0)


def _split_slopes(
    losses: Sequence[_Counted],
    ends: Sequence[tuple[float | Vec, float | Vec]],
    margin: Vec,
    slopes: Vec | None,
) -> list[Vec]:
    """Split `slopes` into one dual point per loss with this sum, as far as the domains of the losses allow.

    If `slopes` is None, return the gradients of the losses at the margins.
    """
    if slopes is not None and _apart(losses):
        return [np.clip(slopes, *end) for end in ends]
    if slopes is None:
        return [loss.gradient(loss.offset - margin) for loss in losses]
    low, high = _bracket(losses, margin, slopes)
    first, last = ([loss.gradient(loss.offset - t) for loss in losses] for t in (low, high))
    fall = sum(first) - sum(last)
    part = np.where(fall > 0.0, (sum(first) - slopes) / np.where(fall > 0.0, fall, 1.0), 0.0)
    part = np.clip(part, 0.0, 1.0)
    return [np.clip(a + part * (b - a), *end) for a, b, end in zip(first, last, ends, strict=True)]


def _apart(losses: Sequence[_Counted]) -> bool:
    """True if no sample enters two losses."""
    counts = [loss.counts for loss in losses if loss.counts is not None]
    if len(counts) < len(losses):
        return len(losses) == 1
    return not (np.sum(counts, axis=0) > 1).any()


def _bracket(losses: Sequence[_Counted], margin: Vec, slopes: Vec) -> tuple[Vec, Vec]:
    """Return an interval of margins around the t at which the gradients of the losses sum to `slopes`.

    The gradients fall in t, and the gradients at this t are the best dual points. The two margins differ if
    there is a kink, or a loss too steep for double precision.
    """

    def above(t: Vec) -> NDArray[np.bool_]:
        return sum(loss.gradient(loss.offset - t) for loss in losses) >= slopes

    with np.errstate(over="ignore"):
        size = np.maximum(np.abs(margin), 1.0)
        low = high = margin
        for k in range(20):
            out_low, out_high = ~above(low), above(high)
            if not (out_low.any() or out_high.any()):
                break
            step = size * 1e-14 * 16.0**k
            low = np.where(out_low, margin - step, low)
            high = np.where(out_high, margin + step, high)
        for _ in range(60):
            middle = 0.5 * (low + high)
            if not ((low < middle) & (middle < high)).any():
                break
            up = above(middle)
            low, high = np.where(up, middle, low), np.where(up, high, middle)
    return low, high


# --- unattained and local minima ----------------------------------------------------------------------
def is_unattained(model: Objective, data: Data, w: Vec, b: float) -> str | None:
    """Return the reason why the objective attains no minimum near (w, b), or None if none is known.

    A loss that falls for every margin (logistic, exponential) tends to 0 along s (w, b), s to infinity, when
    (w, b) separates the samples, and along s (0, b) when the losses count one class. With a bounded penalty
    the objective tends to a limit; where it is above that at (w, b), it falls along the whole ray.
    """
    margin = data.y * (data.X @ w + b)
    value = model.value(margin, w, data.y, data.weights, data.groups)
    added, _ = model.loss.split()
    falling = [loss for loss in added if float(loss.gradient(np.array([-30.0]))[0]) > 0.0]
    classes = [loss.counts(data.y, data.groups) for loss in added]
    for normal, t in ((w, margin), (np.zeros_like(w), b * data.y)):
        counted = [t if counts is None else t[counts] for counts in classes]
        limit, before = model.penalty.value(1e12 * normal), model.penalty.value(1e9 * normal)
        separates = bool(falling) and bool((np.concatenate(counted) > 0.0).all())
        if separates and limit <= before * (1.0 + 1e-12) and value >= limit:
            break
    else:
        return None
    remedy = "add a multiple of L1() or L2()" if normal.any() else "count both classes in the loss"
    return (
        f"no minimum is attained: the samples are separated, and the objective falls towards {limit:.6g} "
        f"as (w, b) grows, since {falling[0]!r} falls for every margin and the penalty is bounded; {remedy}"
    )


def is_local(model: Objective, data: Data, w: Vec, b: float, tol: float = 1e-9) -> bool:
    """True if the subtracted function H is affine near (w, b).

    A critical point is then a local minimum, as the objective is convex near it. Theorem 3.1 (IV) of Ong and
    Le Thi (2013), with its conditions `|w_j| != a` and `t_i != -mu^2`.
    """
    H = model.dc()[1]
    margin = data.y * (data.X @ w + b)
    for loss in H.losses:
        if loss.slope() is None or (np.abs(margin - loss.offset) <= tol).any():
            return False
    return all(h.affine(w, tol) for h in H.penalties)  # type: ignore[union-attr]


# --- samples that are read block by block ------------------------------------------------------------
_PASS = fault("the pass over the rows")
"""The probable cause of bounds that contradict each other."""


def hulls_proven(form: RowHulls, proof: HullProof) -> Certificate:
    """Return the certificate of the distance of two hulls of row blocks, from a direction and a point."""
    primal, norm = form.bounds(proof)
    if np.inf in (primal, norm):
        return Certificate(primal, -norm, np.inf, np.inf, np.nan, "none")
    return interval(primal, norm, round_violation(proof.violation), form.data.scale, wrong=_PASS)


def losses_proven(form: RowLosses, proof: LossProof) -> Certificate:
    """Return the certificate of an objective over row blocks, from (w, b) and the slopes of the losses."""
    dual, missed = form.lower_bound(proof)
    kind = "global" if form.convex else "local"
    return of_objective(form.value(proof), dual, missed, form.value_at_zero, kind=kind, wrong=_PASS)
