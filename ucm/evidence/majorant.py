"""The CVXPY twin of `loss + penalty`, and the comparison with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ucm.data.bound import Data
from ucm.data.linear import Vec
from ucm.evidence.verify import Verification, compared, solved, tight
from ucm.forms.solution import Solution
from ucm.language.objective import Objective
from ucm.language.scope import Coefficient, Parameters
from ucm.language.terms import (
    ConvexLoss,
    ProximalPenalty,
    SubtractedPenalty,
    loss_cvxpy,
)

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["Majorant", "majorant", "verify_objective"]


@dataclass(frozen=True)
class Majorant:
    """`min G(z) - <gamma, z> + <gamma, z_k> - H(z_k)`, gamma in dH(z_k): the objective itself when H = 0,
    else the convex problem that DCA solves at z_k, above the objective and equal to it at z_k.

    Attributes
    ----------
    problem : with a `cvxpy.Parameter` for every hyperparameter of G, named like it, and the
        parameters `tilt_margin` and `tilt_normal` for gamma
    w, b : the variables, w in units of `1 / scale`
    """

    problem: cp.Problem
    w: cp.Variable
    b: cp.Variable
    scale: float


def majorant(model: Objective, data: Data, w: Vec, b: float) -> Majorant:
    """Build the twin at z_k = (w, b), from the declaration; vectorised, DPP, scaled by max |X|."""
    import cvxpy as cp

    G, H = model.dc()
    scale = data.scale
    omega, bias, t = cp.Variable(data.n), cp.Variable(), cp.Variable(data.m)
    scope, one = Parameters(), Coefficient()
    total: Any = 0.0
    for loss in G.losses:
        total += loss_cvxpy(loss, t, data.y, data.class_weight, scope)
    for penalty in G.penalties:
        if isinstance(penalty, ProximalPenalty):
            total += penalty.cvxpy(omega / scale, one, scope)
    equation = t == cp.multiply(data.y, (data.X / scale) @ omega + bias)
    margin = data.y * (data.X @ w + b)
    slopes, normal = _subgradient(H.losses, H.penalties, margin, w)
    slopes = slopes * np.where(data.y > 0, *data.class_weight)
    constant = (
        float(slopes @ margin) + float(normal @ w) - H.value(margin, w, data.y, data.class_weight)
    )
    if H.losses:
        v = cp.Parameter(data.m, name="tilt_margin", value=slopes)
        total = total - v @ t
    if H.penalties:
        u = cp.Parameter(data.n, name="tilt_normal", value=normal / scale)
        total = total - u @ omega
    return Majorant(
        cp.Problem(cp.Minimize(total + constant + scope.named()), [equation]), omega, bias, scale
    )


def _subgradient(
    losses: tuple[ConvexLoss, ...],
    penalties: tuple[ProximalPenalty | SubtractedPenalty, ...],
    margin: Vec,
    w: Vec,
) -> tuple[Vec, Vec]:
    slopes, normal = np.zeros_like(margin), np.zeros_like(w)
    for loss in losses:
        slopes = slopes - loss.gradient(loss.offset - margin)
    for penalty in penalties:
        if isinstance(penalty, SubtractedPenalty):
            normal = normal + penalty.subgradient(w)
    return slopes, normal


def verify_objective(
    model: Objective, data: Data, solution: Solution, tol: float = 1e-6, **options: Any
) -> Verification:
    """Solve the CVXPY twin and compare: for a convex objective its optimum, otherwise the optimum of the
    majorant at the solution, which a critical point attains.

    Parameters
    ----------
    options : of `cvxpy.Problem.solve`, `solver` among them (Clarabel by default)

    Raises
    ------
    SolverError
        The reference solver failed.
    """
    b = solution.b or 0.0
    problem = majorant(model, data, solution.w, b).problem
    solver = str(options.pop("solver", "CLARABEL"))
    found = solved([(problem, tolerances) for tolerances in tight(solver)], solver, options)
    margin = data.y * (data.X @ solution.w + b)
    objective = model.value(margin, solution.w, data.y, data.class_weight)
    return compared(objective, found, solution, solver, tol)
