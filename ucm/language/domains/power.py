"""The p-norm as a separable constraint, `sum |q_i|^p <= r^p`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ucm import numerics
from ucm.data.linear import Vec
from ucm.errors import CompositionError, brief
from ucm.language.domains.curved import Curve
from ucm.language.node import Notation, Param, Scalar

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["PowerCurve", "check_exponent", "norm", "norm_constraint", "norm_formula"]


class PowerCurve(Curve):
    """`h(q) = sum q^p` on q >= 0, 1 < p < inf."""

    def __init__(self, p: float) -> None:
        self.p = p

    def value(self, q: Vec) -> float:
        return float((q**self.p).sum())

    def prox(self, u: Vec, lam: float) -> tuple[Vec, Vec, Vec]:
        p = self.p
        q = np.empty_like(u)
        numerics.power_root(u, lam * p, p - 1.0, q)
        # 1 / (1 + lam p (p-1) q^(p-2)), written without a negative power of 0
        if p >= 2.0:
            w = (u > 0.0) / (1.0 + lam * p * (p - 1.0) * q ** (p - 2.0))
        else:
            smooth = q ** (2.0 - p)
            w = smooth / (smooth + lam * p * (p - 1.0))
        return q, w, p * q ** (p - 1.0)

    def tilt(self, u: Vec, lam: float) -> tuple[Vec, Vec, Vec]:
        p = self.p
        normal = np.maximum(u, 0.0) / lam
        q = (normal / p) ** (1.0 / (p - 1.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            w = np.where(u > 0.0, q / ((p - 1.0) * u), 0.0)
        return q, w, normal


def norm(q: Vec, p: float) -> float:
    """`||q||_p`, scaled by the largest entry so that no power overflows or vanishes."""
    top = float(np.abs(q).max(initial=0.0))
    if top == 0.0 or p == math.inf:
        return top
    scaled = np.abs(q) / top
    return top * float((scaled**p).sum() ** (1.0 / p))


def check_exponent(owner: object, p: Any) -> None:
    """Refuses an exponent that gives no norm."""
    if isinstance(p, Param):
        raise CompositionError(
            f"{type(owner).__name__}: p is part of the form and cannot be a Param, got {brief(p)}; "
            "write a plain number"
        )
    if not isinstance(p, float) or not p >= 1.0:
        raise CompositionError(
            f"{type(owner).__name__}: p must be a number of at least 1 (inf allowed), got {brief(p)}"
        )


def norm_constraint(q: cp.Expression, p: float, size: Any) -> cp.Constraint:
    import cvxpy as cp

    if p == 2.0:
        return cp.norm2(q) <= size
    if p in (1.0, math.inf):
        return cp.norm(q, 1 if p == 1.0 else "inf") <= size
    return cp.pnorm(q, p, approx=False) <= size


def norm_formula(notation: Notation, p: float, radius: Scalar) -> str:
    index = "inf" if p == math.inf else f"{p:.6g}"
    return notation.norm("q", index) + notation.leq + notation.scalar(radius)
