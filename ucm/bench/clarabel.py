"""Every named model on six sets, beside its CVXPY twin solved by Clarabel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ucm.bench.choose import declare, model_names
from ucm.bench.clock import timed
from ucm.bench.data import over
from ucm.bench.judge import GAP, figures
from ucm.bench.registry import Benchmark, Row
from ucm.compiler.compile import compile
from ucm.evidence.relative import admissible

__all__ = ["BENCHMARK"]

SETS = ("heart", "australian", "ionosphere", "diabetes", "sonar", "splice")


def rows() -> Iterator[Row]:
    """Relative difference of the objectives and the certified gap; at most 1e-6 each."""
    return over(SETS, _every_model)


def _every_model(name: str, X: Any, y: Any) -> Iterator[Row]:
    for model in model_names():
        yield _beside_twin(name, model, declare(model, {}, X, y), X, y)
    if name == "sonar":  # hulls bind near the largest kappa of the model without them
        for plain in ("mm_mpm", "mm_fda"):
            largest = admissible(declare(plain, {}, X, y), X, y)["kappa"].upper
            model = declare(f"coherent_{plain}", {"kappa": 0.95 * largest}, X, y)
            yield _beside_twin(name, f"coherent_{plain}", model, X, y)


def _beside_twin(name: str, model_name: str, model: Any, X: Any, y: Any) -> Row:
    plan = compile(model, X, y)
    solution, seconds = timed(plan.solve)
    check, reference_seconds = timed(plan.verify)
    row = {"set": name, "model": model_name, "parameters": model.params()}
    row |= figures(solution, "status solver objective")
    row |= {"difference": check.difference, **figures(solution, "gap")}
    row |= {"agrees": bool(check.agrees), "solve, s": seconds, "verify, s": reference_seconds}
    return {**row, "within": row["agrees"] and max(row["difference"], row["gap"]) <= GAP}


BENCHMARK = Benchmark("clarabel", "every model on six sets, beside Clarabel", {"rows": rows})
