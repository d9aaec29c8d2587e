"""DCA with twenty starts beside the exact optimum of small problems."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ucm.bench.judge import goal
from ucm.bench.registry import COURSE, Row
from ucm.compiler.compile import solve
from ucm.data.linear import Vec
from ucm.language import models

__all__ = ["exact", "instances", "rows"]

COUNT = 200
STARTS = 20
SHARE = 0.95  # of the instances
BIG = 2000.0  # above every margin and weight of these instances


def rows() -> Iterator[Row]:
    """The share of 200 instances of ramp and capped l1 whose optimum twenty starts find."""
    found, count = 0, COUNT // 10 if COURSE.quick else COUNT
    for X, y, lam, mu, a in instances(count):
        solution = solve(models.rlsvmc1(lam, mu, a), X, y, starts=STARTS)
        found += solution.objective <= exact(X, y, lam, mu, a) * (1 + 1e-6) + 1e-9
    data, share = f"{count} instances, m <= 20, n <= 3", found / count
    yield goal("exact optimum", data, "RLSVMC1", share, SHARE, share >= SHARE)


def instances(count: int) -> Iterator[tuple[Any, Vec, float, float, float]]:
    """Random samples, lam, mu and a."""
    generator = np.random.default_rng(11)
    for _ in range(count):
        m, n = int(generator.integers(8, 21)), int(generator.integers(1, 4))
        X = generator.standard_normal((m, n))
        y = np.sign(X @ generator.standard_normal(n) + 0.8 * generator.standard_normal(m))
        y[:2] = 1.0, -1.0
        yield X, y, generator.choice([0.1, 0.3, 1.0, 3.0]), generator.choice([0.5, 1.0]), 0.5


def exact(X: Any, y: Vec, lam: float, mu: float, a: float) -> float:
    """The optimum of ramp and capped l1 as a mixed-integer program, by HiGHS: one switch for every sample
    that is given up, and for every weight above the cap."""
    import cvxpy as cp

    m, n = X.shape
    w, b = cp.Variable(n), cp.Variable()
    xi, lost = cp.Variable(m, nonneg=True), cp.Variable(m, boolean=True)
    part, free = cp.Variable(n, nonneg=True), cp.Variable(n, boolean=True)
    loss = cp.sum(xi) / mu + (1.0 + mu) * cp.sum(lost)
    inside = [
        cp.multiply(y, X @ w + b) + xi + BIG * lost >= mu,
        cp.abs(w) <= part + BIG * free,
    ]
    problem = cp.Problem(cp.Minimize(loss + lam * cp.sum(part + a * free)), inside)
    return float(problem.solve(solver="HIGHS", mip_rel_gap=1e-9))
