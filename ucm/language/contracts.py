"""The abstract classes of domains and sets. Reading this page is enough to write an extension.

A *declaration* (`Domain`, `UncertaintySet`) is an immutable `Node` that knows no solver. Losses and
penalties have a page of their own, `ucm.language.terms`.
A set *lowers* to an `AffineImage`, `x(q) = c + sum_k A_k q_k` with `q_k in D_k` and linear couplings.
Capabilities are abstract subclasses (`Projectable`, `SemiSmooth`, `Leveled`, `Capped`; of sets
`Measured`), asked by `isinstance`, and `CoordinateFree` for what has a meaning behind a kernel. A set
that is made of other sets by sums, multiples and matrices is a `ucm.Combination`, which leaves its terms
to be said.

Linear maps stand in `ucm.data.linear`, what stands for a size in CVXPY in
`ucm.language.parameter`, solvers in `ucm.forms.solver`.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.bound import Data
from ucm.data.linear import LinearMap, Vec
from ucm.errors import CompositionError
from ucm.language import cvx as cp
from ucm.language import masses
from ucm.language.masses import Jacobian
from ucm.language.node import CoordinateFree, Node
from ucm.language.operators import OPERATORS, Arithmetic, operator
from ucm.language.parameter import Scope, Size

__all__ = [
    "OPERATORS",
    "AffineImage",
    "Block",
    "Capped",
    "CoordinateFree",
    "Coupling",
    "Domain",
    "Group",
    "Jacobian",
    "Leveled",
    "Measured",
    "Path",
    "Polyhedral",
    "Polyhedron",
    "Projectable",
    "Sampled",
    "Scope",
    "SemiSmooth",
    "Size",
    "Splits",
    "UncertaintySet",
    "Weighable",
    "common_dimension",
    "height_of",
    "operator",
]

Path = tuple[str, ...]
"""The way from a node to one below it: of each on the way its field, or its place among the terms."""
Splits = Mapping[Path, Vec]
"""Path of an intersection -> the share of the direction that its *right* operand supports; of weights in
an intersection of domains, that of each domain but the first."""


# --- parameter space U' ----------------------------------------------------------------------------
@dataclass(frozen=True)
class Polyhedron:
    """`{q : lower <= v <= upper, least <= A v <= most for v = (q, r) with some r}`.

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


class Domain(CoordinateFree):
    """A closed convex set of parameter vectors, of any dimension, immutable.

    Every method takes `classes`: None, or a vector of +1 and -1 with one entry per coordinate. A
    domain on the simplex then puts mass 1/2 on each class; the others ignore it.
    """

    @abstractmethod
    def support(self, g: Vec, *, classes: Vec | None = None) -> tuple[float, Vec]:
        """`max <g, q>` over the domain, and a maximiser. The value may be inf."""

    @abstractmethod
    def violation(self, q: Vec, *, classes: Vec | None = None) -> float:
        """0 when q is inside; else how far outside, relative to the size of the domain."""

    @abstractmethod
    def center(self, dim: int, *, classes: Vec | None = None) -> Vec:
        """A point deep inside."""

    @abstractmethod
    def emptiness(self, dim: int, *, classes: Vec | None = None) -> str | None:
        """Why the domain is empty in this dimension, with the admissible range; None if not."""

    @abstractmethod
    def size(self) -> Size | None:
        """The number that grows or shrinks it; None when there is none."""

    @abstractmethod
    def constraints(
        self, q: cp.Expression, size: Any, *, classes: Vec | None = None
    ) -> list[cp.Constraint]:
        """CVXPY constraints for `q in D`. `size` is `self.size().number`, or the CVXPY expression in
        its place."""

    def own_constraints(self, q: cp.Expression, classes: Vec | None) -> list[cp.Constraint]:
        """CVXPY constraints for `q in D` at the size that is declared."""
        size = self.size()
        return self.constraints(q, None if size is None else size.number, classes=classes)

    @abstractmethod
    def on_simplex(self) -> Domain | None:
        """The exact domain of "this and the simplex"; None when it has no projection of its own."""

    def __and__(self, other: object) -> Domain:
        return OPERATORS["domain &"](self, other)


class Polyhedral(Domain):
    """A domain by linear inequalities, for linear programs."""

    @abstractmethod
    def polyhedron(self, dim: int, *, classes: Vec | None = None) -> Polyhedron | None:
        """The inequalities; None when this one is no polyhedron."""


class Weighable(Domain):
    """A domain in which an entry can stand for several copies of a sample."""

    @abstractmethod
    def weighed(self, weights: Vec, *, classes: Vec | None = None) -> Domain | None:
        """The domain of the q that, entry i split evenly into weights[i] copies, lie in this one; caps are
        multiplied by the weights. None when this one has no such meaning."""


class Sampled(Weighable):
    """A domain that depends on the number of samples, which weights of classes do not change."""

    @abstractmethod
    def of_samples(self, number: float) -> Domain:
        """The same over so many samples, each counted as often as its own weight says."""


class Projectable(Domain):
    """A domain with an exact Euclidean projection."""

    @abstractmethod
    def project(self, v: Vec, out: Vec | None = None, *, classes: Vec | None = None) -> Vec:
        """The point of the domain nearest to v, to machine precision. `out` may be v itself."""


class SemiSmooth(Projectable):
    """A projectable domain whose projection is semismooth."""

    @abstractmethod
    def jacobian(self, v: Vec, *, classes: Vec | None = None) -> Jacobian:
        """An element of the generalised Jacobian of `project` at v."""


class Leveled(Domain):
    """A domain on the simplex that knows the multipliers of its mass constraints."""

    @abstractmethod
    def levels(self, g: Vec, *, classes: Vec | None = None) -> list[tuple[float, float]]:
        """For each mass constraint (one; with `classes` that of +1, then that of -1) the interval
        of multipliers `theta` at a maximiser of `<g, q>`: `g_i - theta` is non-negative where q_i can
        not grow and non-positive where it is 0. An end may be infinite."""


@dataclass(frozen=True)
class Group:
    """Entries of q with one mass constraint: `sum q_i = mass`, `0 <= q_i <= cap`."""

    entries: Any  # their index: a slice or an array
    size: int
    mass: float
    cap: float  # inf: none

    @property
    def most(self) -> float:
        """The largest value that an entry can have."""
        return min(self.cap, self.mass)


class Capped(SemiSmooth, Leveled, Polyhedral):
    """A simplex with one cap for all entries of a class, `{0 <= q <= cap, sum q = mass}`: the weights
    of a reduced convex hull. Its caps say everything but how they are declared."""

    @abstractmethod
    def caps(self, dim: int, classes: Vec | None) -> list[float]:
        """The cap of each class (one without `classes`, else that of +1 and of -1); inf for none."""

    def groups(self, dim: int, classes: Vec | None) -> list[Group]:
        """The mass constraints, with caps that leave a point."""
        parts = zip(masses.groups(dim, classes), self._caps(dim, classes), strict=True)
        sizes = masses.counts(dim, classes)
        return [Group(index, n, mass, cap) for n, ((index, mass), cap) in zip(sizes, parts)]

    def _caps(self, dim: int, classes: Vec | None) -> list[float]:
        """The caps, none below the smallest that leaves a point."""
        sizes = masses.counts(dim, classes)
        return [max(c, 1.0 / (len(sizes) * n)) for c, n in zip(self.caps(dim, classes), sizes)]

    def project(self, v: Vec, out: Vec | None = None, *, classes: Vec | None = None) -> Vec:
        return masses.project_capped(v, out, classes, self._caps(np.size(v), classes))

    def jacobian(self, v: Vec, *, classes: Vec | None = None) -> Jacobian:
        return self.jacobian_at(self.project(v, classes=classes), classes)

    def jacobian_at(self, q: Vec, classes: Vec | None) -> Jacobian:
        """The Jacobian where the projection is q."""
        free = q > 0.0
        for g in self.groups(q.size, classes):
            free[g.entries] &= q[g.entries] < g.cap
        return masses.jacobian(free.astype(float), masses.groups(q.size, classes))

    def support(self, g: Vec, *, classes: Vec | None = None) -> tuple[float, Vec]:
        g = masses.vector(g)
        q = masses.greedy(g, self._caps(g.size, classes), classes)
        # in this thread: those of BLAS wait for each other on a busy machine (measured: 1.6 ms for
        # 24,000 entries, not 0.01)
        return float(np.einsum("i,i->", g, q)), q

    def levels(self, g: Vec, *, classes: Vec | None = None) -> list[tuple[float, float]]:
        g = masses.vector(g)
        parts = self.groups(g.size, classes)
        return [masses.order_interval(g[p.entries], p.mass, p.cap) for p in parts]

    def violation(self, q: Vec, *, classes: Vec | None = None) -> float:
        q = masses.vector(q)
        over = masses.outside(q, classes)
        caps = self.caps(q.size, classes)
        for (index, _), cap in zip(masses.groups(q.size, classes), caps, strict=True):
            if cap < np.inf:
                over = max(over, float(q[index].max() - cap) / max(cap, 1.0 / q.size))
        return masses.snap(over)

    def center(self, dim: int, *, classes: Vec | None = None) -> Vec:
        return masses.uniform(dim, classes)

    def on_simplex(self) -> Domain | None:
        return self

    def polyhedron(self, dim: int, *, classes: Vec | None = None) -> Polyhedron | None:
        groups = self.groups(dim, classes)
        upper, ones = np.empty(dim), sparse.lil_array((len(groups), dim))
        for k, g in enumerate(groups):
            upper[g.entries] = g.most
            ones[k, g.entries] = 1.0
        sums = np.array([g.mass for g in groups])
        return Polyhedron(np.zeros(dim), upper, ones.tocsr(), sums, sums)


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
    domain: Domain
    classes: Vec | None = None
    samples: NDArray[np.intp] | None = None
    weight: float = 0.0
    parts: tuple[tuple[slice, Block], ...] = ()

    def weighing(self, c: float) -> Block:
        """The same with c times its weights."""
        parts = tuple((where, b.weighing(c)) for where, b in self.parts)
        return replace(self, weight=c * self.weight, parts=parts)

    @property
    def carries(self) -> bool:
        """Whether it leads back to samples."""
        return self.samples is not None or bool(self.parts)

    @functools.cached_property
    def groups(self) -> list[Group] | None:
        """The mass constraints with their caps; None when `D` is not `Capped`: no reduced hull."""
        if not isinstance(self.domain, Capped):
            return None
        return self.domain.groups(self.map.shape[1], self.classes)


@dataclass(frozen=True)
class Coupling:
    """`offset + sum_j B_j q_{k_j} = 0`: two operands of the intersection at `path` meet. Its
    multiplier, up to sign and scale, is a split of the support function (see `Splits`).

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
class AffineImage:
    """A lowered set: `x(q) = center + sum_k A_k q_k`, `q_k in D_k`, and the couplings.

    Attributes
    ----------
    center, blocks, couplings : its parts
    """

    center: Vec
    blocks: tuple[Block, ...] = ()
    couplings: tuple[Coupling, ...] = field(default=())


def common_dimension(node: Node, sizes: list[int | None]) -> int | None:
    """The one dimension among `sizes`; None entries are not known yet."""
    known = {d for d in sizes if d is not None}
    if len(known) > 1:
        low, high = min(known), max(known)
        raise CompositionError(
            f"{node!r}: its operands live in different spaces, of dimension {low} and {high}; "
            "both must have the same dimension"
        )
    return known.pop() if known else None


class UncertaintySet(Arithmetic["UncertaintySet"]):
    """A closed convex set in feature space, symbolic: it meets data only as an argument."""

    @abstractmethod
    def dimension(self, n: int | None) -> int | None:
        """The dimension of the space it lives in, over samples with n features. None: not known
        yet. Raises `CompositionError` naming the innermost node that mixes dimensions."""

    @abstractmethod
    def emptiness(self, data: Data) -> str | None:
        """Why the set is empty, naming the innermost node, with the admissible range. None: it is
        not, or only a solver can tell (intersections)."""

    @abstractmethod
    def size(self, data: Data) -> Size | None:
        """This node's own size, if it has one."""

    @abstractmethod
    def lower(self, data: Data) -> AffineImage:
        """The set as an affine image of simple domains."""

    @abstractmethod
    def rebuild(self, data: Data, q: Iterator[Vec]) -> tuple[Vec, float]:
        """The point x that the blocks q stand for, from the definition, and how far the q are
        outside. Takes from `q` as many blocks as `lower` made, in its order."""

    @abstractmethod
    def cvxpy(self, data: Data, scope: Scope) -> tuple[cp.Expression, list[cp.Constraint]]:
        """The set in CVXPY, straight from its definition, independent of `lower`."""

    @abstractmethod
    def support(self, data: Data, d: Vec, splits: Splits) -> tuple[float, Vec | None]:
        """An upper bound of `max <d, x>` over the set, exact but for intersections, where `splits`
        closes it; and a maximiser where one is known."""

    def to_loss(self) -> Any:
        """The loss whose generalised nu-SVM this set is: `ucm.language.loss_sets.to_loss`."""
        return OPERATORS["to_loss"](self)

    def problem_latex(self) -> str:
        """The primal and the dual of this set as a classifier in LaTeX, its support function
        written out: `ucm.language.problem.problem_latex`."""
        return OPERATORS["problem_latex"](self)

    def combine(self, symbol: str, a: Any, b: Any) -> UncertaintySet:
        """The nodes of `ucm.language.sets`."""
        return OPERATORS[symbol](a, b)


class Measured(UncertaintySet):
    """A set whose support function costs less without the maximiser."""

    @abstractmethod
    def height(self, data: Data, d: Vec, splits: Splits) -> float:
        """`support(data, d, splits)[0]`."""


def height_of(U: UncertaintySet, data: Data, d: Vec, splits: Splits) -> float:
    """`U.support(data, d, splits)[0]`, the cheapest way."""
    if isinstance(U, Measured):
        return U.height(data, d, splits)
    return U.support(data, d, splits)[0]
