"""Every convex model by its fastest route, and its CVXPY reference solved by Clarabel."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from ucm.bench.choose import declare
from ucm.bench.speed.isolate import STOPPED, isolated, measured
from ucm.bench.speed.more import declared_by_size
from ucm.bench.speed.sets import KAPPA, NU, load
from ucm.compiler.compile import compile as compiled
from ucm.compiler.compile import solve
from ucm.errors import ConvergenceWarning
from ucm.language import models

__all__ = ["CONVEX", "clarabel", "declared", "ours", "theirs"]

Row = dict[str, Any]
CONVEX = (
    "nu_svm", "l2_nu_svm", "biased_l2_nu_svm", "kl_svm", "mm_fda", "mm_mpm", "coherent_mm_fda",
    "coherent_mm_mpm", "one_norm_svm", "psvm", "svm",
)  # fmt: skip
FACTOR = 100.0
GAP = 1e-6  # of both
_OPTIONS = {"tol_gap_rel": GAP, "tol_gap_abs": 1e-14, "tol_feas": GAP}


def declared(name: str, X: Any, y: Any, nu: float, kappa: float) -> Any:
    """The named model with nu of Table 5 or kappa of Table 8, or what binds elsewhere."""
    if name == "nu_svm":
        return models.nu_svm(nu)
    if name.startswith("coherent"):
        return getattr(models, name)(kappa)
    if name.startswith("mm_") or name in ("l2_nu_svm", "biased_l2_nu_svm", "kl_svm"):
        return declared_by_size(name, X, y, kappa)
    return declare(name, {}, X, y)


def ours(model: Any, X: Any, y: Any, repeats: int, limit: float) -> Row:
    """The whole of `ucm.solve`."""
    solution, figures = measured(lambda: solve(model, X, y), repeats, limit)
    return {
        "solver": solution.stats.solver,
        "status": solution.status,
        "objective": solution.objective,
        "gap": solution.certificate.relative_gap,
        **figures,
    }


def theirs(model: Any, X: Any, y: Any, repeats: int, limit: float) -> Row:
    """The reference built and solved; its value in the sense of `Solution.objective`."""

    def work() -> Any:
        problem = compiled(model, X, y).reference()
        problem.solve(solver="CLARABEL", **_OPTIONS)
        return problem

    problem, figures = measured(work, repeats, limit)
    return {"status": problem.status, "objective": problem.value, **figures}


def _on(set_name: str, name: str, job: Any, repeats: int, limit: float) -> Row:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)  # what CVXPY says of inaccurate answers
        job(models.nu_svm(0.3), *load("wine"), 1, limit)  # loads what is lazy
        X, y = load(set_name)
        return job(declared(name, X, y, NU[set_name], KAPPA[set_name]), X, y, repeats, limit)


def clarabel(
    sets: Sequence[str], peers: Sequence[str], repeats: int, limit: float
) -> Iterator[Row]:
    """Seconds of the CVXPY reference by Clarabel over ours, everything included in both.

    One that Clarabel does not end within the limit counts with the limit; one that it fails on does not
    count.
    """
    ratios = []
    for set_name in [name for name in sets if name in KAPPA]:
        for name in CONVEX:
            found = isolated(_on, set_name, name, ours, repeats, limit, limit=limit)
            other = isolated(_on, set_name, name, theirs, 1, limit, limit=limit)
            seconds = limit if other.get("note") == STOPPED else other.get("seconds")
            row = {"set": set_name, "model": name, **found, "Clarabel, s": seconds}
            row["Clarabel"] = other.get("status") or other.get("note")
            if "seconds" in found and seconds is not None:
                row["times ours"] = seconds / found["seconds"]
                ratios.append(row["times ours"])
            yield {**row, "within": abs(found.get("gap", 1.0)) <= GAP}
    if ratios:
        mean = statistics.geometric_mean(ratios)
        yield {
            "set": f"geometric mean of {len(ratios)}",
            "times ours": mean,
            "note": f"least {min(ratios):.3g}",
            "within": mean >= FACTOR,
        }
