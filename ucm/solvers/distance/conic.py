"""General conic solvers, through CVXPY: the form written out, any norm, any domain."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ucm.errors import SolverError
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Solver

__all__ = ["ECOS", "SCS", "Clarabel"]

_OPTIONS = {
    # tolerances well below the gap that is asked for, as the solver's own measure is another one
    "CLARABEL": lambda tol: {
        "tol_gap_abs": 1e-3 * tol,
        "tol_gap_rel": 1e-3 * tol,
        "tol_feas": 1e-3 * tol,
    },
    "ECOS": lambda tol: {"abstol": 1e-3 * tol, "reltol": 1e-3 * tol, "feastol": 1e-3 * tol},
    "SCS": lambda tol: {"eps_abs": 1e-3 * tol, "eps_rel": 1e-3 * tol, "max_iters": 100_000},
}


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
        import cvxpy as cp

        norms = [b.map.column_norms().max(initial=0.0) for b in form.blocks]
        scale = (
            max(form.space.norm(form.center), *norms, 1e-300)
            if norms
            else (form.space.norm(form.center) or 1.0)
        )
        q, terms, constraints = [], [], []
        for b in form.blocks:
            d = b.map.shape[1]
            v = cp.Variable(d) / (d if b.samples is not None else 1)
            q.append(v)
            terms.append((b.map.matrix() / scale) @ v)
            size = b.domain.size()
            number = None if size is None else size.number
            constraints += b.domain.constraints(v, number, classes=b.classes)
        z = cp.Variable(form.n)
        image = z == sum(terms, start=form.center / scale)
        meets = []
        for c in form.couplings:
            unit = max(float(np.linalg.norm(c.offset)), scale if c.offset.any() else 1.0)
            total = sum((B.matrix() @ q[k] for k, B in c.terms), start=cp.Constant(c.offset))
            meets.append((unit, total / unit == 0))
        problem = cp.Problem(
            cp.Minimize(_norm(cp, z, form.norm)), [image, *constraints, *(m for _, m in meets)]
        )
        options = _OPTIONS[self.backend](monitor.tol)
        try:
            with warnings.catch_warnings():  # the status and the certificate say it with numbers
                warnings.filterwarnings("ignore", "Solution may be inaccurate")
                problem.solve(solver=self.backend, verbose=monitor.verbose, **options)
        except (cp.error.SolverError, ArithmeticError) as error:
            raise SolverError(
                f"{self.name}: the solver failed ({str(error).splitlines()[0]}); "
                "scale the features, or take another solver"
            ) from error
        monitor.iterations = int(problem.solver_stats.num_iters or 0)
        if problem.status in ("infeasible", "infeasible_inaccurate"):
            answer = Answer(form.centers())
            answer.status, answer.message = "infeasible", f"{self.name} found no point"
            return answer
        if z.value is None:
            raise SolverError(
                f"{self.name}: no answer, status {problem.status}; scale the features, or take "
                "another solver"
            )
        answer = Answer([np.asarray(v.value, dtype=np.float64).ravel() for v in q])
        dual = np.asarray(image.dual_value, dtype=np.float64).ravel()
        size = form.space.norm(dual, _dual(form.norm))
        if size > 0.0:
            # stationarity in z and q: w = -dual, and A'w + sum_j B_j'mu_j supports the domain
            sign = 1.0 if float(dual @ z.value) >= 0.0 else -1.0
            answer.w = sign * dual / size
            answer.multipliers = [
                -sign * np.asarray(m.dual_value, dtype=np.float64).ravel() * (scale / (unit * size))
                for unit, m in meets
            ]
        monitor.report(monitor.iterations, -scale * float(problem.value), float("nan"))
        return answer


def _norm(cp, z, q: float):  # type: ignore[no-untyped-def]
    return cp.norm(z, q) if q in (1.0, 2.0, np.inf) else cp.pnorm(z, q, approx=False)


def _dual(q: float) -> float:
    return np.inf if q == 1.0 else (1.0 if q == np.inf else q / (q - 1.0))


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
