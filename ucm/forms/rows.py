"""Hulls of weighted samples, and losses, over samples that are read block by block."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from ucm.data.linear import Vec
from ucm.data.survey import RowData
from ucm.forms.answer import Expected
from ucm.forms.objective import hinged
from ucm.language.penalties.gathered import Gathered
from ucm.language.terms import ConvexLoss, ProximalPenalty, SubtractedPenalty

__all__ = ["RowBalls", "RowHulls", "RowLosses"]


@dataclass(frozen=True)
class _OfRows:
    data: RowData

    @property
    def n(self) -> int:
        return self.data.n

    @property
    def expected(self) -> Expected:
        """What an answer is made of."""
        return Expected(w=self.n)


@dataclass(frozen=True)
class RowHulls(_OfRows):
    """`min ||x||_2` over `x = sum_c f_c sum_i q_i x_i`, i over the samples of class c, with
    `0 <= q_i <= cap_c c_i` and `sum q_i = mass_c`, c_i what a sample weighs.

    Attributes
    ----------
    data : where the samples are, and what one pass over them told
    factors, caps, masses : of class +1 and class -1
    """

    factors: tuple[float, float]
    caps: tuple[float, float]
    masses: tuple[float, float]


@dataclass(frozen=True)
class RowBalls(_OfRows):
    """`min ||x||_2` over `x = sum_c f_c sum_i q_i x_i`, i over the samples of class c, with `q >= 0`,
    `sum q_i = mass_c`, and for each ball k

        sum over the classes of k of share_c sum_i c_i l_k*(q_i / (share_c c_i))  <=  radius_k.

    Attributes
    ----------
    data : where the samples are, and what one pass over them told
    factors, masses, shares : of class +1 and class -1
    balls : l_k and radius_k
    of : the ball of class +1 and of class -1
    """

    factors: tuple[float, float]
    masses: tuple[float, float]
    shares: tuple[float, float]
    balls: tuple[tuple[ConvexLoss, float], ...]
    of: tuple[int, int]


Weighed = tuple[tuple[ConvexLoss, tuple[float, float]], ...]


@dataclass(frozen=True)
class RowLosses(_OfRows):
    """`min R(w) - h(w) + sum_k sum_c C_kc sum_i c_i l_k(o_k - y_i (w'x_i + b))`, i over the samples of class
    c, which weigh c_i; less such a sum of other losses.

    Attributes
    ----------
    data : where the samples are, and what one pass over them told
    losses : l_k, and its weights C_k of class +1 and class -1
    penalties : whose sum is R
    minus : the losses that are subtracted
    taken : the penalties whose sum is h
    start : the penalties of the convex problem to start from
    unit : mu, where the losses are ramps of one mu < 1; else 1
    """

    losses: Weighed
    penalties: tuple[ProximalPenalty, ...]
    minus: Weighed = ()
    taken: tuple[SubtractedPenalty, ...] = ()
    start: tuple[ProximalPenalty, ...] = ()
    unit: float = 1.0

    @property
    def convex(self) -> bool:
        return not self.minus and not self.taken

    @functools.cached_property
    def penalty(self) -> Gathered:
        """R."""
        return Gathered(self.penalties)

    @property
    def lam(self) -> float | None:
        """Of `lam ||w||_2^2`, where that is all of the penalty."""
        return self.penalty.square if self.convex else None

    @property
    def kinked(self) -> bool:
        """Whether one loss with straight sides is left, and one such loss at most is subtracted."""
        every = (*self.losses, *self.minus)
        single = len(self.losses) == 1 and len(self.minus) <= 1
        return single and all(loss.slope() is not None for loss, _ in every)

    def sides(self) -> tuple[ConvexLoss, Vec, ConvexLoss | None, Vec]:
        """Of such losses the one that is left, its steepest slopes by class, and of that subtracted."""
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
