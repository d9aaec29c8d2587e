"""The vector types, and the abstract linear map in the terms of SciPy's `LinearOperator`."""

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
    """Abstract linear map A from R^d to the feature space R^n.

    One pass is one `matvec` and one `rmatvec`.

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

    def matmat(self, Q: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return `A Q` for a dense Q of shape (d, r)."""
        return np.stack([self.matvec(q) for q in Q.T], axis=1)

    def matrix(self) -> Any:
        """Return the matrix A, dense or CSR.

        It is for conic solvers, tests, and defaults of other methods.
        """
        return self.matmat(np.eye(self.shape[1]))

    def column_norms(self) -> Vec:
        """Return the Euclidean norms of the columns of A, shape (d,).

        A few columns are computed at a time.
        """
        norms = np.empty(self.shape[1])
        step = max(1, CHUNK // max(1, sum(self.shape)))
        for i in range(0, self.shape[1], step):
            width = min(step, self.shape[1] - i)
            unit = np.zeros((self.shape[1], width))
            unit[i + np.arange(width), np.arange(width)] = 1.0
            norms[i : i + width] = np.linalg.norm(self.matmat(unit), axis=0)
        return norms

    def weighted_gram(self, d: Vec) -> NDArray[np.float64]:
        """Return `A diag(d) A'`, dense (n, n), for d >= 0.

        Columns with d = 0 are not touched.
        """
        nonzero = np.flatnonzero(d)
        M = self.matrix()[:, nonzero] * np.sqrt(d[nonzero])
        return M @ M.T

    def sizes(self, q: Vec) -> Vec:
        """Return `|A| |q|`, shape (n,), the scale of the rounding error in `A q`."""
        return np.asarray(abs(self.matrix()) @ np.abs(q))
