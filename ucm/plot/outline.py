"""Polygonal outlines of projected convex sets from their support functions, by the sandwich algorithm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ucm.data.bound_data import Data
from ucm.data.linear_map import Vec
from ucm.errors import SolverError
from ucm.evidence.support import SupportFunction
from ucm.language import cvx as cp
from ucm.language.contracts import UncertaintySet
from ucm.language.parameter import Scope
from ucm.numerics.conic_programs import accuracy, attempt

_SAME = 1e-7  # relative tolerance for equal points, and for a chord on its supporting line


@dataclass(frozen=True)
class Frame:
    """A square in the plane, `|z - middle|_inf <= half`."""

    middle: Vec
    half: float

    @classmethod
    def around(cls, *clouds: NDArray[np.float64], margin: float = 1.12) -> Frame:
        """Return the smallest square around point clouds, enlarged by the factor `margin`."""
        points = np.vstack([c for c in clouds if len(c)])
        low, high = points.min(axis=0), points.max(axis=0)
        half = 0.5 * margin * float((high - low).max())
        return cls(0.5 * (low + high), half if half > 0.0 else 1.0)


@dataclass(frozen=True)
class Outline:
    """A polygon that approximates a convex set in the plane, with a bound of the Hausdorff distance.

    Attributes
    ----------
    vertices : (k, 2) in counter-clockwise order; one for a point, two for a segment
    error : a bound of the Hausdorff distance to the set; 0 (but for rounding) of polygons
    size : the diameter of the polygon
    evaluations : of the support function
    frame : None, or the square that bounds an unbounded set
    """

    vertices: NDArray[np.float64]
    error: float
    size: float
    evaluations: int
    frame: Frame | None = None

    @property
    def closed(self) -> NDArray[np.float64]:
        """The vertices as a closed polyline, with the first vertex repeated as the last."""
        return np.vstack([self.vertices, self.vertices[:1]])

    @property
    def rim(self) -> NDArray[np.float64]:
        """The boundary as a closed polyline, interrupted by NaN at edges on the frame of an unbounded set."""
        line = self.closed
        if self.frame is None:
            return line
        rows = [line[0]]
        for a, b in pairwise(line):
            if _on_one_side(a, b, self.frame):
                rows.append(np.full(2, np.nan))
            rows.append(b)
        return np.array(rows)


def _on_one_side(a: Vec, b: Vec, frame: Frame) -> bool:
    touches = [np.abs(p - frame.middle) >= frame.half * (1.0 - 1e-6) for p in (a, b)]
    parallel = np.abs(a - b) <= 1e-6 * frame.half
    return bool(np.any(touches[0] & touches[1] & parallel))


class _Unbounded(Exception):
    """Internal exception for an infinite value of the support function."""


def outline(support: Callable[[Vec], tuple[float, Vec]], *, rtol: float = 2e-3) -> Outline | None:
    """Return a polygon that approximates a convex set of the plane within `rtol`; None for an unbounded set.

    The boundary between two support points lies in the triangle of their chord and the two supporting
    lines. A triangle higher than `2 rtol` of the diameter is split at the support point of the chord's
    normal, unless the chord is an edge of the set. A polygon with k vertices is found exactly by at most
    `2 k + 3` evaluations; a disc takes `O(1 / sqrt(rtol))`. The polygon cuts each triangle at half its
    height, so that half of the height bounds the error.

    Parameters
    ----------
    support : unit vector -> (height, point), the height inf without a point
    rtol : bound of the error, as a part of the diameter

    Notes
    -----
    Rote (1992), The convergence rate of the sandwich algorithm for approximating convex functions,
    Computing 48.
    """
    evaluations, error, size = 0, 0.0, 0.0

    def point(e: Vec) -> Vec:
        nonlocal evaluations
        evaluations += 1
        height, z = support(e)
        if not np.isfinite(height):
            raise _Unbounded
        return z

    def trace(a: Vec, e: Vec, b: Vec, f: Vec) -> list[Vec]:
        """Return the vertices from a to b, without b; a and b are the support points of e and f."""
        nonlocal error, size
        apex, height = _triangle(a, e, b, f)
        chord = b - a
        length = float(np.hypot(*chord))
        if height <= 2.0 * rtol * size or length <= _SAME * size:
            error = max(error, 0.5 * height)
            return [a] if height <= _SAME * size else [a, 0.5 * (a + apex), 0.5 * (b + apex)]
        n = np.array([chord[1], -chord[0]]) / length
        z = point(n)
        rise = float(n @ (z - a))
        if rise <= _SAME * size:  # an edge
            error = max(error, rise)
            return [a]
        size = max(size, float(np.hypot(*(z - a))), float(np.hypot(*(z - b))))
        return trace(a, e, z, n) + trace(z, n, b, f)

    directions = [np.array([np.cos(t), np.sin(t)]) for t in 0.3 + 2.0 * np.pi / 3.0 * np.arange(3)]
    try:
        starts = [point(e) for e in directions]
        size = _diameter(np.array(starts))
        # the directions sum to 0: a point that supports all three is the whole set
        if size <= 1e-12 * float(np.abs(starts).max()):
            return Outline(starts[0][None], 0.0, 0.0, evaluations)
        vertices: list[Vec] = []
        for k, j in ((0, 1), (1, 2), (2, 0)):
            vertices += trace(starts[k], directions[k], starts[j], directions[j])
    except _Unbounded:
        return None
    polygon = _distinct(np.array(vertices), size)
    return Outline(polygon, error, _diameter(polygon), evaluations)


def _triangle(a: Vec, e: Vec, b: Vec, f: Vec) -> tuple[Vec, float]:
    """Return the apex, where the supporting lines at a and b meet, and its distance from the chord ab."""
    chord = b - a
    length = float(np.hypot(*chord))
    det = float(e[0] * f[1] - e[1] * f[0])
    if length == 0.0 or det <= 1e-14:
        return a, 0.0
    # relative to a, as the offset may be large
    apex = float(f @ chord) / det * np.array([-e[1], e[0]])
    if float(chord[1] * apex[0] - chord[0] * apex[1]) <= 0.0:  # on the chord, by rounding
        return a, 0.0
    t = min(max(float(apex @ chord) / length**2, 0.0), 1.0)
    return a + apex, float(np.hypot(*(apex - t * chord)))


@dataclass
class Projection:
    """The projection `{P x : x in U}`, the rows of P (2, n) orthonormal, callable as its support function."""

    U: UncertaintySet
    data: Data
    P: NDArray[np.float64]
    evaluations: int = 0

    def __post_init__(self) -> None:
        self._heights = SupportFunction(self.U, self.data)

    def __call__(self, e: Vec) -> tuple[float, Vec]:
        """Return the value `max <e, z>` over the projection and a maximiser; (inf, nan) if unbounded."""
        self.evaluations += 1
        x = self._heights(self.P.T @ e).point
        if x is None or not np.all(np.isfinite(x)):
            return np.inf, np.full(2, np.nan)
        z = self.P @ x
        return float(e @ z), z


def projection_outline(projection: Projection, frame: Frame, *, rtol: float = 2e-3) -> Outline:
    """Return the outline of a projection, or of its intersection with the frame if unbounded."""
    bounded = outline(projection, rtol=rtol)
    if bounded is not None:
        return bounded
    part = outline(_support_in_frame(projection, frame), rtol=rtol)
    if part is None:
        raise RuntimeError("a set in a square is bounded")
    return replace(part, frame=frame)


def _support_in_frame(projection: Projection, frame: Frame) -> Callable[[Vec], tuple[float, Vec]]:
    """Return the support function of the projected points in a square, by one conic program."""
    U, scale = projection.U, projection.data.scale
    x, constraints = U.cvxpy(projection.data, Scope())
    z, direction = cp.Variable(2), cp.Parameter(2)
    in_frame = [z == projection.P @ x / scale, cp.abs(z - frame.middle / scale) <= frame.half / scale]
    problem = cp.Problem(cp.Maximize(direction @ z), [*constraints, *in_frame])

    def support(e: Vec) -> tuple[float, Vec]:
        direction.value = e
        failure = attempt(problem, cp.CLARABEL, **accuracy("CLARABEL", 1e-9))
        if failure or z.value is None:
            raise SolverError(
                f"{U!r}: the conic program of its support function ended with "
                f"{failure or problem.status}; scale the features"
            )
        point = scale * np.asarray(z.value, dtype=np.float64)
        return float(e @ point), point

    return support


def unit_vectors(angles: NDArray[np.float64], p: float) -> NDArray[np.float64]:
    """Return the vectors of the plane with these angles and the p-norm 1, (k, 2)."""
    u = np.c_[np.cos(angles), np.sin(angles)]
    return u / np.linalg.norm(u, ord=p, axis=1)[:, None]


def _diameter(points: NDArray[np.float64]) -> float:
    return float(np.hypot(*(points[:, None] - points[None]).T).max())


def _distinct(points: NDArray[np.float64], size: float) -> NDArray[np.float64]:
    """Return the vertices without duplicates and without points in the interior of a straight edge."""
    step = np.hypot(*(points - np.roll(points, 1, axis=0)).T)
    points = points[step > _SAME * size] if np.any(step > _SAME * size) else points[:1]
    if len(points) < 3:
        return points
    before, after = np.roll(points, 1, axis=0), np.roll(points, -1, axis=0)
    chord = after - before
    rise = chord[:, 0] * (points - before)[:, 1] - chord[:, 1] * (points - before)[:, 0]
    length = np.hypot(*chord.T)
    flat = np.abs(rise) <= 1e-9 * size * np.maximum(length, 1e-300)
    return points if flat.sum() > len(points) - 2 else points[~flat]
