"""The norms: L1, L2, LInf and the elastic net."""

from __future__ import annotations

import numpy as np

from ucm.data.linear import Vec
from ucm.errors import CompositionError
from ucm.language import cvx as cp
from ucm.language.node import Notation, Scalar, value
from ucm.language.scope import Coefficient, Scope
from ucm.language.terms import ProximalPenalty

__all__ = ["L1", "L2", "ElasticNet", "LInf", "soft", "soft_to_mass"]


def soft(v: Vec, t: float) -> Vec:
    """`argmin_w ||w - v||^2 / 2 + t ||w||_1`."""
    return np.sign(v) * np.maximum(np.abs(v) - t, 0.0)


def soft_to_mass(v: Vec, mass: float) -> Vec:
    """The nearest point with `||w||_1 <= mass`: a soft threshold found by sorting."""
    a = np.abs(v)
    if a.sum() <= mass:
        return v.copy()
    if mass <= 0.0:
        return np.zeros_like(v)
    top = -np.sort(-a)
    theta = (np.cumsum(top) - mass) / np.arange(1, top.size + 1)
    return soft(v, float(theta[np.flatnonzero(top > theta)[-1]]))


class L1(ProximalPenalty):
    """`||w||_1`.

    Examples
    --------
    >>> import ucm
    >>> ucm.L1().value([3.0, -4.0])
    7.0
    """

    def value(self, w: Vec) -> float:
        return float(np.abs(w).sum())

    def prox(self, v: Vec, t: float) -> Vec:
        return soft(v, t)

    def conjugate(self, z: Vec) -> float:
        return 0.0

    def gauge(self, z: Vec) -> float:
        return float(np.abs(z).max(initial=0.0))

    def norms(self) -> tuple[float, float, float] | None:
        return 1.0, 0.0, 0.0

    def cvxpy(self, w: cp.Expression, factor: Coefficient, scope: Scope) -> cp.Expression:
        return scope.of(factor) * cp.norm1(w)

    def formula(self, notation: Notation) -> str:
        return notation.norm("w", "1")


class L2(ProximalPenalty):
    """`||w||_2^2`, the squared Euclidean norm.

    Examples
    --------
    >>> import ucm
    >>> ucm.L2().value([3.0, -4.0])
    25.0
    """

    def value(self, w: Vec) -> float:
        w = np.asarray(w, dtype=float)
        return float(w @ w)

    def prox(self, v: Vec, t: float) -> Vec:
        return v / (1.0 + 2.0 * t)

    def conjugate(self, z: Vec) -> float:
        return 0.25 * float(z @ z)

    def gauge(self, z: Vec) -> float:
        return 0.0

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
        return v - soft_to_mass(v, t)

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


class ElasticNet(ProximalPenalty):
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

    def value(self, w: Vec) -> float:
        r, w = value(self.ratio), np.asarray(w, dtype=float)
        return r * float(np.abs(w).sum()) + (1.0 - r) * float(w @ w)

    def prox(self, v: Vec, t: float) -> Vec:
        r = value(self.ratio)
        return soft(v, t * r) / (1.0 + 2.0 * t * (1.0 - r))

    def conjugate(self, z: Vec) -> float:
        r = value(self.ratio)
        if r == 1.0:
            return 0.0
        rest = soft(z, r)
        return 0.25 * float(rest @ rest) / (1.0 - r)

    def gauge(self, z: Vec) -> float:
        return float(np.abs(z).max(initial=0.0)) if value(self.ratio) == 1.0 else 0.0

    def norms(self) -> tuple[float, float, float] | None:
        return value(self.ratio), 1.0 - value(self.ratio), 0.0

    def cvxpy(self, w: cp.Expression, factor: Coefficient, scope: Scope) -> cp.Expression:
        one = scope.of(factor.scaled(self.ratio)) * cp.norm1(w)
        return one + scope.of(factor.but(self.ratio)) * cp.sum_squares(w)

    def formula(self, notation: Notation) -> str:
        r = notation.scalar(self.ratio)
        one, two = notation.norm("w", "1"), notation.power(notation.norm("w", "2"), "2")
        return f"({r}{notation.times}{one} + (1 - {r}){notation.times}{two})"
