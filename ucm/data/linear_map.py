"""Vectors, and linear operators between their spaces, in the words of SciPy's `LinearOperator`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vec = NDArray[np.float64]
Matrix = Any
"""A dense array or a CSR matrix: their types share no protocol."""
CHUNK = 1 << 20  # entries of a temporary


class LinearMap(ABC):
    """A linear map from R^d to the feature space R^n; one pass is one `matvec` and one `rmatvec`.

    Two methods and three attributes are needed. A map of samples replaces the others, which compute with the
    dense matrix.
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

    def matmat(self, Q: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return `A Q` for a dense Q of shape (d, r)."""
        return np.stack([self.matvec(q) for q in Q.T], axis=1)

    def matrix(self) -> Any:
        """The matrix itself, dense or CSR: for conic solvers and tests only."""
        return self.matmat(np.eye(self.shape[1]))

    def column_norms(self) -> Vec:
        """Euclidean norms of the columns, shape (d,); a few columns are computed at a time."""
        norms = np.empty(self.shape[1])
        step = max(1, CHUNK // max(1, sum(self.shape)))
        for i in range(0, self.shape[1], step):
            width = min(step, self.shape[1] - i)
            unit = np.zeros((self.shape[1], width))
            unit[i + np.arange(width), np.arange(width)] = 1.0
            norms[i : i + width] = np.linalg.norm(self.matmat(unit), axis=0)
        return norms

    def weighted_gram(self, d: Vec) -> NDArray[np.float64]:
        """Return `A diag(d) A'`, dense (n, n); columns with d = 0 are not touched."""
        nonzero = np.flatnonzero(d)
        M = self.matrix()[:, nonzero] * np.sqrt(d[nonzero])
        return M @ M.T

    def sizes(self, q: Vec) -> Vec:
        """Return `|A| |q|`, shape (n,): an error of rounding in `A q` is a small part of it."""
        return np.asarray(abs(self.matrix()) @ np.abs(q))
