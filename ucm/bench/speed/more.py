"""Beside the fits: every model's passes, a path of values, high accuracy, growth with the samples."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ucm.bench.clock import timed
from ucm.bench.speed.isolate import isolated
from ucm.bench.speed.peers import pass_seconds
from ucm.bench.speed.sets import KAPPA, NU, load
from ucm.compiler.compile import solve
from ucm.compiler.path import path
from ucm.data import datasets
from ucm.data.bound import bind
from ucm.errors import ConvergenceWarning
from ucm.language import models
from ucm.language.robust import as_model

__all__ = ["declared_by_size", "every_model", "growth", "nu_path", "precise"]

Row = dict[str, Any]
TOLERANCE = 1e-6
MOST_PASSES = 40.0
FACTORS = (1.0, 1.05, 1.2, 1.5, 2.5)  # of nu
PATH, PATH_SHARE = ("a9a", np.linspace(0.36, 0.48, 50)), 5.0
SIZES = (10_000, 100_000, 1_000_000)
SPREAD = 1.5  # of the seconds of a pass between the sizes


def _figures(solution: Any) -> Row:
    stats, certificate = solution.stats, solution.certificate
    return {
        "solver": stats.solver,
        "status": solution.status,
        "gap": certificate.relative_gap,
        "iterations": stats.iterations,
        "passes": stats.passes,
        "systems": stats.systems,
        "forming": stats.forming,
        "both": stats.passes + stats.forming,
        "seconds": stats.setup_time + stats.solve_time,
    }


def declared_by_size(name: str, X: Any, y: Any, kappa: float) -> Any:
    """Sizes that bind without a program to find them: norms 1.05 times the least, alpha = 0.95 of the
    largest, kappa of Table 8."""
    a, b = np.count_nonzero(y > 0), np.count_nonzero(y < 0)
    if name == "l2_nu_svm":
        return models.l2_nu_svm(0.525 * float(np.sqrt(1.0 / a + 1.0 / b)))
    if name == "biased_l2_nu_svm":
        return models.biased_l2_nu_svm(1.05 / float(np.sqrt(a)), 1.05 / float(np.sqrt(b)))
    if name == "kl_svm":
        return models.kl_svm(0.95 * 2.0 * float(np.sqrt(a * b)) / y.size)
    return getattr(models, name)(kappa)


def _model(name: str, set_name: str) -> Row:
    X, y = load(set_name)
    model = declared_by_size(name, X, y, KAPPA[set_name])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solve(model, X, y)
        return _figures(solve(model, X, y))


def every_model(
    sets: Sequence[str], peers: Sequence[str], repeats: int, limit: float
) -> Iterator[Row]:
    """Passes of the models other than the nu-SVM."""
    for set_name in sets:
        for name in ("l2_nu_svm", "kl_svm", "biased_l2_nu_svm", "mm_mpm", "mm_fda"):
            found = isolated(_model, name, set_name, limit=limit)
            good = found.get("gap", np.inf) <= TOLERANCE
            within = good and found.get("passes", np.inf) <= MOST_PASSES
            yield {"set": set_name, "model": name, **found, "within": bool(within)}


def _precisely(set_name: str, nu: float) -> Row:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        X, y = load(set_name)
        return _figures(solve(models.nu_svm(nu), X, y, tol=1e-9))


def precise(sets: Sequence[str], peers: Sequence[str], repeats: int, limit: float) -> Iterator[Row]:
    """A relative gap of 1e-9, at nu and above it."""
    for set_name in sets:
        X, y = load(set_name)
        for factor in FACTORS:
            model = models.nu_svm(factor * NU[set_name])
            if as_model(model, "bench").set.emptiness(bind(X, y)) is not None:
                continue
            found = isolated(_precisely, set_name, factor * NU[set_name], limit=limit)
            row = {"set": set_name, "nu": factor * NU[set_name], **found}
            yield {**row, "within": found.get("status") == "optimal"}


def nu_path(sets: Sequence[str], peers: Sequence[str], repeats: int, limit: float) -> Iterator[Row]:
    """50 values of nu beside one fit of its own."""
    name, grid = PATH
    if name not in datasets.names():
        return
    X, y = load(name)
    model = models.nu_svm(NU[name])
    single, _ = timed(lambda: solve(model, X, y))
    alone = statistics.median(timed(lambda: solve(model, X, y))[1] for _ in range(repeats))
    found, seconds = timed(lambda: path(model, X, y, nu=grid))
    yield {
        "set": name,
        "values": grid.size,
        "one fit, s": alone,
        "one fit, passes": single.stats.passes,
        "path, s": seconds,
        "path, passes": sum(s.stats.passes for s in found),
        "worst gap": max(abs(s.certificate.relative_gap) for s in found),
        "times one fit": seconds / alone,
        "within": seconds <= PATH_SHARE * alone,
    }


def synthetic(m: int, n: int = 100) -> tuple[Any, Any]:
    """Section 6.1 of Ito, Takeda and Toh (2015): a normal sample for one class, one shifted for the
    other; here a shift of 0.1 in every feature with unit variances."""
    rng = np.random.default_rng(m)
    y = np.where(np.arange(m) % 2 == 0, 1.0, -1.0)
    return rng.standard_normal((m, n)) + 0.1 * y[:, None], y


def growth(sets: Sequence[str], peers: Sequence[str], repeats: int, limit: float) -> Iterator[Row]:
    """Seconds for each pass, those of forming systems among them, and passes, as the samples grow."""
    solve(models.nu_svm(0.6), *synthetic(200))  # loads and compiles what is lazy
    first: Row = {}
    for m in SIZES:
        X, y = synthetic(m)
        found = _figures(solve(models.nu_svm(0.6), X, y))
        per_pass = found["seconds"] / (found["passes"] + found["forming"])
        row = {"m": m, **found, "per pass, us/sample": 1e6 * per_pass / m}
        row["one product, us/sample"] = 1e6 * pass_seconds(X) / m
        first = first or row
        linear = row["per pass, us/sample"] <= SPREAD * first["per pass, us/sample"]
        yield {**row, "within": bool(linear and row["passes"] <= SPREAD * first["passes"])}
