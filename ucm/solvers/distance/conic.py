"""General conic solvers, through CVXPY: the form written out, any norm, any domain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ucm.errors import SolverError
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Solver
from ucm.language.robust import dual_exponent
from ucm.solvers.programs import Blocks, accuracy, attempt, cut_short, numbers

__all__ = ["ECOS", "SCS", "Clarabel"]


@dataclass(frozen=True)
class _Conic(Solver[MinNorm]):
    """`min ||z||_q` with `s z = c + sum A_k q_k`, s the scale of the features."""

    backend: ClassVar[str]

    def refuse(self, form: MinNorm) -> str | None:
        if self.backend == "ECOS" and form.norm not in (1.0, 2.0, np.inf):
            return "it has no cone for this norm"
        return None

    def predicted_passes(self, form: MinNorm) -> float:
        return float("nan")

    def solve(self, form: MinNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        if monitor.late:
            return Answer(form.centers()).interrupted()
        import cvxpy as cp

        blocks = Blocks(form)
        z = cp.Variable(form.n)
        image = z == blocks.x
        objective = cp.Minimize(_norm(cp, z, form.norm))
        problem = cp.Problem(objective, [image, *blocks.constraints])
        # well below the gap that is asked for, as the solver's own measure is another one
        options = accuracy(self.backend, 1e-3 * monitor.tol)
        failure = attempt(problem, self.backend, monitor, **options)
        if failure:
            raise SolverError(
                f"{self.name}: the solver failed ({failure}); scale the features, or take another "
                "solver"
            )
        if z.value is None and cut_short(problem, monitor):
            return Answer(form.centers()).interrupted()
        monitor.iterations = int(problem.solver_stats.num_iters or 0)
        if problem.status in ("infeasible", "infeasible_inaccurate"):
            message = f"{self.name} found no point"
            return Answer(form.centers(), status="infeasible", message=message)
        if z.value is None:
            raise SolverError(
                f"{self.name}: no answer, status {problem.status}; scale the features, or take "
                "another solver"
            )
        answer = Answer(blocks.point())
        dual = numbers(image.dual_value)
        size = form.space.norm(dual, dual_exponent(form.norm))
        if size > 0.0:
            # stationarity in z and q: w = -dual, and A'w + sum_j B_j'mu_j supports the domain
            sign = 1.0 if float(dual @ z.value) >= 0.0 else -1.0
            answer.w = sign * dual / size
            answer.multipliers = blocks.multipliers(-sign / size)
        objective = -blocks.scale * float(problem.value)
        monitor.report(monitor.iterations, objective, float("nan"))
        return answer.interrupted() if cut_short(problem, monitor) else answer


def _norm(cp, z, q: float):  # type: ignore[no-untyped-def]
    return cp.norm(z, q) if q in (1.0, 2.0, np.inf) else cp.pnorm(z, q, approx=False)


class Clarabel(_Conic):
    """Clarabel, an interior-point method."""

    name: ClassVar[str] = "clarabel"
    backend: ClassVar[str] = "CLARABEL"


class ECOS(_Conic):
    """ECOS, an interior-point method."""

    name: ClassVar[str] = "ecos"
    backend: ClassVar[str] = "ECOS"


class SCS(_Conic):
    """SCS, a splitting method: many cheap iterations, modest accuracy."""

    name: ClassVar[str] = "scs"
    backend: ClassVar[str] = "SCS"
