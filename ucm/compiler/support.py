"""The support function of a declared set over samples, as a value and as a convex CVXPY expression."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ucm.data.bound_data import bind
from ucm.data.options import options_of
from ucm.data.weights import ClassWeight
from ucm.errors import DataError, EmptySetError, brief, unknown_option
from ucm.evidence.support import SupportFunction, SupportValue, vector_of
from ucm.language import cvx as cp
from ucm.language.contracts import UncertaintySet
from ucm.language.parameter import Scope
from ucm.language.robust import RobustMargin, as_model
from ucm.ranges.relative_sizes import resolved


def support(
    U: UncertaintySet | RobustMargin,
    X: object,
    y: ArrayLike | None,
    d: ArrayLike,
    *,
    class_weight: ClassWeight = None,
    sample_weight: object = None,
    subgroup: object = None,
    pos_label: object = None,
    **unknown: object,
) -> SupportValue:
    """Compute the support function `max <d, x>` over x in U, with a maximiser and an error bound.

    Parameters
    ----------
    U : uncertainty set or RobustMargin
        The declared set.
    X, y : as in `ucm.compile`
        Samples and labels.
    d : (n,) array
        A direction of the space of U.
    class_weight, sample_weight, subgroup, pos_label : optional
        As in `ucm.compile`.
    **unknown
        Refused, with the nearest option.

    Returns
    -------
    SupportValue
        `(value, point, error)`; the error is that of a conic program at intersections, else 0.

    Raises
    ------
    DataError
        X, y or d cannot be used.
    CompositionError
        No set, or one of another dimension than the samples.
    EmptySetError
        U has no point.

    Notes
    -----
    The support function of `A & B` is the least `sigma_A(d - s) + sigma_B(s)` over s: Rockafellar (1970),
    Convex analysis, Corollary 16.4.1. The multipliers of the program are such an s.

    Examples
    --------
    >>> import ucm
    >>> X, y = [[0.0, 0.0], [2.0, 1.0], [1.0, 3.0]], [-1, 1, 1]
    >>> value, point, error = ucm.support(ucm.Hull(ucm.pos) - ucm.neg.mean, X, y, [1.0, 1.0])
    >>> value, point, error
    (4.0, array([1., 3.]), 0.0)
    """
    if unknown:
        raise unknown_option("support", unknown, options_of(support))
    samples = X, y, class_weight, sample_weight, subgroup, pos_label
    heights, n = _bound("support", U, *samples)
    return heights(vector_of(d, n, "support: d"))


def _bound(caller: str, U: UncertaintySet | RobustMargin, *samples: object) -> tuple[SupportFunction, int]:
    """Return the support function of a set over samples, and the dimension of its space."""
    data = bind(*samples)
    model = resolved(as_model(U, caller), data)
    n = model.set.dimension(data.n)
    why = model.set.infeasibility_reason(data)
    if why is not None:
        raise EmptySetError(why)
    return SupportFunction(model.set, data), data.n if n is None else n


def worst_case(
    U: UncertaintySet | RobustMargin,
    X: object,
    y: ArrayLike | None,
    w: object,
    *,
    class_weight: ClassWeight = None,
    sample_weight: object = None,
    subgroup: object = None,
    pos_label: object = None,
) -> cp.Expression:
    """Return the worst-case loss `max over x in U of -w'x` as a convex CVXPY expression in w.

    Its minimum over `||w||_p <= 1` is the objective of the compiled model, if 0 is not in U. It combines with
    budgets, fairness constraints and the worst cases of other sets.

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
    samples = X, y, class_weight, sample_weight, subgroup, pos_label
    heights, size = _bound("worst_case", U, *samples)
    try:
        expression: cp.Expression | None = w if isinstance(w, cp.Expression) else cp.Constant(w)
    except ValueError:
        expression = None
    if expression is None or expression.shape != (size,) or not expression.is_affine():
        shape = f" of shape {expression.shape}" if expression is not None else ""
        raise DataError(
            f"worst_case: w: expected an affine CVXPY expression of shape ({size},), got {brief(w)}{shape}; "
            f"give cvxpy.Variable({size})"
        )
    if heights.U.lower(heights.data).couplings:
        heights(np.ones(size))  # refuses operands that do not meet
    return _height(heights, -expression)


def _height(heights: SupportFunction, d: cp.Expression) -> cp.Expression:
    """Return the support function at an affine CVXPY expression, as a convex CVXPY expression."""
    from cvxpy.reductions.dcp2cone.dcp2cone import Dcp2Cone

    U, data = heights.U, heights.data
    x, constraints = U.cvxpy(data, Scope())
    z = cp.Variable(x.shape[0])
    cones = [c for constraint in (*constraints, z == x / data.scale) for c in _in_cones(constraint)]
    # as conic constraints, because CVXPY warns of second-order cones that it puts in place of powers
    conic, _ = Dcp2Cone().apply(cp.Problem(cp.Minimize(cp.sum(z)), cones))
    height = cp.suppfunc(z, conic.constraints)(data.scale * d)

    def proven() -> float | None:
        """Return the proven upper bound of the support function at d, None if d has no value.

        CVXPY's own value rounds d to nine digits, and fails if d has no value.
        """
        return None if d.value is None else heights(np.asarray(d.value)).value

    height._value_impl = proven
    height.get_data = lambda: [height._parent]  # else CVXPY caches one value for two sets
    return height


def _in_cones(c: cp.Constraint) -> list[cp.Constraint]:
    """Rewrite a constraint as a list without power cones, which `cvxpy.suppfunc` does not accept."""
    if type(c).__name__ != "PowCone3D":
        return [_plain(c)]
    pairs = zip(c.x, c.y, c.z, np.asarray(c.alpha.value).ravel(), strict=True)
    return [cp.abs(z) <= cp.geo_mean(cp.hstack([x, y]), [a, 1.0 - a]) for x, y, z, a in pairs]


def _plain(e: Any) -> cp.Expression:
    if not e.args:
        return e
    args = [_plain(a) for a in e.args]
    if type(e).__name__ == "Pnorm":
        return cp.pnorm(args[0], e.p)
    if type(e).__name__ == "Power":
        return cp.power(args[0], e.p.value)
    return e.copy(args)
