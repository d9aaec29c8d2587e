"""Samples, or the columns of maps, in coordinates of their span, for problems with more features.

Every normal that matters is a combination of the samples. In an orthonormal basis of their span they are the
rows of a small table with the same inner products.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from ucm.data.gram import pivoted_factor
from ucm.data.linear_map import LinearMap, Vec
from ucm.forms.distance import MinNorm

Matrix = NDArray[np.float64]


class Span(ABC):
    """A basis of the span of samples.

    Attributes
    ----------
    tables : the samples in these coordinates
    forming : multiplications that the basis took
    """

    tables: list[NDArray[np.float64]]
    forming: float

    @abstractmethod
    def outward(self, z: Vec) -> Vec:
        """Return the vector in the space of the samples that has the coordinates z."""

    @abstractmethod
    def inward(self, x: Vec) -> Vec:
        """Return the coordinates of the part of x that lies in the span."""


class OrthonormalCoordinates(Span):
    """The basis itself, by a QR factor of dense samples: accurate to rounding."""

    def __init__(self, X: NDArray[np.float64]) -> None:
        self.basis, triangle = np.linalg.qr(X.T)
        self.tables = [np.ascontiguousarray(triangle.T)]
        self.forming = float(X.shape[0] ** 2 * X.shape[1])

    def outward(self, z: Vec) -> Vec:
        return self.basis @ z

    def inward(self, x: Vec) -> Vec:
        return self.basis.T @ x


class GramCoordinates(Span):
    """Coordinates in the span of sparse samples, by the pivoted Cholesky factor F of `X X'`.

    z are the coordinates of `X'c` with `F'c = z`.


    Parameters
    ----------
    samples : tables of them, all dense or all CSR; X is made of their rows
    """

    def __init__(self, samples: Sequence[Any]) -> None:
        self.samples = samples
        sizes = [X.shape[0] for X in samples]
        K: Any = [[None] * len(samples) for _ in samples]
        for i, A in enumerate(samples):
            for j, B in enumerate(samples[: i + 1]):
                K[i][j] = A @ B.T
                K[j][i] = K[i][j].T
        sparse_ones = sparse.issparse(samples[0])
        F, pivots = pivoted_factor(sparse.block_array(K).toarray() if sparse_ones else np.block(K))
        self.pivots = pivots[: F.shape[1]]
        self.triangle = F[self.pivots] if F.any() else np.eye(1)  # samples that are all 0
        self.ends = np.cumsum(sizes)[:-1]
        self.tables = np.split(F, self.ends)
        self.forming = 0.5 * sum(sizes) * sum(X.nnz if sparse_ones else X.size for X in samples)

    def outward(self, z: Vec) -> Vec:
        c = np.zeros(sum(X.shape[0] for X in self.samples))
        c[self.pivots] = linalg.solve_triangular(self.triangle, z, lower=True, trans=1)
        parts = zip(self.samples, np.split(c, self.ends), strict=True)
        return np.sum([X.T @ part for X, part in parts], axis=0)

    def inward(self, x: Vec) -> Vec:
        scores = np.concatenate([X @ x for X in self.samples])
        return linalg.solve_triangular(self.triangle, scores[self.pivots], lower=True)


def columns(form: MinNorm) -> int:
    """Return the number of columns of all blocks."""
    return sum(b.map.shape[1] for b in form.blocks)


def factoring(form: MinNorm, rows: int, columns: int) -> float:
    """Return the cost of a basis in passes: `rows columns^2` multiplications; a pass has two an entry."""
    return rows * columns**2 / (2.0 * max(1, form.stored))


def orthonormal_coordinates(point: Vec, maps: Iterable[LinearMap]) -> tuple[Matrix, Vec, list[Matrix]]:
    """Return an orthonormal basis of the span of a point and the columns of maps, and their coordinates.

    The basis is in the columns of Q; one QR decomposition gives all.
    """
    dense = [A.matmat(np.eye(A.shape[1])) for A in maps]
    Q, R = np.linalg.qr(np.column_stack([point, *dense]))
    ends = np.cumsum([1, *(A.shape[1] for A in dense)])
    return Q, R[:, 0], np.split(R, ends, axis=1)[1:-1]
