"""A smooth loss with an L1-like penalty at many weights of the penalty, solved and certified in one batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ucm.compiler.plan import Plan
from ucm.data.bound_data import Data
from ucm.data.linear_map import Vec
from ucm.evidence.certificate import is_proven
from ucm.evidence.objective import certify_batch
from ucm.forms.monitor import Monitor
from ucm.forms.solution import Solution, Stats
from ucm.forms.solver import Answer
from ucm.language.objective import Objective
from ucm.language.penalties.penalty_sum import CombinedPenalty
from ucm.language.robust import RobustMargin
from ucm.language.terms import ConvexLoss
from ucm.native import blas_threads
from ucm.solvers import ProxNewton
from ucm.solvers.objective.l1_newton import L1Newton

Table = NDArray[np.float64]
_AFFINE = 1e-12  # the relative deviation of bounds that count as affine in the parameter


def batched_path(
    model: RobustMargin | Objective,
    data: Data,
    name: str,
    values: Sequence[float],
    tol: float,
    compiled: Callable[[float], Plan | None],
) -> list[Solution]:
    """Solve for the first values in one call of C; return the proven solutions, in order.

    `Plan.solve` solves the other values. The list is empty unless the loss is one loss of all samples in
    memory, the data are small, and the penalty is a box of slopes, affine in the parameter, with a multiple
    of the squared l2 norm. `compiled` returns the plan for a value.
    """
    if not (isinstance(model, Objective) and data.source is None and values):
        return []
    loss = model.loss
    if not isinstance(loss, ConvexLoss) or loss.counted is not None or loss.params():
        return []
    plan = compiled(values[0])
    if plan is None or not isinstance(plan.solver, ProxNewton):
        return []
    lowering, form = plan.lowering, plan.form
    steps, bounds = L1Newton.of(form), _bounds(model, name, values, form.n)
    if steps is None or bounds is None or not ((bounds[1] > 0.0).all() and (bounds[0] < 0.0).all()):
        return []
    data, monitor = lowering.data, Monitor(tol)
    with data.overflow_guard(), blas_threads(min(data.m, data.n)):
        Z, slopes, log = steps.path(*bounds, tol, monitor)
        proofs = certify_batch(model, data, Z, slopes, *(each[: len(Z)] for each in bounds))
    weights = np.maximum(slopes, form.floors)
    weights = weights if data.weighing.nonzero is None else map(data.weighing.scatter, weights)
    seconds = monitor.seconds / max(1, len(proofs))
    params, solutions = model.params(), []
    for k, (proof, sample_weights, row) in enumerate(zip(proofs, weights, log.tolist(), strict=True)):
        if not is_proven(proof, tol):
            break
        objective, gap, passes, systems, iterations = row
        w, b = Z[k, :-1], float(Z[k, -1])
        record = {
            "iteration": int(iterations), "objective": objective, "gap": gap, "passes": passes,
            "seconds": seconds, "start": 0,
        }  # fmt: skip
        solutions.append(
            Solution(
                w, b, None, sample_weights, proof.primal, proof, "optimal", f"proven: {proof}",
                Stats(plan.solver.name, 0.0, seconds, int(iterations), passes, systems=int(systems)),
                [record], "variable",
                answer=Answer(w=w, b=b, slopes=slopes[k]), params={**params, name: values[k]},
                start_objectives=(proof.primal,), tol=tol,
            )
        )  # fmt: skip
    return solutions


def _bounds(model: Objective, name: str, values: Sequence[float], n: int) -> tuple[Table, Table, Vec] | None:
    """Return the bounds of the slopes of the penalty at each value, (K, n) twice, and the multiples of
    `||w||_2^2`, (K,).

    None for another penalty, infinite bounds, or bounds that are not affine in the parameter.
    """

    def of(value: float) -> Vec | None:
        boxed = CombinedPenalty(model.penalty.with_params(**{name: value}).split()[0]).boxed
        if boxed is None:
            return None
        lower, upper = (np.broadcast_to(bound, n) for bound in boxed[:2])
        return np.concatenate([lower, upper, boxed[2:]])

    ends = values[0], 0.5 * (values[0] + values[-1]), values[-1]
    first, middle, last = map(of, ends)
    if first is None or middle is None or last is None or not np.isfinite(first + last).all():
        return None
    if not np.allclose(0.5 * (first + last), middle, rtol=_AFFINE, atol=0.0):
        return None
    width = values[-1] - values[0]
    t = (np.array(values) - values[0])[:, None] / (width or 1.0)
    table = (1.0 - t) * first + t * last
    lower, upper = (np.ascontiguousarray(part) for part in (table[:, :n], table[:, n:-1]))
    return lower, upper, table[:, -1].copy()
