"""The CVXPY twin of a declaration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ucm.data.bound import Data
from ucm.data.linear import Vec
from ucm.language.contracts import Scope, Size
from ucm.language.node import Param, Scalar, value
from ucm.language.robust import RobustMargin

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["ParameterScope", "Twin", "twin"]


class ParameterScope(Scope):
    """Hyperparameters as CVXPY parameters; a derived scalar as a `CallbackParam` of one of them."""

    def __init__(self) -> None:
        self.parameters: dict[str, cp.Parameter] = {}

    def scalar(self, size: Size) -> float | cp.Expression:
        import cvxpy as cp

        declared = size.declared
        if not isinstance(declared, Param):
            return size.number
        self.factor(declared)
        parameter = self.parameters[declared.name]
        return cp.CallbackParam(lambda: size.derived(float(parameter.value)), nonneg=True)

    def factor(self, scalar: Scalar) -> float | cp.Expression:
        import cvxpy as cp

        if not isinstance(scalar, Param):
            return scalar
        if scalar.name not in self.parameters:
            self.parameters[scalar.name] = cp.Parameter(name=scalar.name, value=value(scalar))
        return self.parameters[scalar.name]


@dataclass(frozen=True)
class Twin:
    """The reference problem `maximise -||x||_q over x in U`, its value that of the declared problem.

    Attributes
    ----------
    problem : with a `cvxpy.Parameter` for every hyperparameter, named like it
    unit : the same problem in units of `scale`, for solvers with absolute tolerances
    scale : features are divided by it inside
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


def twin(model: RobustMargin, data: Data) -> Twin:
    """Build the reference from the declaration; vectorised, DPP, scaled by the largest |X|."""
    import cvxpy as cp

    scope = ParameterScope()
    expression, constraints = model.set.cvxpy(data, scope)
    z = cp.Variable(expression.shape[0])
    constraints = [z == expression / data.scale, *constraints]
    q = model.dual
    norm = cp.norm(z, q) if q in (1.0, 2.0, float("inf")) else cp.pnorm(z, q, approx=False)
    # a CallbackParam hides the parameter behind it; this makes `problem.param_dict[name]` find it
    named = sum(0.0 * p for p in scope.parameters.values())
    return Twin(
        cp.Problem(cp.Maximize(-data.scale * norm + named), constraints),
        cp.Problem(cp.Maximize(-norm), constraints),
        data.scale,
        z,
    )
