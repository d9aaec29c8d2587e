"""Every named model on six sets, beside its CVXPY twin solved by Clarabel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ucm import datasets
from ucm.bench.choose import declare, model_names
from ucm.bench.clock import timed
from ucm.compiler import compile as compiler
from ucm.evidence.admissible import admissible

__all__ = ["rows"]

SETS = ("heart", "australian", "ionosphere", "diabetes", "sonar", "splice")
TOLERANCE = 1e-6


def rows() -> Iterator[dict[str, Any]]:
    """Relative difference of the objectives and the certified gap; at most 1e-6 each."""
    for name in SETS:
        X, y = datasets.load(name)
        for model_name in model_names():
            model = declare(model_name, {}, X, y)
            yield _row(name, model_name, model, X, y)
        if name == "sonar":  # where the hulls of the coherent models bind
            for model_name in ("coherent_mm_mpm", "coherent_mm_fda"):
                model = declare(model_name, {}, X, y)
                largest = admissible(model, X, y)["kappa"].upper
                yield _row(name, model_name, model.with_params(kappa=0.95 * largest), X, y)


def _row(name: str, model_name: str, model: Any, X: Any, y: Any) -> dict[str, Any]:
    plan = compiler.compile(model, X, y)
    solution, seconds = timed(plan.solve)
    check, reference_seconds = timed(plan.verify)
    scale = max(abs(check.reference_objective), 1e-300)
    difference = abs(check.objective - check.reference_objective) / scale
    gap = abs(solution.certificate.relative_gap)
    return {
        "set": name,
        "model": model_name,
        "parameters": ", ".join(f"{k}={v:.4g}" for k, v in model.params().items()),
        "status": solution.status,
        "solver": solution.stats.solver,
        "objective": solution.objective,
        "difference": difference,
        "gap": gap,
        "agrees": bool(check.agrees),
        "solve, s": seconds,
        "verify, s": reference_seconds,
        "within": bool(check.agrees) and difference <= TOLERANCE and gap <= TOLERANCE,
    }
