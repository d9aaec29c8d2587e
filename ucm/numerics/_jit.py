"""How functions are compiled: cached on disk where possible, with explicit signatures.

Vectors that are only read have a read-only type, so that read-only and writable arguments share one
compiled version. In a `reduction`, sums may be reassociated (they vectorise); NaN and inf keep
their meaning. Elsewhere the order of operations is kept: `(v - ref) - shift` must not become
`v - (ref + shift)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba import types

__all__ = ["READ", "WRITE", "f8", "i8", "jit"]

READ = types.Array(types.float64, 1, "C", readonly=True)
WRITE = types.Array(types.float64, 1, "C")
f8, i8 = types.float64, types.int64


def jit(
    signature: Any, *, reduction: bool = False, inner: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`numba.njit` with the flags of this package; without a disk cache where none is writable.

    An `inner` function is called by compiled code only: it needs no wrapper for Python, which takes a
    good part of the time to compile.
    """

    def compile_(function: Callable[..., Any]) -> Callable[..., Any]:
        options: dict[str, Any] = {
            "fastmath": {"reassoc", "contract", "nsz"} if reduction else False,
            "error_model": "numpy",
            "nogil": True,
            "no_cpython_wrapper": inner,
            "no_cfunc_wrapper": True,
        }
        try:
            return numba.njit(signature, cache=True, **options)(function)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            return numba.njit(signature, **options)(function)

    return compile_
