"""The cone over a convex set C in CVXPY: the closure of `{(t x, t) : x in C, t > 0}`."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ucm.errors import CompositionError
from ucm.language import cvx as cp

_HOMOGENEOUS = {
    "AddExpression", "NegExpression", "index", "special_index", "Promote", "broadcast_to", "reshape",
    "transpose", "Sum", "Hstack", "Vstack", "norm1", "norm_inf", "Pnorm", "PnormApprox", "abs", "max",
    "maximum", "rel_entr", "kl_div", "quad_over_lin",
}  # fmt: skip
"""Atoms f with `t f(x / t) = f(x)` in all of their arguments at once."""


class _Inhomogeneous(Exception):
    """Raised for an expression with an atom that is not positively homogeneous."""


def _times(e: Any, t: cp.Expression) -> Any:
    """Return the perspective `t e(v / t)` of an expression e in the variables v, in closed form."""
    if not e.variables():
        return e if e.is_zero() else e * t
    if isinstance(e, cp.Variable):
        return e
    kind = type(e).__name__
    if kind in ("multiply", "MulExpression", "DivExpression"):
        return e.copy([_times(a, t) if a.variables() else a for a in e.args])
    if kind in _HOMOGENEOUS:
        return e.copy([_times(a, t) for a in e.args])
    raise _Inhomogeneous


def perspective(
    x: cp.Expression, constraints: list[cp.Constraint], t: cp.Expression
) -> tuple[cp.Expression, list[cp.Constraint]]:
    """Return an expression p and constraints of `p in t C`, C the values of x under `constraints`.

    If the atoms of C are affine or positively homogeneous, its constants are multiplied by t. Otherwise
    CVXPY brings C to the conic form `{x : A v + b in K}`, with x among the variables v; then `t C` is
    `A v + b t in K`, the closure of the perspective. Parameters stay parameters, as A and b are affine in
    them. Cones of semidefinite matrices and of more than three powers are refused.

    x is an affine vector, t a non-negative scalar.
    """
    try:
        return _times(x, t), [c.copy([_times(a, t) for a in c.args]) for c in constraints]
    except _Inhomogeneous:
        return _conic(x, constraints, t)


def _conic(
    x: cp.Expression, constraints: list[cp.Constraint], t: cp.Expression
) -> tuple[cp.Expression, list[cp.Constraint]]:
    """Return the expression and constraints of `perspective` from the conic form of CVXPY."""
    z = cp.Variable(x.shape[0])
    data, _, _ = cp.Problem(cp.Minimize(0), [z == x, *constraints]).get_problem_data(
        cp.CLARABEL, enforce_dpp=True
    )
    program, dims = data["param_prob"], data["dims"]
    if dims.psd or getattr(dims, "pnd", None):
        raise CompositionError(
            "a union of sets: expected constraints by norms, powers and exponentials, got semidefinite or "
            "generalised power cones; write the set as a sum or an intersection of simpler ones"
        )
    m, n = program.constr_size, program.x.size
    table = sparse.csc_array(program.A)
    v = cp.Variable(n)

    def lines(column: int) -> tuple[Any, Any]:
        """Return (A, b) from one column of the table: the constant, or the factor of a parameter entry."""
        rows = sparse.coo_array(table[:, [column]])
        at, entries = rows.coords[0], rows.data
        A = sparse.csr_array((entries, (at % m, at // m)), shape=(m, n + 1))
        b = A[:, [n]].toarray().ravel()
        return A[:, :n], b

    image: Any = 0.0
    for key, column in program.param_id_to_col.items():
        if key not in program.id_to_param:
            A, b = lines(column)
            image = image + A @ v + b * t
            continue
        parameter = program.id_to_param[key]
        flat = cp.vec(parameter, order="F") if parameter.ndim else None
        for k in range(parameter.size):
            A, b = lines(column + k)
            if A.nnz or b.any():
                factor = parameter if flat is None else flat[k]
                image = image + factor * (A @ v + b * t)
    start = program.var_id_to_col[z.id]
    return v[start : start + z.size], _in_cones(image, dims)


def _in_cones(image: Any, dims: Any) -> list[cp.Constraint]:
    """Return the constraints `image in K`, with the cones of K in the order of CVXPY."""
    cones = [
        (dims.zero, lambda x: x == 0),
        (dims.nonneg, lambda x: x >= 0),
        *((size, lambda x: cp.SOC(x[0], x[1:])) for size in dims.soc),
        (3 * dims.exp, lambda x: cp.ExpCone(x[0::3], x[1::3], x[2::3])),
        (3 * len(dims.p3d), lambda x: cp.PowCone3D(x[0::3], x[1::3], x[2::3], np.array(dims.p3d))),
    ]
    ends = np.cumsum([0, *(size for size, _ in cones)])
    return [cone(image[end - size : end]) for (size, cone), end in zip(cones, ends[1:], strict=True) if size]
