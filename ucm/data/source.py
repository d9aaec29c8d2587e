"""Samples that are read block by block: the contract of a row source, and what all of them share.

What is computed over rows is a pure kernel, a function of a module that workers can import:

    kernel(X, y, state, *message) -> (state, summary)

X is a block, a dense array of any real dtype or a CSR matrix, y its labels, and `state` what the kernel
left there in the round before, None at first. A state stays where its block is: one message goes out a round,
and one summary of each block comes back, or all of them merged into one.
"""

from __future__ import annotations

import functools
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.tags import Factors, group_in, kept, label_in, tagged, weight_in
from ucm.errors import DataError, SolverError, brief

__all__ = [
    "BlockSource", "Kernel", "Labelled", "Rounds", "RowSource", "StateLostError", "Watched", "Weighed",
    "as_double", "block_rows", "gathered", "given_rows", "of_all_groups", "once_more", "processors",
    "spread", "told",
]  # fmt: skip

Kernel = Callable[..., tuple[Any, Any]]

_BLOCK = 1 << 21  # bytes: a second product with a block finds it in the cache
_LOSSES = 5  # of blocks, after which rounds are given up
_THREADS = 4  # at most, where none is said: more wait for the memory


class StateLostError(RuntimeError):
    """A block was lost between two rounds, its state with it; `Rounds.recover` brings the block back."""


class Rounds(ABC):
    """Rounds of kernels over the blocks of a source, with states of their own."""

    @abstractmethod
    def run(self, kernel: Kernel, *message: Any) -> list[Any]:
        """The summaries of one round, in the order of the blocks.

        Raises
        ------
        StateLostError
            A block is not where it was: no state is to be relied on before `recover`.
        DataError
            The rows cannot be read, or have changed.
        """

    @abstractmethod
    def merged(self, kernel: Kernel, merge: Callable[[Any, Any], Any], *message: Any) -> Any:
        """The summaries of one round as one: `merge(a, b)` of two neighbours, a before b, where they are;
        None where there are no blocks. `merge` is associative, a function of a module. Raises as `run`."""

    @abstractmethod
    def recover(self) -> None:
        """All blocks again, all states None."""


def once_more(rounds: Rounds, losses: int) -> int:
    """All blocks again after a loss; the number of losses with this one.

    Raises
    ------
    SolverError
        It is one too many.
    """
    if losses >= _LOSSES:
        raise SolverError(
            f"rows: expected blocks that stay where they are, got {losses + 1} losses of them; look at what "
            "holds them, and solve again"
        )
    rounds.recover()
    return losses + 1


def told(
    rounds: Rounds,
    kernel: Kernel,
    *message: Any,
    merge: Callable[[Any, Any], Any] | None = None,
) -> Any:
    """What a round of a kernel that needs no state tells, merged or by blocks: where a block is lost, the
    round is repeated.

    Raises
    ------
    SolverError
        Blocks are lost again and again.
    """
    losses = 0
    while True:
        try:
            return rounds.merged(kernel, merge, *message) if merge else rounds.run(kernel, *message)
        except StateLostError:
            losses = once_more(rounds, losses)


class RowSource(ABC):
    """m samples of n features with their labels, in blocks of rows that stay where they are.

    Attributes
    ----------
    m, n : samples and features
    nbytes : of the samples as double precision, what `gather` takes
    features : the names of the features, where they have some
    mapping : what made the features of others, "" where nothing did
    tags : "weight" and "group", where rows have these: see `ucm.data.tags`
    """

    m: int
    n: int
    nbytes: int
    features: list[str] | None = None
    mapping: str = ""
    tags: tuple[str, ...] = ()

    @abstractmethod
    def rounds(self) -> Rounds:
        """New rounds, all states None."""

    @abstractmethod
    def labels(self) -> NDArray[Any]:
        """The different labels, in order."""

    def gather(self) -> tuple[Any, NDArray[Any]]:
        """All samples and labels in memory, float64 or CSR: for models that need them whole.

        What stands beside them, weights and groups (`tags`), is not among them: give `sample_weight` and
        `subgroup` anew where the samples go.
        """
        return gathered(told(self.rounds(), _copied))

    def mapped(self, transform: Any) -> RowSource:
        """The same rows in other features, computed block by block and never whole: a kernel in place of
        which features stand, such as those of Nystroem or random ones.

        What is proven is proven in these features: of `sklearn.kernel_approximation.Nystroem` for its kernel
        of low rank, not for the one that it is near to.

        Parameters
        ----------
        transform : a fitted transformer of scikit-learn, or a function of a block
            Gives as many rows, dense or sparse. One that was fitted on a frame takes the columns by their
            names, where the rows have names too.

        Raises
        ------
        DataError
            It is neither, fails, or gives no table of real numbers with as many rows; a block that it fails
            on is met in a round.

        Examples
        --------
        >>> import ucm
        >>> from sklearn.kernel_approximation import Nystroem
        >>> X, y = ucm.datasets.load("wine")
        >>> some = Nystroem("rbf", gamma=1e-3, n_components=20, random_state=0).fit(X[::2])
        >>> rows = ucm.row_source(X, y).mapped(some)
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
        if fitted is not None and self.features is not None and list(fitted) != self.features:
            places = [self.features.index(name) for name in fitted if name in self.features]
            if len(places) < len(fitted):
                lost = sorted(set(fitted) - set(self.features))
                raise DataError(
                    f"mapped: expected the columns that the transformer was fitted on, got none named "
                    f"{', '.join(lost)}; give rows that have them"
                )
            function = _OfColumns(function, tuple(places))
        return Mapped(self, function, _mapped(function, np.zeros((1, self.n))).shape[1])

    def __repr__(self) -> str:
        return f"{type(self).__name__}(m={self.m}, n={self.n})"


def _copied(X: Any, y: Any, state: Any) -> tuple[Any, Any]:
    return state, (as_double(X), label_in(y))


def gathered(parts: Sequence[tuple[Any, Any]]) -> tuple[Any, NDArray[Any]]:
    """Samples and labels of several blocks as one."""
    tables = [X for X, _ in parts]
    if any(sparse.issparse(X) for X in tables):
        X: Any = sparse.vstack(tables, format="csr")
    else:
        X = np.concatenate(tables)
    return X, np.concatenate([np.asarray(y) for _, y in parts])


def as_double(X: Any) -> Any:
    """A block in double precision, as it is where it has that."""
    if sparse.issparse(X):
        return X if X.dtype == np.float64 else X.astype(np.float64)
    return np.asarray(X, dtype=np.float64)


def processors() -> int:
    """Those that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on every system
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def block_rows(bytes_of_row: float) -> int:
    """How many rows make a block."""
    return max(1, int(_BLOCK / max(bytes_of_row, 1.0)))


class BlockSource(RowSource):
    """A source whose blocks are read in this process, on several threads.

    Attributes
    ----------
    threads : at work at the same time; None for as many as processors, four at most
    """

    threads: int | None = None

    @property
    @abstractmethod
    def blocks(self) -> int:
        """Their number."""

    @abstractmethod
    def read(self, block: int) -> Iterator[tuple[Any, Any]]:
        """The samples and labels of a block, in one part or in several that are always the same.

        Raises
        ------
        DataError
            They cannot be read.
        """

    @abstractmethod
    def check(self) -> None:
        """Raises `DataError` where the rows are no longer what they were: asked before and
        after every round."""

    def rounds(self) -> Rounds:
        return _LocalRounds(self)


class _LocalRounds(Rounds):
    def __init__(self, source: BlockSource) -> None:
        self.source = source
        self.states: list[dict[int, Any]] = [{} for _ in range(source.blocks)]

    def run(self, kernel: Kernel, *message: Any) -> list[Any]:
        return [summary for found in self._over(kernel, message) for summary in found]

    def merged(self, kernel: Kernel, merge: Callable[[Any, Any], Any], *message: Any) -> Any:
        summaries = (summary for found in self._over(kernel, message) for summary in found)
        first = next(summaries, None)
        return None if first is None else functools.reduce(merge, summaries, first)

    def _over(self, kernel: Kernel, message: tuple[Any, ...]) -> Iterator[list[Any]]:
        """The summaries of the parts of every block, block by block."""
        self.source.check()

        def work(block: int) -> list[Any]:
            states, found = self.states[block], []
            for k, (X, y) in enumerate(self.source.read(block)):
                states[k], summary = kernel(X, y, states.get(k), *message)
                found.append(summary)
            return found

        threads = self.source.threads or min(_THREADS, processors())
        every = range(self.source.blocks)
        if threads == 1 or len(every) == 1:
            yield from map(work, every)
            self.source.check()
            return
        with ThreadPoolExecutor(threads) as pool:
            ahead: deque[Any] = deque()  # so that summaries do not pile up
            for block in every:
                ahead.append(pool.submit(work, block))
                if len(ahead) > 4 * threads:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        self.source.check()

    def recover(self) -> None:
        self.states = [{} for _ in self.states]


class Watched(RowSource):
    """A source that calls `before(rounds, number)` before every round, from 1 on."""

    def __init__(self, inner: RowSource, before: Callable[[Rounds, int], None]) -> None:
        self.inner, self.before, self.number = inner, before, 0
        self.mapping = inner.mapping
        self.m, self.n, self.nbytes = inner.m, inner.n, inner.nbytes
        self.tags = inner.tags

    def rounds(self) -> Rounds:
        return _WatchedRounds(self, self.inner.rounds())

    def labels(self) -> NDArray[Any]:
        return self.inner.labels()


class _WatchedRounds(Rounds):
    def __init__(self, source: Watched, inner: Rounds) -> None:
        self.source, self.inner = source, inner

    def _count(self) -> None:
        self.source.number += 1
        self.source.before(self.inner, self.source.number)

    def run(self, kernel: Kernel, *message: Any) -> list[Any]:
        self._count()
        return self.inner.run(kernel, *message)

    def merged(self, kernel: Kernel, merge: Callable[[Any, Any], Any], *message: Any) -> Any:
        self._count()
        return self.inner.merged(kernel, merge, *message)

    def recover(self) -> None:
        self.inner.recover()


@dataclass(frozen=True)
class _Renamed:
    """A kernel that is told +1 for one label and -1 for another, of whose rows alone it knows, or for all
    others."""

    kernel: Kernel
    positive: Any
    negative: Any

    def __call__(self, X: Any, y: Any, state: Any, *message: Any) -> tuple[Any, Any]:
        y = np.asarray(y)
        if self.negative is not None:
            rows = (label_in(y) == self.positive) | (label_in(y) == self.negative)
            X, y = X[rows], y[rows]
        v = np.where(label_in(y) == self.positive, 1.0, -1.0)
        return self.kernel(X, tagged(v, weight_in(y), group_in(y)), state, *message)


@dataclass(frozen=True)
class _Transformed:
    """A kernel that sees what a map makes of the samples."""

    kernel: Kernel
    transform: Callable[[Any], Any]
    n: int

    def __call__(self, X: Any, y: Any, state: Any, *message: Any) -> tuple[Any, Any]:
        found = _mapped(self.transform, X) if X.shape[0] else np.empty((0, self.n))
        if found.shape[1] != self.n:
            raise DataError(
                f"mapped: expected {self.n} features of every block, got {found.shape[1]}; give a map that "
                "looks at rows alone"
            )
        return self.kernel(found, y, state, *message)


@dataclass(frozen=True)
class _OtherKernels(Rounds):
    """Rounds of what `change` makes of a kernel."""

    inner: Rounds
    change: Callable[[Kernel], Kernel]

    def run(self, kernel: Kernel, *message: Any) -> list[Any]:
        return self.inner.run(self.change(kernel), *message)

    def merged(self, kernel: Kernel, merge: Callable[[Any, Any], Any], *message: Any) -> Any:
        return self.inner.merged(self.change(kernel), merge, *message)

    def recover(self) -> None:
        self.inner.recover()


class Labelled(RowSource):
    """A source of any labels, one of which becomes +1.

    Parameters
    ----------
    negative, m : the label that becomes -1, and how many rows have one of both, which alone are seen; None
        for all rows
    """

    def __init__(
        self, inner: RowSource, positive: Any, negative: Any = None, m: int | None = None
    ) -> None:
        self.inner, self.positive, self.negative = inner, positive, negative
        self.mapping = inner.mapping
        self.m, self.n = inner.m if m is None else m, inner.n
        self.nbytes = int(inner.nbytes * (self.m / max(inner.m, 1)))
        self.tags = inner.tags

    def rounds(self) -> Rounds:
        change = functools.partial(_Renamed, positive=self.positive, negative=self.negative)
        return _OtherKernels(self.inner.rounds(), change)

    def labels(self) -> NDArray[Any]:
        return np.array([-1.0, 1.0])


class Mapped(RowSource):
    """The rows of a source as a map gives them, block by block: `RowSource.mapped`."""

    def __init__(self, inner: RowSource, transform: Callable[[Any], Any], n: int) -> None:
        self.inner, self.transform = inner, transform
        self.m, self.n, self.nbytes, self.tags = inner.m, n, 8 * inner.m * n, inner.tags
        self.mapping = brief(getattr(transform, "__self__", transform))

    def rounds(self) -> Rounds:
        change = functools.partial(_Transformed, transform=self.transform, n=self.n)
        return _OtherKernels(self.inner.rounds(), change)

    def labels(self) -> NDArray[Any]:
        return self.inner.labels()

    def __repr__(self) -> str:
        return f"{self.inner!r}.mapped({self.mapping})"


@dataclass(frozen=True)
class _OfWeights:
    """A kernel that sees the rows that count."""

    kernel: Kernel
    factors: Factors

    def __call__(self, X: Any, y: Any, state: Any, *message: Any) -> tuple[Any, Any]:
        X, y, _ = kept(X, y, self.factors)
        return self.kernel(X, y, state, *message)


def _counted(X: Any, y: Any, state: Any, factors: Factors) -> tuple[Any, NDArray[np.float64]]:
    rows = kept(np.asarray(y), y, factors)[2]
    found = np.zeros(len(y))
    found[slice(None) if rows is None else rows] = 1.0
    return state, found


class Weighed(RowSource):
    """The rows of a source that count, as kernels of models see them.

    Parameters
    ----------
    inner : labels -1 and +1, weights, groups
    factors : of classes and groups
    m : how many rows count, where that is known
    """

    def __init__(self, inner: RowSource, factors: Factors, m: int | None = None) -> None:
        self.inner, self.factors = inner, factors
        self.m, self.n = inner.m if m is None else m, inner.n
        self.nbytes, self.tags, self.mapping = inner.nbytes, inner.tags, inner.mapping

    def rounds(self) -> Rounds:
        return _OtherKernels(
            self.inner.rounds(), functools.partial(_OfWeights, factors=self.factors)
        )

    def labels(self) -> NDArray[Any]:
        return self.inner.labels()

    def __repr__(self) -> str:
        return f"{self.inner!r}, {self.m} of them with weights"


def of_all_groups(source: RowSource) -> RowSource:
    """The rows of all groups."""
    return Weighed(source.inner, Factors()) if isinstance(source, Weighed) else source


def given_rows(source: RowSource) -> int:
    """How many rows were given, those among them that do not count."""
    return source.inner.m if isinstance(source, Weighed) else source.m


def spread(source: RowSource, make: Callable[[], NDArray[np.float64]]) -> NDArray[np.float64]:
    """What `make()` tells of the rows that count, with 0 for the others that were given."""
    if not isinstance(source, Weighed):
        return make()
    found = np.concatenate(told(source.inner.rounds(), _counted, source.factors))
    found[found > 0.0] = make()
    return found


@dataclass(frozen=True)
class _OfColumns:
    """A map of some columns, in an order of their own."""

    transform: Callable[[Any], Any]
    places: tuple[int, ...]

    def __call__(self, X: Any) -> Any:
        return self.transform(X[:, list(self.places)])


def _mapped(transform: Callable[[Any], Any], X: Any) -> Any:
    """What a map makes of rows, dense or CSR.

    Raises
    ------
    DataError
        It fails, or gives no table of real numbers with as many rows.
    """
    try:
        found = transform(X)
    except Exception as error:
        raise DataError(
            f"mapped: expected features of rows of {X.shape[1]} numbers, got an error "
            f"({brief(error)}); give a transformer that is fitted to such rows"
        ) from error
    found = found.to_numpy() if hasattr(found, "to_numpy") else found
    found = sparse.csr_matrix(found) if sparse.issparse(found) else found
    shape, kind = getattr(found, "shape", ()), getattr(getattr(found, "dtype", None), "kind", "")
    if len(shape) != 2 or shape[0] != X.shape[0] or shape[1] == 0 or kind not in tuple("biuf"):
        raise DataError(
            f"mapped: expected features, as real numbers, of {X.shape[0]} rows, got {brief(found)}; give a "
            "table with a row for each"
        )
    return found
