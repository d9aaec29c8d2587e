"""The norms and their powers: L1, L2, the elastic net, LInf, Lp."""

from __future__ import annotations

import numpy as np

from ucm import numerics
from ucm.data.linear import Vec
from ucm.errors import CompositionError
from ucm.language import cvx as cp
from ucm.language import masses
from ucm.language.node import Notation, Scalar, value
from ucm.language.parameter import Coefficient, Scope
from ucm.language.terms import ProximalPenalty

__all__ = ["L1", "L2", "ElasticNet", "LInf", "Lp", "soft"]


def soft(v: Vec, t: float) -> Vec:
    """`argmin_w ||w - v||^2 / 2 + t ||w||_1`."""
    return np.sign(v) * np.maximum(np.abs(v) - t, 0.0)


class _Elastic(ProximalPenalty):
    """`a ||w||_1 + c ||w||_2^2`, with its numbers in `norms`."""

    def _numbers(self) -> tuple[float, float]:
        a, c, _ = self.norms() or (0.0, 0.0, 0.0)
        return a, c

    def value(self, w: Vec) -> float:
        (a, c), w = self._numbers(), np.asarray(w, dtype=float)
        return a * float(np.abs(w).sum()) + c * float(w @ w)

    def prox(self, v: Vec, t: float) -> Vec:
        a, c = self._numbers()
        return soft(v, t * a) / (1.0 + 2.0 * t * c)

    def conjugate(self, z: Vec) -> float:
        a, c = self._numbers()
        rest = soft(z, a)
        return 0.25 * float(rest @ rest) / c if c else 0.0

    def gauge(self, z: Vec) -> float:
        a, c = self._numbers()
        return 0.0 if c else float(np.abs(z).max(initial=0.0)) / a


class L1(_Elastic):
    """`||w||_1`.

    Examples
    --------
    >>> import ucm
    >>> ucm.L1().value([3.0, -4.0])
    7.0
    """

    def norms(self) -> tuple[float, float, float] | None:
        return 1.0, 0.0, 0.0

    def cvxpy(self, w: cp.Expression, factor: Coefficient, scope: Scope) -> cp.Expression:
        return scope.of(factor) * cp.norm1(w)

    def formula(self, notation: Notation) -> str:
        return notation.norm("w", "1")


class L2(_Elastic):
    """`||w||_2^2`, the squared Euclidean norm.

    Examples
    --------
    >>> import ucm
    >>> ucm.L2().value([3.0, -4.0])
    25.0
    """

    def norms(self) -> tuple[float, float, float] | None:
        return 0.0, 1.0, 0.0

    def cvxpy(self, w: cp.Expression, factor: Coefficient, scope: Scope) -> cp.Expression:
        return scope.of(factor) * cp.sum_squares(w)

    def formula(self, notation: Notation) -> str:
        return notation.power(notation.norm("w", "2"), "2")


class LInf(ProximalPenalty):
    """`||w||_inf`, the largest absolute weight.

    Examples
    --------
    >>> import ucm
    >>> ucm.LInf().value([3.0, -4.0])
    4.0
    """

    def value(self, w: Vec) -> float:
        return float(np.abs(w).max(initial=0.0))

    def prox(self, v: Vec, t: float) -> Vec:
        return v - masses.soft_to_mass(v, t)

    def conjugate(self, z: Vec) -> float:
        return 0.0

    def gauge(self, z: Vec) -> float:
        return float(np.abs(z).sum())

    def norms(self) -> tuple[float, float, float] | None:
        return 0.0, 0.0, 1.0

    def cvxpy(self, w: cp.Expression, factor: Coefficient, scope: Scope) -> cp.Expression:
        return scope.of(factor) * cp.norm_inf(w)

    def formula(self, notation: Notation) -> str:
        return notation.norm("w", "inf")


class ElasticNet(_Elastic):
    """`ratio ||w||_1 + (1 - ratio) ||w||_2^2`.

    Parameters
    ----------
    ratio : float or Param, optional
        0 <= ratio <= 1.

    Raises
    ------
    CompositionError
        A ratio outside [0, 1].

    Examples
    --------
    >>> import ucm
    >>> ucm.ElasticNet(0.5).value([3.0, -4.0])
    16.0
    """

    ratio: Scalar = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= value(self.ratio) <= 1.0:
            raise CompositionError(
                f"ElasticNet: ratio lies in [0, 1], got {self.ratio!r}; 1 is L1(), 0 is L2()"
            )

    def norms(self) -> tuple[float, float, float] | None:
        return value(self.ratio), 1.0 - value(self.ratio), 0.0

    def cvxpy(self, w: cp.Expression, factor: Coefficient, scope: Scope) -> cp.Expression:
        one = scope.of(factor.scaled(self.ratio)) * cp.norm1(w)
        return one + scope.of(factor.but(self.ratio)) * cp.sum_squares(w)

    def formula(self, notation: Notation) -> str:
        r = notation.scalar(self.ratio)
        one, two = notation.norm("w", "1"), notation.power(notation.norm("w", "2"), "2")
        return f"({r}{notation.times}{one} + (1 - {r}){notation.times}{two})"


class Lp(ProximalPenalty):
    """`||w||_p^p = sum_j |w_j|^p`; with 1/p + 1/p' = 1, `R*(z) = (p - 1) sum (|z_j|/p)^p'`.

    Parameters
    ----------
    p : float
        1 <= p < inf. Below 1 the power has an infinite slope at 0 and no split into convex parts
        with a finite one: `ExpL0`, `CappedL1`, `MCP` and `SCAD` stand in for it.

    Raises
    ------
    CompositionError
        p is no plain number of at least 1.

    Examples
    --------
    >>> import ucm
    >>> ucm.Lp(3).value([1.0, -2.0])
    9.0
    """

    p: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.p, float) or not 1.0 <= self.p < np.inf:
            raise CompositionError(
                f"Lp: p is a plain number with 1 <= p < inf, got {self.p!r}; for p < 1 take "
                "ExpL0(a), CappedL1(a), MCP() or SCAD(), for inf LInf()"
            )

    def value(self, w: Vec) -> float:
        return float((np.abs(w) ** self.p).sum())

    def prox(self, v: Vec, t: float) -> Vec:
        if self.p == 1.0:
            return soft(v, t)
        size = np.ascontiguousarray(np.abs(v), dtype=float)
        root = np.empty_like(size)
        numerics.power_root(size, t * self.p, self.p - 1.0, root)  # x + t p x^(p-1) = |v|
        return np.sign(v) * root

    def conjugate(self, z: Vec) -> float:
        if self.p == 1.0:
            return 0.0
        dual = self.p / (self.p - 1.0)
        with np.errstate(over="ignore"):
            return (self.p - 1.0) * float(((np.abs(z) / self.p) ** dual).sum())

    def gauge(self, z: Vec) -> float:
        return float(np.abs(z).max(initial=0.0)) if self.p == 1.0 else 0.0

    def norms(self) -> tuple[float, float, float] | None:
        return {1.0: (1.0, 0.0, 0.0), 2.0: (0.0, 1.0, 0.0)}.get(self.p)

    def cvxpy(self, w: cp.Expression, factor: Coefficient, scope: Scope) -> cp.Expression:
        return scope.of(factor) * cp.sum(cp.power(cp.abs(w), self.p, approx=False))

    def formula(self, notation: Notation) -> str:
        return notation.power(notation.norm("w", f"{self.p:g}"), f"{self.p:g}")
