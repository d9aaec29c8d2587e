"""The CVXPY twins of `loss + penalty`, and the comparison with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ucm.data.bound import Data
from ucm.data.linear import Vec
from ucm.errors import CompositionError, SolverError
from ucm.evidence.objective import InFeatures, tangent_plane, weights_in
from ucm.evidence.verify import Verification, compared, solved
from ucm.forms.solution import Solution
from ucm.language.objective import Objective
from ucm.language.parameter import Parameters
from ucm.language.penalties.penalty_sum import CombinedPenalty
from ucm.language.terms import ConvexLoss, ProximalPenalty, loss_cvxpy

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["dual_problem", "majorant", "verify_objective"]


def majorant(
    model: Objective,
    data: Data,
    w: Vec | None,
    b: float,
    features: Any = None,
    scaled: bool = True,
    others: tuple[Vec, float, float] | None = None,
) -> cp.Problem:
    """`min G(z) - <gamma, z> + <gamma, z_k> - H(z_k)`, gamma in dH(z_k): the objective itself when H = 0,
    else the convex problem that DCA solves at z_k = (w, b), above the objective and equal to it there.

    From the declaration; vectorised, DPP, scaled by max |X| or not, with a `cvxpy.Parameter` for every
    hyperparameter of G, named like it, and `tilt_margin` and `tilt_normal` for gamma.

    Parameters
    ----------
    w : None for 0; the twin of a convex objective is the same everywhere
    features : (m, r) in place of the samples: with a kernel any root of the Gram matrix
    scaled : whether the variable is w times max |X|
    others : (v, s, h) for samples that are not written out, bounded from below by `h - <v, w> - s b`
    """
    import cvxpy as cp

    G, H = model.dc()
    X = data.X if features is None else features
    w = np.zeros(X.shape[1]) if w is None else w
    scale = data.scale if features is None else float(np.abs(X).max(initial=0.0)) or 1.0
    omega: Any = cp.Variable(X.shape[1], name=f"{scale:.3g} w")
    inner, Z = omega / scale, X / scale
    if not scaled:
        scale, inner, Z = 1.0, cp.Variable(X.shape[1], name="w"), X
        omega = inner
    bias, t = cp.Variable(name="b"), cp.Variable(data.m, name="t")
    scope = Parameters()
    total: Any = 0.0
    for loss in G.losses:
        total += loss_cvxpy(loss, t, weights_in(loss, data), scope)
    for penalty in G.penalties:
        if isinstance(penalty, ProximalPenalty):
            total += penalty.cvxpy(inner, 1.0, scope)
    equation = t == cp.multiply(data.y, Z @ omega + bias)
    normal = InFeatures(X, w)
    plane = tangent_plane(H, data, normal, data.y * (normal.scores + b))
    if H.losses:
        v = cp.Parameter(data.m, name="tilt_margin", value=plane.margin)
        total = total - v @ t
    if H.penalties:
        u = cp.Parameter(w.size, name="tilt_normal", value=plane.normal / scale)
        total = total - u @ omega
    if others is not None:
        total = total + others[2] - others[0] @ inner - others[1] * bias
    return cp.Problem(cp.Minimize(total - plane.height + scope.named()), [equation])


def dual_problem(model: Objective, data: Data, features: Any = None) -> cp.Problem | None:
    """The dual of one convex loss and `lam ||w||_2^2`, with the value of the objective; of any other None.

    `max sum_i o s_i - c_i l*(s_i / c_i) - ||sum_i s_i y_i x_i||^2 / (4 lam)` over `y's = 0`, c_i the weights
    of the samples: for the p-hinge problem (17) of Sun (2024).
    """
    import cvxpy as cp

    loss, (added, subtracted) = model.loss, model.penalty.split()
    lam = CombinedPenalty(added).square
    if not isinstance(loss, ConvexLoss) or loss.counted is not None or lam is None or subtracted:
        return None
    X = data.X if features is None else features
    unit = float(loss.gradient(np.ones(1))[0])  # a multiplier of usual size: t is near 1
    t, c = cp.Variable(data.m), data.factors
    try:
        conjugates, constraints = loss.conjugate_cvxpy(cp.multiply(unit / c, t))
    except CompositionError:  # a loss need not have one
        return None
    total = cp.Variable()
    constraints = [*constraints, c @ conjugates / c.sum() <= total]
    square = cp.sum_squares(X.T @ cp.multiply(data.y, t)) * (unit**2 / (4.0 * lam))
    height = loss.offset * unit * cp.sum(t) - c.sum() * total - square
    return cp.Problem(cp.Maximize(height), [*constraints, data.y @ t == 0])


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
        X, w = features, features.T @ data.weighing.gathered(solution.coefficients)
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
