"""Products with the matrix of an RBF kernel, tile by tile: it is never stored."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm import numerics
from ucm.data.linear import Vec
from ucm.data.source import processors
from ucm.errors import DataError

__all__ = ["Tiles"]

_ROWS, _CACHED = 256, 1 << 18  # rows of a tile, entries of the samples in its columns
_INDICES = 2**31 - 1
_LONG = 1 << 26  # entries from which a second thread is worth its start


class Tiles:
    """Samples as tiles of an RBF kernel take them.

    Dense ones are taken from their mean on: distances stay, and less of them is lost.

    Parameters
    ----------
    X : (m, n) array or CSR matrix
    gamma : of `exp(-gamma |a - b|^2)`
    """

    def __init__(self, X: Any, gamma: float) -> None:
        self.X: Any = X
        if sparse.issparse(X):
            if max(X.nnz, X.shape[1]) > _INDICES:
                raise DataError(
                    f"X: expected at most {_INDICES} features and as many entries behind a kernel, got "
                    f"{X.shape[1]} and {X.nnz}; take fewer samples, or leave out columns that never occur"
                )
            index = [v.astype(np.int32, copy=False) for v in (X.indices, X.indptr)]
            self.X = sparse.csr_matrix((X.data, *index), X.shape)
            squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
        else:
            self.X = X - X.mean(axis=0)
            squares = np.einsum("ij,ij->i", self.X, self.X)
        self.squares, self.twice = gamma * squares, 2.0 * gamma

    def sums(self, rows: NDArray[np.intp], c: Vec, columns: NDArray[np.intp] | None) -> Vec:
        """`sum_k c_k K[rows_k, columns]`, of all samples for None."""
        A, a = self.X[rows], self.squares[rows]
        B, b = self.X, self.squares
        if columns is not None:
            B, b = B[columns], b[columns]
        out = np.zeros(b.size)

        def add(part: slice) -> None:
            other = B[part].T
            if sparse.issparse(A):
                other = np.ascontiguousarray(other.toarray())
            for own in _steps(a.size, _ROWS):
                if sparse.issparse(A):
                    G = np.empty((own.stop - own.start, other.shape[1]))
                    ends = A.indptr[own.start : own.stop + 1]
                    numerics.sparse_products(A.data, A.indices, ends, other, G)
                else:
                    G = A[own] @ other
                numerics.rbf_sums(G, a[own], b[part], c[own], self.twice, out[part])

        parts = list(_steps(b.size, int(np.clip(_CACHED // max(1, B.shape[1]), 64, 1024))))
        one = os.environ.get("OMP_NUM_THREADS") == "1" or processors() == 1
        if one or a.size * b.size < _LONG:
            for part in parts:
                add(part)
        else:
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(add, parts))
        return out


def _steps(size: int, step: int) -> Iterator[slice]:
    for i in range(0, size, step):
        yield slice(i, min(i + step, size))
