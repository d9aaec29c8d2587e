"""Fixed class masses and one separable convex constraint `h(q) <= r`: roots for lam and theta.

For multipliers lam >= 0 of h and theta_o of the masses, the nearest point and the maximiser are

    project:   q + lam h'(q) = v - theta,        support:   lam h'(q) = g - theta

elementwise. theta is the root of `sum q = mass` for each lam, and lam that of `h(q) = r`; both
functions are monotone. Where h' jumps, the two sides of the jump are mixed: along it h is affine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ucm.data.linear import Vec
from ucm.language import cvx as cp
from ucm.language import masses
from ucm.language.contracts import Capped, Domain, Jacobian, Leveled, SemiSmooth, Size
from ucm.language.domains.copied import Copied
from ucm.language.domains.simplex import Simplex, WeightedSimplex
from ucm.language.masses import no_entries
from ucm.language.node import Notation

__all__ = ["FAR", "Curve", "CutSimplex", "Point", "scaled", "soft", "solve"]

_EPS = float(np.finfo(np.float64).eps)
FAR = 1e100
_MANY = 1e3  # times the mass


@dataclass(frozen=True)
class Point:
    """A solution of the optimality conditions at one lam."""

    q: Vec
    w: Any  # dq/du, u = v - theta: an array, or one number for all q > 0
    normal: Vec  # h'(q) where w > 0
    lam: float
    theta: tuple[float, ...]


class Curve(ABC):
    """A separable convex function h on q >= 0, smallest at equal entries when the mass is fixed.

    Attributes
    ----------
    exponent : k for which the k-th power of the sum of a tilted q is nearly linear in theta; 0: its logarithm
    condition : relative error of h(q) for one of q
    copies : c where `h(q) = sum c_i h_1(q_i / c_i)`, h_1 what `prox` and `tilt` are of; None for 1
    """

    exponent: float | None = None
    condition: float = 1.0
    copies: Vec | None = None

    def equation(self, prox: bool, index: Any = slice(None)) -> Equation:
        """`prox` or `tilt` of these entries. With `s = q / c` they are `s + (lam / c) h_1'(s) = u / c` and
        `lam h_1'(s) = u`."""
        root = self.prox if prox else self.tilt
        if self.copies is None:
            return root
        c = self.copies[index]

        def near(u: Vec, lam: float) -> tuple[Vec, Vec, Vec]:
            s, w, normal = root(u / c, lam / c)  # type: ignore[arg-type]
            return c * s, w, normal

        def far(u: Vec, lam: float) -> tuple[Vec, Vec, Vec]:
            s, w, normal = root(u, lam)
            return c * s, c * w, normal

        return near if prox else far

    @abstractmethod
    def value(self, q: Vec) -> float:
        """h(q)."""

    @abstractmethod
    def prox(self, u: Vec, lam: float) -> tuple[Vec, Vec, Vec]:
        """q with `q + lam h'(q) = u` (or at a bound), dq/du and h'(q); lam a number or, where there are
        copies, one for each entry."""

    @abstractmethod
    def tilt(self, u: Vec, lam: float) -> tuple[Vec, Vec, Vec]:
        """q with `lam h'(q) = u` (or at a bound), dq/du and h'(q)."""


Equation = Callable[[Vec, float], tuple[Vec, Vec, Vec]]


@dataclass(frozen=True)
class _End:
    """An end of the bracket of lam: `level` is `log((h - least) / (radius - least))` there."""

    lam: float
    level: float
    point: Point


def solve(
    curve: Curve,
    v: Vec,
    parts: list[tuple[Any, float]],
    radius: float,
    least: float,
    *,
    prox: bool,
) -> Point:
    """The point with `h(q) = radius`: the nearest to v (prox), or the maximiser of `<v, q>`.

    The caller has made sure that lam > 0. `least` is the smallest value of h: as
    `(h - least)^(-1/2)` is nearly linear in lam (exactly so for the Euclidean norm), Newton's
    method is applied to that; where it leaves the bracket or gains little, the bracket is cut.
    """
    equations = [curve.equation(prox, index) for index, _ in parts or [(slice(None), 0.0)]]
    exponent = None if prox else curve.exponent
    v, unit = scaled(v, parts, prox)
    theta = [np.nan] * len(parts)
    tops = [float(v[index].max()) for index, _ in parts]
    target = radius - least
    close = 8.0 * _EPS * curve.condition * max(abs(radius), abs(target))
    low: _End | None = None  # h above the radius
    high: _End | None = None
    lam = max(float(np.ptp(v)) if parts else float(np.abs(v).max()), 1e-300)
    before = np.inf  # length of the last Newton step
    cuts = 0  # of the bracket, in a row
    with np.errstate(all="ignore"):
        for _ in range(300):
            point = _mix(equations, v, parts, tops, theta, lam, exponent)
            excess = curve.value(point.q) - radius
            if abs(excess) <= close:
                return _unscaled(_filled(point, parts), unit)
            level = float(np.log(max(excess + target, 0.0) / target)) if target > 0.0 else np.nan
            if excess > 0.0 or np.isnan(excess):
                low = _End(lam, level, point)
            else:
                high = _End(lam, level, point)
            slope = _slope(point, parts)
            step = np.nan
            if target > 0.0 and slope > 0.0:
                height = max(excess + target, 0.0)
                step = 2.0 * height * (np.sqrt(height / target) - 1.0) / slope
            after = lam + step
            lo, hi = low.lam if low else 0.0, high.lam if high else np.inf
            outside = not lo < after < hi or not lam / 64.0 <= after <= 64.0 * lam
            if outside or abs(step) > 0.5 * before or abs(step) <= 4.0 * _EPS * lam:
                after = _cut(low, high, lam, cuts)
                before, cuts = np.inf, cuts + 1
            else:
                before, cuts = abs(step), 0
            if not lo < after < hi:
                break
            lam = after
        return _unscaled(_filled(_join(low, high, radius, curve), parts), unit)


def soft(curve: Curve, g: Vec, parts: list[tuple[Any, float]], lam: float) -> Point:
    """The maximiser of `<g, q> - lam h(q)` among q with these masses."""
    equations = [curve.equation(False, index) for index, _ in parts]
    tops = [float(g[index].max()) for index, _ in parts]
    with np.errstate(all="ignore"):
        point = _mix(equations, g, parts, tops, [np.nan] * len(parts), lam, curve.exponent)
    return _filled(point, parts)


def scaled(v: Vec, parts: list[tuple[Any, float]], prox: bool) -> tuple[Vec, float]:
    """v in units in which no square overflows or vanishes, and the unit, a power of 2.

    A maximiser stays the same in any unit, and that of the spread of v is taken. So does, to rounding, the
    nearest point to a v that is `FAR` or more away: it is a maximiser, too.
    """
    with np.errstate(over="ignore"):
        reach = max((float(np.ptp(v[index])) for index, _ in parts), default=float(np.abs(v).max()))
    if reach == np.inf and np.isfinite(v).all():
        half, unit = scaled(0.5 * v, parts, prox)
        return half, 2.0 * unit
    if not 0.0 < reach < np.inf or (prox and reach <= FAR):
        return v, 1.0
    power = int(np.frexp(reach / FAR if prox else reach)[1])
    return np.ldexp(v, -power), float(np.ldexp(1.0, power))


def _filled(point: Point, parts: list[tuple[Any, float]]) -> Point:
    """The point with its masses where no theta near rounding came near them."""
    q = point.q
    for index, mass in parts:
        total = float(q[index].sum())
        if abs(total - mass) > 1e-9 * mass and 0.0 < total < np.inf:
            q = q.copy()
            q[index] *= mass / total
    return point if q is point.q else replace(point, q=q)


def _unscaled(point: Point, unit: float) -> Point:
    if unit == 1.0:
        return point
    theta = tuple(unit * x for x in point.theta)
    return replace(point, w=point.w / unit, lam=unit * point.lam, theta=theta)


def _cut(low: _End | None, high: _End | None, lam: float, cuts: int) -> float:
    """A lam inside of the bracket: the secant of the levels over log lam, every third time its middle."""
    if high is None:
        return 16.0 * lam
    if low is None:
        return lam / 16.0
    ratio = high.lam / low.lam
    if cuts % 3 != 2 and np.isfinite(low.level) and np.isfinite(high.level):
        share = low.level / (low.level - high.level)
        return float(low.lam * ratio ** min(max(share, 0.02), 0.98))
    return float(low.lam * np.sqrt(ratio)) if ratio > 4.0 else 0.5 * (low.lam + high.lam)


def _join(low: _End | None, high: _End | None, radius: float, curve: Curve) -> Point:
    """The point between both sides of a jump of h."""
    if low is None or high is None:
        return next(end.point for end in (low, high) if end is not None)
    above, below = curve.value(low.point.q) - radius, curve.value(high.point.q) - radius
    if not np.isfinite(above):
        return high.point
    share = -below / (above - below)
    return replace(high.point, q=share * low.point.q + (1.0 - share) * high.point.q)


def _slope(point: Point, parts: list[tuple[Any, float]]) -> float:
    """`-dh/dlam` along the path q(lam): `n' W n` after taking from n its class means."""
    w = point.w
    n = np.where(w > 0.0, point.normal, 0.0)
    for index, _ in parts:
        n[index] -= (w[index] @ n[index]) / max(float(w[index].sum()), 1e-300)
    return float(w @ (n * n))


def _multiplier(
    equation: Equation, u: Vec, lam: float, mass: float, x: float, exponent: float | None
) -> tuple[float, float]:
    """The root x of `sum q(u - x) = mass`, a decreasing function; two neighbours where it jumps there.

    Newton's step is taken on the power `exponent` of the sum. Without one it is taken on the logarithm, which
    is exact where q is exponential in u; left of the root and near it, on the sum."""
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
    parts: list[tuple[Any, float]],
    tops: list[float],
    theta: list[float],
    lam: float,
    exponent: float | None,
) -> Point:
    """The point at lam, from the roots theta, which it updates; a class whose sum jumps at its root is
    filled from both sides."""
    if not parts:
        return Point(*equations[0](v, lam), lam, ())
    q, w, normal = np.empty_like(v), np.empty_like(v), np.empty_like(v)
    each = zip(parts, tops, equations, strict=True)
    for o, ((index, mass), top, equation) in enumerate(each):
        u = v[index] - top  # relative to the top entry: exact for huge ones
        left, right = _multiplier(equation, u, lam, mass, theta[o], exponent)
        theta[o] = right
        q_o, w_o, normal_o = equation(u - right, lam)
        missing = mass - float(q_o.sum())
        if left < right:
            more = equation(u - left, lam)[0] - q_o
            share = missing / float(more.sum())
            if 0.0 < share <= 1.0:
                q_o = q_o + share * more
        elif abs(missing) <= 1e-6 * mass:  # what theta cannot resolve, to first order
            most = float(w_o.sum())
            if 0.0 < most < np.inf:
                q_o = np.maximum(q_o + (missing / most) * w_o, 0.0)
        q[index], w[index], normal[index] = q_o, w_o, normal_o
    theta_ = tuple(float(top + x) for top, x in zip(tops, theta, strict=True))
    return Point(q, w, normal, lam, theta_)


class CutSimplex(Copied, SemiSmooth, Leveled):
    """The simplex cut by a ball, `{q >= 0, sum q = 1, h(q) <= r}`; with classes, mass 1/2 in each.

    Where the ball binds, projection and support are the point of the equations above; where it does not,
    those of the simplex `around`.
    """

    @abstractmethod
    def ball(self) -> Copied:
        """The ball alone."""

    @abstractmethod
    def around(self, dim: int) -> Capped | WeightedSimplex:
        """The simplex around it, with a cap where h is finite only below one."""

    @abstractmethod
    def _solve(self, v: Vec, classes: Vec | None, *, prox: bool) -> tuple[Vec, Point | None]:
        """The nearest point (prox) or a maximiser, and its multipliers where the ball binds."""

    @abstractmethod
    def _too_small(self, dim: int, classes: Vec | None) -> str | None:
        """Why the ball misses the simplex, if it does."""

    @abstractmethod
    def _pinned(self, dim: int, classes: Vec | None) -> bool:
        """Whether other points than the uniform one are inside by rounding only, however far they are."""

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
        if not prox and self.copies is not None and isinstance(around, Simplex):
            # ties in proportion to their copies, the least of h: it may be the one that the ball leaves
            around = WeightedSimplex(np.inf, self.copies)
        q = around.project(v, classes=classes) if prox else around.support(v, classes=classes)[1]
        if height(q) <= radius:
            return q, None
        q = masses.uniform(v.size, classes, self.copies)
        least = height(q)
        if radius <= least + slack * abs(least):
            return self._least(v.size, classes)
        point = root(least)
        return point.q, point

    def _least(self, dim: int, classes: Vec | None) -> tuple[Vec, Point]:
        """The point of the smallest ball: it does not move, and has no multiplier."""
        q = masses.uniform(dim, classes, self.copies)
        return q, Point(q, 0.0, q, np.inf, (-np.inf,) * len(masses.counts(dim, classes)))

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
        c = np.ones(g.size) if self.copies is None else self.copies
        return [
            (x, x) if x > -np.inf else (x, float(np.average(g[index], weights=c[index])))
            for x, (index, _) in zip(point.theta, masses.groups(g.size, classes), strict=True)
        ]

    def violation(self, q: Vec, *, classes: Vec | None = None) -> float:
        q = masses.vector(q)
        worst = max(masses.outside(q, classes), self.ball().violation(q))
        if self._pinned(q.size, classes):
            worst = max(
                worst, float(np.abs(q - masses.uniform(q.size, classes, self.copies)).sum())
            )
        return masses.snap(worst)

    def center(self, dim: int, *, classes: Vec | None = None) -> Vec:
        return masses.uniform(dim, classes, self.copies)

    def emptiness(self, dim: int, *, classes: Vec | None = None) -> str | None:
        why = no_entries(self.ball().bare, dim, classes)
        return why or self.miscounted(dim) or self._too_small(dim, classes)

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
