"""Symbolic samples `pos`, `neg` and `signed`, given points, and the mean and covariance of either."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import field, replace
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucm.data.bound_data import Data
from ucm.data.linear_map import LinearMap, SampleMap, Vec, centered_map
from ucm.data.validation import read_groups
from ucm.data.weights import members
from ucm.errors import CompositionError, DataError, brief
from ucm.language.contracts import FeatureNode, SampleWeights
from ucm.language.node import Arithmetic, Node, Notation, RotationInvariant, axes, restricted
from ucm.language.parameter import Scalar
from ucm.language.statistics.affine import MatrixNode, VectorNode

_SIGN = {"pos": "+", "neg": "-", "signed": "±"}  # the subscripts of statistics


class SampleNode(Arithmetic, FeatureNode):
    """A collection of vectors in feature space, the argument of hulls, means and covariances."""

    @property
    def mean(self) -> Mean:
        """The mean of these vectors."""
        return Mean(self)

    @property
    def cov(self) -> Covariance:
        """The covariance of these vectors, divided by their number (the 1/m convention)."""
        return Covariance(self)

    def rows(self, data: Data) -> NDArray[np.intp] | None:
        """Return the indices of these vectors among the bound samples, or None for given points."""
        return None

    @abstractmethod
    def map(self, data: Data) -> LinearMap:
        """Return the linear map `q -> sum_i q_i x_i`, the x_i these vectors."""

    @abstractmethod
    def average(self, data: Data) -> Vec:
        """Return the mean of these vectors, (n,), weighted if the samples have weights."""

    @abstractmethod
    def covariance_factor(self, data: Data) -> LinearMap:
        """Return a linear map F with `F F'` equal to the covariance of these vectors."""

    def covariance(self, data: Data) -> NDArray[np.float64]:
        """Return the covariance of these vectors, dense (n, n)."""
        F = self.covariance_factor(data)
        return F.weighted_gram(np.ones(F.shape[1]))

    def bound(self, data: Data) -> SampleWeights:
        """Return the weights, classes and indices of these vectors, for `Domain.bind`."""
        return SampleWeights(self.map(data).shape[1], population=data.population)

    @property
    @abstractmethod
    def tag(self) -> str:
        """The word for these vectors in names of variables."""

    @abstractmethod
    def subscript(self, notation: Notation) -> str:
        """Return the subscript of the mean and covariance of these vectors in formulas."""

    def index(self, notation: Notation) -> str:
        """Return the index of a sum over these vectors in formulas."""
        return "i"

    def counting(self, notation: Notation) -> Notation:
        """Return the notation of weights of these vectors, whose number it names."""
        return notation.counting(self.subscript(notation))

    @abstractmethod
    def each(self, notation: Notation) -> str:
        """Return the formula of the i-th vector: `x_i`, `y_i x_i` or `c_i`."""

    def combine(self, symbol: str, a: object, b: object) -> NoReturn:
        if symbol == "*" and not (type(a) is float and a == -1.0):  # -1.0: of a minus sign
            raise CompositionError(f"{self!r} are samples, not a set; did you mean {a!r} * Hull({self!r})?")
        raise CompositionError(
            f"{self!r} are samples, not a set, so they take no arithmetic; "
            f"did you mean Hull({self!r}), or {self!r}.mean?"
        )


class Samples(SampleNode, RotationInvariant):
    """The samples of class +1 (`pos`) or -1 (`neg`), or all `y_i x_i` (`signed`), or one group of these.

    Examples
    --------
    >>> import ucm
    >>> ucm.pos.mean - ucm.neg.mean
    pos.mean - neg.mean
    >>> print(ucm.pos.cov + ucm.neg.cov)
    Σ₊ + Σ₋
    >>> ucm.Hull(ucm.pos.group("A"))
    Hull(pos.group('A'))
    """

    kind: Literal["pos", "neg", "signed"]
    label: Any = None

    def __post_init__(self) -> None:
        label = self.label
        if isinstance(label, np.generic):
            object.__setattr__(self, "label", label.item())
        if not isinstance(self.label, str | int | float | None) or self.label != self.label:
            raise CompositionError(
                f"group: expected the label of a group, a string or a number, got {brief(label)}; write one "
                "group for each label, as Hull(pos.group('A')) | Hull(pos.group('B'))"
            )
        super().__post_init__()

    def group(self, label: str | float) -> Samples:
        """Return the subset of these samples whose group is `label`.

        Groups are the labels `subgroup` given to `ucm.compile` and `Classifier.fit`.

        Raises
        ------
        CompositionError
            The label is neither a string nor a number, or these are the samples of a group.

        Examples
        --------
        >>> import ucm
        >>> U = ucm.Hull(ucm.pos.group("A")) - ucm.Hull(ucm.neg)
        >>> X, y, groups = [[3.0], [9.0], [1.0]], [1, 1, -1], ["A", "B", "A"]
        >>> ucm.solve(U, X, y, subgroup=groups).objective
        -2.0
        """
        if self.label is not None or label is None:
            raise CompositionError(
                f"{self!r}.group({label!r}): expected the label of one group of all samples of a class, got "
                "none or a second one; write pos.group('A'), and give combined labels to samples for two"
            )
        return Samples(self.kind, label)

    def among(self, y: Vec, subgroup: ArrayLike | None) -> NDArray[np.bool_]:
        """Return the mask (m,) of these samples among labels y and groups; `DataError` if it is empty."""
        mask = np.full(y.size, True) if self.kind == "signed" else (y > 0.0) == (self.kind == "pos")
        if self.label is None:
            return mask
        groups = None if subgroup is None else read_groups(subgroup, y.size)
        rows = members(groups, self.kind, self.label, np.flatnonzero(mask))
        return np.isin(np.arange(y.size), rows)

    @property
    def part(self) -> tuple[str, str | float | None]:
        """The pair (kind, group), the arguments of methods of `ucm.data.bound_data.Data`."""
        return self.kind, self.label

    def dimension(self, n: int | None) -> int | None:
        return n

    def rows(self, data: Data) -> NDArray[np.intp]:
        return data.rows(*self.part)

    def map(self, data: Data) -> LinearMap:
        return data.samples(*self.part)

    def average(self, data: Data) -> Vec:
        return data.mean(*self.part)

    def covariance_factor(self, data: Data) -> LinearMap:
        return data.covariance_factor(*self.part)

    def covariance(self, data: Data) -> NDArray[np.float64]:
        return data.covariance(*self.part)

    def bound(self, data: Data) -> SampleWeights:
        part, size = self.part, self.map(data).shape[1]
        columns = data.copies(*part), data.signs(*part), data.number(*part)
        return SampleWeights(size, *columns, data.population, data.rows(*part))

    @property
    def tag(self) -> str:
        return self.kind if self.label is None else f"{self.kind}_{self.label}"

    def subscript(self, notation: Notation) -> str:
        sign = _SIGN[self.kind]
        return sign if self.label is None else f"{sign},{notation.label(self.label)}"

    def index(self, notation: Notation) -> str:
        i, words = "i", []
        if self.kind != "signed":
            words.append(f"{notation.sub('y', i)} = {_SIGN[self.kind]}1")
        if self.label is not None:
            words.append(f"{notation.sub('g', i)} = {notation.label(self.label)}")
        return ", ".join(words) or i

    def counting(self, notation: Notation) -> Notation:
        return notation if self == signed else super().counting(notation)

    def each(self, notation: Notation) -> str:
        x = notation.sub("x", "i")
        return f"{notation.sub('y', 'i')} {x}" if self.kind == "signed" else x

    def __repr__(self) -> str:
        return self.kind if self.label is None else f"{self.kind}.group({self.label!r})"

    def formula(self, notation: Notation) -> str:
        kind = notation.word(self.kind)
        return kind if self.label is None else notation.sub(kind, notation.label(self.label))


def kinds_of(node: Node) -> set[str]:
    """Return the kinds of samples in a declaration, a subset of "pos", "neg" and "signed"."""
    return {s.kind for s in node.nodes_of_type(Samples)}


pos = Samples("pos")
neg = Samples("neg")
signed = Samples("signed")


class Mean(VectorNode, RotationInvariant):
    """The mean `(1/m_o) sum_i x_i` of m_o samples, weighted if the samples have weights."""

    samples: SampleNode

    def evaluate(self, data: Data) -> Vec:
        return self.samples.average(data)

    def __repr__(self) -> str:
        return f"{self.samples!r}.mean"

    def formula(self, notation: Notation) -> str:
        return notation.sub(notation.bar("x"), self.samples.subscript(notation))


class PooledMean(VectorNode, RotationInvariant):
    """The mean of the samples of two parts together, as of a group in both classes.

    A part without samples is left out. Classes have no weights here, samples have.

    Parameters
    ----------
    first, second : Samples
        The parts.

    Examples
    --------
    >>> import ucm
    >>> print(ucm.PooledMean(ucm.pos.group("A"), ucm.neg.group("A")))
    x̄_{+,A ∪ -,A}
    """

    first: Samples
    second: Samples

    def evaluate(self, data: Data) -> Vec:
        total, mean, missing = 0.0, np.zeros(data.n), None
        for part in (self.first, self.second):
            try:
                count = data.number(*part.part)
            except DataError as error:
                missing = error
                continue
            total, mean = total + count, mean + count * data.mean(*part.part)
        if total == 0.0 and missing is not None:
            raise missing
        return mean / total

    def formula(self, notation: Notation) -> str:
        parts = (part.subscript(notation) for part in (self.first, self.second))
        return notation.sub(notation.bar("x"), notation.union.join(parts))


class Covariance(MatrixNode, RotationInvariant):
    """The covariance `(1/m_o) sum_i (x_i - mean)(x_i - mean)'` of m_o samples, weighted by sample weights."""

    samples: SampleNode

    def factors(self, data: Data) -> list[tuple[Scalar, LinearMap]]:
        return [(1.0, self.samples.covariance_factor(data))]

    def evaluate(self, data: Data) -> NDArray[np.float64]:
        return self.samples.covariance(data)

    def __repr__(self) -> str:
        return f"{self.samples!r}.cov"

    def formula(self, notation: Notation) -> str:
        return notation.sub(notation.symbol("Sigma"), self.samples.subscript(notation))


class Points(SampleNode):
    """Given points in place of samples: the rows of an array, such as prototypes or corners of a region.

    They stand where `pos` and `neg` do, and belong to no class. A weight is a repetition, as of samples, and
    m in a `nu` counts the samples only. In cross-validation every fold has all of them: what is fitted to the
    samples of all folds does not belong here. They are points of the feature space, so that there is no
    kernel for them.

    Parameters
    ----------
    points : (k, n) array or sparse matrix
        The points, one a row.
    weights : (k,) array, optional
        The weight of each point, positive; None for 1 each.

    Attributes
    ----------
    mean : their mean, a vector
    cov : their covariance, divided by the sum of their weights

    Raises
    ------
    CompositionError
        No matrix of finite numbers with a row, or weights that are no k positive numbers.

    Examples
    --------
    >>> import ucm
    >>> corners = ucm.Points([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> X, y = [[3.0, 3.0], [4.0, 2.0], [-1.0, -1.0]], [1, 1, -1]
    >>> ucm.solve(ucm.Hull(ucm.pos) - ucm.Hull(corners), X, y).w.round(4)
    array([0.7071, 0.7071])
    """

    points: Any = restricted(
        lambda x: axes(x, "Points") == 2 and min(x.shape),
        "expected an array of points, one a row, with at least one point",
        "write Points([[0.0, 1.0], [2.0, 0.5]]), and Point(v) for one",
    )
    weights: np.ndarray | None = field(default=None, kw_only=True)

    def _check(self) -> None:
        c = self.weights
        if c is not None and not (np.shape(c) == self.points.shape[:1] and np.all(c > 0.0)):
            raise CompositionError(
                f"Points: expected {self.points.shape[0]} positive weights, one for each point, got "
                f"{brief(c)}; leave out points of weight 0, and the weights where all are 1"
            )

    def dimension(self, n: int | None) -> int | None:
        return self.points.shape[1]

    def map(self, data: Data) -> LinearMap:
        return self.once("points", lambda: SampleMap(self.points), data)

    def average(self, data: Data) -> Vec:
        c = np.ones(self.points.shape[0]) if self.weights is None else self.weights
        return np.asarray(self.points.T @ c).ravel() / c.sum()

    def covariance_factor(self, data: Data) -> LinearMap:
        return self.once("centred", lambda: centered_map(self.points, self.average(data), self.weights), data)

    def bound(self, data: Data) -> SampleWeights:
        return replace(super().bound(data), weights=self.weights)

    @property
    def tag(self) -> str:
        return "points"

    def subscript(self, notation: Notation) -> str:
        return "c"

    def each(self, notation: Notation) -> str:
        return notation.sub("c", "i")

    def formula(self, notation: Notation) -> str:
        return notation.array(self.points)
