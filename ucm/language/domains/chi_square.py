"""Chi-square balls around the uniform distribution, by their size or by a level of confidence."""

from __future__ import annotations

import math
from dataclasses import field, replace
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from ucm.data.linear import Vec
from ucm.errors import CompositionError
from ucm.language import cvx as cp
from ucm.language import masses
from ucm.language.contracts import Capped, Domain, Jacobian, Sampled, SemiSmooth, Size
from ucm.language.domains import curved
from ucm.language.domains.copied import Copied
from ucm.language.domains.norm_ball import NormBall, SimplexNear
from ucm.language.domains.simplex import Simplex
from ucm.language.node import Notation, Scalar, value
from ucm.language.parameter import named, subject

__all__ = ["ChiSquareBall", "SimplexChiSquare"]


class ChiSquareBall(Copied, Sampled, SemiSmooth):
    """Vectors near the uniform distribution, `{(1/N) sum (N q_i - 1)^2 <= rho}`.

    Give `rho`, or the `level` of a one-sided confidence, which stands for `rho = z(level)^2 / N`, z the
    quantile of the normal distribution: z(0.95)^2 is the quantile 0.9 of chi-square with one degree of
    freedom. N is the number of entries, met with the data; weights of samples count in it, those of classes
    do not count in that of a level.

    Parameters
    ----------
    rho : float or Param, >= 0
        The bound.
    level : float or Param in [0.5, 1)
        In place of it: a confidence.
    copies : (N,) array, optional
        How often each entry counts: with copies c it is `(1/N) sum c_i (N q_i / c_i - 1)^2`, N all copies.
    number : float, optional
        The samples behind a level, where weights of classes make their number another one than N.

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
    >>> ucm.ChiSquareBall(rho=0.5).violation([0.75, 0.25])
    0.0
    >>> print(ucm.ChiSquareBall(level=0.95))
    1/N Σ_{i} (N q_i - 1)^2 ≤ z(0.95)^2/N
    """

    rho: Scalar | None = None
    level: Scalar | None = None
    number: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _one_of(self)
        super().__post_init__()

    def of_samples(self, number: float) -> ChiSquareBall:
        return replace(self, number=number)

    def _at(self, dim: int) -> NormBall:
        return NormBall(_radius(self, dim), around="uniform", copies=self.copies)

    def project(self, v: Vec, out: Vec | None = None, *, classes: Vec | None = None) -> Vec:
        return self._at(np.size(v)).project(v, out)

    def jacobian(self, v: Vec, *, classes: Vec | None = None) -> Jacobian:
        return self._at(np.size(v)).jacobian(v)

    def support(self, g: Vec, *, classes: Vec | None = None) -> tuple[float, Vec]:
        return self._at(np.size(g)).support(g)

    def violation(self, q: Vec, *, classes: Vec | None = None) -> float:
        return self._at(np.size(q)).violation(q)

    def center(self, dim: int, *, classes: Vec | None = None) -> Vec:
        return self._at(dim).center(dim)

    def emptiness(self, dim: int, *, classes: Vec | None = None) -> str | None:
        return self.miscounted(dim) or _out_of_range(_written(self))

    def size(self) -> Size:
        if self.level is None:
            return Size(_given(self), _root, lambda r: r * r, ("root",))
        return Size(self.level, _quantile, _level_of, ("level",))

    def constraints(
        self, q: cp.Expression, size: Any, *, classes: Vec | None = None
    ) -> list[cp.Constraint]:
        N = self.count(q.size)
        away = N * q - self.c
        if self.copies is not None:
            away = cp.multiply(self.copies**-0.5, away)
        unit = N if self.level is None else N / _number(self, q.size)
        return [cp.norm2(away / unit**0.5) <= size]

    def on_simplex(self) -> Domain | None:
        return SimplexChiSquare(self.rho, self.level, copies=self.copies, number=self.number)

    def formula(self, notation: Notation) -> str:
        copies = self.copies is not None
        q, c = notation.sub("q", "i"), notation.sub("c", "i") if copies else ""
        away = notation.power(f"(N {q}{'/' if copies else ''}{c} - 1)", "2")
        mean = notation.fraction("1", "N") + " " + notation.sum_over("i", f"{c} {away}".strip())
        if self.level is None:
            return mean + notation.leq + notation.scalar(_given(self))
        quantile = notation.power(f"z({notation.scalar(self.level)})", "2")
        return mean + notation.leq + notation.fraction(quantile, "N")


class SimplexChiSquare(curved.CutSimplex, Sampled):
    """Simplex and chi-square ball, `{q >= 0, sum q = 1, (1/N) sum (N q_i - 1)^2 <= rho}`; with classes mass
    1/2 in each, and N all entries.

    Parameters
    ----------
    rho, level, number : as in `ChiSquareBall`
        With classes of m and n entries, N = m + n, rho is at least `(m - n)^2 / (4 m n)`.

    Examples
    --------
    >>> from ucm.domains import SimplexChiSquare
    >>> SimplexChiSquare(rho=0.25).support([1.0, 0.0])[0]
    0.75
    """

    rho: Scalar | None = None
    level: Scalar | None = None
    number: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _one_of(self)
        super().__post_init__()

    def of_samples(self, number: float) -> SimplexChiSquare:
        return replace(self, number=number)

    def ball(self) -> ChiSquareBall:
        return ChiSquareBall(self.rho, self.level, copies=self.copies, number=self.number)

    def around(self, dim: int) -> Capped:
        return Simplex()

    def _solve(self, v: Vec, classes: Vec | None, *, prox: bool) -> tuple[Vec, curved.Point | None]:
        near = SimplexNear(_radius(self, v.size), copies=self.copies)
        return near._solve(v, classes, prox=prox)

    def _pinned(self, dim: int, classes: Vec | None) -> bool:
        return False

    def _too_small(self, dim: int, classes: Vec | None) -> str | None:
        reason = _out_of_range(_written(self))
        if reason is not None or classes is None:
            return reason
        N, c = self.count(dim), np.ones(dim) * self.c
        m, n = (float(c[index].sum()) for index, _ in masses.groups(dim, classes))
        least = (m - n) ** 2 / (4.0 * m * n)
        rho = _radius(self, dim) ** 2 * N
        if rho >= least * (1.0 - masses.ROUNDING):
            return None
        given, what = (self.rho, "size") if self.level is None else (self.level, "level")
        bound = least if self.level is None else _level_of(math.sqrt(least * _number(self, dim)))
        return (
            f"{_written(self)!r}: empty on the simplex, {named(_scalar(given), what)} gives less than the "
            f"divergence {least:.6g} between the classes' uniform vectors and 1/N; "
            f"{subject(_scalar(given), what)} must be at least {bound:.6g}"
        )


def _written(node: ChiSquareBall | SimplexChiSquare) -> ChiSquareBall:
    """The ball as it was declared, before samples were bound."""
    return ChiSquareBall(node.rho, node.level)


def _one_of(node: ChiSquareBall | SimplexChiSquare) -> None:
    if (node.rho is None) == (node.level is None):
        raise CompositionError(
            f"{type(node).__name__}: give exactly one of rho and level, got rho={node.rho!r} and "
            f"level={node.level!r}"
        )


def _scalar(given: Scalar | None) -> Scalar:
    return math.nan if given is None else given


def _given(node: ChiSquareBall | SimplexChiSquare) -> Scalar:
    return _scalar(node.rho)


def _root(rho: float) -> float:
    return math.sqrt(max(rho, 0.0))


def _quantile(level: float) -> float:
    return float(ndtri(level)) if 0.5 <= level < 1.0 else 0.0


def _level_of(root: float) -> float:
    return float(ndtr(root))


def _radius(node: ChiSquareBall | SimplexChiSquare, dim: int) -> float:
    """That of the Euclidean ball around 1/N."""
    N = node.count(dim)
    if node.level is None:
        return _root(value(_given(node))) / math.sqrt(N)
    return _quantile(value(node.level)) / math.sqrt(N * _number(node, dim))


def _number(node: ChiSquareBall | SimplexChiSquare, dim: int) -> float:
    """Of samples."""
    return node.count(dim) if node.number is None else node.number


def _out_of_range(node: ChiSquareBall) -> str | None:
    if node.level is None:
        if value(_given(node)) >= 0.0:
            return None
        return (
            f"{node!r}: empty, {named(_given(node), 'size')} is negative; "
            f"{subject(_given(node), 'size')} must be at least 0"
        )
    if 0.5 <= value(node.level) < 1.0:
        return None
    return (
        f"{node!r}: no ball has {named(node.level, 'level')}; "
        f"{subject(node.level, 'level')} must lie in [0.5, 1)"
    )
