"""Projection of infeasible points onto or into a declared set.

A solver of coupled blocks meets the couplings to its own accuracy only. With `q_k` its blocks, `D_k` their
domains and `B q + o = 0` the couplings, the member of the lowered set nearest to q, in a norm of weights
`1 / s_k`, is `p_k = P_k(q_k + s_k B_k' mu)`, mu the minimiser of the convex function

    psi(mu) = sum_k max over p in D_k of { <B_k' mu, p> - ||p - q_k||^2 / (2 s_k) } + <o, mu>,

by semismooth Newton steps: its gradient is `B p + o`. Membership of the point is
then checked by the definition of the set, not by the lowering.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from ucm.data.bound_data import Data
from ucm.data.linear_map import Matrix, Vec, ZeroMap
from ucm.errors import SolverError
from ucm.forms.distance import MinNorm
from ucm.forms.steps import line_search
from ucm.language import cvx as cp
from ucm.language.contracts import Jacobian, LoweredSet, Projectable, SemiSmooth, UncertaintySet
from ucm.language.robust import RobustMargin
from ucm.language.sets.combination import Combination
from ucm.language.sets.union import ConvexUnion
from ucm.language.simplex_projection import ROUNDING
from ucm.solvers.programs import Blocks, accuracy, attempt

INSIDE = 1e-9
"""The violation up to which a point counts as one of U."""

BESIDE = 1e-6
"""The violation up to which the nearest point of U replaces a point."""

_PROGRAM = 1e-11  # accuracy of Clarabel
_NEAR = 1e-2  # violation: a larger one is a wrong answer, not an inaccurate one
_DENSE = 0.1  # density of couplings from which on dense products are faster
_ORDER = 3000  # equations of couplings whose systems are formed
_ENTRIES = 20_000_000  # of the maps of such couplings
_NONE = 1e-13  # a weight of an operand that counts as 0
_STEPS = 60
_MET, _SMALL = 1e-16, 1e-13  # residuals relative to the terms: exact; no further Newton step helps
_PARTS: list[float] = np.logspace(-14.0, -1.0, 27).tolist()  # of the way to the centre

Moved = tuple[list[Vec], Vec, float]
"""Blocks, their point, and its violation."""


def moved_inside(U: UncertaintySet, data: Data, q: Sequence[Vec]) -> Moved | None:
    """Return a point of U near the point of the blocks q; None if not found or q violates U by over 0.01.

    The operands of sums and unions are moved separately. For other sets these are tried, in this order:
    the projections of the blocks on their domains; with couplings the nearest member of the lowered set; a
    point on the way to the centres of the domains.
    """
    if not U.evaluate(data, iter(q))[1] <= _NEAR:
        return None
    p = _moved(U, data, list(q))
    x, violation = U.evaluate(data, iter(p))
    return (p, x, violation) if violation <= INSIDE else None


def _moved(U: UncertaintySet, data: Data, q: list[Vec]) -> list[Vec]:
    """Return the blocks of the least violated point that was found near the point of the blocks q."""
    if isinstance(U, Combination):
        p: list[Vec] = []
        for V, _ in U.terms():
            count = len(V.lower(data).blocks)
            p += _moved(V, data, q[len(p) : len(p) + count])
        return p
    if isinstance(U, ConvexUnion):
        domain = U.combination(data)
        t, points = domain.split(q[0])
        t = np.where(t > _NONE, t, 0.0)
        t /= t.sum() or 1.0
        for V, operand, t_g in zip(U.sets, domain.operands, t, strict=True):
            blocks = [points[part.where] for part in operand.parts]
            for part, v in zip(operand.parts, _moved(V, data, blocks) if t_g > 0.0 else blocks, strict=True):
                points[part.where] = v
        return [domain.join(t, points)]
    return _of_one(U, data, q)


def _of_one(U: UncertaintySet, data: Data, q: list[Vec]) -> list[Vec]:
    x, violation = U.evaluate(data, iter(q))
    if violation == 0.0:
        return q
    image = U.lower(data)
    best: Moved = q, x, violation
    for way in (_projected, _nearest):
        p = way(image, q)
        if p is None:
            continue
        x, violation = U.evaluate(data, iter(p))
        if violation <= best[2]:
            best = p, x, violation
        if violation <= ROUNDING:
            return p
    return _towards_centre(U, data, image, best)[0]


def _projected(image: LoweredSet, q: Sequence[Vec]) -> list[Vec]:
    """Return each block projected onto its domain; a block whose domain has no projection is unchanged."""
    return [
        b.domain.project(v) if isinstance(b.domain, Projectable) else v
        for b, v in zip(image.blocks, q, strict=True)
    ]


def _towards_centre(U: UncertaintySet, data: Data, image: LoweredSet, best: Moved) -> Moved:
    """Return a point of U on the segment from `best` to the centres of the domains; `best` if not found."""
    centers = [b.domain.center(b.map.shape[1]) for b in image.blocks]

    def at(t: float) -> Moved:
        p = [(1.0 - t) * v + t * m for v, m in zip(best[0], centers, strict=True)]
        return p, *U.evaluate(data, iter(p))

    k = bisect.bisect_left(_PARTS, True, key=lambda t: at(t)[2] <= ROUNDING)
    return at(_PARTS[k]) if k < len(_PARTS) else best


class _Couplings:
    """The row-scaled coupling equations `sum_k B_k q_k + o = 0` of a lowered set, with one B_k per block."""

    def __init__(self, image: LoweredSet, q: Sequence[Vec]) -> None:
        units = []
        for c in image.couplings:
            size = np.abs(c.offset) + sum(B.sizes(q[k]) for k, B in c.terms)
            units.append(np.maximum(size, 1e-12 * float(size.max(initial=0.0)) or 1.0))
        self.offset = np.concatenate([c.offset / u for c, u in zip(image.couplings, units, strict=True)])
        self.B: list[Matrix] = []
        for k, b in enumerate(image.blocks):
            rows = []
            for c, u in zip(image.couplings, units, strict=True):
                matrix = sparse.csr_array((u.size, b.map.shape[1]))
                for j, B in c.terms:
                    if j == k and not isinstance(B, ZeroMap):
                        matrix = matrix + sparse.csr_array(B.matrix())
                rows.append(sparse.csr_array(sparse.diags_array(1.0 / u) @ matrix))
            stacked: Any = sparse.vstack(rows, format="csr")
            dense = stacked.nnz > _DENSE * math.prod(stacked.shape)
            self.B.append(stacked.toarray() if dense else stacked)

    def missed(self, p: Sequence[Vec]) -> Vec:
        return self.offset + sum(B @ v for B, v in zip(self.B, p, strict=True))

    def system(self, J: Sequence[Jacobian], s: Sequence[float]) -> NDArray[np.float64]:
        """Return the Newton matrix `sum_k s_k B_k J_k B_k'` of the multipliers."""
        H = np.zeros((self.offset.size, self.offset.size))
        for B, j, factor in zip(self.B, J, s, strict=True):
            product = (B * j.d) @ B.T
            H += factor * (product.toarray() if sparse.issparse(product) else product)
            if j.U.shape[1]:
                BU = B @ j.U
                H += factor * (BU @ j.S @ BU.T)
        return H


def _nearest(image: LoweredSet, q: Sequence[Vec]) -> list[Vec] | None:
    """Project q onto a coupled lowered set by semismooth Newton steps; None if the method does not apply."""
    order = sum(c.offset.size for c in image.couplings)
    entries = sum(B.entries for c in image.couplings for _, B in c.terms)
    blocks: list = list(image.blocks)
    if not 0 < order <= _ORDER or entries > _ENTRIES:
        return None
    if not all(isinstance(b.domain, SemiSmooth) for b in blocks):
        return None
    meets = _Couplings(image, q)
    s = []
    for b, v in zip(blocks, q, strict=True):
        largest = np.abs([v, b.domain.center(v.size)]).max(initial=0.0)
        s.append(float(largest) ** 2 or 1.0)

    def argument(k: int, mu: Vec) -> Vec:
        return q[k] + s[k] * (meets.B[k].T @ mu)

    def point(mu: Vec) -> list[Vec]:
        return [b.domain.project(argument(k, mu)) for k, b in enumerate(blocks)]

    def slope(t: float, ray: tuple[Vec, Vec]) -> float:
        start, d = ray
        return float(meets.missed(point(start + t * d)) @ d)

    mu = np.zeros(order)
    p = point(mu)
    g = meets.missed(p)
    best = float(np.linalg.norm(g)), p
    for _ in range(_STEPS):
        size = float(np.linalg.norm(g))
        if size < best[0]:
            best = size, p
        if size <= _MET * math.sqrt(order):
            break
        J = [b.domain.jacobian(argument(k, mu)) for k, b in enumerate(blocks)]
        H = meets.system(J, s)
        d = -_solution(H, g)
        if not float(g @ d) < 0.0:
            break
        full = point(mu + d)
        after = meets.missed(full)
        if float(np.linalg.norm(after)) <= 0.5 * size:
            mu, p, g = mu + d, full, after
            continue
        if size <= _SMALL:  # to rounding
            break
        mu = mu + line_search(slope, (mu, d), float(g @ d)) * d
        p = point(mu)
        g = meets.missed(p)
    return best[1]


def _solution(H: NDArray[np.float64], g: Vec) -> Vec:
    """Solve `(H + ridge I) x = g` for a semidefinite H, with the least ridge for which Cholesky succeeds.

    The result is 0 if the factorisation fails for every ridge.
    """
    lapack: Any = linalg.lapack
    unit = float(np.trace(H)) / g.size or 1.0
    for ridge in (1e-15, 1e-13, 1e-11, 1e-8):
        _, solution, info = lapack.dposv(H + ridge * unit * np.eye(g.size), g)
        if info == 0:
            return solution
    return np.zeros_like(g)


# --- external points ---------------------------------------------------------------------------
def member(model: RobustMargin, data: Data, q: list[Vec]) -> tuple[Vec, float]:
    """Return the point of the blocks q and its violation, after a move into U if it lies slightly outside."""
    x, violation = model.set.evaluate(data, iter(q))
    moved = None if violation <= INSIDE else moved_inside(model.set, data, q)
    return (x, violation) if moved is None else (moved[1], moved[2])


def nearest_member(model: RobustMargin, data: Data, form: MinNorm, x: Vec) -> tuple[Vec, float]:
    """Return x and its relative distance from U; if at most 1e-6, the nearest point of U and its violation.

    The nearest point is found by a conic program. A distance below `INSIDE` counts as 0 and keeps x.

    Raises
    ------
    SolverError
        The program failed.
    """
    blocks = Blocks(form)
    miss = cp.norm(blocks.x - x / blocks.scale, 2)
    problem = cp.Problem(cp.Minimize(miss), blocks.constraints)
    failure = attempt(problem, "CLARABEL", **accuracy("CLARABEL", _PROGRAM))
    if failure or (form.blocks and blocks.q[0].value is None):
        raise SolverError(
            f"certify: the program for the point of U nearest to x ended with {failure or problem.status}; "
            "scale the features"
        )
    nearest, violation = member(model, data, blocks.point())
    unit = max(data.space.norm(x), 1e-4 * form.largest) or 1.0
    distance = data.space.norm(nearest - x) / unit
    moved = INSIDE < distance <= BESIDE
    return (nearest, violation) if moved else (x, max(violation, distance))
