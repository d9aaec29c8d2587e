"""Affine images of domains, `{c + A q : q in D}`: `Point`, `AffineImage`, `Ball`, `Ellipsoid`."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ucm.data.bound_data import Data
from ucm.data.linear_map import IdentityMap, LinearMap, Matrix, MatrixMap, Vec, zero_map
from ucm.errors import CompositionError, brief
from ucm.language import cvx as cp
from ucm.language.contracts import (
    Block,
    BoundDomain,
    Coupling,
    Domain,
    LoweredSet,
    Path,
    SampleWeights,
    Scope,
    Size,
    Splits,
    UncertaintySet,
)
from ucm.language.domains import NormBall, Simplex
from ucm.language.node import Notation, RotationInvariant, axes, converted, number_in
from ucm.language.parameter import Expression, Scalar
from ucm.language.statistics.affine import (
    ORIGIN,
    MatrixNode,
    Origin,
    VectorNode,
    as_matrix,
    as_vector,
    covariance_map,
    offset,
    stacked_factors,
)

_ROUNDING = 1e-14  # of an inner product
_BY_SAMPLE = ", and for one size a sample Robust(Hinge(), per_sample('radius') * Ball(0, 1))"


def subpaths(splits: Splits, name: str) -> dict[Path, Vec]:
    """Return the splits whose path starts with the field `name`, with that field removed."""
    return {path[1:]: split for path, split in splits.items() if path and path[0] == name}


def reindexed(couplings: Iterable[Coupling], name: str, shift: int = 0) -> tuple[Coupling, ...]:
    """Return the couplings of the operand `name`, renumbered for blocks `shift` places later."""
    return tuple(
        Coupling((name, *c.path), tuple((k + shift, B) for k, B in c.terms), c.offset) for c in couplings
    )


@dataclass(frozen=True)
class BoundImage:
    """The image `{center + A q : q in every one of pieces}` of bound samples.

    `samples` are those that q weighs, None where it weighs none.
    """

    A: LinearMap
    center: Vec
    pieces: list[BoundDomain]
    samples: SampleWeights | None = None


class DomainImage(UncertaintySet):
    """The base class of affine images of a domain, `{c + A q : q in D}`.

    A subclass states c, A and D. An intersection `D1 & D2` has no projection of its own: it becomes one block
    per operand, coupled to be equal, of which the first carries the image.
    """

    @abstractmethod
    def declared(self) -> tuple[VectorNode, Domain]:
        """Return the vector c and the domain D as declared."""

    @abstractmethod
    def map(self, data: Data) -> LinearMap:
        """Return the linear map A of the image, over bound samples."""

    def sample_weights(self, data: Data) -> SampleWeights | None:
        """Return the weights, classes and indices of the samples that q weighs, by default None: none."""
        return None

    def bound(self, data: Data) -> BoundImage:
        """Return the image of bound samples, computed once."""
        return self.once("image", lambda: self._bound(data), data)

    def _bound(self, data: Data) -> BoundImage:
        (c, domain), A, samples = self.declared(), self.map(data), self.sample_weights(data)
        center = np.zeros(A.shape[0]) if isinstance(c, Origin) else c.evaluate(data)
        if samples is None:
            return BoundImage(A, center, [*domain.intersected()])
        domains = [D.bind(samples) for D in domain.intersected()]
        on_simplex = [D for D in domains if D.on_simplex] or [Simplex().bind(samples)]
        pieces = on_simplex + [D for D in domains if not D.on_simplex]
        return BoundImage(A, center, pieces, samples)

    def pieces(self, data: Data) -> list[BoundDomain]:
        """Return the domains whose intersection q lies in; over samples, those on the simplex first."""
        return self.bound(data).pieces

    def infeasibility_reason(self, data: Data) -> str | None:
        """Return why one of the intersected domains, not their intersection, is empty; else None."""
        image = self.bound(data)
        reasons = (D.infeasibility_reason(image.A.shape[1]) for D in image.pieces)
        return next((f"{self!r}: {why}" for why in reasons if why is not None), None)

    def lower(self, data: Data) -> LoweredSet:
        image = self.bound(data)
        A, samples, (first, *coupled) = image.A, image.samples, image.pieces
        n, dim = A.shape
        rows, classes = (None, None) if samples is None else (samples.rows, samples.classes)
        blocks = [Block(A, first, classes, rows, 0.0 if rows is None else 1.0)]
        blocks += [Block(zero_map(n, dim), D, classes) for D in coupled]
        meets = (
            Coupling((str(k),), ((0, IdentityMap(dim)), (k, IdentityMap(dim, -1.0))), np.zeros(dim))
            for k in range(1, len(blocks))
        )
        return LoweredSet(np.array(image.center), tuple(blocks), tuple(meets))

    def evaluate(self, data: Data, q: Iterator[Vec]) -> tuple[Vec, float]:
        image = self.bound(data)
        first, *_ = [next(q) for _ in image.pieces]
        violation = max(D.violation(first) for D in image.pieces)
        return image.center + image.A.matvec(first), violation

    def coefficient_name(self) -> str:
        """Return the name of the coefficients q as a CVXPY variable."""
        return "q"

    def coefficients_cvxpy(self, data: Data, scope: Scope) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return the coefficients q in CVXPY, with the constraints of the domain."""
        samples, dim, name = self.sample_weights(data), self.map(data).shape[1], self.coefficient_name()
        scaled = scope.scaled and samples is not None  # weights of samples are near 1 / dim
        q = cp.Variable(dim, name=f"{dim} {name}") / dim if scaled else cp.Variable(dim, name=name)
        constraints = []
        for D in self.declared()[1].intersected():
            size = D.size()
            number = None if size is None else scope.of(size)
            constraints += D.cvxpy(q, number) if samples is None else D.inside(q, number, samples)
        return q, constraints if samples is None else [*constraints, *samples.cvxpy(q)]

    def cvxpy(self, data: Data, scope: Scope) -> tuple[cp.Expression, list[cp.Constraint]]:
        c, (q, constraints) = self.declared()[0], self.coefficients_cvxpy(data, scope)
        x = self.map(data).matrix() @ q
        return x if isinstance(c, Origin) else c.cvxpy(data, scope) + x, constraints

    def support_map(self, data: Data) -> LinearMap:
        """Return the linear map of the support function, by default that of the image."""
        return self.bound(data).A

    def support(self, data: Data, d: Vec, splits: Splits) -> tuple[float, Vec | None]:
        A = self.support_map(data)
        c, g = self.bound(data).center, A.rmatvec(d)
        height, q = self.coefficient_support(data, g, splits)
        if height == np.inf:  # along a line of weights, rounding of g is enough
            rounding = _ROUNDING * A.column_norms() * float(np.linalg.norm(d))
            height, q = self.coefficient_support(data, np.where(np.abs(g) <= rounding, 0.0, g), splits)
        return float(c @ d) + height, None if q is None else c + A.matvec(q)

    def coefficient_support(self, data: Data, g: Vec, splits: Splits) -> tuple[float, Vec | None]:
        """Return `max <g, q>` over q, and a maximiser; for an intersection an upper bound and None.

        For any vectors s_k, one for each piece D_k but the first, some of them 0:
        `sigma(g) <= min(min_k sigma_k(g), sigma_0(g - sum_k s_k) + sum_k sigma_k(s_k))`.
        """
        first, *coupled = self.pieces(data)
        top, q = first.support(g)
        if not coupled:
            return top, q
        bounds = [top, *(D.support(g)[0] for D in coupled)]
        shares = [splits.get((str(k),)) for k in range(1, len(coupled) + 1)]
        split = [(s, D.support(s)[0]) for s, D in zip(shares, coupled, strict=True) if s is not None]
        for chosen in [*([pair] for pair in split), *([split] if len(split) > 1 else [])]:
            remainder = g - sum((s for s, _ in chosen), start=np.zeros(g.size))
            bounds.append(first.support(remainder)[0] + sum(height for _, height in chosen))
        return min(bounds), None


class Point(UncertaintySet, RotationInvariant):
    """The set `{v}` with a single vector v.

    Parameters
    ----------
    vector : statistic or (n,) array
        The one point.

    Examples
    --------
    >>> import ucm
    >>> print(ucm.Point(ucm.pos.mean - ucm.neg.mean))
    {x̄₊ - x̄₋}
    """

    vector: VectorNode = converted(converter=as_vector)

    def lower(self, data: Data) -> LoweredSet:
        return LoweredSet(self.vector.evaluate(data))

    def evaluate(self, data: Data, q: Iterator[Vec]) -> tuple[Vec, float]:
        return self.vector.evaluate(data), 0.0

    def cvxpy(self, data: Data, scope: Scope) -> tuple[cp.Expression, list[cp.Constraint]]:
        v = self.vector.cvxpy(data, scope)
        return cp.Constant(v) if isinstance(v, np.ndarray) else v, []

    def support(self, data: Data, d: Vec, splits: Splits) -> tuple[float, Vec | None]:
        v = self.vector.evaluate(data)
        return float(v @ d), v

    def formula(self, notation: Notation) -> str:
        left, right = notation.braces
        return f"{left}{self.vector.formula(notation)}{right}"


def as_linear_map(M: Any, where: str = "a matrix") -> Matrix:
    """Return M as a dense or sparse matrix; refuse other shapes and empty matrices."""
    if sparse.issparse(M) and M.ndim == 2:
        return M
    if not isinstance(M, np.ndarray | list | tuple) or axes(M, where) != 2 or 0 in np.shape(M):
        raise CompositionError(
            f"{where}: expected a matrix with rows and columns, got {brief(M)}; give a two-dimensional array"
        )
    return np.asanyarray(M)  # a masked one is refused where it is kept


class AffineImage(DomainImage):
    """The affine image `{center + A q : q in D}` of a domain D.

    Parameters
    ----------
    A : (n, d) array or sparse matrix
        Maps the domain into feature space.
    domain : Domain
        Of vectors of length d.
    center : statistic, (n,) array, or 0
        Where the image of 0 lies.

    Examples
    --------
    >>> import ucm
    >>> print(ucm.AffineImage([[1.0, 0.0], [0.0, 2.0]], ucm.NormBall(1.0)))
    {[1, 0; 0, 2] q : ‖q‖₂ ≤ 1}
    """

    A: Any = converted(converter=as_linear_map)
    domain: Domain
    center: VectorNode = converted(converter=as_vector, default=ORIGIN)

    def dimension(self, n: int | None) -> int | None:
        rows = self.A.shape[0]
        size = rows if isinstance(self.center, Origin) else self.center.dimension(n)
        if size not in (None, rows):
            raise CompositionError(
                f"expected a center of {rows} entries, one for each row of A, got {size}, in {brief(self)}; "
                "both must be equal"
            )
        return rows

    def declared(self) -> tuple[VectorNode, Domain]:
        return self.center, self.domain

    def map(self, data: Data) -> LinearMap:
        return MatrixMap(self.A)

    def formula(self, notation: Notation) -> str:
        image = offset(self.center, f"{notation.array(self.A)} q", notation)
        return notation.set_of(image, self.domain.formula(notation))


class _BallImage(DomainImage):
    """The base class of `{c + A u : ||u||_p <= radius}`, with the fields `center` and `radius`."""

    p = 2.0

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
    radius: Scalar = number_in("[0, inf]", "radius", f"write Ball(pos.mean, 0.5){_BY_SAMPLE}")
    p: float = number_in("[1, inf]", "p", "write 2.0 for the Euclidean norm", default=2.0)

    @property
    def rotation_invariant(self) -> bool:
        return self.p == 2.0

    def map(self, data: Data) -> LinearMap:
        n = self.center.evaluate(data).size
        return data.from_orthonormal(n) if self.rotation_invariant else IdentityMap(n)

    def cvxpy(self, data: Data, scope: Scope) -> tuple[cp.Expression, list[cp.Constraint]]:
        c = self.center.cvxpy(data, scope)
        radius, unit = scope.of(self._domain.size()), scope.unit(data.scale)
        u = cp.Variable(c.size, name="u" if unit == 1.0 else f"u / {unit:.3g}")
        return c + unit * u, self._domain.cvxpy(u, radius / unit)

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
    radius: Scalar = number_in("[0, inf]", "radius", f"write Ellipsoid(pos.mean, pos.cov, 0.5){_BY_SAMPLE}")

    def map(self, data: Data) -> LinearMap:
        return data.once(("factor", self.shape), lambda: covariance_map(self.shape, data))

    def cvxpy(self, data: Data, scope: Scope) -> tuple[cp.Expression, list[cp.Constraint]]:
        roots = [(c, _root(F)) for c, F in self.shape.factors(data)]
        u = cp.Variable(sum(F.shape[1] for _, F in roots), name="u")
        x, start = self.center.cvxpy(data, scope), 0
        for c, F in roots:
            part = u[start : start + F.shape[1]]
            x = x + (scope.of(c**0.5) * (F @ part) if isinstance(c, Expression) else c**0.5 * F @ part)
            start += F.shape[1]
        return x, self._domain.cvxpy(u, scope.of(self._domain.size()))

    def support_map(self, data: Data) -> LinearMap:
        """Return a map F with `F F' = S` from the samples, not from the root of S."""
        return stacked_factors(self.shape, data)

    def formula(self, notation: Notation) -> str:
        shape = self.shape.formula(notation)
        root = notation.power(f"({shape})" if " " in shape else shape, "(1/2)")
        return self._written(f"{root} u", notation)


def _root(F: LinearMap) -> Matrix:
    """Return a matrix G with `G G' = F F'` and no more columns than rows: F itself, or R' of a QR of F'."""
    if F.shape[1] <= F.shape[0]:
        return F.matrix()
    M = F.matrix()
    M = M.toarray() if sparse.issparse(M) else M
    return np.asarray(np.linalg.qr(M.T, mode="r")).T
