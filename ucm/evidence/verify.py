"""Compare an answer with the CVXPY problem of its declaration."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ucm.data.bound_data import Data
from ucm.data.linear_map import Vec
from ucm.errors import SolverError
from ucm.evidence.reference import dual_problem, linearised, majorant, reference_problem
from ucm.forms.display import digits, sheet
from ucm.forms.solution import Solution
from ucm.forms.sphere import UnitNorm
from ucm.language import cvx as cp
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin
from ucm.solvers.programs import accuracy, attempt

__all__ = [
    "CvxpyResult",
    "Verification",
    "compared",
    "solved",
    "verify",
    "verify_objective",
    "verify_stationary",
]

_AGREED = 1e-6  # relative difference up to which two objectives agree
_TIGHT = 1e-10  # accuracy of Clarabel, first; not every problem can reach it
_REDUCED = 5e-5  # its accuracy where it reports an inaccurate solution


@dataclass(frozen=True)
class Verification:
    """The comparison of an answer with the CVXPY reference; printed as a report.

    Attributes
    ----------
    agrees : True if both answers are equal within the tolerance
    objective, reference_objective : objectives of the solution and of the CVXPY reference
    difference : relative difference of the objectives
    x_distance : distance between the two points, relative to the norm; NaN if it is not compared
    x_allowed : the distance that both gaps allow
    violation : relative distance of the solution from U, by the definition of U
    status, reference_status : statuses of both solves
    reference_solver : the solver behind CVXPY
    """

    agrees: bool
    objective: float
    reference_objective: float
    difference: float
    x_distance: float
    x_allowed: float
    violation: float
    status: str
    reference_status: str
    reference_solver: str

    def __bool__(self) -> bool:
        return self.agrees

    @property
    def _points(self) -> str | None:
        if math.isnan(self.x_distance):
            return None
        return f"{self.x_distance:.2g} apart, {self.x_allowed:.2g} allowed (relative)"

    def __str__(self) -> str:
        verdict = "agrees with" if self.agrees else "DIFFERS from"
        points = [] if self._points is None else [f"  points      {self._points}"]
        return "\n".join([
            f"The solution {verdict} the CVXPY reference ({self.reference_solver}).",
            f"  objective   {self.objective:.10g}  ({self.status})",
            f"  reference   {self.reference_objective:.10g}  ({self.reference_status})",
            f"  difference  {self.difference:.2g} relative",
            *points,
            f"  outside U   {self.violation:.2g} relative",
        ])  # fmt: skip

    def _repr_html_(self) -> str:
        values = (self.objective, self.status), (self.reference_objective, self.reference_status)
        ours, other = (f"{x:.10g}  ({status})".replace("-", "−") for x, status in values)
        facts = {
            "objective": ours,
            f"by {self.reference_solver}": other,
            "digits in common": digits(self.difference),
            "points": self._points,
            "outside of the set": f"{self.violation:.2g}, relative",
        }
        return sheet(f"Verification: {'agrees' if self.agrees else 'DIFFERS'}", facts)


@dataclass(frozen=True)
class CvxpyResult:
    """The result of a CVXPY problem.

    Attributes
    ----------
    value, status : of the last attempt that did not fail
    solver : name
    point : of the variable that was asked for; None for none
    """

    value: float
    status: str
    solver: str
    point: Vec | None = None

    @property
    def empty(self) -> bool:
        """True if the problem has no feasible point."""
        return self.status in ("infeasible", "infeasible_inaccurate")


def solved(
    problem: cp.Problem, options: dict[str, Any], variable: cp.Variable | None = None
) -> CvxpyResult:
    """Solve a problem, by Clarabel to tight tolerances where they can be reached, then to its own.

    Parameters
    ----------
    options : of `cvxpy.Problem.solve`, `solver` among them (Clarabel by default)
    variable : a variable of the problem whose value is kept

    Raises
    ------
    SolverError
        All attempts failed.
    """
    solver = str(options.get("solver", "CLARABEL"))
    own = {name: option for name, option in options.items() if name != "solver"}
    tight = [accuracy("CLARABEL", _TIGHT)] if solver.upper() == "CLARABEL" else []
    failed, found = "", None
    for tolerances in (*tight, {}):
        failure = attempt(problem, solver.upper(), **{**tolerances, **own})
        if failure or problem.value is None or problem.status == "user_limit":
            failed = failure or f"it ended with the status {problem.status!r}"
            continue
        point = None if variable is None else variable.value
        found = CvxpyResult(float(problem.value), str(problem.status), solver, point)  # type: ignore[arg-type]
        if not found.status.endswith("inaccurate"):
            break
    if found is None:
        raise SolverError(
            f"verify: the reference solver {solver} failed ({failed}); "
            "try verify(solver='SCS'), or scale the features"
        )
    return found


def compared(
    solution: Solution,
    reference: CvxpyResult,
    tol: float,
    *,
    objective: float | None = None,
    size: float = 1e-12,
    unit: float = 0.0,
    apart: float = math.nan,
    least: float = 0.0,
) -> Verification:
    """The report on two objectives. They agree within `max(1e-6, tol)` of the larger one; no weight is below
    `least`, and points whose distance decides are no further apart than both gaps allow. A reference
    without a feasible point agrees with no solution.

    Parameters
    ----------
    objective : in place of that of the solution
    size : the unit of the difference where both are smaller
    unit : what the accuracy of the reference solver is absolute in: it tells no smaller differences than
        1e-9 of it, 5e-5 where it says itself that it is inaccurate
    apart : the distance of the two points, relative; both gaps allow `sqrt(2 (gap + gap_ref))`
    """
    objective = solution.objective if objective is None else objective
    allowed, violation = max(_AGREED, tol), solution.certificate.violation
    near = math.nan
    if reference.empty:
        agrees, difference = False, math.inf
    else:
        error = _REDUCED if reference.status.endswith("inaccurate") else 10.0 * _TIGHT
        told = max(size, unit * (error / _AGREED))
        larger = max(abs(objective), abs(reference.value), told)
        difference = abs(objective - reference.value) / larger
        agrees = difference <= allowed and violation <= allowed
        if larger <= 1e3 * error * unit:
            apart = math.nan  # the error of the reference point decides
        if not math.isnan(apart):
            gaps = max(solution.certificate.relative_gap, 0.0) + allowed
            near = math.sqrt(2.0 * gaps)
            agrees = agrees and apart <= near
        if solution.weights is not None:
            agrees = agrees and bool(np.all(solution.weights >= least - 1e-9))
    return Verification(
        bool(agrees), objective, reference.value, difference, apart, near, violation,
        solution.status, reference.status, reference.solver,
    )  # fmt: skip


def verify(
    model: RobustMargin, data: Data, solution: Solution, tol: float = 1e-6, **options: Any
) -> Verification:
    """Solve the CVXPY twin and compare.

    The objectives agree within `max(1e-6, tol)` relative, tol that of the solve. For p = 2 the norm is
    strongly convex, so the points must be within `sqrt(2 (gap + gap_ref)) ||x||` of each other too.

    Parameters
    ----------
    options : of `cvxpy.Problem.solve`, `solver` among them (Clarabel by default)

    Raises
    ------
    SolverError
        The reference solver failed.
    """
    reference = reference_problem(model, data)
    found = solved(reference.unit, options, reference.z)
    if found.point is None:
        return compared(solution, found, tol)
    x = reference.scale * found.point
    norm = data.space.norm(x, model.dual)
    size, apart = 1e-12 * data.scale, math.nan
    if solution.status == "zero_in_set":
        size = max(solution.size, data.scale)
    elif model.norm == 2.0:
        apart = data.space.norm(x - solution.x) / max(norm, 1e-300)
    point = replace(found, value=-norm)
    return compared(solution, point, tol, size=size, unit=reference.scale, apart=apart)


def verify_stationary(
    model: RobustMargin,
    data: Data,
    form: UnitNorm,
    solution: Solution,
    tol: float = 1e-6,
    **options: Any,
) -> Verification:
    """Solve the program linearised at w with CVXPY: it gains nothing where w is stationary, and its value
    is that of the declared problem at w. Global optimality it cannot confirm.

    Raises
    ------
    SolverError
        The reference solver failed.
    """
    reference = linearised(model, data, form, solution.answer)
    found = solved(reference.unit, options)
    size = max(1e-6 * solution.size, 1e-12 * data.scale)
    if solution.certificate.primal <= max(tol, 1e-9) * solution.size:
        size = solution.size  # 0 lies on the boundary of U, as far as the solve can tell
    value = reference.scale * found.value
    return compared(solution, replace(found, value=value), tol, size=size, unit=reference.scale)


def verify_objective(
    model: Objective,
    data: Data,
    solution: Solution,
    features: Any = None,
    tol: float = 1e-6,
    **options: Any,
) -> Verification:
    """Solve the CVXPY twin and compare: for a convex objective its optimum, otherwise the optimum of the
    majorant at the solution, which a critical point attains. Where there is a dual problem too, it is
    held against the one that is further away; one that its solver fails on is left out.

    Parameters
    ----------
    features : (m, r) any root of the Gram matrix, for a solution with a kernel
    options : of `cvxpy.Problem.solve`, `solver` among them (Clarabel by default)

    Raises
    ------
    SolverError
        The reference solver failed.
    """
    b = solution.b or 0.0
    X, w = data.X, solution.w
    if features is not None:
        X, w = features, features.T @ data.weighing.gather(solution.coefficients)
    weighed = data.y, data.weights, data.groups
    objective = model.value(data.y * (X @ w + b), w, *weighed)
    problems = [majorant(model, data, w, b, features), dual_problem(model, data, features)]
    found, failure = [], SolverError("verify: no reference")
    for problem in problems:
        try:
            found += [] if problem is None else [solved(problem, options)]
        except SolverError as error:
            failure = error
    if not found:
        raise failure
    worst = max(found, key=lambda end: abs(end.value - objective))
    origin = model.value(np.zeros(data.m), np.zeros(w.size), *weighed)
    least = min((loss.lowest() for loss in model.dc()[0].losses), default=0.0)
    return compared(solution, worst, tol, objective=objective, unit=origin, least=least)
