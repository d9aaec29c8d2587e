"""`loss + penalty`: split, routed, solved, certified."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ucm.compiler.inner_routes import choose_objective
from ucm.compiler.plan import Plan
from ucm.data.bound import Data
from ucm.errors import ConvergenceWarning, ParameterError, SolverError
from ucm.evidence.criticality import (
    certify_point,
    difference_of_convex,
    falls_forever,
    is_local,
)
from ucm.evidence.majorant import majorant, verify_objective
from ucm.evidence.verify import Verification
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.solution import Certificate, Solution, Stats
from ucm.forms.solver import Solver
from ucm.language.objective import Objective
from ucm.solvers.objective.dca import DCA
from ucm.solvers.threads import blas_threads

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["ObjectivePlan"]


class ObjectivePlan(Plan):
    """A compiled `Objective`.

    Attributes
    ----------
    form : the standard form, a difference of convex functions (of which the second may be 0)
    """

    model: Objective

    def __init__(self, model: Objective, data: Data, solver: str | Solver) -> None:
        began = time.perf_counter()
        self.model, self.data = model, data
        self.form = difference_of_convex(model, data)
        self.solver, self._table = choose_objective(self.form, solver)
        self.setup_time = time.perf_counter() - began

    def explain(self) -> str:
        """The split, the regime, the route chosen and the routes refused."""
        G, H = self.model.dc()
        data = self.data
        if self.form.convex:
            regime = "convex: the answer is the global optimum"
        else:
            regime = "non-convex: DCA from a convex start, to a critical point; starts=k tries more"
        name = self.solver.name
        if isinstance(self.solver, DCA) and self.solver.inner is not None:
            name = f"{name} around {self.solver.inner.name}"
        lines = [
            str(self.model),
            f"data      {data.m} samples, {data.n} features, {data.stored} entries",
            f"G         {G}",
            f"H         {H}",
            f"regime    {regime}",
            f"route     {name}",
        ]
        width = max(len(row) for row, _ in self._table)
        lines += [f"  {row:<{width}}  {verdict}" for row, verdict in self._table]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"Plan({self.model!r}, m={self.data.m}, n={self.data.n}, solver={self.solver.name!r})"
        )

    def _solve(
        self, monitor: Monitor, warm_start: Solution | None, starts: int, bias_rule: str
    ) -> Solution:
        if bias_rule != "auto":
            raise ParameterError(
                f"bias_rule={bias_rule!r} does not apply: b is a variable of a sum of losses; "
                'use "auto"'
            )
        start = self._start(warm_start)
        with blas_threads(min(self.data.m, self.data.n)):
            return self._finish(self._run(monitor, start, starts), monitor)

    def _run(self, monitor: Monitor, start: Answer | None, starts: int) -> Answer:
        solver = self.solver
        if isinstance(solver, DCA):
            return replace(solver, starts=starts).solve(self.form, monitor, start)
        return solver.solve(self.form.G, monitor, start)

    def _start(self, warm_start: Solution | None) -> Answer | None:
        if warm_start is None:
            return None
        if warm_start.w is None or warm_start.w.shape != (self.data.n,):
            raise ParameterError(
                "solve: warm_start is the solution of a model of another shape; "
                "give one over the same features"
            )
        return Answer(w=warm_start.w, b=warm_start.b or 0.0)

    def _finish(self, answer: Answer, monitor: Monitor) -> Solution:
        w, b = answer.plane
        certificate = certify_point(self.model, self.data, w, b, answer.slopes)
        margin = self.form.G.margins(w, b)
        slopes = self.form.G.gradient(margin) if answer.slopes is None else answer.slopes
        weights = np.maximum(slopes + self.form.tilt(margin, w).margin, 0.0)
        status, message = self._judge(answer, certificate, monitor.tol)
        stats = Stats(
            self.solver.name,
            self.setup_time,
            monitor.seconds,
            monitor.iterations,
            monitor.passes,
            monitor.kernel_operations,
        )
        return Solution(
            w, b, None, weights, certificate.primal, certificate, status, message, stats,
            monitor.history, bias_rule="variable", answer=answer,
        )  # type: ignore[arg-type]  # fmt: skip

    def _judge(self, answer: Answer, certificate: Certificate, tol: float) -> tuple[str, str]:
        gap, missed = certificate.relative_gap, certificate.violation
        if missed <= tol and gap < -max(tol, 1e-9):
            raise SolverError(
                f"{self.solver.name}: the certificate contradicts the answer (relative gap "
                f"{gap:.2g}); a term's conjugate is wrong: please report it"
            )
        endless = None
        if certificate.kind != "global":
            endless = falls_forever(self.model, self.data, *answer.plane)
        if endless is not None:
            warnings.warn(endless, ConvergenceWarning, stacklevel=5)
            return "unattained", endless
        if answer.status in ("converged", "interrupted") and missed <= tol and gap <= tol:
            if certificate.kind == "global":
                return "optimal", f"proven: {certificate}"
            if is_local(self.model, self.data, *answer.plane):
                return "local", (
                    f"critical (residual {gap:.2g}), and a local minimum: what is subtracted is "
                    "affine there"
                )
            return "stationary", f"critical: the next convex problem gains at most {gap:.2g}"
        message = (
            f"{self.solver.name} stopped with a relative gap of {gap:.2g} and a violation of "
            f"{missed:.2g}, tolerance {tol:.2g}. "
            + (answer.message or "Lower the solver's own tolerance, or take another solver.")
        )
        warnings.warn(message, ConvergenceWarning, stacklevel=5)
        return answer.status, message

    def reference(self) -> cp.Problem:
        w = self._last.w if self._last is not None else np.zeros(self.data.n)
        b = (self._last.b or 0.0) if self._last is not None else 0.0
        return majorant(self.model, self.data, w, b).problem

    def _verify(self, solution: Solution, **options: Any) -> Verification:
        return verify_objective(self.model, self.data, solution, **options)
