"""Global minimum over the unit sphere in a few dimensions, from a growing polytope inside U."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import ConvexHull, QhullError

from ucm.data.linear_map import Vec
from ucm.data.options import COUNT, option, within
from ucm.forms.faces import min_norm_point
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Answer, Solver
from ucm.forms.sphere import UnitNorm
from ucm.forms.sphere_proof import LowerBoundProof


@dataclass(frozen=True)
class Facets(Solver[UnitNorm]):
    """Minimise f globally over a sphere of any norm in at most `most` dimensions, by facets of a polytope P.

    f is linear over the directions that pick one vertex of P, so the unit vector with the least f is the
    normal of a facet: the distance from 0 to the boundary of P is a lower bound of the one to the
    boundary of U. The facets that lie nearer than the best w so far are pushed out to U by its support
    function, the nearest first, until none is left; for polyhedral U after finitely many steps.

    Parameters
    ----------
    most
        Largest dimension of the span of U.
    max_points
        Limit of the vertices of P: where U is nearly round, nearly all facets stay near.
    ratio
        The part of f(w) at which the lower bound is good enough.

    Notes
    -----
    The candidates are the rays orthogonal to n - 1 differences of samples of one class, of which only
    those near the minimum are visited.
    """

    most: int = option(COUNT, 3)
    max_points: int = option(COUNT, 5000)
    ratio: float = option(within("a number in (0, 1]", lambda x: 0.0 < x <= 1.0), 1.0)
    name: ClassVar[str] = "facets"

    def refuse(self, form: UnitNorm) -> str | None:
        if form.image.couplings:
            return "an intersection has no support function at hand"
        if not form.bounded:
            return "U has no bound"
        if form.rank > self.most:
            return f"it takes up to {self.most} dimensions, got {form.rank}"
        return None

    def solve(self, form: UnitNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        inner = _Polytope(form, monitor)
        if start is not None and start.w is not None:
            inner.begin(form.unit(form.lower(start.w)))
        limit = monitor.limit(500) if form.rank > 1 else 0
        target = 1e-12 if form.hulls is not None else min(1e-2 * monitor.tol, 1e-7)
        target = max(target, 1.0 - self.ratio)
        for _ in range(limit):
            try:
                normals, far = inner.facets()
            except QhullError:
                return inner.answer().ended("converged", "the points of U are too flat for Qhull")
            if monitor.report(monitor.iterations + 1, inner.best, inner.best - float(far.min())):
                return inner.answer().interrupted()
            candidates = np.flatnonzero(far < inner.best * (1.0 - target) - 1e-15 * inner.scale)
            most = min(max(64, len(inner.points) // 4), 128)
            candidates = candidates[np.argsort(far[candidates])]
            if candidates.size > most:
                candidates = candidates[_apart(normals[candidates], most)]
            if len(inner.points) + candidates.size > self.max_points:
                why = f"more than {self.max_points} points; raise max_points"
                return inner.answer().ended("max_iter", why)
            if not inner.pushed(normals[candidates], far[candidates]):
                return inner.answer()
        answer = inner.answer()
        return answer.ended("max_iter", f"{limit} rounds; raise max_iter") if limit else answer


def _apart(normals: NDArray[np.float64], most: int) -> NDArray[np.intp]:
    """Return indices of at most `most` normals in order, none nearly parallel: these lead to near points."""
    units = normals / np.linalg.norm(normals, axis=1, keepdims=True)
    left, chosen = np.ones(len(units), dtype=bool), []
    while left.any() and len(chosen) < most:
        chosen.append(int(np.argmax(left)))
        left &= units @ units[chosen[-1]] <= 0.95  # of nearly parallel normals one is enough
    return np.array(chosen)


class _Polytope:
    """Polytope P of points of U, with their blocks and their hull, and the best direction v so far."""

    def __init__(self, form: UnitNorm, monitor: Monitor) -> None:
        self.form, self.monitor = form, monitor
        self.v, self.best = form.start(), np.inf
        self.points: list[Vec] = []
        self.blocks: list[list[Vec]] = []
        self.hull: ConvexHull | None = None
        self.joined = 0
        generator = np.random.default_rng(0)
        for e in np.vstack([np.eye(form.rank), generator.standard_normal((2, form.rank))]):
            self.push(e)
            self.push(-e)
        for _ in range(form.rank - 1):  # push along flat directions: a thin U may have shown few points
            points = np.array(self.points)
            s, axes = np.linalg.svd(points - points.mean(axis=0))[1:]
            flat = axes[s <= 1e-9 * s[0]]
            if flat.shape[0] == 0:
                break
            for e in flat:
                self.push(e)
                self.push(-e)
        self.scale = float(np.abs(np.array(self.points)).max())

    def begin(self, v: Vec) -> None:
        """Take v as the best direction if f is lower there; add no point: with ties it is no vertex of U."""
        height = self.form.height(v)
        if height < self.best:
            self.best, self.v = height, v

    def push(self, direction: Vec) -> float:
        """Add the extreme point of U along a direction to P; return the support there."""
        form = self.form
        height, q = form.highest(-direction)
        self.monitor.passes += 1.0
        self.points.append(form.lower(form.image.matvec(q)))
        self.blocks.append(q)
        far = height / form.length(direction)
        if far < self.best:
            self.best, self.v = far, form.unit(-direction)
        return height

    def facets(self) -> tuple[NDArray[np.float64], Vec]:
        """Return the outer normals of the facets of P, and the distances of 0 from the facets."""
        try:
            if self.hull is not None and len(self.points) > self.joined:
                self.hull.add_points(np.array(self.points[self.joined :]))
        except QhullError:  # points in the plane of a facet; a new hull merges coplanar facets
            self.hull = None
        if self.hull is None:
            self.hull = ConvexHull(np.array(self.points), incremental=True)
        self.joined = len(self.points)
        equations = self.hull.equations
        if self.form.norm != 2.0 or self.form.basis is not None:
            equations = np.unique(equations, axis=0)
            lengths = np.array([self.form.length(a) for a in equations[:, :-1]])
        else:
            lengths = np.ones(len(equations))
        far = -equations[:, -1] / lengths
        few = np.argsort(far)[:1000]  # duplicates are removed among these
        _, first = np.unique(equations[few], axis=0, return_index=True)
        return equations[few[first], :-1], far[few[first]]

    def pushed(self, normals: NDArray[np.float64], far: Vec) -> bool:
        """Add the extreme points of U along facet normals; True if a facet moved or the time is over."""
        moved = False
        for a, distance in zip(normals, far, strict=True):
            if self.monitor.timed_out:
                return True  # unknown, as the time is over
            moved |= self.push(a) > distance * self.form.length(a) + 1e-13 * self.scale
        return moved

    def answer(self) -> Answer:
        """Return the best w, the blocks of its point (of U, or of P), and the vertices of P as proof."""
        form, v = self.form, self.v
        if form.hulls is not None:
            q = form.hulls.blocks(form.residual(v)[1])
        else:
            q = _nearest(form, v, self.best, np.array(self.points), self.blocks)
        corners = range(len(self.blocks)) if self.hull is None else self.hull.vertices
        return Answer(q, form.lift(v), witness=LowerBoundProof("points", [self.blocks[k] for k in corners]))


def _nearest(form: UnitNorm, v: Vec, f: float, points: np.ndarray, blocks: list[list[Vec]]) -> list[Vec]:
    """Return blocks of the point nearest to `-f n` among those farthest along -v, n the normal at v."""
    far = np.argsort(points @ v)[:500]
    shares, _ = min_norm_point(
        f * form.normal(v), points[far], np.ones(far.size), np.zeros(far.size, dtype=np.int64), np.ones(1)
    )  # fmt: skip
    used = np.flatnonzero(shares)
    shares, blocks = shares[used], [blocks[k] for k in far[used]]
    return [np.sum([t * q[j] for t, q in zip(shares, blocks)], axis=0) for j in range(len(blocks[0]))]
