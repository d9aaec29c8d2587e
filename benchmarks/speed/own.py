"""Passes of models, and the time of paths, folds and bounds as multiples of one fit."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import Part, Row, dense, in_turns, isolated, over, scaled, timed
from benchmarks.judge import GAP, figures
from benchmarks.speed.datasets import KAPPA, NU, declared, load, present
from ucm.compiler.compile import compile, solve
from ucm.compiler.path import path
from ucm.estimators import Classifier, ClassifierCV
from ucm.language import models
from ucm.ranges.relative_sizes import admissible

__all__ = ["PARTS"]

MOST_PASSES = 40.0
PATH_ENDS, PATH_SHARE = (0.36, 0.48), 5.0
_SHOWN = "solver status gap iterations passes systems forming both seconds"


def _fit(set_name: str, model: Any, tol: float, runs: int) -> Row:
    """Return the figures of the last of several fits."""
    solutions = [solve(model, *load(set_name), tol=tol) for _ in range(runs)]
    return figures(solutions[-1], _SHOWN)


def every_model(sets: Sequence[str] | None = None, limit: float = 60.0) -> Iterator[Row]:
    """Passes and gaps of five models other than the nu-SVM."""
    for set_name in sets or present():
        for name in ("l2_nu_svm", "kl_svm", "biased_l2_nu_svm", "mm_mpm", "mm_fda"):
            model = declared(name, *load(set_name), NU[set_name], KAPPA[set_name])
            found = isolated(_fit, set_name, model, GAP, 2, limit=limit)
            good = found.get("gap", np.inf) <= GAP
            within = good and found.get("passes", np.inf) <= MOST_PASSES
            yield {"set": set_name, "model": name, **found, "within": bool(within)}


def nu_path(sets: Sequence[str] = ("a9a",), repeats: int = 5) -> Iterator[Row]:
    """Time of a path over 50 values of nu, as a multiple of the time of one fit."""
    return over(sets, partial(_nu_path, repeats))


def _nu_path(repeats: int, name: str, X: Any, y: Any) -> Iterator[Row]:
    grid = np.linspace(*(PATH_ENDS if name == "a9a" else _ends(name, X, y)), 50)
    model = models.nu_svm(NU.get(name, float(grid[25])))
    single = in_turns({"one fit": partial(solve, model, X, y)}, repeats)["one fit"]
    found, seconds = timed(partial(path, model, X, y, nu=grid))
    yield {
        "set": name,
        "values": grid.size,
        "one fit, s": single.median,
        "one fit, passes": single.result.stats.passes,
        "path, s": seconds,
        "path, passes": sum(s.stats.passes for s in found),
        "worst gap": max(abs(s.certificate.relative_gap) for s in found),
        "times one fit": seconds / single.median,
        "within": seconds <= PATH_SHARE * single.median,
    }


EVERY = {
    "a9a": (0.365, 0.48), "cod-rna": (0.223, 0.6), "german.numer": (0.525, 0.599), "svmguide3": (0.41, 0.476),
}  # fmt: skip
EPS = 1e-3


def _ends(name: str, X: Any, y: Any) -> tuple[float, float]:
    """Return the interval of nu: of another set the middle 80 % of the admissible interval."""
    if name in EVERY:
        return EVERY[name]
    nu = admissible(models.nu_svm(0.5), X, y)["nu"]
    width = nu.upper - nu.lower
    return nu.lower + 0.1 * width, nu.upper - 0.1 * width


def whole_path(sets: Sequence[str] = tuple(EVERY), repeats: int = 5) -> Iterator[Row]:
    """Time of a path over every nu of an interval, with a proven gap of 1e-3, as a multiple of one fit.

    The fit is in the middle of the interval. Seconds are of the processor.
    """
    return over(sets, partial(_whole_path, repeats))


def _whole_path(repeats: int, name: str, X: Any, y: Any) -> Iterator[Row]:
    ends, most = _ends(name, X, y), 5.0 if name in ("a9a", "cod-rna") else 15.0
    model = models.nu_svm(sum(ends) / 2.0)
    works: dict[str, Any] = {
        "fit": partial(solve, model, X, y),
        "path": partial(path, model, X, y, nu="all", between=ends, eps=EPS),
    }
    runs = in_turns(works, repeats, clock=time.process_time)
    fits = runs["path"].least / runs["fit"].least
    over_all = runs["path"].result.over
    yield {
        "set": name,
        "from": ends[0],
        "to": ends[1],
        "solved": len(over_all),
        "worst gap": max(over_all.gaps),
        "fit, ms": 1e3 * runs["fit"].least,
        "fits": fits,
        "within": fits <= most,
    }


FOLDS, VALUES = 10, 20
SHARED = {"mm_fda": 6.0, "mm_mpm": 15.0, "nu_svm": 40.0}  # fits


def folds(sets: Sequence[str] = ("a9a", "cod-rna"), repeats: int = 5) -> Iterator[Row]:
    """Time of `ClassifierCV` with 20 values and 10 folds as a multiple of one fit.

    Seconds are of the processor.
    """
    for name, most in SHARED.items():
        yield from over(sets, partial(_folds, repeats, name, most))


def _folds(repeats: int, name: str, most: float, set_name: str, X: Any, y: Any) -> Iterator[Row]:
    ends = _ends(set_name, X, y) if name == "nu_svm" else (0.02, 0.6)
    values = np.linspace(*ends, VALUES + 1)[1:] if name == "nu_svm" else np.linspace(*ends, VALUES)
    model = getattr(models, name)(float(values[VALUES // 2]))
    works: dict[str, Any] = {
        "fit": partial(solve, model, X, y),
        "folds": ClassifierCV(Classifier(model), param_range=values, cv=FOLDS).fit,
    }
    works["folds"] = partial(works["folds"], X, y)
    runs = in_turns(works, min(repeats, 2), clock=time.process_time)
    fit = runs["fit"].least
    fits = runs["folds"].least / fit
    yield {
        "set": set_name, "model": name, "folds": f"{FOLDS} x {VALUES}", "fit, ms": 1e3 * fit, "fits": fits,
        "us a model": 1e6 * runs["folds"].least / (FOLDS * VALUES), "within": fits <= most,
    }  # fmt: skip


STARTS = 5
# set/features: samples, part of nu_min, the bound to reach
RULES = {
    "heart/4": (270, 0.8, 0.99),
    "german.numer/5": (1000, 0.8, 0.99),
    "svmguide3/5": (1243, 0.8, 0.99),
    "uci_wdbc/6": (569, 0.8, 0.99),
    "heart/6": (270, 0.8, 0.99),
    "uci_pima/6": (768, 0.8, 0.99),
    "german.numer/6": (1000, 0.8, 0.99),
    "heart/8": (270, 0.8, 0.87),
    "heart/13": (270, 0.8, 0.74),
    "uci_wdbc/13": (270, 0.8, 0.94),
    "sonar/20": (208, 0.9, 0.68),
    "svmguide3/21": (500, 0.9, 0.96),
    "german.numer/24": (400, 0.9, 0.68),
    "sonar/40": (208, 0.9, 0.0),
    "splice/60": (1000, 0.9, 0.0),
}


def bounds(sets: Sequence[str] = tuple(RULES)) -> Iterator[Row]:
    """Lower bounds of non-convex optima for p = 2: with each answer, and by `Plan.bound` after five starts.

    Seconds are of the processor, the least of three solves. `within`: up to 6 features a bound of 99 % of the
    objective in 3 seconds; from 8 to 25 features the bound that a conic solver proves by the same rules;
    beyond, a positive bound in the time of ten local solves.
    """
    return over(sets, _bounds, _first_columns)


def _first_columns(case: str) -> tuple[Any, Any]:
    """Return the first features of some samples, scaled."""
    name, n = case.split("/")
    X, y = dense(name)
    A = scaled(X[:, X.std(axis=0) > 0.0])[:, : int(n)]
    kept = np.random.default_rng(1).permutation(y.size)[: RULES[case][0]]
    return np.ascontiguousarray(A[kept]), y[kept]


def _bounds(case: str, X: Any, y: Any) -> Iterator[Row]:
    _, part, wanted = RULES[case]
    least = admissible(models.nu_svm(0.5), X, y)["nu"].lower
    plan = compile(models.nu_svm(part * least), X, y)
    works = {bound: partial(plan.solve, bound=bound) for bound in (False, True)}
    runs = [[timed(work, time.process_time) for _ in range(3)] for work in works.values()]
    alone, both = (min(seconds for _, seconds in each) for each in runs)
    quick = runs[1][0][0]
    row = {
        "set": case,
        "nu / nu_min": part,
        "solve, s": alone,
        "with bound, s": both,
    }
    row["bound / objective"] = quick.certificate.dual / quick.objective
    if X.shape[1] > 25:
        near = quick.certificate.dual > 0.0 and both - alone <= 10.0 * alone
        yield {**row, "within": near}
        return
    best = plan.solve(n_starts=STARTS)
    found, seconds = timed(partial(plan.bound, best), time.process_time)
    share = found.certificate.dual / found.objective
    row |= {"Plan.bound, s": seconds, "its bound / objective": share, "wanted": wanted}
    yield {**row, "within": share >= wanted - 0.005 and (X.shape[1] > 6 or seconds <= 3.0)}


PARTS: dict[str, Part] = {
    "models": every_model,
    "path": nu_path,
    "every": whole_path,
    "folds": folds,
    "bounds": bounds,
}
