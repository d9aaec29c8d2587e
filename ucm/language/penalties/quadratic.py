"""Quadratic penalties `w'Qw` of the normal w."""

from __future__ import annotations

import functools
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ucm.data.bound_data import Data
from ucm.data.deadline import check_time
from ucm.data.linear_map import Vec
from ucm.errors import CompositionError
from ucm.language import cvx as cp
from ucm.language.cone import PolyhedralCone
from ucm.language.node import Notation, converted, in_parentheses
from ucm.language.objective import PenaltySum, ScaledPenalty, multiplied, summed
from ucm.language.parameter import Scalar, Scope
from ucm.language.penalties.constraints import LinearConstraint
from ucm.language.penalties.norms import check_length
from ucm.language.statistics.affine import ConstantMatrix, MatrixNode, as_matrix
from ucm.language.terms import Penalty, ProximalPenalty

_PER_CUBE = 1.5e-10  # seconds over n^3, of the eigenvalues of a matrix of order n
_ROUNDING = 1e-10  # times the largest eigenvalue: smaller eigenvalues count as 0


class Quadratic(ProximalPenalty):
    """The quadratic penalty `w'Qw` with a positive semidefinite matrix Q.

    Its conjugate is `R*(z) = z'Q^+ z / 4` for z in the range of Q.

    A Laplacian of a graph of features favours similar weights of neighbours. A covariance favours a small
    spread of the scores: `Quadratic(pos.cov)` is the variance of the scores of class +1. `Quadratic(I)` is
    `L2()`. The eigenvalues are computed once, in O(n^3).

    Parameters
    ----------
    Q : (n, n) array, sparse matrix or statistic
        The matrix, in units of 1 over the product of the units of two features. A covariance is computed from
        the samples of each fit.

    Raises
    ------
    CompositionError
        Q is not square, not symmetric, or has a negative eigenvalue; samples of another number of features;
        the value of a penalty of a covariance, which takes samples.

    Notes
    -----
    Li and Li (2008), Network-constrained regularization and variable selection, for Laplacians.

    Examples
    --------
    >>> import ucm
    >>> round(ucm.Quadratic([[1.0, -1.0], [-1.0, 1.0]]).value([3.0, 1.0]), 9)
    4.0
    """

    keeps_signs: ClassVar[bool] = False

    Q: MatrixNode = converted(converter=as_matrix)

    @functools.cached_property
    def dense(self) -> NDArray[np.float64]:
        """The matrix Q as a dense array; a `CompositionError` for a covariance without samples."""
        if isinstance(self.Q, ConstantMatrix):
            return self.Q.dense()
        raise CompositionError(
            f"{self!r}: expected samples for its covariance, got none; compile or solve a loss with it"
        )

    @functools.cached_property
    def factors(self) -> tuple[Vec, Vec]:
        """The positive eigenvalues of Q, and their eigenvectors as columns."""
        e, V = np.linalg.eigh(self.dense)
        positive = e > _ROUNDING * max(float(e.max()), 0.0)
        return e[positive], V[:, positive]

    @functools.cached_property
    def root(self) -> NDArray[np.float64]:
        """The root B of Q, `B'B = Q`, with one row for each positive eigenvalue."""
        e, V = self.factors
        return np.sqrt(e)[:, None] * V.T

    def check_features(self, n: int) -> None:
        check_length(self, "Q", self.dense.shape[0], n)

    def with_column(self, n: int) -> Quadratic:
        return Quadratic(np.pad(self.dense, (0, 1)))

    def value(self, w: Vec) -> float:
        w = np.asarray(w, dtype=float)
        self.check_features(w.size)
        e, V = self.factors
        return float(e @ (V.T @ w) ** 2)

    def prox(self, v: Vec, t: float) -> Vec:
        e, V = self.factors
        return v - V @ ((2.0 * t * e / (1.0 + 2.0 * t * e)) * (V.T @ v))

    def conjugate(self, z: Vec) -> float:
        e, V = self.factors
        with np.errstate(over="ignore"):  # inf bounds nothing
            return 0.25 * float(((V.T @ z / np.sqrt(e)) ** 2).sum())

    @functools.cached_property
    def _cone(self) -> PolyhedralCone | None:
        V = self.factors[1]
        return PolyhedralCone(lines=(V,)) if V.shape[1] < V.shape[0] else None

    def domain_cone(self) -> PolyhedralCone | None:
        return self._cone

    def gauge(self, z: Vec) -> float:
        distance = np.abs(self.project_onto_domain_cone(z) - z).max(initial=0.0)
        return 0.0 if distance <= 1e-12 * np.abs(z).max(initial=0.0) else np.inf

    def gradient(self, w: Vec) -> Vec:
        e, V = self.factors
        return 2.0 * (V @ (e * (V.T @ w)))

    def norms(self) -> tuple[float, float, float] | None:
        """Return (0, c, 0), the factors of the norms, if Q is c times the identity; else None."""
        if not isinstance(self.Q, ConstantMatrix):
            return None
        c = float(self.dense[0, 0])
        diagonal = np.count_nonzero(self.dense) == len(self.dense)
        return (0.0, c, 0.0) if diagonal and (self.dense.diagonal() == c).all() else None

    def cvxpy(self, w: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        if not self.root.size:
            return 0.0 * cp.sum(w)
        return scope.of(factor) * cp.sum_squares(self.root @ w)

    def formula(self, notation: Notation) -> str:
        return f"w'{in_parentheses(self.Q.formula(notation))}w"


def evaluated(penalty: Penalty, data: Data) -> Penalty:
    """Return the penalty (a sum for a sum of covariances) with its statistic as an array of the data."""
    match penalty:
        case PenaltySum():
            return summed(PenaltySum, [evaluated(R, data) for R in penalty.terms])
        case ScaledPenalty():
            return multiplied(penalty.factor, evaluated(penalty.term, data))
        case Quadratic(Q=Q) if not isinstance(Q, ConstantMatrix):
            Q.dimension(data.n)  # refuses matrices of different orders
            terms = Q.as_terms()
            check_time(_PER_CUBE * data.n**3 * len(terms))  # which eigenvalues will take
            return summed(PenaltySum, [multiplied(c, Quadratic(S.evaluate(data))) for c, S in terms])
        case LinearConstraint(A=tuple() as rows, lb=lb, ub=ub):
            return LinearConstraint(np.array([row.evaluate(data) for row in rows]), lb, ub)
    return penalty
