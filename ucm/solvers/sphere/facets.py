"""The global minimum in up to three dimensions, from a polytope inside of U."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from ucm.data.linear import Vec
from ucm.errors import ParameterError
from ucm.forms.answer import Answer, Witness
from ucm.forms.hulls import least_norm
from ucm.forms.monitor import Monitor
from ucm.forms.sphere import UnitNorm, UnitSolver

__all__ = ["Facets"]

_SAME = 1e-12  # of a distance


@dataclass(frozen=True)
class Facets(UnitSolver):
    """f over the facets of a polytope P inside of U, every norm, up to `most` dimensions.

    f is linear over the directions that pick one vertex of P, so the unit vector with the least f is the
    normal of a facet: the distance from 0 to the boundary of P is a lower bound of the one to the
    boundary of U. The facets that lie nearer than the best w so far are pushed out to U by its support
    function, until none is left; for polyhedral U after finitely many steps.

    Parameters
    ----------
    most : largest dimension of the span of U
    max_steps : limit of rounds

    Notes
    -----
    The candidates are the rays orthogonal to n - 1 differences of samples of one class, of which only
    those near the minimum are visited.
    """

    most: int = 3
    max_steps: int = 500
    name: ClassVar[str] = "facets"

    def __post_init__(self) -> None:
        if self.most < 1 or self.max_steps < 1:
            raise ParameterError("Facets: most and max_steps are at least 1")

    def refuse(self, form: UnitNorm) -> str | None:
        if form.image.couplings:
            return "an intersection has no support function at hand"
        if form.rank > self.most:
            return f"it takes up to {self.most} dimensions, got {form.rank}"
        return None

    def predicted_passes(self, form: UnitNorm) -> float:
        return float("nan")

    def solve(self, form: UnitNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        answer = Answer(form.image.centers(), form.lift(form.start()))
        best, v = np.inf, form.start()
        points: list[Vec] = []
        blocks: list[list[Vec]] = []

        def push(direction: Vec) -> float:
            """How far U reaches along a direction; that point joins the polytope."""
            nonlocal best, v
            height, q = form.highest(-direction)
            monitor.passes += 1.0
            points.append(form.lower(form.image.matvec(q)))
            blocks.append(q)
            far = height / form.length(direction)
            if far < best:
                best, v = far, form.unit(-direction)
            return height

        generator = np.random.default_rng(0)
        for e in np.vstack([np.eye(form.rank), generator.standard_normal((2, form.rank))]):
            push(e)
            push(-e)
        scale = float(np.abs(np.array(points)).max())
        limit = monitor.limit(self.max_steps) if form.rank > 1 else 0
        target = _SAME if form.hulls is not None else min(1e-2 * monitor.tol, 1e-7)
        for _ in range(limit):
            try:
                equations = ConvexHull(np.array(points)).equations
            except QhullError:
                answer.message = "the points of U are too flat for Qhull"
                break
            equations = np.unique(equations, axis=0)
            far = -equations[:, -1] / [form.length(a) for a in equations[:, :-1]]
            near = far < best * (1.0 - target) - 1e-15 * scale
            if monitor.report(monitor.iterations + 1, best, best - float(far.min())):
                answer.status, answer.message = "interrupted", "stopped by the callback"
                break
            moved = False
            for a, b in zip(equations[near, :-1], equations[near, -1], strict=True):
                moved |= push(a) > -b + 1e-13 * scale
            if not moved:
                break
        else:
            if limit:
                answer.status, answer.message = "max_iter", f"{limit} rounds; raise max_iter"
        answer.w, answer.witness = form.lift(v), Witness("points", blocks)
        if form.hulls is not None:
            answer.q = form.hulls.blocks(form.residual(v)[1])
        else:
            answer.q = _nearest(form, v, best, np.array(points), blocks)
        return answer


def _nearest(
    form: UnitNorm, v: Vec, f: float, points: np.ndarray, blocks: list[list[Vec]]
) -> list[Vec]:
    """Blocks of the point of the polytope nearest to `-f n`, n the normal of the unit ball at v."""
    shares, _ = least_norm(
        f * form.normal(v), points, np.ones(len(points)), np.zeros(len(points), dtype=np.int64),
        np.ones(1),
    )  # fmt: skip
    used = np.flatnonzero(shares)
    return [np.sum([shares[k] * blocks[k][j] for k in used], axis=0) for j in range(len(blocks[0]))]
