"""Worst means, constraints, adversarial samples and no intercept, beside Clarabel in CVXPY and beside dro.

The programs are written by hand, in the form of the literature that has the fewest cones.
"""

from __future__ import annotations

import importlib
import importlib.util
import resource
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.harness import Part, Row, in_turns, isolated, missing, scaled, timed
from benchmarks.judge import GAP
from benchmarks.speed.datasets import load
from ucm.compiler.compile import solve
from ucm.errors import DataError
from ucm.language.domains import CappedSimplex, ChiSquareBall, KLBall
from ucm.language.losses import Hinge, Logistic
from ucm.language.penalties import L2, Bounds, LinearConstraint
from ucm.language.per_sample import per_sample
from ucm.language.robust_samples import Robust
from ucm.language.sets import Ball
from ucm.language.worst_mean import WorstMean

__all__ = ["PARTS"]

SETS = {
    "heart": 0, "ionosphere": 0, "breast-cancer": 0, "diabetes": 0, "german.numer": 0, "splice": 0,
    "svmguide3": 0, "svmguide1": 0, "ijcnn1": 5000, "a9a": 5000,
}  # fmt: skip
"""The sets and the numbers of their samples, 0 for all: 270 to 5,000."""

LAM, BETA, RADIUS, RHO, WIDTH, REACH = 0.01, 0.2, 0.1, 0.5, 0.01, 0.1
MEAN, LEAST = 20.0, 3.0  # times ours
FAR = 100.0
LARGE, SECONDS, BYTES = (100_000, 50), 10.0, 2 * 2**30

Declared = Callable[[Any], Any]
_TAIL = CappedSimplex(1.0 / BETA, relative=True)


def _apart(X: Any) -> Any:
    """Return the difference of the means of the samples above and below the mean of a feature."""
    above = X[:, 0] > X[:, 0].mean()
    return X[above].mean(axis=0) - X[~above].mean(axis=0)


MODELS: dict[str, Declared] = {
    "CVaR of the hinge": lambda X: WorstMean(Hinge(), _TAIL) + LAM * L2(),
    "KL, logistic": lambda X: WorstMean(Logistic(), KLBall(float(np.exp(-RADIUS)))) + LAM * L2(),
    "chi-square, logistic": lambda X: WorstMean(Logistic(), ChiSquareBall(RHO)) + LAM * L2(),
    "fair logistic": lambda X: (
        Logistic() / len(X) + LAM * L2() + LinearConstraint(_apart(X)[None], -WIDTH, WIDTH)
    ),
    "fair hinge": lambda X: Hinge() / len(X) + LAM * L2() + LinearConstraint(_apart(X)[None], -WIDTH, WIDTH),
    "hinge, b = 0": lambda X: (Hinge() / len(X) + LAM * L2()).with_intercept(None),
    "adversarial hinge": lambda X: Robust(Hinge(), Ball(0, REACH, np.inf)) / len(X) + LAM * L2(),
    "adversarial hinge, radii": lambda X: (
        Robust(Hinge(), per_sample("radius") * Ball(0, 1.0, np.inf)) / len(X) + LAM * L2()
    ),
}


def _options(model: str, X: Any) -> dict[str, Any]:
    """Return the quantities of the samples that a model has: radii of a box from 0 to 2 REACH."""
    if "radii" not in model:
        return {}
    return {"per_sample": {"radius": np.random.default_rng(1).uniform(0.0, 2.0 * REACH, len(X))}}


def _program(model: str, X: Any, y: Any) -> float:
    """Return the optimum of a model by CVXPY and Clarabel at its default tolerance."""
    import cvxpy as cp

    m, w, b = len(X), cp.Variable(X.shape[1]), cp.Variable()
    t = cp.multiply(y, X @ w + (0.0 if "b = 0" in model else b))
    if "adversarial" in model:
        t -= _options(model, X).get("per_sample", {"radius": REACH})["radius"] * cp.norm1(w)
    losses = cp.logistic(-t) if "logistic" in model else cp.pos(1.0 - t)
    level, inside, loss = cp.Variable(), [], cp.sum(losses) / m
    if "CVaR" in model:
        loss = level + cp.sum(cp.pos(losses - level)) / (BETA * m)
    elif "KL" in model:
        s, x, e = cp.Variable(nonneg=True), cp.Variable(m), cp.Variable(m)
        inside = [x >= losses - level, cp.ExpCone(x, s * np.ones(m), e), cp.sum(e) / m <= s]
        loss = level + RADIUS * s
    elif "chi-square" in model:
        x = cp.Variable(m)
        inside = [x >= losses]
        loss = level + cp.sum(x - level) / m + np.sqrt(RHO / m) * cp.norm(x - level)
    elif "fair" in model:
        inside = [cp.abs(_apart(X) @ w) <= WIDTH]
    problem = cp.Problem(cp.Minimize(loss + LAM * cp.sum_squares(w)), inside)
    return float(problem.solve(solver="CLARABEL"))


def worst_means(sets: Sequence[str] | None = None, repeats: int = 3, limit: float = 600.0) -> Iterator[Row]:
    """Eight models beside CVXPY programs by hand, with Clarabel: whole calls, ours proven to 1e-6."""
    yield from _table(MODELS, _beside_program, sets, repeats, limit)


def _table(
    names: Sequence[str] | dict[str, Any],
    job: Callable[..., Row],
    sets: Sequence[str] | None,
    repeats: int,
    limit: float,
) -> Iterator[Row]:
    """Yield a row for each model and set, then the geometric mean and the least of the ratios by model."""
    ratios: dict[str, list[float]] = {}
    for name in sets or SETS:
        for model in names:
            row = {"set": name, "model": model}
            try:
                load(name, SETS.get(name, 0))
            except DataError as error:
                yield {**row, "note": missing(error, name), "within": None}
                continue
            found = isolated(job, model, name, repeats, limit=limit)
            ratios.setdefault(model, []).append(found.get("times ours", np.nan))
            yield {**row, **found}
    for model, every in ratios.items():
        times = [x for x in every if np.isfinite(x)] or [np.nan]
        mean, least = float(statistics.geometric_mean(times)), min(times)
        yield {
            "set": f"{len(times)} sets", "model": model, "mean": mean, "least": least,
            "within": mean >= MEAN and least >= LEAST,
        }  # fmt: skip


def _beside_program(model: str, name: str, repeats: int) -> Row:
    X, y = _data(name)
    return _beside(MODELS[model](X), X, y, lambda: _program(model, X, y), repeats, **_options(model, X))


def _data(name: str) -> tuple[Any, Any]:
    """Return the standardised samples of a set, without constant features."""
    X, y = load(name, SETS.get(name, 0))
    X = scaled(X.toarray() if hasattr(X, "toarray") else X)
    return np.ascontiguousarray(X[:, X.std(axis=0) > 0.0]), y


def _beside(model: Any, X: Any, y: Any, theirs: Callable[[], float], repeats: int, **options: Any) -> Row:
    """Return the figures of our whole calls and of those of a peer that returns its optimum, in turns."""
    works: dict[str, Callable[[], Any]] = {
        "theirs": theirs,
        "ours": lambda: solve(model, X, y, tol=GAP, **options),
    }
    runs = in_turns(works, repeats, clock=time.process_time)
    found, ratio = runs["ours"].result, runs["theirs"].least / runs["ours"].least
    apart = abs(runs["theirs"].result - found.objective) / abs(found.objective)
    return {
        "m": len(X), "n": X.shape[1], "theirs, ms": 1e3 * runs["theirs"].least,
        "ours, ms": 1e3 * runs["ours"].least, "apart": apart, "gap": found.certificate.relative_gap,
        "solver": found.stats.solver, "times ours": ratio,
        "within": found.status == "optimal" and ratio >= LEAST,
    }  # fmt: skip


def large(limit: float = 600.0) -> Iterator[Row]:
    """Eight models at 100,000 x 50: seconds and memory of a whole call with a proven gap of 1e-6."""
    for model in MODELS:
        yield {"model": model, **isolated(_large, model, limit=limit)}


def _large(model: str) -> Row:
    rng = np.random.default_rng(0)
    y = np.where(rng.random(LARGE[0]) < 0.4, 1.0, -1.0)
    X = rng.standard_normal(LARGE) + 0.4 * y[:, None] * (rng.random(LARGE[1]) > 0.5)
    declared, options = MODELS[model](X), _options(model, X)
    found, seconds = timed(lambda: solve(declared, X, y, tol=GAP, **options), time.process_time)
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "seconds": seconds, "GiB": peak / 2**30, "gap": found.certificate.relative_gap,
        "solver": found.stats.solver, "status": found.status,
        "within": found.status == "optimal" and seconds <= SECONDS and peak <= BYTES,
    }  # fmt: skip


DRO: dict[str, tuple[str, str, dict[str, Any], Declared]] = {
    "CVaR of the hinge": ("cvar_dro.CVaRDRO", "svm", {"alpha": BETA}, lambda X: WorstMean(Hinge(), _TAIL)),
    "KL, logistic": (
        "kl_dro.KLDRO", "logistic", {"eps": RADIUS},
        lambda X: WorstMean(Logistic(), KLBall(float(np.exp(-RADIUS)))),
    ),
    "chi-square, logistic": (
        "chi2_dro.Chi2DRO", "logistic", {"eps": RHO}, lambda X: WorstMean(Logistic(), ChiSquareBall(RHO))
    ),
}  # fmt: skip


def dro(sets: Sequence[str] | None = None, repeats: int = 3, limit: float = 600.0) -> Iterator[Row]:
    """Three models of the package dro with Clarabel, without penalty; ours with bounds of w far away."""
    if importlib.util.find_spec("dro") is None:
        yield {"note": "not installed: pip install dro", "within": None}
        return
    yield from _table(DRO, _beside_dro, sets, repeats, limit)


def _beside_dro(model: str, name: str, repeats: int) -> Row:
    X, y = _data(name)
    place, kind, sizes, declared = DRO[model]
    module, _, estimator = place.partition(".")
    built = getattr(importlib.import_module(f"dro.linear_model.{module}"), estimator)

    def theirs() -> float:
        fitted = built(X.shape[1], kind, solver="CLARABEL", **({} if "eps" in sizes else sizes))
        fitted.update(sizes)
        fitted.fit(X, y)
        return float(fitted.robust_obj)

    return _beside(declared(X) + Bounds(-FAR, FAR), X, y, theirs, repeats)


PARTS: dict[str, Part] = {"worst-means": worst_means, "large": large, "dro": dro}
