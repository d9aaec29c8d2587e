"""Convex sets that are given by CVXPY constraints: the cone over a set, and its support function.

CVXPY brings a set C to the conic form `{x : A v + b in K}`, with x among the variables v. The closure of
`{(t x, t) : x in C, t > 0}` is `A v + b t in K`, and the support function of C is by conic duality

    max over x in C of <g, x>  =  min {<b, y> : A'y = -g at x, A'y = 0 at the other variables, y in K*}.

Parameters stay parameters, as A and b are affine in them, so that both are DPP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from operator import add
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


Cone = Callable[["cp.Expression", bool], "list[cp.Constraint]"]
"""The constraints of a cone for an expression; those of the dual cone for True."""


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
        image = reduce(add, [factor * (A @ v + b * t) for factor, A, b in form.terms])
        return v[form.where], [c for rows, _, cone in form.cones for c in cone(image[rows], False)]


def support(
    x: cp.Expression, constraints: list[cp.Constraint], g: cp.Expression
) -> tuple[cp.Expression, list[cp.Constraint]]:
    """Return the support function at g of the values of an affine vector x under `constraints`.

    It is an expression that bounds `max <g, x>` from above under the returned constraints, and whose least
    value it is. The multipliers y have the units of their rows of A, as solvers need.
    """
    form = _ConicForm.of(x, constraints)
    sizes = np.max([abs(A).max(axis=1).toarray().ravel() for _, A, _ in form.terms], axis=0)
    for rows, unit, _ in form.cones:
        sizes[rows] = np.repeat(sizes[rows].reshape(-1, unit).max(axis=1), unit)
    y = cp.multiply(1.0 / np.where(sizes > 0.0, sizes, 1.0), cp.Variable(form.rows))
    pull = reduce(add, [f * (A.T @ y) for f, A, _ in form.terms])
    height = reduce(add, [f * (b @ y) for f, _, b in form.terms])
    pulled = [pull[form.where] == -g]
    others = np.delete(np.arange(form.size), form.where)
    pulled += [pull[others] == 0] if others.size else []
    return height, [*pulled, *(c for rows, _, cone in form.cones for c in cone(y[rows], True))]


class _ConicForm(NamedTuple):
    """The set `{v : sum_k f_k (A_k v + b_k) in K}`, f_k the number 1 or an entry of a parameter.

    `where` is the place of x in v; `cones` are the rows of each cone of K, with its constraints.
    Semidefinite cones and cones of more than three powers are refused.
    """

    terms: list[tuple[cp.Expression, sparse.csr_array, Vec]]
    rows: int
    size: int
    where: slice
    cones: list[tuple[slice, int, Cone]]

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
        table, terms = sparse.csc_array(program.A), []
        for key, column in program.param_id_to_col.items():
            parameter = program.id_to_param.get(key, cp.Constant(1.0))
            flat = cp.vec(parameter, order="F") if parameter.ndim else parameter
            for k in range(parameter.size):
                rows = sparse.coo_array(table[:, [column + k]])
                at = rows.coords[0] % m, rows.coords[0] // m
                A = sparse.csr_array((rows.data, at), shape=(m, n + 1))
                if A.nnz:
                    factor = flat[k] if parameter.ndim else flat
                    terms.append((factor, A[:, :n], A[:, [n]].toarray().ravel()))
        start = program.var_id_to_col[z.id]
        return cls(terms, m, n, slice(start, start + z.size), list(_cones(dims)))


def _cones(dims: Any) -> Iterator[tuple[slice, int, Cone]]:
    """Yield the rows of the cones of CVXPY in its order, the rows of one cone, and its constraints."""
    alpha = np.array(dims.p3d)

    def exponential(x: cp.Expression, dual: bool) -> list[cp.Constraint]:
        u, v, w = x[0::3], x[1::3], x[2::3]
        return [cp.ExpCone(u - v, -u, w) if dual else cp.ExpCone(u, v, w)]

    def power(x: cp.Expression, dual: bool) -> list[cp.Constraint]:
        u, v = (1.0 / alpha, 1.0 / (1.0 - alpha)) if dual else (1.0, 1.0)
        return [cp.PowCone3D(cp.multiply(u, x[0::3]), cp.multiply(v, x[1::3]), x[2::3], alpha)]

    end = 0
    for size, unit, cone in (
        (dims.zero, 1, lambda x, dual: [] if dual else [x == 0]),
        (dims.nonneg, 1, lambda x, _: [x >= 0]),
        *((size, size, lambda x, _: [cp.SOC(x[0], x[1:])]) for size in dims.soc),
        (3 * dims.exp, 3, exponential),
        (3 * len(dims.p3d), 3, power),
    ):
        if size:
            yield slice(end, end + size), unit, cone
        end += size
