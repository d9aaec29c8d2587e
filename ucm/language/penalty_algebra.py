"""Positive multiples and sums of penalties, and the excess that a folded penalty subtracts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ucm.contracts import Vec
from ucm.errors import CompositionError
from ucm.expression import Notation, Scalar, value
from ucm.language.arithmetic import multiple, multiple_source, positive
from ucm.terms import (
    Coefficient,
    FoldedConcave,
    Penalty,
    ProximalPenalty,
    SubtractedPenalty,
    Weights,
)

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["Excess", "PenaltySum", "ScaledFolded", "ScaledPenalty", "scaled_penalty"]


class ScaledPenalty(ProximalPenalty):
    """`factor / divisor` times a convex penalty; with c that number, `(c R)*(z) = c R*(z / c)`.

    Examples
    --------
    >>> import ucm
    >>> ucm.Param("lam", 0.5) * ucm.L1()
    Param('lam', 0.5) * L1()
    """

    factor: Scalar
    penalty: ProximalPenalty
    divisor: Scalar = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.penalty, ProximalPenalty):
            raise CompositionError(
                f"ScaledPenalty: expected a convex penalty, got {self.penalty!r}; "
                "write factor * penalty"
            )
        positive(self, self.factor, self.divisor)

    def _c(self) -> float:
        return value(self.factor) / value(self.divisor)

    def value(self, w: Vec) -> float:
        return self._c() * self.penalty.value(w)

    def split(self) -> tuple[tuple[ProximalPenalty, ...], tuple[SubtractedPenalty, ...]]:
        return (self,), ()

    def prox(self, v: Vec, t: float) -> Vec:
        return self.penalty.prox(v, self._c() * t)

    def conjugate(self, z: Vec) -> float:
        c = self._c()
        return c * self.penalty.conjugate(z / c)

    def gauge(self, z: Vec) -> float:
        return self.penalty.gauge(z / self._c())

    def norms(self) -> tuple[float, float, float] | None:
        inner, c = self.penalty.norms(), self._c()
        return None if inner is None else (c * inner[0], c * inner[1], c * inner[2])

    def cvxpy(self, w: cp.Expression, factor: Coefficient, weights: Weights) -> cp.Expression:
        return self.penalty.cvxpy(w, factor.scaled(self.factor, self.divisor), weights)

    def __repr__(self) -> str:
        return multiple_source(self.factor, self.divisor, self.penalty)

    def formula(self, notation: Notation) -> str:
        return multiple(self.factor, self.divisor, self.penalty.formula(notation), notation)


class ScaledFolded(FoldedConcave):
    """`factor / divisor` times a folded concave penalty.

    Examples
    --------
    >>> import ucm
    >>> (2 * ucm.CappedL1(1)).value([3.0])
    2.0
    """

    factor: Scalar
    penalty: FoldedConcave
    divisor: Scalar = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.penalty, FoldedConcave):
            raise CompositionError(
                f"ScaledFolded: expected a folded concave penalty, got {self.penalty!r}; "
                "write factor * penalty"
            )
        positive(self, self.factor, self.divisor)

    def _c(self) -> float:
        return value(self.factor) / value(self.divisor)

    def value(self, w: Vec) -> float:
        return self._c() * self.penalty.value(w)

    def split(self) -> tuple[tuple[ProximalPenalty, ...], tuple[SubtractedPenalty, ...]]:
        return (self.tangent(),), (Excess(self),)

    def profile(self, s: Vec) -> Vec:
        return self._c() * self.penalty.profile(s)

    def slope(self, s: Vec) -> Vec:
        return self._c() * self.penalty.slope(s)

    def straight(self, s: Vec, tol: float) -> bool:
        return self.penalty.straight(s, tol)

    def tangent(self) -> ProximalPenalty:
        return ScaledPenalty(self.factor, self.penalty.tangent(), self.divisor)

    def relaxed(self) -> ProximalPenalty:
        return ScaledPenalty(self.factor, self.penalty.relaxed(), self.divisor)

    def excess_formula(self, notation: Notation) -> str:
        return multiple(self.factor, self.divisor, self.penalty.excess_formula(notation), notation)

    def __repr__(self) -> str:
        return multiple_source(self.factor, self.divisor, self.penalty)

    def formula(self, notation: Notation) -> str:
        return multiple(self.factor, self.divisor, self.penalty.formula(notation), notation)


class Excess(SubtractedPenalty):
    """`sum_j r'(0) |w_j| - r(|w_j|)` of a folded concave penalty: convex, as r is concave.

    Its subgradient is `sign(w_j) (r'(0) - r'(|w_j|))`, r' from the right, 0 at w_j = 0: equations
    (21) and (27) of Ong and Le Thi (2013).

    Examples
    --------
    >>> import ucm
    >>> added, subtracted = ucm.CappedL1(1).split()
    >>> print(added[0], "-", subtracted[0])
    ‖w‖₁ - Σ_{j} max(0, |w_j| - 1)
    """

    penalty: FoldedConcave

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.penalty, FoldedConcave):
            raise CompositionError(
                f"Excess: expected a folded concave penalty, got {self.penalty!r}"
            )

    def _steepest(self) -> float:
        return float(self.penalty.slope(np.zeros(1))[0])

    def value(self, w: Vec) -> float:
        s = np.abs(np.asarray(w, dtype=float))
        return float((self._steepest() * s - self.penalty.profile(s)).sum())

    def subgradient(self, w: Vec) -> Vec:
        w = np.asarray(w, dtype=float)
        return np.sign(w) * (self._steepest() - self.penalty.slope(np.abs(w)))

    def affine(self, w: Vec, tol: float) -> bool:
        return self.penalty.straight(np.abs(np.asarray(w, dtype=float)), tol)

    def formula(self, notation: Notation) -> str:
        return self.penalty.excess_formula(notation)


class PenaltySum(Penalty):
    """A sum of penalties, written with `+`.

    Examples
    --------
    >>> import ucm
    >>> print(ucm.L1() + 0.5 * ucm.L2())
    ‖w‖₁ + 0.5·‖w‖₂^2
    """

    terms: tuple[Penalty, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        for penalty in self.terms:
            if not isinstance(penalty, Penalty) or isinstance(penalty, PenaltySum):
                raise CompositionError(
                    f"PenaltySum: expected penalties, got {penalty!r}; add them with +"
                )

    def value(self, w: Vec) -> float:
        return sum(penalty.value(w) for penalty in self.terms)

    def split(self) -> tuple[tuple[ProximalPenalty, ...], tuple[SubtractedPenalty, ...]]:
        added: list[Any] = []
        subtracted: list[Any] = []
        for penalty in self.terms:
            plus, minus = penalty.split()
            added += plus
            subtracted += minus
        return tuple(added), tuple(subtracted)

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.terms))

    def formula(self, notation: Notation) -> str:
        return " + ".join(penalty.formula(notation) for penalty in self.terms)


def scaled_penalty(factor: Scalar, penalty: Penalty, divisor: Scalar = 1.0) -> Penalty:
    """`factor / divisor` times a penalty; a sum is multiplied term by term."""
    if isinstance(penalty, PenaltySum):
        return PenaltySum(tuple(scaled_penalty(factor, term, divisor) for term in penalty.terms))
    if isinstance(penalty, ProximalPenalty):
        return ScaledPenalty(factor, penalty, divisor)
    if isinstance(penalty, FoldedConcave):
        return ScaledFolded(factor, penalty, divisor)
    raise CompositionError(
        f"{penalty!r}: only convex (ProximalPenalty) and folded concave penalties are multiplied"
    )
