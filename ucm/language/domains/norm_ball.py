"""Norm balls, and their intersections with the simplex."""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import numpy as np
from scipy import sparse

from ucm import native
from ucm.data.linear_map import Vec
from ucm.language import cvx as cp
from ucm.language.contracts import (
    ROUNDING,
    BoundDomain,
    Domain,
    Index,
    Jacobian,
    Polyhedron,
    SampleWeights,
    SemiSmooth,
    Size,
    jacobian,
    vector,
)
from ucm.language.domains.box import Box
from ucm.language.domains.separable_constraint import (
    FAR,
    KKTPoint,
    SeparableFunction,
    SimplexSublevelSet,
    scaled,
    solve,
)
from ucm.language.domains.simplex import Capped, clip_to_mass, kinks
from ucm.language.node import Notation, number_in, restricted
from ucm.language.parameter import Scalar, named, subject, value
from ucm.language.power import power_root

_EPS = float(np.finfo(float).eps)


def norm(q: Vec, p: float) -> float:
    """Return `||q||_p` without overflow or underflow of the powers."""
    top = float(np.abs(q).max(initial=0.0))
    if top == 0.0 or p == math.inf:
        return top
    scaled = np.abs(q) / top
    return top * float((scaled**p).sum() ** (1.0 / p))


class PowerFunction(SeparableFunction):
    """The separable function `h(q) = (r / p) sum (|q_i - middle| / r)^p` of a p-norm ball, on q >= 0.

    Here 1 <= p < inf; the middle is 0 or the entry 1/N of the uniform distribution.

    Where the norm is the radius r, h is r / p, the entries of `(q - middle) / r` are at most 1 and that of
    the gradient for the largest is at least 1 / N: no power overflows, and what vanishes is below rounding.
    With weights c it is `(r / p) sum c (|q / c - middle| / r)^p`.

    Notes
    -----
    Ito, Takeda and Toh (2015), section 4.3, for p = 2: their bracket for the multiplier is replaced by
    `q(t) = P_simplex(t v)` with a closed form for t on each linear piece. The maximiser for p = 1, where the
    radius is twice the total variation, moves mass from the smallest entries of g to the largest.
    """

    unit = 0.0

    def __init__(self, p: float, radius: float, samples: SampleWeights, *, uniform: bool = False) -> None:
        self.p, self.r, self.samples, self.weights = p, radius, samples, samples.weights
        self.middle = 1.0 / samples.total if uniform else 0.0
        self.flat = p > 2.0 and not uniform
        self.exponent = None if uniform else p - 1.0
        reach = samples.total ** (1.0 / p - 1.0) if uniform else 0.0
        self.condition = p * (1.0 + reach / radius) if radius else math.inf
        self.d = _units(samples, p)
        self.center = self.middle * samples.c

    @property
    def euclidean(self) -> bool:
        """True for the norm `||q||_2` around 0, without sample weights."""
        return self.p == 2.0 and not self.middle and self.weights is None

    def height(self, q: Vec) -> float:
        return norm(self.d * (q - self.center), self.p)

    def rounding(self, q: Vec) -> float:
        return _EPS * norm(self.d * (np.zeros(q.size) + 2.0 * self.center), self.p)  # of q - 1/N

    def value(self, q: Vec) -> float:
        c = 1.0 if self.weights is None else self.weights
        with np.errstate(over="ignore"):
            each = c * (np.abs(q / c - self.middle) / self.r) ** self.p
        return self.r / self.p * float(each.sum())

    def prox(self, u: Vec, lam: float) -> tuple[Vec, Vec, Vec]:
        p, c, away = self.p, lam / self.r, u - self.middle
        sign, x = np.sign(away), power_root(np.abs(away) / self.r, c, p - 1.0)
        q = self.middle + self.r * sign * x
        # 1 / (1 + c (p-1) x^(p-2)), written without a negative power of 0
        if p >= 2.0:
            w = 1.0 / (1.0 + c * (p - 1.0) * x ** (p - 2.0))
        else:
            smooth = x ** (2.0 - p)
            w = smooth / (smooth + c * (p - 1.0))
        return np.maximum(q, 0.0), np.where(q > 0.0, w, 0.0), sign * x ** (p - 1.0)

    def tilt(self, u: Vec, lam: float) -> tuple[Vec, Vec, Vec]:
        normal = u / lam
        x = self.r * np.abs(normal) ** (1.0 / (self.p - 1.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            w = np.where(u == 0.0, 0.0, x / ((self.p - 1.0) * np.abs(u)))
        q = self.middle + np.sign(u) * x
        return np.maximum(q, 0.0), np.where(q > 0.0, w, 0.0), normal

    def compiled(
        self, v: Vec, samples: SampleWeights, radius: float, prox: bool
    ) -> tuple[Vec, KKTPoint | None] | None:
        if not self.euclidean:
            return None
        q, found, work = np.empty_like(v), np.empty(3), np.empty(2 * v.size)
        labels, limit, unit = samples.labels, 1.0 if prox else math.inf, 1.0
        project = native.library.project_ball_simplex
        project(v.size, v, labels.size, labels, radius, limit, q, found, work)
        if math.isnan(found[0]):
            v, unit = scaled(v, samples.groups, prox)
            project(v.size, v, labels.size, labels, radius, limit, q, found, work)
        t, *levels = found.tolist()
        if t >= limit:
            return q, None
        t /= unit
        return q, KKTPoint(q, t, q, t, tuple(unit * x for x in levels[: len(samples.groups)]))

    def root(self, v: Vec, samples: SampleWeights, radius: float, least: float, prox: bool) -> KKTPoint:
        p, r = self.p, radius
        is_least = r <= least + ROUNDING * abs(least)
        if p == 1.0 and (least > 0.0 or not is_least):
            move = _spread if prox else _moved
            point = move(v, np.zeros(v.size) + self.center, samples.groups, least if is_least else r)
            if prox or not is_least:
                return point
            # one of many points with this distance
            return replace(super().root(v, samples, r, least, prox), q=point.q)
        if is_least:
            return super().root(v, samples, r, least, prox)
        if p == 2.0 and self.middle:
            return self._sphere(v, least, prox)
        return super().root(v, samples, r / p, (r / p) * (least / r) ** p, prox)

    @functools.cached_property
    def _around_0(self) -> tuple[SimplexSublevelSet, Vec]:
        """The same points of the simplex as a ball around 0, and the uniform vectors of the classes."""
        samples, radius = self.samples, math.hypot(self.r, math.sqrt(self.middle))
        h = PowerFunction(2.0, radius, samples)
        return SimplexSublevelSet(NormBall(radius), samples, radius, h), samples.uniform()

    def _sphere(self, v: Vec, least: float, prox: bool) -> KKTPoint:
        """Return the projection (prox) or the maximiser on the Euclidean ball around 1/N.

        It is that of a ball around 0, as `||q - 1/N||^2 = ||q||^2 - 1/N` for fixed masses. Where all q > 0,
        its distance from 1/N is then corrected to the radius, which may be small: `q - u`, u the uniform
        vectors of the classes, is orthogonal to `u - 1/N`.
        """
        r, samples, (ball, u) = self.r, self.samples, self._around_0
        q, point = ball.solve(v, prox=prox)
        away = norm(self.d * (q - u), 2.0) if q.min() > 0.0 else 0.0
        reach = math.sqrt(max(r - least, 0.0) * (r + least))
        if abs(reach - away) > 1e-3 * reach:  # it does not lie on the sphere, or q reaches 0
            reach = away = 1.0
        q = u + (reach / away) * (q - u)
        if point is None:
            return KKTPoint(q, 1.0, q, 0.0, (np.nan,) * len(samples.groups))
        return replace(point, q=q, normal=q / samples.c)


class NormBall(Domain, SemiSmooth):
    """The p-norm ball `{||q||_p <= radius}`, or `{||q - 1/N||_p <= radius}` around the uniform distribution.

    Weights c of samples make it `sum c_i |q_i / c_i|^p <= radius^p`, and N their sum.

    Parameters
    ----------
    radius : float or Param
        Non-negative.
    p : float, optional
        1 <= p <= inf.
    around : None or "uniform", optional
        The centre: 0, or 1/N for each of the N entries.

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

    radius: Scalar = number_in("[0, inf]", "radius", "write NormBall(0.5)")
    p: float = number_in("[1, inf]", "p", "write 2.0 for the Euclidean norm", default=2.0)
    around: str | None = restricted(
        lambda x: x in (None, "uniform"),
        'around is None (the ball around 0) or "uniform"',
        "the ball around another point is AffineImage(A, NormBall(radius), center=...)",
        default=None,
    )

    @property
    def euclidean(self) -> bool:
        """True for the Euclidean ball around 0, `{||q||_2 <= radius}`."""
        return self.p == 2.0 and self.around is None

    def _middle(self, dim: int) -> float:
        """Return the value of every entry of the centre: 0, or 1/dim."""
        return 1.0 / dim if self.around else 0.0

    def _exponent(self, dim: int) -> float:
        """Return p, or inf in dimension 1, where all p-norms are equal."""
        return math.inf if dim == 1 else self.p

    def bind(self, samples: SampleWeights) -> BoundDomain:
        radius, p = value(self.radius), self.p
        if self.around is None and p == 1.0:  # 1 for every distribution
            return Capped(self, samples, math.inf if radius >= 1.0 - ROUNDING else -math.inf)
        if p < math.inf:
            h = PowerFunction(p, radius, samples, uniform=self.around is not None)
            return SimplexSublevelSet(self, samples, radius, h)
        middle = 1.0 / samples.total if self.around else 0.0
        return Capped(self, samples, middle + radius, max(middle - radius, 0.0))

    def inside(self, q: cp.Expression, size: cp.Expression, samples: SampleWeights) -> list[cp.Constraint]:
        if samples.weights is None:
            return self.cvxpy(q, size)
        if self.around is not None:
            q = q - samples.weights / samples.total
        return replace(self, around=None).cvxpy(cp.multiply(_units(samples, self.p), q), size)

    def _solve(self, v: Vec) -> tuple[Vec, Vec, Vec | None]:
        """Return the projection on the ball around 0, its derivative dq/du and a normal (or None).

        The normal is the gradient of the norm where the bound is active, in the cases that need one.
        """
        p, radius = self._exponent(v.size), value(self.radius)
        size = np.abs(v)
        length = norm(v, p)
        if length <= radius:
            return v.copy(), np.ones(v.size), None
        if radius == 0.0:
            return np.zeros(v.size), np.zeros(v.size), None
        if p == math.inf:
            return np.clip(v, -radius, radius), (size < radius).astype(float), None
        if p == 2.0:
            factor = radius / length
            q = factor * v if factor > np.finfo(float).tiny else radius * (v / length)
            return q, np.full(v.size, factor), q
        sign = np.sign(v)
        if p == 1.0:
            ref, shift = native.threshold(size, np.inf, radius)  # Newton's method (Cominetti et al. 2014)
            q = sign * np.maximum((size - ref) - shift, 0.0)
            return q, (q != 0.0).astype(float), sign
        # scaled to the unit ball; h'' and h' are those of the scaled point
        unscaled = size * (FAR / length) if length > FAR * radius else size / radius
        h = PowerFunction(p, 1.0, SampleWeights(v.size))
        point = solve(h, unscaled, [(slice(None), None)], 1.0 / p, 0.0, prox=True)
        w = np.where(size > 0.0, point.w, float(p > 2.0))  # 1 / (1 + lam (p - 1) 0^(p - 2)) at 0
        return radius * sign * point.q, w, sign * point.normal

    def project(self, v: Vec) -> Vec:
        v, c = vector(v), self._middle(np.size(v))
        return c + self._solve(v - c)[0]

    def jacobian(self, v: Vec) -> Jacobian:
        v = vector(v)
        _, w, normal = self._solve(v - self._middle(v.size))
        return jacobian(w, [], normal)

    def support(self, g: Vec) -> tuple[float, Vec]:
        g = vector(g)
        radius, p = value(self.radius), self._exponent(g.size)
        top = float(np.abs(g).max(initial=0.0))
        if top == 0.0:
            q = np.zeros(g.size)
        elif p == 1.0:
            q = np.sign(g) * (np.abs(g) == top)
            q *= radius / np.abs(q).sum()
        elif p == math.inf:
            q = radius * np.sign(g)
        else:
            q = np.sign(g) * (np.abs(g) / top) ** (1.0 / (p - 1.0))
            q *= radius / norm(q, p)
        q += self._middle(g.size)
        return float(g @ q), q

    def center(self, dim: int) -> Vec:
        return np.full(dim, self._middle(dim))

    def infeasibility_reason(self, dim: int) -> str | None:
        if value(self.radius) < 1e150:
            return None
        radius, name = named(self.radius, "radius"), subject(self.radius, "radius")
        return f"{self!r}: unbounded, {radius}; {name} must be below 1e150"

    def size(self) -> Size:
        return Size(self.radius)

    def cvxpy(self, q: cp.Expression, size: cp.Expression) -> list[cp.Constraint]:
        p = self._exponent(q.size)
        if self.around is not None:
            q = q - self._middle(q.size)
        if p == 2.0:
            return [cp.norm2(q) <= size]
        if p in (1.0, math.inf):
            return [cp.norm(q, 1 if p == 1.0 else "inf") <= size]
        return [cp.pnorm(q, p, approx=False) <= size]

    def polyhedron(self, dim: int) -> Polyhedron | None:
        r, c, p = value(self.radius), self._middle(dim), self._exponent(dim)
        if p == math.inf:
            return Box(c - r, c + r).polyhedron(dim)
        if p != 1.0:
            return None
        eye = sparse.eye_array(dim)  # |q - c| <= t, sum t <= r
        A = sparse.csr_array(sparse.block_array([[eye, -eye], [-eye, -eye], [None, np.ones((1, dim))]]))
        lower = np.concatenate([np.full(dim, c - r), np.zeros(dim)])
        upper = np.concatenate([np.full(dim, c + r), np.full(dim, r)])
        most = np.concatenate([np.full(dim, c), np.full(dim, -c), [r]])
        return Polyhedron(lower, upper, A, np.full(most.size, -np.inf), most)

    def too_small(self, samples: SampleWeights, least: float) -> str:
        alone = self.p == 1.0 and self.around is None  # the norm of every distribution is 1
        return super().too_small(samples, 1.0 if alone else least)

    def formula(self, notation: Notation) -> str:
        index = "inf" if self.p == math.inf else f"{self.p:.6g}"
        q = "q" if self.around is None else f"q - 1/{notation.total}"
        return notation.norm(q, index) + notation.leq + notation.scalar(self.radius)


def _units(samples: SampleWeights, p: float) -> float | Vec:
    """Return the factors d of the constraint `||d q||_p <= radius`: `c^(1/p - 1)`, 1 without weights."""
    return 1.0 if samples.weights is None else samples.weights ** (1.0 / p - 1.0)


def _spread(v: Vec, c: Vec, parts: list[tuple[Index, float]], radius: float) -> KKTPoint:
    """Return the nearest point to v with `sum |q - c| = radius`, fixed class masses and q >= 0.

    `q = c + (v - c - a)_+ - min(c, (c - v + b)_+)` in each class. Its mass and its distance t from c say what
    both terms sum to, and so a and b. Two classes have one `a - b`, twice the multiplier of the ball: their
    t are piecewise linear in it, and sum to the radius.
    """
    v, _ = scaled(v, parts, True)
    terms: list[tuple[float, tuple[Vec, Vec], tuple[Vec, Vec]]] = []
    for index, total in parts:
        entries, base = v[index], c[index]
        excess = total - float(base.sum())
        up, down = entries - entries.max() - base, entries.min() - entries + base
        roof = np.full(
            entries.size, 2.0 * (radius + abs(excess))
        )  # no bound, and no corner of the other term
        terms.append((excess, (up, roof), (down, base)))
    distances = [radius]
    if len(terms) > 1:
        wide = [float(np.ptp(v[index])) for index, _ in parts]
        (x, t), (z, s) = (_distances(*term, w) for term, w in zip(terms, wide, strict=True))
        both = np.sort(np.concatenate([x, z]))
        first, second = np.interp(both, x, t), np.interp(both, z, s)
        entries = float(np.interp(np.interp(-radius, -(first + second), both), x, t))
        entries = min(entries, radius - abs(terms[1][0]))
        distances = [entries, radius - entries]
    q, w, normal = c.copy(), np.zeros(v.size), np.zeros(v.size)
    grain = ROUNDING * radius
    for (index, _), (excess, up, down), t in zip(parts, terms, distances, strict=True):
        more = clip_to_mass(*up, max(0.5 * (t + excess), 0.0))
        less = clip_to_mass(*down, max(0.5 * (t - excess), 0.0))
        q[index] += more - less
        w[index] = (more > grain) | ((less > grain) & (less < c[index] - grain))
        normal[index] = np.sign(more - less)
    return KKTPoint(q, w, normal, 0.0, ())


def _distances(excess: float, up: tuple[Vec, Vec], down: tuple[Vec, Vec], wide: float) -> tuple[Vec, Vec]:
    """Return the breakpoints (a - b, t) of the distance t of a class from c, with `a - b` ascending."""
    (more, a), (less, b) = kinks(*up), kinks(*down)
    t = np.concatenate([2.0 * more - excess, 2.0 * less + excess])
    x = np.concatenate([a + np.interp(more - excess, less, b), np.interp(less + excess, more, a) + b])
    order = np.argsort(x, kind="stable")
    return wide + x[order], np.maximum(t[order], abs(excess))


def _moved(g: Vec, c: Vec, parts: list[tuple[Index, float]], radius: float) -> KKTPoint:
    """Return the maximiser of `<g, q>` with `sum |q - c| = radius`, fixed class masses and q >= 0."""
    q, gain, top = c.copy(), np.empty(g.size), np.zeros(g.size, dtype=bool)
    distance = radius
    for index, total in parts:
        part, entries = g[index], q[index].copy()
        highest = part.max()
        top[index] = part == highest
        gain[index] = highest - part
        excess = entries.sum() - total
        distance -= abs(excess)
        if excess > 0.0:
            order = np.argsort(part, kind="stable")
            before = np.cumsum(entries[order]) - entries[order]
            entries[order] -= np.clip(excess - before, 0.0, entries[order])
            q[index] = entries
    order = np.argsort(-gain, kind="stable")
    before = np.cumsum(q[order]) - q[order]
    moved = np.empty(g.size)
    moved[order] = np.clip(0.5 * distance - before, 0.0, q[order])
    moving = (moved > 0.0) & ~top
    lam = 0.5 * float(gain[moving].min(initial=np.inf))
    q -= moved
    theta = []
    for index, total in parts:
        entries, high = q[index].copy(), top[index]
        entries[high] += (total - entries.sum()) / np.count_nonzero(high)
        q[index] = entries
        theta.append(float(g[index].max()) - (lam if np.isfinite(lam) else 0.0))
    return KKTPoint(np.maximum(q, 0.0), 0.0, q, lam, tuple(theta))
