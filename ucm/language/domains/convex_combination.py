"""Convex combinations of domains: the coefficients of the convex hull of a union of sets.

The nearest point to v with `q_g in t_g D_g`, `sum t_g = 1`, has one multiplier mu of the sum. The coefficient
t_g that is best at mu does not grow with mu and is piecewise linear, for a capped simplex and for a ball. So
is the sum of the t_g, and the root mu lies between two breakpoints: linear interpolation finds it.

For a capped simplex the best (q, t) of `|q - v|^2 / 2 + mu t` with `0 <= q <= t / r`, `sum q = t`, is
`q = clip(v - theta, 0, t / r)`. With `G(x) = sum_i max(0, v_i - x) + r x`, convex and piecewise linear,
`sum q = t` says that G has one value at theta and `psi = theta + t / r`, `G(theta) = G(psi) = L`, and the
derivative in t vanishes where `L / r - (psi - theta) = mu`. All are piecewise linear in L.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from ucm.data.linear_map import Vec
from ucm.language import cvx as cp
from ucm.language.contracts import BoundDomain, Jacobian, MassMultipliers, SemiSmooth
from ucm.language.domains.norm_ball import NormBall
from ucm.language.node import Notation
from ucm.language.parameter import value
from ucm.language.perspective import perspective
from ucm.language.simplex_projection import round_violation, vector

_NONE = 1e-13  # a coefficient that counts as 0
_INTEGER = 1e-12  # relative: the inverse of a cap that is an integer up to rounding


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

    D_k is a domain of the operand g = g(k). The points of the hull are `sum_g t_g x_g`, x_g made of the q_k
    of g.
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
class Coefficient(NamedTuple):
    """The coefficient t of an operand, a piecewise linear function of the multiplier mu of `sum t = 1`.

    Its breakpoints have descending mu: the first t is 0, the last one 1.
    """

    mu: Vec
    t: Vec
    theta: Vec
    r: float = 1.0  # t over the largest entry of q

    @classmethod
    def up_to_one(cls, mu: Vec, t: Vec, theta: Vec, r: float = 1.0) -> Coefficient:
        """Return the function of these breakpoints, cut off at t = 1, so that no larger t cancels."""
        k = min(int(np.searchsorted(t, 1.0)), t.size - 1)  # of NaN the end
        part = (1.0 - t[k - 1]) / (t[k] - t[k - 1])
        ends = [np.append(v[:k], v[k - 1] + part * (v[k] - v[k - 1])) for v in (mu, theta)]
        return cls(ends[0], np.append(t[:k], 1.0), ends[1], r)


def simplex_coefficient(v: Vec, cap: float) -> Coefficient:
    """Return the coefficient function of a capped simplex for scores v in descending order."""
    n = v.size
    if n == 0:
        return Coefficient(np.array([-np.inf]), np.zeros(1), np.zeros(1))
    r = max(1.0 / cap, 1.0)
    r = min(float(np.rint(r)) if abs(r - np.rint(r)) <= _INTEGER * r else r, float(n))
    k = min(int(r), n - 1)
    u = v - v[k]  # from the entry where G is least, so that nothing large cancels
    sums = np.concatenate([[0.0], np.cumsum(u)])
    sums -= sums[k]
    top = -sums[0] / r
    if r == n:  # all weights are equal
        ends = np.array([0.0, 1.0])
        return Coefficient(v[k] + top - ends / n, ends, v[-1] - ends / n, r)
    G = np.maximum(sums[:-1] + u * (r - np.arange(n)), 0.0)
    falling, rising = np.maximum.accumulate(G[k:]), np.maximum.accumulate(G[k::-1])
    L = np.sort(G)
    L = np.append(L, L[-1] + 1.0)
    theta = np.interp(L, falling, u[k:]) - np.maximum(L - falling[-1], 0.0) / (n - r)
    psi = np.interp(L, rising, u[k::-1]) + np.maximum(L - rising[-1], 0.0) / r
    width = np.maximum.accumulate(psi - theta)
    mu = np.minimum.accumulate(top - (width - L / r))
    breaks = np.append(top, mu), np.append(0.0, r * width), np.append(0.0, theta)
    relative = Coefficient.up_to_one(*breaks, r)
    return relative._replace(mu=v[k] + relative.mu, theta=v[k] + relative.theta)


def ball_coefficient(radius: float, unit: float, length: float, at: float) -> Coefficient:
    """Return the coefficient function of the cone `||p||_2 <= radius t` with the coordinate `unit t`.

    `length` is that of the scores of p, `at` the score of that coordinate.
    """
    top, inside = unit * at + radius * length, length / radius if radius > 0.0 else 0.0
    t = np.array([0.0, inside, inside + 1.0])
    mu = np.array([top, unit * at - unit * unit * inside, unit * at - unit * unit * t[2]])
    return Coefficient.up_to_one(mu, t, np.zeros(3))


def coefficients_of_sum_one(operands: Sequence[Coefficient]) -> NDArray[np.float64]:
    """Return theta, the cap of q and t of each operand at the multiplier with `sum t = 1`, (operands, 3)."""
    low = max(float(f.mu[-1]) for f in operands)  # where one of them is 1
    mu = np.concatenate([f.mu for f in operands])
    mu = np.unique(np.append(mu[mu > low], low))
    values = np.array([[np.interp(mu, f.mu[::-1], part[::-1]) for part in (f.theta, f.t)] for f in operands])
    for pair, f in zip(values, operands, strict=True):
        if f.mu[-1] == low:  # multipliers that rounding makes equal
            pair[:, 0] = f.theta[-1], f.t[-1]
    total = values[:, 1].sum(axis=0)
    k = int(np.flatnonzero(total >= 1.0).max(initial=0))
    after = min(k + 1, mu.size - 1)
    fall = float(total[k] - total[after])
    a = float(total[k] - 1.0) / fall if fall > 0.0 else 0.0
    theta, t = ((1.0 - a) * values[:, :, k] + a * values[:, :, after]).T
    return np.column_stack([theta, t / [f.r for f in operands], t])


@dataclass(frozen=True, eq=False)
class SmoothCombination(ConvexCombination, SemiSmooth):
    """A convex combination of points, Euclidean balls and capped simplices, with an exact projection.

    Each operand has one domain, a point none.

    The projection is the sum over the operands of the projections on their cones at a multiplier mu of
    `sum t`, the root of `sum_g t_g(mu) = 1`. Where t_g > 0, with `q = P(v / t)` and J its Jacobian,
    `d t_g = (b_g'd - d mu) / H_g` for `b_g = ((I - J) q, rho)` and `H_g = rho^2 + <q, (I - J) q>`, so that
    the Jacobian is

        diag(J) + sum_g b_g b_g' / H_g - h h' / sum_g (1 / H_g),   h = sum_g b_g / H_g / sqrt(sum_g 1 / H_g).
    """

    def project(self, v: Vec) -> Vec:
        v = vector(v)
        solution = coefficients_of_sum_one([self._coefficient(o, v) for o in self.operands])
        q, t = np.zeros(self.dim), solution[:, 2]
        for o, (theta, most, t_g) in zip(self.operands, solution, strict=True):
            for p in o.parts if t_g > 0.0 else ():
                scores = v[p.where]
                if o.unit:
                    length, r = float(np.linalg.norm(scores)), t_g * _radius(p.domain)
                    q[p.where] = scores if length <= r else scores * (r / length)
                else:
                    np.clip(scores - theta, 0.0, most, out=q[p.where])
            if o.unit:
                q[o.place] = o.unit * t_g
        q /= t.sum()  # rounding
        return q

    def _coefficient(self, o: Operand, v: Vec) -> Coefficient:
        scores = v[o.parts[0].where] if o.parts else np.zeros(0)
        domain = o.parts[0].domain if o.parts else None
        if o.unit:
            radius = 0.0 if domain is None else _radius(domain)
            return ball_coefficient(radius, o.unit, float(np.linalg.norm(scores)), float(v[o.place]))
        cap = 1.0 if domain is None else domain.groups[0].most
        return simplex_coefficient(np.sort(scores)[::-1], cap)

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
    """True if the operand is a point, a Euclidean ball or a capped simplex: t has a closed form."""
    if len(o.parts) != 1:
        return not o.parts
    D = o.parts[0].domain
    if o.unit:
        return isinstance(D, NormBall) and D.euclidean
    return D.groups is not None and len(D.groups) == 1 and np.ndim(D.groups[0].cap) == 0


def convex_combination(
    operands: Sequence[tuple[Sequence[tuple[BoundDomain, int]], float]],
) -> ConvexCombination:
    """Return the convex combination of operands, with a projection if every t has a closed form.

    For each operand `operands` has its domains with their dimensions, and its rho.
    """
    ends = itertools.accumulate((n for domains, _ in operands for _, n in domains), initial=0)
    slices = itertools.starmap(slice, itertools.pairwise(ends))
    parts = [tuple(OperandDomain(D, next(slices)) for D, _ in domains) for domains, _ in operands]
    places = itertools.count(sum(n for domains, _ in operands for _, n in domains))
    units = [unit for _, unit in operands]
    placed = [Operand(p, unit, next(places) if unit else -1) for p, unit in zip(parts, units, strict=True)]
    return (SmoothCombination if all(map(_exact, placed)) else ConvexCombination)(tuple(placed))


def unit_of(domains: Sequence[BoundDomain], plain: bool) -> float:
    """Return rho of an operand: 0 if t needs no coordinate, the radius of a ball, else 1.

    t needs none where the entries of the first domain sum to t and the operand is `plain`. With the radius,
    all coordinates of a ball are of one size.
    """
    first = domains[0] if domains else None
    if plain and isinstance(first, MassMultipliers):
        return 0.0
    if isinstance(first, NormBall) and math.isfinite(r := value(first.radius)) and r > 0.0:
        return r
    return 1.0
