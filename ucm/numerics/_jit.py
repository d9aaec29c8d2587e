"""How functions are compiled: cached on disk where possible, with explicit signatures.

Vectors that are only read have a read-only type, so that read-only and writable arguments share one
compiled version. In a `reduction`, sums may be reassociated (they vectorise); NaN and inf keep
their meaning. Elsewhere the order of operations is kept: `(v - ref) - shift` must not become
`v - (ref + shift)`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numba
from numba import types

__all__ = ["READ", "WRITE", "f8", "i8", "inner", "jit"]

READ = types.Array(types.float64, 1, "C", readonly=True)
WRITE = types.Array(types.float64, 1, "C")
f8, i8 = types.float64, types.int64


def _options(reduction: bool) -> dict[str, Any]:
    return {
        "fastmath": {"reassoc", "contract", "nsz"} if reduction else False,
        "error_model": "numpy",
        "nogil": True,
        "no_cfunc_wrapper": True,
    }


def jit(
    signature: Any, *, reduction: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`numba.njit` with the flags of this package; without a disk cache where none can be written or read: a
    folder that goes away meanwhile, a file that another process left half."""

    def compile_(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            return numba.njit(signature, cache=True, **_options(reduction))(function)
        except (OSError, EOFError, pickle.UnpicklingError):
            pass
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
        return numba.njit(signature, **_options(reduction))(function)

    return compile_


def inner(
    *, reduction: bool = False, inline: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A function that only compiled functions call. It is compiled into them, and so neither loaded
    when they come from the disk cache nor wrapped for Python.

    `inline` puts it into its caller before compiling: a large one with one caller is then optimised
    once, not by itself and again as part of the caller (hull.march: 9.6 s of compiling, not 12.3). It
    takes over the caller's flags, so a reduction stays outside.
    """
    options: Any = _options(reduction) | {"no_cpython_wrapper": True}
    return numba.njit(**options, inline="always" if inline else "never")
