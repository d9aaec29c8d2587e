"""The solvers of one nu-SVM: how each is called, and what it proves."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ucm.bench.clock import median_time
from ucm.bench.speed.isolate import measured
from ucm.bench.speed.judge import direction_bound, matched_C, weights_gap
from ucm.bench.speed.sets import load
from ucm.compiler.compile import solve
from ucm.data.kernels import MEGABYTE
from ucm.errors import ConvergenceWarning
from ucm.language import models
from ucm.solvers import APG

__all__ = ["LINEAR", "RBF", "Problem", "run"]


@dataclass(frozen=True)
class Problem:
    """A nu-SVM on a named set. The width of the RBF kernel is LIBSVM's default, `gamma = 1/n`."""

    name: str
    nu: float
    kernel: str | None = None
    tol: float = 1e-6

    def data(self) -> tuple[Any, Any]:
        return load(self.name)

    def options(self, m: int, n: int) -> dict[str, Any]:
        if self.kernel is None:
            return {}
        return {"kernel": self.kernel, "gamma": 1.0 / n, "cache_size": 8 * m * m / MEGABYTE + 1.0}


Job = Callable[[Problem], tuple[Callable[[], Any], Callable[[Any], dict[str, Any]]]]
"""What to time, and what its result says."""


def _by_solver(solver: Any) -> Job:
    """One of our routes. All of it is timed, and apart from it the time of the solver."""

    def job(problem: Problem) -> Any:
        X, y = problem.data()
        options = problem.options(*X.shape)
        model = models.nu_svm(problem.nu)

        def work() -> Any:
            return solve(model, X, y, solver=solver, tol=problem.tol, **options)

        def read(solution: Any) -> dict[str, Any]:
            stats, certificate = solution.stats, solution.certificate
            return {
                "solver": stats.solver,
                "status": solution.status,
                "gap": certificate.relative_gap,
                "violation": certificate.violation,
                "iterations": stats.iterations,
                "passes": stats.passes or None,
            }

        return work, read

    return job


def _nu_svc(problem: Problem) -> Any:
    from sklearn.metrics.pairwise import rbf_kernel
    from sklearn.svm import NuSVC

    X, y = problem.data()
    m, n = X.shape
    memory: Any = min(2000.0, 8 * m * m / MEGABYTE + 1.0)

    def work() -> Any:
        kernel = problem.kernel or "linear"
        machine = NuSVC(nu=problem.nu, kernel=kernel, gamma=1.0 / n, tol=1e-6, cache_size=memory)
        return machine.fit(X, y)

    def read(fit: Any) -> dict[str, Any]:
        coefficients = fit.dual_coef_
        if not isinstance(coefficients, np.ndarray):
            coefficients = coefficients.toarray()
        weights = np.zeros(m)
        weights[fit.support_] = np.abs(coefficients[0])
        K = None if problem.kernel is None else rbf_kernel(X, gamma=1.0 / n)
        found = weights_gap(X, y, problem.nu, weights, K)
        return {"status": "tol 1e-6", "iterations": int(fit.n_iter_[0]), **found}

    return work, read


def _linear_svc(problem: Problem) -> Any:
    from sklearn.svm import LinearSVC

    X, y = problem.data()
    best = solve(models.nu_svm(problem.nu), X, y, tol=problem.tol)
    C = matched_C(X, y, problem.nu, best.x)

    def work() -> Any:
        exact: Any = True
        machine = LinearSVC(loss="hinge", C=C, dual=exact, tol=1e-6, max_iter=100_000_000)
        return machine.fit(X, y)

    def read(fit: Any) -> dict[str, Any]:
        bound = direction_bound(X, y, problem.nu, fit.coef_[0])
        distance = -best.objective
        return {
            "status": f"C = {C:.4g}",
            "iterations": int(fit.n_iter_),
            "gap": (distance - bound) / distance,  # of its direction: there is no dual point
        }

    return work, read


LINEAR: dict[str, Job] = {
    "ours": _by_solver("auto"),
    "APG": _by_solver(APG()),
    "NuSVC": _nu_svc,
    "LinearSVC": _linear_svc,
    "Clarabel": _by_solver("clarabel"),
    "SCS": _by_solver("scs"),
}
RBF: dict[str, Job] = {name: LINEAR[name] for name in ("ours", "APG", "NuSVC")}
_OURS = ("ours", "APG", "Clarabel", "SCS")  # called through `ucm.solve`


def _of_solver(solution: Any) -> float:
    return solution.stats.solve_time


def run(peer: str, problem: Problem, repeats: int, limit: float) -> dict[str, Any]:
    """Seconds, peak memory and what the answer proves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)  # what peers say about scaling and iterations
        small = Problem("wine", 0.3, problem.kernel)  # loads and compiles what is lazy
        LINEAR[peer](small)[0]()
        X, _ = problem.data()
        one = pass_seconds(X)
        work, read = LINEAR[peer](problem)
        own = _of_solver if peer in _OURS else None
        result, figures = measured(work, repeats, limit, own)
        figures["in passes"] = figures["seconds"] / one
        return {**figures, "pass, s": one, **read(result)}


def pass_seconds(X: Any) -> float:
    """Seconds of one product with the samples and one with their transpose."""
    q, w = np.ones(X.shape[0]), np.ones(X.shape[1])
    T = X.T
    return median_time(lambda: (X @ w, T @ q), 5)
