"""Radial function `max {s : -s g in U}` of the set U, by convex programs with warm starts.

For a normal g the program linearised at `<g, w> = 1`,

    min over <g, w> = 1 of max over x in U of -w'x = max {s : -s g in U},

has w for its dual vector. Over sums of reduced hulls it is linear, with one column for every sample and
one for s, one row for every feature and every group; another g changes the column of s only, so the basis
is kept. Over any other set it is conic, and g a parameter. Where such a program would be large and the
domains have projections, the points of U nearest to -s g take its place: from outside, s falls to the worst
case of the normal that separates -s g from U, as long as that is smaller.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ucm.data.linear_map import Vec
from ucm.forms.distance import MinNorm
from ucm.forms.faces import SumOfHulls
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Answer, Solver
from ucm.forms.sphere import UnitNorm
from ucm.numerics.conic_programs import Blocks, accuracy, attempt, ended, numbers
from ucm.solvers.linear_program import LinearProgram


class PolyhedralRay:
    """Linear program `max {s : -s g in U}`, U a sum of reduced hulls, in HiGHS."""

    def __init__(self, hulls: SumOfHulls, monitor: Monitor) -> None:
        fixed, points, caps = hulls.center, hulls.points, hulls.caps
        group, totals = hulls.group, hulls.masses
        self.program = LinearProgram(monitor.child(monitor.tol), presolve="off", simplex_scale_strategy=0)
        # features in units of their own: rows of size one
        self.unit = np.maximum(np.abs(points).max(axis=0, initial=0.0), np.abs(fixed))
        self.unit[self.unit == 0.0] = 1.0
        sides = np.concatenate([-fixed / self.unit, totals])
        self.program.rows([], sides, sides)
        entries = np.hstack([points / self.unit, np.equal.outer(group, np.arange(totals.size))])
        self.program.columns(caps.size, 0.0, caps, 0.0, entries)
        self.s = int(self.program.columns(1, -np.inf, np.inf, -1.0, np.ones((1, sides.size)))[0])
        self.program.column(self.s, np.append(np.ones(fixed.size), np.zeros(totals.size)))

    def reach(self, g: Vec) -> tuple[float, Vec, Vec] | None:
        """Return (s, w, q) for the largest s with `-s g` in the set; None if there is no optimum."""
        column = g / self.unit
        scale = 1.0 / float(np.abs(column).max())  # s is no larger than this: columns of size one
        self.program.column(self.s, scale * column)
        solution = self.program.solve()
        if solution.status != "optimal":
            return None
        w = solution.dual[: g.size] / self.unit
        slope = float(w @ g)
        return None if slope == 0.0 else (scale * float(solution.x[-1]), w / slope, solution.x[:-1])


class RayPoint(NamedTuple):
    """Largest s with `-s g` in U (or a bound), v with `<g, v> = 1`, blocks, multipliers scaled to v."""

    s: float
    v: Vec
    q: list[Vec]
    multipliers: list[Vec]

    def answer(self, form: UnitNorm) -> Answer:
        """Return the answer at `w = v / ||v||_p`, with multipliers scaled to w."""
        length = form.length(self.v)
        multipliers = [mu / length for mu in self.multipliers]
        return Answer(self.q, form.lift(self.v) / length, multipliers=multipliers)


_LARGE = 100_000  # numbers in a conic program
_GAP = 1e-2  # relative gap of a nearest point until a step makes no progress

Reach = Callable[[Vec], RayPoint | None]
"""What g reaches; None when no multiple of g is in U, the program failed, or the time was over."""


def radial(form: UnitNorm, monitor: Monitor, nearest: Solver[MinNorm] | None = None) -> Reach:
    """Return the radial function of U: by a linear program, a conic program or nearest points."""
    if form.hulls is not None:
        return _polyhedral(form.hulls, monitor)
    large = form.rank * sum(b.map.shape[1] for b in form.image.blocks) >= _LARGE
    able = nearest is not None and nearest.refuse(form.image) is None
    if nearest is not None and large and able and not form.image.couplings:
        return _by_distances(form, monitor, nearest)
    return _conic(form, monitor)


def _by_distances(form: UnitNorm, monitor: Monitor, nearest: Solver[MinNorm]) -> Reach:
    image = form.image
    last: Answer | None = None

    def reach(normal: Vec) -> RayPoint | None:
        nonlocal last
        g = form.lift(normal)
        v = normal / float(normal @ normal)
        s, _ = form.highest(v)
        gap, least = _GAP, monitor.zero * s
        for _ in range(30):
            moved = replace(image, center=image.center + s * g)
            below = monitor.child(gap, 20, zero_tol=1e-10)
            last = nearest.solve(moved, below, last)
            monitor.count_work(below)
            if monitor.timed_out:
                return None
            z, before = moved.matvec(last.q), s
            for w in (z, z if last.w is None else last.w):
                if not float(w @ g) > 0.0:
                    continue
                trial = form.lower(w / float(w @ g))
                height, _ = form.highest(trial)
                if height < s:
                    s, v = height, trial
            if s <= least:
                break
            if before - s <= 1e-7 * before:
                if gap < _GAP or not z.any():
                    break
                gap = 1e-4
        return RayPoint(s, v, form.image.centers() if last is None else last.q, [])

    return reach


def _polyhedral(hulls: SumOfHulls, monitor: Monitor) -> Reach:
    program = PolyhedralRay(hulls, monitor)

    def reach(g: Vec) -> RayPoint | None:
        point = program.reach(g)
        return None if point is None else RayPoint(point[0], point[1], hulls.blocks(point[2]), [])

    return reach


def _conic(form: UnitNorm, monitor: Monitor) -> Reach:
    import cvxpy as cp

    s, g = cp.Variable(), cp.Parameter(form.rank)
    blocks = Blocks(form.image, form.basis)
    # every coordinate in units of its own
    equation = cp.multiply(1.0 / blocks.sizes, blocks.x) + s * g == 0
    problem = cp.Problem(cp.Maximize(s), [equation, *blocks.constraints])

    def reach(normal: Vec) -> RayPoint | None:
        g.value = normal / blocks.sizes
        length = float(np.linalg.norm(g.value))
        g.value /= length
        for tight, equilibrate in itertools.product((1e-3 * monitor.tol, monitor.tol), (True, False)):
            options = {**accuracy("CLARABEL", tight), "equilibrate_enable": equilibrate, "warm_start": False}
            failure = attempt(problem, "CLARABEL", monitor, **options)
            if ended(problem, "CLARABEL", monitor) == "interrupted":
                return None
            if not failure and s.value is not None:
                break
        else:
            return None
        w = form.inside(numbers(equation.dual_value) / blocks.sizes)
        slope = float(w @ normal)
        if slope == 0.0:
            return None
        far = blocks.scale * float(s.value) / length
        # into domains that are smaller than the accuracy of the program
        q = form.image.begin(Answer(blocks.point()))
        return RayPoint(far, w / slope, q, blocks.multipliers(1.0 / slope))

    return reach
