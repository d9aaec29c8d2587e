"""Two reduced hulls, and hinge losses, over samples that are read block by block."""

from __future__ import annotations

from dataclasses import dataclass

from ucm.data.survey import RowData
from ucm.forms.answer import Expected

__all__ = ["RowHinge", "RowHulls"]


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
    `0 <= q_i <= cap_c` and `sum q_i = mass_c`.

    Attributes
    ----------
    data : where the samples are, and what one pass over them told
    factors, caps, masses : of class +1 and class -1
    """

    factors: tuple[float, float]
    caps: tuple[float, float]
    masses: tuple[float, float]


@dataclass(frozen=True)
class RowHinge(_OfRows):
    """`min lam ||w||_2^2 + sum_c C_c sum_i max(0, 1 - y_i (w'x_i + b))^p`, i over the samples of class c.

    Attributes
    ----------
    data : where the samples are, and what one pass over them told
    p : the power of the loss
    C : weights of the losses of class +1 and class -1
    lam : of the penalty
    """

    p: float
    C: tuple[float, float]
    lam: float
