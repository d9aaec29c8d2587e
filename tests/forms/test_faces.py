"""Sums of reduced hulls from one direction, against counting, filling and a scalar search."""

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from ucm.forms.faces import SumOfHulls, _merged


def largest(s: np.ndarray, c: np.ndarray, mass: float) -> float:
    """The largest <q, s>, one sample after another."""
    value = 0.0
    for k in np.argsort(-s):
        q = float(min(c[k], mass))
        value, mass = value + q * float(s[k]), mass - q
    return value


@pytest.mark.parametrize("n", [2, 9, 500])
def test_the_least_support_along_a_line(n: int) -> None:
    rng = np.random.default_rng(n)
    points, caps = rng.standard_normal((n, 3)), rng.uniform(0.1, 1.0, n)
    points[rng.integers(0, n, n // 2)] = points[0]
    bounds = np.array([0, n // 2, n])
    parts = [slice(0, n // 2), slice(n // 2, n)]
    masses = np.array([0.4 * caps[p].sum() for p in parts])
    hulls = SumOfHulls(0.1 * rng.standard_normal(3), points, caps, bounds, masses, (), ())
    w, d = rng.standard_normal((2, 3))

    def value(t: float) -> float:
        v = w + t * d
        scores = hulls.scores(v)
        rest = sum(largest(scores[p], caps[p], m) for p, m in zip(parts, masses, strict=True))
        return rest - float(hulls.center @ v)

    if value(1e-6) > value(0.0):
        d = -d
    for first in (1e-3, 1.0, 1e3):
        t = hulls.line_minimum(hulls.scores(w), w, d, first)
        best: Any = minimize_scalar(value, bounds=(0.0, 100.0), method="bounded", options={"xatol": 1e-10})
        assert t > 0.0
        assert value(t) <= best.fun + 1e-9 * (1.0 + abs(best.fun))


@pytest.mark.parametrize("count", [1, 5, 40])
def test_the_support_of_a_part_is_a_lower_bound(count: int) -> None:
    rng = np.random.default_rng(count)
    points, caps = rng.standard_normal((60, 3)), rng.uniform(0.1, 1.0, 60)
    groups = [slice(0, 25), slice(25, 60)]
    masses = np.array([0.3 * caps[p].sum() for p in groups])
    hulls = SumOfHulls(rng.standard_normal(3), points, caps, np.array([0, 25, 60]), masses, (), ())

    def support(U: SumOfHulls, w: np.ndarray) -> float:
        ends = zip(U.bounds[:-1], U.bounds[1:], U.masses, strict=True)
        filled = (largest(-U.points[a:b] @ w, U.caps[a:b], m) for a, b, m in ends)
        return sum(filled) - float(U.center @ w)

    w = rng.standard_normal(3)
    part = hulls.part(hulls.face(w, None, count))
    assert support(part, w) == pytest.approx(support(hulls, w), rel=1e-12)
    near = w + 1e-3 * rng.standard_normal((20, 3)), rng.standard_normal((200, 3))
    below = [support(hulls, v) - support(part, v) for v in np.concatenate(near)]
    assert min(below) >= -1e-12 and (max(below) > 1e-3 or count == 40)


@pytest.mark.parametrize("n", [3, 64, 65, 200])
def test_equal_rows_are_merged_in_order_of_their_first(n: int) -> None:
    rng = np.random.default_rng(n)
    rows = rng.standard_normal((9, n))[rng.integers(0, 9, 40)]
    distinct, index = _merged(rows)
    assert np.array_equal(distinct[index], rows) and len(distinct) == len({tuple(row) for row in rows})
    assert (np.diff(np.unique(index, return_index=True)[1]) > 0).all()
