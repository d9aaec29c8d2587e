"""Quadratic functions plus the support function of a box, by coordinate descent and Newton steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.native.binding import library, point, structure

_BUDGET = 2e7  # multiplications of one call, some 20 ms
Vector = NDArray[np.float64]


def boxed_quadratic(
    H: NDArray[np.float64],
    r: Vector,
    x: Vector,
    lower: Vector,
    upper: Vector,
    ridge: float,
    tol: float,
    most: int,
    timed_out: Callable[[], bool],
) -> None:
    """Minimise `x'Hx / 2 + <r0, x> + ridge |x|^2 / 2 + sup of <x, s> over lower <= s <= upper` from x on.

    Parameters
    ----------
    H : (n, n), symmetric
    r : (n,) the gradient of the quadratic part at x without its ridge, which is kept
    x : (n,)
    lower, upper : (n,) with lower <= 0 <= upper
    tol : by how much a slope may leave its walls
    most : rounds at most
    timed_out : whether to stop, asked between calls
    """
    n = x.size
    arrays = {
        "H": H, "r": r, "x": x, "lower": lower, "upper": upper, "system": np.empty((n, n)), "d": np.empty(n),
        "support": np.empty(n, dtype=np.int64),
    }  # fmt: skip
    _run(arrays, {"n": n, "ridge": ridge, "tol": tol, "left": most}, timed_out)


def boxed_columns(
    X: Any,
    h: Vector,
    mean: Vector,
    mass: float,
    r: Vector,
    x: Vector,
    lower: Vector,
    upper: Vector,
    ridge: float,
    tol: float,
    most: int,
    timed_out: Callable[[], bool],
) -> None:
    """Minimise as `boxed_quadratic`, with `H = (X - 1 mean')' diag(h) (X - 1 mean')`, which is not formed.

    Parameters
    ----------
    X : (m, n), CSC or an array in the order of Fortran
    h, mean, mass : (m,) weights, (n,) the mean of the rows by them, and their sum
    r : (n,) the gradient of the quadratic part at the first x without its ridge
    """
    m, n = X.shape
    if isinstance(X, np.ndarray):
        values, rows, starts = X.T, None, None
        squares = np.einsum("ji,i,ji->j", values, h, values)
    else:
        rows, starts = (v.astype(np.int32, copy=False).view(np.uint32) for v in (X.indices, X.indptr))
        values, squares = X.data, np.asarray(X.multiply(X).T @ h)
    arrays = {
        "values": values, "rows": rows, "starts": starts, "h": h, "mean": mean, "v": np.zeros(m), "r": r,
        "x": x, "lower": lower, "upper": upper, "diagonal": np.maximum(squares - mass * mean**2, 0.0),
    }  # fmt: skip
    numbers = {"n": n, "m": m, "mass": mass, "ridge": ridge, "tol": tol, "left": most}
    _run(arrays, numbers, timed_out)


def _run(arrays: dict[str, Any], numbers: dict[str, float], timed_out: Callable[[], bool]) -> None:
    """Call the compiled function until it is done or the time is over."""
    state: Any = np.zeros((), structure("quadratic_t"))
    for name, number in numbers.items():
        state[name] = number
    point(state, "quadratic_t", **arrays)
    while not timed_out() and not library.minimise_quadratic(state, _BUDGET):
        pass
