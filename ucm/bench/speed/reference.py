"""Every named model, by its fastest route and by Clarabel through CVXPY."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from ucm import models
from ucm.bench.choose import declare, model_names
from ucm.bench.speed.isolate import STOPPED, isolated, measured
from ucm.bench.speed.more import declared_by_size
from ucm.bench.speed.sets import KAPPA, NU, load
from ucm.compiler.compile import solve
from ucm.errors import ConvergenceWarning

__all__ = ["clarabel"]

Row = dict[str, Any]
FACTOR = 100.0
SMALLER = 1e-6  # relative gap of both


def _declared(name: str, set_name: str, X: Any, y: Any) -> Any:
    if name in ("nu_svm", "enu_svm"):
        return getattr(models, name)(NU[set_name])
    if name.startswith("coherent"):
        return getattr(models, name)(KAPPA[set_name])
    if name.startswith("mm_") or name in ("l2_nu_svm", "biased_l2_nu_svm", "kl_svm"):
        return declared_by_size(name, X, y, KAPPA[set_name])
    return declare(name, {}, X, y)


def _fit(name: str, set_name: str, solver: str, repeats: int, limit: float) -> Row:
    X, y = load(set_name)
    model = _declared(name, set_name, X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)  # what CVXPY says of inaccurate answers
        small, sign = load("heart")
        solve(_declared(name, "heart", small, sign), small, sign, solver=solver)
        solution, figures = measured(
            lambda: solve(model, X, y, solver=solver), repeats, limit, lambda s: s.stats.solve_time
        )
    gap = solution.certificate.relative_gap
    return {"solver": solution.stats.solver, "status": solution.status, "gap": gap, **figures}


def clarabel(
    sets: Sequence[str], peers: Sequence[str], repeats: int, limit: float
) -> Iterator[Row]:
    """Seconds of the whole call, by Clarabel over ours; the geometric mean over all models and sets.

    A model that Clarabel does not end within the limit counts with the limit; one that it raises on, or
    leaves with a gap ten times the tolerance, does not count.
    """
    ratios = []
    for set_name in sets:
        for name in model_names():
            ours = isolated(_fit, name, set_name, "auto", repeats, limit, limit=2.0 * limit)
            theirs = isolated(_fit, name, set_name, "clarabel", 1, limit, limit=limit)
            seconds = limit if theirs.get("note") == STOPPED else theirs.get("seconds")
            row = {"set": set_name, "model": name, **ours}
            if "note" in theirs:
                row["note"] = theirs["note"]
            row["Clarabel, s"], row["Clarabel's gap"] = seconds, theirs.get("gap")
            solved = seconds is not None and abs(theirs.get("gap", 0.0)) <= 10.0 * SMALLER
            if solved and "seconds" in ours:
                row["times ours"] = seconds / ours["seconds"]
                ratios.append(row["times ours"])
            yield {**row, "within": abs(ours.get("gap", 1.0)) <= SMALLER}
    if ratios:
        mean = statistics.geometric_mean(ratios)
        yield {
            "set": f"geometric mean of {len(ratios)}",
            "times ours": mean,
            "note": f"least {min(ratios):.3g}",
            "within": mean >= FACTOR,
        }
