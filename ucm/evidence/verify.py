"""Compare an answer with the CVXPY twin of its declaration."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ucm.data import Data
from ucm.errors import SolverError
from ucm.evidence.reference import Twin, twin
from ucm.language.objective import RobustMargin
from ucm.solution import Solution

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["Verification", "verify"]

_LARGE = 300.0  # absolute tolerances of the square: of a distance 0.1 it left an error of 4e-6
_TIGHT = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}


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


def _solve(reference: Twin, euclidean: bool, solver: str, options: dict[str, Any]) -> str:
    """Solve the twin, its point in `reference.z`; the status. Clarabel first with tolerances that not
    every problem can reach, then with the square of a Euclidean norm, then with its own tolerances."""
    import cvxpy as cp

    attempts: list[tuple[cp.Problem, dict[str, float]]] = [(reference.unit, {})]
    if solver.upper() == "CLARABEL":
        attempts.insert(0, (reference.unit, _TIGHT))
        if euclidean:
            square = cp.Minimize(cp.sum_squares(_LARGE * reference.z))
            attempts.insert(1, (cp.Problem(square, reference.unit.constraints), _TIGHT))
    failed, kept = "", None  # of those that end early, the best point
    for problem, tight in attempts:
        try:
            with warnings.catch_warnings():
                # CVXPY's remark on "optimal_inaccurate"; the report shows that status
                warnings.filterwarnings("ignore", "Solution may be inaccurate", UserWarning)
                problem.solve(solver=solver.upper(), **{**tight, **options})
        except (cp.error.SolverError, ArithmeticError) as error:
            failed = str(error).splitlines()[0]
            continue
        value: Any = reference.unit.objective.value
        if kept is None or value > kept[2]:
            kept = (str(problem.status), reference.z.value, value)
        if not problem.status.endswith("inaccurate"):
            break
    if kept is not None:
        reference.z.value = kept[1]
        return kept[0]
    raise SolverError(
        f"verify: the reference solver {solver} failed ({failed}); "
        "try verify(solver='SCS'), or scale the features"
    )


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
