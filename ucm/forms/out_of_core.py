"""Standard forms over samples that are read block by block: hulls of weighted samples, and losses."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ucm.data.first_pass import RowData
from ucm.data.linear_map import Vec
from ucm.forms.answer import Expected
from ucm.forms.objective import hinged
from ucm.language.losses import Hinge
from ucm.language.penalties.penalty_sum import CombinedPenalty
from ucm.language.terms import ConvexLoss, ProximalPenalty, SubtractedPenalty

__all__ = ["OutOfCoreForm", "RowHulls", "RowLosses"]


@dataclass(frozen=True)
class OutOfCoreForm:
    """A form over the samples of a row source.

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
        """The names and shapes of the vectors of an answer."""
        return Expected(w=self.n)


@dataclass(frozen=True)
class RowHulls(OutOfCoreForm):
    """`min ||x||_2` over `x = sum_c f_c sum_i q_i x_i`, i over the samples of class c, with `q >= 0`,
    `sum q_i = mass_c`, and for each ball k

        sum over the classes of k of share_c sum_i c_i l_k*(q_i / (share_c c_i))  <=  radius_k,

    c_i the weight of a sample. The caps `q_i <= share_c c_i` of reduced hulls are the ball of radius 0 of the
    hinge loss, whose conjugate is 0 on [0, 1] and infinite elsewhere.

    Attributes
    ----------
    factors, masses, shares : of class +1 and class -1
    balls : l_k and radius_k
    of : the ball of class +1 and of class -1
    """

    factors: tuple[float, float]
    masses: tuple[float, float]
    shares: tuple[float, float]
    balls: tuple[tuple[ConvexLoss, float], ...]
    of: tuple[int, int]

    @property
    def capped(self) -> bool:
        """True if the weights are below caps, which are `shares`."""
        return all(loss == Hinge() for loss, _ in self.balls)

    @functools.cached_property
    def radii(self) -> Vec:
        return np.array([radius for _, radius in self.balls])

    @functools.cached_property
    def rooms(self) -> Vec:
        """By ball its radius less the height of the uniform weights; 0 for rounding, if it is one point."""
        found = self.radii.copy()
        sizes = np.maximum(np.abs(found), 1.0)
        for c, k in enumerate(self.of):
            whole = self.shares[c] * self.data.counts[c]
            uniform = np.array([self.masses[c] / whole])
            found[k] -= whole * float(self.balls[k][0].conjugate(uniform)[0])
        return np.where(found > 1e-13 * sizes, found, 0.0)

    def norm_and_size(self, points: NDArray[np.float64]) -> tuple[float, float]:
        """Return the norm of x, and the sum of the norms of its two terms `f_c points_c`."""
        f = np.array(self.factors)
        return float(np.linalg.norm(f @ points)), float(np.abs(f) @ np.linalg.norm(points, axis=1))

    def support(self, mu: Vec, t: Vec, losses: Vec) -> float:
        """Return, for any mu_c and t_k > 0, a bound of `max over the set of -w'x`:

            sum_c mass_c mu_c + sum_k t_k (radius_k + sum_c share_c sum_i c_i l_k(v_i)),

        `v_i = (-f_c w'x_i - mu_c) / t_k` (Ito, Takeda and Toh 2015, section 5.2).

        Parameters
        ----------
        losses : by class the sums of `share_c c_i l_k(v_i)`
        """
        return float(np.dot(self.masses, mu) + t @ self.radii + t[list(self.of)] @ losses)

    def within(self, totals: Vec, heights: Vec) -> tuple[Vec, Vec]:
        """Return by class a factor and a summand that turn weights into weights of the set.

        The convex combination with equal weights, 0 or larger than the uniform weights, has the mass of the
        class. A convex combination with the uniform weights lies in the ball, as heights are convex.

        Parameters
        ----------
        totals, heights : by class the sums of q_i, and of `share_c c_i l_k*(q_i / (share_c c_i))`
        """
        masses, totals_of = np.array(self.masses), np.array(self.data.counts)
        wholes, end, top = totals_of * self.shares, np.zeros(2), np.zeros(2)
        for c, k in enumerate(self.of):
            loss = self.balls[k][0]
            if totals[c] < masses[c]:
                end[c] = min(2.0 * masses[c], wholes[c] * loss.steepest())
            top[c] = wholes[c] * float(loss.conjugate(np.array([end[c] / wholes[c]]))[0])
        part = np.where(
            totals == masses, 0.0, (masses - totals) / np.where(end == totals, 1.0, end - totals)
        )
        above = -self.radii
        np.add.at(above, list(self.of), (1.0 - part) * heights + part * top)
        to = np.clip(above / np.maximum(above + self.rooms, 1e-300), 0.0, 1.0)[list(self.of)]
        return (1.0 - to) * (1.0 - part), ((1.0 - to) * part * end + to * masses) / totals_of


WeightedRows = tuple[tuple[ConvexLoss, tuple[float, float]], ...]


@dataclass(frozen=True)
class RowLosses(OutOfCoreForm):
    """`min R(w) - h(w) + sum_k sum_c C_kc sum_i c_i l_k(o_k - y_i (w'x_i + b))`, i over the samples of class
    c, less such a sum of other losses; c_i is the weight of a sample.

    Attributes
    ----------
    losses : l_k, and its weights C_k of class +1 and class -1
    penalties : the terms of R
    minus : the subtracted losses
    taken : the terms of h
    start : the penalties of the convex problem to start from
    unit : mu of ramp losses with one mu < 1; else 1
    """

    losses: WeightedRows
    penalties: tuple[ProximalPenalty, ...]
    minus: WeightedRows = ()
    taken: tuple[SubtractedPenalty, ...] = ()
    start: tuple[ProximalPenalty, ...] = ()
    unit: float = 1.0

    @property
    def convex(self) -> bool:
        return not self.minus and not self.taken

    @functools.cached_property
    def penalty(self) -> CombinedPenalty:
        """R."""
        return CombinedPenalty(self.penalties)

    @property
    def lam(self) -> float | None:
        """The factor of the penalty `lam ||w||_2^2`; None for other penalties."""
        return self.penalty.square if self.convex else None

    @functools.cached_property
    def at_rest(self) -> float:
        """The objective at w = 0 and b = 0."""
        return sum(
            float(np.dot(C, self.data.counts)) * float(loss.each(np.zeros(1))[0])
            for loss, C in self.losses
        )

    @property
    def kinked(self) -> bool:
        """True for one piecewise linear loss, less at most one such loss."""
        every = (*self.losses, *self.minus)
        single = len(self.losses) == 1 and len(self.minus) <= 1
        return single and all(loss.slope() is not None for loss, _ in every)

    def sides(self) -> tuple[ConvexLoss, Vec, ConvexLoss | None, Vec]:
        """Return the loss and its steepest slopes by class, then the subtracted loss and its slopes."""
        (loss, C), *_ = self.losses
        tail, D = self.minus[0] if self.minus else (None, (0.0, 0.0))
        steep = 0.0 if tail is None else tail.slope() or 0.0
        return loss, np.array(C) * (loss.slope() or 0.0), tail, np.array(D) * steep

    @property
    def hinged(self) -> tuple[ProximalPenalty, ...] | None:
        """As `ucm.forms.objective.DifferenceOfConvex.hinged`."""
        return hinged(self.start, self.unit)

    @property
    def first(self) -> RowLosses:
        """The convex problem to start from."""
        if self.convex:
            return self
        return RowLosses(self.data, self.losses, self.hinged or self.start)
