"""Gram matrices with entries, products and sums on demand, Cholesky factors, and kernel expansions."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from ucm import native
from ucm.data.kernels import MEGABYTE, Kernel
from ucm.data.linear_map import Matrix, Vec
from ucm.errors import DataError, ParameterError
from ucm.native.threads import in_parts

Float = NDArray[np.float32]
KINDS = {"given": 0, "linear": 1, "poly": 2, "rbf": 3, "rbf by distances": 4}
"""The kernels of `native.h`; by distances, `exp(-gamma |a - b|^2)` loses less to rounding."""

_COMPILED = ("linear", "poly", "rbf")
_FILLED = 0.5  # least density at which samples are centred
_FAR = 50.0  # largest gamma |x|^2 for which inner products in float32 leave the exponent to 1e-5,
_FAR_BLOCKS = 500.0  # and to 1e-4: a round more costs less than rows one by one
_LARGE = 1 << 25  # kernel values times features from which several threads gain
_PART = 1 << 23  # kernel values that one call computes: some 20 ms
_LONG = 16  # features from which products by BLAS gain in sums,
_WIDE = 100  # and for rows, whose working sets take more pair updates
_HEIGHT = 128  # rows of one such product
_COLUMNS = 512  # of kernels.c
_PARTS = 32  # parts of sums between two sums of their mirrors
_SHARE = 8  # the part of the samples that are rows of sums from which symmetry gains, inverted
_DENSE = 0.05  # density of a CSR matrix above which products of its rows are faster dense


def check_gram(K: Matrix) -> None:
    """Raise `DataError` unless a precomputed Gram matrix is dense, square and symmetric."""
    if sparse.issparse(K) or K.shape[0] != K.shape[1]:
        shape = "a sparse matrix" if sparse.issparse(K) else f"shape {K.shape}"
        raise DataError(
            f'kernel="precomputed": X is the dense (m, m) matrix of k(x_i, x_j), got {shape}; '
            "compute it for all pairs of samples"
        )
    top = float(np.abs(K).max(initial=0.0))
    if float(np.abs(K - K.T).max(initial=0.0)) > 1e-8 * top:
        raise DataError(
            'kernel="precomputed": the matrix is not symmetric; a kernel is: '
            "use (K + K.T) / 2 if the difference is rounding"
        )


def pivoted_factor(K: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return the pivoted Cholesky factor F (m, r), `F F' = K`, of K of numerical rank r, and the pivots.

    The rows of F at the first r pivots are a lower triangle. For K = 0, F is a column of zeros.
    """
    if not K.any():
        return np.zeros((K.shape[0], 1)), np.arange(K.shape[0])
    top = float(np.diagonal(K).max(initial=0.0))
    tolerance = max(K.shape[0], 10) * np.finfo(float).eps * max(top, 0.0)
    lapack: Any = linalg.lapack
    L, pivots, rank, _ = lapack.dpstrf(np.asfortranarray(K), tol=tolerance, lower=1)
    L = np.tril(L)[:, :rank]
    F = np.empty((K.shape[0], rank))
    F[pivots - 1] = L
    return F, (pivots - 1).astype(np.intp)


@dataclass(frozen=True)
class Columns:
    """The samples, gamma times their squares, and how compiled code computes rows from them.

    X : (m, n) where products by BLAS take them, else (n, m), for loops over many samples
    squares : (m,)
    kind : of `KINDS`, for single rows in float32; "given" where rows come many at a time
    height : rows of one product of BLAS in sums; 1 where rows are computed without it, one by one
    """

    X: NDArray[np.float64]
    squares: Vec
    kind: int
    height: int

    def of(self, samples: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the samples with the given indices, (k, n)."""
        return self.X[samples] if self.height > 1 else self.X.take(samples, axis=1).T


def sliced(n: int, step: int) -> list[slice]:
    """Return the slices of `range(n)`, each of `step` entries but for the last."""
    return [slice(i, min(i + step, n)) for i in range(0, n, step)]


class Gram:
    """The Gram matrix of m samples, with entries computed on demand and a cache of the last product.

    X holds the samples, or the (m, m) matrix itself for a precomputed kernel; `limit` is the largest number
    of bytes of the entries that a solver stores.
    """

    def __init__(self, kernel: Kernel, X: Matrix, limit: int = 200 * MEGABYTE) -> None:
        self.kernel, self.limit, self._given = kernel, limit, X
        self.m = X.shape[0]
        self.computed = 0  # entries so far
        self.given = kernel.name == "precomputed"
        self._last: tuple[Vec, Vec] | None = None  # coefficients, and their product

    @functools.cached_property
    def X(self) -> Matrix:
        """The samples, as a dense array where few entries are 0 and memory allows."""
        X, cells = self._given, self._given.shape[0] * self._given.shape[1]
        dense = sparse.issparse(X) and X.nnz > _DENSE * cells and 8 * cells <= self.limit
        return X.toarray() if dense and self.kernel.function is None else X

    @functools.cached_property
    def diagonal(self) -> Vec:
        """The k(x_i, x_i), (m,)."""
        return np.diagonal(self.X).copy() if self.given else self.kernel.diagonal(self.X)

    @property
    def description(self) -> str:
        """The kernel in words, with the assumption of bounds; "" for the linear kernel."""
        assumed = "" if self.kernel.definite else ", taken as positive semidefinite"
        return "" if self.kernel.name == "linear" else f"{self.kernel}{assumed}"

    @property
    def fits(self) -> bool:
        """True if the matrix is precomputed, or its size in bytes is at most `limit`."""
        return self.given or 8 * self.m * self.m <= self.limit

    @property
    def megabytes(self) -> float:
        """The size of the whole matrix in megabytes of 2^20 bytes."""
        return 8 * self.m**2 / MEGABYTE

    @functools.cached_property
    def columns(self) -> Columns | None:
        """The samples as compiled code takes them, or None: the kernel is not compiled or memory is short.

        For an RBF kernel, samples with few zeros are centred: distances stay, and rounding is less.
        """
        X, name, cells = self.X, self.kernel.name, self.X.shape[0] * self.X.shape[1]
        if name not in _COMPILED or 8 * cells > self.limit:
            return None
        filled = (X.nnz if sparse.issparse(X) else np.count_nonzero(X)) >= _FILLED * cells
        height = _HEIGHT if filled and X.shape[1] >= _LONG else 1
        X = X.toarray(order="C" if height > 1 else "F") if sparse.issparse(X) else X
        X = X - X.mean(axis=0) if name == "rbf" and filled else X
        squares = self.kernel.gamma * np.einsum("ij,ij->i", X, X)
        features, far = X.shape[1], float(squares.max(initial=0.0))
        blocks = filled and features >= _WIDE and (name != "rbf" or far <= _FAR_BLOCKS)
        by_distances = name == "rbf" and not blocks and (filled or far > _FAR)
        kind = KINDS["given" if blocks else "rbf by distances" if by_distances else name]
        return Columns(np.ascontiguousarray(X if height > 1 else X.T, np.float64), squares, kind, height)

    def between(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the submatrix `K[rows, columns]`, (len(rows), len(columns))."""
        if self.given:
            return self.X[np.ix_(rows, columns)]
        self.computed += rows.size * columns.size
        return self.kernel(self.X[rows], self.X[columns])

    def sums(self, rows: NDArray[np.intp], c: Vec, columns: NDArray[np.intp] | None = None) -> Vec:
        """Return `sum_k c_k K[rows_k, columns]` without storing entries; `columns` None means all samples."""
        if self.kernel.name == "linear":
            X = self.X if columns is None else self.X[columns]
            return np.asarray(X @ (self.X[rows].T @ c)).ravel()
        every, shared = np.arange(self.m) if columns is None else columns, 0
        if self.columns is None:
            out, step = np.zeros(every.size), max(1, MEGABYTE // max(1, every.size))
            for i in range(0, rows.size, step):
                out += c[i : i + step] @ self.between(rows[i : i + step], every)
            return out
        if columns is None:  # the rows as the first columns: of each pair of them one value is computed
            others = np.delete(every, rows)
            if rows.size + others.size == self.m <= _SHARE * rows.size:
                every, shared = np.append(rows, others), rows.size
        k, c, X, squares = self.kernel, np.ascontiguousarray(c), self.columns.X, self.columns.squares
        A, a, height = np.ascontiguousarray(self.columns.of(rows)), squares[rows], self.columns.height
        if shared or columns is not None:
            X, squares = self.columns.of(every), squares[every]
            X = X if height > 1 else np.ascontiguousarray(X.T)
        out, parts = np.zeros(every.size), np.zeros((_PARTS, shared))

        def add(at: tuple[int, slice]) -> None:
            (number, part), scratch = at, np.empty(height * _COLUMNS)
            native.library.kernel_sums(
                KINDS[k.name], k.degree, k.gamma, k.coef0, height, *A.shape, A, a, c, every.size, X, squares,
                part.start, part.stop - part.start, shared, out[part], parts[number], scratch,
            )  # fmt: skip

        step = max(_COLUMNS, _PART // max(1, rows.size) // _COLUMNS * _COLUMNS)
        slices = sliced(every.size, step)
        for some in sliced(len(slices), _PARTS):
            in_parts(add, enumerate(slices[some]), A.size * every.size >= _LARGE)
            out[:shared] += parts.sum(axis=0)
            parts[:] = 0.0
        later = np.arange(shared - _COLUMNS, 0, -_COLUMNS)  # rows that the columns of each block leave out
        self.computed += rows.size * every.size - _COLUMNS * int(later.sum())
        if shared:
            out[every] = out.copy()
        return out

    def blocks(
        self, A: Float, a: Float, slots: NDArray[np.int64], store: Float, X: Float, squares: Float
    ) -> None:
        """Write the rows of the kernel of samples A over samples X, in float32, into slots of a store."""
        k, kind, n = self.kernel, KINDS[self.kernel.name], X.shape[0]

        def fill(part: slice) -> None:
            scratch = np.empty(a.size * _COLUMNS, np.float32)
            start, count = part.start, part.stop - part.start
            native.library.kernel_block(
                kind, k.degree, k.gamma, k.coef0, *A.shape, A, a, slots, X, squares, start, count,
                n, store, scratch,
            )  # fmt: skip

        self.computed += a.size * n
        step = min(4 * _COLUMNS, max(_COLUMNS // 2, n // 4))
        in_parts(fill, sliced(n, step), A.size * n >= _LARGE)

    def follow(self, coefficients: Vec) -> Vec:
        """Return `K c`, and keep it, by an update of the last product for the entries of c that changed."""
        last = self._last  # read once, as other threads replace it
        before, product = (np.zeros(self.m),) * 2 if last is None else last
        changed = np.flatnonzero(coefficients != before)
        if changed.size >= np.count_nonzero(coefficients):
            before, product = (np.zeros(self.m),) * 2
            changed = np.flatnonzero(coefficients)
        product = product + self.sums(changed, (coefficients - before)[changed])
        self._last = coefficients.copy(), product
        return product

    def times(self, coefficients: Vec) -> Vec:
        """Return `K c` from the columns with c != 0, or the last product if c is the same."""
        last = self._last  # read once, as other threads replace it
        if last is None or not np.array_equal(last[0], coefficients):
            support = np.flatnonzero(coefficients)
            last = coefficients.copy(), self.sums(support, coefficients[support])
            self._last = last
        return last[1].copy()

    def matrix(self) -> NDArray[np.float64]:
        """Return the whole Gram matrix, dense (m, m); raise `ParameterError` beyond the memory limit."""
        if not self.fits:
            raise ParameterError(
                f"kernel: the Gram matrix of {self.m} samples takes "
                f"{self.megabytes:.0f} MB and cache_size allows "
                f"{self.limit / MEGABYTE:.0f}; take features in place of the kernel, kernel_approx=500 "
                "(Nystroem), or raise cache_size of ucm.compile"
            )
        if self.given:
            return self.X
        self.computed += self.m**2
        X = self.X
        if not sparse.issparse(X):
            return self.kernel(X, X)  # BLAS computes one half of the products
        step = max(1, MEGABYTE // self.m)
        return np.concatenate([self.kernel(X[i : i + step], X) for i in range(0, self.m, step)])

    def factor(self) -> NDArray[np.float64]:
        """Return F (m, r) with `F F' = K` to rounding, r the numerical rank, by pivoted Cholesky.

        The rows of F are the samples in an orthonormal basis of their own span, so every model of
        samples over these rows is the model in the feature space of the kernel, exactly.

        Raises `ParameterError` if the matrix is larger than the memory limit, and `DataError` if the kernel
        is indefinite: it has no feature space.
        """
        K = np.asarray(self.matrix())
        top = float(np.diagonal(K).max(initial=0.0))
        F, self._pivots = pivoted_factor(K)
        error = float(np.abs(F @ F.T - K).max())
        if not error <= 1e-9 * max(top, float(np.abs(K).max())):
            raise DataError(
                f"kernel: the Gram matrix is indefinite (a factor misses it by {error:.2g}, entries "
                f"up to {np.abs(K).max():.2g}), so there is no feature space; use a positive "
                "semidefinite kernel such as rbf, or project the matrix on its positive eigenvalues"
            )
        return F

    def combination(self, F: NDArray[np.float64], v: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return c, (m,) or (m, k), with `F'c = v`, nonzero only at the pivots of the last `factor`."""
        rows = self._pivots[: F.shape[1]]
        c = np.zeros((self.m, *v.shape[1:]))
        if v.any():
            c[rows] = linalg.solve_triangular(F[rows], v, lower=True, trans=1, check_finite=False)
        return c

    def spectral(self) -> NDArray[np.float64]:
        """Return the symmetric root E (m, m), `E E = K`, from the eigenvalues, for reference solutions."""
        values, vectors = np.linalg.eigh(np.asarray(self.matrix()))
        return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


@dataclass(frozen=True)
class Expansion:
    """The kernel expansion `f(x) = sum_i c_i k(x_i, x)`, c (k,), or (k, r) for r functions."""

    kernel: Kernel
    coefficients: NDArray[np.float64]
    samples: Matrix  # the x_i in rows, or None for a precomputed kernel
    support: NDArray[np.intp]  # (k,) indices of the x_i among the m samples of the fit
    m: int

    @classmethod
    def of(cls, kernel: Kernel, X: Matrix, coefficients: NDArray[np.float64]) -> Expansion:
        """Return the kernel expansion over the samples with nonzero coefficients."""
        support = np.flatnonzero(coefficients if coefficients.ndim == 1 else coefficients.any(axis=1))
        samples = None if kernel.name == "precomputed" else X[support]
        return cls(kernel, coefficients[support], samples, support, X.shape[0])

    def scores(self, X: Matrix) -> NDArray[np.float64]:
        """Return f at the rows of X, which for a precomputed kernel hold k(x, x_i) for all m samples."""
        C = self.coefficients
        if self.kernel.name == "precomputed":
            if np.ndim(X) != 2 or X.shape[1] != self.m:
                raise DataError(
                    f'kernel="precomputed": expected k(x, x_i) for all {self.m} samples of the fit, '
                    f"got shape {np.shape(X)}; pass an array of shape (rows, {self.m})"
                )
            return np.asarray(X[:, self.support] @ C)
        if X.shape[1] != self.samples.shape[1]:
            raise DataError(
                f"X: expected the {self.samples.shape[1]} features of the samples, got {X.shape[1]}; "
                "give the features of the fit"
            )
        k, out = self.samples.shape[0], np.zeros((X.shape[0], *C.shape[1:]))

        def fill(part: slice) -> None:
            out[part] = self.kernel(X[part], self.samples) @ C

        parts = sliced(X.shape[0] if k else 0, max(1, MEGABYTE // max(1, k)))
        if self.kernel.function is None:
            in_parts(fill, parts, X.shape[0] * k * X.shape[1] >= _LARGE)
        else:  # it may be no function for several threads, and takes those of BLAS
            for part in parts:
                fill(part)
        return out
