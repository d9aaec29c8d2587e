"""Sums over rows for hulls whose weights are slopes of a loss: value, gradient and Hessian in w, mu and t.

With `v_i = (-f_c w'x_i - mu_c) / t_c` they are those of `sum_c t_c share_c sum_i c_i l_c(v_i)`, i over the
samples of class c, which weigh c_i; their weights are `q_i = share_c c_i l_c'(v_i)`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.linear import Vec
from ucm.data.source import as_double
from ucm.forms.objective import curvature
from ucm.forms.rows import RowHulls
from ucm.language.terms import ConvexLoss
from ucm.solvers.augmented_lagrangian import ridge_solve

__all__ = [
    "Message",
    "RowSums",
    "added",
    "gradient_hessian",
    "margins",
    "row_derivatives",
    "scaled_solve",
    "slopes",
]


class RowSums(NamedTuple):
    """By class the sums of `share c_i l(v_i)`, of the conjugates at the weights `q_i = share c_i l'(v_i)`, of
    q_i, of q_i x_i and, `all`, of `share c_i x_i`; the largest v, and the (n + 2, n + 2) moments of
    (x, 1, v)."""

    losses: Vec
    heights: Vec
    totals: Vec
    sums: NDArray[np.float64]
    all: NDArray[np.float64]
    top: Vec
    moments: NDArray[np.float64]


Message = tuple[Vec, Vec, Vec, tuple[float, float], Any, tuple[ConvexLoss, ...]]


def margins(X: Any, y: Any, w: Vec, b: float) -> Vec:
    """`y_i (w'x_i + b)`, for labels times weights too."""
    return np.sign(y) * (np.asarray(as_double(X) @ w).ravel() + b)


def slopes(scores: Vec, c: int, mu: Vec, t: Vec, factors: Any, losses: Any) -> tuple[Vec, Vec]:
    """v and `l'(v)` of the rows of a class."""
    v = (-factors[c] * scores - mu[c]) / t[c]
    return v, losses[c].gradient(v)


def row_derivatives(
    X: Any, y: Any, w: Vec, mu: Vec, t: Vec, factors: Any, shares: Any, losses: Any
) -> RowSums:
    """The kernel of a step; mu, t and losses are given by class."""
    X, weights, positive = as_double(X), np.abs(y), np.asarray(y) > 0.0
    n = w.size
    found = RowSums(
        np.zeros(2), np.zeros(2), np.zeros(2), np.zeros((2, n)), np.zeros((2, n)), np.full(2, -np.inf),
        np.zeros((2, n + 2, n + 2)),
    )  # fmt: skip
    with np.errstate(over="ignore", invalid="ignore"):
        for c, own in enumerate((positive, ~positive)):
            Z = X[own]
            if not Z.shape[0]:
                continue
            v, s = slopes(np.asarray(Z @ w).ravel(), c, mu, t, factors, losses)
            margin = losses[c].offset - v
            each = losses[c].each(margin)
            share = shares[c] * weights[own].astype(np.float64)
            found.losses[c], found.heights[c] = share @ each, share @ (v * s - each)
            found.totals[c], found.top[c] = share @ s, v.max()
            found.sums[c] = np.asarray(Z.T @ (share * s)).ravel()
            found.all[c] = np.asarray(Z.T @ share).ravel()
            _moments(found.moments[c], Z, v, share / t[c] * curvature(losses[c], margin))
    return found


def _moments(M: NDArray[np.float64], Z: Any, v: Vec, d: Vec) -> None:
    rows = np.flatnonzero(d)
    Z, v, d = Z[rows], v[rows], d[rows]
    n = Z.shape[1]
    if sparse.issparse(Z):
        M[:n, :n] = (Z.T @ Z.multiply(d[:, None]).tocsr()).toarray()
    else:
        M[:n, :n] = Z.T @ (Z * d[:, None])
    M[:n, n] = M[n, :n] = np.asarray(Z.T @ d).ravel()
    M[:n, n + 1] = M[n + 1, :n] = np.asarray(Z.T @ (d * v)).ravel()
    M[n, n], M[n + 1, n + 1] = d.sum(), d @ (v * v)
    M[n, n + 1] = M[n + 1, n] = d @ v


def added(a: RowSums, b: RowSums) -> RowSums:
    return RowSums(*(u + v for u, v in zip(a, b, strict=True)))._replace(
        top=np.maximum(a.top, b.top)
    )


def gradient_hessian(
    form: RowHulls, z: Vec, found: RowSums, proximal: bool = True
) -> tuple[Vec, NDArray[np.float64]]:
    """Gradient and Hessian of `sum_c mass_c mu_c + sum_k t_k (radius_k + sums of k)` in (w, mu, t), and of
    `||w||_2^2 / 2` unless that is left out."""
    n, size = form.n, form.n + 2 + len(form.balls)
    g, H = np.zeros(size), np.zeros((size, size))
    if proximal:
        g[:n] = z[:n]
        H[np.arange(n), np.arange(n)] = 1.0
    g[n + 2 :] = form.radii
    for c, k in enumerate(form.of):
        T = np.zeros((n + 2, size))
        T[np.arange(n), np.arange(n)] = -form.factors[c]
        T[n, n + c] = T[n + 1, n + 2 + k] = -1.0
        H += T.T @ found.moments[c] @ T
        g[:n] -= form.factors[c] * found.sums[c]
        g[n + c] = form.masses[c] - found.totals[c]
        g[n + 2 + k] -= found.heights[c]
    return g, H


def scaled_solve(H: NDArray[np.float64], g: Vec) -> Vec:
    """`H^-1 g`, in units in which the diagonal is 1."""
    diagonal = np.diagonal(H)
    d = np.sqrt(np.maximum(diagonal, 1e-30 * max(float(diagonal.max()), 1e-250)))
    return ridge_solve(np.ascontiguousarray(H / np.outer(d, d)), g / d) / d
