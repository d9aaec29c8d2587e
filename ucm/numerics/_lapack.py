"""BLAS and LAPACK inside compiled code, by the names of SciPy's Cython symbols.

A symbol that is registered by name survives the disk cache; a pointer does not. Matrices are
row-major here and column-major there, so the upper triangle of one is the lower one of the other.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding
import numpy as np
from numba import types
from numba.extending import get_cython_function_address

from ucm.numerics._jit import f8, inner

__all__ = ["SQUARE", "add_rows", "cholesky_solve"]

SQUARE = types.Array(f8, 2, "C")
_CHAR, _INT, _REAL = (types.CPointer(t) for t in (types.uint8, types.int32, f8))


def _external(module: str, name: str, *arguments: types.Type) -> Any:
    address = get_cython_function_address(f"scipy.linalg.{module}", name)
    llvmlite.binding.add_symbol(f"ucm_{name}", address)
    return types.ExternalFunction(f"ucm_{name}", types.void(*arguments))


_dsyrk = _external(
    "cython_blas", "dsyrk", _CHAR, _CHAR, _INT, _INT, _REAL, _REAL, _INT, _REAL, _REAL, _INT
)
_dpotrf = _external("cython_lapack", "dpotrf", _CHAR, _INT, _REAL, _INT, _INT)
_dpotrs = _external("cython_lapack", "dpotrs", _CHAR, _INT, _INT, _REAL, _INT, _REAL, _INT, _INT)
_LOWER, _AS_IS = ord("L"), ord("N")


@inner()
def add_rows(rows, count, factor, H):
    """The upper triangle of `H + factor R'R`, R the first `count` rows."""
    if count == 0:
        return
    flags = np.empty(2, dtype=np.uint8)
    flags[0], flags[1] = _LOWER, _AS_IS
    sizes = np.empty(2, dtype=np.int32)
    sizes[0], sizes[1] = H.shape[0], count
    scalars = np.empty(2)
    scalars[0], scalars[1] = factor, 1.0
    n, k = sizes[0:].ctypes, sizes[1:].ctypes
    _dsyrk(
        flags[0:].ctypes, flags[1:].ctypes, n, k, scalars[0:].ctypes, rows.ctypes, n,
        scalars[1:].ctypes, H.ctypes, n,
    )  # fmt: skip


@inner()
def cholesky_solve(H, d):
    """`d <- H^-1 d` by the upper triangle of H, which its factor replaces; False when H is not
    positive definite. d holds one right-hand side or several, one after the other."""
    flag = np.empty(1, dtype=np.uint8)
    flag[0] = _LOWER
    sizes = np.empty(3, dtype=np.int32)
    sizes[0], sizes[1], sizes[2] = H.shape[0], d.size // H.shape[0], 0
    n, sides, info = sizes[0:].ctypes, sizes[1:].ctypes, sizes[2:].ctypes
    _dpotrf(flag.ctypes, n, H.ctypes, n, info)
    if sizes[2] != 0:
        return False
    _dpotrs(flag.ctypes, n, sides, H.ctypes, n, d.ctypes, n, info)
    return True
