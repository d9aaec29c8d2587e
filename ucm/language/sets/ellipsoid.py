"""Balls and ellipsoids, `{c + A u : ||u||_p <= radius}`."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from scipy import sparse

from ucm.data.bound_data import Data
from ucm.data.linear_map import IdentityMap, LinearMap, Vec
from ucm.language import cvx as cp
from ucm.language.contracts import Domain, Scope, Size, Splits
from ucm.language.domains import NormBall
from ucm.language.node import Notation, RotationInvariant, converted
from ucm.language.parameter import Expression, Scalar
from ucm.language.sets.affine_image import DomainImage
from ucm.language.statistics.affine import (
    MatrixNode,
    VectorNode,
    as_matrix,
    as_vector,
    covariance_map,
    offset,
)


class _BallImage(DomainImage):
    """The base class of affine images of a ball, `{c + A u : ||u||_p <= radius}`.

    A subclass has the fields `center` and `radius`.
    """

    p = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._domain  # refuses a wrong p

    @functools.cached_property
    def _domain(self) -> NormBall:
        return NormBall(self.radius, self.p)  # type: ignore[attr-defined]

    def declared(self) -> tuple[VectorNode, Domain]:
        return self.center, self._domain  # type: ignore[attr-defined]

    def size(self, data: Data) -> Size | None:
        return self._domain.size()

    def _written(self, u: str, notation: Notation) -> str:
        radius = notation.scalar(self.radius)  # type: ignore[attr-defined]
        norm = notation.norm("u", f"{self.p:g}") + notation.leq + radius
        return notation.set_of(offset(self.center, u, notation), norm)  # type: ignore[attr-defined]


class Ball(_BallImage):
    """The p-norm ball `{c + u : ||u||_p <= radius}` in feature space.

    Parameters
    ----------
    center : statistic, (n,) array, or 0
        The middle of the ball.
    radius : float or Param
        >= 0, in the units of the features.
    p : float in [1, inf]
        The norm.

    Examples
    --------
    >>> import ucm
    >>> print(ucm.Ball(ucm.pos.mean, ucm.Param("r", 0.5)))
    {x̄₊ + u : ‖u‖₂ ≤ r},  r = 0.5
    """

    center: VectorNode = converted(converter=as_vector)
    radius: Scalar
    p: float = 2.0

    @property
    def rotation_invariant(self) -> bool:
        return self.p == 2.0

    def map(self, data: Data) -> LinearMap:
        n = self.center.evaluate(data).size
        return data.from_orthonormal(n) if self.rotation_invariant else IdentityMap(n)

    def cvxpy(self, data: Data, scope: Scope) -> tuple[cp.Expression, list[cp.Constraint]]:
        c = self.center.cvxpy(data, scope)
        radius = scope.of(self._domain.size())
        if not scope.scaled:
            u = cp.Variable(c.size, name="u")
            return c + u, self._domain.cvxpy(u, radius)
        v = cp.Variable(c.size, name=f"u / {data.scale:.3g}")
        return c + data.scale * v, self._domain.cvxpy(v, radius / data.scale)

    def formula(self, notation: Notation) -> str:
        return self._written("u", notation)


class Ellipsoid(_BallImage, RotationInvariant):
    """The ellipsoid `{c + S^(1/2) u : ||u||_2 <= radius}` in feature space.

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

    def map(self, data: Data) -> LinearMap:
        return data.once(("factor", self.shape), lambda: covariance_map(self.shape, data))

    def cvxpy(self, data: Data, scope: Scope) -> tuple[cp.Expression, list[cp.Constraint]]:
        roots = [(c, _root(F)) for c, F in self.shape.weighted_factors(data)]
        u = cp.Variable(sum(F.shape[1] for _, F in roots), name="u")
        x, start = self.center.cvxpy(data, scope), 0
        for c, F in roots:
            part = u[start : start + F.shape[1]]
            x = x + (scope.of(c**0.5) * (F @ part) if isinstance(c, Expression) else c**0.5 * F @ part)
            start += F.shape[1]
        return x, self._domain.cvxpy(u, scope.of(self._domain.size()))

    def support(self, data: Data, d: Vec, splits: Splits) -> tuple[float, Vec | None]:
        # <c, d> + r sqrt(d' S d), with d' S d = sum_k ||F_k' d||^2 from the samples, not from the root
        factors, c = self.shape.factors(data), self.center.evaluate(data)
        height, parts = self._height(data, d)
        length = _length(parts)
        if length == 0.0:
            return height, c
        step = sum((F.matvec(p) for F, p in zip(factors, parts, strict=True)), start=0.0 * c)
        return height, c + (self._domain.size().number / length) * step

    def support_value(self, data: Data, d: Vec, splits: Splits) -> float:
        return self._height(data, d)[0]

    def _height(self, data: Data, d: Vec) -> tuple[float, list[Vec]]:
        """Return the support function at d, and the products `F_k' d` with the factors of the shape."""
        parts = [F.rmatvec(d) for F in self.shape.factors(data)]
        reach = self._domain.size().number * _length(parts)
        return float(self.center.evaluate(data) @ d) + reach, parts

    def formula(self, notation: Notation) -> str:
        shape = self.shape.formula(notation)
        root = notation.power(f"({shape})" if " " in shape else shape, "(1/2)")
        return self._written(f"{root} u", notation)


def _length(parts: list[Vec]) -> float:
    """Return the 2-norm of the concatenated parts.

    Without BLAS, whose threads would wait for each other.
    """
    return float(np.sqrt(sum(np.einsum("i,i->", p, p) for p in parts)))


def _root(F: LinearMap) -> Any:
    """Return a matrix G with `G G' = F F'` and no more columns than rows: F itself, or R' of a QR of F'."""
    if F.shape[1] <= F.shape[0]:
        return F.matrix()
    M = F.matrix()
    M = M.toarray() if sparse.issparse(M) else M
    return np.asarray(np.linalg.qr(M.T, mode="r")).T
