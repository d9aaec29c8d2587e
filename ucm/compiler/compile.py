"""`compile` and `solve`: a declaration and data to a plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ucm.compiler.hinge import HingePlan, hinge_terms
from ucm.compiler.kernelised import check_kernel, gram_of, in_rows
from ucm.compiler.plan import Plan
from ucm.compiler.regularised import ObjectivePlan
from ucm.compiler.robust import RobustPlan
from ucm.data.bound import Data, bind
from ucm.data.gram import Gram
from ucm.data.kernels import KERNEL_OPTIONS
from ucm.forms.solution import Solution
from ucm.forms.solver import Solver
from ucm.language.contracts import UncertaintySet
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin, as_model

__all__ = ["compile", "plan_of", "solve"]


def compile(
    model: UncertaintySet | RobustMargin | Objective,
    X: Any,
    y: Any,
    *,
    kernel: str | Callable[..., Any] | None = None,
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
    kernel : None, "linear", "poly", "rbf", "sigmoid", "precomputed" (X holds k(x_i, x_j)) or a
        callable of two tables of samples
    solver : "auto", a name, or an instance such as `ucm.solvers.APG(stop="paper")`
    class_weight : factors of the losses, or of the caps, of the samples of class +1 and of class -1
    kernel_params : gamma, degree, coef0 as in `sklearn.svm.SVC`, and cache_size: megabytes for the
        rows of the Gram matrix, above which it is never formed whole (see `ucm.data.kernels.kernel_of`)

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
    data = bind(X, y, class_weight)
    gram = gram_of(kernel, data, kernel_params)
    return plan_of(declared, data, gram, None, solver)


def plan_of(
    declared: RobustMargin | Objective,
    data: Data,
    gram: Gram | None,
    features: Data | None,
    solver: str | Solver,
) -> Plan:
    """The plan of a model for bound data; `features` are these in the feature space of the kernel,
    where somebody has them already."""
    terms = hinge_terms(declared, solver)
    if terms is not None and isinstance(declared, Objective):
        return HingePlan(declared, terms, data, gram, solver)
    if gram is not None:
        check_kernel(declared)
    if isinstance(declared, Objective):
        return ObjectivePlan(declared, data, solver)
    if gram is None:
        return RobustPlan(declared, data, solver)
    space = in_rows(declared, data, gram, solver) or features or data.in_feature_space(gram)
    return RobustPlan(declared, space, solver)


def solve(
    model: UncertaintySet | RobustMargin | Objective,
    X: Any,
    y: Any,
    *,
    kernel: str | Callable[..., Any] | None = None,
    solver: str | Solver = "auto",
    **options: Any,
) -> Solution:
    """Compile and solve in one call; `options` are those of `Plan.solve`, and those of the kernel.

    Examples
    --------
    >>> import ucm
    >>> sol = ucm.solve(ucm.models.mm_fda(0.1), [[0.0], [1.0], [3.0], [4.0]], [-1, -1, 1, 1])
    >>> round(sol.objective, 4)
    -2.9293
    """
    of_kernel = {name: options.pop(name) for name in KERNEL_OPTIONS if name in options}
    return compile(model, X, y, kernel=kernel, solver=solver, **of_kernel).solve(**options)
