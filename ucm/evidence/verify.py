"""Compare an answer with the CVXPY twin of its declaration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ucm.data.bound import Data
from ucm.errors import SolverError
from ucm.evidence.reference import Twin, twin
from ucm.forms.solution import Solution
from ucm.language.robust import RobustMargin
from ucm.solvers.programs import accuracy, attempt

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["Verification", "compared", "solved", "tight", "verify"]


@dataclass(frozen=True)
class Verification:
    """What the comparison found; printed, it is a report.

    Attributes
    ----------
    agrees : whether both answers are the same within the tolerance
    objective, reference_objective : of the solution, and of the twin
    difference : of the objectives, relative to the reference (or to the size of U, near 0)
    x_distance : between the two points, relative to the norm; NaN where it decides nothing
    x_allowed : the distance that both gaps allow
    violation : how far the solution is outside of U, relative, from the definition
    status, reference_status : of the two solves
    reference_solver : name
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


def solved(
    attempts: Sequence[tuple[cp.Problem, dict[str, float]]],
    solver: str,
    options: dict[str, Any],
    keep: cp.Variable | None = None,
) -> tuple[float, str]:
    """Solve problems with tolerances in turn, until one ends with an accurate answer.

    Returns
    -------
    The value and the status of the last that did not fail; `keep` has the point of that one.

    Raises
    ------
    SolverError
        All failed.
    """
    failure, found = "", None
    for problem, tolerances in attempts:
        failure = attempt(problem, solver.upper(), **{**tolerances, **options})
        if failure:
            continue
        point = None if keep is None else keep.value
        found = float(problem.value), str(problem.status), point
        if not found[1].endswith("inaccurate"):
            break
    if found is None:
        raise SolverError(
            f"verify: the reference solver {solver} failed ({failure}); "
            "try verify(solver='SCS'), or scale the features"
        )
    if keep is not None:
        keep.value = found[2]
    return found[:2]


def tight(solver: str, tolerance: float = 1e-10) -> list[dict[str, float]]:
    """The tolerances to try: of Clarabel first some that not every problem can reach."""
    own: list[dict[str, float]] = [{}]
    if solver.upper() != "CLARABEL":
        return own
    return [accuracy("CLARABEL", tolerance), *own]


def compared(
    objective: float, reference: tuple[float, str], solution: Solution, solver: str, tol: float
) -> Verification:
    """The report on two objectives: they agree within `max(1e-6, tol)` relative."""
    value, status = reference
    difference = abs(objective - value) / max(abs(value), 1e-12)
    allowed = max(1e-6, tol)
    agrees = difference <= allowed and solution.certificate.violation <= allowed
    return Verification(
        bool(agrees), objective, value, difference, math.nan, math.nan,
        solution.certificate.violation, solution.status, status, solver,
    )  # fmt: skip


def _solve(reference: Twin, euclidean: bool, solver: str, options: dict[str, Any]) -> str:
    """Solve the twin, its point in `reference.z`; the status. With a Euclidean norm Clarabel has its
    square as a second chance."""
    import cvxpy as cp

    attempts = [(reference.unit, tolerances) for tolerances in tight(solver)]
    if len(attempts) == 2 and euclidean:
        # tolerances are absolute: without the factor, of a distance 0.1 an error of 4e-6 was left
        square = cp.Minimize(cp.sum_squares(300.0 * reference.z))
        attempts.append((cp.Problem(square, reference.unit.constraints), attempts[0][1]))
    return solved(attempts, solver, options, reference.z)[1]


def verify(
    model: RobustMargin, data: Data, solution: Solution, tol: float = 1e-6, **options: Any
) -> Verification:
    """Solve the CVXPY twin and compare.

    The objectives agree within `max(1e-6, tol)` relative. For p = 2 the norm is strongly convex, so the
    points must be within `sqrt(2 (gap + gap_ref)) ||x||` of each other too.

    Parameters
    ----------
    options : of `cvxpy.Problem.solve`, `solver` among them (Clarabel by default)

    Raises
    ------
    SolverError
        The reference solver failed.
    """
    reference = twin(model, data)
    solver = str(options.pop("solver", "CLARABEL"))
    status = _solve(reference, model.norm == 2.0, solver, options)
    allowed = max(1e-6, tol)
    empty = status in ("infeasible", "infeasible_inaccurate")
    x = reference.x
    if empty or x is None:
        value, difference = -math.inf, 0.0 if solution.status == "infeasible" else math.inf
        agrees = empty and solution.status == "infeasible"
        return Verification(
            agrees, solution.objective, value, difference, math.nan, math.nan,
            solution.certificate.violation, solution.status, status, solver,
        )  # fmt: skip
    value = -data.space.norm(x, model.dual)
    size = max(abs(value), 1e-12 * data.scale)
    if solution.status == "zero_in_set":
        size = max(size, solution.size, data.scale)
    difference = abs(solution.objective - value) / size
    agrees = difference <= allowed and solution.certificate.violation <= allowed
    x_distance = x_allowed = math.nan
    if model.norm == 2.0 and solution.status != "zero_in_set" and solution.status != "infeasible":
        norm = data.space.norm(x)
        x_distance = data.space.norm(x - solution.x) / max(norm, 1e-300)
        x_allowed = math.sqrt(2.0 * (max(solution.certificate.relative_gap, 0.0) + allowed))
        agrees = agrees and x_distance <= x_allowed
    if solution.weights is not None:
        agrees = agrees and bool(np.all(solution.weights >= -1e-9))
    return Verification(
        bool(agrees), solution.objective, value, difference, x_distance, x_allowed,
        solution.certificate.violation, solution.status, status, solver,
    )  # fmt: skip
