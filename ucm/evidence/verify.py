"""Compare an answer with the CVXPY problem of its declaration."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ucm.data.bound import Data
from ucm.errors import SolverError
from ucm.evidence.reference import linearised, twin
from ucm.forms.display import digits, sheet
from ucm.forms.solution import Solution
from ucm.forms.sphere import UnitNorm
from ucm.language.robust import RobustMargin
from ucm.solvers.programs import accuracy, attempt

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["Solved", "Verification", "compared", "solved", "verify", "verify_stationary"]

_AGREED = 1e-6  # relative difference of two objectives that are the same
_TIGHT = 1e-10  # accuracy of Clarabel, first; not every problem can reach it
_REDUCED = 5e-5  # and what it calls inaccurate


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

    def __str__(self) -> str:
        verdict = "agrees with" if self.agrees else "DIFFERS from"
        lines = [
            f"The solution {verdict} the CVXPY reference ({self.reference_solver}).",
            f"  objective   {self.objective:.10g}  ({self.status})",
            f"  reference   {self.reference_objective:.10g}  ({self.reference_status})",
            f"  difference  {self.difference:.2g} relative",
        ]
        if not math.isnan(self.x_distance):
            lines.append(
                f"  points      {self.x_distance:.2g} apart, {self.x_allowed:.2g} allowed (relative)"
            )
        lines.append(f"  outside U   {self.violation:.2g} relative")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        near = not math.isnan(self.x_distance)
        facts = {
            "objective": f"{self.objective:.10g}  ({self.status})".replace("-", "−"),
            f"by {self.reference_solver}": f"{self.reference_objective:.10g}  "
            f"({self.reference_status})".replace("-", "−"),
            "digits in common": digits(self.difference),
            "points apart": f"{self.x_distance:.2g}, {self.x_allowed:.2g} allowed"
            if near
            else None,
            "outside of the set": f"{self.violation:.2g}, relative",
        }
        return sheet(f"Verification: {'agrees' if self.agrees else 'DIFFERS'}", facts)


@dataclass(frozen=True)
class Solved:
    """The result of a CVXPY problem.

    Attributes
    ----------
    value, status : of the last attempt that did not fail
    solver : name
    """

    value: float
    status: str
    solver: str

    @property
    def empty(self) -> bool:
        """Whether the problem has no feasible point."""
        return self.status in ("infeasible", "infeasible_inaccurate")


def solved(
    problem: cp.Problem,
    options: dict[str, Any],
    keep: cp.Variable | None = None,
    second: cp.Problem | None = None,
) -> Solved:
    """Solve a problem, by Clarabel to tight tolerances where they can be reached, then to its own.

    Parameters
    ----------
    options : of `cvxpy.Problem.solve`, `solver` among them (Clarabel by default)
    keep : has the point of the attempt that counts
    second : another problem with that point, a last chance for Clarabel

    Raises
    ------
    SolverError
        All attempts failed.
    """
    solver = str(options.get("solver", "CLARABEL"))
    own = {name: option for name, option in options.items() if name != "solver"}
    attempts: list[tuple[cp.Problem, dict[str, float]]] = [(problem, {})]
    if solver.upper() == "CLARABEL":
        tight = accuracy("CLARABEL", _TIGHT)
        attempts = [(problem, tight), (problem, {})]
        attempts += [(second, tight)] if second is not None else []
    failed, found, point = "", None, None
    for tried, tolerances in attempts:
        failure = attempt(tried, solver.upper(), **{**tolerances, **own})
        if failure:
            failed = failure
            continue
        if tried.value is None or tried.status == "user_limit":
            failed = f"it ended with the status {tried.status!r}"
            continue
        found = Solved(float(tried.value), str(tried.status), solver)
        point = None if keep is None else keep.value
        if not found.status.endswith("inaccurate"):
            break
    if found is None:
        raise SolverError(
            f"verify: the reference solver {solver} failed ({failed}); "
            "try verify(solver='SCS'), or scale the features"
        )
    if keep is not None:
        keep.value = point
    return found


def compared(
    solution: Solution,
    reference: Solved,
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
    import cvxpy as cp

    euclidean, second = model.norm == 2.0, None
    reference = twin(model, data)
    if euclidean:
        # tolerances are absolute: without the factor, of a distance 0.1 an error of 4e-6 was left
        square = cp.Minimize(cp.sum_squares(300.0 * reference.z))
        second = cp.Problem(square, reference.unit.constraints)
    found = solved(reference.unit, options, reference.z, second)
    if reference.z.value is None:
        return compared(solution, found, tol)
    x = reference.scale * reference.z.value
    norm = data.space.norm(x, model.dual)
    size, apart = 1e-12 * data.scale, math.nan
    if solution.status == "zero_in_set":
        size = max(solution.size, data.scale)
    elif euclidean:
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
