"""Weighted sums of kernel values that are never stored."""

from __future__ import annotations

import functools
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm import native
from ucm.data.kernels import Kernel
from ucm.data.linear_map import Matrix, Vec
from ucm.data.source import processors

__all__ = ["KernelSums"]

_KINDS = {"linear": "linear", "poly": "poly", "rbf": "rbf"}
_FILLED = (
    0.5  # share of the entries that are not 0, from which on they are taken from their mean on
)
_FAR = 50.0  # largest gamma |x|^2 for which inner products in float32 leave the exponent to 1e-5
_LONG = 1 << 26  # kernel values from which a second thread is worth its start
_PART = 1 << 23  # kernel values that one call computes: some 20 ms


class KernelSums:
    """The samples in the layout of the compiled code, one feature a row, and sums of kernel values over them.

    Behind an RBF kernel samples with few zeros are taken from their mean on: distances stay, and rounding
    is less.

    Parameters
    ----------
    X : (m, n) array or CSR matrix
    kernel : rbf, poly or linear

    Attributes
    ----------
    X, squares : (n, m) and (m,) gamma times the squares, float64
    kind : of `native.KINDS`, for float32, in which distances between samples lose less than inner products
    """

    def __init__(self, X: Matrix, kernel: Kernel) -> None:
        self.kernel = kernel
        filled = (X.nnz if sparse.issparse(X) else np.count_nonzero(X)) >= _FILLED * X.shape[
            0
        ] * X.shape[1]
        X = X.toarray() if sparse.issparse(X) else X
        rbf = kernel.name == "rbf"
        self.X = np.ascontiguousarray(
            (X - X.mean(axis=0) if rbf and filled else X).T, dtype=np.float64
        )
        self.squares = kernel.gamma * np.einsum("ij,ij->j", self.X, self.X)
        far = filled or float(self.squares.max(initial=0.0)) > _FAR
        self.kind = native.KINDS["rbf by distances" if rbf and far else kernel.name]

    @staticmethod
    def takes(X: Matrix, kernel: Kernel, limit: int) -> bool:
        """True if the compiled code has the kernel, and `limit` bytes hold the samples."""
        return kernel.name in _KINDS and 8 * X.shape[0] * X.shape[1] <= limit

    @functools.cached_property
    def single(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """X and the squares in float32."""
        return self.X.astype(np.float32), self.squares.astype(np.float32)

    def sums(
        self, rows: NDArray[np.intp], c: Vec, columns: NDArray[np.intp] | None = None, single: bool = False
    ) -> Vec:  # fmt: skip
        """`sum_k c_k K[rows_k, columns]`, of all samples for None; in float32 where an error of 1e-6
        does."""
        X, squares = self.single if single else (self.X, self.squares)
        A, a = np.ascontiguousarray(X[:, rows].T), squares[rows]
        B, b = (
            (X, squares)
            if columns is None
            else (np.ascontiguousarray(X[:, columns]), squares[columns])
        )
        kind = self.kind if single else native.KINDS[self.kernel.name]
        c, k = np.ascontiguousarray(c), self.kernel
        out = np.zeros(b.size)

        def add(part: slice) -> None:
            native.kernel_sums(
                kind, k.degree, k.gamma, k.coef0, A, a, c, B, b, part.start, out[part]
            )

        step = max(256, _PART // max(1, rows.size) // 256 * 256)
        parts = [slice(i, min(i + step, b.size)) for i in range(0, b.size, step)]
        one = os.environ.get("OMP_NUM_THREADS") == "1" or processors() == 1
        if one or rows.size * b.size < _LONG:
            for part in parts:
                add(part)
        else:
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(add, parts))
        return out
