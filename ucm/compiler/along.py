"""A smooth loss with one penalty at many of its weights: what a solve does once for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ucm.compiler.objective import ToObjective
from ucm.compiler.plan import Plan
from ucm.data.linear import Vec
from ucm.evidence.objective import Along, certify_along
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, Session
from ucm.forms.solution import Solution, Stats
from ucm.language.objective import Objective
from ucm.language.penalties.gathered import Gathered
from ucm.language.terms import ConvexLoss
from ucm.solvers.objective.prox_newton import Point
from ucm.solvers.threads import blas_threads

__all__ = ["along"]

Table = NDArray[np.float64]
_STRAIGHT = 1e-12  # relative, how far walls may be from affine in the parameter


def along(
    model: Objective, plan: Plan, session: Session, name: str, values: Sequence[float], tol: float
) -> list[Solution]:
    """The solutions for the first values, in their order, as far as each is proven; the others are for
    `Plan.solve`. None of them where the penalty is no box of slopes, affine in the parameter, with a multiple
    of the squared l2 norm, or the loss not one of all samples.

    Parameters
    ----------
    plan, session : of the first value
    """
    lowering, form, loss = plan.lowering, plan.form, model.loss
    single = isinstance(loss, ConvexLoss) and loss.counted is None and not loss.params()
    if not (single and isinstance(lowering, ToObjective) and isinstance(session, Point)):
        return []
    walls = _walls(model, name, values, form.n)
    if walls is None:
        return []

    def at(k: int) -> Composite:
        penalties, _ = model.penalty.with_params(**{name: values[k]}).split()
        return replace(form, penalties=penalties)

    data, monitor = lowering.data, Monitor(tol)
    session.monitor = monitor
    with data.powers(), blas_threads(min(data.m, data.n)):
        Z, slopes, steps = session.along(walls, at)
        known = Along(Z[:, :-1], Z[:, -1], slopes, *(each[: len(Z)] for each in walls))
        proofs = certify_along(loss, data, known)  # type: ignore[arg-type]
    weights = np.maximum(slopes, form.floors)
    weights = weights if data.weighing.kept is None else map(data.weighing.spread, weights)
    seconds = monitor.seconds / max(1, len(proofs))
    params, found = model.params(), []
    for k, (proof, own, rows) in enumerate(zip(proofs, weights, steps.tolist(), strict=True)):
        if not abs(proof.relative_gap) <= tol:
            break
        objective, gap, passes, systems, iterations = rows
        w, b = known.W[k], float(known.b[k])
        record = {
            "iteration": int(iterations), "objective": objective, "gap": gap, "passes": passes,
            "seconds": seconds, "start": 0,
        }  # fmt: skip
        found.append(
            Solution(
                w, b, None, own, proof.primal, proof, "optimal", f"proven: {proof}",
                Stats(plan.solver.name, 0.0, seconds, int(iterations), passes, systems=int(systems)),
                [record], "variable",
                answer=Answer(w=w, b=b, slopes=slopes[k]), params={**params, name: values[k]},
                ends=(proof.primal,),
            )
        )  # fmt: skip
    return found


def _walls(
    model: Objective, name: str, values: Sequence[float], n: int
) -> tuple[Table, Table, Vec] | None:
    """(K, n), (K, n) and (K,): the walls of the slopes of the penalty at each value, and the multiple of
    `||w||_2^2`; None where it has others, infinite ones, or they are not affine in the parameter."""

    def of(value: float) -> Vec | None:
        boxed = Gathered(model.penalty.with_params(**{name: value}).split()[0]).boxed
        if boxed is None:
            return None
        lower, upper = (np.broadcast_to(bound, n) for bound in boxed[:2])
        return np.concatenate([lower, upper, boxed[2:]])

    ends = values[0], 0.5 * (values[0] + values[-1]), values[-1]
    first, middle, last = map(of, ends)
    if first is None or middle is None or last is None or not np.isfinite(first + last).all():
        return None
    if not np.allclose(0.5 * (first + last), middle, rtol=_STRAIGHT, atol=0.0):
        return None
    width = values[-1] - values[0]
    t = (np.array(values) - values[0])[:, None] / (width or 1.0)
    table = (1.0 - t) * first + t * last
    lower, upper = (np.ascontiguousarray(part) for part in (table[:, :n], table[:, n:-1]))
    return lower, upper, table[:, -1].copy()
