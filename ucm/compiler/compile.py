"""`compile` and `solve`: a declaration and data to a plan."""

from __future__ import annotations

from typing import Any

from ucm.compiler.plan import Plan
from ucm.compiler.regularised import ObjectivePlan
from ucm.compiler.robust import RobustPlan
from ucm.contracts import Solver, UncertaintySet
from ucm.data import bind
from ucm.errors import ParameterError
from ucm.language.objective import RobustMargin, as_model
from ucm.language.regularised import Objective
from ucm.solution import Solution

__all__ = ["compile", "solve"]


def compile(
    model: UncertaintySet | RobustMargin | Objective,
    X: Any,
    y: Any,
    *,
    kernel: str | None = None,
    solver: str | Solver = "auto",
    class_weight: tuple[float, float] = (1.0, 1.0),
    **kernel_params: Any,
) -> Plan:
    """Bind a declaration to data and choose its solver.

    Parameters
    ----------
    model : uncertainty set, RobustMargin, or Objective (`loss + lam * penalty`)
    X : (m, n) array, data frame or sparse matrix
    y : (m,) labels -1 and +1
    kernel : None or "linear"
    solver : "auto", a name, or an instance such as `ucm.solvers.APG(stop="paper")`
    class_weight : factors of the caps of the samples of class +1 and of class -1

    Raises
    ------
    DataError
        X or y cannot be used: NaN, one class, lengths that differ, ...
    CompositionError
        The declaration does not fit the data (dimensions).
    EmptySetError
        The set has no point for these parameters; the message names the admissible range.
    ParameterError
        An unknown option.
    SolverError
        The named solver does not take this model.

    Examples
    --------
    >>> import ucm
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> plan = ucm.compile(ucm.models.nu_svm(0.3), X[50:], 2 * (y[50:] == 2) - 1)
    >>> plan.solve().status
    'optimal'
    """
    declared = model if isinstance(model, Objective) else as_model(model, "compile")
    if kernel not in (None, "linear"):
        raise ParameterError(
            f'kernel: expected None or "linear", got {kernel!r}; map the features first, '
            "for example with sklearn.kernel_approximation.Nystroem"
        )
    if kernel_params:
        raise ParameterError(
            f"compile: unknown option {', '.join(sorted(kernel_params))}; "
            "the options are kernel, solver and class_weight, and only a kernel takes others"
        )
    data = bind(X, y, class_weight)
    if isinstance(declared, Objective):
        return ObjectivePlan(declared, data, solver)
    return RobustPlan(declared, data, solver)


def solve(
    model: UncertaintySet | RobustMargin | Objective,
    X: Any,
    y: Any,
    *,
    kernel: str | None = None,
    solver: str | Solver = "auto",
    **options: Any,
) -> Solution:
    """Compile and solve in one call; `options` are those of `Plan.solve`.

    Examples
    --------
    >>> import ucm
    >>> sol = ucm.solve(ucm.models.mm_fda(0.1), [[0.0], [1.0], [3.0], [4.0]], [-1, -1, 1, 1])
    >>> round(sol.objective, 4)
    -2.9293
    """
    return compile(model, X, y, kernel=kernel, solver=solver).solve(**options)
