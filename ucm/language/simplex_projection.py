"""Projections on the capped simplex `{0 <= q <= caps, sum q = total}`, and Jacobians of projections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucm.data.linear_map import Vec

ROUNDING = 1e-12
"""Relative slack below which a point counts as inside and a boundary value as admissible."""


def vector(x: ArrayLike) -> Vec:
    """Return x as a contiguous float64 array."""
    return np.ascontiguousarray(x, dtype=np.float64)


def round_violation(violation: float) -> float:
    """Return the violation, or 0 if at most `ROUNDING`."""
    return 0.0 if violation <= ROUNDING else float(violation)


def clip_to_mass(v: Vec, caps: Vec, total: float) -> Vec:
    """Return the projection of v on `{0 <= q <= caps, sum q = total}`, with a cap for each entry.

    It is `clip(v - theta, 0, caps)`, theta the multiplier of the total: between two kinks of the sum.
    """
    at = np.concatenate([v, v - caps])
    order = np.argsort(-at, kind="stable")
    slopes = np.cumsum(np.repeat([1.0, -1.0], v.size)[order])[:-1]  # between one kink and the next
    at = at[order]
    sums = np.concatenate([[0.0], np.cumsum(slopes * -np.diff(at))])
    k = min(max(int(np.searchsorted(sums, total)), 1), at.size - 1)
    theta = 0.5 * (at[k - 1] + at[k])
    free, full = (v > theta) & (v - caps < theta), v - caps >= theta
    if free.any():  # the linear piece, without the rounding of the sums or of large entries
        v = v - v[free][0]
        theta = v[free].mean() - (total - caps[full].sum()) / np.count_nonzero(free)
    return np.clip(v - theta, 0.0, caps)


# --- Jacobians -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Jacobian:
    """The symmetric N x N matrix `J = diag(d) + U S U'`, `0 <= J <= I`, with U (N, r) and S (r, r).

    Attributes
    ----------
    d, U, S : its parts
    """

    d: Vec
    U: NDArray[np.float64]
    S: NDArray[np.float64]

    def matvec(self, v: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return J v for a vector v (N,), or for each column of a matrix v (N, k)."""
        return (self.d * v.T).T + self.U @ (self.S @ (self.U.T @ v))


def jacobian(w: Vec, parts: list[tuple[Any, float]], normal: Vec | None = None) -> Jacobian:
    """Return the Jacobian of the projection on {h(q) <= r, fixed masses}, h separable and convex.

    With multipliers lam of h and theta of the masses, `q + lam h'(q) = v - theta` where q is free:

        J = W - W N (N' W N)^+ N' W,    W = diag(free_i / (1 + lam h_i'')),

    with the class indicators and, where h is active, `normal` = h'(q) as the columns of N. Taking
    from `normal` its W-weighted class means makes N' W N diagonal.
    """
    columns = []
    n = np.zeros(w.size) if normal is None else np.where(w > 0.0, normal, 0.0)
    length = float(w @ (n * n))
    for index, _ in parts:
        total = float(w[index].sum())
        if total <= 0.0:
            continue
        column = np.zeros(w.size)
        column[index] = w[index] / np.sqrt(total)
        columns.append(column)
        n[index] -= float(w[index] @ n[index]) / total
    remaining = float(w @ (n * n))
    if remaining > 1e-24 * length:
        columns.append(w * n / np.sqrt(remaining))
    U = np.column_stack(columns) if columns else np.zeros((w.size, 0))
    return Jacobian(d=w, U=U, S=-np.eye(len(columns)))
