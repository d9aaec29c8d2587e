"""Ellipsoids, above all those of class means and covariances."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from ucm.data.bound import Data
from ucm.data.linear import LinearMap, Vec
from ucm.language import cvx as cp
from ucm.language.contracts import (
    Block,
    LoweredSet,
    Scope,
    Size,
    Splits,
    UncertaintySet,
    common_dimension,
)
from ucm.language.domains import NormBall
from ucm.language.node import Expression, Notation, RotationInvariant, Scalar, converted
from ucm.language.statistics.affine import (
    MatrixNode,
    VectorNode,
    as_matrix,
    as_vector,
    covariance_map,
    offset,
)

__all__ = ["Ellipsoid"]


class Ellipsoid(UncertaintySet, RotationInvariant):
    """The ellipsoid `{c + S^(1/2) u : ||u||_2 <= radius}`.

    Parameters
    ----------
    center : statistic, (n,) array, or 0
        Its middle c.
    shape : covariance, sum of covariances, or positive semidefinite (n, n) array S
        The matrix S, whose root maps the unit ball.
    radius : float or Param
        >= 0, in standard deviations when S is a covariance.

    Notes
    -----
    The set of MM-MPM and MM-FDA: Ito, Takeda and Toh (2015), equations (32) and (34). Covariances
    are divided by the number of samples; a singular S gives a flat ellipsoid.

    Examples
    --------
    >>> import ucm
    >>> print(ucm.Ellipsoid(ucm.pos.mean, ucm.pos.cov, ucm.Param("kappa", 0.5)))
    {x̄₊ + Σ₊^(1/2) u : ‖u‖₂ ≤ κ},  κ = 0.5
    """

    center: VectorNode = converted(converter=as_vector)
    shape: MatrixNode = converted(converter=as_matrix)
    radius: Scalar

    def __post_init__(self) -> None:
        super().__post_init__()
        self.dimension(None)

    def dimension(self, n: int | None) -> int | None:
        return common_dimension(self, [self.center.dimension(n), self.shape.dimension(n)])

    @functools.cached_property
    def _domain(self) -> NormBall:
        return NormBall(self.radius)

    def infeasibility(self, data: Data) -> str | None:
        why = self._domain.infeasibility(1)
        return None if why is None else f"{self!r}: {why}"

    def size(self, data: Data) -> Size | None:
        return self._domain.size()

    def _map(self, data: Data) -> LinearMap:
        return data.once(("factor", self.shape), lambda: covariance_map(self.shape, data))

    def lower(self, data: Data) -> LoweredSet:
        return LoweredSet(self.center.evaluate(data), (Block(self._map(data), self._domain),))

    def rebuild(self, data: Data, q: Iterator[Vec]) -> tuple[Vec, float]:
        u = next(q)
        return self.center.evaluate(data) + self._map(data).matvec(u), self._domain.violation(u)

    def cvxpy(self, data: Data, scope: Scope) -> tuple[cp.Expression, list[cp.Constraint]]:
        roots = [(c, _root(F)) for c, F in self.shape.weighted_factors(data)]
        u = cp.Variable(sum(F.shape[1] for _, F in roots), name="u")
        x, start = self.center.cvxpy(data, scope), 0
        for c, F in roots:
            part = u[start : start + F.shape[1]]
            x = x + (
                scope.of(c**0.5) * (F @ part) if isinstance(c, Expression) else c**0.5 * F @ part
            )
            start += F.shape[1]
        return x, self._domain.constraints(u, scope.of(self._domain.size()))

    def support(self, data: Data, d: Vec, splits: Splits) -> tuple[float, Vec | None]:
        c, factors = self.center.evaluate(data), self.shape.factors(data)
        parts = [F.rmatvec(d) for F in factors]
        length, radius = _length(parts), self._domain.size().number
        if length == 0.0:
            return float(c @ d), c
        step = sum((F.matvec(p) for F, p in zip(factors, parts, strict=True)), start=0.0 * c)
        return float(c @ d) + radius * length, c + (radius / length) * step

    def support_value(self, data: Data, d: Vec, splits: Splits) -> float:
        # <c, d> + r sqrt(d' S d), with d' S d = sum_k ||F_k' d||^2 from the samples
        length = _length([F.rmatvec(d) for F in self.shape.factors(data)])
        return float(self.center.evaluate(data) @ d) + self._domain.size().number * length

    def formula(self, notation: Notation) -> str:
        shape = self.shape.formula(notation)
        root = notation.power(f"({shape})" if " " in shape else shape, "(1/2)")
        norm = notation.norm("u", "2") + notation.leq + notation.scalar(self.radius)
        return notation.set_of(offset(self.center, f"{root} u", notation), norm)


def _length(parts: list[Vec]) -> float:
    """Of the parts of one vector; summed in this thread."""
    return float(np.sqrt(sum(np.einsum("i,i->", p, p) for p in parts)))


def _root(F: LinearMap) -> Any:
    """A matrix G with G G' = F F', no wider than it needs to be: F itself, or from its QR."""
    if F.shape[1] <= F.shape[0]:
        return F.matrix()
    M = F.matrix()
    M = M.toarray() if sparse.issparse(M) else M
    return np.asarray(np.linalg.qr(M.T, mode="r")).T
