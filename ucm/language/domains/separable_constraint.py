"""Projection and support for fixed class masses and one separable convex constraint `h(q) <= r`.

For multipliers lam >= 0 of h and theta_o of the masses, the nearest point and the maximiser are

    project:   q + lam h'(q) = v - theta,        support:   lam h'(q) = g - theta

elementwise. theta is the root of `sum q = mass` for each lam, and lam that of `h(q) = r`; both
functions are monotone. Where h' jumps, the two sides of the jump are mixed: along it h is affine.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ucm.data.linear_map import Vec
from ucm.language.contracts import (
    ROUNDING,
    BoundSimplex,
    Domain,
    Index,
    Jacobian,
    SampleWeights,
    jacobian,
    round_violation,
    vector,
)
from ucm.language.domains.simplex import Capped

_EPS = float(np.finfo(np.float64).eps)
FAR = 1e100
_MANY = 1e3  # the multiple of the mass up to which Newton's step is taken on the sum
_STEPS = 300  # the largest number of values of lam
_GRAIN = 4.0 * _EPS  # the smallest step of lam, relative to lam


@dataclass(frozen=True)
class KKTPoint:
    """A point q with the multipliers lam of `h(q) <= r` and theta of the class masses."""

    q: Vec
    w: float | Vec  # dq/du, u = v - theta: an array, or one number for all q > 0
    normal: Vec  # h'(q) where w > 0
    lam: float
    theta: tuple[float, ...]


class SeparableFunction(ABC):
    """A separable convex function h on q >= 0, smallest at the uniform distribution for fixed mass."""

    exponent: float | None = None  # k, the k-th power of a tilted sum q is nearly linear in theta; 0: its log
    condition: float = 1.0  # relative error of h(q) for one of q
    weights: Vec | None = None  # c of `h(q) = sum c_i h_1(q_i / c_i)`, `prox` and `tilt` of h_1; None for 1
    cap: float = np.inf  # the largest entry of a sample that counts once where h is finite
    unit: float = 1.0  # the least size of a radius that counts in relative errors
    flat: bool = False  # the height is the radius to rounding also far from the uniform distribution

    def height(self, q: Vec) -> float:
        """Return the value that the radius bounds: h(q), or an increasing function of h(q)."""
        return self.value(q)

    def rounding(self, q: Vec) -> float:
        """Return a bound of the rounding error of `height(q)`."""
        return 0.0

    def compiled(
        self, v: Vec, samples: SampleWeights, radius: float, prox: bool
    ) -> tuple[Vec, KKTPoint | None] | None:
        """Return the compiled solution and its multipliers (None if inactive); None without compiled code."""
        return None

    def root(self, v: Vec, samples: SampleWeights, radius: float, least: float, prox: bool) -> KKTPoint:
        """Return the nearest point to v (prox) or the maximiser of `<v, q>` at height `radius` >= `least`."""
        if radius > least + ROUNDING * abs(least):
            return solve(self, v, samples.groups, radius, least, prox=prox)
        q = samples.uniform()
        return KKTPoint(q, 0.0, q, np.inf, (-np.inf,) * len(samples.groups))

    def equation(self, prox: bool, index: Index = slice(None)) -> Equation:
        """Return `prox` or `tilt` for the entries `index`, with their sample weights c, by s = q / c."""
        root = self.prox if prox else self.tilt
        if self.weights is None:
            return root
        c = self.weights[index]

        def near(u: Vec, lam: float) -> tuple[Vec, Vec, Vec]:
            s, w, normal = root(u / c, lam / c)  # type: ignore[arg-type]
            return c * s, w, normal

        def far(u: Vec, lam: float) -> tuple[Vec, Vec, Vec]:
            s, w, normal = root(u, lam)
            return c * s, c * w, normal

        return near if prox else far

    @abstractmethod
    def value(self, q: Vec) -> float:
        """Return the value h(q)."""

    @abstractmethod
    def prox(self, u: Vec, lam: float) -> tuple[Vec, Vec, Vec]:
        """Return the solution q of `q + lam h'(q) = u` (or q at a bound), dq/du and h'(q), by entry."""

    @abstractmethod
    def tilt(self, u: Vec, lam: float) -> tuple[Vec, Vec, Vec]:
        """Return the solution q of `lam h'(q) = u` (or q at a bound), dq/du and h'(q)."""


Equation = Callable[[Vec, float], tuple[Vec, Vec, Vec]]
Masses = Sequence[tuple[Index, float | None]]


def solve(
    h: SeparableFunction, v: Vec, parts: Masses, radius: float, least: float, *, prox: bool
) -> KKTPoint:
    """Return the nearest point to v (prox) or the maximiser of `<v, q>` with `h(q) = radius`, for lam > 0.

    A mass of None is free: theta = 0. `least` is the smallest value of h. As `(h - least)^(-1/2)` is
    nearly linear in lam (exactly so for the Euclidean norm), Newton's method is applied to that, in a
    bracket.
    """
    equations = [h.equation(prox, index) for index, _ in parts]
    exponent = None if prox else h.exponent
    v, unit = scaled(v, parts, prox)
    theta = [np.nan] * len(parts)
    tops = [0.0 if mass is None else float(v[index].max()) for index, mass in parts]
    target = radius - least
    close = 8.0 * _EPS * h.condition * max(abs(radius), abs(target))
    ends: list[KKTPoint | None] = [None, None]  # the last points with h above and below the radius

    least_start = 1e-9 / v.size if prox else 1e-300  # of the size of q, where (u - q) / lam cancels less
    lam = max(float(np.ptp(v)), float(v.max() - max(tops)), least_start)
    low, high, before = 0.0, np.inf, np.inf
    with np.errstate(all="ignore"):
        for _ in range(_STEPS):
            point = _mix(equations, v, parts, tops, theta, lam, exponent)
            excess = h.value(point.q) - radius
            if abs(excess) <= close:
                ends[:] = point, point
                break
            below = bool(excess < 0.0)
            ends[int(below)] = point
            low, high = (low, lam) if below else (lam, high)
            means, fall = _slopes(point, parts)
            height = max(excess / target, -1.0) + 1.0
            step = 2.0 * height * (np.sqrt(height) - 1.0) * target / fall
            if abs(step) <= _GRAIN * lam:  # to the other side of the root
                step = -_GRAIN * lam if below else _GRAIN * lam
            after = lam + step
            close_by = lam <= 64.0 * after and after <= 64.0 * lam
            if low < after < high and close_by and abs(step) <= 0.5 * before:
                before = abs(step)
            else:
                after = lam / 16.0 if low == 0.0 else np.sqrt(low) * np.sqrt(high)
                after = 16.0 * lam if high == np.inf else after
                before = np.inf
            if not (low < after < high and after < np.inf and high - low > _GRAIN * lam):
                break
            moved = [x - mean * (after - lam) for x, mean in zip(theta, means, strict=True)]
            theta[:] = [x if np.isnan(new) else new for x, new in zip(theta, moved, strict=True)]
            lam = float(after)
        return _unscaled(_filled(_join(ends, radius, h), parts), unit)


def _slopes(point: KKTPoint, parts: Masses) -> tuple[list[np.float64], np.float64]:
    """Return the w-means of h' and the squares about them: minus the derivatives of theta and h in lam."""
    means, fall = [], np.float64(0.0)
    for index, mass in parts:
        w = np.broadcast_to(point.w, point.q.shape)[index]
        normal = np.where(w > 0.0, point.normal[index], 0.0)
        means.append(np.float64(0.0) if mass is None else (w @ normal) / w.sum())
        fall += w @ np.square(normal - means[-1])
    return means, fall


def soft(h: SeparableFunction, g: Vec, parts: Masses, lam: float) -> KKTPoint:
    """Return the maximiser of `<g, q> - lam h(q)` with the class masses in `parts`."""
    equations = [h.equation(False, index) for index, _ in parts]
    tops = [float(g[index].max()) for index, _ in parts]
    with np.errstate(all="ignore"):
        point = _mix(equations, g, parts, tops, [np.nan] * len(parts), lam, h.exponent)
    return _filled(point, parts)


def scaled(v: Vec, parts: Masses, prox: bool) -> tuple[Vec, float]:
    """Return v divided by a power of 2 so that no square overflows or underflows, and that power.

    A maximiser does not depend on the unit; the unit is near the spread of v. Nor does, to rounding, the
    nearest point to a v whose spread exceeds `FAR`: it is a maximiser, too.
    """
    with np.errstate(over="ignore"):
        reach = max(float(np.ptp(v[index])) for index, _ in parts)
    if reach == np.inf and np.isfinite(v).all():
        half, unit = scaled(0.5 * v, parts, prox)
        return half, 2.0 * unit
    if not 0.0 < reach < np.inf or (prox and reach <= FAR):
        return v, 1.0
    power = int(np.frexp(reach / FAR if prox else reach)[1])
    return np.ldexp(v, -power), float(np.ldexp(1.0, power))


def _filled(point: KKTPoint, parts: Masses) -> KKTPoint:
    """Return the point with q rescaled in each class whose sum misses its mass by more than 1e-9 of it."""
    q = point.q
    for index, target in parts:
        total = float(q[index].sum())
        if target is not None and abs(total - target) > 1e-9 * target and 0.0 < total < np.inf:
            q = q.copy()
            q[index] *= target / total
    return point if q is point.q else replace(point, q=q)


def _unscaled(point: KKTPoint, unit: float) -> KKTPoint:
    if unit == 1.0:
        return point
    theta = tuple(unit * x for x in point.theta)
    return replace(point, w=point.w / unit, lam=unit * point.lam, theta=theta)


def _join(ends: list[KKTPoint | None], radius: float, h: SeparableFunction) -> KKTPoint:
    """Return the point with `h(q) = radius` between those beside a jump of h, or the only one."""
    high, low = ends
    if high is None or low is None or high is low:
        return next(point for point in ends if point is not None)
    above, below = h.value(high.q) - radius, h.value(low.q) - radius
    if not np.isfinite(above):
        return low
    fraction = -below / (above - below)
    return replace(low, q=fraction * high.q + (1.0 - fraction) * low.q)


def _multiplier(
    equation: Equation, u: Vec, lam: float, mass: float, x: float, exponent: float | None
) -> tuple[float, float]:
    """Return the root x of `sum q(u - x) = mass` as a pair (left, right), equal unless the sum jumps.

    The sum decreases in x. Newton's step is taken on the power `exponent` of the sum, for exponent 0 on its
    logarithm, which is exact where q is exponential in u. For None, it is taken on the sum to the left of the
    root and near it, else on the logarithm.
    """
    lo, hi = -np.inf, np.inf
    x = -mass if np.isnan(x) else x
    reach = max(lam, mass, 0.125 * abs(x))
    before = np.inf
    for _ in range(400):
        q, w, _ = equation(u - x, lam)
        total, slope = float(q.sum()), float(w.sum())
        excess = total - mass
        if abs(excess) <= 4.0 * _EPS * mass:
            return x, x
        above = excess > 0.0 or np.isnan(excess)
        if above:
            lo = x
        else:
            hi = x
        k = float(above and total < _MANY * mass) if exponent is None else exponent
        step = np.nan
        if k == 1.0:
            step = excess
        elif total > 0.0:
            log = float(np.log(total / mass))
            step = total * (log if k == 0.0 else -np.expm1(-k * log) / k)
        step = step / slope if slope > 0.0 else np.nan
        after = x + step
        grain = 4.0 * _EPS * max(abs(x), _EPS * lam)
        if abs(step) <= grain:
            if abs(excess) <= 1e-9 * mass:
                return after, after
            after = x + (grain if above else -grain) if slope < np.inf else np.nan
        if not np.isfinite(after) or (abs(step) > reach and not (lo > -np.inf and hi < np.inf)):
            after = x + (reach if above else -reach)
            reach *= 8.0
        converging = abs(step) <= 0.5 * before or not hi - lo < np.inf
        if lo < after < hi and converging:
            before = abs(step)
        else:
            after = lo + 0.5 * (hi - lo)
            if lo < 4.0 * hi < 0.0:
                after = -float(np.sqrt(lo / hi)) * abs(hi)
            before = np.inf
            if hi - lo <= grain or not lo < after < hi:
                return (lo, hi) if hi - lo < np.inf else (x, x)
        x = after
    return x, x


def _mix(
    equations: list[Equation],
    v: Vec,
    parts: Masses,
    tops: list[float],
    theta: list[float],
    lam: float,
    exponent: float | None,
) -> KKTPoint:
    """Return the point of exact class masses at lam, across a jump a mixture, and update the roots theta."""
    q, w, normal = np.empty_like(v), np.empty_like(v), np.empty_like(v)
    each = zip(parts, tops, equations, strict=True)
    for o, ((index, mass), top, equation) in enumerate(each):
        u = v[index] - top  # relative to the top entry: exact for huge ones
        if mass is None:
            q[index], w[index], normal[index] = equation(u, lam)
            theta[o] = 0.0
            continue
        left, right = _multiplier(equation, u, lam, mass, theta[o], exponent)
        theta[o] = right
        q_o, w_o, normal_o = equation(u - right, lam)
        missing = mass - float(q_o.sum())
        if left < right:
            more = equation(u - left, lam)[0] - q_o
            fraction = missing / float(more.sum())
            if 0.0 < fraction <= 1.0:
                q_o = q_o + fraction * more
        elif abs(missing) <= 1e-6 * mass:  # what theta cannot resolve, to first order
            most = float(w_o.sum())
            if 0.0 < most < np.inf:
                q_o = np.maximum(q_o + (missing / most) * w_o, 0.0)
        q[index], w[index], normal[index] = q_o, w_o, normal_o
    theta_ = tuple(float(top + x) for top, x in zip(tops, theta, strict=True))
    return KKTPoint(q, w, normal, lam, theta_)


class SimplexSublevelSet(BoundSimplex):
    """The intersection of a simplex and a ball, `{q >= 0, sum q = mass, height(q) <= radius}`."""

    def __init__(self, declared: Domain, samples: SampleWeights, radius: float, h: SeparableFunction) -> None:
        self.declared, self.samples, self.radius, self.h = declared, samples, radius, h

    @functools.cached_property
    def least(self) -> float:
        """The smallest radius for which the set is not empty."""
        return self.h.height(self.samples.uniform())

    @functools.cached_property
    def is_point(self) -> bool:
        """True if only the uniform distribution is inside: `flat` h at its least radius, despite rounding."""
        return self.h.flat and self.radius <= self.least * (1.0 + ROUNDING)

    @functools.cached_property
    def simplex(self) -> Capped:
        """The capped simplex without the ball, on which h is finite."""
        return Capped(self.declared, self.samples, self.h.cap)

    def _vertex(self, g: Vec) -> Vec:
        """Return a maximiser of `<g, q>` on the simplex without the ball, of least height among ties."""
        c = self.samples.weights
        if c is None or self.h.cap < np.inf:
            return self.simplex.support(g)[1]
        return Capped(self.declared, self.samples, 1.0 / float(c.min())).support(g)[1]

    def solve(self, v: Vec, *, prox: bool) -> tuple[Vec, KKTPoint | None]:
        """Return the nearest point (prox) or a maximiser, and the KKT point if the ball is active."""
        h, radius = self.h, self.radius
        if not self.is_point:
            solution = h.compiled(v, self.samples, radius, prox)
            if solution is not None:
                return solution
            q = self.simplex.project(v) if prox else self._vertex(v)
            if h.height(q) <= radius:
                return q, None
        point = h.root(v, self.samples, radius, self.least, prox)
        return point.q, point

    def project(self, v: Vec) -> Vec:
        return self.solve(vector(v), prox=True)[0]

    def jacobian(self, v: Vec) -> Jacobian:
        q, point = self.solve(vector(v), prox=True)
        if point is None:
            return self.simplex.jacobian_at(q)
        w = point.w if isinstance(point.w, np.ndarray) else np.where(q > 0.0, point.w, 0.0)
        return jacobian(w, self.samples.groups, point.normal)

    def support(self, g: Vec) -> tuple[float, Vec]:
        g = vector(g)
        q = self.solve(g, prox=False)[0]
        return float(g @ q), q

    def mass_multipliers(self, g: Vec) -> list[tuple[float, float]]:
        g = vector(g)
        point = self.solve(g, prox=False)[1]
        if point is None:
            return self.simplex.mass_multipliers(g)
        # one multiplier; at the smallest ball none: theta falls without bound, from the class mean of g
        c = np.ones(g.size) * self.samples.c
        return [
            (x, x) if x > -np.inf else (x, float(np.average(g[index], weights=c[index])))
            for x, (index, _) in zip(point.theta, self.samples.groups, strict=True)
        ]

    def violation(self, q: Vec) -> float:
        q = vector(q)
        inside = np.clip(q, 0.0, self.h.cap * self.samples.c)
        above = self.h.height(inside) - self.h.rounding(q) - self.radius
        worst = max(self.simplex.violation(q), above / (max(abs(self.radius), self.h.unit) or 1.0))
        if self.is_point:
            worst = max(worst, float(np.abs(q - self.samples.uniform()).sum()))
        return round_violation(worst)

    def infeasibility_reason(self, dim: int) -> str | None:
        why = self.samples.missing(self.declared)
        if why is not None:
            return why
        slack = ROUNDING * max(abs(self.least), self.h.unit)
        fits = self.least < np.inf and self.radius >= self.least - slack
        return None if fits else self.declared.too_small(self.samples, self.least)
