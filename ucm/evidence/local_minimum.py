"""Proof that a critical point of `loss + penalty` is a strict local minimum.

Near a point (w, b) at which every term is a function of one margin or of one weight, the objective has the
directional derivative

    F'(d) = sum_i max(l_i tau_i, u_i tau_i) + sum_j max(l'_j d_j, u'_j d_j),   tau_i = y_i (d_w'x_i + d_b),

`[l, u]` the one-sided slopes of each term. Where F' > 0 for every d other than 0, (w, b) is a strict local
minimum: F is Lipschitz and piecewise smooth. F' is the support function of the set of slopes
`{sum_i s_i y_i (x_i, 1) + (s', 0) : l <= s <= u, l' <= s' <= u'}`, so this holds exactly when 0 lies in
the interior of the set: 0 is then the image of a point in the interior of the box of slopes, and the terms
with a kink span R^(n+1). One linear program and one rank decide. At a concave kink (u < l) the
derivative takes the smaller of both values: every choice of one slope must pass.

Ong and Le Thi (2013), Theorem 3.1 (IV), proves a local minimum where the subtracted part is affine; here it
may be any piecewise smooth function, such as that of `ExpL0`.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from ucm.data.bound_data import Data
from ucm.data.linear_map import Matrix, Vec
from ucm.errors import ParameterError, brief
from ucm.evidence.objective import loss_slopes
from ucm.forms.solution import Certificate, Solution
from ucm.language.objective import Objective
from ucm.language.penalties.combined import CombinedPenalty
from ucm.language.robust import RobustMargin

_AT_KINK = 1e-7  # distance of a margin or weight from a kink, relative to 1 + its size, that counts as 0
_JUMP = 1e-4  # difference of one-sided slopes, relative to the largest slope, that counts as a kink
_INSIDE = 1e-6  # least distance from the faces of the box of slopes, as a fraction of its width
_MOST_CONCAVE = 8  # concave kinks at one point; each doubles the number of linear programs
_RANK = 1e-8  # singular values of rows of length 1 that count as 0

Slopes = tuple[Vec, Vec]


def certify_local(model: Objective | RobustMargin, data: Data, solution: Solution) -> Certificate:
    """Return the certificate of a solution, of kind "strict local" if a strict local minimum is proven.

    Raises `ParameterError` where the terms of the model have no one-sided slopes.
    """
    w, b = solution.w, solution.b
    expected = "a loss plus a penalty in the features of samples in memory, with a free intercept"
    if isinstance(model, Objective) and w is not None and b is not None and data.source is None:
        G, H = model.dc()
        joins = model.needs & {"worst mean", "flips"} or not all(h.coordinatewise for h in H.penalties)
        _, _, s, not_separable = CombinedPenalty(G.penalties).norms
        if not s and not not_separable and not joins and model.intercept == "free":
            proven = strict_local_minimum(model, data, w, b) is None
            return replace(solution.certificate, kind="strict local") if proven else solution.certificate
        expected = (
            "no worst mean, and penalties that are sums over the weights w_j (L1, L2, ElasticNet, folded "
            "concave ones)"
        )
    raise ParameterError(f"certify_local: expected {expected}, got {brief(model)}; use plan.certify")


def strict_local_minimum(model: Objective, data: Data, w: Vec, b: float) -> str | None:
    """Return None if (w, b) is proven to be a strict local minimum, else the reason for no proof.

    The penalties of the model are sums over the weights w_j.
    """
    n = w.size
    known = data.y * model.shift(data.y, data.per_sample)
    margin = data.y * (np.asarray(data.X @ w).ravel() + (b + known))
    step = _AT_KINK * (1.0 + np.abs(margin))
    losses = loss_slopes(model, data, margin - step), loss_slopes(model, data, margin + step)
    penalties = _penalty_slopes(model, w)
    # rows of the derivative: one for each sample, one for each weight
    Z = sparse.csr_array(data.X).multiply(data.y[:, None])
    rows: Matrix = sparse.vstack(
        [sparse.hstack([Z, data.y[:, None]]), sparse.eye_array(n, n + 1)], format="csr"
    )
    low, high = (np.concatenate(pair) for pair in zip(losses, penalties, strict=True))
    jump = high - low
    steep = max(float(np.abs(low).max()), float(np.abs(high).max()), 1e-300)
    convex = np.flatnonzero(jump > _JUMP * steep)
    concave = np.flatnonzero(jump < -_JUMP * steep)
    if concave.size > _MOST_CONCAVE:
        return f"{concave.size} terms have concave kinks there, more than {_MOST_CONCAVE} that are examined"
    kinked = rows[convex]
    if convex.size <= n or row_rank(kinked.toarray()) <= n:
        return (
            f"the {convex.size} terms with a kink span fewer than n + 1 = {n + 1} directions, and the "
            "objective does not grow at first order along the others"
        )
    fixed = 0.5 * (low + high)
    fixed[convex] = 0.0
    for chosen in itertools.product((0, 1), repeat=concave.size):
        fixed[concave] = np.where(np.array(chosen, dtype=bool), high[concave], low[concave])
        if not _interior(kinked, low[convex], high[convex], rows.T @ fixed):
            return "some direction does not raise the objective at first order"
    return None


def row_rank(rows: Matrix) -> int:
    """Return the numerical rank of a dense matrix after scaling its rows to length 1."""
    sizes = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    return int(np.linalg.matrix_rank(rows / sizes, tol=_RANK))


def _interior(rows: Matrix, low: Vec, high: Vec, fixed: Vec) -> bool:
    """True if `fixed + rows' s = 0` for some slopes s in the interior of the box `[low, high]`.

    A linear program finds the largest e with `low + e (high - low) <= s <= high - e (high - low)`; the answer
    is True from e = 1e-6 on.
    """
    k, width = low.size, high - low
    # s = low + width r, with e <= r <= 1 - e; linprog itself adds that r and e are not negative
    scaled = rows.T @ sparse.diags_array(width)
    target = -(fixed + rows.T @ low)
    size = max(float(np.abs(target).max()), float(abs(scaled).max()), 1e-300)
    eye = sparse.eye_array(k)
    column = np.ones((k, 1))
    result: Any = linprog(
        np.append(np.zeros(k), -1.0),
        A_ub=sparse.vstack([sparse.hstack([-eye, column]), sparse.hstack([eye, column])]),
        b_ub=np.concatenate([np.zeros(k), np.ones(k)]),
        A_eq=sparse.hstack([scaled, np.zeros((target.size, 1))]) / size,
        b_eq=target / size,
        method="highs",
    )
    return bool(result.status == 0 and -result.fun >= _INSIDE)


def _penalty_slopes(model: Objective, w: Vec) -> Slopes:
    """Return the left and right derivatives of the total penalty in each weight w_j."""
    G, H = model.dc()
    a, c, _, _ = CombinedPenalty(G.penalties).norms
    step = _AT_KINK * (1.0 + np.abs(w))

    def slopes(at: Vec) -> Vec:
        subtracted = [h.subgradient(at) for h in H.penalties]
        return a * np.sign(at) + 2.0 * c * w - sum(subtracted, start=np.zeros(w.size))

    return slopes(w - step), slopes(w + step)
