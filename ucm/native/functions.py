"""The compiled functions that take arrays and scalars alone, with their work space, and the BLAS threads."""

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
    "exponentials",
    "fill_to_mass",
    "kernel_sums",
    "leave_one_out",
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
    """Return `(ref, shift)` with `sum clip((v - ref) - shift, 0, cap) = mass`; ref = -inf: all capped."""
    root = np.empty(2)
    library.threshold(v.size, v, cap, mass, root, np.empty(v.size))
    return float(root[0]), float(root[1])


def project_capped(v: Vector, classes: Vector, cap_pos: float, cap_neg: float, out: Vector) -> None:
    """The nearest q with 0 <= q <= cap and mass 1, or mass 1/2 in each class (where `classes` is not empty).

    Parameters
    ----------
    v, out : (n,); out may be v
    classes : (n,) of +1 and -1, or empty
    """
    work = np.empty(2 * v.size)
    library.project_capped(v.size, v, classes.size, classes, cap_pos, cap_neg, out, work)


def fill_to_mass(g: Vector, caps: float | Vector, mass: float) -> tuple[Vector, float, tuple[float, float]]:
    """A maximiser of <g, q> over `0 <= q <= caps` of this mass, the largest entries first and ties in
    proportion to their caps; the maximum, and the interval of multipliers of the mass.

    caps is one number, which may be inf, or one for each entry. The upper end of the interval is the entry at
    which the caps from the largest entry down reach the mass.
    """
    each, q, results = isinstance(caps, np.ndarray), np.empty(g.size), np.empty(3)
    upper: Any = caps if each else np.array([caps])
    library.fill_to_mass(g.size, g, each, upper, mass, q, results, np.empty(2 * g.size))
    height, low, high = results.tolist()
    return q, height, (low, high)


def project_ball_simplex(
    v: Vector, classes: Vector, radius: float, limit: float, out: Vector
) -> tuple[float, float, float]:
    """q(t) of the largest t <= limit with `||q(t)|| <= radius`, `q(t) = P_simplex(t v)`; limit is 1 (the
    projection) or inf (a maximiser of <v, q>).

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
    """The point nearest to v with `sum q log(N q) = radius` and mass 1, or 1/2 in each class.

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
    """The maximiser of <g, q> on that set: lam and, for each class, theta with
    `lam (log(N q) + 1) = g - theta`. Parameters as of `project_entropy`."""
    results = np.empty(3)
    library.support_entropy(g.size, g, classes.size, classes, radius, least, out, results)
    lam, pos, neg = results.tolist()
    return lam, pos, neg


# --- reduced hulls --------------------------------------------------------------------------------


def exchanges(
    K: NDArray[np.float64], group: Ints, cap: Vector, eps: float, limit: int, q: Vector,
    F: Vector,
) -> int:  # fmt: skip
    """Steps of clipped MDM, `limit` at most, until no pair violates by more than eps: how many. q, F change.

    Parameters
    ----------
    K : (n, n) inner products of the points
    group, cap, q : (n,) of the weights, which are feasible
    F : (n,) the inner products of the point with each
    """
    groups = int(group.max(initial=-1)) + 1
    low, high = np.empty(groups, np.int64), np.empty(groups, np.int64)
    return library.exchange(q.size, groups, K, group, cap, eps, limit, q, F, low, high)


_LEFT_OUT = 1_000_000  # of V, times the radii, in one call: some 40 ms


def leave_one_out(
    V: Vector,
    e: Vector,
    d: Vector,
    h: Vector,
    shift: float,
    rho: float,
    own: float,
    radii: Vector,
    starts: Vector,
    out: Vector,
) -> None:
    """`out[i, k] = x'(own v_i + h) / |x|`, x the nearest point for radius k with sample i left out; nan where
    0 lies in the set. In the basis of the eigenvectors of S, with the centre `d + shift v` and the shape
    `S - rho v v'`.

    Parameters
    ----------
    V, d, h : (m, n), (n,), (n,) in the basis; e : (n,) eigenvalues of S
    radii, starts : (K,) and the s of S itself for each, where its root is sought; 0: none
    out : (m, K)
    """
    m, n = V.shape
    step = max(1, _LEFT_OUT // max(1, n * radii.size))
    for first in range(0, m, step):
        part = slice(first, first + step)
        rows, values = V[part], out[part]
        library.leave_one_out(len(rows), n, rows, e, d, h, shift, rho, own, radii.size, radii, starts, values)


# --- kernels --------------------------------------------------------------------------------------

KINDS = {"given": 0, "linear": 1, "poly": 2, "rbf": 3, "rbf by distances": 4}
"""`exp(-gamma |a - b|^2)` from inner products, or from differences: the second loses less to rounding."""


def exponentials(x: np.ndarray) -> np.ndarray:
    """exp of every entry, as kernels take it: float32 in [-87.3, 88.3], float64 in [-708, 0]."""
    out = np.empty_like(x)
    (library.exp_float_of if x.dtype == np.float32 else library.exp_double_of)(x.size, x, out)
    return out


def rbf_values(G: np.ndarray, a: np.ndarray, b: np.ndarray, gamma: float) -> None:
    """`exp(-gamma |x_i - z_j|^2)` in place of the (rows, columns) inner products G; a, b are the
    squares."""
    library.rbf_values(*G.shape, G, a, b, gamma)


def kernel_sums(
    kind: int, degree: int, gamma: float, coef0: float, a: np.ndarray, own: np.ndarray,
    c: NDArray[np.float64], x: np.ndarray, squares: np.ndarray, start: int, out: NDArray[np.float64],
) -> None:  # fmt: skip
    """`out_j += sum_i c_i k(a_i, x_(start + j))`.

    Parameters
    ----------
    kind : of `KINDS`; degree, gamma, coef0 : of the kernel
    a, own : (count, features) samples and (count,) gamma times their squares, float64 or float32
    c : (count,) their weights
    x, squares : (features, samples) and (samples,), as a and own
    out : (count of columns,)
    """
    run = library.kernel_sums_float if x.dtype == np.float32 else library.kernel_sums_double
    run(
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
    """`s += sum_i d_i x_i` over the rows of a CSR matrix and, to H, of every pair of entries of
    `sum_i d_i x_i x_i'` one of both."""
    library.add_outer(d.size, values, columns, starts, d, s.size, H, s)


def checksum(words: Ints | NDArray[np.int32]) -> tuple[int, int]:
    """A number that another order or another content of the words changes, and the bits of the largest
    absolute value, the words read as numbers of double precision."""
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
    """Take one BLAS thread for products and systems of an order below 500: with more, the threads of a
    busy machine wait for each other (measured: a Cholesky factor of order 192 took 283 ms, not 1).
    Products with fewer `entries` than that have one thread anyway."""
    alone = order >= 500 or entries < _ALONE
    return nullcontext() if alone else _pools().limit(limits=1, user_api="blas")
