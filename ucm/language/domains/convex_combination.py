"""Convex combinations of domains side by side: the weights of the convex hull of a union."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import block_diag

from ucm import native
from ucm.data.linear import Vec
from ucm.language import cvx as cp
from ucm.language.contracts import BoundDomain, Jacobian, MassMultipliers, Polyhedron, SemiSmooth
from ucm.language.domains.norm_ball import NormBall
from ucm.language.node import Notation
from ucm.language.parameter import value
from ucm.language.perspective import perspective
from ucm.language.simplex_projection import round_violation, vector

__all__ = ["ConvexCombination", "Part", "SmoothCombination", "convex_combination", "unit_of"]

_NONE = 1e-13  # a share that is taken for none


@dataclass(frozen=True)
class Part:
    """One domain of a convex combination: the operand it belongs to, and the place of its coordinates."""

    domain: Any
    operand: int
    where: slice


@dataclass(frozen=True, eq=False)
class ConvexCombination(BoundDomain):
    """`{(t_g q_k, rho_g t_g) : q_k in D_k, t in the simplex}`, D_k a domain of the operand g = g(k): the
    weights of the convex hull of a union, `sum_g t_g x_g` with x_g made of the q_k of g.

    Parameters
    ----------
    domains : tuple of domains
    sizes : tuple of int
        Their dimensions.
    owners : tuple of int
        The operand that each belongs to, from 0 without gaps, in order.
    units : tuple of float
        rho_g for every operand. 0: t_g is no coordinate, as the first of its domains lies on the simplex, and
        t_g is the sum of its entries.
    """

    domains: tuple[BoundDomain, ...]
    sizes: tuple[int, ...]
    owners: tuple[int, ...]
    units: tuple[float, ...]

    @functools.cached_property
    def parts(self) -> list[Part]:
        ends = [0, *itertools.accumulate(self.sizes)]
        pieces = zip(self.domains, self.owners, ends, ends[1:], strict=False)
        return [Part(D, g, slice(a, b)) for D, g, a, b in pieces]

    @functools.cached_property
    def of_operand(self) -> list[list[Part]]:
        """The domains of every operand."""
        return [[p for p in self.parts if p.operand == g] for g in range(len(self.units))]

    @functools.cached_property
    def places(self) -> list[int]:
        """Where `rho_g t_g` stands, for every operand; -1: nowhere."""
        start, found = sum(self.sizes), []
        for unit in self.units:
            found.append(start if unit else -1)
            start += unit > 0.0
        return found

    @property
    def dim(self) -> int:
        return sum(self.sizes) + sum(unit > 0.0 for unit in self.units)

    def shares(self, q: Any) -> list[Any]:
        """t_g of every operand, of an array or a CVXPY expression."""
        found: list[Any] = []
        for parts, place, unit in zip(self.of_operand, self.places, self.units, strict=True):
            found.append(q[place] / unit if unit else q[parts[0].where].sum())
        return found

    def support(self, g: Vec) -> tuple[float, Vec]:
        g, q = vector(g), np.zeros(self.dim)
        heights = []
        for parts, place, unit in zip(self.of_operand, self.places, self.units, strict=True):
            own = [p.domain.support(g[p.where]) for p in parts]
            heights.append((sum(h for h, _ in own) + (unit * g[place] if unit else 0.0), own))
        k = int(np.argmax([h for h, _ in heights]))
        for part, (_, far) in zip(self.of_operand[k], heights[k][1], strict=True):
            q[part.where] = far
        if self.units[k]:
            q[self.places[k]] = self.units[k]
        return heights[k][0], q

    def violation(self, q: Vec) -> float:
        q = vector(q)
        t = np.array(self.shares(q))
        worst = max(abs(float(t.sum()) - 1.0), -float(t.min()))
        for part in self.parts:
            share, v = float(t[part.operand]), q[part.where]
            if share > 0.0:
                worst += share * part.domain.violation(v / share)
            else:
                worst += float(np.abs(v).max(initial=0.0))
        return round_violation(worst)

    def center(self, dim: int) -> Vec:
        q, count = np.zeros(self.dim), len(self.units)
        for p in self.parts:
            q[p.where] = p.domain.center(_size(p)) / count
        for place, unit in zip(self.places, self.units, strict=True):
            if unit:
                q[place] = unit / count
        return q

    def infeasibility(self, dim: int) -> str | None:
        if dim != self.dim:
            return f"{self!r}: it has {self.dim} coordinates, got dimension {dim}; give as many"
        sizes = zip(self.parts, self.sizes, strict=True)
        reasons = (p.domain.infeasibility(n) for p, n in sizes)
        return next((why for why in reasons if why is not None), None)

    def constraints(self, q: cp.Expression, size: Any) -> list[cp.Constraint]:
        t = self.shares(q)
        found = [cp.sum(cp.hstack(t)) == 1, *(share >= 0 for share in t)]
        for part, n in zip(self.parts, self.sizes, strict=True):
            v = cp.Variable(n)
            own = part.domain.own_constraints(v)
            p, inside = perspective(v, own, t[part.operand])
            found += [*inside, p == q[part.where]]
        return found

    def polyhedron(self, dim: int) -> Polyhedron | None:
        """`G v >= b t` for each domain `{v : G v >= b}`, `sum t = 1`, and the shares t in the coordinates. The
        variables are q, t and the further variables of the domains."""
        own = [D.polyhedron(n) for D, n in zip(self.domains, self.sizes, strict=True)]
        found = [one for one in own if one is not None]
        if len(found) < len(own):
            return None
        first = self.dim + len(self.units)
        columns = first + sum(one.lower.size for one in found) - sum(self.sizes)
        unit = sparse.eye_array(columns, format="csr")
        t = unit[self.dim : self.dim + len(self.units)]
        rows = []
        for part, one in zip(self.parts, found, strict=True):
            end = first + one.lower.size - _size(part)
            v, (G, b) = sparse.vstack([unit[part.where], unit[first:end]]), one.inequalities()
            rows.append(G @ v - sparse.csr_array(b[:, None]) @ t[[part.operand]])
            first = end
        inequalities = sum(G.shape[0] for G in rows)
        for g, (parts, place, rho) in enumerate(
            zip(self.of_operand, self.places, self.units, strict=True)
        ):
            if rho:
                rows.append(unit[[place]] / rho - t[[g]])
            else:
                entries = unit[parts[0].where]
                rows.append(sparse.csr_array(np.ones((1, entries.shape[0])) @ entries) - t[[g]])
        rows.append(np.ones((1, len(self.units))) @ t)
        A = sparse.csr_array(sparse.vstack(rows))
        least = np.zeros(A.shape[0])
        least[-1] = 1.0
        most = np.where(np.arange(A.shape[0]) < inequalities, np.inf, least)
        lower = np.full(columns, -np.inf)
        lower[self.dim : self.dim + len(self.units)] = 0.0
        return Polyhedron(lower, np.full(columns, np.inf), A, least, most)

    def formula(self, notation: Notation) -> str:
        domains = (D.formula(notation) for D in self.domains)
        return f"{notation.word('conv')}({', '.join(notation.set_of('q', D) for D in domains)})"


# --- the projection --------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class SmoothCombination(ConvexCombination, SemiSmooth):
    """A convex combination of points, balls and capped simplices, one an operand: it has an exact projection.

    Nearest is the sum over the operands of the nearest points of their cones at a price mu on the shares,
    mu the root of `sum_g t_g(mu) = 1`, t_g non-increasing. For a ball t_g has a closed form, for a capped
    simplex it is a root of piecewise linear functions (`ucm.native.shares`). Where t_g > 0, with
    `q = P(v / t)` and J its Jacobian, `d t_g = (b_g'd - d mu) / H_g` for `b_g = ((I - J) q, rho)` and
    `H_g = rho^2 + <q, (I - J) q>`, so that the Jacobian is

        diag(J) + sum_g b_g b_g' / H_g - h h' / sum_g (1 / H_g),   h = sum_g b_g / H_g / sqrt(sum_g 1 / H_g).
    """

    def project(self, v: Vec) -> Vec:
        v = vector(v)
        found = self._shares(v)
        q, t = np.zeros(self.dim), found[:, 2]
        for parts, place, unit, (theta, most, share) in zip(
            self.of_operand, self.places, self.units, found, strict=True
        ):
            for part in parts if share > 0.0 else ():
                own = v[part.where]
                if unit:
                    length, r = float(np.linalg.norm(own)), share * _radius(part.domain)
                    q[part.where] = own if length <= r else own * (r / length)
                else:
                    np.clip(own - theta, 0.0, most, out=q[part.where])
            if unit:
                q[place] = unit * share
        q /= t.sum()  # rounding
        return q

    def _shares(self, v: Vec) -> Any:
        """For each operand theta, the cap times t, and t: `ucm.native.shares`."""
        units = np.array(self.units)
        lengths, at, scores = np.zeros(units.size), np.zeros(units.size), []
        ends = np.zeros(units.size, dtype=np.int64)
        for g, (parts, place) in enumerate(zip(self.of_operand, self.places, strict=True)):
            if units[g]:
                at[g] = v[place]
                lengths[g] = np.linalg.norm(v[parts[0].where]) if parts else 0.0
            else:
                scores.append(np.sort(v[parts[0].where])[::-1])
            ends[g] = sum(map(len, scores))
        found = np.zeros((units.size, 3))
        ordered = np.concatenate(scores) if scores else np.empty(0)
        native.shares(ordered, ends, self._caps, units, self._radii, lengths, at, found)
        return found

    @functools.cached_property
    def _caps(self) -> Vec:
        """Of the capped simplices."""
        return np.array(
            [
                0.0 if unit else parts[0].domain.groups[0].most
                for parts, unit in zip(self.of_operand, self.units, strict=True)
            ]
        )

    @functools.cached_property
    def _radii(self) -> Vec:
        """Of the balls; of points 0."""
        return np.array(
            [
                _radius(parts[0].domain) if unit and parts else 0.0
                for parts, unit in zip(self.of_operand, self.units, strict=True)
            ]
        )

    def jacobian(self, v: Vec) -> Jacobian:
        v = vector(v)
        q = self.project(v)
        t = self.shares(q)
        d, columns, small = np.zeros(self.dim), [], []
        bent: list[Vec] = []
        curved: list[float] = []
        for g, (parts, place, unit) in enumerate(
            zip(self.of_operand, self.places, self.units, strict=True)
        ):
            if not t[g] > _NONE:
                continue
            b, H = np.zeros(self.dim), unit * unit
            if unit:
                b[place] = unit
            for part in parts:
                J = part.domain.jacobian(v[part.where] / t[g])
                own = q[part.where] / t[g]
                b[part.where] = own - J.matvec(own)
                H += float(own @ b[part.where])
                d[part.where] = J.d
                wide = np.zeros((self.dim, J.U.shape[1]))
                wide[part.where] = J.U
                columns.append(wide)
                small.append(J.S)
            if H > 0.0:
                bent.append(b)
                curved.append(H)
        if len(bent) > 1:
            inverse = 1.0 / np.array(curved)
            columns.append(np.column_stack(bent))
            small.append(np.diag(inverse) - np.outer(inverse, inverse) / inverse.sum())
        U = np.hstack(columns) if columns else np.zeros((self.dim, 0))
        return Jacobian(d, U, np.asarray(block_diag(*small)) if small else np.zeros((0, 0)))


def _size(part: Part) -> int:
    return part.where.stop - part.where.start


def _radius(D: Any) -> float:
    return max(value(D.radius), 0.0)


def _exact(domains: Sequence[BoundDomain], unit: float) -> bool:
    """Whether the share of an operand is known in closed form: of a point, a ball and a capped simplex."""
    if len(domains) != 1:
        return not domains
    D = domains[0]
    if unit:
        return isinstance(D, NormBall) and D.euclidean
    return D.groups is not None and len(D.groups) == 1 and np.ndim(D.groups[0].cap) == 0


def convex_combination(
    domains: Sequence[BoundDomain],
    sizes: Sequence[int],
    operands: Sequence[int],
    units: Sequence[float],
) -> ConvexCombination:
    """The convex combinations of domains, with a projection where the share of every operand has a closed
    form."""
    own = [[D for D, g in zip(domains, operands, strict=True) if g == j] for j in range(len(units))]
    exact = all(_exact(each, unit) for each, unit in zip(own, units, strict=True))
    kind = SmoothCombination if exact else ConvexCombination
    return kind(tuple(domains), tuple(sizes), tuple(operands), tuple(units))


def unit_of(domains: Sequence[BoundDomain], plain: bool) -> float:
    """rho of an operand: 0 where the entries of its first domain sum to t and nothing else needs t; the
    radius of a ball, so that all its coordinates are of one size; else 1."""
    first = domains[0] if domains else None
    if plain and isinstance(first, MassMultipliers):
        return 0.0
    if isinstance(first, NormBall) and math.isfinite(r := value(first.radius)) and r > 0.0:
        return r
    return 1.0
