"""The best split of a vector among the penalties of a sum, by a conic program.

The conjugate of a sum of penalties at z is the least sum of their conjugates over all z_k that add up to z.
If the sum has no proximal map, any split bounds it. Near the optimum z is a subgradient of the sum at w, and
the multipliers of `w_k = x` in the proximal problem of the sum at `w + z` split it.
"""

from __future__ import annotations

import numpy as np

from ucm.data.linear_map import Vec
from ucm.language import cvx as cp
from ucm.language.parameter import Scope
from ucm.language.terms import ProximalPenalty
from ucm.numerics.conic_programs import accuracy, attempt

_PROGRAM = 1e-11  # accuracy of Clarabel
_ROUNDS, _MET = 200, 1e-15  # of corrections; relative residual of the sum
_CHECKED = 8  # corrections that halve the residual at least: others come to no end


def split_by_program(terms: tuple[ProximalPenalty, ...], z: Vec, w: Vec) -> list[Vec] | None:
    """Return z_k in the domains of the conjugates that nearly sum to z; None without an answer.

    In units x of w and of z, the program is `min ||x - w - z||^2 / 2 + sum_k R_k(x_k)` over `x_k = x`.
    """
    if not np.isfinite(z).all():
        return None
    size, steep = float(np.abs(w).max(initial=0.0)) or 1.0, float(np.abs(z).max(initial=0.0)) or 1.0
    x, each = cp.Variable(w.size), [cp.Variable(w.size) for _ in terms]
    total = 0.5 * cp.sum_squares(x - (w / size + z / steep))
    for R, x_k in zip(terms, each, strict=True):
        total += R.cvxpy(size * x_k, 1.0 / (size * steep), Scope())
    equal = [x_k == x for x_k in each]
    problem = cp.Problem(cp.Minimize(total), equal)
    attempt(problem, "CLARABEL", **accuracy("CLARABEL", _PROGRAM))
    if x.value is None:  # a w of rounding's size has no units
        return split_by_program(terms, z, np.zeros_like(w)) if w.any() else None
    slopes = [_inside(R, -steep * np.asarray(e.dual_value)) for R, e in zip(terms, equal, strict=True)]
    before = np.inf
    for k in range(_ROUNDS):
        left = z - sum(slopes)
        rest = float(np.abs(left).max())
        if rest <= _MET * steep or (k % _CHECKED == 0 and rest > 0.5 * before):
            break
        before = rest if k % _CHECKED == 0 else before
        for j, R in enumerate(terms):
            left = left + slopes[j]
            slopes[j] = _inside(R, left)
            left = left - slopes[j]
    return slopes


def _inside(R: ProximalPenalty, z: Vec) -> Vec:
    """Return z if it lies in the domain of R*, else a point of it, for norms and constraints the nearest."""
    z = R.project_onto_domain_cone(z)
    return z if R.gauge(z) <= 1.0 else z - R.prox(z, 1.0)
