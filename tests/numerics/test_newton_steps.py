"""The steps that all Newton methods share: line search, growth of sigma, stalling, ridge solve, sums that
follow their weights, coordinates of a span."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import ucm
from ucm.language.domains import LossBall
from ucm.numerics.coordinates import SpanCoordinates, span_of
from ucm.numerics.newton_steps import (
    MOST,
    SHRINK,
    Stall,
    gradient_tolerance,
    growth,
    line_search,
    ridge_solve,
)


@pytest.mark.parametrize("rate", [10.0, 60.0, 500.0])
def test_a_line_search_where_the_slope_grows_exponentially(rate: float) -> None:
    """-1 at 0, and exp(rate) - 2 at 1: secants alone come from there to 1e-22."""
    t = line_search(lambda t, _: math.exp(rate * t) - 2.0, None, -1.0)
    assert abs(math.exp(rate * t) - 2.0) <= 0.2 + 1e-12


@pytest.mark.parametrize("root", [1e-3, 0.2, 1.0, 1.4, 37.0, 1e6])
def test_the_line_search_ends_where_the_slope_is_small(root: float) -> None:
    for bend in (lambda x: x, lambda x: x**3, lambda x: np.expm1(min(x, 5.0)), np.tanh):
        asked = []

        def slope(t: float, parts: Any, bend: Any = bend, asked: list = asked) -> float:
            asked.append(t)
            return float(bend((t - root) / root))

        start = float(bend(-1.0))
        t = line_search(slope, None, start)
        assert asked[-1] == t and len(asked) <= 40
        assert abs(bend((t - root) / root)) <= 0.2 * abs(start)


def test_a_slope_that_jumps_is_bracketed() -> None:
    t = line_search(lambda t, parts: -1.0 if t < 0.37 else 5.0, None, -1.0)
    assert t == pytest.approx(0.37, abs=1e-6)


@pytest.mark.parametrize("kink", [1e-3, 1e-6, 1e-9, 1e-13])
def test_the_line_search_finds_a_kink_from_which_the_slope_is_steep(kink: float) -> None:
    """As where a proximal map is 0 up to there; the arithmetic mean alone would halve 40 times in vain."""

    def slope(t: float, parts: Any) -> float:
        return -1.0 + 5e10 * max(t - kink, 0.0)

    t = line_search(slope, None, -1.0)
    assert 0.9 * kink <= t and slope(t, None) <= 0.2


@pytest.mark.parametrize("late", [0.15, 0.19, 1e-9])
def test_a_step_uphill_is_not_taken(late: float) -> None:
    """The slope goes from -1 to a small positive number soon: at t = 1 the function has risen."""

    def slope(t: float, parts: Any) -> float:
        return -1.0 + 100.0 * (1.0 + late) * t if t < 0.01 else late

    def value(t: float) -> float:
        s = min(t, 0.01)
        return -s + 50.0 * (1.0 + late) * s * s + late * max(t - 0.01, 0.0)

    t = line_search(slope, None, -1.0)
    assert value(t) <= -1e-4 * t and abs(slope(t, None)) <= 0.2
    assert late < 0.1 or value(1.0) > 0.0


def test_fewer_steps_let_sigma_grow_more() -> None:
    factors = [growth(k, 20.0) for k in range(MOST)]
    assert factors[0] == 20.0 and factors == sorted(factors, reverse=True) and factors[-1] > 1.0
    assert growth(MOST, 20.0) == SHRINK < 1.0
    first, later, last, least = map(gradient_tolerance, (np.inf, 1e-4, 1e-12, -1.0))
    assert first == 0.5 > later > last == least > 0.0


def test_steps_without_gain_are_counted() -> None:
    stalled = Stall(patience=2)
    ends = [stalled.after(error) for error in (4.0, 5.0, 3.999, 3.0, 3.0, np.nan, 1e-9)]
    assert ends == [False, False, True, False, False, True, False]


def test_a_ridge_solves_numerically_singular_systems() -> None:
    generator = np.random.default_rng(0)
    Z, g = generator.standard_normal((3, 6)), generator.standard_normal(6)
    H = Z.T @ Z
    d = ridge_solve(H, H @ g)
    np.testing.assert_allclose(H @ d, H @ g, atol=1e-6)
    np.testing.assert_allclose(ridge_solve(H + np.eye(6), g), np.linalg.solve(H + np.eye(6), g))


@pytest.mark.parametrize("kind", ["dense", "sparse", "two tables"])
def test_coordinates_of_a_span_keep_inner_products(kind: str) -> None:
    generator = np.random.default_rng(2)
    X = np.where(generator.random((12, 90)) < 0.3, generator.standard_normal((12, 90)), 0.0)
    X[5] = X[2]  # rank 11
    tables = {"dense": X, "sparse": sparse.csr_matrix(X)}
    span = span_of(tables[kind]) if kind in tables else SpanCoordinates([X[:5], X[5:]])
    F = np.vstack(span.tables)
    np.testing.assert_allclose(F @ F.T, X @ X.T, atol=1e-9)
    z, x = generator.standard_normal(F.shape[1]), generator.standard_normal(90)
    np.testing.assert_allclose(X @ span.outward(z), F @ z, atol=1e-6)
    nearest = X.T @ np.linalg.lstsq(X.T, x)[0]
    if kind != "dense":  # whose basis has directions that no sample needs
        np.testing.assert_allclose(span.outward(span.inward(x)), nearest, atol=1e-6)
    np.testing.assert_allclose(F @ span.inward(x), X @ x, atol=1e-6)


@pytest.mark.parametrize("loss", [ucm.Logistic(), ucm.Hinge()], ids=str)
def test_wide_samples_far_from_0_or_of_different_lengths(loss: Any) -> None:
    """Their inner products round what their coordinates keep."""
    generator = np.random.default_rng(0)
    X, y = generator.standard_normal((60, 300)), np.where(generator.random(60) < 0.5, 1.0, -1.0)
    plain = ucm.solve(loss + ucm.L2(), X, y)
    far = ucm.solve(loss + ucm.L2(), X + 1e6, y)
    long = ucm.solve(loss + ucm.L2(), X * np.geomspace(1.0, 1e6, 60)[:, None], y)
    assert plain.status == far.status == long.status == "optimal"
    assert far.objective == pytest.approx(plain.objective, rel=1e-5)


def test_samples_that_are_all_0_have_a_span() -> None:
    X, y = np.zeros((6, 10)), np.repeat([1.0, -1.0], 3)
    for model in (
        ucm.models.nu_svm(0.5),
        ucm.Hull(ucm.signed, weights=LossBall(ucm.Logistic(), lam=2.0)),
    ):
        found = ucm.solve(model, X, y)
        assert found.objective == 0.0 and not np.any(found.w)


def test_a_system_that_overflows_has_no_step() -> None:
    H = np.array([[-1.0, np.inf], [np.inf, 1.0]])  # what squares that overflow leave
    assert not ridge_solve(H, np.ones(2)).any()
