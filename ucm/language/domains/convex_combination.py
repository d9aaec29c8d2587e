"""Convex combinations of domains: the coefficients of the convex hull of a union of sets.

The nearest point to v with `q_g in t_g D_g`, `sum t_g = 1`, minimises over t on the simplex the sum of the
convex functions `f_g(t_g) = |q_g - v_g|^2 / 2`, q_g the nearest point of `t_g D_g`. With `p = P(v_g / t_g)`
and J the Jacobian of the projection P on D_g,

    f_g' = <t_g p - v_g, p>,    f_g'' = <p, (I - J) p>,

both constant or linear between the kinks of a capped simplex or a ball, so that Newton's method ends.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from ucm.data.linear_map import Vec
from ucm.language import cvx as cp
from ucm.language.contracts import BoundDomain, Jacobian, MassMultipliers, SemiSmooth, round_violation, vector
from ucm.language.domains.conic_form import perspective
from ucm.language.domains.norm_ball import NormBall
from ucm.language.node import Notation
from ucm.language.parameter import value

_NONE = 1e-13  # a coefficient that counts as 0 in Jacobians
_ROUNDING = 2e-16  # of a coefficient
_STEPS = 100  # of Newton's method, which takes about 6


# --- the domain -----------------------------------------------------------------------------------
@dataclass(frozen=True)
class OperandDomain:
    """A domain of an operand, and the slice of its coordinates."""

    domain: Any
    where: slice

    @property
    def size(self) -> int:
        return self.where.stop - self.where.start


@dataclass(frozen=True)
class Operand:
    """An operand of a union: its domains, and the place of its coefficient t."""

    parts: tuple[OperandDomain, ...]
    unit: float  # rho; 0: t is the sum of the entries of the first domain, on the simplex, and no coordinate
    place: int  # of the coordinate `rho t`

    def coefficient(self, q: cp.Expression) -> cp.Expression:
        """Return the coefficient t of the operand, from an array or a CVXPY expression q."""
        return q[self.place] / self.unit if self.unit else q[self.parts[0].where].sum()


@dataclass(frozen=True, eq=False)
class ConvexCombination(BoundDomain):
    """The coefficients of the hull of a union, `{(t_g q_k, rho_g t_g) : q_k in D_k, t in the simplex}`.

    D_k is a domain of the operand g = g(k); the points of the hull are `sum_g t_g x_g`.
    """

    operands: tuple[Operand, ...]

    @functools.cached_property
    def dim(self) -> int:
        return sum(p.size for _, p in self.parts()) + sum(o.unit > 0.0 for o in self.operands)

    def parts(self) -> Iterator[tuple[int, OperandDomain]]:
        """Yield every domain as a pair (index of its operand, domain)."""
        for g, o in enumerate(self.operands):
            for p in o.parts:
                yield g, p

    @functools.cached_property
    def _operand_of(self) -> NDArray[np.intp]:
        """The index of the operand of each coordinate, (dim,)."""
        operand = np.zeros(self.dim, dtype=np.intp)
        for g, p in self.parts():
            operand[p.where] = g
        for g, o in enumerate(self.operands):
            if o.unit:
                operand[o.place] = g
        return operand

    def coefficients(self, q: cp.Expression) -> list:
        """Return the coefficient t_g of each operand, from an array or a CVXPY expression q."""
        return [o.coefficient(q) for o in self.operands]

    def split(self, q: Vec) -> tuple[Vec, Vec]:
        """Return t, and q with the coordinates of each operand g divided by t_g where `t_g > 0`."""
        t = np.array(self.coefficients(q))
        scale = t[self._operand_of]
        return t, np.divide(q, scale, out=q.copy(), where=scale > 0.0)

    def join(self, t: Vec, points: Vec) -> Vec:
        """Return the coordinates `(t_g q_k, rho_g t_g)` of t and the points q_k, the inverse of `split`."""
        scale, points = t[self._operand_of], points.copy()
        for o in self.operands:
            if o.unit:
                points[o.place] = o.unit
        return np.multiply(scale, points, out=np.zeros(self.dim), where=scale > 0.0)

    def support(self, g: Vec) -> tuple[float, Vec]:
        g, points = vector(g), np.zeros(self.dim)
        tops = [o.unit * g[o.place] if o.unit else 0.0 for o in self.operands]
        for k, p in self.parts():
            top, points[p.where] = p.domain.support(g[p.where])
            tops[k] += top
        best = int(np.argmax(tops))
        return float(tops[best]), self.join(np.eye(len(tops))[best], points)

    def violation(self, q: Vec) -> float:
        t, points = self.split(vector(q))
        worst = max(abs(float(t.sum()) - 1.0), -float(t.min()))
        for g, p in self.parts():
            point = points[p.where]
            if t[g] > 0.0:
                worst += float(t[g] * p.domain.violation(point))
            else:
                worst += float(np.abs(point).max(initial=0.0))
        return round_violation(worst)

    def center(self, dim: int) -> Vec:
        points = np.zeros(self.dim)
        for _, p in self.parts():
            points[p.where] = p.domain.center(p.size)
        return self.join(np.full(len(self.operands), 1.0 / len(self.operands)), points)

    def infeasibility_reason(self, dim: int) -> str | None:
        if dim != self.dim:
            return f"{self!r}: it has {self.dim} coordinates, got dimension {dim}; give as many"
        reasons = (p.domain.infeasibility_reason(p.size) for _, p in self.parts())
        return next((why for why in reasons if why is not None), None)

    def cvxpy(self, q: cp.Expression, size: cp.Expression) -> list[cp.Constraint]:
        t = self.coefficients(q)
        constraints = [cp.sum(cp.hstack(t)) == 1, *(t_g >= 0 for t_g in t)]
        for g, p in self.parts():
            v = cp.Variable(p.size)
            point, inside = perspective(v, p.domain.own_constraints(v), t[g])
            constraints += [*inside, point == q[p.where]]
        return constraints

    def formula(self, notation: Notation) -> str:
        domains = (p.domain.formula(notation) for _, p in self.parts())
        return f"{notation.word('conv')}({', '.join(notation.set_of('q', D) for D in domains)})"


# --- the projection --------------------------------------------------------------------------------
def _minimiser(t: Vec, slopes: Vec, curvatures: Vec) -> Vec:
    """Return the x on the simplex with the least `sum_g slopes_g x_g + curvatures_g (x_g - t_g)^2 / 2`."""
    free = t - (slopes - slopes.min()) / curvatures
    order = np.argsort(-curvatures * free)
    multipliers = (np.cumsum(free[order]) - 1.0) / np.cumsum(1.0 / curvatures[order])
    count = np.count_nonzero(multipliers < (curvatures * free)[order])  # of positive x, the first ones
    return np.maximum(free - multipliers[count - 1] / curvatures, 0.0)


@dataclass(frozen=True, eq=False)
class SmoothCombination(ConvexCombination, SemiSmooth):
    """A convex combination of points, Euclidean balls and capped simplices, with an exact projection.

    Each operand has one domain, a point none.

    Where t_g > 0, with `q = P(v / t)` and J its Jacobian, `d t_g = (b_g'd - d mu) / H_g` for
    `b_g = ((I - J) q, rho)` and `H_g = rho^2 + <q, (I - J) q>`, mu the multiplier of the sum of t, so that
    the Jacobian is

        diag(J) + sum_g b_g b_g' / H_g - h h' / sum_g (1 / H_g),   h = sum_g b_g / H_g / sqrt(sum_g 1 / H_g).
    """

    @functools.cached_property
    def _normal(self) -> Vec:
        """The vector e with `<e, q> = sum_g t_g`, (dim,)."""
        e = np.ones(self.dim)
        for o in self.operands:
            if o.unit:
                for p in o.parts:
                    e[p.where] = 0.0
                e[o.place] = 1.0 / o.unit
        return e

    def project(self, v: Vec) -> Vec:
        v = vector(v)
        t = np.full(len(self.operands), 1.0 / len(self.operands))
        q, slopes, curvatures = self._nearest(v, t)
        v = v + (slopes @ t) * self._normal  # the same problem, in which nothing large cancels
        slopes -= slopes @ t
        sizes = np.sqrt(np.bincount(self._operand_of, v * v, t.size))
        for _ in range(_STEPS):
            move = _minimiser(t, slopes, curvatures) - t
            level = slopes @ t  # the slopes of positive coefficients meet there; move sums to 0 with rounding
            fall, step, root = float((level - slopes) @ move), 1.0, np.sqrt(curvatures)
            if not fall > 2.0 * _ROUNDING * float((root * (sizes + root)) @ np.abs(move)):
                break
            longest = float(np.abs(move).max())
            while True:
                q, slopes, curvatures = self._nearest(v, t + step * move)
                rise = float((slopes - level) @ move)
                if not (rise > 0.5 * fall and step * longest > _ROUNDING):  # else the fall was rounding
                    break
                step *= fall / (fall + rise)  # it was beyond the minimum along the line
            t = np.maximum(t + step * move, 0.0)
        return q / (self._normal @ q)  # rounding

    def _nearest(self, v: Vec, t: Vec) -> tuple[Vec, Vec, Vec]:
        """Return the nearest point q at the coefficients t, and `f_g'` and `f_g''`, (operands,) each."""
        q, slopes, curvatures = np.zeros(self.dim), np.zeros(t.size), np.zeros(t.size)
        for g, (o, t_g) in enumerate(zip(self.operands, t.tolist(), strict=True)):
            if o.unit:
                q[o.place] = o.unit * t_g
                slopes[g], curvatures[g] = o.unit * (o.unit * t_g - v[o.place]), o.unit**2
            for p in o.parts:
                scores = v[p.where]
                if o.unit:
                    radius, length = _radius(p.domain), math.sqrt(scores @ scores)
                    outside = length - t_g * radius
                    q[p.where] = scores * (t_g * radius / length) if outside > 0.0 else scores
                    slopes[g] -= radius * max(outside, 0.0)
                    curvatures[g] += radius**2 * (outside > 0.0)
                elif t_g <= _ROUNDING:
                    height, point = p.domain.support(scores)
                    slopes[g], curvatures[g] = -height, point @ point
                else:  # J takes the mean off the entries between 0 and the cap
                    point = p.domain.project(scores / t_g)
                    between = point[(point > 0.0) & (point < p.domain.groups[0].most)]
                    part = t_g * point
                    q[p.where] = part
                    slopes[g] = (part - scores) @ point
                    curvatures[g] = point @ point - between @ between
                    curvatures[g] += between.sum() ** 2 / max(between.size, 1)
        return q, slopes, curvatures

    def jacobian(self, v: Vec) -> Jacobian:
        v = vector(v)
        q = self.project(v)
        d, columns, small = np.zeros(self.dim), [], []
        normals: list[Vec] = []
        curvatures: list[float] = []
        for o, t in zip(self.operands, self.coefficients(q), strict=True):
            if not t > _NONE:
                continue
            b, H = np.zeros(self.dim), o.unit * o.unit
            if o.unit:
                b[o.place] = o.unit
            for p in o.parts:
                J = p.domain.jacobian(v[p.where] / t)
                point = q[p.where] / t
                b[p.where] = point - J.matvec(point)
                H += float(point @ b[p.where])
                d[p.where] = J.d
                U = np.zeros((self.dim, J.U.shape[1]))
                U[p.where] = J.U
                columns.append(U)
                small.append(J.S)
            if H > 0.0:
                normals.append(b)
                curvatures.append(H)
        if len(normals) > 1:
            inverse = 1.0 / np.array(curvatures)
            columns.append(np.column_stack(normals))
            small.append(np.diag(inverse) - np.outer(inverse, inverse) / inverse.sum())
        U = np.hstack(columns) if columns else np.zeros((self.dim, 0))
        return Jacobian(d, U, np.asarray(block_diag(*small)) if small else np.zeros((0, 0)))


def _radius(D: NormBall) -> float:
    return max(value(D.radius), 0.0)


def _exact(o: Operand) -> bool:
    """True if the operand is a point, a Euclidean ball or a capped simplex, whose `f_g` are known."""
    if len(o.parts) != 1:
        return not o.parts
    D = o.parts[0].domain
    if o.unit:
        return D.euclidean
    return D.groups is not None and len(D.groups) == 1 and np.ndim(D.groups[0].cap) == 0


def convex_combination(
    operands: Sequence[tuple[Sequence[tuple[BoundDomain, int]], float]],
) -> ConvexCombination:
    """Return the combination of operands (domains, rho), with a projection if all `f_g` are known."""
    ends = itertools.accumulate((n for domains, _ in operands for _, n in domains), initial=0)
    slices = itertools.starmap(slice, itertools.pairwise(ends))
    parts = [tuple(OperandDomain(D, next(slices)) for D, _ in domains) for domains, _ in operands]
    places = itertools.count(sum(n for domains, _ in operands for _, n in domains))
    units = [unit for _, unit in operands]
    placed = [Operand(p, unit, next(places) if unit else -1) for p, unit in zip(parts, units, strict=True)]
    return (SmoothCombination if all(map(_exact, placed)) else ConvexCombination)(tuple(placed))


def unit_of(domains: Sequence[BoundDomain], plain: bool, least: float) -> float:
    """Return rho of an operand: 0 if t needs no coordinate, the radius of a ball (`least` or more), or 1."""
    first = domains[0] if domains else None
    if plain and isinstance(first, MassMultipliers):
        return 0.0
    if isinstance(first, NormBall) and math.isfinite(r := value(first.radius)) and r > 0.0:
        return max(r, least)
    return 1.0
