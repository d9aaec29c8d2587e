"""Every named model on six sets, beside its CVXPY twin solved by Clarabel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ucm.bench.choose import declare, model_names
from ucm.bench.clock import timed
from ucm.compiler import compile as compiler
from ucm.data import datasets
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
        if (
            name == "sonar"
        ):  # where the hulls bind: near the largest kappa of the model without them
            for plain in ("mm_mpm", "mm_fda"):
                largest = admissible(declare(plain, {}, X, y), X, y)["kappa"].upper
                model = declare(f"coherent_{plain}", {"kappa": 0.95 * largest}, X, y)
                yield _row(name, f"coherent_{plain}", model, X, y)


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
        "parameters": model.params(),
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
