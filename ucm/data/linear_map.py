"""Linear maps from parameters to features: samples, matrices, identity, zero, compositions, stacks.

The abstract map has the methods of SciPy's `LinearOperator`.
"""

from __future__ import annotations

import functools
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.moments import Matrix, Vec, row_norms, weighted_sums

_RANK = 8.0  # multiple of the rounding of eigenvalues below which they are 0 in a root


def column_ends(X: Matrix) -> tuple[Vec, Vec]:
    """Return the least and the largest entry of each feature, (n,), without a copy of X."""
    low, high = (np.ravel(as_dense(v)).astype(np.float64) for v in (X.min(axis=0), X.max(axis=0)))
    return low, high


def column_sizes(X: Matrix) -> Vec:
    """Return the largest absolute entry of each feature, 1 for a feature of zeros."""
    low, high = column_ends(X)
    top = np.maximum(high, -low)
    return np.where(top > 0.0, top, 1.0)


class LinearMap(ABC):
    """Abstract linear map A from R^d to the feature space R^n; one pass is one `matvec` and one `rmatvec`.

    A subclass defines `matvec`, `rmatvec` and the three attributes. Maps of samples also override the other
    methods, whose defaults compute with the dense matrix.
    """

    shape: tuple[int, int]
    entries: int  # multiplications in one product, the cost that passes are counted in
    squares: float  # multiplications in `weighted_gram` over all columns

    @abstractmethod
    def matvec(self, q: Vec) -> Vec:
        """Return `A q`, shape (n,)."""

    @abstractmethod
    def rmatvec(self, w: Vec) -> Vec:
        """Return `A' w`, shape (d,)."""

    def matmat(self, q: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return `A q` for a dense q of shape (d, r) or (d,)."""
        return self.matvec(q) if q.ndim == 1 else np.stack([self.matvec(c) for c in q.T], axis=1)

    def matrix(self) -> Matrix:
        """Return the matrix A, dense or CSR, for conic solvers, tests, and defaults of other methods."""
        return self.matmat(np.eye(self.shape[1]))

    def column_norms(self) -> Vec:
        """Return the Euclidean norms of the columns of A, shape (d,)."""
        return row_norms(self.matrix().T)

    def weighted_gram(self, d: Vec) -> NDArray[np.float64]:
        """Return `A diag(d) A'`, dense (n, n), for d >= 0; columns with d = 0 are not touched."""
        nonzero = np.flatnonzero(d)
        M = self.matrix()[:, nonzero] * np.sqrt(d[nonzero])
        return M @ M.T

    def sizes(self, q: Vec) -> Vec:
        """Return `|A| |q|`, shape (n,), the scale of the rounding error in `A q`."""
        return np.asarray(abs(self.matrix()) @ np.abs(q))

    def scaled(self, factor: float) -> LinearMap:
        """Return the linear map `factor A`, with nested factors multiplied into one factor."""
        return self if factor == 1.0 else ComposedMap(self, None, factor)

    def without_factor(self) -> tuple[LinearMap, float]:
        """Return (B, f) with `A = f B`; (A, 1.0) if A is no plain multiple of another map."""
        return self, 1.0


def as_dense(X: Matrix) -> NDArray[np.float64]:
    """Return a table as an array."""
    return X.toarray() if sparse.issparse(X) else X


def stored_entries(X: Matrix) -> int:
    """Return the number of stored entries of a dense or sparse matrix."""
    return int(X.nnz) if sparse.issparse(X) else X.size


class RowMap(LinearMap):
    """The linear map `q -> sum_i s_i q_i (x_i - c)` for vectors x_i in the rows of a matrix.

    X is a (d, n) array or CSR matrix, which is not copied, s (d,) factors of the rows, or one factor of all,
    None for 1, and c (n,) the center, None for 0.
    """

    def __init__(self, X: Matrix, s: Vec | float | None = None, c: Vec | None = None) -> None:
        self.X, self.s, self.c = X, s, c
        self.shape = (X.shape[1], X.shape[0])
        self.entries = stored_entries(X)
        if not sparse.issparse(X):
            self.squares = 0.5 * X.shape[0] * X.shape[1] ** 2
        else:  # half the square of the entries of each row
            counts = np.diff(X.indptr).astype(np.float64)
            self.squares = 0.5 * float(counts @ counts)

    def _scaled(self, v: NDArray[np.float64]) -> NDArray[np.float64]:
        return v if self.s is None else (self.s * v.T).T

    def rmatvec(self, w: Vec) -> Vec:
        scores = self.X @ w
        if self.c is not None:
            scores -= self.c @ w
        return self._scaled(scores)

    def column_norms(self) -> Vec:
        return np.abs(self._scaled(row_norms(self.X, self.c)))

    def matmat(self, q: NDArray[np.float64]) -> NDArray[np.float64]:
        q = self._scaled(q)
        product = self.X.T @ q
        return product if self.c is None else product - np.multiply.outer(self.c, q.sum(axis=0))

    matvec = matmat

    @functools.cached_property
    def _gram(self) -> NDArray[np.float64]:
        return self._weighted_gram(np.ones(self.shape[1]))

    def weighted_gram(self, d: Vec) -> NDArray[np.float64]:
        # The Jacobian of a projection onto a ball weighs all samples alike in each Newton step.
        return d[0] * self._gram if d.size and (d == d[0]).all() else self._weighted_gram(d)

    def _weighted_gram(self, d: Vec) -> NDArray[np.float64]:
        if self.s is not None and np.ndim(self.s) > 0:
            return weighted_sums(self.X, self._scaled(self._scaled(d)), self.c)[0]
        return self._scaled(self._scaled(weighted_sums(self.X, d, self.c)[0]))  # d = 1 needs no roots

    def matrix(self) -> Matrix:
        factors = self._scaled(np.ones(self.shape[1]))
        if sparse.issparse(self.X) and self.c is None:
            return sparse.csr_matrix(self.X.T @ sparse.diags_array(factors))
        dense = self.X.toarray() if sparse.issparse(self.X) else self.X
        return (dense if self.c is None else dense - self.c).T * factors

    def sizes(self, q: Vec) -> Vec:
        weights = np.abs(self._scaled(q))
        bound = np.asarray(abs(self.X).T @ weights)
        return bound if self.c is None else bound + np.abs(self.c) * weights.sum()


class SampleMap(RowMap):
    """The linear map `q -> sum_i s_i q_i x_i` for samples x_i in the rows of X, signs s_i (None: all +1)."""

    def __init__(self, X: Matrix, signs: Vec | None = None) -> None:
        super().__init__(X, signs)


def centered_map(X: Matrix, mean: Vec, counts: Vec | None = None) -> RowMap:
    """Return the linear map `q -> (X - 1 mean')' q / sqrt(m)`, a factor of the 1/m covariance.

    The centred samples are not formed. With sample weights c of mean 1, `q_i sqrt(c_i)` replaces q_i, and
    the map is a factor of the weighted covariance.
    """
    return RowMap(X, np.sqrt(1.0 / X.shape[0] if counts is None else counts / counts.sum()), mean)


class MatrixMap(RowMap):
    """The linear map `q -> M q` for an explicit matrix M.

    Parameters
    ----------
    M : (n, d) array or CSR matrix
        The matrix; an array is not copied.
    """

    def __init__(self, M: Matrix) -> None:
        super().__init__(sparse.csr_array(M.T) if sparse.issparse(M) else M.T)


class IdentityMap(LinearMap):
    """The linear map `q -> factor q` on R^n, a multiple of the identity."""

    def __init__(self, n: int, factor: float = 1.0) -> None:
        self.factor = factor
        self.shape, self.entries, self.squares = (n, n), n, 0.5 * n

    def matmat(self, q: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.factor * q

    matvec = matmat

    def rmatvec(self, w: Vec) -> Vec:
        return self.factor * w

    def scaled(self, factor: float) -> LinearMap:
        return IdentityMap(self.shape[0], factor * self.factor)

    def column_norms(self) -> Vec:
        return np.full(self.shape[1], abs(self.factor))

    def weighted_gram(self, d: Vec) -> NDArray[np.float64]:
        return np.diag(self.factor**2 * d)

    def matrix(self) -> Matrix:
        return self.factor * sparse.eye_array(self.shape[0], format="csr")


def zero_map(n: int, d: int) -> MatrixMap:
    """Return the zero map from R^d to R^n, for a parameter block that occurs only in couplings."""
    return MatrixMap(sparse.csr_array((n, d)))


class ComposedMap(LinearMap):
    """The linear map `q -> factor M (A q)`; M = None is the identity."""

    def __init__(self, inner: LinearMap, M: Matrix | None = None, factor: float = 1.0) -> None:
        self.inner, self.M, self.factor = inner, M, factor
        self.shape = (inner.shape[0] if M is None else M.shape[0], inner.shape[1])
        self.entries, self.squares = inner.entries, inner.squares
        if M is not None:  # M (A d A') M'
            self.entries += stored_entries(M)
            self.squares += float(stored_entries(M)) * (inner.shape[0] + M.shape[0])

    def rmatvec(self, w: Vec) -> Vec:
        return self.inner.rmatvec(self.factor * (w if self.M is None else self.M.T @ w))

    def matmat(self, q: NDArray[np.float64]) -> NDArray[np.float64]:
        x = self.inner.matmat(q)
        return self.factor * (x if self.M is None else self.M @ x)

    matvec = matmat

    def scaled(self, factor: float) -> LinearMap:
        return ComposedMap(self.inner, self.M, factor * self.factor)

    def without_factor(self) -> tuple[LinearMap, float]:
        return (self.inner, self.factor) if self.M is None else (self, 1.0)

    def column_norms(self) -> Vec:
        return abs(self.factor) * self.inner.column_norms() if self.M is None else super().column_norms()

    def weighted_gram(self, d: Vec) -> NDArray[np.float64]:
        gram = self.factor**2 * self.inner.weighted_gram(d)
        return gram if self.M is None else np.asarray((self.M @ (self.M @ gram).T).T)

    def matrix(self) -> Matrix:
        matrix = self.inner.matrix()
        return self.factor * (matrix if self.M is None else self.M @ matrix)

    def sizes(self, q: Vec) -> Vec:
        bound = abs(self.factor) * self.inner.sizes(q)
        return bound if self.M is None else np.asarray(abs(self.M) @ bound)


class HStack(LinearMap):
    """The horizontal stack of linear maps, `(q_1, ..., q_k) -> sum_j A_j q_j`."""

    def __init__(self, *maps: LinearMap) -> None:
        self.maps = maps
        self.ends = np.cumsum([A.shape[1] for A in maps])
        self.shape = (maps[0].shape[0], int(self.ends[-1]))
        self.entries = sum(A.entries for A in maps)
        self.squares = sum(A.squares for A in maps)

    def _parts(self, q: NDArray[np.float64]) -> Iterator[tuple[LinearMap, NDArray[np.float64]]]:
        return zip(self.maps, np.split(q, self.ends[:-1]), strict=True)

    def rmatvec(self, w: Vec) -> Vec:
        return np.concatenate([A.rmatvec(w) for A in self.maps])

    def column_norms(self) -> Vec:
        return np.concatenate([A.column_norms() for A in self.maps])

    def matmat(self, q: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(sum(A.matmat(p) for A, p in self._parts(q)))

    matvec = matmat

    def weighted_gram(self, d: Vec) -> NDArray[np.float64]:
        return np.asarray(sum(A.weighted_gram(p) for A, p in self._parts(d)))

    def matrix(self) -> Matrix:
        parts = [A.matrix() for A in self.maps]
        if any(sparse.issparse(part) for part in parts):
            return sparse.hstack(parts, format="csr")
        return np.hstack(parts)

    def sizes(self, q: Vec) -> Vec:
        return np.asarray(sum(A.sizes(p) for A, p in self._parts(q)))


class VStack(LinearMap):
    """The vertical stack `q -> (a_1 A_1 q; ...)` of rows (factor, number of rows, map or None for zeros)."""

    def __init__(self, rows: list[tuple[float, int, LinearMap | None]], d: int) -> None:
        ends = np.cumsum([n for _, n, _ in rows])
        self.shape = (int(ends[-1]), d)
        # Multiples of one map are one product: by map, its rows and their factors.
        self.parts: dict[int, tuple[LinearMap, list[tuple[slice, float]]]] = {}
        for end, (a, n, A) in zip(ends, rows, strict=True):
            if A is None or not A.entries:
                continue
            A, factor = A.without_factor()
            places = self.parts.setdefault(id(A), (A, []))[1]
            places.append((slice(int(end) - n, int(end)), a * factor))
        maps = [A for A, _ in self.parts.values()]
        self.entries = sum(A.entries for A in maps)
        self.squares = maps[0].squares if len(maps) == 1 else 0.5 * self.shape[0] ** 2 * d

    def rmatvec(self, w: Vec) -> Vec:
        out = np.zeros(self.shape[1])
        for A, places in self.parts.values():
            out += A.rmatvec(sum((a * w[rows] for rows, a in places), start=np.zeros(A.shape[0])))
        return out

    def column_norms(self) -> Vec:
        squares = np.zeros(self.shape[1])
        for A, places in self.parts.values():
            squares += sum(a * a for _, a in places) * A.column_norms() ** 2
        return np.sqrt(squares)

    def _placed(self, products: Callable[[LinearMap], np.ndarray], *shape: int) -> NDArray[np.float64]:
        """Return the product of each map, times its factors, in the rows of the map; other rows are 0."""
        out = np.zeros((self.shape[0], *shape))
        for A, places in self.parts.values():
            product = products(A)
            for rows, a in places:
                out[rows] = a * product
        return out

    def matmat(self, q: NDArray[np.float64]) -> NDArray[np.float64]:
        return self._placed(lambda A: A.matmat(q), *q.shape[1:])

    matvec = matmat

    def weighted_gram(self, d: Vec) -> NDArray[np.float64]:
        if len(self.parts) == 1:
            ((A, places),) = self.parts.values()
            gram, out = A.weighted_gram(d), np.zeros((self.shape[0], self.shape[0]))
            for above, a in places:
                for left, b in places:
                    out[above, left] = a * b * gram
            return out
        return super().weighted_gram(d)

    @functools.cached_property
    def _dense(self) -> NDArray[np.float64]:
        def dense(A: LinearMap) -> NDArray[np.float64]:
            M = A.matrix()
            return M.toarray() if sparse.issparse(M) else M

        return self._placed(dense, self.shape[1])

    def matrix(self) -> Matrix:
        return self._dense

    def sizes(self, q: Vec) -> Vec:
        return np.abs(self._placed(lambda A: A.sizes(q)))


# --- spectra of A A' ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Spectrum:
    """The eigendecomposition `S = V diag(values) V'` of a positive semidefinite matrix S."""

    matrix: NDArray[np.float64]
    values: Vec  # ascending; 0 where that is rounding
    vectors: NDArray[np.float64]

    @classmethod
    def of(cls, S: NDArray[np.float64]) -> Spectrum:
        values, vectors = np.linalg.eigh(S)
        values[values <= values.size * np.finfo(float).eps * values[-1]] = 0.0
        return cls(S, values, vectors)

    @functools.cached_property
    def trace(self) -> float:
        return float(self.values.sum())  # without negative rounding errors

    @functools.cached_property
    def root(self) -> NDArray[np.float64]:
        """A factor R of S, `R R' = S`, with rank(S) columns."""
        positive = self.values > 0.0
        return self.vectors[:, positive] * np.sqrt(self.values[positive])


# Maps belong to bound data, so a path of radii, or another model over the same data, reuses the spectra.
_KNOWN: weakref.WeakKeyDictionary[LinearMap, Spectrum] = weakref.WeakKeyDictionary()


def has_spectrum(A: LinearMap) -> bool:
    """True if the spectrum of `A A'` is cached."""
    return A.without_factor()[0] in _KNOWN


def spectrum(A: LinearMap) -> Spectrum:
    """Return the spectrum of `A A'`, from the cache if present."""
    base, factor = A.without_factor()
    if base not in _KNOWN:
        _KNOWN[base] = Spectrum.of(base.weighted_gram(np.ones(base.shape[1])))
    S = _KNOWN[base]
    if factor == 1.0:
        return S
    return Spectrum(factor**2 * S.matrix, factor**2 * S.values, S.vectors)


def psd_root(S: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return F (n, r) with F F' = S for a positive semidefinite S of numerical rank r.

    F comes from the eigenvalues of the correlations, so that the rounding of a feature is relative to its own
    variance, whatever the scales of the other features are.
    """
    deviations = np.sqrt(np.maximum(np.diagonal(S), 0.0))
    if not deviations.any():
        return np.zeros((S.shape[0], 1))
    unit = np.where(deviations > 0.0, deviations, 1.0)
    values, V = np.linalg.eigh(S / unit[:, None] / unit)
    positive = values > _RANK * S.shape[0] * np.finfo(float).eps * values[-1]
    return deviations[:, None] * V[:, positive] * np.sqrt(values[positive])
