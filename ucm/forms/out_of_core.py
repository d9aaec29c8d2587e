"""Standard forms over samples that are read block by block: hulls of weighted samples, and losses.

A solver returns the sums of its last pass over all rows, `HullProof` or `LossProof`, in `Answer.rows`. Both
bounds of the optimum follow from these sums, so that no vector with an entry for each row is needed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.data.bound_data import Data
from ucm.data.first_pass import RowData
from ucm.data.linear_map import Matrix, Vec
from ucm.forms.monitor import SEPARATED, ZERO
from ucm.forms.objective import Composite, DifferenceOfConvex, balance
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


@dataclass(frozen=True)
class LossProof:
    """Sums of the last pass over the rows, which give both bounds of `RowLosses`.

    Attributes
    ----------
    w, b : normal and bias
    loss : the sum of all losses, minus that of the subtracted losses
    slopes, points : by class the sums of the slopes `a_i - g_i` of `RowLosses.lower_bound`, and of
        `(a_i - g_i) x_i`; None if no slopes are known yet
    gains : by class the sums of `o_k a_ki - C_k l_k*(a_ki / C_k)`, minus those of `o g_i`
    rows : the slopes of all rows
    constant : the sum of `(o - e) g_i`, e the kink of the subtracted loss
    kink_distance : the least distance of a margin from e
    """

    w: Vec
    b: float
    loss: float
    slopes: Vec | None = None
    gains: Vec | None = None
    points: NDArray[np.float64] | None = None
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
    """Base class of the forms over the samples of a row source.

    Attributes
    ----------
    data : the source, and its statistics from the first pass
    """

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
        slacks = self.radii.copy()
        sizes = np.maximum(np.abs(slacks), 1.0)
        for c, k in enumerate(self.of):
            total = self.scales[c] * self.data.counts[c]
            uniform = np.array([self.weight_sums[c] / total])
            slacks[k] -= total * float(self.balls[k][0].conjugate(uniform)[0])
        return np.where(slacks > 1e-13 * sizes, slacks, 0.0)

    def norm_and_size(self, points: NDArray[np.float64]) -> tuple[float, float]:
        """Return the norm of x, and the sum of the norms of its two terms `f_c points_c`."""
        f = np.array(self.factors)
        return float(np.linalg.norm(f @ points)), float(np.abs(f) @ np.linalg.norm(points, axis=1))

    def support(self, proof: HullProof) -> float:
        """Return the upper bound of `max over the set of -w'x` of `ucm.evidence.rows`, from the sums.

        For caps and t = 1 minus the bound is, with theta = -mu,

            sum_c { total_c theta_c - cap_c sum_i c_i max(0, theta_c - f_c w'x_i) }.

        The best theta_c is an order statistic; with any other theta_c the bound is valid but weaker.
        """
        t = proof.t
        bound = np.dot(self.weight_sums, proof.mu) + t @ self.radii + t[list(self.of)] @ proof.losses
        return float(bound)

    def bounds(self, proof: HullProof) -> tuple[float, float]:
        """Return an upper bound of the optimum, and the norm ||x||_2, which is minus a lower bound.

        The first is inf for w = 0, the second inf without a point x.
        """
        norm = float(np.linalg.norm(proof.w))
        primal = self.support(proof) / norm if norm > 0.0 else np.inf
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
        full_sums, far, far_heights = class_counts * self.scales, np.zeros(2), np.zeros(2)
        for c, k in enumerate(self.of):
            loss = self.balls[k][0]
            if totals[c] < weight_sums[c]:
                far[c] = min(2.0 * weight_sums[c], full_sums[c] * loss.steepest())
            far_heights[c] = full_sums[c] * float(loss.conjugate(np.array([far[c] / full_sums[c]]))[0])
        span = np.where(far == totals, 1.0, far - totals)
        fraction = np.where(totals == weight_sums, 0.0, (weight_sums - totals) / span)
        excess = -self.radii
        np.add.at(excess, list(self.of), (1.0 - fraction) * heights + fraction * far_heights)
        uniform = np.clip(excess / np.maximum(excess + self.slacks, 1e-300), 0.0, 1.0)[list(self.of)]
        shift = (1.0 - uniform) * fraction * far + uniform * weight_sums
        return (1.0 - uniform) * (1.0 - fraction), shift / class_counts


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
        """Return kinks and steepest slopes by class of the added and of the subtracted losses.

        Without subtracted losses the second kink is -inf, and its slopes are 0.
        """
        found = []
        for parts in (self.split.G.parts, self.split.parts):
            kink, slopes = -np.inf, np.zeros(2)
            for loss, C in parts:
                kink, slopes = loss.offset, slopes + (1.0 if C is None else C) * (loss.slope() or 0.0)
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

        The second number is the distance of the dual point from the domain of R*. Solvers stop by it; the
        certificate makes a pass of its own, `ucm.evidence.rows`.

        The slopes of each class are scaled by `0 <= f_c <= 1` to the sum `y'(a - g) = 0`, with g_i those of
        the subtracted loss `d max(0, e - t_i)`, which the other loss can have too. As l* is convex, the bound
        of `ucm.evidence.bound` is at least, Z_c the sums of `C_kc l_k*(0)` and u a subgradient of h at w,

            sum_i (o - e) g_i + sum_c f_c (gains_c + Z_c) - Z_c  -  R*(sum_c y_c f_c points_c + u)
            -  tangent of h at 0.
        """
        w, slopes, points, gains = proof.w, np.zeros(2), np.zeros((2, self.n)), np.zeros(2)
        at_zero = self.at_zero(lambda loss, zero: loss.conjugate(zero))
        if proof.slopes is not None and proof.points is not None and proof.gains is not None:
            slopes, points, gains = proof.slopes, proof.points, proof.gains + at_zero
        f = balance(np.multiply(slopes, (1.0, -1.0)))
        if self.lam is not None:  # the best multiple is known
            d = f[0] * points[0] - f[1] * points[1]
            gain, cost = float(f @ gains), float(d @ d) / (2.0 * self.lam)
            f = f * (np.clip(gain / cost, 0.0, 1.0) if cost > 0.0 else float(gain > 0.0))
        subtracted = self.split.penalties
        u = sum((h.subgradient(w) for h in subtracted), start=np.zeros(self.n))
        z = f[0] * points[0] - f[1] * points[1]

        def size() -> float:
            return self.data.scale * float(np.abs(slopes).sum())

        height, fraction, missed = self.penalty.conjugate_bound(z, u, size, w)
        least = proof.constant - float(at_zero.sum())
        bound = least + fraction * float(f @ gains) - height
        # f = 0 is a dual point too, because penalties are not negative
        if not subtracted and (missed > ZERO or not bound > least):
            bound, missed = least, 0.0
        return bound - (sum(h.value(w) for h in subtracted) - float(u @ w)), missed
