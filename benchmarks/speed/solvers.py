"""Solvers of other libraries at their default tolerances, and routes of this library."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.judge import matched_C, sample_weights
from benchmarks.speed.objective import Problem
from ucm.forms.solution import Solution

__all__ = ["answer_of", "peers_of"]

Fit = Callable[[], Any]
INTERCEPT = 10  # LIBLINEAR penalises the bias over this; at 1 it solves another problem
MANY = 1500  # features beyond which newton-cholesky takes minutes


def peers_of(problem: Problem) -> dict[str, Fit]:
    """Return the peers of a problem: for each a function that fits a new estimator."""
    X, y = problem.data
    loss, _, penalty = problem.model.partition(" + ")
    if penalty:
        C = 1.0 / (2.0 * problem.size) if penalty == "l2" else 1.0 / problem.size
        return _of_losses(loss, penalty, C, X, y)
    from sklearn.svm import SVC, LinearSVC, NuSVC

    kernel: dict[str, Any] = {"kernel": "linear"}
    if problem.gamma is not None:
        kernel = {"kernel": "rbf", "gamma": problem.gamma}
    fast: Any = None
    if problem.gamma is not None and importlib.util.find_spec(
        "sklearnex"
    ):  # scikit-learn-intelex, x86-64 only
        fast = importlib.import_module("sklearnex.svm")
    if problem.model == "SVM":
        machines = {"SVC": SVC} if fast is None else {"SVC": SVC, "sklearnex": fast.SVC}
        size = {"C": problem.size, **kernel}
        return {name: lambda SVM=SVM: SVM(**size).fit(X, y) for name, SVM in machines.items()}
    found: dict[str, Fit] = {"NuSVC": lambda: NuSVC(nu=problem.size, **kernel).fit(X, y)}
    if fast is not None:
        found["sklearnex"] = lambda: fast.NuSVC(nu=problem.size, **kernel).fit(X, y)
    if problem.gamma is None:
        C = matched_C(X, y, problem.size, problem.solve().x)
        options: dict[str, Any] = {"loss": "hinge", "C": C, "max_iter": 1_000_000}
        found["LinearSVC"] = lambda: LinearSVC(intercept_scaling=INTERCEPT, **options).fit(X, y)
    for solver in ("apg", "clarabel", "scs") if problem.gamma is None else ("apg",):
        found[solver] = lambda solver=solver: problem.solve(solver=solver)
    return found


def _of_losses(loss: str, penalty: str, C: float, X: Any, y: Any) -> dict[str, Fit]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    liblinear: dict[str, Any] = {"penalty": penalty, "intercept_scaling": INTERCEPT, "C": C}
    if loss == "squared hinge":
        liblinear |= {"dual": False, "max_iter": 10_000}
        return {"LinearSVC": lambda: LinearSVC(**liblinear).fit(X, y)}
    options: dict[str, Any] = {"max_iter": 10_000}
    if penalty == "l2":
        names = ["lbfgs", "newton-cholesky"] if X.shape[1] <= MANY else ["lbfgs"]
        return {
            name: lambda name=name: LogisticRegression(C=C, solver=name, **options).fit(X, y)  # type: ignore[arg-type]
            for name in names
        }
    options |= {**liblinear, "solver": "liblinear"}
    found: dict[str, Fit] = {"liblinear": lambda: LogisticRegression(**options).fit(X, y)}
    if importlib.util.find_spec("skglm"):
        skglm = importlib.import_module("skglm")
        found["skglm"] = lambda: skglm.SparseLogisticRegression(1.0 / (C * len(y))).fit(X, y)
    return found


def answer_of(problem: Problem, fit: Any) -> dict[str, Any]:
    """Return the answer of a fitted peer, as arguments of `Plan.certify`."""
    X, y = problem.data
    if isinstance(fit, Solution):
        return {"w": fit.w, "weights": fit.weights, "coefficients": fit.coefficients}
    if not hasattr(fit, "support_"):
        w, b = np.ravel(fit.coef_), float(np.ravel(fit.intercept_)[0])
        return {"w": w} if problem.model == "nu-SVM" else {"w": w, "b": b}
    weights = sample_weights(fit, y.size)
    found: dict[str, Any] = {"weights": weights}
    if problem.model == "SVM":
        found["b"] = float(fit.intercept_[0])
    else:
        for sign in (1.0, -1.0):
            weights[y == sign] /= weights[y == sign].sum()
    if problem.gamma is None:
        return {**found, "w": X.T @ (weights * y)}
    return {**found, "coefficients": weights * y}
