"""Polyhedral cones: the sum of the cone of a box, of lines and of rays, with its projection and its faces."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from ucm.data.linear_map import Vec

Bound = float | Vec
"""A bound for all coordinates, or an array with a bound for each coordinate."""
_ROUNDING = 1e-12  # of the largest singular value of lines, and of a ray: what counts as 0


def nonnegative_least_squares(A: NDArray[np.float64], b: Vec) -> tuple[Vec, float]:
    """Return the x >= 0 of least `||A x - b||`, and this distance; NaN if b overflows."""
    if not np.isfinite(b).all():  # which nnls refuses
        return np.full(A.shape[1], np.nan), np.nan
    if not A.shape[1]:  # which crashes nnls
        return np.zeros(0), float(np.linalg.norm(b))
    try:
        return scipy.optimize.nnls(A, b)
    except RuntimeError:  # its limit of steps
        x = scipy.optimize.lsq_linear(A, b, (0.0, np.inf), method="bvls").x
        return x, float(np.linalg.norm(A @ x - b))


@dataclass(frozen=True, eq=False)
class PolyhedralCone:
    """The cone of the points `x + L s + G u`, x a multiple of a point of a box, s any numbers, and u >= 0.

    lower, upper : the bounds of the box, `lower <= 0 <= upper`; the cone has the signs of its points
    lines, rays : matrices, whose columns together are those of L and of G
    """

    lower: Bound = 0.0
    upper: Bound = 0.0
    lines: tuple[NDArray[np.float64], ...] = ()
    rays: tuple[NDArray[np.float64], ...] = ()

    def __add__(self, other: PolyhedralCone) -> PolyhedralCone:
        box = self.lower + other.lower, self.upper + other.upper
        return PolyhedralCone(*box, self.lines + other.lines, self.rays + other.rays)

    def _signs(self, n: int) -> list[NDArray[np.bool_]]:
        """Return which coordinates of the points of the box may be positive, and which negative, (n,)."""
        return [np.broadcast_to(np.asarray(x) > 0.0, n) for x in (self.upper, -self.lower)]

    @functools.cached_property
    def _bound_part(self) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[Any]]:
        """The coordinates without both signs; in them, an orthonormal basis Q of the lines, and the rays
        without their parts in the span of Q.
        """
        n = len((*self.lines, *self.rays)[0])
        up, down = self._signs(n)
        at = np.flatnonzero(~(up & down))
        Q = scipy.linalg.orth(np.hstack([np.empty((n, 0)), *self.lines])[at], _ROUNDING)
        G = np.hstack([np.diag(1.0 * up - down)[:, up ^ down], *self.rays])[at]
        size = np.linalg.norm(G, axis=0)
        G = G - Q @ (Q.T @ G)
        G[:, np.linalg.norm(G, axis=0) <= _ROUNDING * size] = 0.0
        return at, Q, G

    def face(self, z: Vec) -> tuple[Vec, NDArray[np.intp], NDArray[np.float64]]:
        """Return the projection p of z, the coordinates without both signs, and in these coordinates the
        directions that span the least face of the cone with p.
        """
        at, Q, G = self._bound_part
        p, v = z.copy(), z[at]
        u = nonnegative_least_squares(G, v - Q @ (Q.T @ v))[0]
        p[at] = Q @ (Q.T @ v) + G @ u
        return p, at, np.hstack([Q, G[:, u > 0.0]])

    def project(self, z: Vec) -> Vec:
        """Return the projection of z on the cone."""
        if not (self.lines or self.rays):
            return np.where(np.where(z > 0.0, self.upper, self.lower) != 0.0, z, 0.0)
        return self.face(z)[0]

    def generators(self, n: int) -> NDArray[np.float64]:
        """Return the columns whose sums with factors >= 0 are the points of the cone in R^n."""
        up, down = self._signs(n)
        back = (-L for L in self.lines)
        return np.hstack([np.eye(n)[:, up], -np.eye(n)[:, down], *self.lines, *back, *self.rays])


def decomposed(cones: Sequence[PolyhedralCone], z: Vec) -> list[Vec]:
    """Return a point of each cone, such that their sum is the point nearest to z of the sum of the cones."""
    columns = [cone.generators(z.size) for cone in cones]
    u = nonnegative_least_squares(np.hstack(columns), z)[0]
    ends = np.cumsum([G.shape[1] for G in columns])[:-1]
    return [G @ x for G, x in zip(columns, np.split(u, ends), strict=True)]
