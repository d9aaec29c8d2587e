"""Models behind a kernel: against Clarabel on the Gram matrix, and the linear kernel against features."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.bench.clock import timed
from ucm.bench.data import dense, over, scaled, standardised
from ucm.bench.judge import GAP, figures
from ucm.bench.registry import Benchmark, Row
from ucm.compiler.compile import compile, solve
from ucm.forms.solution import Solution
from ucm.language import models

__all__ = ["BENCHMARK", "dual_reference"]

SETS = ("heart", "ionosphere", "sonar")
BINARY = ("uci_wdbc", "uci_heart", "uci_ionosphere", "uci_winequality", "uci_banknote")
EXPONENTS = (1.0, 1.1, 1.5, 2.0, 3.0, 10.0)
LARGEST = 500
_TIGHT = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}


def rbf() -> Iterator[Row]:
    """Every model: the optimum beside that of the CVXPY twin over a root of the Gram matrix, by Clarabel,
    to 1e-6."""
    return over(SETS, _rbf, standardised, table="rbf")


def _rbf(name: str, X: Any, y: Any) -> Iterator[Row]:
    for model in sample_models(y):
        plan = compile(model, X, y, kernel="rbf")
        solution, seconds = timed(partial(plan.solve, tol=1e-8))
        check, clarabel = timed(plan.verify)
        row = _row("rbf", name, repr(model), solution, check.difference, seconds)
        within = bool(check.agrees) and check.difference <= GAP
        yield {**row, "Clarabel, s": clarabel, "within": within}


def linear() -> Iterator[Row]:
    """Every model: `w'x + b` through the Gram matrix of a linear kernel beside the features, to 1e-6. A
    relative gap g leaves an error of the size sqrt(g) in w, so that both are solved as far as rounding
    lets them."""
    return over(SETS, _linear, standardised, table="linear")


def _linear(name: str, X: Any, y: Any) -> Iterator[Row]:
    K = X @ X.T
    for model in sample_models(y):
        plain = solve(model, X, y, tol=1e-13)
        behind = partial(solve, model, K, y, kernel="precomputed", tol=1e-13)
        through, seconds = timed(behind)
        if plain.status == "zero_in_set":  # no w in the features: then none behind the kernel
            off = 0.0 if through.status == plain.status else np.inf
        else:
            scores = plain.decision(X)
            off = float(np.abs(through.decision(K) - scores).max() / np.abs(scores).max())
        row = _row("linear", name, repr(model), through, off, seconds)
        yield {**row, "within": off <= GAP}


def dual() -> Iterator[Row]:
    """The dual of the pSVM beside Clarabel's, to 1e-7, on at most 500 samples of five sets."""
    return over(BINARY, _dual, dense, table="dual")


def _dual(name: str, X: Any, y: Any) -> Iterator[Row]:
    from sklearn.metrics.pairwise import rbf_kernel

    keep = np.random.default_rng(0).permutation(y.size)[:LARGEST]
    X, y = scaled(X[keep]), np.where(y[keep] > 0, 1.0, -1.0)
    grams = {"linear": X @ X.T, "rbf": rbf_kernel(X, gamma=1.0 / (X.shape[1] * X.var()))}
    for kernel, p in itertools.product(grams, EXPONENTS):
        ours = partial(solve, models.psvm(p, 1.0), X, y, kernel=kernel, tol=1e-9)
        solution, seconds = timed(ours)
        reference, clarabel = timed(partial(dual_reference, grams[kernel], y, p))
        off = abs(solution.certificate.dual / reference - 1.0)
        row = _row("dual", name, f"psvm(p={p:g}, C=1), {kernel}", solution, off, seconds)
        within = off <= 1e-7 and row["gap"] <= GAP
        yield {**row, "Clarabel, s": clarabel, "within": within}


def _row(
    table: str, name: str, model: str, solution: Solution, difference: float, seconds: float
) -> Row:
    row = {"table": table, "set": name, "model": model, **figures(solution, "status solver")}
    return {**row, "difference": difference, **figures(solution, "gap"), "solve, s": seconds}


def sample_models(y: NDArray[Any]) -> list[Any]:
    """Every model that a kernel takes, its parameters inside their ranges for these labels."""
    plus, minus = int(np.sum(y > 0)), int(np.sum(y < 0))
    return [
        models.nu_svm(0.3),
        models.mm_mpm(0.3),
        models.mm_fda(0.3),
        models.l2_nu_svm(0.75 * (1.0 / plus + 1.0 / minus) ** 0.5),
        models.biased_l2_nu_svm(1.5 / plus**0.5, 1.5 / minus**0.5),
        models.kl_svm(0.5),
        models.coherent_mm_mpm(0.5),
        models.coherent_mm_fda(0.5),
        *(models.psvm(p, 1.0) for p in EXPONENTS),
    ]


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


BENCHMARK = Benchmark(
    "kernels",
    "models behind kernels, beside Clarabel and features",
    {"rbf": rbf, "linear": linear, "dual": dual},
)
