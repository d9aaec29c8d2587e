"""Chi-square balls around the uniform distribution, by their size or by a level of confidence."""

from __future__ import annotations

import math
from typing import Any

from scipy.special import ndtr, ndtri

from ucm.errors import CompositionError
from ucm.language import cvx as cp
from ucm.language.contracts import SampleWeights, SimplexDomain, Size
from ucm.language.domains.norm_ball import SimplexUniformBall
from ucm.language.node import Notation, Scalar, value
from ucm.language.parameter import named, subject

__all__ = ["ChiSquareBall"]


class ChiSquareBall(SimplexDomain):
    """The chi-square ball around the uniform distribution, `{(1/N) sum (N q_i - 1)^2 <= rho}` on the simplex.

    Give `rho`, or the `level` of a one-sided confidence, which stands for `rho = z(level)^2 / N`, z the
    quantile of the normal distribution: z(0.95)^2 is the quantile 0.9 of chi-square with one degree of
    freedom. N is the number of entries. Weights c of samples make it `(1/N) sum c_i (N q_i / c_i - 1)^2`, N
    their sum; those of classes do not count in the N of a level.

    Parameters
    ----------
    rho : float or Param, >= 0
        The bound. With classes of m and n entries at least `(m - n)^2 / (4 m n)`.
    level : float or Param in [0.5, 1)
        In place of it: a confidence.

    Raises
    ------
    CompositionError
        Both or neither of `rho` and `level`.

    Notes
    -----
    The Euclidean ball around 1/N of radius `sqrt(rho / N)`. Duchi, Glynn and Namkoong (2021), Statistics of
    robust optimization: a generalized empirical likelihood approach, theorem 4: the largest mean over
    the ball of this level is an asymptotic upper bound of the true mean.

    Examples
    --------
    >>> import ucm
    >>> ucm.ChiSquareBall(rho=0.25).support([1.0, 0.0])[0]
    0.75
    >>> print(ucm.ChiSquareBall(level=0.95))
    1/N Σ_{i} (N q_i - 1)^2 ≤ z(0.95)^2/N
    """

    rho: Scalar | None = None
    level: Scalar | None = None

    def __post_init__(self) -> None:
        if (self.rho is None) == (self.level is None):
            raise CompositionError(
                f"ChiSquareBall: give exactly one of rho and level, got rho={self.rho!r} and "
                f"level={self.level!r}"
            )
        super().__post_init__()

    @property
    def _given(self) -> Scalar:
        given = self.rho if self.level is None else self.level
        return math.nan if given is None else given

    @property
    def _in_range(self) -> bool:
        x = value(self._given)
        return x >= 0.0 if self.level is None else 0.5 <= x < 1.0

    def _unit(self, samples: SampleWeights) -> float:
        """The square of `size / radius`, the radius that of the Euclidean ball around 1/N."""
        return samples.total * (1.0 if self.level is None else samples.count)

    def bind(self, samples: SampleWeights) -> SimplexUniformBall:
        radius = self.size().number / math.sqrt(self._unit(samples)) if self._in_range else -1.0
        return SimplexUniformBall(self, samples, radius, 2.0)

    def misses(self, samples: SampleWeights, least: float, what: str) -> str:
        """Return the error message for a radius below its `least` value."""
        given, name = self._given, "size" if self.level is None else "level"
        if not self._in_range:
            must = "be at least 0" if self.level is None else "lie in [0.5, 1)"
            return f"{self!r}: no ball has {named(given, name)}; {subject(given, name)} must {must}"
        bound = self.size().inverse(least * math.sqrt(self._unit(samples)))
        return (
            f"{self!r}: empty on the simplex, {named(given, name)} gives less than the "
            f"divergence {least**2 * samples.total:.6g} between the classes' uniform vectors and 1/N; "
            f"{subject(given, name)} must be at least {bound:.6g}"
        )

    def size(self) -> Size:
        if self.level is None:
            return Size(self._given, _root, lambda r: r * r, ("root",))
        return Size(self.level, _quantile, _level_of, ("level",))

    def inside(self, q: cp.Expression, size: Any, samples: SampleWeights) -> list[cp.Constraint]:
        N, c = samples.total, samples.weights
        away = N * q - samples.c
        if c is not None:
            away = cp.multiply(c**-0.5, away)
        unit = N if self.level is None else N / samples.count
        return [cp.norm2(away / unit**0.5) <= size]

    def formula(self, notation: Notation) -> str:
        away = notation.power(f"(N {notation.sub('q', 'i')} - 1)", "2")
        mean = notation.fraction("1", "N") + " " + notation.sum_over("i", away)
        if self.level is None:
            return mean + notation.leq + notation.scalar(self._given)
        quantile = notation.power(f"z({notation.scalar(self.level)})", "2")
        return mean + notation.leq + notation.fraction(quantile, "N")


def _root(rho: float) -> float:
    return math.sqrt(max(rho, 0.0))


def _quantile(level: float) -> float:
    return float(ndtri(level)) if 0.5 <= level < 1.0 else 0.0


def _level_of(root: float) -> float:
    return float(ndtr(root))
