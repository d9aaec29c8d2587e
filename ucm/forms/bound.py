"""The lower bound of a convex problem, from its declaration and a dual point.

The problem of every convex declaration, and of every convex step of DCA, is

    min over (w, b)   max over q in D   sum_k sum_i q_ki l_k(o_k - t_i) + R(w) - <v, t> - <u, w>,

`t_i = y_i (w'x_i + b)`, k over its losses. For q in D, s_ki in the domain of l_k* and `y'beta = 0`,
`beta_i = sum_k q_ki s_ki + v_i`, weak duality bounds its optimum from below (Shalev-Shwartz and Zhang, 2013;
Rockafellar and Uryasev, 2000):

    sum_k sum_i q_ki (o_k s_ki - l_k*(s_ki))  -  R*(sum_i beta_i y_i x_i + u).

A plain loss has D = {the weights of the samples}. The margin loss `l(u) = u` has s = 1 and l* = 0; with R
the indicator of `||w||_p <= 1` the bound is minus the dual norm of a point of U. The free level rho of a
generalised nu-SVM is a further variable, with which the sum of beta over each class is 1/2.

Where the scores have offsets, `t_i = y_i (w'x_i + b) + sigma_i`, and the bound is less by
`sum_i beta_i sigma_i`.

A dual point enters as a segment from a base point, with beta = 0 where the losses allow it. Both signs of
`y (beta - base)` are scaled down until `y'beta = 0`, and the segment ends where it leaves the domain of R*. A
point that no scaling moves into the constraints has a violation, and above `INSIDE` it bounds nothing. For
b = 0 there is no `y'beta = 0`.

Certificates build the dual point from the declaration and the samples, the stopping rules of solvers from
their form.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ucm.data.gram import Gram
from ucm.data.linear_map import Matrix, Vec, as_dense
from ucm.errors import SolverError
from ucm.forms.monitor import INSIDE
from ucm.language.cone import Bound, decomposed
from ucm.language.contracts import ROUNDING, round_violation
from ucm.language.penalties.combined import CombinedPenalty, deviation, slope_near
from ucm.language.terms import ConvexLoss, Penalty, ProximalPenalty, SubtractedPart

Terms = Sequence[tuple[ConvexLoss, Vec]]
"""Losses, each with the weights q of the samples, (m,), 0 for those that it does not count."""
Bounds = Iterable[tuple[float, float, float]]
"""Upper bounds of R*, each with the part of the segment to its point and the violation of the point."""
Split = Callable[[tuple[ProximalPenalty, ...], Vec, Vec], list[Vec] | None]
"""A function of the terms of R, z and w; it returns z_k in the domains of the R_k* that nearly sum to z."""

_REST = 1e-13  # of the slopes: a base point that counts as 0
_EXACT = 1e-15  # of the terms: an image that needs no further move
_MOVES = 4  # of a dual point
_DENSE = 1000  # features of a dense program
_TAKEN = 200  # sweeps of projections of a split on the cones of its terms
_CHECKED = 8  # sweeps that halve the rest at least: others come to no end
_SECOND_ORDER = 1e-14  # of a square: below it the square of a correction is rounding


# --- the bound -------------------------------------------------------------------------------------
def lower_bound(
    dual: Dual, normal: Normal, R: CombinedPenalty, u: Vec, enough: float = np.inf, split: Split | None = None
) -> tuple[float, float]:
    """Return the best lower bound on the segment of a dual point, and the violation of its constraints.

    A bound of `enough` ends the search. Otherwise the bound of the base point is tried too, and along a
    multiple of the squared l2 norm the best point of the segment; a sum of penalties without a proximal map
    is split by `split`. NaN, where squares overflow, proves nothing.

    Where R is flat along a line, R* is finite only at points orthogonal to it. A deviation costs its product
    with an optimal w, which nothing bounds, so the dual point is moved until only rounding is left.
    """
    best, gain, conjugate = (False, -np.inf, 0.0), 0.0, 0.0
    dual = normal.moved(dual, R, u)
    for k in range(_MOVES):
        for conjugate, fraction, missed in normal.conjugates(R, dual, u, split):
            gain, violation = dual.gain(fraction), max(missed, dual.outside)
            if not np.isnan(gain - conjugate):
                best = max(best, (violation <= INSIDE, gain - conjugate, violation))
            if best[0] and best[1] >= enough:
                return best[1:]
        if (moved := normal.pulled(dual, R, u, k % 2 > 0)) is None:
            break
        dual = moved
    if dual.rests and not u.any() and not normal.indefinite:
        bound = least = dual.gain(0.0) - normal.conjugate_at_zero(R)
        if R.square is not None and 0.0 < gain - least < 2.0 * conjugate:
            bound = least + 0.25 * (gain - least) ** 2 / conjugate
        if not np.isnan(bound):
            best = max(best, (dual.outside <= INSIDE, bound, dual.outside))
    return best[1:]


# --- dual points -----------------------------------------------------------------------------------
class Dual(ABC):
    """A segment of dual points from a base point (`rests`: beta is 0), and the bound's terms on it.

    `outside` is the relative violation of D or of `y'beta = 0` that no scaling mends.
    """

    outside: float
    rests: bool

    @abstractmethod
    def gain(self, fraction: float) -> float:
        """Return `sum_k sum_i q_ki (o_k s_ki - l_k*(s_ki))` at a part of the segment, or a lower bound."""

    @abstractmethod
    def images(self, adjoint: Callable[[Vec], Vec]) -> tuple[Vec, Vec | float]:
        """Return `sum_i beta_i y_i x_i` as its change over the segment and its base.

        `adjoint` maps coefficients of the samples to such a sum.
        """

    @property
    @abstractmethod
    def mass(self) -> float:
        """The sum of the absolute coefficients of `images`."""

    def moved(self, rows: NDArray[np.float64], missed: Vec) -> Dual | None:
        """Return a dual point whose sum of `beta_i y_i rows_i` is less by `missed`, where slopes have room.

        None if the samples are not at hand, or the sum of a class is fixed.
        """
        return None


def balanced(up: float, down: float, excess: float) -> tuple[float, float, float]:
    """Return the factors in [0, 1] with `f_up up - f_down down + excess = 0`, and the relative violation."""
    over = up - down + excess
    if over >= 0.0:
        factors = max((down - excess) / up, 0.0) if up > 0.0 else 1.0, 1.0
    else:
        factors = 1.0, max((up + excess) / down, 0.0) if down > 0.0 else 1.0
    missed = max(over - up, -over - down, 0.0)
    return *factors, missed / max(up + down + abs(excess), 1e-300)


def balance(signed: Vec, excess: float = 0.0) -> tuple[Bound, float]:
    """Return for every entry the factor of its sign in `balanced`, and the relative violation."""
    up, down = float(np.maximum(signed, 0.0).sum()), -float(np.minimum(signed, 0.0).sum())
    f_up, f_down, missed = balanced(up, down, excess)
    return 1.0 if f_up == f_down == 1.0 else np.where(signed > 0.0, f_up, f_down), missed


def centred(y: Vec, shift: Bound) -> tuple[Bound, float]:
    """Return `y_i (o_i - level)` of offsets `y_i o_i`, and their median, the level that an intercept adds."""
    level = float(np.median(y * shift)) if np.any(shift) else 0.0
    return shift - y * level if level else shift, level


def clipped(s: Vec, loss: ConvexLoss) -> Vec:
    """Return slopes clipped to the domain of l*; of few entries faster than `numpy.clip`."""
    low, high = loss.ends
    return np.minimum(np.maximum(s, low), high)


def times(c: Vec, s: Bound) -> Vec:
    """Return the product `c s`, with 0 where c is 0, even for an infinite s."""
    if c.min(initial=1.0) > 0.0:
        return c * s
    return np.multiply(c, s, out=np.zeros(c.size), where=c > 0.0)


def _quotient(s: Vec, c: Vec) -> Vec:
    """Return the quotient `s / c`, with 0 where c is 0."""
    return s / c if c.min(initial=1.0) > 0.0 else np.divide(s, c, out=np.zeros(c.size), where=c > 0.0)


class SampleDual(Dual):
    """Dual points of losses over samples in memory.

    Parameters
    ----------
    terms : the losses with the weights q of the samples
    y : (m,) labels
    margin : (m,) the margins t at which the dual point is to be tight
    slopes : (m,) the sums over the losses of `q_ki s_ki`; None for the slopes at the margins
    tilt : (m,) v; None for 0
    class_sum : the sum of beta over each class, where the problem fixes it
    shares : the split of the slopes among the losses
    free : False if b is 0
    shift : (m,) sigma, the part of the margins that is neither of w nor of b
    """

    def __init__(
        self,
        terms: Terms,
        y: Vec,
        margin: Vec,
        slopes: Vec | None,
        tilt: Vec | None,
        class_sum: float | None = None,
        shares: Shares | None = None,
        free: bool = True,
        shift: Bound = 0.0,
    ) -> None:
        self.y, self.margin, self.tilt, self.shares, self.free = y, margin, tilt, shares, free
        # y'beta = 0 up to rounding, so that a common offset would leave its size times that
        self.shift = centred(y, shift)[0] if free else shift
        self.class_sum = class_sum
        self.terms, beta = terms, tilt  # of the base point; None for 0
        self.base: list[Bound] = []
        for loss, c in terms:
            s0: Bound = min(max(0.0, loss.ends[0]), loss.ends[1])
            if beta is not None:
                s0 = clipped(_quotient(-beta, c), loss)
                beta = beta + c * s0
            elif s0 != 0.0:
                beta = c * s0
            self.base.append(s0)
        self.rests = beta is None
        if beta is not None:
            size = sum((c for _, c in terms), start=np.abs(beta))
            self.rests = bool(np.all(np.abs(beta) <= _REST * size))
        with np.errstate(invalid="ignore"):  # infinite slopes of samples of weight 0
            each = (shares or split_slopes)(terms, margin, slopes)
            self.change = [s - s0 for s, s0 in zip(each, self.base, strict=True)]
        weighted = (times(c, d) for d, (_, c) in zip(self.change, terms, strict=True))
        self.signed: Vec = y * functools.reduce(np.add, weighted)
        self.signed_base = np.zeros(y.size) if self.rests or beta is None else y * beta
        excess = 0.0 if self.rests else float(self.signed_base.sum())
        self.keep: Bound = 1.0
        self.outside = 0.0
        if free:
            self.keep, self.outside = balance(self.signed, excess)
        if class_sum is not None:
            total = y * (self.signed + self.signed_base)
            self.keep, self.rests = 1.0, False  # the base point has another sum
            self.outside = max(abs(float(total[y == side].sum()) / class_sum - 1.0) for side in (1.0, -1.0))

    def gain(self, fraction: float) -> float:
        return float(sum(np.sum(g) for g in self._gains(fraction * self.keep)))

    def _gains(self, keep: Bound) -> list[Vec]:
        """Return the terms of the bound by loss and sample, at parts `keep` of the segment."""
        gains = []
        with np.errstate(invalid="ignore", over="ignore"):
            for (loss, c), s0, d in zip(self.terms, self.base, self.change, strict=True):
                s = clipped(s0 + keep * d, loss)
                gains.append(times(c, (loss.offset - self.shift) * s - loss.conjugate(s)))
        if self.tilt is not None and np.any(self.shift):
            gains.append(-self.shift * self.tilt)
        return gains

    def images(self, adjoint: Callable[[Vec], Vec]) -> tuple[Vec, Vec | float]:
        return adjoint(self.combination), 0.0 if self.rests else adjoint(self.signed_base)

    @property
    def mass(self) -> float:
        return float(np.abs(self.combination).sum())

    def moved(self, rows: NDArray[np.float64], missed: Vec) -> SampleDual | None:
        """Return the point after the least change of beta, in units of the room of the slopes.

        The normal equations of the change leave an error, which another move corrects.
        """
        if self.class_sum is not None:
            return None
        slopes, room = np.zeros(self.y.size), np.zeros(self.y.size)
        for (loss, c), s0, d in zip(self.terms, self.base, self.change, strict=True):
            s, (low, high) = clipped(s0 + self.keep * d, loss), loss.ends
            slopes += times(c, s)
            room += times(c, np.minimum(np.minimum(s - low, high - s), np.maximum(np.abs(s), 1.0)))
        if self.free:
            beta = slopes if self.tilt is None else slopes + self.tilt
            rows, missed = np.column_stack([rows, np.ones(self.y.size)]), np.append(missed, self.y @ beta)
        rows = (room * self.y)[:, None] * rows
        unit = np.abs(rows).max(axis=0)
        unit[unit == 0.0] = 1.0
        rows = rows / unit
        change = rows @ np.linalg.lstsq(rows.T @ rows, missed / unit)[0]
        slopes = slopes - room * np.clip(change, -1.0, 1.0)
        return SampleDual(
            self.terms, self.y, self.margin, slopes, self.tilt, shares=self.shares, free=self.free,
            shift=self.shift,
        )  # fmt: skip

    @functools.cached_property
    def combination(self) -> Vec:
        """The coefficients `y_i (beta_i - base_i)` of the samples at the end of the segment."""
        return self.keep * self.signed

    def sums(self, X: Matrix) -> NDArray[np.float64]:
        """Return the sums of a block of rows that make a `SumDual`, by sign of the change; the base first.

        Each row holds the sum of `y (beta - base)`, of its absolute values, of the gains, and of the images.
        """
        sums, up = np.zeros((3, 3 + X.shape[1])), self.signed > 0.0
        d = np.array([self.signed * up, self.signed * ~up])
        at_base, at_end = (functools.reduce(np.add, self._gains(part)) for part in (0.0, 1.0))
        rise = at_end - at_base
        if not self.rests:
            base = self.signed_base
            sums[0, 0], sums[0, 1], sums[0, 3:] = base.sum(), np.abs(base).sum(), X.T @ base
        sums[0, 2], risen = np.sum(at_base), float(rise.sum())
        sums[1:, 0] = d.sum(axis=1)
        sums[1:, 1] = np.abs(sums[1:, 0])
        sums[1, 2] = rise @ up
        sums[2, 2] = risen - sums[1, 2]
        sums[1:, 3:] = (X.T @ d.T).T
        return sums


class SumDual(Dual):
    """Dual points of losses over blocks of rows, from the added `SampleDual.sums` of the blocks.

    As l* is convex, the terms of the bound along the segment are at least those of the chord.
    """

    def __init__(self, sums: NDArray[np.float64], free: bool = True) -> None:
        totals, self.sizes, self.gains, points = sums[:, 0], sums[:, 1], sums[:, 2], sums[:, 3:]
        self.rests = self.sizes[0] <= _REST * self.sizes[1:].sum()
        excess = 0.0 if self.rests else float(totals[0])
        f_up, f_down, self.outside = 1.0, 1.0, 0.0
        if free:
            f_up, f_down, self.outside = balanced(float(totals[1]), -float(totals[2]), excess)
        self.keep, self.points = np.array([f_up, f_down]), points

    def gain(self, fraction: float) -> float:
        return float(self.gains[0] + fraction * (self.keep @ self.gains[1:]))

    def images(self, adjoint: Callable[[Vec], Vec]) -> tuple[Vec, Vec | float]:
        base = 0.0 if self.rests else self.points[0]
        return self.keep @ self.points[1:], base

    @property
    def mass(self) -> float:
        return float(self.keep @ self.sizes[1:])


Shares = Callable[[Terms, Vec, Vec | None], list[Vec]]
"""A function as `split_slopes`."""


def split_slopes(terms: Terms, margin: Vec, slopes: Vec | None) -> list[Vec]:
    """Return s_k in the domains of the l_k* with `sum_k q_ki s_ki = slopes`, as far as these allow.

    They are the slopes of the losses at one margin of each sample, which is the best split of a sum; those at
    `margin` for None.
    """

    def at(t: Vec) -> list[Vec]:
        return [loss.gradient(loss.offset - t) for loss, _ in terms]

    def total(each: list[Vec]) -> Vec:
        return sum((times(c, s) for s, (_, c) in zip(each, terms, strict=True)), np.zeros(margin.size))

    if slopes is None:
        return at(margin)
    if len(terms) == 1:
        each = [_quotient(slopes, terms[0][1])]
    elif not (np.sum([c > 0.0 for _, c in terms], axis=0) > 1).any():  # no sample enters two losses
        each = [_quotient(slopes, c) for _, c in terms]
    else:
        low, high = _bracket(lambda t: total(at(t)) >= slopes, margin)
        first, last = at(low), at(high)
        top, fall = total(first), total(first) - total(last)
        part = np.clip(np.divide(top - slopes, fall, out=np.zeros(margin.size), where=fall > 0.0), 0.0, 1.0)
        each = [a + part * (b - a) for a, b in zip(first, last, strict=True)]
    return [clipped(s, loss) for s, (loss, _) in zip(each, terms, strict=True)]


def split_at_kinks(terms: Terms, margin: Vec, slopes: Vec | None) -> list[Vec]:
    """Return a split as `split_slopes` does, without its bisection, for stopping rules.

    It is exact at an optimum: the slopes at the margins, and the piecewise linear loss with the nearest kink
    takes the rest.
    """
    if len(terms) == 1 or slopes is None:
        return split_slopes(terms, margin, slopes)
    kinked = [k for k, (loss, _) in enumerate(terms) if loss.slope() is not None]
    if not kinked:
        return split_slopes(terms, margin, None)
    each = [loss.gradient(loss.offset - margin) for loss, _ in terms]
    left = slopes - sum(times(c, s) for s, (_, c) in zip(each, terms, strict=True))
    away = [np.where(c > 0.0, np.abs(margin - loss.offset), np.inf) for loss, c in (terms[k] for k in kinked)]
    nearest = np.argmin(away, axis=0)
    for place, k in enumerate(kinked):
        loss, c = terms[k]
        each[k] = clipped(each[k] + (nearest == place) * _quotient(left, c), loss)
    return each


def _bracket(above: Callable[[Vec], NDArray[np.bool_]], margin: Vec) -> tuple[Vec, Vec]:
    """Return an interval of margins around the last t at which `above` holds; it falls from True to False.

    The two margins differ at a kink, or where a loss is too steep for double precision.
    """
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


# --- the normal: in features, or with a kernel -----------------------------------------------------
@dataclass(frozen=True)
class FeatureNormal:
    """A normal w with coordinates in the features of the samples X, an array or CSR matrix.

    X has no rows where a dual point has its own images, as over blocks. `largest` returns the largest
    absolute entry of the samples, which the sizes of terms take in place of a product with X.
    """

    X: Matrix
    w: Vec
    largest: Callable[[], float] | None = None

    indefinite: ClassVar[bool] = False

    @functools.cached_property
    def scores(self) -> Vec:
        """The scores `<w, x_i>`, (m,)."""
        return np.asarray(self.X @ self.w).ravel()

    def adjoint(self, d: Vec) -> Vec:
        """Return `sum_i d_i x_i`, which may overflow."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(self.X.T @ d).ravel()

    def value(self, penalty: Penalty) -> float:
        """Return the value of the penalty at w."""
        return penalty.value(self.w)

    def tangent(self, penalties: Sequence[SubtractedPart]) -> tuple[Vec, float]:
        """Return a subgradient u of the sum h of subtracted penalties at w, and `h(w) - <u, w>`."""
        u = sum((h.subgradient(self.w) for h in penalties), start=np.zeros_like(self.w))
        return u, sum(h.value(self.w) for h in penalties) - float(u @ self.w)

    def conjugate_at_zero(self, R: CombinedPenalty) -> float:
        """Return `R*(0)`, minus the least value of R."""
        return R.conjugate(np.zeros_like(self.w))

    def sizes(self, dual: Dual) -> Bound:
        """Return the sizes of the terms of an image: by feature, or from `largest` where it is given."""
        if self.largest is not None:
            return self.largest() * dual.mass
        z, base = dual.images(lambda d: np.asarray(abs(self.X).T @ np.abs(d)).ravel())
        return z + base

    def moved(self, dual: Dual, R: CombinedPenalty, u: Vec) -> Dual:
        """Return the dual point moved until u plus its image lies in the cone of dom R*, or near to it."""
        for _ in range(0 if R.has_norm or not self.X.shape[0] else _MOVES):
            z, base = dual.images(self.adjoint)
            point = u + base + z
            face = R.normals(point) if np.isfinite(point).all() else None
            if face is None:
                break
            N, missed = face
            if (np.abs(missed) <= _EXACT * (np.abs(N).T @ (self.sizes(dual) + np.abs(u)))).all():
                break
            change = dual.moved(np.asarray(self.X @ N), missed)
            if change is None:
                break
            dual = change
        return dual

    def pulled(self, dual: Dual, R: CombinedPenalty, u: Vec, whole: bool) -> Dual | None:
        """Return the dual point moved into a bounded domain of R* that it leaves a little; None elsewhere.

        A shorter step would lose the same part of the bound, which rounding makes large where the domain is
        small beside the terms of the image.
        """
        if self.X.shape[0] == 0 or R.norms[1] > 0.0:
            return None
        z, base = dual.images(self.adjoint)
        size = functools.partial(self.sizes, dual)
        found = R.excess(u + base + z, size, whole) if np.isfinite(z).all() else None
        return None if found is None else dual.moved(as_dense(self.X @ found[0]), found[1])

    def conjugates(self, R: CombinedPenalty, dual: Dual, u: Vec, split: Split | None = None) -> Bounds:
        """Yield upper bounds of `R*` at parts of the segment of a dual point, by several methods.

        R* is the least sum of conjugates over all ways to split z, so that any split bounds it. Where z
        overflows, the bound is inf.
        """
        z, base = dual.images(self.adjoint)
        u = u + base
        if not np.isfinite(u + z).all():
            yield np.inf, 1.0, 0.0
            return

        def size() -> Bound:
            return self.sizes(dual) + np.abs(u)

        priced = np.inf if split is None else ROUNDING
        yield R.conjugate_bound(z, u, size, self.w, priced)
        for head, remaining_terms in R.prox_splittings():  # the others take their slopes at w
            slopes = [slope_near(h, self.w, z) for h in remaining_terms]
            value, fraction, missed = head.conjugate_bound(z - sum(slopes), u, size, self.w, priced)
            value += sum(h.conjugate(fraction * g) for h, g in zip(remaining_terms, slopes, strict=True))
            yield value, fraction, missed
        if split is None or R.proximal():
            return
        near = [slope_near(h, self.w, z + u) for h in R.terms]
        for each in (near, None):  # a program only where the slopes at w are no good split
            each = split(R.terms, z + u, self.w) if each is None else each
            if each is None:
                return
            left, step = z + u - sum(each), 1.0
            if not u.any():  # the terms take what they can, and the step makes room for it
                room = [h.gauge(h.project_onto_domain_cone(left)) for h in R.terms]
                order = np.argsort(room, kind="stable").tolist()  # cones without a limit first
                rest = np.inf
                for sweep in range(_TAKEN):
                    for k in order:
                        taken = R.terms[k].project_onto_domain_cone(each[k] + left) - each[k]
                        left, each[k] = left - taken, each[k] + taken
                    if sweep % _CHECKED == 0:
                        before, rest = rest, float(np.abs(left).max())
                        if rest <= _EXACT * np.abs(z).max() or rest > 0.5 * before:
                            break
                cones = [h.domain_cone() for h in R.terms]
                if z.size <= _DENSE and all(cones):  # sweeps are slow where cones meet at small angles
                    parts = decomposed([cone for cone in cones if cone], left)
                    left, each = left - sum(parts), [x + part for x, part in zip(each, parts, strict=True)]
            gauges = [h.gauge(g) for h, g in zip(R.terms, each, strict=True)]
            if u.any():  # only the parts become shorter, and the rest deviates
                each = [g / max(gauge, 1.0) for g, gauge in zip(each, gauges, strict=True)]
                left = z + u - sum(each)
            else:
                step = 1.0 / max(1.0, *gauges)
            value = sum(h.conjugate(step * g) for h, g in zip(R.terms, each, strict=True))
            missed = deviation(z + u, z + u - left, size())
            cost = abs(float(left @ self.w)) if missed <= priced else np.inf
            yield value + cost, step, round_violation(missed)


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

    def conjugate_at_zero(self, R: CombinedPenalty) -> float:
        return 0.0

    def moved(self, dual: Dual, R: CombinedPenalty, u: Vec) -> Dual:
        return dual

    def pulled(self, dual: Dual, R: CombinedPenalty, u: Vec, whole: bool) -> None:
        return None

    def conjugates(self, R: CombinedPenalty, dual: Dual, u: Vec, split: Split | None = None) -> Bounds:
        """Return the upper bound `||z||^2 / (4 lam)` of the conjugate of `lam ||w||_2^2`.

        z has the coefficients d in the samples. With `e = d - 2 lam c` and the scores f of w, the square is
        `4 lam^2 ||w||^2 + 4 lam <e, f> + e'Ke`, and `e'Ke <= (sum |e_i| sqrt K_ii)^2`. If this bound of e'Ke
        is small, no rows of K are computed.
        """
        lam = _multiple(R)
        d, base = dual.images(lambda d: d)  # the coefficients themselves
        e = d + base - 2.0 * lam * self.c
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


@dataclass(frozen=True)
class BallNormal(FeatureNormal):
    """A normal in the ball `||w||_2 <= lam`, with the conjugate `lam ||z||_2` of its indicator."""

    lam: float = 1.0

    def conjugates(self, R: CombinedPenalty, dual: Dual, u: Vec, split: Split | None = None) -> Bounds:
        z, base = dual.images(self.adjoint)
        return [(self.lam * float(np.linalg.norm(z + base + u)), 1.0, 0.0)]


Normal = FeatureNormal | KernelNormal
"""A normal w, with the penalty values and the conjugate bounds that a certificate needs."""
