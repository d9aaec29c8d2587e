"""Convex sets that are given by CVXPY constraints: the cone over a set, and its support function.

CVXPY brings a set C to the conic form `{x : A v + b in K}`, with x among the variables v. The closure of
`{(t x, t) : x in C, t > 0}` is `A v + b t in K`, and the support function of C is by conic duality

    max over x in C of <g, x>  =  min {<b, y> : A'y = -g at x, A'y = 0 at the other variables, y in K*}.

Parameters stay parameters, as A and b are affine in them, so that both are DPP.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ucm.data.linear_map import Vec
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
        form = _ConicForm.of(x, constraints)
        v = cp.Variable(form.size)
        image: Any = sum(factor * (A @ v + b * t) for factor, A, b in form.terms)
        return v[form.where], [cone(image[rows]) for rows, cone, _ in form.cones]


def support(
    x: cp.Expression, constraints: list[cp.Constraint], g: cp.Expression
) -> tuple[cp.Expression, list[cp.Constraint]]:
    """Return the support function at g of the values of an affine vector x under `constraints`.

    It is an expression that bounds `max <g, x>` from above under the returned constraints, and whose least
    value it is.
    """
    form = _ConicForm.of(x, constraints)
    y = cp.Variable(form.rows)
    pull: Any = sum(f * (A.T @ y) for f, A, _ in form.terms)
    height: Any = sum(f * (b @ y) for f, _, b in form.terms)
    pulled = [pull[form.where] == -g]
    others = np.delete(np.arange(form.size), form.where)
    pulled += [pull[others] == 0] if others.size else []
    return height, [*pulled, *(c for rows, _, dual in form.cones for c in dual(y[rows]))]


class _ConicForm(NamedTuple):
    """The set `{v : sum_k f_k (A_k v + b_k) in K}`, f_k the number 1 or an entry of a parameter.

    `where` is the place of x in v; `cones` are the rows of each cone of K, with the constraints of the cone
    and of its dual. Semidefinite cones and cones of more than three powers are refused.
    """

    terms: list[tuple[Any, sparse.csr_array, Vec]]
    rows: int
    size: int
    where: slice
    cones: list[tuple[slice, Callable[[Any], cp.Constraint], Callable[[Any], list[cp.Constraint]]]]

    @classmethod
    def of(cls, x: cp.Expression, constraints: list[cp.Constraint]) -> _ConicForm:
        """Return the conic form of CVXPY of the values of x under `constraints`."""
        z = cp.Variable(x.shape[0])
        data, _, _ = cp.Problem(cp.Minimize(0), [z == x, *constraints]).get_problem_data(
            cp.CLARABEL, enforce_dpp=True
        )
        program, dims = data["param_prob"], data["dims"]
        if dims.psd or getattr(dims, "pnd", None):
            raise CompositionError(
                "the conic form of a set: expected constraints by norms, powers and exponentials, got "
                "semidefinite or generalised power cones; write the set as a sum or an intersection of "
                "simpler ones"
            )
        m, n = program.constr_size, program.x.size
        table = sparse.csc_array(program.A)
        terms: list[tuple[Any, sparse.csr_array, Vec]] = []

        def add(factor: Any, column: int) -> None:
            """Add (A, b) from one column of the table: the constant, or the factor of a parameter entry."""
            rows = sparse.coo_array(table[:, [column]])
            at, entries = rows.coords[0], rows.data
            A = sparse.csr_array((entries, (at % m, at // m)), shape=(m, n + 1))
            b = A[:, [n]].toarray().ravel()
            if A.nnz:
                terms.append((factor, A[:, :n], b))

        for key, column in program.param_id_to_col.items():
            if key not in program.id_to_param:
                add(1.0, column)
                continue
            parameter = program.id_to_param[key]
            flat = cp.vec(parameter, order="F") if parameter.ndim else None
            for k in range(parameter.size):
                add(parameter if flat is None else flat[k], column + k)
        start = program.var_id_to_col[z.id]
        return cls(terms, m, n, slice(start, start + z.size), _cones(dims))


def _cones(dims: Any) -> list:
    """Return the cones of CVXPY in its order: rows, constraints of the cone and of the dual cone."""
    alpha = np.array(dims.p3d)

    def exponential(x: Any) -> cp.Constraint:
        return cp.ExpCone(x[0::3], x[1::3], x[2::3])

    def power(x: Any) -> cp.Constraint:
        return cp.PowCone3D(x[0::3], x[1::3], x[2::3], alpha)

    def dual_exponential(y: Any) -> list[cp.Constraint]:
        return [cp.ExpCone(y[0::3] - y[1::3], -y[0::3], y[2::3])]

    def dual_power(y: Any) -> list[cp.Constraint]:
        u, v = cp.multiply(1.0 / alpha, y[0::3]), cp.multiply(1.0 / (1.0 - alpha), y[1::3])
        return [cp.PowCone3D(u, v, y[2::3], alpha)]

    def ball(x: Any) -> cp.Constraint:
        return cp.SOC(x[0], x[1:])

    cones = [
        (dims.zero, lambda x: x == 0, lambda y: []),
        (dims.nonneg, lambda x: x >= 0, lambda y: [y >= 0]),
        *((size, ball, lambda y: [ball(y)]) for size in dims.soc),
        (3 * dims.exp, exponential, dual_exponential),
        (3 * len(dims.p3d), power, dual_power),
    ]
    ends = np.cumsum([0, *(size for size, _, _ in cones)]).tolist()
    return [
        (slice(end - size, end), cone, dual)
        for (size, cone, dual), end in zip(cones, ends[1:], strict=True)
        if size
    ]
