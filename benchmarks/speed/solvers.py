"""The solvers of one nu-SVM: how each is called, and what it proves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import Row, in_turns
from benchmarks.judge import direction_bound, figures, matched_C, sample_weights, weights_gap
from benchmarks.speed.datasets import load
from benchmarks.speed.isolate import measured
from ucm.compiler.compile import solve
from ucm.data.gram import Gram
from ucm.data.kernels import MEGABYTE, Kernel
from ucm.language import models
from ucm.solvers import APG

__all__ = ["LINEAR", "RBF", "Problem", "pass_seconds", "run"]


@dataclass(frozen=True)
class Problem:
    """A nu-SVM on a named set. The width of the RBF kernel is LIBSVM's default, `gamma = 1/n`."""

    name: str
    nu: float
    kernel: str | None = None
    tol: float = 1e-6

    def data(self) -> tuple[Any, Any]:
        return load(self.name)

    def solve(self, solver: Any = "auto") -> Any:
        """One of our routes."""
        X, y = self.data()
        m, n = X.shape
        options: dict[str, Any] = {}
        if self.kernel is not None:
            memory = 8 * m * m / MEGABYTE + 1.0
            options = {"kernel": self.kernel, "gamma": 1.0 / n, "cache_size": memory}
        return solve(models.nu_svm(self.nu), X, y, solver=solver, tol=self.tol, **options)


@dataclass(frozen=True)
class Job:
    """What to time, what its result says, and the part of the seconds that its solver took."""

    work: Callable[[], Any]
    read: Callable[[Any], Row]
    own: Callable[[Any], float] | None = None


def _by_solver(solver: Any, problem: Problem) -> Job:
    """One of our routes. All of it is timed, and apart from it the time of the solver."""

    def read(solution: Any) -> Row:
        shown = figures(solution, "solver status gap violation iterations")
        return {**shown, "passes": solution.stats.passes or None}

    return Job(partial(problem.solve, solver), read, lambda solution: solution.stats.solve_time)


def _nu_svc(problem: Problem) -> Job:
    from sklearn.svm import NuSVC

    X, y = problem.data()
    m, n = X.shape
    kernel = problem.kernel or "linear"
    memory: Any = min(2000.0, 8 * m * m / MEGABYTE + 1.0)
    machine = NuSVC(nu=problem.nu, kernel=kernel, gamma=1.0 / n, tol=1e-6, cache_size=memory)

    def read(fit: Any) -> Row:
        gram = None
        if problem.kernel is not None:
            gram = Gram(Kernel(kernel, 1.0 / n), X, 8 * m * m + MEGABYTE)
        found = weights_gap(X, y, problem.nu, sample_weights(fit, m), gram)
        return {"status": "tol 1e-6", "iterations": int(fit.n_iter_[0]), **found}

    return Job(partial(machine.fit, X, y), read)


def _linear_svc(problem: Problem) -> Job:
    from sklearn.svm import LinearSVC

    X, y = problem.data()
    best = problem.solve()
    C = matched_C(X, y, problem.nu, best.x)
    exact: Any = True
    machine = LinearSVC(loss="hinge", C=C, dual=exact, tol=1e-6, max_iter=100_000_000)

    def read(fit: Any) -> Row:
        bound = direction_bound(X, y, problem.nu, fit.coef_[0])
        distance = -best.objective
        return {
            "status": f"C = {C:.4g}",
            "iterations": int(fit.n_iter_),
            "gap": (distance - bound) / distance,  # of its direction: there is no dual point
        }

    return Job(partial(machine.fit, X, y), read)


LINEAR: dict[str, Callable[[Problem], Job]] = {
    "ours": partial(_by_solver, "auto"),
    "APG": partial(_by_solver, APG()),
    "NuSVC": _nu_svc,
    "LinearSVC": _linear_svc,
    "Clarabel": partial(_by_solver, "clarabel"),
    "SCS": partial(_by_solver, "scs"),
}
RBF = {name: LINEAR[name] for name in ("ours", "APG", "NuSVC")}


def run(peer: str, problem: Problem, repeats: int, limit: float) -> Row:
    """Seconds, peak memory and what the answer proves."""
    LINEAR[peer](Problem("wine", 0.3, problem.kernel)).work()  # loads and compiles what is lazy
    one = pass_seconds(problem.data()[0])
    job = LINEAR[peer](problem)
    result, seconds = measured(job.work, repeats, limit, job.own)
    in_passes = seconds["seconds"] / one
    return {**seconds, "in passes": in_passes, "pass, s": one, **job.read(result)}


def pass_seconds(X: Any) -> float:
    """Seconds of one product with the samples and one with their transpose."""
    q, w = np.ones(X.shape[0]), np.ones(X.shape[1])
    T = X.T
    return in_turns({"pass": lambda: (X @ w, T @ q)}, 5)["pass"].median
