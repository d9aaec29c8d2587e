"""Coordinates in the span of samples or map columns, where features outnumber samples or columns.

Every normal that matters is a combination of the samples. In an orthonormal basis of their span they are the
rows of a small table with the same inner products.

The range-space presolve: all points `c + sum A_k q_k` of a set lie in the span of the columns of
`[c, A_1, A_2, ...]`, and so does every dual vector that matters. With `[c, A_1, A_2, ...] = Q R`, Q with
orthonormal columns, the norm of a point is that of its coordinates: `MinNorm` over `R`, whose dimension is
the number of columns. The equations of a coupling are written in coordinates of their own span.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from ucm.data.bound_data import Space
from ucm.data.gram import pivoted_factor
from ucm.data.linear_map import LinearMap, MatrixMap, Vec
from ucm.data.linear_map import Matrix as Table
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Answer

Matrix = NDArray[np.float64]


class OrthonormalCoordinates:
    """Coordinates in an orthonormal basis of the span of dense samples, from a QR factorisation of X'.

    They keep what inner products lose to rounding, as of samples far from 0 or of very different lengths.
    """

    def __init__(self, X: Matrix) -> None:
        self.basis, triangle = np.linalg.qr(X.T)
        self.tables = [np.ascontiguousarray(triangle.T)]
        self.forming = float(X.shape[0] ** 2 * X.shape[1])

    def outward(self, z: Vec) -> Vec:
        """Return the vector in feature space that has the coordinates z."""
        return self.basis @ z

    def inward(self, x: Vec) -> Vec:
        """Return the coordinates of the orthogonal projection of x onto the span."""
        return self.basis.T @ x


class SpanCoordinates:
    """Coordinates in the span of samples, from the pivoted Cholesky factor F of the Gram matrix `X X'`.

    z are the coordinates of `X'c` with `F'c = z`.

    Parameters
    ----------
    samples : tables of them, all dense or all CSR; X is made of their rows

    Attributes
    ----------
    tables : the samples in these coordinates
    forming : multiplications that the basis took
    """

    def __init__(self, samples: Sequence[Table]) -> None:
        self.samples = samples
        sizes = [X.shape[0] for X in samples]
        K: Any = [[None] * len(samples) for _ in samples]
        for i, A in enumerate(samples):
            for j, B in enumerate(samples[: i + 1]):
                K[i][j] = A @ B.T
                K[j][i] = K[i][j].T
        is_sparse = sparse.issparse(samples[0])
        F, pivots = pivoted_factor(sparse.block_array(K).toarray() if is_sparse else np.block(K))
        self.pivots = pivots[: F.shape[1]]
        self.triangle = F[self.pivots] if F.any() else np.eye(1)  # samples that are all 0
        self.ends = np.cumsum(sizes)[:-1]
        self.tables = np.split(F, self.ends)
        self.forming = 0.5 * sum(sizes) * sum(X.nnz if is_sparse else X.size for X in samples)

    def outward(self, z: Vec) -> Vec:
        """Return the vector in feature space that has the coordinates z."""
        c = np.zeros(sum(X.shape[0] for X in self.samples))
        c[self.pivots] = linalg.solve_triangular(self.triangle, z, lower=True, trans=1)
        parts = zip(self.samples, np.split(c, self.ends), strict=True)
        return np.sum([X.T @ part for X, part in parts], axis=0)

    def inward(self, x: Vec) -> Vec:
        """Return the coordinates of the orthogonal projection of x onto the span."""
        scores = np.concatenate([X @ x for X in self.samples])
        return linalg.solve_triangular(self.triangle, scores[self.pivots], lower=True)


def span_of(X: Table) -> SpanCoordinates | OrthonormalCoordinates:
    """Return coordinates in the span of samples, dense or CSR."""
    return SpanCoordinates([X]) if sparse.issparse(X) else OrthonormalCoordinates(X)


def columns(form: MinNorm) -> int:
    """Return the total number of columns of the maps of all blocks."""
    return sum(b.map.shape[1] for b in form.blocks)


def factoring(form: MinNorm, rows: int, columns: int) -> float:
    """Return the cost of a QR factorisation in passes, two multiplications for each stored entry."""
    return rows * columns**2 / (2.0 * max(1, form.stored))


def orthonormal_coordinates(point: Vec, maps: Iterable[LinearMap]) -> tuple[Matrix, Vec, list[Matrix]]:
    """Return an orthonormal basis Q of the span of a point and map columns, and coordinates of both."""
    dense = [A.matmat(np.eye(A.shape[1])) for A in maps]
    Q, R = np.linalg.qr(np.column_stack([point, *dense]))
    ends = np.cumsum([1, *(A.shape[1] for A in dense)])
    return Q, R[:, 0], [np.ascontiguousarray(M) for M in np.split(R, ends, axis=1)[1:-1]]


def range_space_orders(form: MinNorm) -> tuple[int, int] | None:
    """Return the dimension and the coupling equations of the range space if the QR factor pays; else None."""
    n = min(form.n, 1 + columns(form))
    coupled = sum(min(c.offset.size, 1 + sum(B.shape[1] for _, B in c.terms)) for c in form.couplings)
    order, rows = n + coupled, form.n + form.coupled
    # the QR factor pays where it halves the dimension, up to 1.6 GB
    if form.norm != 2.0 or 2.0 * order > rows or rows * order > 2e8:
        return None
    if not form.couplings and factoring(form, form.n, n) > 300.0:  # APG takes fewer passes than the factor
        return None
    return n, coupled


@dataclass(frozen=True)
class RangeSpace:
    """Euclidean `form` in coordinates of its span, and orthonormal columns of it and of each coupling's."""

    form: MinNorm
    basis: Matrix
    bases: tuple[Matrix, ...]

    @classmethod
    def of(cls, form: MinNorm, monitor: Monitor) -> RangeSpace:
        """Return the range-space form of a form, by QR factorisation of its centre and columns."""
        Q, center, parts = orthonormal_coordinates(form.center, [b.map for b in form.blocks])
        blocks = tuple(replace(b, map=MatrixMap(M)) for b, M in zip(form.blocks, parts, strict=True))
        couplings, bases = [], []
        for c in form.couplings:
            basis, offset, parts = orthonormal_coordinates(c.offset, [B for _, B in c.terms])
            bases.append(basis)
            terms = tuple((k, MatrixMap(M)) for (k, _), M in zip(c.terms, parts, strict=True))
            couplings.append(replace(c, terms=terms, offset=offset))
        monitor.hessian_passes += sum(factoring(form, *A.shape) for A in (Q, *bases))
        space = Space()
        small = MinNorm(center, blocks, tuple(couplings), 2.0, form.stored, space)
        return cls(small, Q, tuple(bases))

    def back(self, answer: Answer) -> Answer:
        """Convert an answer of the range-space form, in place, to an answer of the original form."""
        answer.w = None if answer.w is None else self.basis @ answer.w
        pairs = zip(self.bases, answer.multipliers, strict=False)
        answer.multipliers = [A @ mu for A, mu in pairs]
        return answer
