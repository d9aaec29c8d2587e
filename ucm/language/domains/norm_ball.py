"""Norm balls, alone and together with the simplex."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse

from ucm import numerics
from ucm.data.linear import Vec
from ucm.errors import CompositionError, brief
from ucm.language import cvx as cp
from ucm.language import masses
from ucm.language.contracts import (
    Capped,
    Domain,
    Jacobian,
    Polyhedral,
    Polyhedron,
    SemiSmooth,
    Size,
)
from ucm.language.domains import curved
from ucm.language.domains.box import Box
from ucm.language.domains.copied import Copied
from ucm.language.domains.simplex import CappedSimplex, Simplex, WeightedSimplex
from ucm.language.node import Notation, Param, Scalar, value
from ucm.language.parameter import named, subject

__all__ = ["NormBall", "SimplexBall", "SimplexNear"]

_EPS = float(np.finfo(float).eps)


class PowerCurve(curved.Curve):
    """The p-norm as a separable function, `h(q) = (r / p) sum (q / r)^p` on q >= 0, 1 < p < inf.

    On the sphere of radius r, where it is r / p, the entries of q / r are at most 1 and that of the
    gradient `(q / r)^(p-1)` for the largest is at least 1 / N: no power overflows, and what vanishes is
    below rounding. With copies c it is `(r / p) sum c (q / (c r))^p`.
    """

    def __init__(self, p: float, radius: float, copies: Vec | None = None) -> None:
        self.p, self.r, self.copies = p, radius, copies
        self.exponent = p - 1.0
        self.condition = p

    def value(self, q: Vec) -> float:
        with np.errstate(over="ignore"):
            if self.copies is None:
                return self.r / self.p * float(((q / self.r) ** self.p).sum())
            each = (q / (self.copies * self.r)) ** self.p
            return self.r / self.p * float(self.copies @ each)

    def prox(self, u: Vec, lam: float) -> tuple[Vec, Vec, Vec]:
        p, c = self.p, lam / self.r
        x = np.empty_like(u)
        numerics.power_root(u / self.r, np.atleast_1d(c), p - 1.0, x)
        # 1 / (1 + c (p-1) x^(p-2)), written without a negative power of 0
        if p >= 2.0:
            w = (u > 0.0) / (1.0 + c * (p - 1.0) * x ** (p - 2.0))
        else:
            smooth = x ** (2.0 - p)
            w = smooth / (smooth + c * (p - 1.0))
        return self.r * x, w, x ** (p - 1.0)

    def tilt(self, u: Vec, lam: float) -> tuple[Vec, Vec, Vec]:
        normal = np.maximum(u, 0.0) / lam
        q = self.r * normal ** (1.0 / (self.p - 1.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            w = np.where(u > 0.0, q / ((self.p - 1.0) * u), 0.0)
        return q, w, normal


def norm(q: Vec, p: float) -> float:
    """`||q||_p`, scaled by the largest entry so that no power overflows or vanishes."""
    top = float(np.abs(q).max(initial=0.0))
    if top == 0.0 or p == math.inf:
        return top
    scaled = np.abs(q) / top
    return top * float((scaled**p).sum() ** (1.0 / p))


class ShiftedCurve(curved.Curve):
    """The p-norm of `q - c` as a separable function, c one number, `h(q) = (r / p) sum (|q_i - c| / r)^p`,
    1 < p < inf; c is that of a copy.

    With s the sign of `u - c`, the equations are those of `PowerCurve` for `s (q - c)`, cut at q = 0."""

    def __init__(self, p: float, radius: float, count: float, copies: Vec | None) -> None:
        self.p, self.r, self.c, self.copies = p, radius, 1.0 / count, copies
        self.condition = p * (1.0 + count ** (1.0 / p) / (count * radius))

    def value(self, q: Vec) -> float:
        copies = np.ones(q.size) if self.copies is None else self.copies
        with np.errstate(over="ignore"):
            each = (np.abs(q / copies - self.c) / self.r) ** self.p
        return self.r / self.p * float(copies @ each)

    def prox(self, u: Vec, lam: float) -> tuple[Vec, Vec, Vec]:
        p, away = self.p, u - self.c
        far, sign = np.abs(away), np.sign(away)
        x, w, normal = PowerCurve(p, self.r).prox(far, lam)
        w = np.where(far > 0.0, w, 1.0 if p > 2.0 else 0.0)
        q = self.c + sign * x
        return np.maximum(q, 0.0), np.where(q > 0.0, w, 0.0), sign * normal

    def tilt(self, u: Vec, lam: float) -> tuple[Vec, Vec, Vec]:
        sign = np.sign(u)
        x, w, normal = PowerCurve(self.p, self.r).tilt(np.abs(u), lam)
        q = self.c + sign * x
        return np.maximum(q, 0.0), np.where(q > 0.0, w, 0.0), sign * normal


def _check(owner: NormBall | SimplexBall | SimplexNear) -> None:
    """Refuses an exponent that gives no norm."""
    p: Any = owner.p
    if isinstance(p, Param):
        raise CompositionError(
            f"{type(owner).__name__}: p is part of the form and cannot be a Param, got {brief(p)}; "
            "write a plain number"
        )
    if not isinstance(p, float) or not p >= 1.0:
        raise CompositionError(
            f"{type(owner).__name__}: p must be a number of at least 1 (inf allowed), got {brief(p)}; "
            "write 2.0 for the Euclidean norm"
        )


class NormBall(Copied, SemiSmooth, Polyhedral):
    """The ball `{||q||_p <= radius}`, or around the uniform distribution, `{||q - 1/N||_p <= radius}`; with
    copies c of the entries `sum c_i |q_i / c_i|^p <= radius^p`, and N all copies.

    Parameters
    ----------
    radius : float or Param
        Non-negative.
    p : float, optional
        1 <= p <= inf.
    around : None or "uniform", optional
        The centre: 0, or 1/N for each of the N entries.
    copies : (N,) array, optional
        How often each entry counts; None for once.

    Raises
    ------
    CompositionError
        p is no plain number, or below 1; `around` is another word.

    Examples
    --------
    >>> import ucm
    >>> ucm.NormBall(1.0).project([3.0, 4.0])
    array([0.6, 0.8])
    >>> ucm.NormBall(1.0, p=1).support([3.0, 4.0])[0]
    4.0
    >>> ucm.NormBall(0.1, around="uniform").project([1.0, 0.5])
    array([0.6, 0.5])
    """

    radius: Scalar
    p: float = 2.0
    around: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self)
        if not (self.around is None or (isinstance(self.around, str) and self.around == "uniform")):
            raise CompositionError(
                f'NormBall: around is None (the ball around 0) or "uniform", got {brief(self.around)}; '
                "the ball around another point is Image(A, NormBall(radius), center=...)"
            )

    @property
    def euclidean(self) -> bool:
        """Whether it is `{||q||_2 <= radius}`, around 0 and without copies."""
        return self.p == 2.0 and self.around is None and self.copies is None

    def _middle(self, dim: int) -> Any:
        """The centre, one number where all its entries are the same."""
        return self.c / self.count(dim) if self.around else 0.0

    @property
    def units(self) -> Any:
        """d where the bound is `||d q||_p <= radius`: `c^(1/p - 1)`, 1 without copies."""
        return 1.0 if self.copies is None else self.copies ** (1.0 / self.p - 1.0)

    def _exponent(self, dim: int) -> float:
        """p, or inf on a line, where all norms are one and this one is linear."""
        one = isinstance(dim, int) and dim == 1  # source text has no dimension
        return math.inf if one and self.copies is None else self.p

    def _solve(self, v: Vec) -> tuple[Vec, Vec, Vec | None]:
        """The projection; dq/du; and the gradient of the norm where the bound is active."""
        p, radius = self._exponent(v.size), max(value(self.radius), 0.0)
        size = np.abs(v)
        length = norm(self.units * v, p)
        if length <= radius:
            return v.copy(), np.ones(v.size), None
        if radius == 0.0:
            return np.zeros(v.size), np.zeros(v.size), None
        if p == math.inf:
            most = radius * self.c
            return np.clip(v, -most, most), (size < most).astype(float), None
        if p == 2.0 and self.copies is None:
            share = radius / length
            q = share * v if share > np.finfo(float).tiny else radius * (v / length)
            return q, np.full(v.size, share), q
        sign = np.sign(v)
        if p == 1.0:
            q = masses.soft_to_mass(v, radius)
            return q, (q != 0.0).astype(float), sign
        # scaled to the unit ball; h'' and h' are those of the scaled point
        far = size * (curved.FAR / length) if length > curved.FAR * radius else size / radius
        q, w, normal = np.empty_like(far), np.empty_like(far), np.empty_like(far)
        numerics.project_power(far, np.ones(v.size) * self.c, p, q, w, normal)
        return radius * sign * q, w, sign * normal

    def project(self, v: Vec, out: Vec | None = None, *, classes: Vec | None = None) -> Vec:
        if self.around is None:
            return masses.delivered(self._solve(masses.vector(v))[0], out)
        c = self._middle(np.size(v))
        return masses.delivered(c + self._solve(masses.vector(v) - c)[0], out)

    def jacobian(self, v: Vec, *, classes: Vec | None = None) -> Jacobian:
        v = masses.vector(v)
        _, w, normal = self._solve(v if self.around is None else v - self._middle(v.size))
        return masses.jacobian(w, [], normal)

    def support(self, g: Vec, *, classes: Vec | None = None) -> tuple[float, Vec]:
        g = masses.vector(g)
        if self.around is not None:
            q = self._middle(g.size) + replace(self, around=None).support(g)[1]
            return float(g @ q), q
        radius, d = max(value(self.radius), 0.0), self.units
        h = g / d  # of d q
        top = float(np.abs(h).max(initial=0.0))
        if top == 0.0:
            return 0.0, np.zeros(g.size)
        p = self._exponent(g.size)
        if p == 1.0:
            q = np.sign(h) * (np.abs(h) == top)
            q *= radius / np.abs(q).sum()
        elif p == math.inf:
            q = radius * np.sign(h)
        else:
            q = np.sign(h) * (np.abs(h) / top) ** (1.0 / (p - 1.0))
            q *= radius / norm(q, p)
        return float(h @ q), q / d

    def violation(self, q: Vec, *, classes: Vec | None = None) -> float:
        q, radius = masses.vector(q), value(self.radius)
        if self.around is None:
            length = norm(self.units * q, self.p)
        else:
            c = self._middle(q.size)
            rounding = _EPS * norm(self.units * (np.zeros(q.size) + 2.0 * c), self.p)  # of q - c
            length = norm(self.units * (q - c), self.p) - rounding
        return masses.snap((length - radius) / radius if radius > 0.0 else length)

    def center(self, dim: int, *, classes: Vec | None = None) -> Vec:
        return np.zeros(dim) + self._middle(dim)

    def emptiness(self, dim: int, *, classes: Vec | None = None) -> str | None:
        if 0.0 <= value(self.radius) < 1e150:
            return self.miscounted(dim)
        if value(self.radius) > 0.0:
            return (
                f"{self!r}: unbounded, {named(self.radius, 'radius')}; "
                f"{subject(self.radius, 'radius')} must be below 1e150"
            )
        return (
            f"{self!r}: empty, {named(self.radius, 'radius')} is negative; "
            f"{subject(self.radius, 'radius')} must be at least 0"
        )

    def size(self) -> Size:
        return Size(self.radius)

    def constraints(
        self, q: cp.Expression, size: Any, *, classes: Vec | None = None
    ) -> list[cp.Constraint]:
        # as source text q has no number of entries
        dim: Any = q.size
        p = self._exponent(int(dim)) if isinstance(dim, Integral) else self.p
        if self.around is not None:
            q = q - self._middle(q.size)
        if self.copies is not None:
            q = cp.multiply(self.units, q)
        if p == 2.0:
            return [cp.norm2(q) <= size]
        if p in (1.0, math.inf):
            return [cp.norm(q, 1 if p == 1.0 else "inf") <= size]
        return [cp.pnorm(q, p, approx=False) <= size]

    def on_simplex(self) -> Domain | None:
        if self.around is not None:
            near = self.p < math.inf
            return SimplexNear(self.radius, self.p, copies=self.copies) if near else None
        ball = SimplexBall(self.radius, self.p, copies=self.copies)
        return ball.around(0) if self.p == math.inf else ball

    def polyhedron(self, dim: int, *, classes: Vec | None = None) -> Polyhedron | None:
        r, c, p = value(self.radius), np.zeros(dim) + self._middle(dim), self._exponent(dim)
        if p == math.inf:
            if self.around is None:
                return Box(-r, r, copies=self.copies).polyhedron(dim)
            return Box(c - r * self.c, c + r * self.c).polyhedron(dim)
        if p != 1.0:
            return None
        eye = sparse.eye_array(dim)  # |q - c| <= t, sum t <= r
        A = sparse.csr_array(
            sparse.block_array([[eye, -eye], [-eye, -eye], [None, np.ones((1, dim))]])
        )
        lower = np.concatenate([c - r, np.zeros(dim)])
        upper = np.concatenate([c + r, np.full(dim, r)])
        most = np.concatenate([c, -c, [r]])
        return Polyhedron(lower, upper, A, np.full(most.size, -np.inf), most)

    def formula(self, notation: Notation) -> str:
        index = "inf" if self.p == math.inf else f"{self.p:.6g}"
        q = "q" if self.around is None else "q - 1/N"
        if self.copies is not None:
            q = f"c^(1/{index} - 1) " + ("q" if self.around is None else "(q - c/N)")
        return notation.norm(q, index) + notation.leq + notation.scalar(self.radius)


class SimplexBall(curved.CutSimplex, Polyhedral):
    """Simplex and norm ball, `{q >= 0, sum q = 1, ||q||_p <= radius}`; mass 1/2 in each class.

    Parameters
    ----------
    radius : float or Param
        At least `N^(1/p - 1)`; with classes of m and n entries, `(m^(1-p) + n^(1-p))^(1/p) / 2`.
    p : float, optional
        1 <= p <= inf. p = 1 leaves the simplex as it is, p = inf is a cap.

    Raises
    ------
    CompositionError
        p is no plain number, or below 1.

    Notes
    -----
    Ito, Takeda and Toh (2015), section 4.3, where the bracket for the multiplier is replaced by
    `q(t) = P_simplex(t v)` with a closed form for t on each linear piece.

    Examples
    --------
    >>> from ucm.domains import SimplexBall
    >>> SimplexBall(0.8).project([1.0, 0.0]).round(4)
    array([0.7646, 0.2354])
    """

    radius: Scalar
    p: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self)

    def ball(self) -> NormBall:
        return NormBall(self.radius, self.p, copies=self.copies)

    def flat(self) -> Capped | WeightedSimplex | None:
        """The polyhedral domain that this one is for p = 1 and p = inf."""
        if self.p == 1.0:
            return Simplex()
        if self.p < math.inf:
            return None
        plain = self.copies is None
        return CappedSimplex(self.radius) if plain else WeightedSimplex(self.radius, self.copies)

    def polyhedron(self, dim: int, *, classes: Vec | None = None) -> Polyhedron | None:
        flat = self.flat()
        return None if flat is None else flat.polyhedron(dim, classes=classes)

    def around(self, dim: int) -> Capped | WeightedSimplex:
        flat = self.flat()
        return Simplex() if flat is None else flat

    def _solve(self, v: Vec, classes: Vec | None, *, prox: bool) -> tuple[Vec, curved.Point | None]:
        p, radius = self.p, value(self.radius)
        if p == 2.0 and self.copies is None:
            q, limit, y = np.empty_like(v), 1.0 if prox else math.inf, masses.labels(classes)
            t, *theta = numerics.project_ball_simplex(v, y, radius, limit, q)
            unit = 1.0
            if math.isnan(t):
                v, unit = curved.scaled(v, masses.groups(v.size, classes), prox)
                t, *theta = numerics.project_ball_simplex(v, y, radius, limit, q)
            theta = tuple(unit * x for x in theta[: 1 if classes is None else 2])
            return q, None if t >= limit else curved.Point(q, t / unit, q, t / unit, theta)
        if self._pinned(v.size, classes):
            return self._least(v.size, classes)
        curve, parts = PowerCurve(p, radius, self.copies), masses.groups(v.size, classes)
        d = self.ball().units
        return self._cut(
            v, classes, prox, lambda q: norm(d * q, p), radius if self.flat() is None else math.inf,
            lambda least: curved.solve(
                curve, v, parts, radius / p, (radius / p) * (least / radius) ** p, prox=prox
            ), 4.0 * _EPS,
        )  # fmt: skip

    def _pinned(self, dim: int, classes: Vec | None) -> bool:
        """As where one class has one entry, `radius = mass` and p is large."""
        if self.p <= 2.0 or self.flat() is not None:
            return False
        sizes = np.array(masses.totals(dim, classes, self.copies))
        means = 1.0 / (sizes.size * sizes)
        top = float(means.max())
        least = top * float((sizes * (means / top) ** self.p).sum()) ** (1.0 / self.p)
        return value(self.radius) <= least * (1.0 + masses.ROUNDING)

    def _too_small(self, dim: int, classes: Vec | None) -> str | None:
        least = norm(self.ball().units * masses.uniform(dim, classes, self.copies), self.p)
        if value(self.radius) >= least * (1.0 - masses.ROUNDING):
            return None
        return (
            f"{self.ball().bare!r}: empty on the simplex, {named(self.radius, 'radius')} is below the norm "
            f"of the uniform vector; {subject(self.radius, 'radius')} must be at least {least:.6g}"
        )


class SimplexNear(curved.CutSimplex):
    """Simplex and ball around the uniform distribution, `{q >= 0, sum q = 1, ||q - 1/N||_p <= radius}`; with
    classes, mass 1/2 in each, and 1/N for each of all N entries.

    Parameters
    ----------
    radius : float or Param
        At least 0; with classes of m and n entries, the distance of `1/(2m)` and `1/(2n)` from 1/N.
    p : float, optional
        1 <= p < inf. For p = 1 the radius is twice the total variation.

    Raises
    ------
    CompositionError
        p is no plain number, or below 1.

    Notes
    -----
    As the masses are fixed, `||q - 1/N||^2 = ||q||^2 - 1/N`: for p = 2 it is a `SimplexBall`. The maximiser
    for p = 1 moves mass from the smallest entries of g to the largest.

    Examples
    --------
    >>> from ucm.domains import SimplexNear
    >>> SimplexNear(0.2, p=1).project([1.0, 0.0, 0.0, 0.0])
    array([0.35 , 0.2166..., 0.2166..., 0.2166...])
    """

    radius: Scalar
    p: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self)

    def ball(self) -> NormBall:
        return NormBall(self.radius, self.p, "uniform", copies=self.copies)

    def around(self, dim: int) -> Capped:
        return Simplex()

    def _solve(self, v: Vec, classes: Vec | None, *, prox: bool) -> tuple[Vec, curved.Point | None]:
        p, radius, N = self.p, value(self.radius), self.count(v.size)
        d, c = self.ball().units, self.c / N
        parts = masses.groups(v.size, classes)

        def root(least: float) -> curved.Point:
            if p == 2.0:
                return self._sphere(v, classes, prox, least)
            if p == 1.0:
                return (_spread if prox else _moved)(v, np.zeros(v.size) + c, parts, radius)
            h = (radius / p) * (least / radius) ** p
            curve = ShiftedCurve(p, radius, N, self.copies)
            return curved.solve(curve, v, parts, radius / p, h, prox=prox)

        def height(q: Vec) -> float:
            return norm(d * (q - c), p)

        least = height(masses.uniform(v.size, classes, self.copies)) if p == 1.0 else 0.0
        if 0.0 < radius <= least * (1.0 + masses.ROUNDING):
            point = (_spread if prox else _moved)(v, np.zeros(v.size) + c, parts, least)
            return point.q, point if prox else self._least(v.size, classes)[1]
        return self._cut(v, classes, prox, height, radius, root, masses.ROUNDING)

    def _sphere(self, v: Vec, classes: Vec | None, prox: bool, least: float) -> curved.Point:
        """The point of `SimplexBall`; inside of the simplex, where radii may be small, at the distance
        `radius` from 1/N to rounding: `q - u`, u the uniform vectors of the classes, is orthogonal to `u -
        1/N`."""
        radius, unit = value(self.radius), 1.0 / math.sqrt(self.count(v.size))
        same = SimplexBall(math.hypot(radius, unit), copies=self.copies)
        q, point = same._solve(v, classes, prox=prox)
        u = masses.uniform(v.size, classes, self.copies)
        away = norm(self.ball().units * (q - u), 2.0) if q.min() > 0.0 else 0.0
        reach = math.sqrt(max(radius - least, 0.0) * (radius + least))
        if abs(reach - away) > 1e-3 * reach:  # it does not lie on the sphere, or q reaches 0
            reach = away = 1.0
        q = u + (reach / away) * (q - u)
        if point is None:
            return curved.Point(
                q, 1.0, q, 0.0, tuple(np.nan for _ in masses.counts(v.size, classes))
            )
        return replace(point, q=q, normal=q / self.c)

    def _pinned(self, dim: int, classes: Vec | None) -> bool:
        return False

    def _too_small(self, dim: int, classes: Vec | None) -> str | None:
        u, c = masses.uniform(dim, classes, self.copies), self.c / self.count(dim)
        least = norm(self.ball().units * (u - c), self.p)
        if value(self.radius) >= least * (1.0 - masses.ROUNDING):
            return None
        return (
            f"{self.ball().bare!r}: empty on the simplex, {named(self.radius, 'radius')} is below the "
            "distance of the uniform vectors of the classes from 1/N; "
            f"{subject(self.radius, 'radius')} must be at least {least:.6g}"
        )


def _spread(v: Vec, c: Vec, parts: list[tuple[Any, float]], radius: float) -> curved.Point:
    """The nearest point with `sum |q - c| = radius`.

    `q = c + (v - c - a)_+ - min(c, (c - v + b)_+)` in each class. Its mass and its distance t from c say what
    both terms sum to, and so a and b. Two classes have one `a - b`, twice the multiplier of the ball: their
    t are piecewise linear in it, and sum to the radius.
    """
    v, _ = curved.scaled(v, parts, True)
    terms: list[tuple[float, tuple[Vec, Vec], tuple[Vec, Vec]]] = []
    for index, mass in parts:
        own, base = v[index], c[index]
        excess = mass - float(base.sum())
        up, down = own - own.max() - base, own.min() - own + base
        terms.append((excess, (up, np.full(own.size, max(radius, abs(excess)))), (down, base)))
    far = [radius]
    if len(terms) > 1:
        wide = [float(np.ptp(v[index])) for index, _ in parts]
        (x, t), (z, s) = (_distances(*term, w) for term, w in zip(terms, wide, strict=True))
        both = np.sort(np.concatenate([x, z]))
        first, second = np.interp(both, x, t), np.interp(both, z, s)
        own = float(np.interp(np.interp(-radius, -(first + second), both), x, t))
        own = min(own, radius - abs(terms[1][0]))
        far = [own, radius - own]
    q, w, normal = c.copy(), np.zeros(v.size), np.zeros(v.size)
    grain = masses.ROUNDING * radius
    for (index, _), (excess, up, down), t in zip(parts, terms, far, strict=True):
        more = masses.clip_to_mass(*up, max(0.5 * (t + excess), 0.0))
        less = masses.clip_to_mass(*down, max(0.5 * (t - excess), 0.0))
        q[index] += more - less
        w[index] = (more > grain) | ((less > grain) & (less < c[index] - grain))
        normal[index] = np.sign(more - less)
    return curved.Point(q, w, normal, 0.0, ())


def _distances(
    excess: float, up: tuple[Vec, Vec], down: tuple[Vec, Vec], wide: float
) -> tuple[Vec, Vec]:
    """The corners of a class's distance t from c over `a - b`, which ascends."""
    (more, a), (less, b) = masses.kinks(*up), masses.kinks(*down)
    t = np.concatenate([2.0 * more - excess, 2.0 * less + excess])
    x = np.concatenate(
        [a + np.interp(more - excess, less, b), np.interp(less + excess, more, a) + b]
    )
    order = np.argsort(x, kind="stable")
    return wide + x[order], np.maximum(t[order], abs(excess))


def _moved(g: Vec, c: Vec, parts: list[tuple[Any, float]], radius: float) -> curved.Point:
    """The maximiser of `<g, q>` with `sum |q - c| = radius`: mass moves from the smallest entries of g to
    the largest of their class, first what the masses of the classes ask for, then where it gains most."""
    q, gain, top = c.copy(), np.empty(g.size), np.zeros(g.size, dtype=bool)
    left = radius
    for index, mass in parts:
        part, own = g[index], q[index].copy()
        highest = part.max()
        top[index] = part == highest
        gain[index] = highest - part
        excess = own.sum() - mass
        left -= abs(excess)
        if excess > 0.0:
            order = np.argsort(part, kind="stable")
            before = np.cumsum(own[order]) - own[order]
            own[order] -= np.clip(excess - before, 0.0, own[order])
            q[index] = own
    order = np.argsort(-gain, kind="stable")
    before = np.cumsum(q[order]) - q[order]
    moved = np.empty(g.size)
    moved[order] = np.clip(0.5 * left - before, 0.0, q[order])
    taken = (moved > 0.0) & ~top
    lam = 0.5 * float(gain[taken].min(initial=np.inf))
    q -= moved
    theta = []
    for index, mass in parts:
        own, high = q[index].copy(), top[index]
        own[high] += (mass - own.sum()) / np.count_nonzero(high)
        q[index] = own
        theta.append(float(g[index].max()) - (lam if np.isfinite(lam) else 0.0))
    return curved.Point(np.maximum(q, 0.0), 0.0, q, lam, tuple(theta))
