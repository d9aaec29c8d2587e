"""Models behind a kernel: against Clarabel on the Gram matrix, and the linear kernel against features."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.bench.clock import timed
from ucm.compiler import compile as compiler
from ucm.data import datasets
from ucm.errors import DataError
from ucm.language import models

__all__ = ["dual", "dual_reference", "linear", "rbf", "sample_models"]

SETS = ("heart", "ionosphere", "sonar")
BINARY = ("uci_wdbc", "uci_heart", "uci_ionosphere", "uci_winequality", "uci_banknote")
EXPONENTS = (1.0, 1.1, 1.5, 2.0, 3.0, 10.0)
LARGEST = 500
_TIGHT = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}


def rbf() -> Iterator[dict[str, Any]]:
    """Every model: the optimum beside Clarabel's on the Gram matrix, to 1e-6."""
    for name in SETS:
        X, y = datasets.load(name)
        X = _standardised(X)
        for model in sample_models(y):
            yield _against_clarabel(name, model, X, y)


def linear() -> Iterator[dict[str, Any]]:
    """Every model: `w'x + b` through the Gram matrix of a linear kernel beside the features, to 1e-6."""
    for name in SETS:
        X, y = datasets.load(name)
        X = _standardised(X)
        for model in sample_models(y):
            yield _linear_row(name, model, X, y)


def dual() -> Iterator[dict[str, Any]]:
    """The dual of the pSVM beside Clarabel's, to 1e-7, on at most 500 samples of five sets."""
    for name in BINARY:
        try:
            X, y = datasets.load(name)
        except DataError:
            yield {"table": "dual", "set": name, "model": "not at hand", "within": None}
            continue
        keep = np.random.default_rng(0).permutation(y.size)[:LARGEST]
        X, y = _standardised(np.asarray(X)[keep]), np.where(y[keep] > 0, 1.0, -1.0)
        for kernel in ("linear", "rbf"):
            for p in EXPONENTS:
                yield _dual_row(name, kernel, p, X, y)


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


def _standardised(X: Any) -> NDArray[np.float64]:
    from sklearn.preprocessing import scale

    return np.asarray(scale(np.asarray(X, dtype=np.float64)))


def _against_clarabel(name: str, model: Any, X: Any, y: Any) -> dict[str, Any]:
    """The optimum beside that of the CVXPY twin over a root of the Gram matrix."""
    plan = compiler.compile(model, X, y, kernel="rbf")
    solution, seconds = timed(lambda: plan.solve(tol=1e-8))
    check, reference_seconds = timed(plan.verify)
    return {
        "table": "rbf",
        "set": name,
        "model": repr(model),
        "status": solution.status,
        "solver": solution.stats.solver,
        "difference": check.difference,
        "gap": abs(solution.certificate.relative_gap),
        "solve, s": seconds,
        "Clarabel, s": reference_seconds,
        "within": bool(check.agrees) and check.difference <= 1e-6,
    }


def _linear_row(name: str, model: Any, X: Any, y: Any) -> dict[str, Any]:
    """`w'x + b` through the Gram matrix beside that of the features. A relative gap g leaves an error
    of the size sqrt(g) in w, so that both are solved as far as rounding lets them."""
    plain = compiler.solve(model, X, y, tol=1e-13)
    through, seconds = timed(
        lambda: compiler.solve(model, X @ X.T, y, kernel="precomputed", tol=1e-13)
    )
    if plain.status == "zero_in_set":  # no w in the features: then none behind the kernel
        off = 0.0 if through.status == plain.status else np.inf
    else:
        scores = plain.decision(X)
        off = float(np.abs(through.decision(X @ X.T) - scores).max() / np.abs(scores).max())
    return {
        "table": "linear",
        "set": name,
        "model": repr(model),
        "status": through.status,
        "solver": through.stats.solver,
        "difference": off,
        "gap": abs(through.certificate.relative_gap),
        "solve, s": seconds,
        "within": off <= 1e-6,
    }


def _dual_row(name: str, kernel: str, p: float, X: Any, y: Any) -> dict[str, Any]:
    gram = X @ X.T
    if kernel == "rbf":
        squares = np.diagonal(gram)
        gamma = 1.0 / (X.shape[1] * X.var())
        gram = np.exp(-gamma * (squares[:, None] + squares - 2.0 * gram))
    solution, seconds = timed(
        lambda: compiler.solve(models.psvm(p, 1.0), X, y, kernel=kernel, tol=1e-9)
    )
    reference, reference_seconds = timed(lambda: dual_reference(gram, y, p))
    difference = abs(solution.certificate.dual / reference - 1.0)
    gap = abs(solution.certificate.relative_gap)
    return {
        "table": "dual",
        "set": name,
        "model": f"psvm(p={p:g}, C=1), {kernel}",
        "status": solution.status,
        "solver": solution.stats.solver,
        "difference": difference,
        "gap": gap,
        "solve, s": seconds,
        "Clarabel, s": reference_seconds,
        "within": difference <= 1e-7 and gap <= 1e-6,
    }


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
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)
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
