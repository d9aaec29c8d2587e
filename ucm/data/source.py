"""Row sources: samples that are read block by block, views of sources, and local sources.

A computation over rows is a map-reduce of a pure function, which a module defines so that workers can import
it:

    source.map_reduce(function, *message)                   function(X, y, *message) -> result
    source.map_reduce(function, *message, states=states)    function(X, y, state, *message) -> (state, result)

X is a block, a dense array of any real dtype or a CSR matrix, y its labels. The state of a block is None in
the first pass; after each pass it is what the function returned, and it stays where the block is. Only
messages and results travel.
"""

from __future__ import annotations

import functools
import zlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ucm.data.columns import places_of
from ucm.data.linear_map import Matrix, Vec
from ucm.data.options import integer_from
from ucm.data.validation import as_double, classes_of, signed_classes
from ucm.data.weights import Factors, positive_rows, tagged, untagged
from ucm.errors import DataError, brief
from ucm.native.threads import processors

_BLOCK = 1 << 23  # bytes: with smaller blocks two threads wait for the interpreter
_PART = 32768  # rows
_FOLDS = integer_from(2)
_THREADS = 4  # at most by default: more threads wait for the memory

Result = Any
"""The value of a function on a block, or its state there."""
Merge = Callable[[Result, Result], Result]
States = dict[int, Result]
Block = tuple[Matrix, np.ndarray]
"""Samples, and their labels or the labels, weights and groups of `ucm.data.weights`."""
Function = Callable[..., Result]
"""A function of blocks, as in the docstring of the module."""
Change = Callable[[Matrix, np.ndarray], Block]


class RowSource(ABC):
    """Abstract source of samples and labels in blocks of rows.

    Blocks are never moved.

    Attributes
    ----------
    m, n : number of samples and of features
    nbytes : bytes of the samples in double precision, as `gather` returns them
    features : names of the features, or None
    mapping : the map that computed the features from others, or ""
    tags : "weight" and "group", if rows have these: see `ucm.data.weights`
    """

    m: int
    n: int
    nbytes: int
    features: list[str] | None = None
    mapping: str = ""
    tags: tuple[str, ...] = ()

    @property
    def given(self) -> int:
        """The number of input rows, including those of weight 0 and of groups outside the model."""
        return self.m

    def spread(self, make: Callable[..., Vec], *arguments: object) -> Vec:
        """Return `make(*arguments)`, an entry per row of positive weight, with zeros for other input rows."""
        return make(*arguments)

    def of_all_groups(self) -> RowSource:
        """Return the rows of positive weight of all groups."""
        return self

    @abstractmethod
    def map_reduce(
        self, function: Function, *message: object, merge: Merge | None = None, states: States | None = None
    ) -> Result:
        """Call a function on every block in one pass, and return the list of results or the merged result.

        Parameters
        ----------
        function : as in the docstring of the module
        merge : an associative `merge(a, b)` of the results of neighbours, a function of a module
        states : the states of the blocks, empty before the first pass; a completed pass replaces them

        Returns
        -------
        The results in the order of the blocks, or with `merge` one result, None if there are no blocks.

        Raises
        ------
        DataError
            The rows cannot be read, or have changed.
        """

    def labels(self) -> np.ndarray:
        """Return the distinct labels, sorted."""
        labels = self.map_reduce(_distinct, merge=np.union1d)
        return np.empty(0) if labels is None else labels

    def gather(self) -> Block:
        """Return all samples, a float64 array or CSR matrix, and all labels in memory.

        Weights and groups (`tags`) are not returned: give `sample_weight` and `subgroup` again.
        """
        return gathered(self.map_reduce(_copied))

    def split(self, count: int) -> Sequence[tuple[RowSource, RowSource]]:
        """Return pairs (train, test) of row sources for cross-validation folds, stratified by label.

        Each is a source over the same blocks. The place of a row among the rows of its label in its block
        determines its fold.

        Raises
        ------
        ParameterError
            Fewer than 2 folds.
        DataError
            A fold without rows.

        Examples
        --------
        >>> import ucm
        >>> X, y = ucm.datasets.load("wine")
        >>> [(train.m, test.m) for train, test in ucm.open_rows(X, y).split(2)]
        [(65, 65), (65, 65)]
        """
        _FOLDS.check("split", "count", count, "write split(5)")
        count = int(count)
        folds = {"count": count, "classes": self.labels()}
        sizes = np.sum(self.map_reduce(functools.partial(_fold_sizes, **folds)), axis=0)
        if not np.all(sizes):
            raise DataError(
                f"split: expected rows in each of {count} folds, got {self.m} rows in all; take fewer folds"
            )
        every = int(sizes.sum())

        def part(fold: int, held: bool, m: int) -> RowSource:
            return View(self, functools.partial(_of_fold, fold=fold, held=held, **folds), m)

        return [(part(k, False, every - int(size)), part(k, True, int(size))) for k, size in enumerate(sizes)]

    def mapped(self, transform: Any) -> RowSource:
        """Return the source with features mapped block by block, as into approximate kernel features.

        A certificate is of the model in these features: after `sklearn.kernel_approximation.Nystroem`, of the
        low-rank kernel and not of the kernel that it approximates.

        Parameters
        ----------
        transform : a fitted transformer of scikit-learn, or a function of a block
            Gives as many rows, dense or sparse. One that was fitted on a frame takes the columns by their
            names, where the rows have names too.

        Raises
        ------
        DataError
            The map fails, or gives no table of real numbers with as many rows; a block on which it fails is
            met in a pass.

        Examples
        --------
        >>> import ucm
        >>> from sklearn.kernel_approximation import Nystroem
        >>> X, y = ucm.datasets.load("wine")
        >>> some = Nystroem("rbf", gamma=1e-3, n_components=20, random_state=0).fit(X[::2])
        >>> rows = ucm.open_rows(X, y).mapped(some)
        >>> ucm.solve(ucm.models.nu_svm(0.3), rows).status
        'optimal'
        """
        function = getattr(transform, "transform", transform)
        if not callable(function):
            raise DataError(
                f"mapped: expected a fitted transformer or a function of a block, got {brief(transform)}; "
                "give for example sklearn.kernel_approximation.Nystroem().fit(some)"
            )
        fitted = getattr(getattr(function, "__self__", None), "feature_names_in_", None)
        source = with_features(self, fitted)
        return Mapped(source, function, mapped_features(function, np.zeros((1, source.n))).shape[1])

    def __repr__(self) -> str:
        return f"{type(self).__name__}(m={self.m}, n={self.n})"


def _distinct(X: Matrix, y: np.ndarray) -> np.ndarray:
    return np.unique(untagged(y)[0])


def _copied(X: Matrix, y: np.ndarray) -> Block:
    return as_double(X), untagged(y)[0]


def gathered(parts: Sequence[Block]) -> Block:
    """Return the samples and the labels of several blocks, concatenated."""
    tables, labels = zip(*parts, strict=True)
    if any(map(sparse.issparse, tables)):
        return sparse.vstack(tables, format="csr"), np.concatenate(labels)
    return np.concatenate(tables), np.concatenate(labels)


def reduced(results: Iterable[Result], merge: Merge | None) -> Result:
    """Return results as a list, or merged into one result by `merge`; None if there are none to merge."""
    if merge is None:
        return list(results)
    results = iter(results)
    first = next(results, None)
    return None if first is None else functools.reduce(merge, results, first)


def over_parts(
    parts: Iterable[Block], function: Function, message: tuple, before: Sequence[Result] | None
) -> tuple[list, list]:
    """Call a function on every part of a block, and return (states, results) of the parts."""
    if before is None:
        return [], [function(X, y, *message) for X, y in parts]
    pairs = zip(parts, before or repeat(None))
    results = [function(X, y, state, *message) for (X, y), state in pairs]
    return [state for state, _ in results], [result for _, result in results]


def block_rows(bytes_of_row: float) -> int:
    """Return the default number of rows in a block, about 8 MB of rows, and at least 1."""
    return max(1, int(_BLOCK / max(bytes_of_row, 1.0)))


def by_parts(function: Function, X: Matrix, y: ArrayLike, merge: Merge) -> Result:
    """Return the merged results of `function(rows, X[rows], y[rows])` over slices, small for the cache."""
    X, y = as_double(X), np.asarray(y, dtype=np.float64)
    parts = (slice(k, k + _PART) for k in range(0, max(y.size, 1), _PART))
    return functools.reduce(merge, (function(p, X[p], y[p]) for p in parts))


class BlockSource(RowSource):
    """Abstract row source whose blocks are read in this process, on several threads."""

    threads: int | None = None  # that read at the same time; None for the number of processors, at most four

    @property
    @abstractmethod
    def blocks(self) -> int:
        """The number of blocks."""

    @abstractmethod
    def read(self, block: int) -> Iterator[Block]:
        """Yield (samples, labels) of a block, whole or in parts that are the same in every pass.

        Raises
        ------
        DataError
            They cannot be read.
        """

    def check(self) -> None:
        """Raise `DataError` if the rows have changed; the default checks nothing.

        A pass calls this method at its beginning and after its last block.
        """

    def map_reduce(
        self, function: Function, *message: object, merge: Merge | None = None, states: States | None = None
    ) -> Result:
        self.check()
        after: dict[int, list] = {}

        def work(block: int) -> list:
            before = None if states is None else states.get(block, ())
            after[block], results = over_parts(self.read(block), function, message, before)
            return results

        reduction = reduced((result for part in self._in_order(work) for result in part), merge)
        self.check()
        if states is not None:  # at the end, as an interrupted pass changes nothing
            states.update(after)
        return reduction

    def _in_order(self, work: Callable[[int], list]) -> Iterator[list]:
        """Yield the results of all blocks in order, while threads compute a few blocks ahead."""
        threads = self.threads or min(_THREADS, processors())
        if threads == 1 or self.blocks == 1:
            yield from map(work, range(self.blocks))
            return
        with ThreadPoolExecutor(threads) as pool:
            ahead: deque = deque()
            for block in range(self.blocks):
                ahead.append(pool.submit(work, block))
                if len(ahead) > 4 * threads:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()


# --- views -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Changed:
    """A function of blocks composed with a change of the block: `function(*change(X, y), ...)`."""

    function: Function
    change: Change

    def __call__(self, X: Matrix, y: np.ndarray, *rest: object) -> Result:
        return self.function(*self.change(X, y), *rest)


class View(RowSource):
    """A view of another source, with `change(X, y) -> (X, y)` applied to every block, m rows in all."""

    def __init__(self, inner: RowSource, change: Change, m: int | None = None, n: int | None = None) -> None:
        self.inner, self.change = inner, change
        self.m, self.n = inner.m if m is None else m, inner.n if n is None else n
        self.nbytes = int(inner.nbytes * (self.m / max(inner.m, 1)))
        self.features, self.mapping, self.tags = inner.features, inner.mapping, inner.tags

    def map_reduce(
        self, function: Function, *message: object, merge: Merge | None = None, states: States | None = None
    ) -> Result:
        return self.inner.map_reduce(Changed(function, self.change), *message, merge=merge, states=states)

    def labels(self) -> np.ndarray:
        return self.inner.labels()


def _fold_of_rows(X: Matrix, y: np.ndarray, count: int, classes: np.ndarray) -> NDArray[np.intp]:
    """Return the fold of every row of a block.

    The rows of a label take the folds in turn, from a random fold on; the seed is the first row of the block.
    """
    labels, folds = untagged(y)[0], np.zeros(len(y), dtype=np.intp)
    first = X[:1].data if sparse.issparse(X) else np.ascontiguousarray(X[:1])
    rng = np.random.default_rng(zlib.crc32(first.tobytes()))
    for label in classes:
        rows = np.flatnonzero(labels == label)
        folds[rows] = (np.arange(rows.size) + rng.integers(count)) % count
    return folds


def _fold_sizes(X: Matrix, y: np.ndarray, count: int, classes: np.ndarray) -> NDArray[np.intp]:
    return np.bincount(_fold_of_rows(X, y, count, classes), minlength=count)


def _of_fold(X: Matrix, y: np.ndarray, count: int, classes: np.ndarray, fold: int, held: bool) -> Block:
    """Return the rows of a block that are in a fold if `held`, else the rows that are not in the fold."""
    rows = (_fold_of_rows(X, y, count, classes) == fold) == held
    return X[rows], y[rows]


def _relabelled(X: Matrix, y: np.ndarray, positive: object, negative: object) -> Block:
    """Label class `positive` +1 and `negative` -1, dropping other classes, or for None all others -1."""
    if negative is not None:
        label = untagged(y)[0]
        rows = (label == positive) | (label == negative)
        X, y = X[rows], y[rows]
    label, weight, group = untagged(y)
    return X, tagged(np.where(label == positive, 1.0, -1.0), weight, group)


class Labelled(View):
    """A view of a source with label +1 for one class and -1 for another class or all other classes.

    If `negative` is the label of another class, the rows of further classes are dropped, and m are left.
    """

    def __init__(
        self, inner: RowSource, positive: object, negative: object = None, m: int | None = None
    ) -> None:
        change = functools.partial(_relabelled, positive=positive, negative=negative)
        super().__init__(inner, change, m)
        self.positive, self.negative, self.features = positive, negative, None

    def message_prefix(self) -> str:
        """Return the prefix of an error message that names the two classes."""
        plus, minus = (x.item() if isinstance(x, np.generic) else x for x in (self.positive, self.negative))
        return f"{plus!r} against {'the rest' if minus is None else repr(minus)}: "

    def labels(self) -> np.ndarray:
        return np.array([-1.0, 1.0])


def signed_rows(rows: RowSource, pos_label: object) -> tuple[RowSource, tuple[object, object]]:
    """Return rows with labels -1 and +1, and the original labels of class -1 and class +1.

    `pos_label` is the original label of class +1; None if the labels are -1 and +1 already. Raises as
    `classes_of`.
    """
    if pos_label is None:
        return rows, (-1, 1)
    negative, positive = signed_classes(classes_of(rows.labels(), pos_label)[0], pos_label)
    return Labelled(rows, positive), (negative, positive)


class Mapped(View):
    """A view of a source with features mapped block by block, as made by `RowSource.mapped`."""

    def __init__(self, inner: RowSource, transform: Callable[[Matrix], Matrix], n: int) -> None:
        def change(X: Matrix, y: np.ndarray) -> Block:
            features = mapped_features(transform, X) if X.shape[0] else np.empty((0, n))
            if features.shape[1] != n:
                raise DataError(
                    f"mapped: expected {n} features of every block, got {features.shape[1]}; give a map of "
                    "single rows"
                )
            return features, y

        super().__init__(inner, change, n=n)
        self.nbytes, self.features = 8 * inner.m * n, None
        self.mapping = brief(getattr(transform, "__self__", transform))

    def __repr__(self) -> str:
        return f"{self.inner!r}.mapped({self.mapping})"


def _counted(X: Matrix, y: np.ndarray, factors: Factors) -> NDArray[np.float64]:
    rows = positive_rows(np.asarray(y), y, factors)[2]
    counts = np.zeros(len(y))
    counts[slice(None) if rows is None else rows] = 1.0
    return counts


class WeightedRows(View):
    """A view of the m rows of positive weight, with labels -1 and +1 multiplied by weights and factors."""

    def __init__(self, inner: RowSource, factors: Factors, m: int | None = None) -> None:
        super().__init__(inner, lambda X, y: positive_rows(X, y, factors)[:2], m)
        self.factors, self.nbytes, self.features = factors, inner.nbytes, None

    @property
    def given(self) -> int:
        return self.inner.m

    def spread(self, make: Callable[..., Vec], *arguments: object) -> Vec:
        values = np.concatenate(self.inner.map_reduce(_counted, self.factors))
        values[values > 0.0] = make(*arguments)
        return values

    def of_all_groups(self) -> RowSource:
        return WeightedRows(self.inner, Factors())

    def __repr__(self) -> str:
        return f"{self.inner!r}, {self.m} of them with weights"


def with_features(source: RowSource, names: Sequence[str] | None) -> RowSource:
    """Return the source with the features `names` of a fit in their order; raise `DataError` without all.

    The source itself is returned if it has no names, or these names in this order, or if `names` is None.
    """
    if names is None or source.features is None or list(names) == source.features:
        return source
    places = places_of(names, source.features)
    view = View(source, lambda X, y: (X[:, places], y), n=len(places))
    view.features = list(names)
    return view


def mapped_features(transform: Callable[[Matrix], Matrix], X: Matrix) -> Matrix:
    """Apply a transform to a block; raise `DataError` unless it gives a table with as many rows."""
    try:
        features = transform(X)
    except Exception as error:
        raise DataError(
            f"mapped: expected features of rows of {X.shape[1]} numbers, got an error "
            f"({brief(error)}); give a transformer that is fitted to such rows"
        ) from error
    features = features.to_numpy() if hasattr(features, "to_numpy") else features
    features = sparse.csr_matrix(features) if sparse.issparse(features) else features
    shape, kind = getattr(features, "shape", ()), getattr(getattr(features, "dtype", None), "kind", "")
    if len(shape) != 2 or shape[0] != X.shape[0] or shape[1] == 0 or kind not in tuple("biuf"):
        raise DataError(
            f"mapped: expected features, as real numbers, of {X.shape[0]} rows, got {brief(features)}; give "
            "a table with a row for each"
        )
    return features
