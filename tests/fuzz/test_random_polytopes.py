"""Lower bounds over the unit sphere where 0 lies in a polytope, some with rays: against the vertices."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from draws import Source
from guard import Tally, fuzz, guarded

import ucm

NORMS = (1.0, 1.5, 2.0, math.inf)
DIRECTIONS = 10_000


@dataclass
class Polytope:
    """A set that is declared by its vertices, in rows, with 0 inside; it may be flat.

    `rays` are in rows, and lines if `both`; only a set that is not flat has them.
    """

    kind: str
    vertices: np.ndarray
    norm: float
    seed: int
    rays: np.ndarray
    both: bool

    @property
    def declared(self) -> Any:
        below = -np.inf if self.both else 0.0
        U = self.polytope
        return U + ucm.AffineImage(self.rays.T, ucm.Box(below, np.inf)) if len(self.rays) else U

    def inside(self, W: np.ndarray) -> np.ndarray:
        """Rows of W in the dual cone of the rays, of coordinates or of lines."""
        R = self.rays
        if self.both and len(R):
            return W - W @ np.linalg.pinv(R) @ R
        for r in R:  # one coordinate each
            W = W + np.maximum(-2.0 * (W @ r), 0.0)[:, None] * r
        return W

    @property
    def polytope(self) -> Any:
        V, m = self.vertices, len(self.vertices)
        match self.kind:
            case "image of a simplex":
                return ucm.AffineImage(V.T, ucm.Simplex())
            case "image and center":
                return ucm.AffineImage((V - V[0]).T, ucm.Simplex(), V[0])
            case "cross polytope":  # c + r_i and c - r_i
                center = V.mean(axis=0)
                return ucm.AffineImage((V[: m // 2] - center).T, ucm.NormBall(1.0, p=1.0), center)
            case "union of hulls":
                return ucm.Hull(ucm.Points(V[:2])) | ucm.Hull(ucm.Points(V[2:]))
            case "union of points":
                return ucm.ConvexUnion(*(ucm.Point(v) for v in V))
        return ucm.Hull(ucm.Points(V[: m // 2])) | ucm.AffineImage(V[m // 2 :].T, ucm.Simplex())


KINDS = (
    "image of a simplex", "image and center", "cross polytope", "union of hulls", "union of points",
    "union of a hull and an image",
)  # fmt: skip


def polytope(s: Source) -> Polytope:
    seed, kind, n = s.integer(0, 2**32 - 1), s.pick(KINDS), s.integer(1, 8)
    rng = np.random.default_rng(seed)
    r = n if s.often(4) else s.integer(1, n)
    space = rng.standard_normal((r, n)) if r < n or s.often(2) else np.eye(n)
    if kind == "cross polytope":
        half = np.vstack([np.eye(r), rng.standard_normal((s.integer(0, 3), r))]) @ space
        z = rng.standard_normal(r)
        center = s.pick((0.0, 0.1, 0.9)) / np.abs(z).sum() * z @ space  # at a length below 1 of its own
        V = np.vstack([center + half, center - half])
    else:
        V = rng.standard_normal((s.integer(max(r + 1, 3), 2 * r + 3), r)) @ space
        V -= rng.dirichlet(np.ones(len(V))) @ V
    both, count = s.often(2), 0 if r < n or s.often(3) else s.integer(1, n)
    rays = rng.standard_normal((min(count, n - 1), n)) if both else np.eye(n)[rng.permutation(n)[:count]]
    if not both:
        rays = rays * rng.choice([-1.0, 1.0], (count, 1))
    return Polytope(kind, V, s.pick(NORMS), seed, rays, both)


def judge(case: Polytope, tally: Tally) -> str:
    V, p, size = case.vertices, case.norm, float(np.abs(case.vertices).max())
    rng = np.random.default_rng(case.seed + 1)
    X, y = rng.standard_normal((6, V.shape[1])), np.array([1.0, -1.0] * 3)
    plan = ucm.compile(ucm.RobustMargin(case.declared, p), X, y)
    solution = guarded(plan.solve)
    _, s, basis = np.linalg.svd(V - V.mean(axis=0))
    basis = basis[: int((s > 1e-9 * s[0]).sum())]
    W = case.inside(rng.standard_normal((DIRECTIONS, len(basis))) @ basis)
    W /= np.linalg.norm(W, p, axis=1, keepdims=True)
    least = float((-W @ V.T).max(axis=1).min())
    assert solution.certificate.dual <= least + 1e-9 * size, f"{solution.certificate} above {least:.10g}"
    if solution.w.any():
        assert abs(np.linalg.norm(solution.w, p) - 1.0) <= 1e-9
        assert abs(float((-V @ solution.w).max()) - solution.objective) <= 1e-9 * size
        assert np.linalg.norm(case.inside(solution.w[None]) - solution.w) <= 1e-9
        assert np.linalg.norm(solution.w - basis.T @ (basis @ solution.w)) <= 1e-6
    else:
        assert solution.certificate.primal == math.inf and solution.certificate.kind == "none"
    if solution.status == "optimal":
        assert solution.objective <= least * (1.0 + 1e-6) + 1e-9 * size
    where = "" if not len(case.rays) else "lines, " if case.both else "rays, "
    return f"{where}{solution.status}, {'a bound' if solution.certificate.dual > 0.0 else 'no bound'}"


def test_no_lower_bound_exceeds_the_support_function(
    record_property: Callable[[str, object], None],
) -> None:
    fuzz(polytope, judge, record_property, few=60, many=2_000)
