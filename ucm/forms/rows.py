"""Hulls of weighted samples, and losses, over samples that are read block by block."""

from __future__ import annotations

from dataclasses import dataclass

from ucm.data.survey import RowData
from ucm.forms.answer import Expected
from ucm.language.losses import Hinge
from ucm.language.terms import ConvexLoss

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


@dataclass(frozen=True)
class RowLosses(_OfRows):
    """`min lam ||w||_2^2 + sum_k sum_c C_kc sum_i c_i l_k(o_k - y_i (w'x_i + b))`, i over the samples of
    class c, which weigh c_i.

    Attributes
    ----------
    data : where the samples are, and what one pass over them told
    losses : l_k, and its weights C_k of class +1 and class -1
    lam : of the penalty
    """

    losses: tuple[tuple[ConvexLoss, tuple[float, float]], ...]
    lam: float

    @property
    def hinge(self) -> tuple[float, float] | None:
        """C where the hinge loss is the one loss."""
        (loss, C), *more = self.losses
        return None if more or not isinstance(loss, Hinge) or loss.p != 1.0 else C
