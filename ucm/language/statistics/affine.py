"""Vectors and positive semidefinite matrices of feature space: constants and linear combinations.

The means and covariances of samples stand beside them in `ucm.language.statistics.samples`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import reduce
from numbers import Real
from operator import add
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.bound_data import Data
from ucm.data.deadline import check_time
from ucm.data.linear_map import HStack, LinearMap, Matrix, MatrixMap, Vec, psd_root
from ucm.errors import CompositionError, brief
from ucm.language import cvx as cp
from ucm.language.contracts import FeatureNode, UncertaintySet
from ucm.language.node import (
    Arithmetic,
    Node,
    Notation,
    RotationInvariant,
    axes,
    operator,
    restricted,
    signed_sum,
    some,
    source,
)
from ucm.language.parameter import Scalar, Scope, as_factor, declared_value, is_zero, value


class Statistic(Arithmetic, FeatureNode):
    """A vector or matrix of feature space: a mean, a covariance, a constant, or a linear combination."""

    @abstractmethod
    def evaluate(self, data: Data) -> NDArray[np.float64]:
        """Return the value of the statistic: a vector (n,), or a dense matrix (n, n)."""

    def combine(self, symbol: str, a: object, b: object) -> Any:
        match symbol:
            case "+" if is_zero(a) or is_zero(b):
                return b if is_zero(a) else a
            case "*":
                return _linear_combination((self._coefficient(a), self))
            case "/":
                divisor = self._coefficient(b)
                if declared_value(divisor) == 0.0:
                    raise CompositionError(f"{self!r} / 0: divide by a number other than 0")
                return _linear_combination((1.0 / divisor, self))
        return self.composed(symbol, a, b)

    @abstractmethod
    def composed(self, symbol: str, a: Any, b: Any) -> Any:
        """Return `a symbol b` for a symbol other than `*` and `/`."""

    @abstractmethod
    def combination(self, terms: tuple[tuple[Scalar, Any], ...]) -> Statistic:
        """Return the linear combination of pairs (coefficient, statistic of this kind)."""

    def as_terms(self) -> tuple[tuple[Scalar, Any], ...]:
        """Return the pairs (coefficient, statistic) whose sum is this statistic."""
        return ((1.0, self),)

    def _coefficient(self, c: object) -> Scalar:
        """Return c as a finite coefficient of the statistic."""
        factor = as_factor(c)
        if factor is None or not np.isfinite(declared_value(factor)):
            raise CompositionError(
                f"{self!r}: a statistic is multiplied by finite numbers and Params only, got {brief(c)}; "
                "write 2.0 * pos.mean"
            )
        return factor


class ConstantStatistic(Statistic):
    """A constant vector or matrix."""

    entries: Any

    def dimension(self, n: int | None) -> int | None:
        return self.entries.shape[0]

    def dense(self) -> NDArray[np.float64]:
        return self.entries.toarray() if sparse.issparse(self.entries) else self.entries

    def evaluate(self, data: Data) -> NDArray[np.float64]:
        return self.dense()

    def __repr__(self) -> str:
        return source(self.entries)

    def formula(self, notation: Notation) -> str:
        return notation.array(self.entries)


class StatisticSum(Statistic):
    """A linear combination of statistics; `terms` are pairs (coefficient, statistic)."""

    terms: tuple[tuple[Scalar, Any], ...]

    def as_terms(self) -> tuple[tuple[Scalar, Any], ...]:
        return self.terms

    def evaluate(self, data: Data) -> NDArray[np.float64]:
        return reduce(add, [value(c) * v.evaluate(data) for c, v in self.terms])

    def __repr__(self) -> str:
        return signed_sum([(c, repr(v)) for c, v in self.terms], "*", source)

    def formula(self, notation: Notation) -> str:
        return signed_sum([(c, v.formula(notation)) for c, v in self.terms], " ", notation.scalar)


def _linear_combination(*terms: tuple[Scalar, Any]) -> Any:
    """Return the sum of (coefficient, statistic) pairs: flat, without zeros, constants merged."""
    flat = [(c * a, u) for c, v in terms for a, u in v.as_terms()] or [(1.0, ORIGIN)]
    at = [k for k, (c, v) in enumerate(flat) if isinstance(v, ConstantStatistic) and type(c) is float]
    if at and len({flat[k][1].dimension(None) for k in at}) == 1:
        entries = reduce(add, [c * v.entries for c, v in (flat[k] for k in at)])
        flat[at[0]] = 1.0, type(flat[at[0]][1])(entries)
        flat = [term for k, term in enumerate(flat) if k not in at[1:]]
    (c, v), *more = flat
    return v if c == 1.0 and not more else v.combination(tuple(flat))


class VectorNode(Statistic):
    """A vector of feature space: a mean, a constant, or a linear combination of vectors."""

    def cvxpy(self, data: Data, scope: Scope) -> cp.Expression:
        """Return the vector for a CVXPY problem, with the parameters of `scope`."""
        return self.evaluate(data)

    def combination(self, terms: tuple[tuple[Scalar, VectorNode], ...]) -> VectorNode:
        return VectorSum(terms)

    def composed(self, symbol: str, a: Any, b: Any) -> Any:
        other = b if a is self else a
        match other:
            case Statistic() | list() | tuple() | str() | Real() | None:
                foreign = False
            case Node():  # a set, or samples, which refuse with their own message
                foreign = symbol != "@"
            case _:
                foreign = not (hasattr(other, "__array__") or sparse.issparse(other))
        if foreign:
            return NotImplemented
        if symbol in "+-":
            signs = (1.0, -1.0 if symbol == "-" else 1.0)
            vectors = (as_vector(x, "a statistic") for x in (a, b))
            return _linear_combination(*zip(signs, vectors, strict=True))
        if symbol == "@":
            raise CompositionError(
                f"@ takes a matrix and a set, got the vector {self!r}; write M @ Point({self!r})"
            )
        raise CompositionError(
            f"{symbol} takes sets, and vectors beside a set as points, got {brief(a)} and {brief(b)}; "
            f"write Point({self!r})"
        )


class ConstantVector(ConstantStatistic, VectorNode):
    """A constant vector of feature space."""

    entries: np.ndarray = restricted(
        lambda x: x.ndim == 1, "a vector of feature space has one axis", "write for example [1.0, 2.0]"
    )


class Origin(VectorNode, RotationInvariant):
    """The zero vector, of any dimension."""

    def dimension(self, n: int | None) -> int | None:
        return n

    def evaluate(self, data: Data) -> Vec:
        return np.zeros(data.n)

    def as_terms(self) -> tuple[tuple[Scalar, Any], ...]:
        return ()

    def __repr__(self) -> str:
        return "0"

    def formula(self, notation: Notation) -> str:
        return "0"


ORIGIN = Origin()


class VectorSum(StatisticSum, VectorNode, RotationInvariant):
    """A linear combination of vectors."""

    terms: tuple[tuple[Scalar, VectorNode], ...] = some("vector")

    def cvxpy(self, data: Data, scope: Scope) -> cp.Expression:
        return reduce(add, [scope.of(c, signed=True) * v.cvxpy(data, scope) for c, v in self.terms])


def offset(center: VectorNode, term: str, notation: Notation) -> str:
    """Return the formula `center + term`, or `term` alone if the centre is the origin."""
    return term if isinstance(center, Origin) else f"{center.formula(notation)} + {term}"


def as_vector(
    x: VectorNode | np.ndarray | Sequence[float] | Literal[0], where: str = "a vector"
) -> VectorNode:
    """Return a vector statistic, an array, or 0 as a `VectorNode`."""
    match x:
        case VectorNode():
            return x
        case Node():
            raise CompositionError(f"{where}: expected a vector, got {brief(x)}; use for example pos.mean")
    count = axes(x, where)
    if count == 0 and not isinstance(x, str) and x == 0:
        return ORIGIN
    if count == 0 or np.size(x) == 0:
        raise CompositionError(
            f"{where}: expected a vector, got {brief(x)}; give an array of n numbers, a mean, or 0"
        )
    return ConstantVector(np.asanyarray(x))  # a masked one is refused where it is kept


_LONG = 500  # order of a matrix above which its tests take more than some milliseconds
_ASYMMETRY = 1e-10  # times the largest entry: rounding of a symmetric semidefinite matrix
_ORDER = 500  # largest order of a root
_FORMING = 25  # passes that forming S may cost: half the entries of a sample


class MatrixNode(Statistic):
    """A positive semidefinite matrix: a covariance, a constant, or a non-negative combination of matrices."""

    @abstractmethod
    def factors(self, data: Data) -> list[tuple[Scalar, LinearMap]]:
        """Return pairs (c_k, F_k) with `sum_k c_k F_k F_k'` equal to the matrix, the c_k with parameters."""

    def combination(self, terms: tuple[tuple[Scalar, MatrixNode], ...]) -> MatrixNode:
        return MatrixSum(terms)

    def composed(self, symbol: str, a: Any, b: Any) -> Any:
        if symbol == "+":
            return _linear_combination(*((1.0, as_matrix(S, repr(self))) for S in (a, b)))
        if symbol == "-":
            raise CompositionError(
                f"{a!r} - {b!r}: a difference of covariances need not be positive semidefinite, so "
                "it shapes no ellipsoid; add them, or subtract the ellipsoids"
            )
        if symbol in "&|" and not (isinstance(a, UncertaintySet) or isinstance(b, UncertaintySet)):
            raise CompositionError(
                f"{symbol} takes sets, got {brief(a)} and {brief(b)}; a covariance shapes one, as in "
                "Ellipsoid(pos.mean, pos.cov, kappa)"
            )
        return NotImplemented


class ConstantMatrix(ConstantStatistic, MatrixNode):
    """A constant positive semidefinite matrix, dense or CSR."""

    def _check(self) -> None:
        check_semidefinite(self.entries, "a constant matrix")

    def factors(self, data: Data) -> list[tuple[Scalar, LinearMap]]:
        return [(1.0, MatrixMap(psd_root(self.evaluate(data))))]


class MatrixSum(StatisticSum, MatrixNode, RotationInvariant):
    """A linear combination of matrices with non-negative coefficients."""

    terms: tuple[tuple[Scalar, MatrixNode], ...] = restricted(
        lambda terms: terms and all(declared_value(c) >= 0.0 for c, _ in terms),
        "factors of matrices must not be negative, and at least one matrix is needed",
        "write for example 0.5 * pos.cov",
    )

    def factors(self, data: Data) -> list[tuple[Scalar, LinearMap]]:
        return [(c * a, F) for c, S in self.terms for a, F in S.factors(data)]


def check_semidefinite(entries: Matrix, name: str) -> None:
    """Refuse a matrix, dense or sparse, that is not symmetric positive semidefinite."""
    shape = getattr(entries, "shape", ())
    if len(shape) != 2 or shape[0] != shape[1] or not shape[0]:  # before a sparse one becomes dense
        raise CompositionError(
            f"{name} is a square matrix, one row for each feature, got {brief(entries)}; give A.T @ A"
        )
    S = entries.toarray() if sparse.issparse(entries) else entries
    top = float(np.abs(S).max())
    if np.abs(S - S.T).max() > _ASYMMETRY * top:
        raise CompositionError(
            f"{name} is symmetric, got entries that differ by {np.abs(S - S.T).max():.3g} from those across "
            "the diagonal; give (S + S.T) / 2"
        )
    if len(S) > _LONG:
        check_time()
    try:  # faster than eigenvalues, which only a refusal needs
        np.linalg.cholesky((S + S.T) / 2 + _ASYMMETRY * top * np.eye(len(S)))
        return
    except np.linalg.LinAlgError:
        least = float(np.linalg.eigvalsh((S + S.T) / 2)[0])
    if least < -_ASYMMETRY * top:
        raise CompositionError(
            f"{name} is positive semidefinite, got the eigenvalue {least:.6g}; give A.T @ A or a "
            "covariance, or add a multiple of the identity"
        )


def as_matrix(
    x: MatrixNode | np.ndarray | sparse.sparray | sparse.spmatrix | Sequence[Sequence[float]],
    where: str = "a matrix",
) -> MatrixNode:
    """Return a covariance or a positive semidefinite array as a `MatrixNode`."""
    match x:
        case MatrixNode():
            return x
        case _ if not isinstance(x, Node) and axes(x, where) == 2:
            try:
                return ConstantMatrix(x)
            except CompositionError as error:
                raise CompositionError(f"{where}: {error}") from None
    raise CompositionError(
        f"{where}: expected a covariance or a square matrix, got {brief(x)}; use for example pos.cov or "
        "A.T @ A"
    )


def covariance_map(S: MatrixNode, data: Data) -> LinearMap:
    """Return a linear map F with `F F' = S`.

    F is an n x n root of S where forming S costs few passes. Otherwise, and always with a kernel, F consists
    of the factors of S, implicitly centred samples, which lead back to coefficients of the samples.
    """
    few = min(data.m, _ORDER)
    if data.gram is None and data.n <= few and data.stored <= 2 * _FORMING * data.m:
        return S.once("root", lambda: MatrixMap(psd_root(S.evaluate(data))), data)
    return stacked_factors(S, data)


def stacked_factors(S: MatrixNode, data: Data) -> LinearMap:
    """Return the factors of S side by side, a linear map F with `F F' = S`."""
    parts = [F if c == 1.0 else F.scaled(value(c) ** 0.5) for c, F in S.factors(data)]
    return parts[0] if len(parts) == 1 else HStack(*parts)


@operator("parameter * array")
def _scaled_array(c: Scalar, x: Any) -> Statistic:
    """Return the statistic `c x` for a scalar with parameters and a vector or square matrix."""
    node = ConstantVector(np.asanyarray(x)) if np.ndim(x) == 1 else as_matrix(x, "a Param times an array")
    return c * node
