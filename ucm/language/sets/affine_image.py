"""Affine images of domains, `{c + A q : q in D}`: their lowering and checks; `Point`, `AffineImage`.

An intersection `D1 & D2` has no projection of its own. It becomes one block per operand, coupled to
be equal; the first block carries the image.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ucm.data.bound_data import Data
from ucm.data.linear_map import IdentityMap, LinearMap, MatrixMap, Vec, ZeroMap
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
    Splits,
    UncertaintySet,
)
from ucm.language.domains import DomainIntersection, Simplex
from ucm.language.node import Notation, RotationInvariant, axes, converted
from ucm.language.statistics.affine import Origin, VectorNode, as_vector, offset

_ROUNDING = 1e-14  # of an inner product


def subpaths(splits: Splits, name: str) -> dict[Path, Vec]:
    """Return the splits whose path starts with the field `name`, with that field removed."""
    return {path[1:]: split for path, split in splits.items() if path and path[0] == name}


def reindexed(couplings: Iterable[Coupling], name: str, shift: int = 0) -> tuple[Coupling, ...]:
    """Return the couplings of an operand, renumbered for the blocks and paths of its parent.

    The operand is the field `name`, and its blocks stand `shift` places later.
    """
    return tuple(
        Coupling((name, *c.path), tuple((k + shift, B) for k, B in c.terms), c.offset) for c in couplings
    )


@dataclass(frozen=True)
class CoefficientSpace:
    """The space of the coefficients q of an image: a domain, bound to samples where q weighs samples.

    Attributes
    ----------
    domain : as it is declared
    dim : their number
    bound : the weights and classes of the samples; None where there are none
    samples : the indices of the samples
    """

    domain: Domain
    dim: int
    bound: SampleWeights | None = None
    samples: np.ndarray | None = None

    @functools.cached_property
    def pieces(self) -> list[BoundDomain]:
        """The domains whose intersection is the space; over samples, those on the simplex first."""
        declared = _operands(self.domain)
        if self.bound is None:
            return [*declared]
        domains = [D.bind(self.bound) for D in declared]
        on_simplex = [D for D in domains if D.on_simplex] or [Simplex().bind(self.bound)]
        return on_simplex + [D for D in domains if not D.on_simplex]

    def blocks(self, image: LinearMap) -> tuple[list[Block], list[Coupling]]:
        """Return one block for each piece, and the couplings by which all blocks are equal.

        Only the first block carries the image.
        """
        weight = 0.0 if self.samples is None else 1.0
        classes = None if self.bound is None else self.bound.classes
        first, *coupled = self.pieces
        blocks = [Block(image, first, classes, self.samples, weight)]
        meets: list[Coupling] = []
        if coupled:
            nothing, none = ZeroMap(image.shape[0], self.dim), np.zeros(self.dim)
            one, minus = IdentityMap(self.dim), IdentityMap(self.dim, -1.0)
            blocks += [Block(nothing, d, classes) for d in coupled]
            meets += [Coupling((str(k),), ((0, one), (k, minus)), none) for k in range(1, len(blocks))]
        return blocks, meets

    def violation(self, q: Vec) -> float:
        """Return the largest violation of the intersected domains by q."""
        return max(d.violation(q) for d in self.pieces)

    def support(self, g: Vec, splits: Splits) -> tuple[float, Vec | None]:
        """Return `max <g, q>` and a maximiser; for an intersection an upper bound and None.

        For any vectors s_k, one for each piece D_k but the first, some of them 0:
        `sigma(g) <= min(min_k sigma_k(g), sigma_0(g - sum_k s_k) + sum_k sigma_k(s_k))`.
        """
        first, *coupled = self.pieces
        top, q = first.support(g)
        if not coupled:
            return top, q
        bounds = [top, *(d.support(g)[0] for d in coupled)]
        shares = [(d, splits[(str(k),)]) for k, d in enumerate(coupled, 1) if (str(k),) in splits]
        costs = [d.support(s)[0] for d, s in shares]
        every = tuple(range(len(shares)))
        for subset in {*((k,) for k in every), every} - {()}:
            remainder = g - sum((shares[k][1] for k in subset), start=np.zeros(self.dim))
            bounds.append(first.support(remainder)[0] + sum(costs[k] for k in subset))
        return min(bounds), None

    def infeasibility_reason(self) -> str | None:
        """Return why one of the intersected domains is empty, else None.

        None also if all have points and only their intersection is empty.
        """
        reasons = (d.infeasibility_reason(self.dim) for d in self.pieces)
        return next((why for why in reasons if why is not None), None)

    def cvxpy(self, q: cp.Expression, scope: Scope) -> list[cp.Constraint]:
        """Return the CVXPY constraints on q: of every declared domain, and of the simplex over samples."""
        constraints = []
        for D in _operands(self.domain):
            size = D.size()
            number = None if size is None else scope.of(size)
            if self.bound is None:
                constraints += D.cvxpy(q, number)
            else:
                constraints += D.inside(q, number, self.bound)
        return constraints if self.bound is None else [*constraints, *self.bound.cvxpy(q)]


def _operands(domain: Domain) -> list[Domain]:
    """Return the operands of nested intersections, in order; any other domain alone."""
    if isinstance(domain, DomainIntersection):
        return _operands(domain.left) + _operands(domain.right)
    return [domain]


class DomainImage(UncertaintySet):
    """The base class of affine images of a domain, `{c + A q : q in D}`.

    A subclass states c, A and D.
    """

    @abstractmethod
    def declared(self) -> tuple[VectorNode, Domain]:
        """Return the vector c and the domain D as declared."""

    @abstractmethod
    def map(self, data: Data) -> LinearMap:
        """Return the linear map A of the image, over bound samples."""

    def space(self, data: Data) -> CoefficientSpace:
        """Return the coefficient space: D over bound samples."""
        return CoefficientSpace(self.declared()[1], self.map(data).shape[1])

    def bound_space(self, data: Data) -> CoefficientSpace:
        """Return `space(data)`, cached in the data."""
        return data.once(("space", self), lambda: self.space(data))

    def infeasibility_reason(self, data: Data) -> str | None:
        why = self.bound_space(data).infeasibility_reason()
        return None if why is None else f"{self!r}: {why}"

    def image(self, data: Data) -> tuple[Vec, LinearMap]:
        """Return the vector c and the linear map A of the image, over bound samples."""
        c, A = self.declared()[0], self.map(data)
        return np.zeros(A.shape[0]) if isinstance(c, Origin) else c.evaluate(data), A

    def variable(self, dim: int, scope: Scope) -> cp.Expression:
        """Return the coefficients q as a CVXPY variable of length `dim`."""
        return cp.Variable(dim, name="q")

    def cvxpy(self, data: Data, scope: Scope) -> tuple[cp.Expression, list[cp.Constraint]]:
        c, space = self.declared()[0], self.bound_space(data)
        q = self.variable(space.dim, scope)
        x = self.map(data).matrix() @ q
        x = x if isinstance(c, Origin) else c.cvxpy(data, scope) + x
        return x, space.cvxpy(q, scope)

    def lower(self, data: Data) -> LoweredSet:
        c, A = self.image(data)
        blocks, couplings = self.bound_space(data).blocks(A)
        return LoweredSet(c, tuple(blocks), tuple(couplings))

    def evaluate(self, data: Data, q: Iterator[Vec]) -> tuple[Vec, float]:
        (c, A), space = self.image(data), self.bound_space(data)
        first, *_ = [next(q) for _ in space.pieces]
        return c + A.matvec(first), space.violation(first)

    def support(self, data: Data, d: Vec, splits: Splits) -> tuple[float, Vec | None]:
        height, q = self._highest(data, d, splits)
        if q is None:
            return height, None
        c, A = self.image(data)
        return height, c + A.matvec(q)

    def support_value(self, data: Data, d: Vec, splits: Splits) -> float:
        return self._highest(data, d, splits)[0]

    def _highest(self, data: Data, d: Vec, splits: Splits) -> tuple[float, Vec | None]:
        """Return the support function at d, and the coefficients q of a maximiser (or None)."""
        c, A = self.image(data)
        space, g = self.bound_space(data), A.rmatvec(d)
        height, q = space.support(g, splits)
        if height == np.inf:  # along a line of weights, rounding of g is enough
            rounding = _ROUNDING * A.column_norms() * float(np.linalg.norm(d))
            height, q = space.support(np.where(np.abs(g) <= rounding, 0.0, g), splits)
        return float(c @ d) + height, q


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


def as_linear_map(M: Any, where: str = "a matrix") -> Any:
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
    {[2×2] q : ‖q‖₂ ≤ 1}
    """

    A: Any = converted(converter=as_linear_map)
    domain: Domain
    center: VectorNode = converted(converter=as_vector, default=Origin())

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
