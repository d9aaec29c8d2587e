"""Norm balls, alone and together with the simplex."""

from __future__ import annotations

import math
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

__all__ = ["NormBall", "SimplexBall"]


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


def _check(owner: NormBall | SimplexBall) -> None:
    """Refuses an exponent that gives no norm."""
    p: Any = owner.p
    if isinstance(p, Param):
        raise CompositionError(
            f"{type(owner).__name__}: p is part of the form and cannot be a Param, got {brief(p)}; "
            "write a plain number"
        )
    if not isinstance(p, float) or not p >= 1.0:
        raise CompositionError(
            f"{type(owner).__name__}: p must be a number of at least 1 (inf allowed), got {brief(p)}"
        )


class NormBall(Copied, SemiSmooth, Polyhedral):
    """The ball `{||q||_p <= radius}`; with copies c of the entries `sum c_i |q_i / c_i|^p <= radius^p`.

    Parameters
    ----------
    radius : float or Param
        Non-negative.
    p : float, optional
        1 <= p <= inf.

    Raises
    ------
    CompositionError
        p is no plain number, or below 1.

    Examples
    --------
    >>> import ucm
    >>> ucm.NormBall(1.0).project([3.0, 4.0])
    array([0.6, 0.8])
    >>> ucm.NormBall(1.0, p=1).support([3.0, 4.0])[0]
    4.0
    """

    radius: Scalar
    p: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self)

    @property
    def units(self) -> Any:
        """d where the bound is `||d q||_p <= radius`: `c^(1/p - 1)`, 1 without copies."""
        return 1.0 if self.copies is None else self.copies ** (1.0 / self.p - 1.0)

    def _solve(self, v: Vec) -> tuple[Vec, Vec, Vec | None]:
        """The projection; dq/du; and the gradient of the norm where the bound is active."""
        p, radius = self.p, max(value(self.radius), 0.0)
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
        if self.copies is not None:
            curve = PowerCurve(p, radius, self.copies)
            point = curved.solve(curve, size, [], radius / p, 0.0, prox=True)
            return sign * point.q, point.w, sign * point.normal
        # scaled to the unit ball; h'' and h' are those of the scaled point
        far = size * (curved.FAR / length) if length > curved.FAR * radius else size / radius
        point = curved.solve(PowerCurve(p, 1.0), far, [], 1.0 / p, 0.0, prox=True)
        return radius * sign * point.q, point.w, sign * point.normal

    def project(self, v: Vec, out: Vec | None = None, *, classes: Vec | None = None) -> Vec:
        return masses.delivered(self._solve(masses.vector(v))[0], out)

    def jacobian(self, v: Vec, *, classes: Vec | None = None) -> Jacobian:
        _, w, normal = self._solve(masses.vector(v))
        return masses.jacobian(w, [], normal)

    def support(self, g: Vec, *, classes: Vec | None = None) -> tuple[float, Vec]:
        g = masses.vector(g)
        radius, d = max(value(self.radius), 0.0), self.units
        h = g / d  # of d q
        top = float(np.abs(h).max(initial=0.0))
        if top == 0.0:
            return 0.0, np.zeros(g.size)
        if self.p == 1.0:
            q = np.sign(h) * (np.abs(h) == top)
            q *= radius / np.abs(q).sum()
        elif self.p == math.inf:
            q = radius * np.sign(h)
        else:
            q = np.sign(h) * (np.abs(h) / top) ** (1.0 / (self.p - 1.0))
            q *= radius / norm(q, self.p)
        return float(h @ q), q / d

    def violation(self, q: Vec, *, classes: Vec | None = None) -> float:
        length, radius = norm(self.units * masses.vector(q), self.p), value(self.radius)
        return masses.snap((length - radius) / radius if radius > 0.0 else length)

    def center(self, dim: int, *, classes: Vec | None = None) -> Vec:
        return np.zeros(dim)

    def emptiness(self, dim: int, *, classes: Vec | None = None) -> str | None:
        if 0.0 <= value(self.radius) < 1e150:
            return None
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
        if self.copies is not None:
            q = cp.multiply(self.units, q)
        if self.p == 2.0:
            return [cp.norm2(q) <= size]
        if self.p in (1.0, math.inf):
            return [cp.norm(q, 1 if self.p == 1.0 else "inf") <= size]
        return [cp.pnorm(q, self.p, approx=False) <= size]

    def on_simplex(self) -> Domain | None:
        ball = SimplexBall(self.radius, self.p, copies=self.copies)
        return ball.around(0) if self.p == math.inf else ball

    def polyhedron(self, dim: int, *, classes: Vec | None = None) -> Polyhedron | None:
        r = value(self.radius)
        if self.p == math.inf:
            return Box(-r, r, copies=self.copies).polyhedron(dim)
        if self.p != 1.0:
            return None
        eye = sparse.eye_array(dim)  # |q| <= t, sum t <= r
        A = sparse.csr_array(
            sparse.block_array([[eye, -eye], [-eye, -eye], [None, np.ones((1, dim))]])
        )
        lower, most = np.repeat([-r, 0.0], dim), np.append(np.zeros(2 * dim), r)
        return Polyhedron(lower, np.full(2 * dim, r), A, np.full(most.size, -np.inf), most)

    def formula(self, notation: Notation) -> str:
        index = "inf" if self.p == math.inf else f"{self.p:.6g}"
        q = "q" if self.copies is None else f"c^(1/{index} - 1) q"
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
        curve, parts = PowerCurve(p, radius, self.copies), masses.groups(v.size, classes)
        d = self.ball().units
        return self._cut(
            v, classes, prox, lambda q: norm(d * q, p), radius if self.flat() is None else math.inf,
            lambda least: curved.solve(
                curve, v, parts, radius / p, (radius / p) * (least / radius) ** p, prox=prox
            ),
        )  # fmt: skip

    def _too_small(self, dim: int, classes: Vec | None) -> str | None:
        least = norm(self.ball().units * masses.uniform(dim, classes, self.copies), self.p)
        if value(self.radius) >= least * (1.0 - masses.ROUNDING):
            return None
        return (
            f"{self.ball().bare!r}: empty on the simplex, {named(self.radius, 'radius')} is below the norm "
            f"of the uniform vector; {subject(self.radius, 'radius')} must be at least {least:.6g}"
        )
