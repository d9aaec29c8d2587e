"""The number of BLAS threads of a solver."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["blas_threads"]

_ALONE = 9000  # entries of a matrix below which OpenBLAS takes one thread


@functools.cache
def _pools() -> Any:
    return ThreadpoolController()


def blas_threads(order: int, entries: int = _ALONE) -> AbstractContextManager[Any]:
    """Take one BLAS thread for products and systems of an order below 500: with more, the threads of a
    busy machine wait for each other (measured: a Cholesky factor of order 192 took 283 ms, not 1).
    Products with fewer `entries` than that have one thread anyway."""
    alone = order >= 500 or entries < _ALONE
    return nullcontext() if alone else _pools().limit(limits=1, user_api="blas")
