"""Sums of kernel values that are not kept, in float64 or float32."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.native.binding import library

__all__ = ["KINDS", "exponentials", "kernel_sums", "rbf_values"]

KINDS = {"given": 0, "linear": 1, "poly": 2, "rbf": 3, "rbf by distances": 4}
"""`exp(-gamma |a - b|^2)` from inner products, or from differences: the second loses less to rounding."""


def exponentials(x: NDArray[Any]) -> NDArray[Any]:
    """exp of every entry, as kernels take it: float32 in [-87.3, 88.3], float64 in [-708, 0]."""
    out = np.empty_like(x)
    (library.exp_float_of if x.dtype == np.float32 else library.exp_double_of)(x.size, x, out)
    return out


def rbf_values(G: NDArray[Any], a: NDArray[Any], b: NDArray[Any], gamma: float) -> None:
    """`exp(-gamma |x_i - z_j|^2)` in place of the (rows, columns) inner products G; a, b are the
    squares."""
    library.rbf_values(*G.shape, G, a, b, gamma)


def kernel_sums(
    kind: int, degree: int, gamma: float, coef0: float, a: NDArray[Any], own: NDArray[Any],
    c: NDArray[np.float64], x: NDArray[Any], squares: NDArray[Any], start: int, out: NDArray[np.float64],
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
