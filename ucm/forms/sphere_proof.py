"""Proofs of lower bounds over the unit sphere: points of U around 0, and affine rules that stay in domains.

Which rules `q + V u`, `||u||_2 <= 1`, stay in a domain is known of the weights of hulls and of norm balls; a
simplex cut by a symmetric ball holds the capped simplex with the largest cap whose vertices are inside.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ucm import native
from ucm.data.linear_map import Vec
from ucm.language.contracts import Block, BoundDomain, MassConstraint
from ucm.language.domains import NormBall
from ucm.language.domains.separable_constraint import SimplexSublevelSet

Mat = NDArray[np.float64]

_ROUNDING = 1e-13  # of a cap, a mass or a radius


@dataclass(frozen=True)
class LowerBoundProof:
    """The data by which a solver of `UnitNorm` proves a lower bound of the optimum.

    `evidence.sphere` computes the bound.

    Attributes
    ----------
    kind : "vertices": points of U along every vertex of the ball of the dual norm, which it therefore
        holds; "points": points of U whose convex hull holds that ball; "rule": q0 and slopes V so that
        `q0 + V u` are blocks of a point of U for `||u||_2 <= 1`, which is an ellipsoid in U
    points : blocks of points of U
    slopes : of every block its V, (size of the block, rank of the form)
    """

    kind: str
    points: list[list[Vec]] = field(default_factory=list)
    slopes: list[NDArray[np.float64]] = field(default_factory=list)


def inner_radius(domain: BoundDomain, dim: int) -> float | None:
    """Return the radius of the largest Euclidean ball around the centre of a norm ball; else None."""
    if not isinstance(domain, NormBall):
        return None
    radius = domain.size().number
    return radius if domain.p >= 2.0 else radius * dim ** (0.5 - 1.0 / domain.p)


def inner_constraints(block: Block) -> list[MassConstraint] | None:
    """Return the mass constraints of a capped simplex inside the domain; None for other domains.

    A capped simplex is itself. In a simplex with a symmetric ball the cap is the largest cap whose vertices
    lie in the ball: h is the same function of every entry, so that one vertex is enough.
    """
    domain = block.domain
    if domain.groups is not None or not isinstance(domain, SimplexSublevelSet):
        return domain.groups
    if domain.samples.weights is not None:
        return None
    samples, cap = domain.samples, _inner_cap(domain)
    parts = zip(samples.groups, samples.sizes, strict=True)
    return [MassConstraint(index, n, mass, max(cap, mass / n)) for (index, mass), n in parts]


def _inner_cap(domain: SimplexSublevelSet) -> float:
    samples = domain.samples
    q = np.empty(samples.dim)

    def inside(cap: float) -> bool:
        for (index, mass), n in zip(samples.groups, samples.sizes, strict=True):
            q[index] = native.fill_to_mass(np.arange(n, dtype=float), max(cap, mass / n), mass)[0]
        return domain.violation(q) <= 0.0  # the caller subtracts the rounding error

    low, high = 0.0, samples.groups[0][1]
    if inside(high):
        return high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if inside(middle) else (low, middle)
    return (1.0 - 1e-9) * low  # within the caps, beyond rounding


def stays_inside(block: Block, q: Vec, V: Mat) -> bool:
    """True if the affine rule `q + V u`, `||u||_2 <= 1`, provably stays in the domain of a block.

    The proof holds up to rounding, for finite q and V:

    * V = 0: q is inside;
    * the capped simplex of `inner_constraints`: `|V_i| <= min(q_i, cap - q_i)`, and over every mass
      constraint q sums to the mass and V to 0;
    * norm balls: `||q - middle|| + max ||V u|| <= radius`.
    """
    domain, d = block.domain, block.map.shape[1]
    if not V.any():
        return domain.violation(q) <= _ROUNDING
    radius = inner_radius(domain, d)
    if radius is not None:
        middle = domain.center(d)
        reach = float(np.linalg.norm(q - middle)) + math.sqrt(float(np.linalg.eigvalsh(V.T @ V)[-1]))
        return reach <= radius * (1.0 + _ROUNDING)
    constraints = inner_constraints(block)
    if constraints is None:
        return False
    for g in constraints:
        index, mass, caps = g.entries, g.mass, np.broadcast_to(g.most, g.size)
        size = np.linalg.norm(V[index], axis=1)
        if (size > np.minimum(q[index], caps - q[index]) + _ROUNDING * caps).any():
            return False
        if abs(float(q[index].sum()) - mass) > _ROUNDING * mass:
            return False
        if (np.abs(V[index].sum(axis=0)) > _ROUNDING * mass).any():
            return False
    return True
