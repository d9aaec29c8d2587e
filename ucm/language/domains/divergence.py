"""Relative entropy to the uniform distribution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import wrightomega, xlogy

from ucm import numerics
from ucm.data.linear import Vec
from ucm.language import cvx as cp
from ucm.language import masses
from ucm.language.contracts import Capped, Domain, Size
from ucm.language.domains import curved
from ucm.language.domains.copied import Copied
from ucm.language.domains.simplex import Simplex
from ucm.language.node import Notation, Scalar, value
from ucm.language.parameter import named, subject

__all__ = ["KLBall", "SimplexKL"]


class EntropyCurve(curved.Curve):
    """`h(q) = sum q_i log(N q_i / c_i)`, N the number of all copies c, of which the relative sizes count."""

    exponent = 0.0

    def __init__(self, dim: float, copies: Vec | None = None) -> None:
        unit = 1.0 if copies is None else float(copies.max())  # then N q / c underflows nowhere
        self.dim, self.copies = dim / unit, None if copies is None else copies / unit

    def value(self, q: Vec) -> float:
        s = self.dim * q
        return float(xlogy(q, s if self.copies is None else s / self.copies).sum())

    def prox(self, u: Vec, lam: float) -> tuple[Vec, Vec, Vec]:
        # q + lam log q = u - lam (1 + log N), and omega + log omega = z
        q = lam * wrightomega(u / lam - (1.0 + math.log(self.dim) + np.log(lam)))
        return q, q / (q + lam), self.normal(q)

    def tilt(self, u: Vec, lam: float) -> tuple[Vec, Vec, Vec]:
        q = np.exp(u / lam - 1.0) / self.dim
        return q, q / lam, u / lam

    def normal(self, q: Vec) -> Vec:
        """The gradient; 1 where q is 0."""
        return np.log(np.where(q > 0.0, self.dim * q, 1.0)) + 1.0


class KLBall(Copied):
    """Non-negative vectors of bounded divergence, `{q >= 0, sum q_i log(N q_i) <= -log alpha}`.

    N is the number of entries. The ball has an exact projection only together with the simplex
    (`on_simplex`).

    Parameters
    ----------
    alpha : float or Param
        0 < alpha <= 1; the smaller, the larger the ball.
    copies : (N,) array, optional
        How often each entry counts; None for once.

    Notes
    -----
    The parameter set of the exponential loss; Ito, Takeda and Toh (2015), section 5.2.

    Examples
    --------
    >>> import ucm
    >>> ucm.KLBall(0.5).violation([0.5, 0.5])
    0.0
    """

    alpha: Scalar

    def curve(self, dim: int) -> EntropyCurve:
        """The divergence."""
        return EntropyCurve(self.count(dim), self.copies)

    def support(self, g: Vec, *, classes: Vec | None = None) -> tuple[float, Vec]:
        g = masses.vector(g)
        curve = self.curve(g.size)
        if float(g.max()) <= 0.0:  # the limit of exp(g/lam - 1) / N as lam vanishes
            return 0.0, np.where(g == 0.0, self.center(g.size), 0.0)
        point = curved.solve(curve, g, [], _radius(value(self.alpha)), -math.exp(-1.0), prox=False)
        return float(g @ point.q), point.q

    def violation(self, q: Vec, *, classes: Vec | None = None) -> float:
        """How far the divergence is above its bound, and negative mass."""
        q, radius = masses.vector(q), _radius(value(self.alpha))
        divergence = self.curve(q.size).value(np.maximum(q, 0.0))
        over = (divergence - radius) / max(radius, 1.0)
        return masses.snap(max(over, float(-np.minimum(q, 0.0).sum())))

    def center(self, dim: int, *, classes: Vec | None = None) -> Vec:
        return np.full(dim, math.exp(-1.0) / self.count(dim)) * self.c

    def emptiness(self, dim: int, *, classes: Vec | None = None) -> str | None:
        return self.miscounted(dim) or _emptiness(self.bare, self.alpha, 1.0)

    def size(self) -> Size:
        return Size(self.alpha, _radius, lambda radius: math.exp(-radius), key=("-log",))

    def constraints(
        self, q: cp.Expression, size: Any, *, classes: Vec | None = None
    ) -> list[cp.Constraint]:
        # in N q / c the entries are near 1, which conic solvers need
        count = self.count(q.size)
        if self.copies is None:
            return [cp.sum(cp.rel_entr(count * q, 1.0)) / count <= size]
        inner = cp.rel_entr(cp.multiply(count / self.copies, q), 1.0)
        return [self.copies @ inner / count <= size]

    def on_simplex(self) -> Domain | None:
        return SimplexKL(self.alpha, copies=self.copies)

    def formula(self, notation: Notation) -> str:
        q = notation.sub("q", "i")
        log = notation.word("log")
        over = "" if self.copies is None else f"/{notation.sub('c', 'i')}"
        divergence = notation.sum_over("i", f"{q} {log}(N {q}{over})")
        return f"{divergence}{notation.leq}-{log} {notation.scalar(self.alpha)}"


class SimplexKL(curved.CutSimplex):
    """Simplex and divergence ball, `{q >= 0, sum q = 1, sum q_i log(N q_i) <= -log alpha}`.

    Parameters
    ----------
    alpha : float or Param
        0 < alpha <= 1; with classes of m and n entries, alpha <= 2 sqrt(m n) / (m + n).

    Notes
    -----
    Ito, Takeda and Toh (2015), section 5.2. The projection is
    `q_i = lam omega((v_i - theta)/lam - 1 - log N - log lam)`, omega the Wright function, theta and
    lam roots of three equations; the support function tilts exponentially.

    Examples
    --------
    >>> from ucm.domains import SimplexKL
    >>> SimplexKL(0.6).project([1.0, 0.0]).round(4)
    array([0.9554, 0.0446])
    """

    alpha: Scalar

    def ball(self) -> KLBall:
        return KLBall(self.alpha, copies=self.copies)

    def around(self, dim: int) -> Capped:
        return Simplex()

    def _solve(self, v: Vec, classes: Vec | None, *, prox: bool) -> tuple[Vec, curved.Point | None]:
        curve = EntropyCurve(self.count(v.size), self.copies)
        radius = _radius(value(self.alpha))
        root = _nearest if prox else _tilted
        if self.copies is not None:
            parts = masses.groups(v.size, classes)
            return self._cut(
                v, classes, prox, curve.value, radius,
                lambda least: curved.solve(curve, v, parts, radius, least, prox=prox),
            )  # fmt: skip
        return self._cut(
            v, classes, prox, curve.value, radius,
            lambda least: root(curve, v, classes, radius, least),
        )  # fmt: skip

    def _pinned(self, dim: int, classes: Vec | None) -> bool:
        return False

    def _too_small(self, dim: int, classes: Vec | None) -> str | None:
        largest = 1.0
        if classes is not None:
            m, n = masses.totals(dim, classes, self.copies)
            largest = 2.0 * math.sqrt(m) * math.sqrt(n) / (m + n)
        return _emptiness(self.ball().bare, self.alpha, largest)


def _nearest(
    curve: EntropyCurve, v: Vec, classes: Vec | None, radius: float, least: float
) -> curved.Point:
    """The projection where the divergence is `radius`, above its `least`."""
    q, reach = np.empty_like(v), float(np.ptp(v))
    parts = masses.groups(v.size, classes)
    if not reach <= curved.FAR:
        return curved.solve(curve, v, parts, radius, least, prox=True)
    lam, *theta, found = numerics.project_entropy(
        v, masses.labels(classes), radius, least, reach, q
    )
    if not found:
        return curved.solve(curve, v, parts, radius, least, prox=True)
    return curved.Point(q, q / (q + lam), curve.normal(q), lam, tuple(theta[: len(parts)]))


def _tilted(
    curve: EntropyCurve, g: Vec, classes: Vec | None, radius: float, least: float
) -> curved.Point:
    """The maximiser where the divergence is `radius`, above its `least`."""
    g, unit = curved.scaled(g, masses.groups(g.size, classes), prox=False)
    q = np.empty_like(g)
    lam, *theta = numerics.support_entropy(g, masses.labels(classes), radius, least, q)
    levels = tuple(unit * x for x in theta[: 1 if classes is None else 2])
    with np.errstate(over="ignore"):  # the slope in directions next to 0
        w = q / lam / unit
    return curved.Point(q, w, curve.normal(q), unit * lam, levels)


def _radius(alpha: float) -> float:
    return -math.log(alpha) if alpha > 0.0 else math.inf


def _emptiness(node: Domain, alpha: Scalar, largest: float) -> str | None:
    if 0.0 < value(alpha) <= largest * (1.0 + masses.ROUNDING):
        return None
    why = (
        "is not positive"
        if value(alpha) <= 0.0
        else "gives a divergence bound -log(alpha) below the smallest divergence"
    )
    return (
        f"{node!r}: empty, {named(alpha, 'level')} {why}; "
        f"{subject(alpha, 'alpha')} must lie in (0, {largest:.6g}]"
    )
