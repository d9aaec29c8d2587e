"""The abstract classes of domains and sets. Reading this page is enough to write an extension.

A *declaration* (`Domain`, `UncertaintySet`) is an immutable `Node` that knows no solver. Losses and
penalties have a page of their own, `ucm.language.terms`.
A set *lowers* to a `LoweredSet`, `x(q) = c + sum_k A_k q_k` with `q_k in D_k` and linear couplings.
A hull *binds* its domain to the weights and classes of its samples; the answer is a `BoundDomain`.
Capabilities are abstract subclasses (`Projectable`, `SemiSmooth`, `MassMultipliers`), asked by `isinstance`;
a `RotationInvariant` node has a meaning with a kernel. A set that is made of other sets by sums, multiples
and matrices is a `Combination`, which states its terms only.

Linear maps stand in `ucm.data.linear_map`, what stands for a size in CVXPY in
`ucm.language.parameter`, solvers in `ucm.forms.solver`.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.bound_data import Data
from ucm.data.linear_map import LinearMap, Vec
from ucm.errors import CompositionError, brief
from ucm.language import cvx as cp
from ucm.language.node import (
    OPERATORS,
    Arithmetic,
    Kind,
    Node,
    Notation,
    RotationInvariant,
)
from ucm.language.parameter import Scope, Size, named, subject
from ucm.language.simplex_projection import Jacobian, round_violation, vector

Path = tuple[str, ...]
"""The way from a node to one below it: of each on the way its field, or its place among the terms."""
Splits = Mapping[Path, Vec]
"""Path of an intersection -> the share of the direction that its *right* operand supports; of weights in
an intersection of domains, that of each domain but the first."""


# --- weights of samples ----------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class SampleWeights:
    """N samples, of which a domain holds distributions q: `q >= 0, sum q = 1`, or mass 1/2 on each class.

    Attributes
    ----------
    dim : N
    weights : (N,) how often each sample counts, c; None: once
    classes : (N,) labels +1 and -1 where q has mass 1/2 on each class; None: mass 1
    number : the sum of the samples' own weights, without those of their classes; None: `total`
    population : m, the number of all samples at hand, and the sum of the weights of each class; None where
        these samples are all
    """

    dim: int
    weights: Vec | None = None
    classes: Vec | None = None
    number: float | None = None
    population: tuple[float, float, float] | None = None

    @property
    def c(self) -> Any:
        """The weights, or 1."""
        return 1.0 if self.weights is None else self.weights

    @functools.cached_property
    def total(self) -> float:
        """The sum of the weights."""
        return self.dim if self.weights is None else float(self.weights.sum())

    @property
    def count(self) -> float:
        """The number of samples, whatever their classes weigh."""
        return self.total if self.number is None else self.number

    @property
    def m(self) -> float:
        """The number of all samples at hand, whatever their classes weigh."""
        return self.count if self.population is None else self.population[0]

    @functools.cached_property
    def groups(self) -> list[tuple[Any, float]]:
        """The entries and the mass of each constraint `sum q_i = mass`."""
        if self.classes is None:
            return [(slice(0, self.dim), 1.0)]
        y = np.asarray(self.classes)
        return [(np.flatnonzero(y > 0), 0.5), (np.flatnonzero(y < 0), 0.5)]

    @functools.cached_property
    def sizes(self) -> list[int]:
        """The number of entries of each constraint."""
        if self.classes is None:
            return [self.dim]
        return [index.size for index, _ in self.groups]

    @functools.cached_property
    def totals(self) -> list[float]:
        """The sum of the weights of each constraint."""
        if self.weights is None:
            return [float(n) for n in self.sizes]
        return [float(self.weights[index].sum()) for index, _ in self.groups]

    @functools.cached_property
    def labels(self) -> Vec:
        """The classes for compiled code: empty without classes."""
        return np.empty(0) if self.classes is None else np.array(self.classes, dtype=np.float64)

    def uniform(self) -> Vec:
        """Return the distribution in proportion to the weights, the centre of the simplex."""
        q = np.empty(self.dim)
        for (index, sum_of_group), total in zip(self.groups, self.totals, strict=True):
            q[index] = (
                sum_of_group / total if self.weights is None else self.weights[index] * (sum_of_group / total)
            )
        return q

    def outside(self, q: Vec) -> float:
        """Return the largest relative error of a mass, or of negative entries."""
        worst = 0.0
        for index, sum_of_group in self.groups:
            part = q[index]
            below = -np.minimum(part, 0.0).sum() if part.min() < 0.0 else 0.0
            worst = max(worst, abs(part.sum() - sum_of_group) / sum_of_group, below / sum_of_group)
        return float(worst)

    def cvxpy(self, q: cp.Expression) -> list[cp.Constraint]:
        """Return CVXPY constraints of the simplex."""
        if self.classes is None:
            return [q >= 0, cp.sum(q) == 1]
        y = np.asarray(self.classes)
        return [q >= 0, (y > 0).astype(float) @ q == 0.5, (y < 0).astype(float) @ q == 0.5]

    def density(self, q: cp.Expression) -> cp.Expression:
        """Return `N q / c` in CVXPY: its entries are near 1, which conic solvers need."""
        return self.total * q if self.weights is None else cp.multiply(self.total / self.weights, q)

    def mean(self, x: cp.Expression) -> cp.Expression:
        """Return the weighted mean of x in CVXPY."""
        return (cp.sum(x) if self.weights is None else self.weights @ x) / self.total

    def missing(self, subject: object) -> str | None:
        """Return why no distribution exists, a mass without entries; None if there is one."""
        if min(self.sizes) > 0:
            return None
        where = "there are no entries" if self.classes is None else "one class has no entries"
        each = "" if self.classes is None else " of each class"
        return f"{subject!r}: empty, {where}; give at least one{each}"


# --- parameter space U' ----------------------------------------------------------------------------
@dataclass(frozen=True)
class Polyhedron:
    """A polyhedron with auxiliary variables r, `{q : lower <= (q, r) <= upper, least <= A (q, r) <= most}`.

    Attributes
    ----------
    lower, upper : (columns,) of the q and the further variables r
    A : (rows, columns)
    least, most : (rows,)
    """

    lower: Vec
    upper: Vec
    A: sparse.csr_array
    least: Vec
    most: Vec

    def inequalities(self) -> tuple[sparse.csr_array, Vec]:
        """Return G and b with the set `{v : G v >= b}`."""
        eye = sparse.eye_array(self.lower.size)
        G = sparse.csr_array(sparse.vstack([eye, -eye, self.A, -self.A]))
        b = np.concatenate([self.lower, -self.upper, self.least, -self.most])
        finite = np.isfinite(b)
        return G[np.flatnonzero(finite)], b[finite]


@dataclass(frozen=True)
class MassConstraint:
    """Entries of q with one mass: `sum q_i = mass`, `0 <= q_i <= cap`."""

    entries: Any  # their index: a slice or an array
    size: int
    mass: float
    cap: Any  # a number or one for each entry; inf: none

    @property
    def most(self) -> Any:
        """The largest value that an entry can have, a number or one for each."""
        return min(self.cap, self.mass) if isinstance(self.cap, float) else np.minimum(self.cap, self.mass)


class BoundDomain(metaclass=Kind):
    """A closed convex set of parameter vectors, as solvers and certificates see it.

    A subclass has `support`, `center` and `cvxpy`, and where it can `project`; the rest have defaults.
    """

    @property
    def on_simplex(self) -> bool:
        """True if the domain lies on the simplex, with the masses of the classes."""
        return False

    @property
    def groups(self) -> list[MassConstraint] | None:
        """The mass constraints of a capped simplex, which define it; None for other domains."""
        return None

    @abstractmethod
    def support(self, g: Vec) -> tuple[float, Vec]:
        """Return `max <g, q>` over the domain, which may be inf, and a maximiser."""

    @abstractmethod
    def center(self, dim: int) -> Vec:
        """Return a point deep inside of the domain."""

    @abstractmethod
    def cvxpy(self, q: cp.Expression, size: Any) -> list[cp.Constraint]:
        """Return CVXPY constraints for `q in D`. `size` is `self.size().number`, or the CVXPY expression in
        its place."""

    def formula(self, notation: Notation) -> str:
        """Return the constraints as mathematics."""
        return repr(self)

    def violation(self, q: Vec) -> float:
        """Return the distance of q from the domain, relative to the size of the domain; 0 inside.

        By default the distance from the projection."""
        if not isinstance(self, Projectable):
            raise NotImplementedError(f"{type(self).__name__}: violation, as it has no projection")
        q = vector(q)
        projection = self.project(q)
        size = max(float(np.linalg.norm(x)) for x in (projection, self.center(q.size)))
        return round_violation(float(np.linalg.norm(q - projection)) / (size or 1.0))

    def infeasibility_reason(self, dim: int) -> str | None:
        """Return why the domain is empty in this dimension, with the admissible range; None if it is not."""
        return None

    def size(self) -> Size | None:
        """Return the number that grows or shrinks the domain; None if there is none."""
        return None

    def polyhedron(self, dim: int) -> Polyhedron | None:
        """Return the linear inequalities of the domain, for linear programs; None if it is no polyhedron."""
        return None

    def own_constraints(self, q: cp.Expression) -> list[cp.Constraint]:
        """Return CVXPY constraints for `q in D` at the declared size."""
        size = self.size()
        return self.cvxpy(q, None if size is None else size.number)


class Domain(BoundDomain, RotationInvariant):
    """A declared domain: a closed convex set of parameter vectors of any dimension, without data."""

    example: ClassVar[str] = "NormBall(0.2)"

    def inside_formula(self, notation: Notation) -> str:
        """Return the constraints apart from the simplex as mathematics."""
        return self.formula(notation)

    def inside(self, q: cp.Expression, size: Any, samples: SampleWeights) -> list[cp.Constraint]:
        """Return CVXPY constraints for q over samples, apart from the simplex. By default `cvxpy`."""
        return self.cvxpy(q, size)

    def bind(self, samples: SampleWeights) -> BoundDomain:
        """Return the domain of weights of bound samples. By default the domain itself.

        One that lies on the simplex has `on_simplex`; any other is intersected with the simplex.

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
        """Return the error message for a size that leaves no point of the simplex. `least` is the smallest
        bound (`Size.derived`) that leaves one."""
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
        """Return the point of the domain nearest to v, to machine precision."""


class SemiSmooth(Projectable):
    """A projectable domain whose projection is semismooth."""

    @abstractmethod
    def jacobian(self, v: Vec) -> Jacobian:
        """Return an element of the generalised Jacobian of `project` at v."""


class MassMultipliers(BoundDomain):
    """A domain on the simplex that knows the multipliers of its mass constraints."""

    @abstractmethod
    def mass_multipliers(self, g: Vec) -> list[tuple[float, float]]:
        """Return for each mass constraint (one; with classes that of +1, then that of -1) the interval
        of multipliers `theta` at a maximiser of `<g, q>`: `g_i - theta` is non-negative where q_i can
        not grow and non-positive where it is 0. An end may be infinite."""


class SimplexDomain(Domain, SemiSmooth, MassMultipliers):
    """A declared domain on the simplex, `{q >= 0, sum q = 1, ...}`: it is what it binds to, over samples that
    count once. A subclass has `bind` and `inside`, the constraints apart from the simplex."""

    @property
    def on_simplex(self) -> bool:
        return True

    @abstractmethod
    def bind(self, samples: SampleWeights) -> BoundSimplex:
        """Return the domain of weights of these samples."""

    @abstractmethod
    def inside(self, q: cp.Expression, size: Any, samples: SampleWeights) -> list[cp.Constraint]:
        """Return CVXPY constraints for q over samples, apart from the simplex."""

    def support(self, g: Vec) -> tuple[float, Vec]:
        return self.bind(SampleWeights(np.size(g))).support(g)

    def project(self, v: Vec) -> Vec:
        return self.bind(SampleWeights(np.size(v))).project(v)

    def jacobian(self, v: Vec) -> Jacobian:
        return self.bind(SampleWeights(np.size(v))).jacobian(v)

    def mass_multipliers(self, g: Vec) -> list[tuple[float, float]]:
        return self.bind(SampleWeights(np.size(g))).mass_multipliers(g)

    def violation(self, q: Vec) -> float:
        return self.bind(SampleWeights(np.size(q))).violation(q)

    def center(self, dim: int) -> Vec:
        return SampleWeights(dim).uniform()

    def infeasibility_reason(self, dim: int) -> str | None:
        return self.bind(SampleWeights(dim)).infeasibility_reason(dim)

    def polyhedron(self, dim: int) -> Polyhedron | None:
        return self.bind(SampleWeights(dim)).polyhedron(dim)

    def cvxpy(self, q: cp.Expression, size: Any) -> list[cp.Constraint]:
        samples = SampleWeights(q.size)
        return [*samples.cvxpy(q), *self.inside(q, size, samples)]


class OnSimplex(BoundDomain):
    """A domain on the simplex over samples.

    Attributes
    ----------
    declared : the domain as it was written
    samples : their weights and classes
    """

    declared: Domain
    samples: SampleWeights

    @property
    def on_simplex(self) -> bool:
        return True

    def center(self, dim: int) -> Vec:
        return self.samples.uniform()

    def size(self) -> Size | None:
        return self.declared.size()

    def cvxpy(self, q: cp.Expression, size: Any) -> list[cp.Constraint]:
        return [*self.samples.cvxpy(q), *self.declared.inside(q, size, self.samples)]

    def formula(self, notation: Notation) -> str:
        return self.declared.formula(notation)

    def __repr__(self) -> str:
        return repr(self.declared)


class BoundSimplex(OnSimplex, SemiSmooth, MassMultipliers):
    """A domain on the simplex over samples, with a projection and multipliers of its masses."""


# --- feature space U -------------------------------------------------------------------------------
@dataclass(frozen=True)
class Block:
    """One term `A q, q in D` of an image. `samples` (indices) and `weight` lead back: `|weight| q`
    are weights of these samples, and `A'w` is `weight` times their scores `w'x` (times their labels,
    where there are `classes`). Where q is made of several such, as in a union, `parts` lead back.

    Attributes
    ----------
    map, domain : A and D
    classes : None, or the labels of the entries of q
    samples, weight : the way back
    parts : where in q each of several blocks stands, and the block
    """

    map: LinearMap
    domain: BoundDomain
    classes: Vec | None = None
    samples: NDArray[np.intp] | None = None
    weight: float = 0.0
    parts: tuple[tuple[slice, Block], ...] = ()

    def weighing(self, c: float) -> Block:
        """Return the block with its weights multiplied by c."""
        parts = tuple((where, b.weighing(c)) for where, b in self.parts)
        return replace(self, weight=c * self.weight, parts=parts)

    @property
    def carries(self) -> bool:
        """True if the block determines weights of samples."""
        return self.samples is not None or bool(self.parts)

    @property
    def groups(self) -> list[MassConstraint] | None:
        """The mass constraints of a capped simplex with one cap for each; None for other domains."""
        constraints = self.domain.groups
        return None if constraints is None or any(np.ndim(g.cap) for g in constraints) else constraints


@dataclass(frozen=True)
class Coupling:
    """The equations `offset + sum_j B_j q_{k_j} = 0` of an intersection: two operands have equal points.

    The multiplier, up to sign and scale, is a split of the support function (see `Splits`).

    Attributes
    ----------
    path : which intersection
    terms : the pairs (k_j, B_j)
    offset : the constant
    """

    path: Path
    terms: tuple[tuple[int, LinearMap], ...]
    offset: Vec


@dataclass(frozen=True)
class LoweredSet:
    """A lowered set: `x(q) = center + sum_k A_k q_k`, `q_k in D_k`, and the couplings.

    Attributes
    ----------
    center, blocks, couplings : its parts
    """

    center: Vec
    blocks: tuple[Block, ...] = ()
    couplings: tuple[Coupling, ...] = field(default=())


def exactly_one(name: str, **options: Any) -> Any:
    """Return the only argument that is not None.

    Raises
    ------
    CompositionError
        None or several are given.
    """
    values = [x for x in options.values() if x is not None]
    if len(values) != 1:
        got = " and ".join(f"{option}={x!r}" for option, x in options.items())
        raise CompositionError(f"{name}: give exactly one of {' and '.join(options)}, got {got}")
    return values[0]


def common_dimension(node: Node, sizes: list[int | None]) -> int | None:
    """Return the common dimension of the operands; None for a dimension that depends on data."""
    dimensions = {d for d in sizes if d is not None}
    if len(dimensions) > 1:
        low, high = min(dimensions), max(dimensions)
        raise CompositionError(
            f"expected operands of one dimension, got {low} and {high}, in {brief(node)}; both must have the "
            "same dimension"
        )
    return dimensions.pop() if dimensions else None


class FeatureNode(Node):
    """A declaration that lives in feature space: a set, a statistic, or samples."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self._below:
            self.dimension(None)

    def dimension(self, n: int | None) -> int | None:
        """Return the dimension of its space, over samples with n features; None if it is not known yet. By
        default the dimension of the nodes below it.

        Raises
        ------
        CompositionError
            Nodes of two dimensions are mixed; the message names the innermost such node.
        """
        return common_dimension(self, [x.dimension(n) for x in self.children() if isinstance(x, FeatureNode)])


class UncertaintySet(Arithmetic["UncertaintySet"], FeatureNode):
    """A closed convex set in feature space, symbolic: it meets data only as an argument."""

    example: ClassVar[str] = "Hull(pos) - Hull(neg)"

    def infeasibility_reason(self, data: Data) -> str | None:
        """Return why the set is empty, naming the innermost node, with the admissible range. None: it is
        not, or only a solver can tell (intersections)."""
        return None

    def size(self, data: Data) -> Size | None:
        """Return the size of this node; None if it has none."""
        return None

    @abstractmethod
    def lower(self, data: Data) -> LoweredSet:
        """Return the set as an affine image of simple domains."""

    @abstractmethod
    def evaluate(self, data: Data, q: Iterator[Vec]) -> tuple[Vec, float]:
        """Return the point x of the blocks q, from the definition, and how far the q are
        outside. Takes from `q` as many blocks as `lower` made, in its order."""

    @abstractmethod
    def cvxpy(self, data: Data, scope: Scope) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return the set in CVXPY, straight from its definition, independent of `lower`."""

    @abstractmethod
    def support(self, data: Data, d: Vec, splits: Splits) -> tuple[float, Vec | None]:
        """Return an upper bound of `max <d, x>` over the set, exact but for intersections, where `splits`
        closes it; and a maximiser where one is known."""

    def support_value(self, data: Data, d: Vec, splits: Splits) -> float:
        """`support(data, d, splits)[0]`; a set replaces it where that costs less without the maximiser."""
        return self.support(data, d, splits)[0]

    def to_loss(self) -> Any:
        """Return the loss whose generalised nu-SVM has this set: `ucm.language.loss_sets.to_loss`."""
        return OPERATORS["to_loss"](self)

    def problem_latex(self) -> str:
        """Return the primal and the dual of this set as a classifier in LaTeX, its support function
        written out: `ucm.language.problem.problem_latex`."""
        return OPERATORS["problem_latex"](self)

    def combine(self, symbol: str, a: Any, b: Any) -> UncertaintySet:
        """The nodes of `ucm.language.sets`."""
        return OPERATORS[symbol](a, b)
