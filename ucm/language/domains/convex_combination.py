"""Convex combinations of domains side by side: the weights of the convex hull of a union."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import block_diag

from ucm.data.linear_map import Vec
from ucm.language import cvx as cp
from ucm.language.contracts import BoundDomain, Jacobian, MassMultipliers, Polyhedron, SemiSmooth
from ucm.language.domains.norm_ball import NormBall
from ucm.language.domains.shares import ball_share, shares, simplex_share
from ucm.language.node import Notation
from ucm.language.parameter import value
from ucm.language.perspective import perspective
from ucm.language.simplex_projection import round_violation, vector

_NONE = 1e-13  # a share that is taken for none


@dataclass(frozen=True)
class OperandDomain:
    """One domain of an operand, and the place of its coordinates."""

    domain: Any
    where: slice

    @property
    def size(self) -> int:
        return self.where.stop - self.where.start


@dataclass(frozen=True)
class Operand:
    """The domains of one operand of a union, and its share t.

    Attributes
    ----------
    parts : the domains
    unit, place : rho, and the place of the coordinate `rho t`. 0: t is no coordinate, as the first of the
        domains lies on the simplex, and t is the sum of its entries.
    """

    parts: tuple[OperandDomain, ...]
    unit: float
    place: int

    def share(self, q: Any) -> Any:
        """Return the share t of an array or a CVXPY expression q."""
        return q[self.place] / self.unit if self.unit else q[self.parts[0].where].sum()


@dataclass(frozen=True, eq=False)
class ConvexCombination(BoundDomain):
    """`{(t_g q_k, rho_g t_g) : q_k in D_k, t in the simplex}`, D_k a domain of the operand g = g(k): the
    weights of the convex hull of a union, `sum_g t_g x_g` with x_g made of the q_k of g."""

    operands: tuple[Operand, ...]

    @functools.cached_property
    def dim(self) -> int:
        return sum(p.size for o in self.operands for p in o.parts) + sum(o.unit > 0.0 for o in self.operands)

    def shares(self, q: Any) -> list[Any]:
        """Return the shares t_g of an array or a CVXPY expression q."""
        return [o.share(q) for o in self.operands]

    def split(self, q: Vec) -> tuple[Vec, list[list[Vec]]]:
        """Return the shares, and the points of the domains; where a share is 0, as they stand in q."""
        t = np.array(self.shares(q))
        points = [
            [q[p.where] / share if share > 0.0 else q[p.where] for p in o.parts]
            for o, share in zip(self.operands, t, strict=True)
        ]
        return t, points

    def join(self, shares: Vec, points: Sequence[Sequence[Vec]]) -> Vec:
        """Return the vector of these shares and points, the inverse of `split`; 0 without a share."""
        q = np.zeros(self.dim)
        for o, own, share in zip(self.operands, points, shares, strict=True):
            for p, v in zip(o.parts, own, strict=True):
                q[p.where] = share * v if share > 0.0 else 0.0
            if o.unit:
                q[o.place] = o.unit * share
        return q

    def support(self, g: Vec) -> tuple[float, Vec]:
        g = vector(g)
        each = [[p.domain.support(g[p.where]) for p in o.parts] for o in self.operands]
        heights = [
            sum(height for height, _ in own) + (o.unit * g[o.place] if o.unit else 0.0)
            for o, own in zip(self.operands, each, strict=True)
        ]
        k = int(np.argmax(heights))
        return heights[k], self.join(np.eye(len(each))[k], [[q for _, q in own] for own in each])

    def violation(self, q: Vec) -> float:
        t, points = self.split(vector(q))
        worst = max(abs(float(t.sum()) - 1.0), -float(t.min()))
        for o, own, share in zip(self.operands, points, t, strict=True):
            for p, v in zip(o.parts, own, strict=True):
                outside = p.domain.violation(v) if share > 0.0 else np.abs(v).max(initial=0.0)
                worst += float(share * outside if share > 0.0 else outside)
        return round_violation(worst)

    def center(self, dim: int) -> Vec:
        count = len(self.operands)
        middles = [[p.domain.center(p.size) for p in o.parts] for o in self.operands]
        return self.join(np.full(count, 1.0 / count), middles)

    def infeasibility_reason(self, dim: int) -> str | None:
        if dim != self.dim:
            return f"{self!r}: it has {self.dim} coordinates, got dimension {dim}; give as many"
        reasons = (p.domain.infeasibility_reason(p.size) for o in self.operands for p in o.parts)
        return next((why for why in reasons if why is not None), None)

    def cvxpy(self, q: cp.Expression, size: Any) -> list[cp.Constraint]:
        t = self.shares(q)
        found = [cp.sum(cp.hstack(t)) == 1, *(share >= 0 for share in t)]
        for o, share in zip(self.operands, t, strict=True):
            for p in o.parts:
                v = cp.Variable(p.size)
                point, inside = perspective(v, p.domain.own_constraints(v), share)
                found += [*inside, point == q[p.where]]
        return found

    def polyhedron(self, dim: int) -> Polyhedron | None:
        """Return `G v >= b t` for each domain `{v : G v >= b}`, `sum t = 1`, and the shares t in the
        coordinates.

        The variables are q, t and the further variables of the domains."""
        owned = [(g, p) for g, o in enumerate(self.operands) for p in o.parts]
        known = [p.domain.polyhedron(p.size) for _, p in owned]
        found: list[Polyhedron] = [one for one in known if one is not None]
        if len(found) < len(known):
            return None
        first, count = self.dim + len(self.operands), len(self.operands)
        columns = first + sum(one.lower.size - p.size for one, (_, p) in zip(found, owned, strict=True))
        unit: Any = sparse.eye_array(columns, format="csr")
        t = unit[self.dim : first]
        rows: list[Any] = []
        for (g, p), one in zip(owned, found, strict=True):
            end = first + one.lower.size - p.size
            v, (G, b) = sparse.vstack([unit[p.where], unit[first:end]]), one.inequalities()
            rows.append(G @ v - sparse.csr_array(b[:, None]) @ t[[g]])
            first = end
        inequalities = sum(G.shape[0] for G in rows)
        for g, o in enumerate(self.operands):
            if o.unit:
                rows.append(unit[[o.place]] / o.unit - t[[g]])
            else:
                entries = unit[o.parts[0].where]
                rows.append(sparse.csr_array(np.ones((1, entries.shape[0])) @ entries) - t[[g]])
        A: Any = sparse.csr_array(sparse.vstack([*rows, np.ones((1, count)) @ t]))
        least = np.zeros(A.shape[0])
        least[-1] = 1.0
        most = np.where(np.arange(A.shape[0]) < inequalities, np.inf, least)
        lower = np.full(columns, -np.inf)
        lower[self.dim : self.dim + count] = 0.0
        return Polyhedron(lower, np.full(columns, np.inf), A, least, most)

    def formula(self, notation: Notation) -> str:
        domains = (p.domain.formula(notation) for o in self.operands for p in o.parts)
        return f"{notation.word('conv')}({', '.join(notation.set_of('q', D) for D in domains)})"


# --- the projection --------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class SmoothCombination(ConvexCombination, SemiSmooth):
    """A convex combination of points, balls and capped simplices with an exact projection.

    Each operand has one domain.


    Nearest is the sum over the operands of the nearest points of their cones at a price mu on the shares,
    mu the root of `sum_g t_g(mu) = 1`, t_g non-increasing. For a ball t_g has a closed form, for a capped
    simplex it is a root of piecewise linear functions (`ucm.language.domains.shares`). Where t_g > 0, with
    `q = P(v / t)` and J its Jacobian, `d t_g = (b_g'd - d mu) / H_g` for `b_g = ((I - J) q, rho)` and
    `H_g = rho^2 + <q, (I - J) q>`, so that the Jacobian is

        diag(J) + sum_g b_g b_g' / H_g - h h' / sum_g (1 / H_g),   h = sum_g b_g / H_g / sqrt(sum_g 1 / H_g).
    """

    def project(self, v: Vec) -> Vec:
        v = vector(v)
        found = self._shares(v)
        q, t = np.zeros(self.dim), found[:, 2]
        for o, (theta, most, share) in zip(self.operands, found, strict=True):
            for p in o.parts if share > 0.0 else ():
                own = v[p.where]
                if o.unit:
                    length, r = float(np.linalg.norm(own)), share * _radius(p.domain)
                    q[p.where] = own if length <= r else own * (r / length)
                else:
                    np.clip(own - theta, 0.0, most, out=q[p.where])
            if o.unit:
                q[o.place] = o.unit * share
        q /= t.sum()  # rounding
        return q

    def _shares(self, v: Vec) -> NDArray[np.float64]:
        """Return theta, the largest entry of q and t of each operand."""
        found = []
        for o in self.operands:
            scores = v[o.parts[0].where] if o.parts else np.zeros(0)
            D = o.parts[0].domain if o.parts else None
            if o.unit:
                radius, length = 0.0 if D is None else _radius(D), float(np.linalg.norm(scores))
                found.append(ball_share(radius, o.unit, length, float(v[o.place])))
            else:
                cap = 1.0 if D is None else D.groups[0].most
                found.append(simplex_share(np.sort(scores)[::-1], cap))
        return shares(found)

    def jacobian(self, v: Vec) -> Jacobian:
        v = vector(v)
        q = self.project(v)
        d, columns, small = np.zeros(self.dim), [], []
        normals: list[Vec] = []
        curvatures: list[float] = []
        for o, t in zip(self.operands, self.shares(q), strict=True):
            if not t > _NONE:
                continue
            b, H = np.zeros(self.dim), o.unit * o.unit
            if o.unit:
                b[o.place] = o.unit
            for p in o.parts:
                J = p.domain.jacobian(v[p.where] / t)
                own = q[p.where] / t
                b[p.where] = own - J.matvec(own)
                H += float(own @ b[p.where])
                d[p.where] = J.d
                wide = np.zeros((self.dim, J.U.shape[1]))
                wide[p.where] = J.U
                columns.append(wide)
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


def _radius(D: Any) -> float:
    return max(value(D.radius), 0.0)


def _exact(o: Operand) -> bool:
    """True if the share of an operand has a closed form: of a point, a ball or a capped simplex."""
    if len(o.parts) != 1:
        return not o.parts
    D = o.parts[0].domain
    if o.unit:
        return isinstance(D, NormBall) and D.euclidean
    return D.groups is not None and len(D.groups) == 1 and np.ndim(D.groups[0].cap) == 0


def convex_combination(
    operands: Sequence[tuple[Sequence[tuple[BoundDomain, int]], float]],
) -> ConvexCombination:
    """Return the convex combinations of operands, each a list of domains with dimensions, and its rho;
    with a projection where the share of every operand has a closed form."""
    ends = itertools.accumulate((n for own, _ in operands for _, n in own), initial=0)
    slices = itertools.starmap(slice, itertools.pairwise(ends))
    parts = [tuple(OperandDomain(D, next(slices)) for D, _ in own) for own, _ in operands]
    place = sum(n for own, _ in operands for _, n in own)
    found = []
    for own, (_, unit) in zip(parts, operands, strict=True):
        found.append(Operand(own, unit, place if unit else -1))
        place += unit > 0.0
    kind = SmoothCombination if all(map(_exact, found)) else ConvexCombination
    return kind(tuple(found))


def unit_of(domains: Sequence[BoundDomain], plain: bool) -> float:
    """Return rho of an operand: 0 where the entries of its first domain sum to t and nothing else needs t;
    the radius of a ball, so that all its coordinates are of one size; else 1."""
    first = domains[0] if domains else None
    if plain and isinstance(first, MassMultipliers):
        return 0.0
    if isinstance(first, NormBall) and math.isfinite(r := value(first.radius)) and r > 0.0:
        return r
    return 1.0
