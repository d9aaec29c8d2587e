"""Smooth losses with L2 and L1 beside the solvers that people use for them, in whole calls."""

from __future__ import annotations

import importlib.util
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from ucm.bench.clock import in_turns, timed
from ucm.bench.data import over
from ucm.bench.registry import Row
from ucm.bench.speed.options import Options
from ucm.bench.speed.sets import load
from ucm.compiler.compile import solve
from ucm.language.losses import Logistic, SquaredHinge
from ucm.language.objective import Objective
from ucm.language.penalties import L1, L2

__all__ = ["losses"]

PAIRS = ("logistic + l2", "squared hinge + l2", "logistic + l1", "squared hinge + l1")
WEIGHTS = (1.0, 0.1, 10.0)
BESIDE = ("basehock", "pcmac")  # sets of text, beside those of the table
TOLERANCES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8)
CLOSE = 1e-6  # of the least objective, what a peer must reach
INTERCEPT = 10  # LIBLINEAR penalises the bias over this; at 1 it solves another problem
MANY = 1500  # features beyond which newton-cholesky takes minutes

Fit = Callable[[float], Any]


def _declared(pair: str, lam: float) -> Objective:
    loss = Logistic() if pair.startswith("logistic") else SquaredHinge()
    return loss + lam * (L2() if pair.endswith("l2") else L1())


def _peers(pair: str, lam: float, X: Any, y: Any) -> dict[str, Fit]:
    """For each solver a fit to a tolerance of its own scale."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    C = 1.0 / (2.0 * lam) if pair.endswith("l2") else 1.0 / lam

    def logistic(solver: str, tol: float, **more: Any) -> Any:
        return LogisticRegression(C=C, solver=solver, tol=tol, max_iter=10_000, **more).fit(X, y)  # type: ignore[arg-type]

    def machine(penalty: str, tol: float) -> Any:
        given: dict[str, Any] = {"penalty": penalty, "dual": False, "max_iter": 10_000}
        return LinearSVC(C=C, tol=tol, intercept_scaling=INTERCEPT, **given).fit(X, y)

    if pair == "logistic + l2":
        found: dict[str, Fit] = {"lbfgs": partial(logistic, "lbfgs")}
        if X.shape[1] <= MANY:
            found["newton-cholesky"] = partial(logistic, "newton-cholesky")
        return found
    if pair == "logistic + l1":
        lasso = partial(logistic, "liblinear", intercept_scaling=INTERCEPT, penalty="l1")
        found = {"liblinear": lambda tol: lasso(tol=tol)}
        if importlib.util.find_spec("skglm"):
            found["skglm"] = partial(_skglm, lam, X, y)
        return found
    penalty = pair[-2:]
    return {"liblinear": partial(machine, penalty)}


def _skglm(lam: float, X: Any, y: Any, tol: float) -> Any:
    skglm = importlib.import_module("skglm")
    m = len(y)
    solver = skglm.solvers.ProxNewton(fit_intercept=True, tol=10.0 * tol / m)
    penalty = skglm.penalties.L1(lam / m)
    return skglm.GeneralizedLinearEstimator(skglm.datafits.Logistic(), penalty, solver).fit(X, y)


def _objective(model: Objective, X: Any, y: Any, fit: Any) -> float:
    w, b = np.ravel(fit.coef_), float(np.ravel(fit.intercept_)[0])
    margin = y * (X @ w + b)
    return model.loss.value(margin, y) + model.penalty.value(w)


def _beside(fit: Fit, height: Callable[[Any], float], bound: float, limit: float) -> Row:
    """The first tolerance at which a peer is close to the least objective, or what it leaves."""
    left = np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peers warn at tolerances that they do not reach
        for tol in TOLERANCES:
            found, seconds = timed(partial(fit, tol), time.process_time)
            left = height(found) / bound - 1.0
            if left <= CLOSE:
                return {"tol": tol, "left": left}
            if seconds > limit:
                break
    return {"tol": None, "left": left}


def losses(options: Options) -> Iterator[Row]:
    """Whole calls of `ucm.solve` to a gap of 1e-6 beside those of each peer that comes within 1e-6 of the
    proven bound, in processor time and turns; a peer that does not says what it leaves."""
    names = [*options.sets, *(BESIDE if len(options.sets) > 1 else ())]
    for lam in WEIGHTS:
        for pair in PAIRS:
            ratios = []
            for row in over(names, partial(_pair, options, pair, lam), load):
                ratios += [row["ratio"]] if row.get("ratio") else []
                yield row
            if len(ratios) > 1:
                mean = float(np.exp(np.mean(np.log(ratios))))
                yield {"pair": pair, "lam": lam, "set": "geometric mean", "ratio": mean}


def _pair(options: Options, pair: str, lam: float, name: str, X: Any, y: Any) -> Iterator[Row]:
    y = np.where(y > 0, 1.0, -1.0)
    model = _declared(pair, lam)
    ours = partial(solve, model, X, y)
    solution = ours()
    bound = float(solution.certificate.dual)
    height = partial(_objective, model, X, y)
    peers = _peers(pair, lam, X, y)
    known = {who: _beside(fit, height, bound, options.limit) for who, fit in peers.items()}
    works: dict[str, Callable[[], Any]] = {"ours": ours}
    works |= {who: partial(peers[who], row["tol"]) for who, row in known.items() if row["tol"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs = in_turns(works, options.repeats, clock=time.process_time)
    least = {who: run.least for who, run in runs.items()}
    beside = {who: least[who] for who in least if who != "ours"}
    row: Row = {"pair": pair, "lam": lam, "set": name, "ours, ms": 1e3 * least["ours"]}
    row["gap"] = solution.certificate.relative_gap
    best = min(beside, key=beside.__getitem__, default=None)
    row["best peer"] = best
    row["its ms"] = None if best is None else 1e3 * beside[best]
    row["ratio"] = None if best is None else beside[best] / least["ours"]
    short = [f"{who} leaves {r['left']:.0e}" for who, r in known.items() if not r["tol"]]
    row["note"] = ", ".join(short)
    yield row
