"""Abstract base classes of domains and uncertainty sets, all that an extension needs.

A *declaration* (`Domain`, `UncertaintySet`) is an immutable `Node` that knows no solver. Losses and
penalties have a page of their own, `ucm.language.terms`.
A set *lowers* to a `LoweredSet`, `x(q) = c + sum_k A_k q_k` with `q_k in D_k` and linear couplings.
A hull *binds* its domain to the weights and classes of its samples; the answer is a `BoundDomain`.
Capabilities are abstract subclasses (`Projectable`, `SemiSmooth`, `MassMultipliers`), asked by `isinstance`;
a `RotationInvariant` node has a meaning with a kernel. A set that is made of other sets by sums, multiples
and matrices is a `Combination`, which states its terms only.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ucm.data.bound_data import Data
from ucm.data.linear_map import LinearMap, Matrix, Vec
from ucm.errors import CompositionError, EmptySetError, brief
from ucm.language import cvx as cp
from ucm.language.node import (
    OPERATORS,
    DeclaredModel,
    Kind,
    Node,
    Notation,
    RotationInvariant,
    SolvableModel,
)
from ucm.language.parameter import Scalar, Scope, Size, named, subject

Path = tuple[str, ...]
"""Path from a node to a descendant: for each step the name of the field, or the index among the terms."""
Index = slice | NDArray[np.intp]
"""The index of some entries of a vector."""
Splits = Mapping[Path, Vec]
"""Split of the direction for each path of an intersection: the summand for the *right* operand of sets.

For an intersection of domains of weights there is one summand for each domain but the first."""


ROUNDING = 1e-12
"""Relative slack below which a point counts as inside and a boundary value as admissible."""


def vector(x: ArrayLike) -> Vec:
    """Return x as a contiguous float64 array."""
    return np.ascontiguousarray(x, dtype=np.float64)


def round_violation(violation: float) -> float:
    """Return the violation, or 0 if at most `ROUNDING`."""
    return 0.0 if violation <= ROUNDING else float(violation)


# --- weights of samples ----------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class SampleWeights:
    """Weights and classes of N samples, over which `q >= 0, sum q = 1`, with classes 1/2 on each class.

    Attributes
    ----------
    dim : N
    weights : (N,) how often each sample counts, c; None: once
    classes : (N,) labels +1 and -1 where q has mass 1/2 on each class; None: mass 1
    number : the sum of the samples' own weights, without those of their classes; None: `total`
    population : m, the number of all samples at hand, and the sum of the weights of each class; None where
        these samples are all
    rows : (N,) the indices of the samples among all; None for given points
    """

    dim: int
    weights: Vec | None = None
    classes: Vec | None = None
    number: float | None = None
    population: tuple[float, float, float] | None = None
    rows: NDArray[np.intp] | None = None

    @property
    def c(self) -> float | Vec:
        """The sample weights c, or 1 without weights."""
        return 1.0 if self.weights is None else self.weights

    @functools.cached_property
    def total(self) -> float:
        """The sum of the sample weights c, class weights included; N without weights."""
        return self.dim if self.weights is None else float(self.weights.sum())

    @property
    def count(self) -> float:
        """The sum of the sample weights without class weights."""
        return self.total if self.number is None else self.number

    @property
    def m(self) -> float:
        """The sum of the weights of all samples at hand, without class weights."""
        return self.count if self.population is None else self.population[0]

    @functools.cached_property
    def groups(self) -> list[tuple[Index, float]]:
        """The mass constraints `sum q_i = mass`, as pairs (index of the entries, mass)."""
        if self.classes is None:
            return [(slice(0, self.dim), 1.0)]
        return [(np.flatnonzero(sign * self.labels > 0), 0.5) for sign in (1, -1)]

    @functools.cached_property
    def sizes(self) -> list[int]:
        """The number of entries in each mass constraint."""
        if self.classes is None:
            return [self.dim]
        return [int((sign * self.labels > 0).sum()) for sign in (1, -1)]

    @functools.cached_property
    def totals(self) -> list[float]:
        """The sum of the sample weights in each mass constraint."""
        weights = np.ones(self.dim) if self.weights is None else self.weights
        return [float(weights[index].sum()) for index, _ in self.groups]

    @functools.cached_property
    def labels(self) -> Vec:
        """The classes as a float64 array for compiled code, empty without classes."""
        return np.empty(0) if self.classes is None else np.array(self.classes, dtype=np.float64)

    def uniform(self) -> Vec:
        """Return the centre of the simplex: q proportional to the sample weights in each mass constraint."""
        q = np.zeros(self.dim) + self.c
        for (index, mass), total in zip(self.groups, self.totals, strict=True):
            q[index] *= mass / total
        return q

    def outside(self, q: Vec) -> float:
        """Return the largest violation by q of a mass or of `q >= 0`, relative to the mass."""
        worst = 0.0
        for index, mass in self.groups:
            below = -np.minimum(q[index], 0.0).sum()
            worst = max(worst, abs(q[index].sum() - mass) / mass, below / mass)
        return float(worst)

    def cvxpy(self, q: cp.Expression) -> list[cp.Constraint]:
        """Return the CVXPY constraints of the simplex: `q >= 0` and the mass constraints."""
        if self.classes is None:
            return [q >= 0, cp.sum(q) == 1]
        return [q >= 0, *((sign * self.labels > 0).astype(float) @ q == 0.5 for sign in (1, -1))]

    def density(self, q: cp.Expression) -> cp.Expression:
        """Return the CVXPY expression `total * q / c`, whose entries are near 1 as conic solvers need."""
        return self.total * q if self.weights is None else cp.multiply(self.total / self.weights, q)

    def mean(self, x: cp.Expression) -> cp.Expression:
        """Return the weighted mean of the entries of x as a CVXPY expression."""
        return (cp.sum(x) if self.weights is None else self.weights @ x) / self.total

    def missing(self, subject: object) -> str | None:
        """Return the error message if a mass constraint has no entries, else None."""
        if min(self.sizes) > 0:
            return None
        where = "there are no entries" if self.classes is None else "one class has no entries"
        each = "" if self.classes is None else " of each class"
        return f"{subject!r}: empty, {where}; give at least one{each}"


# --- Jacobians of projections -----------------------------------------------------------------------
@dataclass(frozen=True)
class Jacobian:
    """The symmetric N x N matrix `J = diag(d) + U S U'`, `0 <= J <= I`, with U (N, r) and S (r, r).

    Attributes
    ----------
    d, U, S : its parts
    """

    d: Vec
    U: NDArray[np.float64]
    S: NDArray[np.float64]

    def matvec(self, v: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return J v for a vector v (N,), or for each column of a matrix v (N, k)."""
        return (self.d * v.T).T + self.U @ (self.S @ (self.U.T @ v))


def jacobian(w: Vec, parts: list[tuple[Index, float]], normal: Vec | None = None) -> Jacobian:
    """Return the Jacobian of the projection on {h(q) <= r, fixed masses}, h separable and convex.

    With multipliers lam of h and theta of the masses, `q + lam h'(q) = v - theta` where q is free:

        J = W - W N (N' W N)^+ N' W,    W = diag(free_i / (1 + lam h_i'')),

    with the class indicators and, where h is active, `normal` = h'(q) as the columns of N. Taking
    from `normal` its W-weighted class means makes N' W N diagonal.
    """
    columns = []
    n = np.zeros(w.size) if normal is None else np.where(w > 0.0, normal, 0.0)
    length = float(w @ (n * n))
    for index, _ in parts:
        total = float(w[index].sum())
        if total <= 0.0:
            continue
        column = np.zeros(w.size)
        column[index] = w[index] / np.sqrt(total)
        columns.append(column)
        n[index] -= float(w[index] @ n[index]) / total
    remaining = float(w @ (n * n))
    if remaining > 1e-24 * length:
        columns.append(w * n / np.sqrt(remaining))
    U = np.column_stack(columns) if columns else np.zeros((w.size, 0))
    return Jacobian(d=w, U=U, S=-np.eye(len(columns)))


# --- parameter space U' ----------------------------------------------------------------------------
@dataclass(frozen=True)
class Polyhedron:
    """The q with `lower <= (q, r) <= upper, least <= A (q, r) <= most` for some auxiliary variables r.

    Attributes
    ----------
    lower, upper : (columns,) bounds of q and of r
    A : (rows, columns)
    least, most : (rows,)
    """

    lower: Vec
    upper: Vec
    A: sparse.csr_array
    least: Vec
    most: Vec


@dataclass(frozen=True)
class MassConstraint:
    """A mass constraint with caps on some entries of q: `sum q_i = mass`, `0 <= q_i <= cap`."""

    entries: Index
    size: int
    mass: float
    cap: Any  # a number or one for each entry; inf: none

    @property
    def most(self) -> Any:
        """The upper bound `min(cap, mass)` of each entry, a number or an array like `cap`."""
        return np.minimum(self.cap, self.mass) if np.ndim(self.cap) else min(self.cap, self.mass)


class BoundDomain(metaclass=Kind):
    """A closed convex set of parameter vectors, with the methods that solvers and certificates call.

    A subclass has `support`, `center`, `cvxpy`, and `violation` or, better, `project`; other methods have
    defaults.
    """

    @property
    def on_simplex(self) -> bool:
        """True if the constraints of the domain include those of the simplex, with the mass of each class."""
        return False

    @property
    def euclidean(self) -> bool:
        """True for a Euclidean ball around 0."""
        return False

    @property
    def groups(self) -> list[MassConstraint] | None:
        """The mass constraints if the domain is a capped simplex, else None."""
        return None

    @abstractmethod
    def support(self, g: Vec) -> tuple[float, Vec]:
        """Return the support function `max <g, q>` over the domain, which may be inf, and a maximiser."""

    @abstractmethod
    def center(self, dim: int) -> Vec:
        """Return a central point of the domain in `dim` dimensions."""

    @abstractmethod
    def cvxpy(self, q: cp.Expression, size: cp.Expression) -> list[cp.Constraint]:
        """Return CVXPY constraints for `q in D` with the given size, None for a domain without one.

        A number stands for a constant expression.
        """

    def formula(self, notation: Notation) -> str:
        """Return the formula of the constraints of the domain."""
        return repr(self)

    @abstractmethod
    def violation(self, q: Vec) -> float:
        """Return the distance from q to the domain, relative to the norm of points of the domain; 0 inside.

        A `Projectable` domain has the distance from its projection.
        """

    def infeasibility_reason(self, dim: int) -> str | None:
        """Return the error message, with the admissible range, if the domain is empty, else None."""
        return None

    def size(self) -> Size | None:
        """Return the `Size` that grows or shrinks the domain, or None without such a scalar."""
        return None

    def polyhedron(self, dim: int) -> Polyhedron | None:
        """Return the domain as a `Polyhedron` for linear programs, or None if not polyhedral."""
        return None

    def own_constraints(self, q: cp.Expression) -> list[cp.Constraint]:
        """Return CVXPY constraints for `q in D` at the declared size."""
        size = self.size()
        return self.cvxpy(q, None if size is None else size.number)


class Domain(BoundDomain, RotationInvariant):
    """A domain as declared, without data: a closed convex set of parameter vectors of any dimension."""

    example: ClassVar[str] = "NormBall(0.2)"

    def intersected(self) -> list[Domain]:
        """Return the operands of nested intersections, in order; any other domain alone."""
        return [self]

    def inside_formula(self, notation: Notation) -> str:
        """Return the formula of the constraints of the domain other than those of the simplex."""
        return self.formula(notation)

    def inside(self, q: cp.Expression, size: cp.Expression, samples: SampleWeights) -> list[cp.Constraint]:
        """Return CVXPY constraints for q over samples, without those of the simplex.

        By default `cvxpy`.
        """
        return self.cvxpy(q, size)

    def bind(self, samples: SampleWeights) -> BoundDomain:
        """Return the domain of the weights of given samples, by default the domain itself.

        A result with `on_simplex` lies on the simplex; any other is intersected with the simplex.

        Raises
        ------
        CompositionError
            The samples have weights, and the domain does not say what these mean.
        """
        if samples.weights is None:
            return self
        raise CompositionError(
            f"{self!r}: expected a domain that says what class_weight and sample_weight make of it "
            "(ucm.extend.Domain.bind), got one that does not; use CappedSimplex, Box, NormBall, "
            "ChiSquareBall, KLBall or LossBall, or leave the weights out"
        )

    def too_small(self, samples: SampleWeights, least: float) -> str:
        """Return the error message for a size at which the domain has no point on the simplex.

        `least` is the smallest bound (`Size.derived`) for which the domain has such a point.
        """
        size = self.size()
        if size is None:
            return f"{self!r}: empty on the simplex, the bound must be at least {least:.6g}; make it larger"
        must = f"must be at {'least' if size.grows else 'most'} {size.inverse(least):.6g}"
        return (
            f"{self!r}: empty on the simplex, {named(size.declared, 'size')} leaves no point; "
            f"{subject(size.declared, 'size')} {must}"
        )

    def __and__(self, other: object) -> Domain:
        return OPERATORS["domain &"](self, other)


class Projectable(BoundDomain):
    """A domain with an exact Euclidean projection."""

    @abstractmethod
    def project(self, v: Vec) -> Vec:
        """Return the Euclidean projection of v on the domain, to machine precision."""

    def violation(self, q: Vec) -> float:
        q = vector(q)
        projection = self.project(q)
        size = max(float(np.linalg.norm(x)) for x in (projection, self.center(q.size)))
        return round_violation(float(np.linalg.norm(q - projection)) / (size or 1.0))


class SemiSmooth(Projectable):
    """A domain whose Euclidean projection is semismooth and has a generalised Jacobian."""

    @abstractmethod
    def jacobian(self, v: Vec) -> Jacobian:
        """Return an element of the generalised Jacobian of `project` at v."""


class MassMultipliers(BoundDomain):
    """A domain on the simplex that computes the multipliers of its mass constraints."""

    @abstractmethod
    def mass_multipliers(self, g: Vec) -> list[tuple[float, float]]:
        """Return for each mass constraint the interval of its multipliers at a maximiser of `<g, q>`.

        There is one constraint, or with classes that of +1 and then that of -1. For a multiplier `theta`,
        `g_i - theta` is non-negative where q_i can not grow and non-positive where q_i is 0. An end may be
        infinite.
        """


class SimplexDomain(Domain, SemiSmooth, MassMultipliers):
    """The declaration of a domain on the simplex, `{q >= 0, sum q = 1, ...}`.

    Its methods are those of the domain bound to samples of weight 1 without classes.
    """

    @property
    def on_simplex(self) -> bool:
        return True

    @abstractmethod
    def bind(self, samples: SampleWeights) -> BoundSimplex:
        """Return the domain of the weights of given samples."""

    @abstractmethod
    def inside(self, q: cp.Expression, size: cp.Expression, samples: SampleWeights) -> list[cp.Constraint]:
        """Return CVXPY constraints for q over samples, without those of the simplex."""

    def _over(self, v: Vec) -> BoundSimplex:
        """Return the domain of vectors like v, without weights or classes; refuse a v without entries."""
        samples = SampleWeights(np.size(v))
        why = samples.missing(self)
        if why is not None:
            raise EmptySetError(why)
        return self.bind(samples)

    def support(self, g: Vec) -> tuple[float, Vec]:
        return self._over(g).support(g)

    def project(self, v: Vec) -> Vec:
        return self._over(v).project(v)

    def jacobian(self, v: Vec) -> Jacobian:
        return self._over(v).jacobian(v)

    def mass_multipliers(self, g: Vec) -> list[tuple[float, float]]:
        return self._over(g).mass_multipliers(g)

    def violation(self, q: Vec) -> float:
        return self._over(q).violation(q)

    def center(self, dim: int) -> Vec:
        return SampleWeights(dim).uniform()

    def infeasibility_reason(self, dim: int) -> str | None:
        samples = SampleWeights(dim)
        return samples.missing(self) or self.bind(samples).infeasibility_reason(dim)

    def polyhedron(self, dim: int) -> Polyhedron | None:
        return self.bind(SampleWeights(dim)).polyhedron(dim)

    def cvxpy(self, q: cp.Expression, size: cp.Expression) -> list[cp.Constraint]:
        samples = SampleWeights(q.size)
        return [*samples.cvxpy(q), *self.inside(q, size, samples)]


class OnSimplex(BoundDomain):
    """A domain on the simplex as declared, bound to samples."""

    declared: Domain
    samples: SampleWeights

    @property
    def on_simplex(self) -> bool:
        return True

    def center(self, dim: int) -> Vec:
        return self.samples.uniform()

    def size(self) -> Size | None:
        return self.declared.size()

    def cvxpy(self, q: cp.Expression, size: cp.Expression) -> list[cp.Constraint]:
        return [*self.samples.cvxpy(q), *self.declared.inside(q, size, self.samples)]

    def formula(self, notation: Notation) -> str:
        return self.declared.formula(notation)

    def __repr__(self) -> str:
        return repr(self.declared)


class BoundSimplex(OnSimplex, SemiSmooth, MassMultipliers):
    """A domain on the simplex, bound to samples, with semismooth projection and multipliers of the masses."""


# --- feature space U -------------------------------------------------------------------------------
@dataclass(frozen=True)
class Block:
    """One term `A q, q in D` of the affine image that a set lowers to.

    `samples` and `weight` recover sample weights and scores: `|weight| q` are weights of the samples with
    these indices, and `A'w` is `weight` times their scores `w'x` (times their labels, with `classes`). For a
    q made of several blocks, as in a union, `parts` recover the weights.

    Attributes
    ----------
    map, domain : A and D
    classes : None, or the labels of the entries of q
    samples, weight : indices of samples, and the factor of their weights
    parts : pairs (slice of q, block)
    """

    map: LinearMap
    domain: BoundDomain
    classes: Vec | None = None
    samples: NDArray[np.intp] | None = None
    weight: float = 0.0
    parts: tuple[tuple[slice, Block], ...] = ()

    def weighing(self, c: float) -> Block:
        """Return the block with `weight` multiplied by c, also in `parts`."""
        parts = tuple((where, b.weighing(c)) for where, b in self.parts)
        return replace(self, weight=c * self.weight, parts=parts)

    def projected(self, v: Vec) -> Vec:
        """Return v projected onto the domain, unchanged if the domain has no projection."""
        return self.domain.project(v) if isinstance(self.domain, Projectable) else v

    @functools.cached_property
    def carries(self) -> bool:
        """True if q determines weights of samples."""
        return self.samples is not None or bool(self.parts)

    @functools.cached_property
    def groups(self) -> list[MassConstraint] | None:
        """The mass constraints if the domain is a capped simplex with one cap per constraint, else None."""
        constraints = self.domain.groups
        return None if constraints is None or any(np.ndim(g.cap) for g in constraints) else constraints


@dataclass(frozen=True)
class Coupling:
    """The equation `offset + sum_j B_j q_{k_j} = 0`, which equates the points of an intersection's operands.

    The multiplier, up to sign and scale, is a split of the support function (see `Splits`).

    Attributes
    ----------
    path : the path of the intersection
    terms : the pairs (k_j, B_j)
    offset : the constant
    """

    path: Path
    terms: tuple[tuple[int, LinearMap], ...]
    offset: Vec


@dataclass(frozen=True)
class LoweredSet:
    """A set as an affine image with couplings: `x(q) = center + sum_k A_k q_k`, `q_k in D_k`.

    Attributes
    ----------
    center, blocks : the constant, and the terms `A_k q_k, q_k in D_k`
    couplings : equations between the q_k
    """

    center: Vec
    blocks: tuple[Block, ...] = ()
    couplings: tuple[Coupling, ...] = ()


def exactly_one(name: str, **options: Scalar | None) -> Scalar:
    """Return the value of the only option that is not None; refuse none or several."""
    values = [x for x in options.values() if x is not None]
    if len(values) != 1:
        got = " and ".join(f"{option}={x!r}" for option, x in options.items())
        raise CompositionError(f"{name}: give exactly one of {' and '.join(options)}, got {got}")
    return values[0]


def common_dimension(node: Node, sizes: list[int | None]) -> int | None:
    """Return the common dimension of the operands, or None if every dimension depends on data."""
    dimensions = {d for d in sizes if d is not None}
    if len(dimensions) > 1:
        low, high = min(dimensions), max(dimensions)
        raise CompositionError(
            f"expected operands of one dimension, got {low} and {high}, in {brief(node)}; both must have the "
            "same dimension"
        )
    return dimensions.pop() if dimensions else None


class FeatureNode(Node):
    """A declaration in feature space: a set, a statistic, or samples."""

    def _check(self) -> None:
        if self._below:
            self.dimension(None)

    def dimension(self, n: int | None) -> int | None:
        """Return the dimension of the feature space of the node, or None if not known before the data.

        `n` is the number of features of the samples, None before they are known. By default the common
        dimension of the child nodes; two dimensions are refused.
        """
        return common_dimension(self, [x.dimension(n) for x in self.children() if isinstance(x, FeatureNode)])


class UncertaintySet(SolvableModel["UncertaintySet"], FeatureNode):
    """A symbolic closed convex set in feature space; methods take the data as an argument."""

    example: ClassVar[str] = "Hull(pos) - Hull(neg)"

    @property
    def model(self) -> DeclaredModel:
        return self.once("margin", lambda: OPERATORS["margin"](self))

    def terms(self) -> tuple[tuple[UncertaintySet, Matrix], ...]:
        """Return pairs (U, L) whose Minkowski sum of `L U` is the set; none for a set that is no such sum."""
        return ()

    def infeasibility_reason(self, data: Data) -> str | None:
        """Return the error message, with the admissible range, if the set is known to be empty, else None.

        The message names the innermost empty node. None also where only a solver can tell, as for
        intersections.
        """
        return None

    def size(self, data: Data) -> Size | None:
        """Return the `Size` of this node, without those of its descendants, or None if the node has none."""
        return None

    @abstractmethod
    def lower(self, data: Data) -> LoweredSet:
        """Return the set as a `LoweredSet`, an affine image of domains."""

    @abstractmethod
    def evaluate(self, data: Data, q: Iterator[Vec]) -> tuple[Vec, float]:
        """Return the point x of the set for parameter vectors q of the blocks, and the violation by q.

        Both are from the definition of the set. Takes from `q` as many vectors as `lower` made blocks, in the
        same order.
        """

    @abstractmethod
    def cvxpy(self, data: Data, scope: Scope) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return a CVXPY expression of a point x and the constraints of `x in U`.

        Both are from the definition of the set, independent of `lower`.
        """

    @abstractmethod
    def support(self, data: Data, d: Vec, splits: Splits) -> tuple[float, Vec | None]:
        """Return an upper bound of the support function `max <d, x>`, and a maximiser or None.

        The bound is exact except for intersections, where it is exact for optimal `splits`.
        """

    def to_loss(self) -> Any:
        """Return the loss whose generalised nu-SVM has this set.

        See `ucm.language.loss_sets.to_loss`.
        """
        return OPERATORS["to_loss"](self)

    def combine(self, symbol: str, a: object, b: object) -> UncertaintySet:
        """Return the set `a symbol b`, a node of `ucm.language.sets`."""
        return OPERATORS["set algebra"](symbol, a, b)
