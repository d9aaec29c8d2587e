"""Vectors, and linear maps between spaces of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["LinearMap", "Vec"]

Vec = NDArray[np.float64]


class LinearMap(ABC):
    """A linear map from R^d to the feature space R^n; one pass is one `matvec` and one `rmatvec`."""

    shape: tuple[int, int]
    entries: int  # multiplications in one product, the cost that passes are counted in
    squares: float  # multiplications in `weighted_gram` over all columns

    @abstractmethod
    def matvec(self, q: Vec) -> Vec:
        """`A q`, shape (n,)."""

    @abstractmethod
    def rmatvec(self, w: Vec) -> Vec:
        """`A' w`, shape (d,)."""

    @abstractmethod
    def column_norms(self) -> Vec:
        """Euclidean norms of the columns, shape (d,)."""

    @abstractmethod
    def matmat(self, Q: NDArray[np.float64]) -> NDArray[np.float64]:
        """`A Q` for a dense Q of shape (d, r)."""

    @abstractmethod
    def weighted_gram(self, d: Vec) -> NDArray[np.float64]:
        """`A diag(d) A'`, dense (n, n); columns with d = 0 are not touched."""

    @abstractmethod
    def matrix(self) -> Any:
        """The matrix itself, dense or CSR: for conic solvers and tests only."""

    @abstractmethod
    def sizes(self, q: Vec) -> Vec:
        """`|A| |q|`, shape (n,), of the entries that are multiplied: what rounding in `A q` is a part of."""
