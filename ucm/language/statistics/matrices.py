"""Positive semidefinite matrices: constants and combinations, beside the covariances of samples."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from ucm.data.bound import Data
from ucm.data.linear import LinearMap
from ucm.data.maps import HStack, MatrixMap, scaled
from ucm.errors import CompositionError, brief
from ucm.language.arithmetic import axes, is_zero
from ucm.language.contracts import UncertaintySet
from ucm.language.node import CoordinateFree, Node, Scalar, value
from ucm.language.parameter import as_declared, times_array, within
from ucm.language.statistics.sums import (
    ConstantStatistic,
    Statistic,
    StatisticSum,
    coefficient,
    gathered,
)

__all__ = [
    "ConstantMatrix",
    "MatrixNode",
    "MatrixSum",
    "as_matrix",
    "covariance_map",
    "psd_root",
]

_ORDER = 500  # largest order of a root
_RANK = 8.0  # of the rounding of eigenvalues: the root has no columns of that, which weights could take up
_FACTOR = "the factor of a covariance", "must not be negative"
_FORMING = 25  # passes that forming S may cost: half the entries of a sample


class MatrixNode(Statistic):
    """A positive semidefinite matrix: a covariance, a constant, or a non-negative combination."""

    @abstractmethod
    def factors(self, data: Data) -> list[LinearMap]:
        """Maps F_k with `sum_k F_k F_k'` the matrix."""

    def weighted_factors(self, data: Data) -> list[tuple[Scalar, LinearMap]]:
        """Pairs (c_k, F_k) with `sum_k c_k F_k F_k'` the matrix, c_k with the parameters."""
        return [(1.0, F) for F in self.factors(data)]

    def combine(self, symbol: str, a: Any, b: Any) -> Any:
        if symbol == "+" and (is_zero(a) or is_zero(b)):
            return b if is_zero(a) else a
        if symbol == "+":
            return _matrix_sum(*((1.0, as_matrix(S, repr(self))) for S in (a, b)))
        if symbol == "-":
            raise CompositionError(
                f"{a!r} - {b!r}: a difference of covariances need not be positive semidefinite, so "
                "it shapes no ellipsoid; add them, or subtract the ellipsoids"
            )
        if symbol == "*":
            factor = coefficient(a, self)
            if as_declared(factor) < 0.0:
                raise CompositionError(
                    f"{as_declared(factor):g} * {self!r}: a covariance takes factors >= 0 only; "
                    "multiply the set by -1 instead"
                )
            return _matrix_sum((within(factor, 0.0, math.inf, (), *_FACTOR), self))
        if symbol == "/":
            divisor = coefficient(b, self)
            if as_declared(divisor) <= 0.0:
                raise CompositionError(
                    f"{self!r} / {as_declared(divisor):g}: divide by a positive number"
                )
            return _matrix_sum((within(1.0 / divisor, 0.0, math.inf, (), *_FACTOR), self))
        if symbol in "&|" and not (isinstance(a, UncertaintySet) or isinstance(b, UncertaintySet)):
            raise CompositionError(
                f"{symbol} takes sets, got {brief(a)} and {brief(b)}; a covariance shapes one, as in "
                "Ellipsoid(pos.mean, pos.cov, kappa)"
            )
        return NotImplemented


class ConstantMatrix(ConstantStatistic, MatrixNode):
    """A fixed positive semidefinite matrix, dense or CSR."""

    def __post_init__(self) -> None:
        super().__post_init__()
        S = self.entries.toarray() if sparse.issparse(self.entries) else self.entries
        if not isinstance(S, np.ndarray) or S.ndim != 2 or S.shape[0] != S.shape[1]:
            shape = getattr(S, "shape", ())
            raise CompositionError(
                f"the shape of an ellipsoid is a square matrix, got shape {shape}; give a covariance"
            )
        top = np.abs(S).max(initial=0.0)
        if np.abs(S - S.T).max(initial=0.0) > 1e-10 * top:
            raise CompositionError(
                "the shape of an ellipsoid is symmetric, got a matrix that is not; "
                "use (S + S.T) / 2"
            )
        least = float(np.linalg.eigvalsh((S + S.T) / 2)[0]) if S.size else 0.0
        if least < -1e-10 * top:
            raise CompositionError(
                "the shape of an ellipsoid is positive semidefinite, got the eigenvalue "
                f"{least:.3g}; add a multiple of the identity"
            )

    def factors(self, data: Data) -> list[LinearMap]:
        return [MatrixMap(psd_root(self.evaluate(data)))]


class MatrixSum(StatisticSum, MatrixNode, CoordinateFree):
    """A non-negative combination of matrices."""

    terms: tuple[tuple[Scalar, MatrixNode], ...]

    def factors(self, data: Data) -> list[LinearMap]:
        return [scaled(F, float(np.sqrt(value(c)))) for c, F in self.weighted_factors(data)]

    def weighted_factors(self, data: Data) -> list[tuple[Scalar, LinearMap]]:
        pairs = [(c, S.weighted_factors(data)) for c, S in self.terms]
        return [(c * a, F) for c, inner in pairs for a, F in inner]


def _matrix_sum(*terms: tuple[Scalar, MatrixNode]) -> MatrixNode:
    flat = gathered([*terms], ConstantMatrix)
    return flat[0][1] if len(flat) == 1 and flat[0][0] == 1.0 else MatrixSum(tuple(flat))


def as_matrix(
    x: MatrixNode | NDArray[Any] | Sequence[Sequence[float]], where: str = "a matrix"
) -> MatrixNode:
    """A covariance or an array as a positive semidefinite matrix."""
    if isinstance(x, MatrixNode):
        return x
    if isinstance(x, Node) or axes(x, where) != 2:
        raise CompositionError(
            f"{where}: expected a covariance or a square matrix, got {brief(x)}; "
            "use for example pos.cov + neg.cov"
        )
    return ConstantMatrix(x)


def psd_root(S: NDArray[np.float64]) -> NDArray[np.float64]:
    """F (n, r) with F F' = S, r the numerical rank: the scaled eigenvectors."""
    top = np.abs(S).max(initial=0.0)
    if top == 0.0:
        return np.zeros((S.shape[0], 1))
    values, vectors = linalg.eigh(S / top, driver="evd")
    kept = values > _RANK * S.shape[0] * np.finfo(float).eps * values[-1]
    root = vectors[:, kept] * np.sqrt(values[kept] * top)
    root[np.diagonal(S) == 0.0] = 0.0  # a constant feature, without the rounding of the vectors
    return root


def covariance_map(S: MatrixNode, data: Data) -> LinearMap:
    """F with F F' = S. An n x n root where forming S costs few passes; else the samples, centred
    implicitly; behind a kernel always those, which lead back to coefficients."""
    few = min(data.m, _ORDER)
    if data.gram is None and data.n <= few and data.stored <= 2 * _FORMING * data.m:
        return data.once(("root", S), lambda: MatrixMap(psd_root(S.evaluate(data))))
    parts = S.factors(data)
    return parts[0] if len(parts) == 1 else HStack(*parts)


@times_array(2)
def _scaled_matrix(c: Scalar, S: Any) -> MatrixNode:
    """`c S` of a scalar with parameters and a square array."""
    return c * ConstantMatrix(S)
