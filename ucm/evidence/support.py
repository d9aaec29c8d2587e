"""Support functions of declared sets: values with error bounds, and convex CVXPY expressions."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ucm.data.bound_data import Data, bind
from ucm.data.linear_map import Vec
from ucm.data.options import options_of
from ucm.data.weights import ClassWeight
from ucm.errors import DataError, EmptySetError, SolverError, brief, unknown_option
from ucm.evidence.relative_sizes import resolved
from ucm.forms.distance import MinNorm
from ucm.language import cvx as cp
from ucm.language.contracts import UncertaintySet
from ucm.language.parameter import Scope
from ucm.language.robust import RobustMargin, as_model
from ucm.language.sets.combination import Combination, is_number, times
from ucm.solvers.programs import Blocks, accuracy, attempt

_ACCURACY = 1e-10  # of Clarabel, first; then its own


class SupportValue(NamedTuple):
    """The value of a support function in one direction, with a maximiser and its error.

    Attributes
    ----------
    value : an upper bound of `max <d, x>` over the set; inf if the set is unbounded in the direction
    point : a point of the set; None if the value is inf
    error : `value - <d, point>`, so that the maximum lies in `[value - error, value]`
    """

    value: float
    point: Vec | None
    error: float


class SupportFunction:
    """The support function of a declared set over bound samples.

    The support of a sum is the sum of the supports. A set without a maximiser in closed form, such as an
    intersection, is solved by one conic program, built once. Its multipliers split the direction among the
    operands, which proves the bound.

    Attributes
    ----------
    summands : those of a sum of sets, as pairs of factor (number or matrix) and support function
    """

    def __init__(self, U: UncertaintySet, data: Data) -> None:
        self.U, self.data = U, data
        terms = U.terms() if isinstance(U, Combination) else ()
        self.summands = [(L, SupportFunction(V, data)) for V, L in terms]

    def __call__(self, d: Vec) -> SupportValue:
        """Return the support function `max <d, x>` at d, with a maximiser and its error."""
        height, x = self.U.support(self.data, d, {})
        if x is not None:
            return SupportValue(height, x if np.isfinite(height) else None, 0.0)
        return self._of_sum(d) if self.summands else self._solved(d)

    def _of_sum(self, d: Vec) -> SupportValue:
        values = [heights(times(L if is_number(L) else L.T, d)) for L, heights in self.summands]
        points = [times(L, v.point) for (L, _), v in zip(self.summands, values) if v.point is not None]
        height = sum(v.value for v in values)
        if len(points) < len(values):
            return SupportValue(height, None, 0.0)
        return SupportValue(height, np.sum(points, axis=0), sum(v.error for v in values))

    @functools.cached_property
    def _program(self) -> tuple[MinNorm, Blocks, cp.Parameter, cp.Problem]:
        """The conic program `max <g, x>` over the lowered set with its form, blocks and parameter g."""
        form = MinNorm.of(self.U.lower(self.data), 2.0, self.data.stored, self.data.space)
        blocks, g = Blocks(form), cp.Parameter(form.n)
        z = cp.multiply(1.0 / blocks.sizes, blocks.x)
        return form, blocks, g, cp.Problem(cp.Maximize(g @ z), blocks.constraints)

    def _solved(self, d: Vec) -> SupportValue:
        form, blocks, parameter, problem = self._program
        g = blocks.sizes * d
        unit = float(np.abs(g).max(initial=0.0)) or 1.0
        parameter.value = g / unit
        failure = ""
        for options in (accuracy("CLARABEL", _ACCURACY), {}):
            failure = attempt(problem, "CLARABEL", **options)
            if not failure and not str(problem.status).endswith("inaccurate"):
                break
        status = str(problem.status)
        if status.startswith("unbounded"):
            return SupportValue(np.inf, None, 0.0)
        if status.startswith("infeasible"):
            raise EmptySetError(
                f"{self.U!r}: expected a point of every operand, got an empty set; enlarge one of them"
            )
        if failure or blocks.q[0].value is None:
            raise SolverError(
                f"{self.U!r}: the conic program of its support function ended with "
                f"{failure or status}; scale the features"
            )
        x, _ = self.U.evaluate(self.data, iter(blocks.point()))
        bounds = [self.U.support(self.data, d, {})[0]]
        for sign in (1.0, -1.0):  # a wrong split is a bound too, if a bad one
            multipliers = blocks.multipliers(sign * unit)
            splits = {c.path: mu for c, mu in zip(form.couplings, multipliers, strict=True)}
            bounds.append(self.U.support(self.data, d, splits)[0])
        top = min(bounds)
        return SupportValue(top, x, max(top - float(d @ x), 0.0))


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


def _bound(caller: str, U: UncertaintySet | RobustMargin, *samples: Any) -> tuple[SupportFunction, int]:
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


def vector_of(v: object, size: int | None, name: str) -> Vec:
    """Return v as a float64 vector; `DataError` unless finite and of the given size, if there is one."""
    try:
        vector = np.asarray(v, dtype=np.float64)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError):
        vector = np.empty((0, 0))
    right = vector.ndim == 1 and size in (None, vector.size)
    if not right or not np.isfinite(vector).all() or np.ma.is_masked(v):
        count = "" if size is None else f"{size} "
        raise DataError(
            f"{name}: expected a vector of {count}finite numbers, got {brief(v)}; give one for each entry"
        )
    return vector
