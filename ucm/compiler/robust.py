"""A robust-margin model: lowered to a minimum-norm problem, routed, certified."""

from __future__ import annotations

import functools
import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ucm.compiler.kernelised import expand, lowered, point_coefficients
from ucm.compiler.plan import Plan
from ucm.compiler.recover import bias, sample_weights
from ucm.compiler.regime import Regime, beyond, regime_of
from ucm.compiler.routes import choose, verdicts
from ucm.compiler.unit_routes import choose_unit, unit_solver
from ucm.data.bound import Data, GramSpace
from ucm.data.linear import Vec
from ucm.errors import ConvergenceWarning, EmptySetError, ParameterError, SolverError, warn_of
from ucm.evidence.admissible import advice
from ucm.evidence.certificate import certify
from ucm.evidence.reference import twin
from ucm.evidence.verify import Verification, verify
from ucm.evidence.verify_unit import linearised, verify_stationary
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.solution import Certificate, Solution, Stats
from ucm.forms.solver import Solver
from ucm.forms.sphere import UnitNorm
from ucm.language.notation import TEXT
from ucm.language.robust import RobustMargin
from ucm.solvers.threads import blas_threads

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["RobustPlan"]


class RobustPlan(Plan):
    """A compiled `RobustMargin`.

    Attributes
    ----------
    form : the standard form
    """

    model: RobustMargin

    def __init__(self, model: RobustMargin, data: Data, solver: str | Solver) -> None:
        began = time.perf_counter()
        model.set.dimension(data.n)
        why = model.set.emptiness(data)
        if why is not None:
            raise EmptySetError(why)
        self.model = model
        self._beyond = unit_solver(solver)
        self._bind(data, solver)
        self.setup_time = time.perf_counter() - began

    def _bind(self, data: Data, solver: str | Solver) -> None:
        self.data = data
        with blas_threads(data.n):  # covariances are formed and factored here
            self.form = lowered(self.model, data)
        # the other side of the boundary needs coordinates
        space = data.space
        by_rows = isinstance(space, GramSpace)
        self._extends = (solver == "auto" and not by_rows) or self._beyond is not None
        self._leaves_rows = solver == "auto" and isinstance(space, GramSpace) and space.gram.fits
        self._asked = "auto" if self._extends else solver
        self.solver = choose(self.form, self._asked)

    def explain(self) -> str:
        """The form, the route chosen, the routes refused and why, the cost of a pass."""
        form = self.form
        sizes = ", ".join(f"R^{b.map.shape[1]} with {b.domain.formula(TEXT)}" for b in form.blocks)
        regime = self.regime
        side = "convex" if regime.convex else "not convex"
        passes = self.solver.predicted_passes(form)
        lines = [
            str(self.model),
            f"data      {self.data.m} samples, {self.data.n} features, {self.data.stored} entries"
            + ("" if self.data.gram is None else f"; {self.data.gram.kernel}, {self._behind()}"),
            f"form      min ||c + sum A_k q_k||_{form.norm:g} in dimension {form.n}; "
            f"q in {sizes or 'none'}",
        ]
        if form.couplings:
            lines.append(
                f"coupled   {len(form.couplings)} intersection(s), {form.coupled} equations"
            )
        lines += [
            f"regime    {side}: {regime.how}",
            f"route     {self.solver.name}"
            + ("" if np.isnan(passes) else f", about {round(passes, 1):g} passes to a gap of 1e-6"),
            f"a pass    {2 * self.data.stored:,} multiplications; one product of this form costs "
            f"{form.pass_cost():.3g} passes",
        ]
        routes = verdicts(self.form, self._asked)
        width = max(len(name) for name, _ in routes)
        lines += [f"  {name:<{width}}  {verdict}" for name, verdict in routes]
        if regime.convex or not self._extends:
            if not regime.convex:
                lines.append(f"0 in U    {self.solver.name}, named, ends with zero_in_set")
            return "\n".join(lines)
        unit = self.unit
        where = "R^n" if unit.basis is None else f"the span of U, dimension {unit.rank} of {form.n}"
        lines.append(f"0 in U    min f(w) over ||w||_{self.model.norm:g} = 1, w in {where}")
        if unit.rank > 0:
            table = choose_unit(unit, self._beyond)[1]
            lines += [f"  {name:<{width}}  {verdict}" for name, verdict in table]
        return "\n".join(lines)

    def _behind(self) -> str:
        rows = isinstance(self.data.space, GramSpace)
        return "rows of its Gram matrix as needed" if rows else "features spanning it"

    @functools.cached_property
    def regime(self) -> Regime:
        """Whether the model is convex for these data, and how that is known."""
        if isinstance(self.data.space, GramSpace):
            return Regime(True, "the solve decides, as there are inner products only")
        return regime_of(self.model, self.data, self.unit)

    @functools.cached_property
    def unit(self) -> UnitNorm:
        """The form where 0 lies in U."""
        return UnitNorm.of(self.form, self.model.norm)

    def __repr__(self) -> str:
        return (
            f"Plan({self.model!r}, m={self.data.m}, n={self.data.n}, solver={self.solver.name!r})"
        )

    def _solve(
        self, monitor: Monitor, warm_start: Solution | None, starts: int, bias_rule: str
    ) -> Solution:
        named = self._beyond is not None or self.form.norm != 2.0
        if self._extends and named and self.unit.rank > 0 and not self.regime.convex:
            floor = self.regime.floor
            solution = self._solve_beyond(floor, monitor, warm_start, starts, bias_rule)
        else:
            answer = self._run(monitor, warm_start)
            if self._leaves_rows and answer.status == "max_iter" and monitor.goes_on:
                return self._in_coordinates(monitor, starts, bias_rule)
            solution = self._finish(answer, monitor, bias_rule)
        if solution.status == "zero_in_set" and self._leaves_rows:
            return self._in_coordinates(monitor, starts, bias_rule)
        if solution.status == "zero_in_set" and self._extends and self.unit.rank > 0:
            floor = solution.certificate.dual
            solution = self._solve_beyond(floor, monitor, warm_start, starts, bias_rule)
        if self.data.gram is None:
            return solution
        return expand(self.model, self.data, self.data.gram, solution)

    def _in_coordinates(self, monitor: Monitor, starts: int, bias_rule: str) -> Solution:
        """Where rows of the Gram matrix do not tell: 0 may lie in U, or a distance is too small for
        inner products to resolve."""
        vars(self).pop("regime", None)
        self._bind(self.data.in_coordinates, "auto")
        return self._solve(replace(monitor, iterations=0), None, starts, bias_rule)

    def _solve_beyond(
        self, floor: float, monitor: Monitor, warm_start: Solution | None, starts: int, rule: str
    ) -> Solution:
        size = max(self._size(self.form.centers()), self._size(self._far()))
        return beyond(
            self.model, self.data, self.unit, self._beyond, floor, size, self.setup_time,
            monitor, warm_start, starts, rule,
        )  # fmt: skip

    def _run(self, monitor: Monitor, warm_start: Solution | None) -> Answer:
        before: Answer | None = None if warm_start is None else warm_start.answer
        start = None if before is None else before.q
        if start is not None and [v.size for v in start] != [
            b.map.shape[1] for b in self.form.blocks
        ]:
            raise ParameterError(
                "solve: warm_start is the solution of a model of another shape; "
                "give one of the same set over the same samples"
            )
        if not self.form.blocks:  # a single point, or several that must coincide
            apart = max((float(np.abs(c.offset).max()) for c in self.form.couplings), default=0.0)
            if apart > 1e-12 * max(self.data.scale, float(np.abs(self.form.center).max())):
                return Answer([], status="infeasible", message=f"its points lie {apart:.3g} apart")
            return Answer([], multipliers=[np.zeros_like(c.offset) for c in self.form.couplings])
        if start is None or before is None or warm_start is None:
            return self.solver.solve(self.form, monitor)
        w = None if before.w is None else -warm_start.objective * before.w
        return self.solver.solve(self.form, monitor, Answer(start, w))

    def _finish(self, answer: Answer, monitor: Monitor, bias_rule: str) -> Solution:
        stats = Stats(
            self.solver.name,
            self.setup_time,
            monitor.seconds,
            monitor.iterations,
            monitor.passes,
            monitor.kernel_operations,
            int(monitor.systems),
            monitor.forming,
        )
        make = functools.partial(Solution, stats=stats, history=monitor.history, answer=answer)
        zero = np.zeros(self.form.n)
        if answer.status == "infeasible":
            nothing = Certificate(-np.inf, -np.inf, np.nan, np.nan, np.nan, "none")
            message = (
                f"U is empty: {answer.message}. {advice(self.model, self.data.in_coordinates)}"
            )
            return make(zero, None, zero, None, -np.inf, nothing, "infeasible", message)
        splits = self.form.splits(answer)
        certificate, w, x = certify(self.model, self.data, answer.q, answer.w, splits, monitor.tol)
        norm = -certificate.dual
        size = self._size(answer.q)
        if abs(certificate.relative_gap) > monitor.tol:  # not proven to be off 0: how large is U?
            size = max(size, self._size(self.form.centers()), self._size(self._far()))
        weights = sample_weights(self.form, answer.q, self.data.m)
        if norm <= max(
            monitor.tol, self.data.space.resolution
        ) * size and certificate.violation <= max(monitor.tol, 1e-6):
            certificate = Certificate(0.0, -norm, norm, 0.0, certificate.violation, "global")
            message = "0 lies in U, so no direction has a positive worst-case margin and w = 0."
            leaves = self._leaves_rows or (self._extends and self.unit.rank > 0)
            if not leaves:  # else it is no answer yet
                message += f" {advice(self.model, self.data.in_coordinates)}"
            return make(zero, None, x, weights, 0.0, certificate, "zero_in_set", message, size=size)
        b, rule = bias(bias_rule, self.model.set, self.form, self.data, answer.q, w)
        status, message = self._judge(answer, certificate, monitor.tol, size)
        return make(
            w, b, x, weights, -norm, certificate, status, message, bias_rule=rule, size=size
        )

    def _size(self, q: list[Vec]) -> float:
        """`||c|| + sum ||A_k q_k||`."""
        norm = self.data.space.norm
        parts = [norm(b.map.matvec(v)) for b, v in zip(self.form.blocks, q, strict=True)]
        return norm(self.form.center) + sum(parts)

    def _far(self) -> list[Vec]:
        """Extreme points of the bounded domains, in a direction of no meaning."""
        heights = self.form.supports(self.form.rmatvec(np.ones(self.form.n)))
        centers = self.form.centers()
        return [q if np.isfinite(h) else c for (h, q), c in zip(heights, centers, strict=True)]

    def _judge(
        self, answer: Answer, certificate: Certificate, tol: float, size: float
    ) -> tuple[str, str]:
        inside = certificate.violation <= tol
        if inside and abs(certificate.relative_gap) <= tol:
            return "optimal", f"proven: {certificate}"
        # where a domain is curved, a violation of v allows a point sqrt(v) outside
        slack = tol + 10.0 * math.sqrt(certificate.violation) * max(
            1.0, size / max(-certificate.dual, 1e-300)
        )
        if inside and certificate.relative_gap < -slack:
            raise SolverError(
                f"{self.solver.name}: the certificate contradicts the answer (relative gap "
                f"{certificate.relative_gap:.2g}, a point of U nearer than its support allows); "
                "the lowering of this set is wrong: please report it"
            )
        status = answer.status
        message = (
            f"{self.solver.name} stopped with a relative gap of {certificate.relative_gap:.2g} and "
            f"a violation of {certificate.violation:.2g}, tolerance {tol:.2g}. "
            + (answer.message or "Lower the solver's own tolerance, or take another solver.")
        )
        warn_of(message, ConvergenceWarning)
        return status, message

    def reference(self) -> cp.Problem:
        last = self._last
        if last is not None and last.answer is not None and last.certificate.residual is not None:
            return linearised(self.model, self.data, self.unit, last.answer).problem
        return twin(self.model, self.data.by_spectrum).problem

    def _verify(self, solution: Solution, **options: Any) -> Verification:
        if solution.answer is not None and solution.certificate.residual is not None:
            return verify_stationary(self.model, self.data, self.unit, solution, **options)
        if self.data.gram is not None and solution.answer is not None:
            c = point_coefficients(self.model, self.data, solution.answer.q)
            solution = replace(solution, x=self.data.by_spectrum.X.T @ c)
        return verify(self.model, self.data.by_spectrum, solution, **options)
