"""Polyhedral cones against conic programs."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from ucm.language.cone import PolyhedralCone, decomposed


def _cone(seed: int) -> tuple[PolyhedralCone, Any, int]:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 7))
    lower, upper = -rng.integers(0, 2, n).astype(float), rng.integers(0, 2, n).astype(float)
    lines = () if seed % 3 == 0 else (rng.normal(size=(n, 1 + seed % 2)),)
    rays = () if seed % 4 == 1 else (rng.normal(size=(n, 2)),)
    return PolyhedralCone(lower, upper, lines, rays), rng, n


@pytest.mark.parametrize("seed", range(12))
def test_projection_and_face(seed: int) -> None:
    cone, rng, n = _cone(seed)
    z = rng.normal(size=n)
    x = cp.Variable(n)
    v = cp.Variable(n)
    inside = [v[np.asarray(cone.upper) == 0] <= 0, v[np.asarray(cone.lower) == 0] >= 0]
    total = v
    for L in cone.lines:
        total = total + L @ cp.Variable(L.shape[1])
    for G in cone.rays:
        total = total + G @ cp.Variable(G.shape[1], nonneg=True)
    cp.Problem(cp.Minimize(cp.sum_squares(x - z)), [x == total, *inside]).solve(solver="CLARABEL")
    p = cone.project(z)
    np.testing.assert_allclose(p, x.value, atol=1e-5)
    np.testing.assert_allclose(cone.project(p), p, atol=1e-14)
    if cone.lines or cone.rays:
        point, at, directions = cone.face(z)
        np.testing.assert_array_equal(point, p)
        np.testing.assert_allclose(directions.T @ (z - p)[at], 0.0, atol=1e-14)


def test_points_of_several_cones_add_up() -> None:
    rng = np.random.default_rng(0)
    near = np.array([[1.0], [1e-6], [0.0]])  # sweeps of projections would need 1e12 steps
    cones = [PolyhedralCone(*np.array([[-1.0, 0, 0], [1.0, 0, 0]])), PolyhedralCone(lines=(near,))]
    z = np.append(rng.normal(size=2), 0.0)
    first, second = decomposed(cones, z)
    np.testing.assert_allclose(first + second, z, atol=1e-12)
    assert first[1:].tolist() == [0.0, 0.0] and abs(second[1] - 1e-6 * second[0]) <= 1e-15
