"""The dual problem of a hinge loss to a power with the squared Euclidean norm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ucm.data.gram import Gram
from ucm.data.linear_map import Matrix, Vec
from ucm.forms.bound import balance
from ucm.forms.solver import Expected


def slacks(a: Vec, C: Vec, p: float) -> Vec:
    """Return the slacks xi of the multipliers, `(a / (C p))^(1 / (p - 1))`; 0 for p = 1."""
    if p == 1.0:
        return np.zeros(a.size)
    r = a / (C * p)
    return r if p == 2.0 else r ** (1.0 / (p - 1.0))


@dataclass(frozen=True)
class HingeDual:
    """The dual of an SVM with the hinge loss to the power p: multipliers a, one for each sample.

    The problem is `min ||w||^2 / 2 + sum_i C_i max(0, 1 - y_i (w'x_i + b))^p`, Sun (2024), equation (9).

    Its dual (17) is `max sum a - sum_i C_i (p - 1) xi_i^p - ||sum a_i y_i x_i||^2 / 2` over
    `a >= 0, y'a = 0` with `xi_i = (a_i / (C_i p))^(1/(p-1))`; for p = 1 without xi, and `a_i <= C_i`.

    Attributes
    ----------
    y : (m,) labels +1 and -1
    C : (m,) weights of the samples' losses
    p : exponent, at least 1
    gram : inner products of the samples, about any origin: y'a = 0
    X : (m, n) the samples themselves, or None with a kernel
    """

    y: Vec
    C: Vec
    p: float
    gram: Gram
    X: Matrix | None = None

    @property
    def m(self) -> int:
        return self.y.size

    @property
    def expected(self) -> Expected:
        return Expected(slopes=self.m)

    def feasible(self, a: Vec) -> Vec:
        """Return feasible multipliers: a clipped to its bounds, the heavier class scaled down to y'a = 0."""
        a = np.clip(a, 0.0, self.C if self.p == 1.0 else None)
        return a * balance(self.y * a)[0]
