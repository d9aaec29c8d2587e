"""Row sources over the arrays and frames of Dask.

With a client of `distributed` a worker keeps its blocks, and what kernels leave there, behind one future, its
holder. A round is one task a worker, which is told which round it is: a holder that was made anew, or a
task that runs twice, is noticed. Without a client a block is computed here each time it is read.
"""

from __future__ import annotations

import asyncio
import functools
import math
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as pause_for
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.columns import SAID, Beside, chosen, refuse_kind, refuse_lengths, vector
from ucm.data.source import (
    BlockSource,
    Kernel,
    Rounds,
    RowSource,
    StateLostError,
    block_rows,
)
from ucm.data.tags import label_in, tagged
from ucm.errors import DataError, UCMError

__all__ = ["dask_rows", "frame_kinds", "is_dask"]

_TIMEOUT = 600.0  # seconds of a round, and of the wait for the next block to be computed
_LOOK = 0.5  # seconds between two looks whether all workers are there
_GONE = 10.0  # seconds that workers which had the blocks may all be away
_LOSSES = 5  # of workers, in one round
_PART = 4  # times the rows of a block in memory: fewer summaries come back
_FEW = 127  # labels that an int8 tells apart
_FULL = 0.8  # of the memory of the workers
_NONE = Beside(None)

Merge = Callable[[Any, Any], Any]


def is_dask(X: Any) -> bool:
    """Whether X is an array, a frame or a series of Dask."""
    return type(X).__module__.split(".")[0] == "dask" and hasattr(X, "to_delayed")


# --- what goes to the workers ------------------------------------------------------------------
@dataclass(frozen=True)
class _Block:
    """How a block is read.

    Attributes
    ----------
    n : its features
    rows : that it has; None where that is not known
    columns : of a frame; None of an array
    names : the columns of labels, weights and groups, where they are some
    classes : of those that came as numbers of their classes what these mean
    """

    n: int
    rows: int | None
    columns: tuple[Any, ...] | None = None
    names: Beside = _NONE
    classes: Beside = _NONE

    def __call__(self, X: Any, *beside: Any) -> tuple[Any, NDArray[Any]]:
        """Samples, and what stands beside them, as kernels take them."""
        if self.columns is not None:
            beside = tuple(
                v if name is None else X[name] for v, name in zip(beside, self.names, strict=True)
            )
            X = _table(X[list(self.columns)])
        elif sparse.issparse(X):
            X = sparse.csr_matrix(X)
        else:
            X = np.asarray(X)
        if X.ndim != 2 or X.shape[1] != self.n:
            raise DataError(
                f"X: expected blocks of {self.n} columns, got one of shape {X.shape}; what makes the blocks "
                "does not do what it says"
            )
        m = X.shape[0]
        if self.rows is not None:
            refuse_lengths(m, self.rows)
        if beside[0] is None:
            return X, np.broadcast_to(0.0, m)
        parts = zip(Beside._fields, beside, self.classes, strict=True)
        return X, tagged(*(_entries(name, v, classes, m) for name, v, classes in parts))


def _entries(name: str, v: Any, classes: Any, m: int) -> Any:
    """Labels, weights or groups of a block; None as it is."""
    if v is None:
        return None
    if hasattr(v, "isna") and v.isna().any():
        word, what = SAID[name]
        raise DataError(
            f"{word}: expected a {what} for every sample, got none for some; leave these samples out"
        )
    return vector(name, np.asarray(v) if classes is None else classes[v], m)


def _table(X: Any) -> NDArray[Any]:
    """A part of a frame; what is missing is NaN."""
    kinds = set(X.dtypes)
    kind = next(iter(kinds)) if len(kinds) == 1 else None
    plain = isinstance(kind, np.dtype) and kind.kind in "iuf"
    found = X.to_numpy(dtype=kind) if plain else X.to_numpy(np.float64, na_value=np.nan)
    return np.ascontiguousarray(found)


class _Holder:
    """Blocks of one worker, in parts, and the states of their parts before the last round and after it."""

    def __init__(self, indices: Sequence[int], block: int | None, *pairs: Any) -> None:
        self.indices = indices
        self.parts = [list(_cut(X, y, block)) for X, y in pairs]
        self.states: dict[int, list[list[Any]]] = {0: [[None] * len(p) for p in self.parts]}

    def run(
        self, kernel: Kernel, message: tuple[Any, ...], number: int, threads: int
    ) -> list[list[Any]] | None:
        """The summaries of every block; None where the states of that round are not here."""
        before = self.states.get(number)
        if before is None:
            return None

        def work(at: tuple[int, int]) -> tuple[Any, Any]:
            k, j = at
            return kernel(*self.parts[k][j], before[k][j], *message)

        places = [(k, j) for k, parts in enumerate(self.parts) for j in range(len(parts))]
        if threads > 1 and len(places) > 1:
            with ThreadPoolExecutor(threads) as pool:
                found = list(pool.map(work, places))
        else:
            found = list(map(work, places))
        after: list[list[Any]] = [[] for _ in self.parts]
        summaries: list[list[Any]] = [[] for _ in self.parts]
        for (k, _), (state, summary) in zip(places, found, strict=True):
            after[k].append(state)
            summaries[k].append(summary)
        self.states = {number: before, number + 1: after}
        return summaries


def _cut(X: Any, y: Any, block: int | None) -> Iterator[tuple[Any, Any]]:
    """A block in parts; none of an empty one."""
    m = X.shape[0]
    if sparse.issparse(X) and block is None:
        step = max(m, 1)  # a part of it would be a copy
    else:
        step = block or _PART * block_rows(X.shape[1] * X.dtype.itemsize)
    for start in range(0, m, step):
        whole = start == 0 and m <= step
        yield (X, y) if whole else (X[start : start + step], y[start : start + step])


def _hold(indices: Sequence[int], block: int | None, *pairs: Any) -> _Holder:
    return _Holder(indices, block, *pairs)


_Told = tuple[bool, list[tuple[int, Any]]]
"""Whether there are states, and by the number of a block the summaries of its parts, or those of it and the
blocks after it as one."""


def _ask(
    holder: _Holder, kernel: Kernel, message: tuple[Any, ...], number: int, merge: Merge | None
) -> _Told | None:
    """The task of a round."""
    threads = import_module("distributed").get_worker().state.nthreads
    found = holder.run(kernel, message, number, threads)
    if found is None:
        return None
    states = any(s is not None for own in holder.states[number + 1] for s in own)
    told: list[tuple[int, Any]] = list(zip(holder.indices, found, strict=True))
    if merge is None:
        return states, told
    runs: list[tuple[int, list[Any]]] = []
    end = None
    for k, summaries in told:
        if k == end:
            runs[-1][1].extend(summaries)
        else:
            runs.append((k, list(summaries)))
        end = k + 1
    return states, [(k, functools.reduce(merge, own)) for k, own in runs if own]


def _rows(X: Any, y: Any, state: Any) -> tuple[Any, int]:
    return state, X.shape[0]


def _classes(X: Any, y: Any, state: Any) -> tuple[Any, NDArray[Any]]:
    return state, np.unique(label_in(y))


def _added(a: int, b: int) -> int:
    return a + b


def _union(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    return np.union1d(a, b)


# --- the sources -------------------------------------------------------------------------------
class _OnWorkers(RowSource):
    """Blocks that the workers of a client hold, in their memory, as long as this source is kept."""

    def __init__(self, client: Any, blocks: list[Any], about: _About, options: _Options) -> None:
        self.client, self.options = client, options
        self.n, self.features, self.nbytes = about.n, about.features, 0
        self.blocks, self.resident, self.tags = blocks, about.resident, about.tags
        self.futures: list[Any] | None = None
        self.computed = False
        self._refuse_size(about)
        self.m = _known(about.rows, lambda: self.rounds().merged(_rows, _added))
        self.nbytes = 8 * self.m * self.n

    def _refuse_size(self, about: _About) -> None:
        if about.itemsize is None or any(r is None for r in about.rows):
            return
        bytes_of = [r * about.n * about.itemsize for r in about.rows if r is not None]
        limits = [w["memory_limit"] or math.inf for w in self._info().values()]
        if not limits:
            return
        if max(bytes_of, default=0) > _FULL * max(limits):
            raise DataError(
                "X: expected blocks that fit into the memory of a worker, got one of "
                f"{max(bytes_of) / 1e9:.3g} GB for {max(limits) / 1e9:.3g} GB; take smaller chunks, "
                "X.rechunk({0: 'auto', 1: -1})"
            )
        if sum(bytes_of) > _FULL * sum(limits):
            raise DataError(
                f"X: expected samples that fit into the memory of the workers, which keep them, got "
                f"{sum(bytes_of) / 1e9:.3g} GB for {sum(limits) / 1e9:.3g} GB; add workers, take float32, or "
                "close the client and let blocks be read here one by one"
            )

    def _info(self) -> Any:
        return self.on_cluster(lambda: self.client.scheduler_info(n_workers=-1)["workers"])

    def rounds(self) -> Rounds:
        return _WorkerRounds(self)

    def labels(self) -> NDArray[Any]:
        found = self.rounds().merged(_classes, _union)
        return np.empty(0) if found is None else found

    def on_cluster(self, ask: Callable[[], Any]) -> Any:
        """What the scheduler answers.

        Raises
        ------
        DataError
            The client is closed, or the scheduler gone.
        """
        self._refuse_closed()
        try:
            return ask()
        except (OSError, RuntimeError, TimeoutError) as error:
            raise DataError(
                f"Dask: the scheduler does not answer ({type(error).__name__}: {error}); make a new client, "
                "and bind the samples again"
            ) from error

    def _refuse_closed(self) -> None:
        if self.client.status != "running":
            raise DataError(
                f"Dask: expected a client that is connected, got one that is {self.client.status}; make a "
                "new client, and bind the samples again"
            )

    def workers(self) -> dict[str, int]:
        """The addresses of the workers that are there, and their threads."""
        return self.on_cluster(self.client.nthreads)

    def _begin(self) -> list[Any]:
        """The futures of the blocks. Neighbours go to one worker, but for samples that lie on workers."""
        threads = self.workers()
        groups: list[tuple[str | None, list[Any]]] = [(None, self.blocks)]
        if threads and not self.resident:
            shares = np.cumsum([0, *threads.values()]) / sum(threads.values())
            ends = np.rint(shares * len(self.blocks)).astype(int)
            groups = [
                (address, self.blocks[a:b])
                for address, a, b in zip(threads, ends, ends[1:], strict=False)
                if b > a
            ]
        futures: list[Any] = []
        for address, blocks in groups:
            at = {} if address is None else {"workers": [address], "allow_other_workers": True}
            futures += self.on_cluster(functools.partial(self.client.compute, blocks, **at))
        return futures

    def settled(self) -> dict[str, list[int]]:
        """Which blocks every worker has, once all are computed.

        Raises
        ------
        DataError
            A block cannot be computed, or not again.
        """
        if self.futures is None:
            self.futures = self._begin()
        futures = self.futures
        clock, before = time.monotonic(), -1
        pause = 0.001
        while True:
            self._refuse_closed()
            for future in futures:
                if future.status == "error":
                    self.refuse(future.exception(timeout=self.options.timeout))
                if future.status == "cancelled":
                    raise DataError(
                        "X: blocks were lost with their worker and cannot be computed again; give an array "
                        "that says how they are read, not one that was scattered, and keep its client"
                    )
            done = sum(future.status == "finished" for future in futures)
            if done == len(futures):
                where = self.on_cluster(lambda: self.client.who_has(futures))
                first: list[Any] = [next(iter(where.get(f.key) or ()), None) for f in futures]
                if None not in first:
                    break
            if done != before:
                clock, before = time.monotonic(), done
            waited = time.monotonic() - clock
            if self.computed and waited > _GONE and not self.workers():
                raise DataError(
                    f"Dask: expected workers that have the blocks, got none for {waited:.0f} s; "
                    "start workers, and ask again"
                )
            if waited > self.options.timeout:
                raise DataError(
                    f"Dask: no block was computed for {self.options.timeout:g} s, {done} of {len(futures)} "
                    f"are, on {len(self.workers())} workers; start workers, or raise "
                    "ucm.row_source(X, y, timeout=...)"
                )
            time.sleep(pause)
            pause = min(1.5 * pause, 0.2)
        self.computed = True
        places: dict[str, list[int]] = {}
        for k, address in enumerate(first):
            places.setdefault(address, []).append(k)
        return places

    def refuse(self, error: BaseException) -> Any:
        """Raises what came from a worker."""
        if isinstance(error, UCMError):
            raise error
        if type(error).__name__ == "KilledWorker":
            raise DataError(
                f"Dask: a task ended every worker that it ran on, mostly for memory ({error}); take smaller "
                "chunks, or workers with more memory"
            ) from error
        raise DataError(
            f"Dask: a block cannot be computed ({type(error).__name__}: {error}); see that X.compute() works "
            "and that the workers have ucm"
        ) from error


class _WorkerRounds(Rounds):
    """One task a worker and round, strictly on the worker that has the states."""

    def __init__(self, source: _OnWorkers) -> None:
        self.source = source
        self.holders: dict[str, Any] = {}
        self.number, self.states = 0, False

    def run(self, kernel: Kernel, *message: Any) -> list[Any]:
        told = self._round(kernel, message, None)
        return [summary for _, summaries in told for summary in summaries]

    def merged(self, kernel: Kernel, merge: Merge, *message: Any) -> Any:
        told = self._round(kernel, message, merge)
        return functools.reduce(merge, [summary for _, summary in told]) if told else None

    def recover(self) -> None:
        self.holders, self.number, self.states = {}, 0, False

    def _round(
        self, kernel: Kernel, message: tuple[Any, ...], merge: Merge | None
    ) -> list[tuple[int, Any]]:
        """What all workers tell, in the order of the blocks. While there are no states a lost worker is
        nothing but a reason to ask again."""
        for _ in range(_LOSSES):
            try:
                told = self._told(kernel, message, merge)
            except StateLostError:
                if self.states:
                    raise
                self.recover()
                continue
            self.number += 1
            self.states = any(states for states, _ in told)
            return sorted((one for _, own in told for one in own), key=lambda one: one[0])
        raise DataError(
            f"Dask: {_LOSSES} times in a row a worker was lost in the same round; look at its memory, and "
            "take smaller chunks"
        )

    def _told(self, kernel: Kernel, message: tuple[Any, ...], merge: Merge | None) -> list[_Told]:
        source, client = self.source, self.source.client
        if not self.holders:
            places = source.settled()
            futures: Any = source.futures
            self.holders = {
                address: source.on_cluster(
                    functools.partial(
                        client.submit, _hold, own, source.options.block, *[futures[k] for k in own],
                        key=f"ucm-hold-{uuid.uuid4().hex}", workers=[address],
                    )
                )
                for address, own in places.items()
            }  # fmt: skip
        calls = [
            source.on_cluster(
                functools.partial(
                    client.submit, _ask, holder, kernel, message, self.number, merge,
                    key=f"ucm-round-{uuid.uuid4().hex}", workers=[address],
                )
            )
            for address, holder in self.holders.items()
        ]  # fmt: skip
        found = self._brought(calls)
        if any(told is None for told in found):
            raise StateLostError(
                "Dask: what the rows were left with was lost with a worker; solve again"
            )
        return found

    def _brought(self, calls: list[Any]) -> list[Any]:
        """The results of tasks, straight from the workers."""
        source, client = self.source, self.source.client
        wait = import_module("distributed").wait

        async def gather() -> Any:
            await wait(calls)
            return await client.gather(calls, direct=True, asynchronous=True)

        waiting = asyncio.run_coroutine_threadsafe(gather(), client.loop.asyncio_loop)
        end = time.monotonic() + source.options.timeout
        try:
            while True:
                pause_for([waiting], timeout=_LOOK)
                error = waiting.exception() if waiting.done() else None
                if waiting.done() and error is None:
                    return waiting.result()
                missing = set(self.holders) - set(source.workers())
                if missing:
                    raise StateLostError(
                        f"Dask: the worker {min(missing)} was lost, and with it its states; "
                        "solve again"
                    )
                if error is not None:
                    source.refuse(error)
                if time.monotonic() > end:
                    raise DataError(
                        f"Dask: a round was not done after {source.options.timeout:g} s; see what workers "
                        "do, or raise ucm.row_source(X, y, timeout=...)"
                    )
        finally:
            waiting.cancel()


class _Here(BlockSource):
    """Blocks that are computed in this process each time they are read."""

    def __init__(self, blocks: list[Any], about: _About) -> None:
        self.delayed, self.n, self.features = blocks, about.n, about.features
        self.tags = about.tags
        self.m = _known(about.rows, lambda: self.rounds().merged(_rows, _added))
        self.nbytes = 8 * self.m * self.n

    @property
    def blocks(self) -> int:
        return len(self.delayed)

    def read(self, block: int) -> Iterator[tuple[Any, Any]]:
        try:
            X, y = self.delayed[block].compute(scheduler="synchronous")
        except UCMError:
            raise
        except Exception as error:
            raise DataError(
                f"Dask: block {block} cannot be computed ({type(error).__name__}: {error}); see that "
                "X.compute() works, with the client that has the samples where there is one"
            ) from error
        yield from _cut(X, y, None)

    def check(self) -> None:
        pass  # what Dask reads may change unseen

    def labels(self) -> NDArray[Any]:
        found = self.rounds().merged(_classes, _union)
        return np.empty(0) if found is None else found


def _known(rows: Sequence[int | None], count: Callable[[], int | None]) -> int:
    """The samples, counted where that is not known."""
    known = [r for r in rows if r is not None]
    return sum(known) if len(known) == len(rows) else count() or 0


# --- from collections --------------------------------------------------------------------------
@dataclass(frozen=True)
class _Options:
    timeout: float = _TIMEOUT
    block: int | None = None


@dataclass(frozen=True)
class _About:
    """What is known of samples before they are computed.

    Attributes
    ----------
    rows : of the blocks; None where not known
    itemsize : bytes of an entry; None of sparse ones and of frames
    resident : whether they lie on workers
    tags : whether they have weights and groups
    """

    n: int
    rows: tuple[int | None, ...]
    features: list[str] | None = None
    itemsize: int | None = None
    resident: bool = False
    tags: tuple[str, ...] = ()


def dask_rows(
    X: Any, beside: Beside, block: int | None = None, timeout: float | None = None
) -> RowSource:
    """The rows of an array or a frame of Dask, on the workers of the current client, or else here.

    Raises
    ------
    DataError
        Chunks along columns, labels that do not fit, no real numbers.
    """
    frame = hasattr(X, "columns") and hasattr(X, "npartitions")
    columns, named = None, _NONE
    if frame:
        columns, named = chosen(frame_kinds(X), beside)
        rows: tuple[int | None, ...] = (None,) * X.npartitions
        n, tables = len(columns), X.to_delayed()
        names = list(columns) if all(isinstance(c, str) for c in columns) else None
        about = _About(n, rows, names, tags=beside.tags)
    else:
        _refuse_array(X)
        rows = tuple(None if math.isnan(r) else int(r) for r in X.chunks[0])
        n, tables = X.shape[1], X.to_delayed().ravel().tolist()
        dense = isinstance(X._meta, np.ndarray)
        itemsize = X.dtype.itemsize if dense else None
        about = _About(int(n), rows, None, itemsize, tags=beside.tags)
    own = beside.without(named)
    if named.label is None and (own.label is None or isinstance(own.label, str)):
        raise DataError("y: expected one label per row of X, got none; give the labels")
    cut = [_labels(X, name, v, rows) for name, v in own._asdict().items()]
    classes = Beside(*(each[1] for each in cut))
    dask: Any = import_module("dask")
    blocks = [
        dask.delayed(
            _Block(about.n, r, None if columns is None else tuple(columns), named, classes),
            pure=False,
        )(table, *parts)
        for r, table, *parts in zip(rows, tables, *(each[0] for each in cut), strict=True)
    ]
    client = _client()
    if client is None:
        return _Here(blocks, about)
    resident = bool(import_module("distributed").futures_of(X))
    about = replace(about, resident=resident)
    return _OnWorkers(client, blocks, about, _Options(timeout or _TIMEOUT, block))


def _client() -> Any:
    """The current client; None without one."""
    try:
        client = import_module("distributed").default_client()
    except (ImportError, ValueError):
        return None
    if client.asynchronous:
        raise DataError(
            "Dask: expected a client that waits, got Client(asynchronous=True); make one without it"
        )
    return client


def _refuse_array(X: Any) -> None:
    if getattr(X, "ndim", None) != 2 or not X.shape[1] >= 1:
        raise DataError(
            f"X: expected a table (samples, features), got a {type(X).__name__} of Dask of shape "
            f"{tuple(getattr(X, 'shape', ()))}; give one row per sample"
        )
    if np.dtype(X.dtype).kind not in "biuf":
        raise DataError(
            f"X: expected a table of real numbers, got the dtype {X.dtype}; encode text and dates first"
        )
    if X.numblocks[1] != 1:
        raise DataError(
            f"X: expected chunks of whole rows, got {X.numblocks[1]} chunks along the columns; ask for "
            "X.rechunk({1: -1}), which sends data from worker to worker"
        )


def frame_kinds(X: Any) -> dict[Any, str | None]:
    """The columns of a frame, with their type where they hold no real numbers."""
    return {
        name: None if getattr(kind, "kind", "O") in "biuf" else str(kind)
        for name, kind in X.dtypes.items()
    }


def _labels(X: Any, name: str, y: Any, rows: tuple[int | None, ...]) -> tuple[list[Any], Any]:
    """The labels, weights or groups of every block, and what they mean where they are numbers of classes."""
    if y is None:
        return [None] * len(rows), None
    word, what = SAID[name]
    if is_dask(y):
        refuse_kind(name, y.dtype, sum(r or 0 for r in rows))
        return _lazy_labels(X, y, rows, name), None
    if any(r is None for r in rows):
        raise DataError(
            f"{word}: expected {what}s of Dask beside blocks of unknown length, got them in memory; give the "
            "name of their column, or X.compute_chunk_sizes() first"
        )
    ends = np.cumsum([0, *(r or 0 for r in rows)])
    y = np.asarray(vector(name, y, int(ends[-1])))
    classes, codes = np.unique(y, return_inverse=True)
    few = classes.size <= _FEW
    sent = codes.astype(np.int8) if few else y
    cut = [sent[a:b] for a, b in pairwise(ends)]
    return cut, classes if few else None


def _lazy_labels(X: Any, y: Any, rows: tuple[int | None, ...], name: str) -> list[Any]:
    """Blocks of labels, weights or groups beside those of the samples."""
    word, what = SAID[name]
    if y.ndim != 1:
        raise DataError(
            f"{word}: expected one {what} per sample, got shape {tuple(y.shape)}; give one dimension"
        )
    if hasattr(y, "chunks"):
        own = tuple(None if math.isnan(r) else int(r) for r in y.chunks[0])
        if None not in own and None not in rows and own != rows:
            refuse_lengths(sum(r or 0 for r in rows), sum(r or 0 for r in own), name)
            y = y.rechunk((rows,))
    elif getattr(X, "known_divisions", False) and getattr(y, "known_divisions", False):
        y = y if X.divisions == y.divisions else y.repartition(divisions=X.divisions)
    parts = np.asarray(y.to_delayed(), dtype=object).ravel().tolist()
    if len(parts) != len(rows):
        raise DataError(
            f"{word}: expected {len(rows)} blocks, as X has, got {len(parts)}, some of unknown length; "
            "call compute_chunk_sizes() on both, or take them from one frame"
        )
    return parts
