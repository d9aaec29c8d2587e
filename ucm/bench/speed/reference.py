"""Every convex model by its fastest route, and its CVXPY reference solved by Clarabel."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from ucm.bench.judge import GAP, figures
from ucm.bench.registry import Row
from ucm.bench.speed.isolate import STOPPED, isolated, measured
from ucm.bench.speed.options import Options
from ucm.bench.speed.sets import KAPPA, NU, declared, load
from ucm.compiler.compile import compile, solve
from ucm.language import models

__all__ = ["CONVEX", "clarabel", "ours", "theirs"]

CONVEX = (
    "nu_svm", "l2_nu_svm", "biased_l2_nu_svm", "kl_svm", "mm_fda", "mm_mpm", "coherent_mm_fda",
    "coherent_mm_mpm", "one_norm_svm", "psvm", "svm",
)  # fmt: skip
FACTOR = 100.0
_OPTIONS = {"tol_gap_rel": GAP, "tol_gap_abs": 1e-14, "tol_feas": GAP}


def ours(model: Any, X: Any, y: Any, repeats: int, limit: float) -> Row:
    """The whole of `ucm.solve`."""
    solution, seconds = measured(lambda: solve(model, X, y), repeats, limit)
    return figures(solution, "solver status objective gap") | seconds


def theirs(model: Any, X: Any, y: Any, repeats: int, limit: float) -> Row:
    """The reference built and solved; its value in the sense of `Solution.objective`."""

    def work() -> Any:
        problem = compile(model, X, y).reference()
        problem.solve(solver="CLARABEL", **_OPTIONS)
        return problem

    problem, seconds = measured(work, repeats, limit)
    return {"status": problem.status, "objective": problem.value, **seconds}


def _on(set_name: str, name: str, job: Any, repeats: int, limit: float) -> Row:
    job(models.nu_svm(0.3), *load("wine"), 1, limit)  # loads what is lazy
    X, y = load(set_name)
    return job(declared(name, X, y, NU[set_name], KAPPA[set_name]), X, y, repeats, limit)


def clarabel(options: Options) -> Iterator[Row]:
    """Seconds of the CVXPY reference by Clarabel over ours, everything included in both.

    One that Clarabel does not end within the limit counts with the limit; one that it fails on does not
    count.
    """
    ratios, limit = [], options.limit
    for set_name in filter(KAPPA.__contains__, options.sets):
        for name in CONVEX:
            found = isolated(_on, set_name, name, ours, options.repeats, limit, limit=limit)
            other = isolated(_on, set_name, name, theirs, 1, limit, limit=limit)
            seconds = limit if other.get("note") == STOPPED else other.get("seconds")
            row = {"set": set_name, "model": name, **found, "Clarabel, s": seconds}
            row["Clarabel"] = other.get("status") or other.get("note")
            if "seconds" in found and seconds is not None:
                row["times ours"] = seconds / found["seconds"]
                ratios.append(row["times ours"])
            yield {**row, "within": found.get("gap", 1.0) <= GAP}
    if ratios:
        mean = statistics.geometric_mean(ratios)
        yield {
            "set": f"geometric mean of {len(ratios)}",
            "times ours": mean,
            "note": f"least {min(ratios):.3g}",
            "within": mean >= FACTOR,
        }
