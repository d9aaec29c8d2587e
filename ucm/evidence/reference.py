"""The CVXPY twin of a declaration."""

from __future__ import annotations

from dataclasses import dataclass

from ucm.data.bound import Data
from ucm.data.linear import Vec
from ucm.language import cvx as cp
from ucm.language.parameter import Parameters
from ucm.language.robust import RobustMargin

__all__ = ["Twin", "twin"]


@dataclass(frozen=True)
class Twin:
    """The reference problem `maximise -||x||_q over x in U`, its value that of the declared problem.

    Attributes
    ----------
    problem : with a `cvxpy.Parameter` for every hyperparameter, named like it
    unit : the same problem in units of `scale`, for solvers with absolute tolerances
    scale : features are divided by it inside; 1 in an unscaled one
    z : the point x in units of `scale`
    """

    problem: cp.Problem
    unit: cp.Problem
    scale: float
    z: cp.Variable

    @property
    def x(self) -> Vec | None:
        """The solved point, in units of the features."""
        return None if self.z.value is None else self.scale * self.z.value


def twin(model: RobustMargin, data: Data, scaled: bool = True) -> Twin:
    """Build the reference from the declaration; vectorised, DPP, scaled by the largest |X| or not."""
    scope, scale = Parameters(scaled), data.scale if scaled else 1.0
    expression, constraints = model.set.cvxpy(data, scope)
    z = cp.Variable(expression.shape[0], name=f"x / {scale:.3g}" if scaled else "x")
    constraints = [z == (expression / scale if scaled else expression), *constraints]
    q = model.dual
    norm = cp.norm(z, q) if q in (1.0, 2.0, float("inf")) else cp.pnorm(z, q, approx=False)
    return Twin(
        cp.Problem(cp.Maximize(-(scale * norm if scaled else norm) + scope.named()), constraints),
        cp.Problem(cp.Maximize(-norm), constraints),
        scale,
        z,
    )
