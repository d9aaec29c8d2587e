"""Linear maps from parameter space to feature space. None of them densifies sparse data."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.linear import LinearMap, Vec
from ucm.data.rows import Matrix, row_norms, weighted_gram

__all__ = [
    "CenteredMap",
    "ComposedMap",
    "HStack",
    "IdentityMap",
    "MatrixMap",
    "SampleMap",
    "UnitMap",
    "VStack",
    "ZeroMap",
    "scaled",
]


def _stored(X: Matrix) -> int:
    """Stored entries."""
    return X.size if isinstance(X, np.ndarray) else int(X.nnz)


def _squares(X: Matrix) -> float:
    """Multiplications in `X'X`: half the square of the entries of each row."""
    if isinstance(X, np.ndarray):
        return 0.5 * X.shape[0] * X.shape[1] ** 2
    counts = np.diff(X.indptr).astype(np.float64)
    return 0.5 * float(counts @ counts)


class SampleMap(LinearMap):
    """`q -> sum_i s_i q_i x_i`, the samples x_i in the rows of X, signs s_i (None: all +1).

    Attributes
    ----------
    kept : None, or the last vector of either product and what it gave: the same one is not multiplied again
    """

    def __init__(self, X: Matrix, signs: Vec | None = None) -> None:
        self.X, self.signs = X, signs
        self.shape = (X.shape[1], X.shape[0])
        self.entries, self.squares = _stored(X), _squares(X)
        self.kept: dict[bool, tuple[Vec, Vec]] | None = None

    @functools.cached_property
    def _turned(self) -> Matrix:
        """X', a view; of sparse samples one costs as much as a product with few of them."""
        return self.X.T

    def matvec(self, q: Vec) -> Vec:
        return self._product(q, False)

    def rmatvec(self, w: Vec) -> Vec:
        return self._product(w, True)

    def _product(self, v: Vec, scores: bool) -> Vec:
        kept = self.kept
        last = None if kept is None else kept.get(scores)  # read once: other threads replace it
        if last is not None and np.array_equal(last[0], v):
            return last[1].copy()
        if scores:
            found = self.X @ v
            if self.signs is not None:
                found *= self.signs
        else:
            found = self._turned @ (v if self.signs is None else self.signs * v)
        if kept is not None:
            kept[scores] = v.copy(), found.copy()
        return found

    def column_norms(self) -> Vec:
        return row_norms(self.X)

    def matmat(self, Q: NDArray[np.float64]) -> NDArray[np.float64]:
        return self._turned @ (Q if self.signs is None else self.signs[:, None] * Q)

    def weighted_gram(self, d: Vec) -> NDArray[np.float64]:
        return weighted_gram(self.X, d)

    def matrix(self) -> Any:
        signed = self.X if self.signs is None else sparse.diags_array(self.signs) @ self.X
        return sparse.csr_matrix(signed.T) if sparse.issparse(self.X) else np.asarray(signed).T

    def sizes(self, q: Vec) -> Vec:
        return np.asarray(abs(self.X).T @ np.abs(q))


class UnitMap(LinearMap):
    """`q -> sum_i s_i q_i e_k(i)`: samples that are unit vectors of dimension m, signs s_i (None: all +1)."""

    def __init__(self, rows: NDArray[np.intp], m: int, signs: Vec | None = None) -> None:
        self.rows, self.signs = rows, signs
        self.shape = (m, rows.size)
        self.entries, self.squares = rows.size, float(rows.size)

    def matvec(self, q: Vec) -> Vec:
        x = np.zeros(self.shape[0])
        x[self.rows] = q if self.signs is None else self.signs * q
        return x

    def rmatvec(self, w: Vec) -> Vec:
        g = w[self.rows]
        return g if self.signs is None else self.signs * g

    def column_norms(self) -> Vec:
        return np.ones(self.rows.size)

    def matmat(self, Q: NDArray[np.float64]) -> NDArray[np.float64]:
        X = np.zeros((self.shape[0], Q.shape[1]))
        X[self.rows] = Q if self.signs is None else self.signs[:, None] * Q
        return X

    def weighted_gram(self, d: Vec) -> NDArray[np.float64]:
        return np.diag(UnitMap(self.rows, self.shape[0]).matvec(d))

    def matrix(self) -> Any:
        signs = np.ones(self.rows.size) if self.signs is None else self.signs
        entries = signs, (self.rows, np.arange(self.rows.size))
        return sparse.csr_matrix(entries, shape=self.shape)

    def sizes(self, q: Vec) -> Vec:
        return np.abs(self.matvec(q))


class CenteredMap(LinearMap):
    """`q -> (X - 1 mean')' q / sqrt(m)`: a factor of the 1/m covariance, centring implicit. With weights c
    of the samples, their mean 1, `q_i sqrt(c_i)` in place of q_i: of the covariance by these weights."""

    def __init__(self, X: Matrix, mean: Vec, counts: Vec | None = None) -> None:
        self.X, self.mean = X, mean
        self.root = np.sqrt(X.shape[0])
        self.c = 1.0 if counts is None else np.sqrt(counts * (counts.size / counts.sum()))
        self.shape = (X.shape[1], X.shape[0])
        self.entries, self.squares = _stored(X), _squares(X)

    def matvec(self, q: Vec) -> Vec:
        q = self.c * q
        return (self.X.T @ q - self.mean * q.sum()) / self.root

    def rmatvec(self, w: Vec) -> Vec:
        return self.c * (self.X @ w - self.mean @ w) / self.root

    def column_norms(self) -> Vec:
        return self.c * row_norms(self.X, self.mean) / self.root

    def matmat(self, Q: NDArray[np.float64]) -> NDArray[np.float64]:
        Q = (self.c * Q.T).T
        return (self.X.T @ Q - np.outer(self.mean, Q.sum(axis=0))) / self.root

    def weighted_gram(self, d: Vec) -> NDArray[np.float64]:
        return weighted_gram(self.X, self.c * self.c * d, self.mean) / self.X.shape[0]

    def matrix(self) -> Any:
        dense = self.X.toarray() if sparse.issparse(self.X) else self.X
        return (dense - self.mean).T * (self.c / self.root)

    def sizes(self, q: Vec) -> Vec:
        weights = np.abs(self.c / self.root * q)
        return np.asarray(abs(self.X).T @ weights) + np.abs(self.mean) * weights.sum()


class MatrixMap(LinearMap):
    """`q -> M q` for an explicit matrix.

    Parameters
    ----------
    M : (n, d) array or CSR matrix
        The matrix, which is not copied.
    """

    def __init__(self, M: Matrix) -> None:
        self.M = M
        self.shape = (M.shape[0], M.shape[1])
        self.entries = _stored(M)
        self.squares = 0.5 * self.entries * self.entries / max(1, M.shape[1])

    def matvec(self, q: Vec) -> Vec:
        return self.M @ q

    def rmatvec(self, w: Vec) -> Vec:
        return self.M.T @ w

    def column_norms(self) -> Vec:
        return row_norms(sparse.csr_matrix(self.M.T) if sparse.issparse(self.M) else self.M.T)

    def matmat(self, Q: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(self.M @ Q)

    def weighted_gram(self, d: Vec) -> NDArray[np.float64]:
        if sparse.issparse(self.M):
            return weighted_gram(sparse.csr_matrix(self.M.T), d)
        part = self.M * np.sqrt(d)
        return part @ part.T

    def matrix(self) -> Any:
        return self.M

    def sizes(self, q: Vec) -> Vec:
        return np.asarray(abs(self.M) @ np.abs(q))


class IdentityMap(MatrixMap):
    """`q -> factor q`."""

    def __init__(self, n: int, factor: float = 1.0) -> None:
        self.factor = factor
        super().__init__(factor * sparse.eye_array(n, format="csr"))


class ZeroMap(MatrixMap):
    """`q -> 0`: a block that meets the others only through a coupling."""

    def __init__(self, n: int, d: int) -> None:
        super().__init__(sparse.csr_array((n, d)))


class ComposedMap(LinearMap):
    """`q -> factor M (A q)`; M is None for the identity."""

    def __init__(self, inner: LinearMap, M: Matrix | None = None, factor: float = 1.0) -> None:
        self.inner, self.M, self.factor = inner, M, factor
        self.shape = (inner.shape[0] if M is None else M.shape[0], inner.shape[1])
        self.entries, self.squares = inner.entries, inner.squares
        if M is not None:  # M (A d A') M'
            self.entries += _stored(M)
            self.squares += float(_stored(M)) * (inner.shape[0] + M.shape[0])

    def matvec(self, q: Vec) -> Vec:
        x = self.inner.matvec(q)
        return self.factor * (x if self.M is None else self.M @ x)

    def rmatvec(self, w: Vec) -> Vec:
        return self.inner.rmatvec(self.factor * (w if self.M is None else self.M.T @ w))

    def column_norms(self) -> Vec:
        if self.M is None:
            return abs(self.factor) * self.inner.column_norms()
        return super().column_norms()

    def matmat(self, Q: NDArray[np.float64]) -> NDArray[np.float64]:
        x = self.inner.matmat(Q)
        return self.factor * (x if self.M is None else self.M @ x)

    def weighted_gram(self, d: Vec) -> NDArray[np.float64]:
        gram = self.factor**2 * self.inner.weighted_gram(d)
        return gram if self.M is None else np.asarray((self.M @ (self.M @ gram).T).T)

    def matrix(self) -> Any:
        inner = self.inner.matrix()
        return self.factor * (inner if self.M is None else self.M @ inner)

    def sizes(self, q: Vec) -> Vec:
        inner = abs(self.factor) * self.inner.sizes(q)
        return inner if self.M is None else np.asarray(abs(self.M) @ inner)


class HStack(LinearMap):
    """`(q_1, ..., q_k) -> sum_k A_k q_k`, the parameters stacked."""

    def __init__(self, *maps: LinearMap) -> None:
        self.maps = maps
        self.ends = np.cumsum([A.shape[1] for A in maps])
        self.shape = (maps[0].shape[0], int(self.ends[-1]))
        self.entries = sum(A.entries for A in maps)
        self.squares = sum(A.squares for A in maps)

    def _parts(self, q: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        return np.split(q, self.ends[:-1])

    def matvec(self, q: Vec) -> Vec:
        return sum(
            (A.matvec(p) for A, p in zip(self.maps, self._parts(q), strict=True)),
            start=np.zeros(self.shape[0]),
        )

    def rmatvec(self, w: Vec) -> Vec:
        return np.concatenate([A.rmatvec(w) for A in self.maps])

    def column_norms(self) -> Vec:
        return np.concatenate([A.column_norms() for A in self.maps])

    def matmat(self, Q: NDArray[np.float64]) -> NDArray[np.float64]:
        return sum(
            (A.matmat(P) for A, P in zip(self.maps, self._parts(Q), strict=True)),
            start=np.zeros((self.shape[0], Q.shape[1])),
        )

    def weighted_gram(self, d: Vec) -> NDArray[np.float64]:
        return sum(
            (A.weighted_gram(p) for A, p in zip(self.maps, self._parts(d), strict=True)),
            start=np.zeros((self.shape[0], self.shape[0])),
        )

    def matrix(self) -> Any:
        parts = [A.matrix() for A in self.maps]
        if any(sparse.issparse(part) for part in parts):
            return sparse.hstack(parts, format="csr")
        return np.hstack(parts)

    def sizes(self, q: Vec) -> Vec:
        parts = zip(self.maps, self._parts(q), strict=True)
        return sum((A.sizes(p) for A, p in parts), start=np.zeros(self.shape[0]))


class VStack(LinearMap):
    """`q -> (a_1 A_1 q; ...; a_k A_k q)`, maps of one parameter above each other.

    Each row is (factor, number of rows, map or None for zeros).
    """

    def __init__(self, rows: list[tuple[float, int, LinearMap | None]], d: int) -> None:
        ends = np.cumsum([n for _, n, _ in rows])
        self.shape = (int(ends[-1]), d)
        # multiples of one map are one product: by map, where its rows stand and their factors
        self.parts: dict[int, tuple[LinearMap, list[tuple[slice, float]]]] = {}
        for end, (a, n, A) in zip(ends, rows, strict=True):
            if A is None or isinstance(A, ZeroMap):
                continue
            if isinstance(A, ComposedMap) and A.M is None:
                A, a = A.inner, a * A.factor
            places = self.parts.setdefault(id(A), (A, []))[1]
            places.append((slice(int(end) - n, int(end)), a))
        maps = [A for A, _ in self.parts.values()]
        self.entries = sum(A.entries for A in maps)
        self.squares = maps[0].squares if len(maps) == 1 else 0.5 * self.shape[0] ** 2 * d

    def matvec(self, q: Vec) -> Vec:
        return self.matmat(q[:, None])[:, 0]

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

    def matmat(self, Q: NDArray[np.float64]) -> NDArray[np.float64]:
        out = np.zeros((self.shape[0], Q.shape[1]))
        for A, places in self.parts.values():
            X = A.matmat(Q)
            for rows, a in places:
                out[rows] = a * X
        return out

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
        out = np.zeros(self.shape)
        for A, places in self.parts.values():
            M = A.matrix()
            for rows, a in places:
                out[rows] = a * (M.toarray() if sparse.issparse(M) else M)
        return out

    def matrix(self) -> Any:
        return self._dense

    def sizes(self, q: Vec) -> Vec:
        out = np.zeros(self.shape[0])
        for A, places in self.parts.values():
            size = A.sizes(q)
            for rows, a in places:
                out[rows] = abs(a) * size
        return out


def scaled(A: LinearMap, factor: float) -> LinearMap:
    """`factor A`; nested factors are folded into one."""
    if factor == 1.0 or isinstance(A, ZeroMap):
        return A
    if isinstance(A, IdentityMap):
        return IdentityMap(A.shape[0], factor * A.factor)
    if isinstance(A, ComposedMap):
        return ComposedMap(A.inner, A.M, factor * A.factor)
    return ComposedMap(A, None, factor)
