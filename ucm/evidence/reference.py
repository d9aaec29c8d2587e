"""The CVXPY problems of a declared set: the nearest point, and the program linearised at a normal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ucm.data.bound import Data
from ucm.evidence.stationary import normal_near
from ucm.forms.answer import Answer
from ucm.forms.sphere import UnitNorm
from ucm.language import cvx as cp
from ucm.language.parameter import Parameters
from ucm.language.robust import RobustMargin

__all__ = ["Reference", "linearised", "twin"]


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


def twin(model: RobustMargin, data: Data, scaled: bool = True) -> Reference:
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
