"""The power equation and the projection on the ball of a p-norm, against Brent's method and conditions."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import brentq

from ucm.language.domains import NormBall
from ucm.language.power import power_root


@pytest.mark.parametrize("e", [0.3, 0.5, 1.0, 1.7, 2.0, 5.0])
@pytest.mark.parametrize("n", [1, 8, 50])
def test_the_power_equation_against_brent(n: int, e: float) -> None:
    rng = np.random.default_rng(n)
    u, c = rng.standard_normal(n) * 10.0 ** rng.uniform(-2, 2, n), 10.0 ** rng.uniform(-2, 2, n)

    def excess(t: float, u: float, k: float) -> float:
        return t + k * t**e - u

    for k in (c, float(c[0]), 0.0):
        for x, ui, ki in zip(power_root(u, k, e), u, np.broadcast_to(k, n), strict=True):
            if ui <= 0.0:
                assert x == 0.0
            else:
                root = brentq(excess, 0.0, ui, args=(ui, ki), xtol=1e-300, rtol=np.float64(1e-15))
                assert x == pytest.approx(root, rel=1e-12)
    out = power_root(np.array([np.nan, np.inf]), 1.0, e)
    assert out[0] == 0.0
    assert not out[1] < 1e300
    assert power_root(np.empty(0), 1.0, e).size == 0


@pytest.mark.parametrize("p", [1.1, 1.5, 2.0, 3.0, 8.0])
@pytest.mark.parametrize("n", [1, 2, 30])
def test_the_projection_on_a_ball_of_a_p_norm_against_its_conditions(n: int, p: float) -> None:
    u = np.random.default_rng(n).uniform(1.0, 4.0, n)
    ball = NormBall(1.0, p)
    q = ball.project(u)
    assert np.sum(q**p) == pytest.approx(1.0, abs=1e-12)
    if n == 1:
        return
    lam = (u - q) / q ** (p - 1.0)  # one multiplier
    assert lam.min() > 0.0
    assert np.ptp(lam) <= 1e-9 * lam.max()
    d, h = np.random.default_rng(n).standard_normal(n), 1e-6
    difference = (ball.project(u + h * d) - ball.project(u - h * d)) / (2.0 * h)
    assert_allclose(ball.jacobian(u).matvec(d), difference, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("p", [1.001, 1.01, 1.5, 3.0, 30.0])
@pytest.mark.parametrize("n", [2, 4, 50, 3000])
def test_points_on_a_sphere_but_for_rounding_stay(n: int, p: float) -> None:
    for u in (np.full(n, n ** (-1.0 / p)), np.random.default_rng(n).uniform(0.1, 1.0, n)):
        u /= np.sum(u**p) ** (1.0 / p)
        for beyond in (-1e-14, 0.0, 1e-16, 2e-16, 4e-16, 1e-15, 1e-14):
            assert_allclose(NormBall(1.0, p).project((1.0 + beyond) * u), u, rtol=1e-13)


@pytest.mark.parametrize(("p", "slope"), [(1.5, 0.0), (3.0, 1.0)])
def test_an_entry_at_0_leaves_it_with_the_slope_of_its_equation(p: float, slope: float) -> None:
    moved = NormBall(1.0, p).jacobian(np.array([2.0, 0.0])).matvec(np.array([0.0, 1.0]))
    assert_allclose(moved, [0.0, slope], atol=1e-12)
