"""DCA with twenty starts beside the exact optimum of small problems."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ucm.compiler.compile import solve
from ucm.data.linear import Vec
from ucm.language import models

__all__ = ["exact", "instances", "rows"]

COUNT = 200
STARTS = 20
SHARE = 0.95  # of the instances
BIG = 2000.0  # above every margin and weight of these instances


def rows() -> Iterator[dict[str, Any]]:
    """The share of 200 instances of ramp and capped l1 whose optimum twenty starts find."""
    found = 0
    for X, y, lam, mu, a in instances(COUNT):
        solution = solve(models.rlsvmc1(lam, mu, a), X, y, starts=STARTS)
        found += solution.objective <= exact(X, y, lam, mu, a) * (1 + 1e-6) + 1e-9
    share = found / COUNT
    yield {
        "part": "exact optimum",
        "data": f"{COUNT} instances, m <= 20, n <= 3",
        "model": "RLSVMC1",
        "measured": share,
        "target": SHARE,
        "within": share >= SHARE,
    }


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
    from scipy.optimize import Bounds, LinearConstraint, milp

    m, n = X.shape
    size = n + 1 + 2 * m + 2 * n
    cost = np.zeros(size)
    xi, lost = slice(n + 1, n + 1 + m), slice(n + 1 + m, n + 1 + 2 * m)
    part, free = slice(n + 1 + 2 * m, size - n), slice(size - n, size)
    cost[xi], cost[lost], cost[part], cost[free] = 1 / mu, 1 + mu, lam, lam * a
    margins = np.zeros((m, size))
    margins[:, :n], margins[:, n] = y[:, None] * X, y
    margins[:, xi], margins[:, lost] = np.eye(m), BIG * np.eye(m)
    sides = []
    for sign in (1.0, -1.0):
        side = np.zeros((n, size))
        side[:, :n], side[:, part], side[:, free] = sign * np.eye(n), np.eye(n), BIG * np.eye(n)
        sides.append(side)
    low: Any = np.zeros(size)
    high: Any = np.full(size, np.inf)
    low[: n + 1] = -np.inf
    whole = np.zeros(size)
    whole[lost] = whole[free] = high[lost] = high[free] = 1
    rows = np.vstack([margins, *sides])
    least: Any = np.concatenate([np.full(m, mu), np.zeros(2 * n)])
    with _silence():
        found = milp(
            cost,
            constraints=LinearConstraint(rows, least, np.inf),
            bounds=Bounds(low, high),
            integrality=whole,
            options={"mip_rel_gap": 1e-9},
        )
    return float(found.fun)


@contextmanager
def _silence() -> Iterator[None]:
    """HiGHS writes a line of its own to the standard output of the process now and then."""
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
