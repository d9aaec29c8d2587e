"""Compare a stationary point of the non-convex side with a convex program of its declaration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ucm.data.bound import Data
from ucm.evidence.stationary import normal_near
from ucm.evidence.verify import Verification, compared, solved
from ucm.forms.answer import Answer
from ucm.forms.solution import Solution
from ucm.forms.sphere import UnitNorm
from ucm.language.parameter import Parameters
from ucm.language.robust import RobustMargin

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["Linearised", "linearised", "verify_stationary"]


@dataclass(frozen=True)
class Linearised:
    """`max {s : -s n in U}`, n the normal of the unit ball at w: its value is f(w) when w is stationary.

    Attributes
    ----------
    problem : its value is that of the declared problem, linearised at w
    unit : the same in units of `scale`
    scale : the size of the features
    """

    problem: cp.Problem
    unit: cp.Problem
    scale: float


def linearised(
    model: RobustMargin, data: Data, form: UnitNorm, answer: Answer, scaled: bool = True
) -> Linearised:
    """The program from the declaration, at the w and the point x that a solve ended with.

    At a kink of the norm n is the subgradient nearest to x. Where U does not span the space both sides
    are taken in its span.
    """
    import cvxpy as cp

    v = form.lower(np.asarray(answer.w))
    x = form.lower(model.set.rebuild(data, iter(answer.q))[0])
    f = -float(v @ x)
    n = normal_near(form, v, -x / f if f > 0.0 else np.zeros_like(v))
    scope, scale = Parameters(scaled), data.scale if scaled else 1.0
    expression, constraints = model.set.cvxpy(data, scope)
    inside = expression if form.basis is None else form.basis.T @ expression
    length = float(np.linalg.norm(n))
    s = cp.Variable()
    constraints = [inside / scale + s * (n / length) == 0, *constraints]
    factor = scale / length
    return Linearised(
        cp.Problem(cp.Maximize(factor * s + scope.named()), constraints),
        cp.Problem(cp.Maximize(s), constraints),
        factor,
    )


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
