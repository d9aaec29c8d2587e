"""Outlines of convex sets of the plane from their support functions: the sandwich algorithm."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear import Vec
from ucm.plot.support import Frame, Shadow

__all__ = ["Outline", "outline", "shadow_outline"]

_SAME = 1e-7  # of the size: two points are one, a chord lies on its line


@dataclass(frozen=True)
class Outline:
    """A convex polygon that approximates a convex set of the plane, with a bound of the error.

    Attributes
    ----------
    vertices : (k, 2) in counter-clockwise order; one for a point, two for a segment
    inner : (j, 2) the points of the set that were found
    error : a bound of the Hausdorff distance to the set; 0 (but for rounding) of polygons
    size : the diameter of the polygon
    evaluations : of the support function
    frame : None, or the square that an unbounded set is cut off at
    """

    vertices: NDArray[np.float64]
    inner: NDArray[np.float64]
    error: float
    size: float
    evaluations: int
    frame: Frame | None = None

    @property
    def closed(self) -> NDArray[np.float64]:
        """The vertices, the first once more at the end."""
        return np.vstack([self.vertices, self.vertices[:1]])

    @property
    def rim(self) -> NDArray[np.float64]:
        """`closed` with NaN between the vertices that lie on the frame: the boundary of the set itself."""
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
    at = [np.abs(p - frame.middle) >= frame.half * (1.0 - 1e-6) for p in (a, b)]
    level = np.abs(a - b) <= 1e-6 * frame.half
    return bool(np.any(at[0] & at[1] & level))


@dataclass
class _Corner:
    """The uncertainty between two neighbouring support points: a triangle over their chord, its third corner
    where the two supporting lines meet. The boundary runs inside of it."""

    a: Vec
    b: Vec
    e: Vec  # the direction that a supports
    f: Vec  # the direction that b supports
    height: float = 0.0  # how far the third corner is from the chord
    apex: Vec | None = None

    def __post_init__(self) -> None:
        chord = self.b - self.a
        length = float(np.hypot(*chord))
        det = float(self.e[0] * self.f[1] - self.e[1] * self.f[0])
        if length == 0.0 or det <= 1e-14:
            return
        # in coordinates of a, as the offsets may be large
        apex = float(self.f @ chord) / det * np.array([-self.e[1], self.e[0]])
        if float(chord[1] * apex[0] - chord[0] * apex[1]) <= 0.0:
            return  # rounding: it lies on the chord
        along = min(max(float(apex @ chord) / length**2, 0.0), 1.0)
        self.height = float(np.hypot(*(apex - along * chord)))
        self.apex = self.a + apex

    @property
    def normal(self) -> Vec:
        chord = self.b - self.a
        return np.array([chord[1], -chord[0]]) / np.hypot(*chord)


def outline(
    support: Callable[[Vec], tuple[float, Vec]], *, rtol: float = 2e-3, limit: int = 200
) -> Outline | None:
    """The outline of a convex set of the plane, to a part `rtol` of its diameter.

    Support points in three directions make a triangle. Then the chord whose triangle of uncertainty is the
    highest is asked along its normal: the answer is an edge of the set, or a new point, until no triangle
    is higher than `2 rtol` of the diameter. A polygon with k vertices is found exactly by at most
    `2 k + 3` questions; a disc takes `O(1 / sqrt(rtol))`. What is drawn between two points cuts their
    triangle at half its height: the cut is half as far from the third corner as the chord is, and the chord
    from the cut, so that half of the height bounds the error.

    Parameters
    ----------
    support : direction of length 1 -> (height, point)
    rtol : part of the diameter
    limit : of the questions

    Returns
    -------
    None where some direction has no highest point: the set is unbounded.

    Notes
    -----
    Rote (1992), The convergence rate of the sandwich algorithm for approximating convex functions,
    Computing 48.
    """
    asked = 0

    def ask(e: Vec) -> Vec | None:
        nonlocal asked
        asked += 1
        height, z = support(e)
        return z if np.isfinite(height) else None

    angles = 0.3 + 2.0 * np.pi / 3.0 * np.arange(3)
    begin = [np.array([np.cos(t), np.sin(t)]) for t in angles]
    points = []
    for e in begin:
        z = ask(e)
        if z is None:
            return None
        points.append(z)
    size = _diameter(np.array(points))
    # three directions that sum to 0: one point that supports them all is the set
    if size <= 1e-12 * float(np.abs(points).max()):
        return Outline(points[0][None], points[0][None], 0.0, 0.0, asked)
    order = {
        k: _Corner(points[k], points[(k + 1) % 3], begin[k], begin[(k + 1) % 3]) for k in range(3)
    }
    after = {0: 1, 1: 2, 2: 0}
    heap = [(-c.height, k) for k, c in order.items()]
    heapq.heapify(heap)
    done = 0.0  # the highest triangle whose chord was found to be an edge
    while heap and asked < limit:
        height, k = heap[0]
        if -height <= 2.0 * rtol * size:
            break
        heapq.heappop(heap)
        c = order[k]
        if float(np.hypot(*(c.b - c.a))) <= _SAME * size:
            done = max(done, -height)
            continue
        n = c.normal
        z = ask(n)
        if z is None:
            return None
        rise = float(n @ (z - c.a))
        if rise <= _SAME * size:  # an edge
            done = max(done, rise)
            c.height, c.apex = 0.0, None
            continue
        new = len(order)
        order[k] = _Corner(c.a, z, c.e, n)
        order[new] = _Corner(z, c.b, n, c.f)
        after[new], after[k] = after[k], new
        size = max(size, float(np.hypot(*(np.array([c.a, c.b, *points]) - z).T).max()))
        for j in (k, new):
            heapq.heappush(heap, (-order[j].height, j))
    left = max((c.height for c in order.values()), default=0.0)
    inner, drawn, k = [], [], 0
    for _ in range(len(order)):
        c = order[k]
        inner.append(c.a)
        drawn.append(c.a)
        if c.apex is not None and c.height > _SAME * size:
            drawn += [0.5 * (c.a + c.apex), 0.5 * (c.b + c.apex)]
        k = after[k]
    return Outline(
        _distinct(np.array(drawn), size),
        _distinct(np.array(inner), size),
        max(0.5 * left, done if done <= _SAME * size else 0.5 * done),
        _diameter(np.array(inner)),
        asked,
    )


def shadow_outline(
    shadow: Shadow, frame: Frame, *, rtol: float = 2e-3, limit: int = 200
) -> Outline:
    """The outline of a shadow; of an unbounded one, the part of it in the frame."""
    found = outline(shadow, rtol=rtol, limit=limit)
    if found is not None:
        return found
    part = outline(shadow.within(frame), rtol=rtol, limit=limit)
    if part is None:
        raise RuntimeError("a set in a square is bounded")
    return Outline(part.vertices, part.inner, part.error, part.size, part.evaluations, frame)


def _diameter(points: NDArray[np.float64]) -> float:
    return float(np.hypot(*(points[:, None] - points[None]).T).max())


def _distinct(points: NDArray[np.float64], size: float) -> NDArray[np.float64]:
    """Without points that repeat the one before, and without those inside of a straight edge."""
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
