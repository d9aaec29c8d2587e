"""Weighted sums over the rows of a dense or CSR table, and moments that merge over blocks and classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm import native
from ucm.data.deadline import check_time

Vec = NDArray[np.float64]
Matrix = Any
"""A dense array or a CSR matrix: their types share no protocol."""
_LONG = 500  # features above which one chunk takes more than some milliseconds
_PER_ENTRY = 2e-8  # seconds for an entry of a matrix of products: passes over it, and one chunk
CHUNK = 1 << 20  # entries of a temporary
_CONSTANT = 1e-14  # of the mean of a feature: a smaller deviation is rounding


def _chunks(count: int, n: int) -> list[slice]:
    """Return slices of `range(count)` rows of n entries, of about `CHUNK` entries each."""
    step = max(1, CHUNK // max(1, n))
    return [slice(i, min(i + step, count)) for i in range(0, count, step)]


def in_double(X: Matrix) -> Iterator[tuple[slice, Matrix]]:
    """Yield (slice of rows, rows in float64): all rows at once if X is float64, else in chunks."""
    if X.dtype == np.float64:
        yield slice(0, X.shape[0]), X
        return
    for rows in _chunks(*X.shape):
        yield rows, X[rows].astype(np.float64)


def row_norms(X: Matrix, center: Vec | None = None) -> Vec:
    """Return the Euclidean norms of the rows of `X - 1 center'`, or of X, without forming this matrix."""
    if sparse.issparse(X):
        squares = np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
        if center is not None:
            squares += center @ center - 2.0 * (X @ center)
        return np.sqrt(np.maximum(squares, 0.0))
    norms = np.empty(X.shape[0])
    for rows in _chunks(*X.shape):
        part = X[rows] if center is None else X[rows] - center
        norms[rows] = np.sqrt(np.einsum("ij,ij->i", part, part, dtype=np.float64))
    return norms


def weighted_sums(X: Matrix, d: Vec, center: Vec | None = None) -> tuple[NDArray[np.float64], Vec]:
    """Return `(X - 1 c')' diag(d) (X - 1 c')` and `(X - 1 c')' d` for d >= 0, c the `center` or 0."""
    if X.shape[1] > _LONG:
        check_time(_PER_ENTRY * X.shape[1] ** 2)
    return _sparse_sums(X, d, center) if sparse.issparse(X) else _dense_sums(X, d, center)


def _dense_sums(X: NDArray[np.float64], d: Vec, center: Vec | None) -> tuple[NDArray[np.float64], Vec]:
    """Return `weighted_sums` of a dense table, by chunks of the rows with d > 0, each times sqrt(d)."""
    n, rows = X.shape[1], np.flatnonzero(d)
    gram, s = np.zeros((n, n)), np.zeros(n)
    for chunk in _chunks(rows.size, n):
        if chunk.start:  # one chunk takes milliseconds
            check_time()
        chosen = chunk if rows.size == d.size else rows[chunk]  # a slice copies no rows
        roots = np.sqrt(d[chosen])
        part = X[chosen] if center is None else X[chosen] - center
        # in place where these rows are a copy: the memory of another one takes longer than the product
        part = np.multiply(part, roots[:, None], out=None if center is None else part)
        gram += part.T @ part
        s += roots @ part
    if n > _LONG:  # copies of the result take as long
        check_time()
    return gram, s


def _sparse_sums(X: Matrix, d: Vec, center: Vec | None) -> tuple[NDArray[np.float64], Vec]:
    """Return `weighted_sums` of a CSR matrix, without its centred rows, which would be dense.

    Compiled code sums `x_i x_i'`; a center enters by `X'DX - s c' - c s' + (1'd) c c'`, `s = X'd`. This loses
    digits where the center is large beside the range of a feature, which only a feature without zeros can
    have: its center is subtracted from the stored entries.
    """
    gram, s = np.zeros((X.shape[1], X.shape[1])), np.zeros(X.shape[1])
    entries, columns, starts = X.data, *(v.astype(np.int32, copy=False) for v in (X.indices, X.indptr))
    if center is not None:
        without_zeros = np.bincount(columns, minlength=s.size) == d.size
        subtracted = np.where(without_zeros, center, 0.0)
        if without_zeros.any():
            entries, center = entries - subtracted[columns], center - subtracted
    native.library.add_outer(d.size, entries, columns, starts, np.ascontiguousarray(d), s.size, gram, s)
    gram += gram.T  # a row's columns may come in any order
    np.einsum("ii->i", gram)[...] *= 0.5
    if center is not None and center.any():
        cross = np.outer(s, center)
        gram += d.sum() * np.outer(center, center) - cross - cross.T
        s -= d.sum() * center
    return gram, s


def exact_mean(X: NDArray[np.float64], mean: Vec) -> Vec:
    """Set the mean of each constant feature to its exact value, in place, and return the mean."""
    close = np.flatnonzero(np.abs(mean - X[0]) <= _CONSTANT * np.abs(X[0]))
    constant = close[(X[:, close] == X[0, close]).all(axis=0)]
    mean[constant] = X[0, constant]
    return mean


def without_constant(S: NDArray[np.float64], mean: Vec) -> NDArray[np.float64]:
    """Set to 0, in place, covariances of features whose deviation is rounding of the mean, and return S."""
    constant = np.sqrt(np.abs(np.diagonal(S))) <= _CONSTANT * np.abs(mean)
    S[constant], S[:, constant] = 0.0, 0.0
    return S


class Moments(NamedTuple):
    """The total weight, mean and scatter matrix of weighted samples."""

    total: float  # the sum of the weights c_i
    mean: Vec
    scatter: NDArray[np.float64]  # (n, n) `sum_i c_i (x_i - mean)(x_i - mean)'`

    @classmethod
    def of(cls, X: Matrix, weights: Vec | None = None) -> Moments:
        """Return the moments of the rows of X, at least one, with optional weights."""
        c = np.ones(X.shape[0]) if weights is None else weights
        count = float(c.sum())
        mean = np.asarray(X.T @ c).ravel() / count
        return cls(count, mean, weighted_sums(X, c, mean)[0])

    def merged(self, other: Moments) -> Moments:
        """Return the moments of the union with other samples, without cancellation.

        Chan, Golub and LeVeque (1983), equation 2.1:
        `S = S_1 + S_2 + (m_1 m_2 / m) (mean_1 - mean_2)(mean_1 - mean_2)'`.
        """
        count = self.total + other.total
        d = other.mean - self.mean
        mean = self.mean + (other.total / count) * d
        scatter = self.scatter + other.scatter
        scatter += (self.total * (other.total / count)) * np.outer(d, d)
        return Moments(count, mean, scatter)

    @property
    def covariance(self) -> NDArray[np.float64]:
        """The 1/m covariance `scatter / total`; exactly 0 for a feature that varies by rounding only."""
        return without_constant(self.scatter / self.total, self.mean)
