"""Projection of infeasible points onto or into a declared set.

A solver of coupled blocks meets the couplings to its own accuracy only. With `q_k` its blocks, `D_k` their
domains and `B q + o = 0` the couplings, the member of the lowered set nearest to q, in a norm of weights
`1 / s_k`, is `p_k = P_k(q_k + s_k B_k' mu)`, mu the minimiser of the convex function

    psi(mu) = sum_k max over p in D_k of { <B_k' mu, p> - ||p - q_k||^2 / (2 s_k) } + <o, mu>,

by semismooth Newton steps: its gradient is `B p + o`. A projection without a Jacobian has one by
differences, or the identity, the largest Jacobian, among many parameters. Membership of the point is
then checked by the definition of the set, not by the lowering.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np

from ucm.data.bound_data import Data
from ucm.data.deadline import OutOfTime
from ucm.data.linear_map import Vec
from ucm.errors import SolverError
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import INSIDE, Monitor, time_of
from ucm.language import cvx as cp
from ucm.language.contracts import ROUNDING, Jacobian, LoweredSet, Projectable, SemiSmooth, UncertaintySet
from ucm.language.robust import RobustMargin
from ucm.language.sets.combination import Combination
from ucm.language.sets.union import ConvexUnion
from ucm.numerics.conic_programs import Blocks, accuracy, attempt
from ucm.numerics.coordinates import RangeSpace, columns, range_space_orders
from ucm.numerics.newton_steps import Formed, line_search

BESIDE = 1e-6
"""The violation up to which the nearest point of U replaces a point."""

_PROGRAM = 1e-11  # accuracy of Clarabel
_NEAR = 1e-2  # violation: a larger one is a wrong answer, not an inaccurate one
_ORDER = 3000  # equations of couplings whose systems are formed
_ENTRIES = 20_000_000  # of the maps of such couplings
_ROTATION = 2e8  # multiplications of a QR factor of such couplings
_NONE = 1e-13  # a weight of an operand that counts as 0
_STEPS = 60
_DIFFERENCES = 1000  # parameters of a block up to which their projections cost less than more steps
_STEP = 1e-7  # of the largest parameter: the step of a difference
_GRACE = 0.1  # seconds
_PER_ENTRY = 3e-8  # seconds for each stored entry, of about 100 products with the samples
_RIDGE = 1e-14  # of the systems, whose terms have the size 1: dependent equations take no part
_MET, _SMALL = 2e-16, 1e-13  # residuals relative to the terms: exact; no further Newton step helps
_PARTS: list[float] = np.logspace(-14.0, -1.0, 27).tolist()  # of the way to the centre

Moved = tuple[list[Vec], Vec, float]
"""Blocks, their point, and its violation."""


def moved_inside(U: UncertaintySet, data: Data, at: Moved) -> Moved | None:
    """Return a point of U near a given point; None if not found.

    A point that violates U by over 0.01 is a wrong answer, unless it moves by no more than 1e-6 of the size
    of the samples: the violation is relative to the size of an operand, which may be tiny.

    The operands of sums and unions are moved separately. For other sets these are tried, in this order:
    with couplings the nearest member of the lowered set, by its own equations and by rotated ones; the
    projections of the blocks on their domains; a point on the way to the centres of the domains. After the
    time limit there is no search among so many samples that it would take over `_GRACE`.
    """
    if _PER_ENTRY * data.stored > _GRACE and Monitor.within_limit().timed_out:
        return None
    moved = _moved(U, data, at) if math.isfinite(at[2]) else at
    near = at[2] <= _NEAR or float(np.abs(moved[1] - at[1]).max()) <= BESIDE * data.scale
    return moved if near and moved[2] <= INSIDE else None


def _moved(U: UncertaintySet, data: Data, at: Moved) -> Moved:
    """Return the least violated point that was found near a given point."""
    q = at[0]

    def operand(V: UncertaintySet, blocks: list[Vec]) -> Moved:
        return _moved(V, data, (blocks, *V.evaluate(data, iter(blocks))))

    if isinstance(U, Combination):
        left = iter(q)
        parts = [operand(V, [*itertools.islice(left, len(V.lower(data).blocks))]) for V, _ in U.terms()]
        return [v for p, *_ in parts for v in p], *U.combined([(x, outside) for _, x, outside in parts])
    if isinstance(U, ConvexUnion):
        domain = U.combination(data)
        t, points = domain.split(q[0])
        t = np.where(t > _NONE, t, 0.0)
        t /= t.sum() or 1.0
        for V, place, t_g in zip(U.sets, domain.operands, t, strict=True):
            blocks = [points[part.where] for part in place.parts]
            for part, v in zip(place.parts, operand(V, blocks)[0] if t_g > 0.0 else blocks, strict=True):
                points[part.where] = v
        p = [domain.join(t, points)]
        return p, *U.evaluate(data, iter(p))
    if at[2] == 0.0:
        return at
    best, image = at, U.lower(data)
    for way in (_nearest, functools.partial(_nearest, rotated=True), _by_block):
        inside = way(image, q)
        if inside is None:
            continue
        x, violation = U.evaluate(data, iter(inside))
        if violation <= best[2]:
            best = inside, x, violation
        if violation <= ROUNDING:
            return best
    return _towards_centre(U, data, image, best)


def _towards_centre(U: UncertaintySet, data: Data, image: LoweredSet, best: Moved) -> Moved:
    """Return a point of U on the segment from `best` to the centres of the domains; `best` if not found."""
    centers = [b.domain.center(b.map.shape[1]) for b in image.blocks]

    def at(t: float) -> Moved:
        p = [(1.0 - t) * v + t * m for v, m in zip(best[0], centers, strict=True)]
        return p, *U.evaluate(data, iter(p))

    k = bisect.bisect_left(_PARTS, True, key=lambda t: at(t)[2] <= ROUNDING)
    return at(_PARTS[k]) if k < len(_PARTS) else best


def _by_block(image: LoweredSet, q: Sequence[Vec]) -> list[Vec]:
    """Project each block of q onto its domain, whatever couples them."""
    return [b.projected(v) for b, v in zip(image.blocks, q, strict=True)]


def _nearest(image: LoweredSet, q: Sequence[Vec], rotated: bool = False) -> list[Vec] | None:
    """Project q onto a coupled lowered set by semismooth Newton steps; None if the method does not apply.

    Rotated equations have some of their own for directions in which the points are nearly flat. The steps
    have the remaining time, but at least `_GRACE`, as a point outside proves nothing.
    """
    if not image.couplings:
        return None
    form = MinNorm.of(image, 2.0, 1)
    fewer = range_space_orders(form) is not None  # the same residuals by fewer equations
    if fewer:
        form = RangeSpace.of(form, Monitor()).form
    parameters = columns(form)
    if rotated and (fewer or form.coupled * parameters * min(form.coupled, parameters) > _ROTATION):
        return None
    domains = [b.domain for b in image.blocks if isinstance(b.domain, Projectable)]
    entries = sum(B.entries for c in form.couplings for _, B in c.terms)
    if form.coupled > _ORDER or entries > _ENTRIES or len(domains) < len(q):
        return None
    residuals = form.of_residuals(form.units(q))
    if rotated:
        residuals = RangeSpace.of(residuals, Monitor()).form
    maps = [b.map for b in residuals.blocks]
    systems, ridge = Formed(maps, 1), np.full(residuals.n, _RIDGE)
    s = [
        float(np.abs([v, D.center(v.size)]).max(initial=0.0)) ** 2 or 1.0
        for D, v in zip(domains, q, strict=True)
    ]

    def arguments(mu: Vec) -> list[Vec]:
        return [v + factor * B.rmatvec(mu) for v, factor, B in zip(q, s, maps, strict=True)]

    def at(mu: Vec) -> tuple[list[Vec], Vec]:
        """Return the members p of the domains for the multipliers, and the gradient `B p + o`."""
        p = [D.project(v) for D, v in zip(domains, arguments(mu), strict=True)]
        return p, residuals.matvec(p)

    monitor = Monitor(time_limit=max(_GRACE, Monitor.within_limit().seconds_left))

    def slope(t: float, ray: tuple[Vec, Vec]) -> float:
        start, d = ray
        return 0.0 if monitor.timed_out else float(at(start + t * d)[1] @ d)  # 0 ends the search

    mu = np.zeros(residuals.n)
    p, g = at(mu)
    best = math.inf, p
    for _ in range(_STEPS):
        size = float(np.linalg.norm(g))
        if size < best[0]:
            best = size, p
        if size <= _MET * math.sqrt(mu.size) or monitor.timed_out:
            break
        J = [_jacobian(D, v, monitor) for D, v in zip(domains, arguments(mu), strict=True)]
        try:
            with time_of(monitor):
                d, _, _ = systems.step(J, s, ridge, g)
        except OutOfTime:
            break
        if not float(g @ d) < 0.0:
            break
        full, after = at(mu + d)
        if float(np.linalg.norm(after)) <= 0.5 * size:
            mu, p, g = mu + d, full, after
            continue
        if size <= _SMALL:  # to rounding
            break
        mu = mu + line_search(slope, (mu, d), float(g @ d)) * d
        p, g = at(mu)
    return best[1]


def _jacobian(D: Projectable, v: Vec, monitor: Monitor) -> Jacobian:
    """Return the Jacobian of a projection at v, by differences if D has none; else a larger matrix, I."""
    if isinstance(D, SemiSmooth):
        return D.jacobian(v)
    h = _STEP * (float(np.abs(v).max()) or 1.0)
    columns = []
    if v.size <= _DIFFERENCES:
        p = D.project(v)
        columns = [(D.project(v + e) - p) / h for e in h * np.eye(v.size) if not monitor.timed_out]
    if len(columns) < v.size:
        return Jacobian(np.ones(v.size), np.zeros((v.size, 0)), np.zeros((0, 0)))
    values, U = np.linalg.eigh(0.5 * (np.array(columns) + np.array(columns).T))
    return Jacobian(np.zeros(v.size), U, np.diag(np.clip(values, 0.0, 1.0)))


# --- external points ---------------------------------------------------------------------------
def member(model: RobustMargin, data: Data, q: list[Vec]) -> tuple[Vec, float]:
    """Return the point of the blocks q and its violation, after a move into U if it lies slightly outside."""
    x, violation = model.set.evaluate(data, iter(q))
    moved = None if violation <= INSIDE else moved_inside(model.set, data, (q, x, violation))
    return (x, violation) if moved is None else (moved[1], moved[2])


def nearest_member(model: RobustMargin, data: Data, form: MinNorm, x: Vec) -> tuple[Vec, float]:
    """Return x and its relative distance from U; if at most 1e-6, the nearest point of U and its violation.

    The nearest point is found by a conic program. A distance below `INSIDE` counts as 0 and keeps x.
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
    return (nearest, violation) if moved else (x, float(np.maximum(violation, distance)))  # NaN stays
