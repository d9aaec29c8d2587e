"""The worst case of a set as a convex expression of CVXPY."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ucm.data.bound import Data, bind
from ucm.data.weighing import ClassWeight
from ucm.errors import DataError, EmptySetError, brief
from ucm.evidence.relative import resolved
from ucm.evidence.support import Heights
from ucm.language import cvx as cp
from ucm.language.contracts import UncertaintySet
from ucm.language.parameter import Numbers
from ucm.language.robust import RobustMargin, as_model

__all__ = ["worst_case"]


def worst_case(
    U: UncertaintySet | RobustMargin,
    X: Any,
    y: Any,
    w: Any,
    *,
    class_weight: ClassWeight = None,
    sample_weight: Any = None,
    subgroup: Any = None,
    pos_label: Any = None,
) -> cp.Expression:
    """Return `max over x in U of -w'x` as a convex CVXPY expression for your own problems.

    Its minimum over `||w||_p <= 1` is the objective of the compiled model, where 0 is not in U. Beside it may
    stand budgets, fairness constraints, the worst cases of other sets.

    Parameters
    ----------
    U : uncertainty set or RobustMargin
        Its sizes are numbers: change a `Param` with `with_params` and build the expression again.
    X, y : as in `ucm.compile`
        Samples and labels.
    w : CVXPY expression or array, (n,)
        Affine in the variables.
    class_weight, sample_weight, subgroup, pos_label : optional
        As in `ucm.compile`.

    Returns
    -------
    cvxpy.Expression
        Scalar, convex: it may be minimised, and bounded from above.

    Raises
    ------
    DataError
        X or y cannot be used, or w is no affine expression with one entry for each feature.
    CompositionError
        No set, or one of another dimension than the samples.
    EmptySetError
        U has no point.

    Notes
    -----
    The support function of U at -w, dualised by `cvxpy.suppfunc` from the constraints of the CVXPY form of U.
    A p-norm with p other than 1, 2 and inf is written in second-order cones, p as a fraction with a
    denominator up to 1024.

    Examples
    --------
    >>> import cvxpy as cp
    >>> import ucm
    >>> X, y = ucm.datasets.load("wine")
    >>> U = ucm.models.nu_svm(0.3)
    >>> w = cp.Variable(X.shape[1])
    >>> problem = cp.Problem(cp.Minimize(ucm.worst_case(U, X, y, w)), [cp.norm(w) <= 1])
    >>> value = problem.solve(solver="CLARABEL")
    >>> abs(value - ucm.solve(U, X, y).objective) <= 1e-6 * abs(value)
    True
    """
    data = bind(X, y, class_weight, sample_weight, subgroup, pos_label)
    model = resolved(as_model(U, "worst_case"), data)
    n = model.set.dimension(data.n)
    why = model.set.infeasibility(data)
    if why is not None:
        raise EmptySetError(why)
    size = data.n if n is None else n
    try:
        given = w if isinstance(w, cp.Expression) else cp.Constant(w)
    except ValueError:
        given = None
    if given is None or given.shape != (size,) or not given.is_affine():
        shape = f" of shape {given.shape}" if given is not None else ""
        raise DataError(
            f"worst_case: w: expected an affine CVXPY expression of shape ({size},), got {brief(w)}{shape}; "
            f"give cvxpy.Variable({size})"
        )
    if model.set.lower(data).couplings:
        Heights(model.set, data)(np.ones(size))  # refuses operands that do not meet
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CVXPY on second-order cones in place of powers
        return _height(model.set, data, -given)


def _height(U: UncertaintySet, data: Data, d: Any) -> Any:
    """The support function at an affine expression."""
    x, constraints = U.cvxpy(data, Numbers())
    z = cp.Variable(x.shape[0])
    own = [c for given in (*constraints, z == x / data.scale) for c in _in_cones(given)]
    height, heights = cp.suppfunc(z, own)(data.scale * d), Heights(U, data)

    def proven() -> float | None:
        """The proven value; CVXPY's own rounds d to nine digits, and fails where d has no value yet."""
        return None if d.value is None else heights(np.asarray(d.value)).value

    height._value_impl = proven
    height.get_data = lambda: [height._parent]  # else CVXPY takes two of them at one w for the same
    return height


def _in_cones(c: Any) -> list[Any]:
    """A constraint without power cones, which `suppfunc` does not take."""
    if type(c).__name__ != "PowCone3D":
        return [_plain(c)]
    pairs = zip(c.x, c.y, c.z, np.asarray(c.alpha.value).ravel(), strict=True)
    return [cp.abs(z) <= cp.geo_mean(cp.hstack([x, y]), [a, 1.0 - a]) for x, y, z, a in pairs]


def _plain(e: Any) -> Any:
    if not e.args:
        return e
    args = [_plain(a) for a in e.args]
    if type(e).__name__ == "Pnorm":
        return cp.pnorm(args[0], e.p)
    if type(e).__name__ == "Power":
        return cp.power(args[0], e.p.value)
    return e.copy(args)
