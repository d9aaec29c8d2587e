"""Optima by other programs: power cones for the dual of the pSVM, mixed integers for ramp and capped l1."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

BIG = 2000.0  # above every margin and weight of `instances`
_TIGHT = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}


def dual_reference(gram: NDArray[np.float64], y: NDArray[Any], p: float, C: float = 1.0) -> float:
    """The optimum of problem (17) of Sun (2024) by Clarabel: the largest value at a feasible point.

    The powers are written with power cones, and with second-order cones too (exact, as p / (p - 1) is
    a fraction of small numbers): which of both Clarabel solves further differs by p and data. Its
    point is made feasible, so that each value is a lower bound of the optimum.
    """
    import cvxpy as cp

    values, vectors = np.linalg.eigh(gram)
    kept = values > 1e-13 * values[-1]
    root = (vectors[:, kept] * np.sqrt(values[kept])).T * y
    unit = C * p  # a = C p xi^(p-1): the variable is near 1
    best = -np.inf
    for approx in (False, True):
        t, z = cp.Variable(y.size, nonneg=True), cp.Variable(root.shape[0])
        value = unit * cp.sum(t) - 0.5 * unit**2 * cp.sum_squares(z)
        constraints = [y @ t == 0, z == root @ t]
        if p == 1.0:
            constraints.append(t <= 1.0)
        else:
            value -= C * (p - 1.0) * cp.sum(cp.power(t, p / (p - 1.0), approx=approx))
        problem = cp.Problem(cp.Maximize(value), constraints)
        for options in (_TIGHT, {}):
            try:
                with warnings.catch_warnings(action="ignore", category=UserWarning):
                    problem.solve(solver="CLARABEL", **options)
                break
            except cp.error.SolverError:
                continue
        if t.value is not None:
            best = max(best, _feasible_value(root, y, p, C, np.asarray(t.value)))
        if p in (1.0, 2.0) or (problem.status == "optimal" and not approx):
            break
    return best


def _feasible_value(root: Any, y: Any, p: float, C: float, t: Any) -> float:
    t = np.maximum(t, 0.0) if p > 1.0 else np.clip(t, 0.0, 1.0)
    plus, minus = t[y > 0].sum(), t[y < 0].sum()
    t = np.where(y > 0, min(1.0, minus / plus), min(1.0, plus / minus)) * t
    z = root @ (C * p * t)
    power = 0.0 if p == 1.0 else C * (p - 1.0) * float((t ** (p / (p - 1.0))).sum())
    return float(C * p * t.sum() - power - 0.5 * z @ z)


def instances(count: int) -> Iterator[tuple[Any, Any, float, float, float]]:
    """Random samples, lam, mu and a."""
    generator = np.random.default_rng(11)
    for _ in range(count):
        m, n = int(generator.integers(8, 21)), int(generator.integers(1, 4))
        X = generator.standard_normal((m, n))
        y = np.sign(X @ generator.standard_normal(n) + 0.8 * generator.standard_normal(m))
        y[:2] = 1.0, -1.0
        yield X, y, generator.choice([0.1, 0.3, 1.0, 3.0]), generator.choice([0.5, 1.0]), 0.5


def exact(X: Any, y: Any, lam: float, mu: float, a: float) -> float:
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
