"""Every pair of five convex losses and seven penalties: whether it is proven, and which take longest."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from ucm.bench.clock import timed
from ucm.bench.data import over
from ucm.bench.registry import Row
from ucm.bench.speed.losses import BESIDE
from ucm.bench.speed.options import Options
from ucm.bench.speed.sets import load
from ucm.compiler.compile import compile, solve
from ucm.language.losses import Exponential, Hinge, HuberHinge, Logistic, SquaredHinge
from ucm.language.objective import Objective
from ucm.language.penalties import L1, L2, ElasticNet, GroupL2, LInf, Lp, Norm
from ucm.language.terms import Loss, Penalty

__all__ = ["LOSSES", "PENALTIES", "pairs"]

LOSSES: dict[str, Loss] = {
    "hinge": Hinge(),
    "squared hinge": SquaredHinge(),
    "logistic": Logistic(),
    "exponential": Exponential(),
    "huber hinge": HuberHinge(0.5),
}
PENALTIES: dict[str, Callable[[int], Penalty]] = {
    "l1": lambda n: L1(),
    "l2": lambda n: L2(),
    "elastic net": lambda n: ElasticNet(0.5),
    "linf": lambda n: LInf(),
    "norm": lambda n: Norm(1.5),
    "groups": lambda n: GroupL2(np.arange(n) // 3),
    "lp": lambda n: Lp(3.0),
}
_SLOWEST = 10
_SMALL = 200_000  # entries up to which the twin is solved too


def _beside_twin(loss: str, penalty: str) -> bool:
    """The pairs that no other solver is known for."""
    return loss == "exponential" or f"{loss} + {penalty}" in _ALONE


_ALONE = ("hinge + l1", "hinge + linf", "squared hinge + linf")


def pairs(options: Options) -> Iterator[Row]:
    """One whole call of `ucm.solve` for each pair at lam 1 on each set, in processor time, at most as long as
    one peer may take; `within` says whether it was proven. Pairs that no other solver is known for stand
    beside their CVXPY twin by Clarabel where the set is small. At the end the slowest, with their solver."""
    names = [*options.sets, *(BESIDE if len(options.sets) > 1 else ())]
    found: list[Row] = []
    for row in over(names, partial(_of_set, options), load):
        found.append(row)
        yield row
    timed_ones = [row for row in found if row.get("ms") is not None]
    for row in sorted(timed_ones, key=lambda row: -row["ms"])[:_SLOWEST]:
        yield {**row, "note": f"among the slowest; {row['note']}".rstrip("; ")}


def _of_set(options: Options, name: str, X: Any, y: Any) -> Iterator[Row]:
    y = np.where(y > 0, 1.0, -1.0)
    for loss, declared in LOSSES.items():
        for penalty, of in PENALTIES.items():
            call = partial(solve, declared + of(X.shape[1]), X, y, time_limit=options.limit)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # one that is not proven is told by its row
                solution, seconds = timed(call, time.process_time)
                twin = (
                    _twin(call.args[0], X, y)
                    if X.size <= _SMALL and _beside_twin(loss, penalty)
                    else None
                )
            yield {
                "terms": f"{loss} + {penalty}",
                "set": name,
                "solver": solution.stats.solver,
                "ms": 1e3 * seconds,
                "twin, ms": None if twin is None else 1e3 * twin,
                "ratio": None if twin is None else twin / seconds,
                "gap": solution.certificate.relative_gap,
                "passes": solution.stats.passes,
                "note": "" if solution.status == "optimal" else solution.status,
                "within": solution.status == "optimal",
            }


def _twin(model: Objective, X: Any, y: Any) -> float | None:
    """Seconds of the twin, built and solved; None where Clarabel gives up."""

    import cvxpy as cp

    def work() -> Any:
        problem = compile(model, X, y).reference()
        problem.solve(solver="CLARABEL")

    try:
        return timed(work, time.process_time)[1]
    except cp.error.SolverError:
        return None
