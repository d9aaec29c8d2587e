"""Standard forms over samples that are read block by block: hulls of weighted samples, and losses.

A solver returns the sums of its last pass over all rows, `HullProof` or `LossProof`, in `Answer.rows`. Both
bounds of the optimum follow from these sums, so that no vector with an entry for each row is needed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucm.data.bound_data import Data
from ucm.data.first_pass import RowData
from ucm.data.linear_map import Matrix, Vec
from ucm.forms.bound import FeatureNormal, SumDual, lower_bound
from ucm.forms.monitor import SEPARATED, ZERO
from ucm.forms.objective import Composite, DifferenceOfConvex
from ucm.forms.solver import Expected
from ucm.language.losses import Hinge
from ucm.language.objective import Objective, split_scalar
from ucm.language.penalties.combined import CombinedPenalty
from ucm.language.terms import ConvexLoss

_SUM = 1e-14  # of the terms of a sum: its rounding
_AT_KINK = 1e-9  # of a margin, or a weight


@dataclass(frozen=True)
class HullProof:
    """Sums of the last pass over the rows, which give both bounds of `RowHulls`; by class if not stated.

    Attributes
    ----------
    w, mu, t : (n,), (2,) and one for each ball
    losses : the sums of `scale c_i l(v_i)`
    points : (2, n) the sums of q_i x_i; None if no weights are known yet
    violation : the relative distance of the weights from the set
    rows : the weights of all rows
    heights : the sums of `scale c_i l*(q_i / (scale c_i))`, of weights in balls
    """

    w: Vec
    mu: Vec
    t: Vec
    losses: Vec
    points: NDArray[np.float64] | None
    violation: float = 0.0
    rows: Any = None
    heights: Vec | None = None


class LossSums(NamedTuple):
    """Sums over the rows by class, of the slopes a_i of the added losses minus g_i of the subtracted loss.

    Attributes
    ----------
    slopes, points : (2,) and (2, n) the sums of `a_i - g_i` and of `(a_i - g_i) x_i`
    gains : (2,) the sums of `o_k a_ki - C_k l_k*(a_ki / C_k)`, minus those of `o g_i`
    """

    slopes: Vec
    gains: Vec
    points: NDArray[np.float64]


@dataclass(frozen=True)
class LossProof:
    """Sums of the last pass over the rows, which give both bounds of `RowLosses`.

    Attributes
    ----------
    w, b : normal and bias
    loss : the sum of all losses, minus that of the subtracted losses
    sums : of a dual point; None if no slopes are known yet
    rows : the slopes of all rows
    constant : the sum of `(o - e) g_i`, e the kink of the subtracted loss
    kink_distance : the least distance of a margin from e
    """

    w: Vec
    b: float
    loss: float
    sums: LossSums | None = None
    rows: Any = None
    constant: float = 0.0
    kink_distance: float = 0.0


def _relative(gap: float, unit: float, rounding: float, violation: float) -> float:
    """Return the gap divided by `unit`, 0 for negative rounding; inf if the violation exceeds rounding."""
    if not violation <= ZERO:
        return np.inf
    return (max(gap, 0.0) if gap >= -rounding else gap) / unit


@dataclass(frozen=True)
class OutOfCoreForm:
    """Base class of the forms over the samples of a row source, with its statistics as `data`."""

    data: RowData

    @property
    def n(self) -> int:
        return self.data.n

    @property
    def expected(self) -> Expected:
        return Expected(w=self.n)


@dataclass(frozen=True)
class RowHulls(OutOfCoreForm):
    """The minimum-norm problem of two hulls of out-of-core samples.

    `min ||x||_2` over `x = sum_c f_c sum_i q_i x_i`, i over the samples of class c, with `q >= 0`,
    `sum q_i = total_c`, and for each ball k

        sum over the classes of k of scale_c sum_i c_i l_k*(q_i / (scale_c c_i))  <=  radius_k,

    c_i the weight of a sample. The caps `q_i <= scale_c c_i` of reduced hulls are the ball of radius 0 of the
    hinge loss, whose conjugate is 0 on [0, 1] and infinite elsewhere.

    Attributes
    ----------
    factors, weight_sums, scales : of class +1 and class -1
    balls : l_k and radius_k
    of : the ball of class +1 and of class -1
    """

    factors: tuple[float, float]
    weight_sums: tuple[float, float]
    scales: tuple[float, float]
    balls: tuple[tuple[ConvexLoss, float], ...]
    of: tuple[int, int]

    @property
    def capped(self) -> bool:
        """True if every ball is a cap on the weights, `q_i <= scale_c c_i`."""
        return all(loss == Hinge() for loss, _ in self.balls)

    def not_smooth(self) -> str | None:
        """Return the reason why a ball is not of a smooth loss; None if all are."""
        return None if all(loss.smooth() for loss, _ in self.balls) else "it takes balls of smooth losses"

    @functools.cached_property
    def radii(self) -> Vec:
        return np.array([radius for _, radius in self.balls])

    @functools.cached_property
    def slacks(self) -> Vec:
        """The slack of every ball at the uniform weights; 0 if the slack is within rounding."""
        excess, sizes = self.excess(self._heights_of_equal(np.array(self.weight_sums)))
        return np.where(-excess > 1e-13 * sizes, -excess, 0.0)

    def excess(self, heights: Vec) -> tuple[Vec, Vec]:
        """Return for every ball the heights of its classes minus its radius, and the size of these terms."""
        each = np.equal.outer(np.arange(self.radii.size), self.of)
        return each @ heights - self.radii, each @ np.abs(heights) + np.abs(self.radii)

    def _heights_of_equal(self, totals: Vec) -> Vec:
        """Return by class the heights of weights in proportion to c_i, from their sums."""
        full = np.array(self.data.counts) * self.scales
        each = zip(self.of, totals / full, strict=True)
        return full * [float(self.balls[k][0].conjugate(np.array([s]))[0]) for k, s in each]

    def norm_and_size(self, points: NDArray[np.float64]) -> tuple[float, float]:
        """Return the norm of x, and the sum of the norms of its two terms `f_c points_c`."""
        f = np.array(self.factors)
        return float(np.linalg.norm(f @ points)), float(np.abs(f) @ np.linalg.norm(points, axis=1))

    def bounds(self, proof: HullProof) -> tuple[float, float]:
        """Return an upper bound of the optimum (inf for w = 0), and the norm ||x||_2 (inf without x)."""
        norm = float(np.linalg.norm(proof.w))
        height = support_of_hulls(self, proof.mu, proof.t, proof.losses)
        primal = height / norm if norm > 0.0 else np.inf
        return primal, np.inf if proof.points is None else self.norm_and_size(proof.points)[0]

    def gap(self, proof: HullProof) -> float:
        """Return the relative gap of both bounds; 0 if x counts as 0, inf if a bound is missing."""
        primal, norm = self.bounds(proof)
        if proof.points is None or primal == np.inf:
            return np.inf
        scale, size = self.data.scale, self.norm_and_size(proof.points)[1]
        if norm <= ZERO * size and not -primal > SEPARATED * size:
            return 0.0
        return _relative(primal + norm, max(norm, 1e-12 * scale), _SUM * scale, proof.violation)

    def within(self, totals: Vec, heights: Vec) -> tuple[Vec, Vec]:
        """Return by class a factor and a summand that turn weights into weights of the set.

        The convex combination with equal weights, 0 or larger than the uniform weights, has the weight sum of
        the class. A convex combination with the uniform weights lies in the ball, as heights are convex.
        `totals` are by class the sums of q_i, `heights` those of `scale_c c_i l_k*(q_i / (scale_c c_i))`.
        """
        weight_sums, class_counts = np.array(self.weight_sums), np.array(self.data.counts)
        most = class_counts * self.scales * [self.balls[k][0].steepest() for k in self.of]
        far = np.where(totals < weight_sums, np.minimum(2.0 * weight_sums, most), 0.0)
        span = np.where(far == totals, 1.0, far - totals)
        fraction = np.where(totals == weight_sums, 0.0, (weight_sums - totals) / span)
        excess, sizes = self.excess((1.0 - fraction) * heights + fraction * self._heights_of_equal(far))
        excess[(self.slacks == 0.0) & (excess <= _SUM * sizes)] = 0.0
        uniform = np.clip(excess / np.maximum(excess + self.slacks, 1e-300), 0.0, 1.0)[list(self.of)]
        shift = (1.0 - uniform) * fraction * far + uniform * weight_sums
        return (1.0 - uniform) * (1.0 - fraction), shift / class_counts


def support_of_hulls(form: RowHulls, mu: Vec, t: Vec, losses: Vec) -> float:
    """Return an upper bound of `max over the set of -w'x`, from the sums over the rows by class.

    For any mu_c and t_k > 0 it is (Ito, Takeda and Toh 2015, section 5.2)

        sum_c total_c mu_c + sum_k t_k (radius_k + sum_c scale_c sum_i c_i l_k(v_i)),

    `v_i = (-f_c w'x_i - mu_c) / t_k`. For caps -mu_c is a threshold of `f_c w'x`, at best an order statistic.
    """
    return float(np.dot(form.weight_sums, mu) + t @ form.radii + t[list(form.of)] @ losses)


@dataclass(frozen=True)
class RowLosses(OutOfCoreForm):
    """The problem `loss + penalty` over out-of-core samples, also minus other losses and penalties.

    `min R(w) - h(w) + sum_k sum_c C_kc sum_i c_i l_k(o_k - y_i (w'x_i + b))`, i over the samples of class c,
    minus such a sum of other losses; c_i is the weight of a sample.

    Attributes
    ----------
    split : the problem over one sample of each class, whose weights are C_k
    """

    split: DifferenceOfConvex

    @classmethod
    def of(cls, model: Objective, data: RowData) -> RowLosses:
        """Return the form of a declared objective."""
        ends = Data(np.zeros((2, data.n)), np.array([1.0, -1.0]), data.weighing)
        return cls(data, DifferenceOfConvex.of(model, ends))

    @property
    def convex(self) -> bool:
        return self.split.convex

    @property
    def penalty(self) -> CombinedPenalty:
        """The sum R of the added penalties."""
        return self.split.G.penalty

    @property
    def lam(self) -> float | None:
        """The factor lam if the problem is convex with the penalty `lam ||w||_2^2`; else None."""
        return self.penalty.square if self.convex else None

    @functools.cached_property
    def losses(self) -> list[tuple[ConvexLoss, Vec]]:
        """The added losses l_k, and their weights C_k of class +1 and class -1."""
        return [(loss, np.ones(2) if C is None else C) for loss, C in self.split.G.parts]

    @functools.cached_property
    def subtracted(self) -> list[tuple[ConvexLoss, Vec]]:
        """The subtracted losses and their weights, as `losses`."""
        return [(loss, np.ones(2) if C is None else C) for loss, C in self.split.parts]

    def at_zero(self, each: Callable[[ConvexLoss, Vec], Vec]) -> Vec:
        """Return by class the sums of `C_kc c_i f(0)` over the added losses and all rows, f of a loss."""
        counts, zero = np.array(self.data.counts), np.zeros(1)
        return sum((C * counts * float(each(loss, zero)[0]) for loss, C in self.losses), start=np.zeros(2))

    @functools.cached_property
    def value_at_zero(self) -> float:
        """The sum of the added losses at w = 0 and b = 0."""
        return float(self.at_zero(lambda loss, zero: loss.each(zero)).sum())

    def not_smooth(self) -> str | None:
        """Return the reason why the problem has a kink or no lam L2(); None for powers of the hinge loss."""
        if self.lam is None:
            return "it takes lam L2() as penalty, and no term that is subtracted"
        bases = (split_scalar(loss)[1] for loss, _ in self.losses)
        if not all(loss.smooth() or (isinstance(loss, Hinge) and loss.p > 1.0) for loss in bases):
            return "it takes smooth losses, and powers of the hinge loss above 1"
        return None

    @property
    def kinked(self) -> bool:
        """True if the losses are one hinge `c max(0, u)`, or minus another one that begins further below."""
        added, tails = self.split.G.losses, self.split.losses
        straight = all(loss.slope() is not None for loss in (*added, *tails))
        starts, ends = ({loss.offset for loss in losses} for losses in (added, tails))
        single = max(len(starts), len(ends)) <= 1
        return straight and single and max(ends, default=-np.inf) <= max(starts, default=-np.inf)

    def kinks(self) -> list[tuple[float, Vec]]:
        """Return by class kinks and steepest slopes of added and subtracted losses (-inf and 0 for none)."""
        found = []
        for parts in (self.losses, self.subtracted):
            kink, slopes = -np.inf, np.zeros(2)
            for loss, C in parts:
                kink, slopes = loss.offset, slopes + C * (loss.slope() or 0.0)
            found.append((kink, slopes))
        return found

    def over(self, X: Matrix, y: Vec) -> Composite | DifferenceOfConvex:
        """Return the problem over rows in memory; y holds labels times weights."""
        side = np.where(y > 0.0, 0, 1)

        def of_rows(weights: Iterable[Vec | None]) -> tuple[Vec, ...]:
            return tuple(np.abs(y) * (1.0 if C is None else C[side]) for C in weights)

        G = replace(self.split.G, X=X, y=np.sign(y), weights=of_rows(self.split.G.weights))
        return G if self.convex else replace(self.split, G=G, weights=of_rows(self.split.weights))

    def value(self, proof: LossProof) -> float:
        """Return the objective at the w and b of a `LossProof`."""
        return self.penalty.value(proof.w) + proof.loss - sum(h.value(proof.w) for h in self.split.penalties)

    def gap(self, proof: LossProof) -> float:
        """Return the relative gap of w and b in the convex problem with the subtracted terms linearised."""
        value, (bound, missed) = self.value(proof), self.lower_bound(proof)
        return _relative(value - bound, max(abs(value), 1e-300), _SUM * self.value_at_zero, missed)

    def is_local(self, proof: LossProof) -> bool:
        """True if the subtracted function is affine near the w and b of a proof."""
        at_kink = proof.kink_distance <= _AT_KINK
        return not at_kink and all(h.affine(proof.w, _AT_KINK) for h in self.split.penalties)

    def lower_bound(self, proof: LossProof) -> tuple[float, float]:
        """Return a lower bound of the convex problem with the subtracted terms linearised at w and b.

        The second number is the violation of the dual point. Solvers stop by it; the certificate makes a pass
        of its own, `ucm.evidence.rows`.

        A class takes the place of a sign in `SumDual`. Its base point are the slopes g_i of the subtracted
        loss `d max(0, e - t_i)`, which the other loss can have too: there the losses contribute
        `sum_i (o - e) g_i - sum_c Z_c`, Z_c the sums of `C_kc l_k*(0)`. Where a loss does not have the slope
        0, the slopes are the base point.
        """
        least, sums = self.at_zero(lambda loss, zero: loss.conjugate(zero)), np.zeros((3, 3 + self.n))
        sums[0, 2] = proof.constant - least.sum()
        if proof.sums is not None:
            (slopes, gains, points), sign = proof.sums, np.array([1.0, -1.0])
            each = np.column_stack([sign * slopes, np.abs(slopes), gains, sign[:, None] * points])
            if not np.isfinite(least).all():
                sums[0] = each.sum(axis=0)
            elif not self.split.G.intercept or (slopes > 0.0).all():
                sums[1:] = each
                sums[1:, 2] += least
        normal = FeatureNormal(np.empty((0, self.n)), proof.w, lambda: self.data.scale)
        u, tangent = normal.tangent(self.split.penalties)
        bound, missed = lower_bound(SumDual(sums, self.split.G.intercept), normal, self.penalty, u)
        return bound - tangent, missed
