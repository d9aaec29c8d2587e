"""The CVXPY problems of a declaration: the nearest point of a set, the program linearised at a normal, the
majorant of an objective at a point, and its dual."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ucm.data.bound_data import Data
from ucm.data.linear_map import Vec
from ucm.errors import CompositionError
from ucm.evidence.objective import FeatureNormal, tangent_plane, weights_in
from ucm.evidence.sphere import normal_near
from ucm.forms.answer import Answer
from ucm.forms.sphere import UnitNorm
from ucm.language import cvx as cp
from ucm.language.objective import Objective
from ucm.language.parameter import Parameters
from ucm.language.penalties.penalty_sum import CombinedPenalty
from ucm.language.robust import RobustMargin
from ucm.language.terms import ConvexLoss, ProximalPenalty, loss_cvxpy

__all__ = ["Reference", "dual_problem", "linearised", "majorant", "reference_problem"]


@dataclass(frozen=True)
class Reference:
    """A problem in CVXPY, with a `cvxpy.Parameter` for every hyperparameter, named like it.

    Attributes
    ----------
    problem : its value is that of the declared problem
    unit : the same problem in units of `scale`, for solvers with absolute tolerances
    scale : the value of `problem` over that of `unit`
    z : the variable, in the units of `unit`
    """

    problem: cp.Problem
    unit: cp.Problem
    scale: float
    z: cp.Variable


def reference_problem(model: RobustMargin, data: Data, scaled: bool = True) -> Reference:
    """Build `maximise -||x||_q over x in U`; vectorised, DPP, scaled by the largest |X| or not."""
    scope, scale = Parameters(scaled), data.scale if scaled else 1.0
    expression, constraints = model.set.cvxpy(data, scope)
    z = cp.Variable(expression.shape[0], name=f"x / {scale:.3g}" if scaled else "x")
    constraints = [z == (expression / scale if scaled else expression), *constraints]
    q = model.dual
    norm = cp.norm(z, q) if q in (1.0, 2.0, float("inf")) else cp.pnorm(z, q, approx=False)
    height = -(scale * norm if scaled else norm) + scope.named()
    problem = cp.Problem(cp.Maximize(height), constraints)
    return Reference(problem, cp.Problem(cp.Maximize(-norm), constraints), scale, z)


def linearised(
    model: RobustMargin, data: Data, form: UnitNorm, answer: Answer, scaled: bool = True
) -> Reference:
    """Build `max {s : -s n in U}`, n the normal of the unit ball at the w that a solve ended with: its value
    is f(w) when w is stationary.

    At a kink of the norm n is the subgradient nearest to the point x of the answer. Where U does not span the
    space both sides are taken in its span.
    """
    v = form.lower(np.asarray(answer.w))
    x = form.lower(model.set.evaluate(data, iter(answer.q))[0])
    f = -float(v @ x)
    n = normal_near(form, v, -x / f if f > 0.0 else np.zeros_like(v))
    scope, scale = Parameters(scaled), data.scale if scaled else 1.0
    expression, constraints = model.set.cvxpy(data, scope)
    inside = expression if form.basis is None else form.basis.T @ expression
    length = float(np.linalg.norm(n))
    s = cp.Variable()
    constraints = [inside / scale + s * (n / length) == 0, *constraints]
    factor = scale / length
    problem = cp.Problem(cp.Maximize(factor * s + scope.named()), constraints)
    return Reference(problem, cp.Problem(cp.Maximize(s), constraints), factor, s)


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
    normal = FeatureNormal(X, w)
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
