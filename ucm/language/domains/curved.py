"""Fixed class masses and one separable convex constraint `h(q) <= r`: roots for lam and theta.

For multipliers lam >= 0 of h and theta_o of the masses, the nearest point and the maximiser are

    project:   q + lam h'(q) = v - theta,        support:   lam h'(q) = g - theta

elementwise. theta is the root of `sum q = mass` for each lam, and lam that of `h(q) = r`; both
functions are monotone. Where h' jumps, the two sides of the jump are mixed: along it h is affine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ucm.data.linear import Vec
from ucm.language import cvx as cp
from ucm.language import masses
from ucm.language.contracts import Capped, Domain, Jacobian, Leveled, SemiSmooth, Size
from ucm.language.domains.simplex import Simplex
from ucm.language.masses import no_entries
from ucm.language.node import Notation

__all__ = ["Curve", "CutSimplex", "Point", "solve"]

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Point:
    """A solution of the optimality conditions at one lam."""

    q: Vec
    w: Any  # dq/du, u = v - theta: an array, or one number for all q > 0
    normal: Vec  # h'(q) where w > 0
    lam: float
    theta: tuple[float, ...]


class Curve(ABC):
    """A separable convex function h on q >= 0, smallest at equal entries when the mass is fixed."""

    @abstractmethod
    def value(self, q: Vec) -> float:
        """h(q)."""

    @abstractmethod
    def prox(self, u: Vec, lam: float) -> tuple[Vec, Vec, Vec]:
        """q with `q + lam h'(q) = u` (or at a bound), dq/du and h'(q)."""

    @abstractmethod
    def tilt(self, u: Vec, lam: float) -> tuple[Vec, Vec, Vec]:
        """q with `lam h'(q) = u` (or at a bound), dq/du and h'(q)."""


Equation = Callable[[Vec, float], tuple[Vec, Vec, Vec]]


def solve(
    equation: Equation,
    curve: Curve,
    v: Vec,
    parts: list[tuple[Any, float]],
    radius: float,
    least: float,
) -> Point:
    """The point with `h(q) = radius`; `equation` is `curve.prox` or `curve.tilt`.

    The caller has made sure that lam > 0. `least` is the smallest value of h: as
    `(h - least)^(-1/2)` is nearly linear in lam (exactly so for the Euclidean norm), Newton's
    method is applied to that.
    """
    theta = [np.nan] * len(parts)
    tops = [float(v[index].max()) for index, _ in parts]
    target = radius - least
    low: tuple[float, float, Point] | None = None  # (lam, h - radius, point) with h > radius
    high: tuple[float, float, Point] | None = None
    lam = max(float(np.ptp(v)) if parts else float(np.abs(v).max()), 1e-300)
    before = np.inf  # length of the last Newton step
    with np.errstate(all="ignore"):
        for _ in range(300):
            for o, (index, mass) in enumerate(parts):
                u = v[index] - tops[o]  # relative to the top entry: exact for huge ones
                theta[o] = _multiplier(equation, u, lam, mass, theta[o])
            point = _mix(equation, v, parts, tops, theta, lam)
            value = curve.value(point.q)
            excess = value - radius
            if excess > 0.0 or np.isnan(excess):
                low = (lam, excess, point)
            else:
                high = (lam, excess, point)
            if abs(excess) <= 8.0 * _EPS * max(abs(radius), abs(target)):
                return point
            slope = _slope(point, parts)
            height = max(value - least, 0.0)
            step = np.nan
            if target > 0.0 and slope > 0.0:
                step = 2.0 * height * (np.sqrt(height / target) - 1.0) / slope
            after = lam + step
            if abs(step) <= 16.0 * _EPS * lam:
                return point
            lo, hi = low[0] if low else 0.0, high[0] if high else np.inf
            outside = not lo < after < hi or not lam / 64.0 <= after <= 64.0 * lam
            if outside or abs(step) > 0.5 * before:  # neither inside nor converging
                after = _between(lo, hi, lam)
                before = np.inf
            else:
                before = abs(step)
            if not lo < after < hi:
                break
            lam = after
    return _join(low, high)


def _between(lo: float, hi: float, lam: float) -> float:
    if hi == np.inf:
        return 16.0 * lam
    if lo == 0.0:
        return lam / 16.0
    return float(np.sqrt(lo * hi)) if hi > 4.0 * lo else 0.5 * (lo + hi)


def _join(low: Any, high: Any) -> Point:
    """The point between both sides of a jump of h."""
    if high is None:
        return low[2]
    if low is None or not np.isfinite(low[1]):
        return high[2]
    share = -high[1] / (low[1] - high[1])
    q = share * low[2].q + (1.0 - share) * high[2].q
    return Point(q, high[2].w, high[2].normal, high[2].lam, high[2].theta)


def _slope(point: Point, parts: list[tuple[Any, float]]) -> float:
    """`-dh/dlam` along the path q(lam): `n' W n` after taking from n its class means."""
    w = point.w
    n = np.where(w > 0.0, point.normal, 0.0)
    for index, _ in parts:
        n[index] -= (w[index] @ n[index]) / max(float(w[index].sum()), 1e-300)
    return float(w @ (n * n))


def _multiplier(equation: Equation, u: Vec, lam: float, mass: float, x: float) -> float:
    """The root x of `sum q(u - x) = mass`, a decreasing function. Right of it the Newton step is
    taken on the logarithm, which is exact where q is exponential in u; left of it on the sum."""
    lo, hi = -np.inf, np.inf
    x = -mass if np.isnan(x) else x
    reach = max(lam, mass)
    before = np.inf
    for _ in range(400):
        q, w, _ = equation(u - x, lam)
        total, slope = float(q.sum()), float(w.sum())
        excess = total - mass
        if abs(excess) <= 4.0 * _EPS * mass:
            return x
        if excess > 0.0 or np.isnan(excess):
            lo = x
            step = excess
        else:
            hi = x
            step = np.log(total / mass) * total if total > 0.0 else np.nan
        step = step / slope if slope > 0.0 else np.nan
        if abs(step) <= 4.0 * _EPS * abs(x):
            return x + step
        after = x + step
        if not np.isfinite(after) or (abs(step) > reach and not (lo > -np.inf and hi < np.inf)):
            after = x + (reach if excess > 0.0 or np.isnan(excess) else -reach)
            reach *= 8.0
        converging = abs(step) <= 0.5 * before or not hi - lo < np.inf
        if lo < after < hi and converging:
            before = abs(step)
        else:
            after = lo + 0.5 * (hi - lo)
            before = np.inf
            if not lo < after < hi:
                return x
        x = after
    return x


def _mix(
    equation: Equation,
    v: Vec,
    parts: list[tuple[Any, float]],
    tops: list[float],
    theta: list[float],
    lam: float,
) -> Point:
    """The point at the roots theta; a class whose sum jumps there is filled from both sides."""
    if not parts:
        return Point(*equation(v, lam), lam, ())
    q, w, normal = np.empty_like(v), np.empty_like(v), np.empty_like(v)
    for (index, mass), top, x in zip(parts, tops, theta, strict=True):
        u = v[index] - top
        q[index], w[index], normal[index] = equation(u - x, lam)
        missing = mass - float(q[index].sum())
        if abs(missing) > 1e-9 * mass:
            nudge = 8.0 * _EPS * max(abs(x), float(np.abs(u).min()), lam) * np.sign(missing)
            other = equation(u - x + nudge, lam)[0]
            gained = float(other.sum() - q[index].sum())
            if gained != 0.0 and 0.0 < missing / gained <= 1.0:
                q[index] += (missing / gained) * (other - q[index])
    theta_ = tuple(float(top + x) for top, x in zip(tops, theta, strict=True))
    return Point(q, w, normal, lam, theta_)


class CutSimplex(SemiSmooth, Leveled):
    """The simplex cut by a ball, `{q >= 0, sum q = 1, h(q) <= r}`; with classes, mass 1/2 in each.

    Where the ball binds, projection and support are the point of the equations above; where it does not,
    those of the simplex `around`.
    """

    @abstractmethod
    def ball(self) -> Domain:
        """The ball alone."""

    @abstractmethod
    def around(self, dim: int) -> Capped:
        """The simplex around it, with a cap where h is finite only below one."""

    @abstractmethod
    def _solve(self, v: Vec, classes: Vec | None, *, prox: bool) -> tuple[Vec, Point | None]:
        """The nearest point (prox) or a maximiser, and its multipliers where the ball binds."""

    @abstractmethod
    def _too_small(self, dim: int, classes: Vec | None) -> str | None:
        """Why the ball misses the simplex, if it does."""

    def _cut(
        self,
        v: Vec,
        classes: Vec | None,
        prox: bool,
        height: Callable[[Vec], float],
        radius: float,
        root: Callable[[float], Point],
        slack: float = 0.0,
    ) -> tuple[Vec, Point | None]:
        """What `_solve` answers: the solution without the ball if it is inside of it, the one point that
        the least ball leaves, or the root of the equations, given the least height."""
        around = self.around(v.size)
        q = around.project(v, classes=classes) if prox else around.support(v, classes=classes)[1]
        if height(q) <= radius:
            return q, None
        q = masses.uniform(v.size, classes)
        least = height(q)
        if radius <= least + slack * abs(least):  # it does not move, and has no multiplier
            theta = (-np.inf,) * len(masses.counts(v.size, classes))
            return q, Point(q, 0.0, q, np.inf, theta)
        point = root(least)
        return point.q, point

    def project(self, v: Vec, out: Vec | None = None, *, classes: Vec | None = None) -> Vec:
        return masses.delivered(self._solve(masses.vector(v), classes, prox=True)[0], out)

    def jacobian(self, v: Vec, *, classes: Vec | None = None) -> Jacobian:
        q, point = self._solve(masses.vector(v), classes, prox=True)
        if point is None:
            return self.around(q.size).jacobian_at(q, classes)
        w = point.w if isinstance(point.w, np.ndarray) else np.where(q > 0.0, point.w, 0.0)
        return masses.jacobian(w, masses.groups(q.size, classes), point.normal)

    def support(self, g: Vec, *, classes: Vec | None = None) -> tuple[float, Vec]:
        g = masses.vector(g)
        q = self._solve(g, classes, prox=False)[0]
        return float(g @ q), q

    def levels(self, g: Vec, *, classes: Vec | None = None) -> list[tuple[float, float]]:
        g = masses.vector(g)
        point = self._solve(g, classes, prox=False)[1]
        if point is None:
            return self.around(g.size).levels(g, classes=classes)
        # one multiplier; at the smallest ball none: theta falls without bound, from the class mean of g
        return [
            (x, x) if x > -np.inf else (x, float(g[index].mean()))
            for x, (index, _) in zip(point.theta, masses.groups(g.size, classes), strict=True)
        ]

    def violation(self, q: Vec, *, classes: Vec | None = None) -> float:
        q = masses.vector(q)
        return masses.snap(max(masses.outside(q, classes), self.ball().violation(q)))

    def center(self, dim: int, *, classes: Vec | None = None) -> Vec:
        return masses.uniform(dim, classes)

    def emptiness(self, dim: int, *, classes: Vec | None = None) -> str | None:
        return no_entries(self, dim, classes) or self._too_small(dim, classes)

    def size(self) -> Size | None:
        return self.ball().size()

    def constraints(
        self, q: cp.Expression, size: Any, *, classes: Vec | None = None
    ) -> list[cp.Constraint]:
        return [*masses.constraints(q, classes), *self.ball().constraints(q, size)]

    def on_simplex(self) -> Domain | None:
        return self

    def formula(self, notation: Notation) -> str:
        return f"{Simplex().formula(notation)}, {self.ball().formula(notation)}"
