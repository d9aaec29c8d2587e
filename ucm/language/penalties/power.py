"""Powers of p-norms."""

from __future__ import annotations

import numpy as np

from ucm import numerics
from ucm.data.linear import Vec
from ucm.errors import CompositionError
from ucm.language import cvx as cp
from ucm.language.node import Notation
from ucm.language.scope import Coefficient, Scope
from ucm.language.terms import ProximalPenalty

__all__ = ["Lp"]


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
            return np.sign(v) * np.maximum(np.abs(v) - t, 0.0)
        size = np.ascontiguousarray(np.abs(v), dtype=float)
        root = np.empty_like(size)
        numerics.power_root(size, t * self.p, self.p - 1.0, root)  # x + t p x^(p-1) = |v|
        return np.sign(v) * root

    def conjugate(self, z: Vec) -> float:
        if self.p == 1.0:
            return 0.0
        dual = self.p / (self.p - 1.0)
        return (self.p - 1.0) * float(((np.abs(z) / self.p) ** dual).sum())

    def gauge(self, z: Vec) -> float:
        return float(np.abs(z).max(initial=0.0)) if self.p == 1.0 else 0.0

    def norms(self) -> tuple[float, float, float] | None:
        return {1.0: (1.0, 0.0, 0.0), 2.0: (0.0, 1.0, 0.0)}.get(self.p)

    def cvxpy(self, w: cp.Expression, factor: Coefficient, scope: Scope) -> cp.Expression:
        return scope.of(factor) * cp.sum(cp.power(cp.abs(w), self.p, approx=False))

    def formula(self, notation: Notation) -> str:
        return notation.power(notation.norm("w", f"{self.p:g}"), f"{self.p:g}")
