"""Quasi-Newton steps for worst means of smooth losses with the squared l2 norm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.optimize import minimize

from ucm.data.linear_map import Vec
from ucm.data.options import COUNT, check_fields
from ucm.errors import brief
from ucm.forms.monitor import Monitor
from ucm.forms.objective import WorstComposite
from ucm.forms.solver import Answer, Solver
from ucm.solvers.linear_program import column_sizes


@dataclass(frozen=True)
class LBFGS(Solver[WorstComposite]):
    """Minimise the worst mean of smooth losses over a strictly convex domain, with the squared l2 norm.

    The objective has the gradient `2 lam w - sum_i q_i s_i y_i x_i`, q the maximal weights at w and s the
    slopes of the losses (Danskin). The method is L-BFGS of SciPy in features of equal size; as the dual point
    q, s is exact at w, the gap is of second order in the distance from the optimum. The start is the minimum
    of the sum of losses with the weights at the centre of the domain.

    Parameters
    ----------
    memory
        Number of steps that the method keeps.

    Notes
    -----
    Liu and Nocedal (1989), On the limited memory BFGS method for large scale optimization.
    """

    memory: int = 30
    name: ClassVar[str] = "l-bfgs"

    def __post_init__(self) -> None:
        check_fields(self, memory=COUNT)

    def refuse(self, form: WorstComposite) -> str | None:
        if form.penalty.square is None:
            return "it takes the squared l2 norm only"
        rough = [loss for loss in (*form.losses, *(h.loss for h in form.worst)) if not loss.smooth()]
        if rough:
            return f"{brief(rough[0])} is not smooth"
        for h in form.worst:
            polytopes = [D for D in h.domains if D.polyhedron(h.map.shape[1]) is not None]
            if polytopes or len(h.domains) > 1:
                return f"the maximal weights in {brief((polytopes or h.domains)[-1])} jump"
        return None

    def solve(self, form: WorstComposite, monitor: Monitor, start: Answer | None = None) -> Answer:
        unit, lam, tilt = column_sizes(form.X), form.penalty.square or 0.0, form.linear

        def plane(z: Vec) -> tuple[Vec, float]:
            return z[:-1] / unit, float(z[-1])

        def height(z: Vec, q: Sequence[Vec]) -> tuple[float, Vec]:
            w, b = plane(z)
            margin = form.margins(w, b)
            fixed = form.fixed(margin, q)
            beta = fixed.gradient(margin) + tilt.margin
            slope = (2.0 * lam * w - form.adjoint(beta) - tilt.normal) / unit
            monitor.passes += form.cost
            bend = -float(form.y @ beta) if form.intercept else 0.0
            return fixed.value(margin, w), np.append(slope, bend)

        stopped = False

        def stops(intermediate_result) -> None:  # type: ignore[no-untyped-def]
            nonlocal stopped
            stopped = monitor.report(monitor.iterations + 1, float(intermediate_result.fun), float("nan"))
            if stopped:
                raise StopIteration

        z = (
            np.zeros(form.n + 1)
            if start is None or start.w is None
            else np.append(unit * start.w, start.b or 0.0)
        )
        end, used_up = monitor.iterations + monitor.limit(2000), False
        options = {"maxcor": self.memory, "ftol": 0.0, "gtol": 1e-12}
        centers = [h.domains[0].center(h.map.shape[1]) for h in form.worst]
        for q in (centers, ()) if not z.any() else ((),):  # at equal losses the maximal weights jump
            left = end - monitor.iterations
            used_up = left <= 0
            if stopped or used_up:
                break
            limits = {"maxiter": left, "maxfun": 10 * left}
            found = minimize(
                height, z, (q,), jac=True, method="L-BFGS-B", callback=stops, options=options | limits
            )
            z, used_up = found.x, found.status == 1
        w, b = plane(z)
        answer = Answer(w=w, b=b, slopes=form.gradient(form.margins(w, b)))
        if stopped or monitor.timed_out:
            return answer.ended("interrupted", "")
        if used_up:
            return answer.ended("max_iter", "the limit of iterations came first; raise max_iter")
        return answer.ended("converged", "")
