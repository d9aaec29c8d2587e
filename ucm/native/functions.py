"""Python wrappers of C functions on arrays and scalars, and the limit on BLAS threads."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from ucm.native.binding import library

__all__ = [
    "KINDS",
    "add_outer",
    "blas_threads",
    "checksum",
    "exchanges",
    "fill_to_mass",
    "kernel_sums",
    "project_ball_simplex",
    "project_capped",
    "project_entropy",
    "rbf_values",
    "support_entropy",
    "threshold",
]

Vector = NDArray[np.float64]
Ints = NDArray[np.int64]


# --- projections on capped simplices, balls and their intersections -------------------------------


def threshold(v: Vector, cap: float, mass: float) -> tuple[float, float]:
    """Return the root (ref, shift) of `sum clip((v - ref) - shift, 0, cap) = mass`; ref -inf: all capped."""
    root = np.empty(2)
    library.threshold(v.size, v, cap, mass, root, np.empty(v.size))
    return float(root[0]), float(root[1])


def project_capped(v: Vector, classes: Vector, cap_pos: float, cap_neg: float, out: Vector) -> None:
    """Write to `out` the projection of v onto a capped simplex of mass 1, or of mass 1/2 for each class.

    Without classes the cap is `cap_pos`.

    Parameters
    ----------
    v, out : (n,); out may be v
    classes : (n,) of +1 and -1, or empty
    """
    work = np.empty(2 * v.size)
    library.project_capped(v.size, v, classes.size, classes, cap_pos, cap_neg, out, work)


def fill_to_mass(g: Vector, caps: float | Vector, mass: float) -> tuple[Vector, float, tuple[float, float]]:
    """Return a maximiser of <g, q> over `0 <= q <= caps`, `sum q = mass`, the maximum and the multipliers.

    Tied entries are filled in proportion to their caps. The last result is the interval of multipliers of the
    mass; its upper end is the entry at which the caps from the largest entry down reach the mass. caps is a
    number, which may be inf, or one number for each entry.
    """
    each, q, results = isinstance(caps, np.ndarray), np.empty(g.size), np.empty(3)
    upper: Any = caps if each else np.array([caps])
    library.fill_to_mass(g.size, g, each, upper, mass, q, results, np.empty(2 * g.size))
    height, low, high = results.tolist()
    return q, height, (low, high)


def project_ball_simplex(
    v: Vector, classes: Vector, radius: float, limit: float, out: Vector
) -> tuple[float, float, float]:
    """Write to `out` the projection of v onto simplex and ball, or a maximiser of <v, q> over both.

    limit = 1 gives the projection, limit = inf the maximiser: q(t) of the largest t <= limit with
    `||q(t)|| <= radius`, `q(t) = P_simplex(t v)`.

    Parameters
    ----------
    v, out : (n,); out may be v
    classes : (n,) of +1 and -1, each with mass 1/2; or empty, of mass 1

    Returns
    -------
    t and, for each class, tau with `q = t (v - tau)_+`. t = 0 is the uniform vector, t = inf the entries
    equal to the largest, t = nan says that the squares of v overflow or vanish.
    """
    results = np.empty(3)
    library.project_ball_simplex(
        v.size, v, classes.size, classes, radius, limit, out, results, np.empty(2 * v.size)
    )
    t, pos, neg = results.tolist()
    return t, pos, neg


def project_entropy(
    v: Vector, classes: Vector, radius: float, least: float, lam: float, out: Vector
) -> tuple[float, float, float, float]:
    """Write to `out` the point nearest to v with `sum q log(N q) = radius` and mass 1, or 1/2 by class.

    Parameters
    ----------
    v, out : (n,)
    classes : (n,) of +1 and -1, or empty
    least : the entropy of the uniform vector
    lam : a guess of the multiplier

    Returns
    -------
    lam, theta of each class, and 1 where the residuals are rounding (else out has no meaning)
    """
    results = np.empty(4)
    library.project_entropy(v.size, v, classes.size, classes, radius, least, lam, out, results)
    lam, pos, neg, good = results.tolist()
    return lam, pos, neg, good


def support_entropy(
    g: Vector, classes: Vector, radius: float, least: float, out: Vector
) -> tuple[float, float, float]:
    """Write to `out` the maximiser of <g, q> over the set of `project_entropy`; return its multipliers.

    These are lam and, for each class, theta with `lam (log(N q) + 1) = g - theta`. Parameters as of
    `project_entropy`.
    """
    results = np.empty(3)
    library.support_entropy(g.size, g, classes.size, classes, radius, least, out, results)
    lam, pos, neg = results.tolist()
    return lam, pos, neg


# --- reduced hulls --------------------------------------------------------------------------------


def exchanges(
    K: NDArray[np.float64], group: Ints, cap: Vector, eps: float, limit: int, q: Vector,
    F: Vector,
) -> int:  # fmt: skip
    """Run clipped MDM steps on q and F in place, and return their number, at most `limit`.

    The steps end when no pair violates optimality by more than eps.

    Parameters
    ----------
    K : (n, n) inner products of the points
    group, cap, q : (n,) of the weights, which are feasible
    F : (n,) the inner products of the present point with all points
    """
    groups = int(group.max(initial=-1)) + 1
    low, high = np.empty(groups, np.int64), np.empty(groups, np.int64)
    return library.exchange(q.size, groups, K, group, cap, eps, limit, q, F, low, high)


# --- kernels --------------------------------------------------------------------------------------

KINDS = {"given": 0, "linear": 1, "poly": 2, "rbf": 3, "rbf by distances": 4}
"""`exp(-gamma |a - b|^2)` from inner products, or from differences: the second loses less to rounding."""


def rbf_values(G: np.ndarray, a: np.ndarray, b: np.ndarray, gamma: float) -> None:
    """Overwrite the inner products `G_ij = x_i'z_j` with the RBF kernel `exp(-gamma |x_i - z_j|^2)`.

    a and b are the squared norms of the x_i and the z_j.
    """
    library.rbf_values(*G.shape, G, a, b, gamma)


def kernel_sums(
    kind: int, degree: int, gamma: float, coef0: float, a: np.ndarray, own: np.ndarray,
    c: NDArray[np.float64], x: np.ndarray, squares: np.ndarray, start: int, out: NDArray[np.float64],
) -> None:  # fmt: skip
    """Add the kernel sums `sum_i c_i k(a_i, x_(start + j))` to `out_j`.

    Parameters
    ----------
    kind : of `KINDS`; degree, gamma, coef0 : of the kernel
    a, own : (count, features) samples and (count,) gamma times their squares
    c : (count,) their weights
    x, squares : (features, samples) and (samples,), as a and own
    out : (count of columns,)
    """
    library.kernel_sums(
        kind, degree, gamma, coef0, *a.shape, a, own, c, x.shape[1], x, squares, start, out.size, out
    )  # fmt: skip


# --- sums over arrays -----------------------------------------------------------------------------


def add_outer(
    values: Vector,
    columns: NDArray[np.int32],
    starts: NDArray[np.int32],
    d: Vector,
    H: Vector,
    s: Vector,
) -> None:
    """Add `sum_i d_i x_i` to s and one triangle of `sum_i d_i x_i x_i'` to H, over the rows of a CSR matrix.

    With sorted columns it is the upper triangle; else one entry of every pair (j, k), (k, j).
    """
    library.add_outer(d.size, values, columns, starts, d, s.size, H, s)


def checksum(words: Ints | NDArray[np.int32]) -> tuple[int, int]:
    """Return an order-dependent checksum of the words, and the bits of the largest absolute value.

    For the second result the words are read as numbers of double precision.
    """
    results = np.empty(2, dtype=np.int64)
    function = library.checksum_short if words.itemsize == 4 else library.checksum_long
    function(words.size, words, results)
    total, top = results.tolist()
    return total, top


# --- threads ------------------------------------------------------------------------------------------
_ALONE = 9000  # entries of a matrix below which OpenBLAS takes one thread


@functools.cache
def _pools() -> Any:
    return ThreadpoolController()


def blas_threads(order: int, entries: int = _ALONE) -> AbstractContextManager:
    """Return a context with one BLAS thread for an order below 500, else one without effect.

    With more threads, those of a busy machine wait for each other (measured: a Cholesky factor of order 192
    took 283 ms, not 1). Products with fewer than 9,000 `entries` have one thread anyway: no effect.
    """
    alone = order >= 500 or entries < _ALONE
    return nullcontext() if alone else _pools().limit(limits=1, user_api="blas")
