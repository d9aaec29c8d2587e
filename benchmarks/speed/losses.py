"""Smooth losses with L2 and L1 beside the solvers that people use for them, in whole calls."""

from __future__ import annotations

import importlib.util
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import Row, in_turns, main, over, timed
from benchmarks.speed.datasets import load, present
from ucm.compiler.compile import solve
from ucm.compiler.path import path
from ucm.language.losses import Logistic, SquaredHinge
from ucm.language.objective import Objective
from ucm.language.parameter import Param
from ucm.language.penalties import L1, L2, MCP, SCAD

__all__ = ["l1", "losses"]

PAIRS = ("logistic + l2", "squared hinge + l2", "logistic + l1", "squared hinge + l1")
FOLDED = {"logistic + mcp": 3.0, "logistic + scad": 3.7}  # with their gamma
L1_SETS = ("heart", "german.numer", "mushrooms", "basehock")
VALUES = 100  # of a path
WEIGHTS = (1.0, 0.1, 10.0)
BESIDE = ("basehock", "pcmac")  # sets of text, beside those of the table
TOLERANCES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8)
CLOSE = 1e-6  # of the least objective, what a peer must reach
INTERCEPT = 10  # LIBLINEAR penalises the bias over this; at 1 it solves another problem
MANY = 1500  # features beyond which newton-cholesky takes minutes

Fit = Callable[[float], Any]


def _declared(pair: str, lam: float, m: int) -> Objective:
    if pair in FOLDED:
        folded = MCP if pair.endswith("mcp") else SCAD
        return Logistic() + float(m) * folded(lam / m, FOLDED[pair])
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
            found["skglm"] = partial(_skglm, "L1", (lam / len(y),), X, y)
        return found
    if pair in FOLDED:
        name = "MCPenalty" if pair.endswith("mcp") else "SCAD"
        given = (lam / len(y), FOLDED[pair])
        known = importlib.util.find_spec("skglm")
        return {"skglm": partial(_skglm, name, given, X, y)} if known else {}
    penalty = pair[-2:]
    return {"liblinear": partial(machine, penalty)}


def _skglm(name: str, given: tuple[float, ...], X: Any, y: Any, tol: float) -> Any:
    skglm = importlib.import_module("skglm")
    solver = skglm.solvers.ProxNewton(fit_intercept=True, tol=10.0 * tol / len(y))
    penalty = getattr(skglm.penalties, name)(*given)
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


def losses(
    sets: Sequence[str] | None = None, repeats: int = 5, limit: float = 60.0
) -> Iterator[Row]:
    """Whole calls of `ucm.solve` to a gap of 1e-6 beside those of each peer that comes within 1e-6 of the
    proven bound, in processor time and turns; a peer that does not says what it leaves. With folded penalties
    the bound is the higher one of our objective and that of the peer at its finest tolerance, and the note
    says how far theirs is from ours. At the end paths of 100 lam, beside the fit of the last value."""
    yield from _table((*PAIRS, *FOLDED), sets or [*present(), *BESIDE], repeats, limit)


def l1(sets: Sequence[str] | None = None, repeats: int = 3, limit: float = 20.0) -> Iterator[Row]:
    """The part of `losses` with the l1 norm, on four sets."""
    pairs = [pair for pair in PAIRS if pair.endswith("l1")]
    yield from _table(pairs, sets or L1_SETS, repeats, limit)


def _table(pairs: Sequence[str], names: Sequence[str], repeats: int, limit: float) -> Iterator[Row]:
    for lam in WEIGHTS:
        for pair in pairs:
            ratios = []
            for row in over(names, partial(_pair, repeats, limit, pair, lam), load):
                ratios += [row["ratio"]] if row.get("ratio") else []
                yield row
            if len(ratios) > 1:
                mean = float(np.exp(np.mean(np.log(ratios))))
                yield {"pair": pair, "lam": lam, "set": "geometric mean", "ratio": mean}
    yield from over(names, partial(_path, repeats), load)


def _path(repeats: int, name: str, X: Any, y: Any) -> Iterator[Row]:
    """A path of the l1 norm down to a thousandth of lam_max; `ratio` is the fit of its last value over it."""
    y = np.where(y > 0, 1.0, -1.0)
    model = Logistic() + Param("lam", 1.0) * L1()
    whole = partial(path, model, X, y, n_values=VALUES)
    found = whole()
    last = partial(solve, model.with_params(**found[-1].params), X, y)
    runs = in_turns({"path": whole, "last": last}, repeats, False, time.process_time)
    row: Row = {"pair": f"path of {VALUES}, l1", "lam": None, "set": name}
    row["ours, ms"] = 1e3 * runs["path"].least
    row["gap"] = max(s.certificate.relative_gap for s in found)
    row["best peer"], row["its ms"] = "its last fit", 1e3 * runs["last"].least
    row["ratio"] = row["its ms"] / row["ours, ms"]
    row["passes"] = sum(s.stats.passes for s in found)
    yield row


def _pair(
    repeats: int, limit: float, pair: str, lam: float, name: str, X: Any, y: Any
) -> Iterator[Row]:
    y = np.where(y > 0, 1.0, -1.0)
    model = _declared(pair, lam, len(y))
    ours = partial(solve, model, X, y, time_limit=limit)
    height = partial(_objective, model, X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a folded penalty may leave no minimum, and peers warn
        solution = ours()
        peers = _peers(pair, lam, X, y) if solution.status != "unattained" else {}
        folded = peers.items() if pair in FOLDED else ()
        ends = {who: height(fit(TOLERANCES[-1])) for who, fit in folded}
    bound = float(solution.certificate.dual)
    if pair in FOLDED:
        bound = max(solution.objective, *ends.values()) if ends else solution.objective
    known = {who: _beside(fit, height, bound, limit) for who, fit in peers.items()}
    works: dict[str, Callable[[], Any]] = {"ours": ours}
    works |= {who: partial(peers[who], row["tol"]) for who, row in known.items() if row["tol"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs = in_turns(works, repeats, clock=time.process_time)
    least = {who: run.least for who, run in runs.items()}
    beside = {who: least[who] for who in least if who != "ours"}
    row: Row = {"pair": pair, "lam": lam, "set": name, "ours, ms": 1e3 * least["ours"]}
    row["gap"] = solution.certificate.relative_gap
    best = min(beside, key=beside.__getitem__, default=None)
    row["best peer"] = best
    row["its ms"] = None if best is None else 1e3 * beside[best]
    row["ratio"] = None if best is None else beside[best] / least["ours"]
    short = [f"{who} leaves {r['left']:.0e}" for who, r in known.items() if not r["tol"]]
    short += [f"{who} ends {end / solution.objective - 1.0:+.1e} off" for who, end in ends.items()]
    row["note"] = ", ".join([*short, *([] if peers else [solution.status])])
    yield row


if __name__ == "__main__":
    sys.exit(main("Smooth losses beside other solvers", {"losses": losses, "l1": l1}))
