"""The standard form of a generalised nu-SVM over w, b and rho."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import LinearMap, Vec
from ucm.forms.answer import Expected
from ucm.language.contracts import SampleWeights
from ucm.language.domains.divergence_ball import ConjugateFunction
from ucm.language.domains.separable_constraint import KKTPoint, soft

__all__ = ["FreeMargin", "PricedWeights"]


@dataclass(frozen=True)
class PricedWeights:
    """Weights q of samples on the simplex, with a price h(q).

    Attributes
    ----------
    A : the samples as columns, times their labels
    samples : the weights of the samples, and their labels if q has mass 1/2 on each class
    curve : h
    """

    A: LinearMap
    samples: SampleWeights
    curve: ConjugateFunction

    @property
    def dim(self) -> int:
        return self.A.shape[1]

    @property
    def parts(self) -> list[tuple[Any, float]]:
        """Return the masses."""
        return self.samples.groups

    def at(self, w: Vec, t: float) -> KKTPoint:
        """Return the maximiser of `-w'A q - t h(q)`."""
        return soft(self.curve, -self.A.rmatvec(w), self.parts, t)

    def hessian(self, point: KKTPoint) -> NDArray[np.float64]:
        """Return the Hessian of the maximum with respect to w."""
        W = np.where(point.q > 0.0, point.w, 0.0)
        H = self.A.weighted_gram(W)
        for index, _ in self.parts:
            own = np.zeros(self.dim)
            own[index] = W[index]
            if own.any():
                c = self.A.matvec(own)
                H = H - np.outer(c, c) / own.sum()
        return H


@dataclass(frozen=True)
class FreeMargin:
    """`min over ||w||_2 <= lam of max over q of -w'x - h(q)`, `x = sum A_k q_k` and `h(q) = sum h_k(q_k)`.

    Let q have mass 1/2 on each class, and let h be the mean of the conjugates of a loss. By multipliers for
    the two masses the problem is then `min -rho + (1/m) sum l(rho - margin_i)` over w, b and rho: equations
    (22) and (25) of Ito, Takeda and Toh (2015).

    Attributes
    ----------
    terms : one term of all samples, or one term of each class with mass 1, whose objective is twice as large
    lam : the bound of the norm
    unit : the divisor of the features and the factor of lam
    """

    terms: tuple[PricedWeights, ...]
    lam: float
    unit: float = 1.0

    @property
    def n(self) -> int:
        return self.terms[0].A.shape[0]

    @property
    def m(self) -> int:
        return sum(term.dim for term in self.terms)

    @property
    def expected(self) -> Expected:
        """The names and shapes of the vectors of an answer."""
        return Expected(w=self.n)
