"""Row sources over Dask arrays and data frames.

With a client of `distributed` the blocks stay in the memory of its workers. A pass is one task per block, and
the state of a block is a future: Dask computes the blocks and states of a lost worker again. Without a client
a block is computed in this process each time it is read.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from itertools import accumulate, repeat

import numpy as np
from scipy import sparse

from ucm.data.columns import EVERY, Column, Features, Foreign, RowColumns, chosen, kinds_of, text_names
from ucm.data.linear_map import Matrix
from ucm.data.source import (
    Block,
    BlockSource,
    Function,
    Merge,
    Result,
    States,
    block_rows,
    over_parts,
    reduced,
)
from ucm.data.validation import SAID, check_column, check_table, library_of, no_entry, vector
from ucm.data.weights import tagged
from ucm.errors import DataError, UCMError, brief

_TIMEOUT = 600.0  # seconds without a finished task
_MERGED = 16  # results that one task merges


def is_dask(X: object) -> bool:
    """True if X is a Dask array, data frame or series."""
    return library_of(X) == "dask" and hasattr(X, "to_delayed")


# --- what goes to the workers ------------------------------------------------------------------
def _read_block(
    rows: int | None, X: Foreign, *beside: Column, n: int, columns: list | None, names: Mapping[str, str]
) -> Block:
    """Validate a block of n features, and return its samples with one array of labels, weights and groups.

    `columns` are the features of a frame, None for an array; `names` the other columns by field.
    """
    if columns is not None:
        beside = RowColumns(*beside)._replace(**{field: X[name] for field, name in names.items()})
        X = _table(X[columns])
    else:
        X = sparse.csr_matrix(X) if sparse.issparse(X) else np.asarray(X)
    if X.ndim != 2 or X.shape[1] != n:
        raise DataError(
            f"X: expected blocks of {n} columns, got one of shape {X.shape}; give a collection whose blocks "
            "have the shape that it states"
        )
    if rows is not None:
        check_column("label", (rows,), None, X.shape[0])
    return X, tagged(*map(_entries, RowColumns._fields, beside, repeat(X.shape[0])))


def _entries(name: str, v: Column, m: int) -> Foreign:
    """Validate and return the labels, weights or groups of a block; None stays None."""
    if v is None:
        return None
    if hasattr(v, "isna") and v.isna().any():
        raise no_entry(name)
    return vector(name, np.asarray(v), m)


def _table(X: Foreign) -> np.ndarray:
    """Return a data frame partition as a C-contiguous array, with NaN for missing entries."""
    kinds = set(X.dtypes)
    kind = next(iter(kinds)) if len(kinds) == 1 else None
    plain = isinstance(kind, np.dtype) and kind.kind in "iuf"
    entries = X.to_numpy(dtype=kind) if plain else X.to_numpy(np.float64, na_value=np.nan)
    return np.ascontiguousarray(entries)


def _cut(X: Matrix, y: np.ndarray, block: int | None) -> Iterator[Block]:
    """Yield a block in parts of at most `block` rows, or a default number; no part for an empty block."""
    m = X.shape[0]
    if sparse.issparse(X) and block is None:
        step = max(m, 1)  # a part of a CSR matrix would be a copy
    else:
        step = block or block_rows(X.shape[1] * X.dtype.itemsize)
    for start in range(0, m, step):
        undivided = start == 0 and m <= step
        yield (X, y) if undivided else (X[start : start + step], y[start : start + step])


def _call(*call: object) -> tuple:
    return call


def _run(block: Block, before: tuple[list, list] | None, call: tuple, rows: int | None) -> tuple[list, list]:
    """Call the function of a pass on the parts of a block; return their states and results."""
    (function, message, has_states), (X, y) = call, block
    states = (() if before is None else before[0]) if has_states else None
    return over_parts(_cut(X, y, rows), function, message, states)


def _merged(parts: list[list], merge: Merge) -> list:
    results = [result for part in parts for result in part]
    return [reduced(results, merge)] if results else []


def _rows(X: Matrix, y: np.ndarray) -> int:
    return X.shape[0]


# --- the source --------------------------------------------------------------------------------
class DaskRows(BlockSource):
    """Row source over a Dask array or data frame, whose blocks the workers hold as long as it is kept."""

    def __init__(
        self,
        X: Foreign,
        beside: RowColumns,
        block: int | None = None,
        timeout: float | None = None,
        features: Features = EVERY,
    ) -> None:
        self.client, self.futures = _client(), list[Foreign]()
        self.delayed, self.n, rows, self.features = lazy_blocks(X, beside, features)
        self.part, self.timeout, self.tags = block, timeout or _TIMEOUT, beside.tags
        known = None not in rows
        self.m = sum(r or 0 for r in rows) if known else self.map_reduce(_rows, merge=operator.add) or 0
        self.nbytes = 8 * self.m * self.n

    @property
    def blocks(self) -> int:
        return len(self.delayed)

    def read(self, block: int) -> Iterator[Block]:
        with _dask_errors():
            X, y = self.delayed[block].compute(scheduler="synchronous")
        yield from _cut(X, y, self.part)

    def map_reduce(
        self, function: Function, *message: object, merge: Merge | None = None, states: States | None = None
    ) -> Result:
        client = self.client
        if client is None:
            return super().map_reduce(function, *message, merge=merge, states=states)
        if client.status != "running":
            raise DataError(
                f"Dask: expected a client that is connected, got one that is {client.status}; make a "
                "new client, and bind the samples again"
            )
        self.futures = self.futures or client.compute(self.delayed)
        before = [None if states is None else states.get(k) for k in range(self.blocks)]
        # The message is sent once, not with every task.
        call = client.submit(_call, function, message, states is not None, pure=False)
        calls = [call] * self.blocks
        after = client.map(_run, self.futures, before, calls, rows=self.part, pure=False)
        tasks = client.map(operator.itemgetter(1), after, pure=False)
        while merge is not None and len(tasks) > 1:
            groups = [tasks[i : i + _MERGED] for i in range(0, len(tasks), _MERGED)]
            tasks = client.map(_merged, groups, merge=merge, pure=False)
        results = self._gathered(tasks)
        if states is not None:
            states.update(enumerate(after))
        return reduced((result for part in results for result in part), merge)

    def _gathered(self, tasks: list) -> list:
        """Return the results of tasks; raise `DataError` if a task fails or none finishes in time."""
        wait, every = import_module("distributed").wait, [*self.futures, *tasks]
        finished = sum(future.done() for future in every)
        with _dask_errors():
            while True:
                try:
                    wait(every, timeout=self.timeout)
                except TimeoutError:
                    before, finished = finished, sum(future.done() for future in every)
                else:
                    return self.client.gather(tasks, direct=True)
                if finished == before:
                    raise DataError(
                        f"Dask: no task was finished for {self.timeout:g} s, {finished} of {len(every)} are, "
                        f"on {len(self.client.nthreads())} workers; start workers, or raise "
                        "ucm.open_rows(X, y, timeout=...)"
                    )


_CAUSES = {
    "CancelledError": "blocks were lost with their worker and cannot be computed again; give an array that "
    "says how they are read, not one that was scattered, and keep its client",
    "KilledWorker": "a task ended every worker that it ran on, mostly for memory; take smaller chunks, or "
    "workers with more memory",
    "Exception": "a block cannot be computed; see that the client is connected, that X.compute() works and "
    "that the workers have ucm",
}


@contextmanager
def _dask_errors() -> Iterator[None]:
    """Context that raises the errors of Dask tasks as `DataError`."""
    try:
        yield
    except UCMError:
        raise
    except Exception as error:
        kinds = [kind.__name__ for kind in type(error).__mro__]
        cause = next(_CAUSES[kind] for kind in kinds if kind in _CAUSES)
        raise DataError(f"Dask: {cause} ({type(error).__name__}: {error})") from error


# --- from collections --------------------------------------------------------------------------
def lazy_blocks(
    X: Foreign, beside: RowColumns, choice: Features = EVERY
) -> tuple[list, int, tuple[int | None, ...], list[str] | None]:
    """Return the delayed blocks of a collection, feature count, rows per block and feature names, or None.

    A block holds samples, and one array of labels, weights and groups. Raises as `DaskRows`.
    """
    frame = hasattr(X, "columns") and hasattr(X, "npartitions")
    columns, features = None, None
    rows: tuple[int | None, ...]
    if frame:
        X, beside = _one_frame(X, beside)
        columns, beside = chosen(kinds_of(X.dtypes), beside, choice)
        n, tables = len(columns), X.to_delayed()  # Dask fuses small blocks of files here
        rows = (None,) * len(tables)
        features = text_names(columns)
    else:
        check_table(getattr(X, "shape", ()), X.dtype, f"a {type(X).__name__} of Dask of ")
        refuse_cut_rows(X)
        rows = tuple(None if math.isnan(r) else int(r) for r in X.chunks[0])
        n, tables = int(X.shape[1]), X.to_delayed().ravel().tolist()
    names = beside.column_names()
    if beside.label is None or (not frame and "label" in names):
        raise DataError("y: expected one label per row of X, got none; give the labels")
    cut = [_labels(name, None if name in names else v, rows) for name, v in beside._asdict().items()]
    read = partial(_read_block, n=n, columns=columns, names=names)
    delayed = import_module("dask").delayed(read, pure=False)
    blocks = [delayed(*parts) for parts in zip(rows, tables, *cut, strict=True)]
    return blocks, n, rows, features


def _one_frame(X: Foreign, beside: RowColumns) -> tuple[Foreign, RowColumns]:
    """Return the frame with separate Dask series added as columns, and `beside` with their names."""
    for name, column in beside._asdict().items():
        if not is_dask(column) or hasattr(column, "chunks"):
            continue
        column_name = f"__ucm_{name}__"
        try:
            X = X.assign(**{column_name: column})
        except ValueError as error:
            word, noun = SAID[name]
            raise DataError(
                f"{word}: expected {noun}s in the blocks of X, got a series of another frame "
                f"({brief(str(error))}); add it to the frame as a column, and give the name of the column"
            ) from error
        beside = beside._replace(**{name: column_name})
    return X, beside


def _client() -> Foreign:
    """Return the current Dask client, or None; raise `DataError` for an asynchronous client."""
    try:
        client = import_module("distributed").default_client()
    except (ImportError, ValueError):
        return None
    if client.asynchronous:
        raise DataError(
            "Dask: expected a client that waits, got Client(asynchronous=True); make one without it"
        )
    return client


def refuse_cut_rows(X: Foreign) -> None:
    """Raise `DataError` if a Dask array has more than one chunk along the columns."""
    if X.numblocks[1] != 1:
        raise DataError(
            f"X: expected chunks of whole rows, got {X.numblocks[1]} chunks along the columns; ask for "
            "X.rechunk({1: -1}), which sends data from worker to worker"
        )


def _labels(name: str, y: Column, rows: tuple[int | None, ...]) -> list:
    """Split labels, weights or groups into one part per block of X; None for each block if y is None."""
    if y is None:
        return [None] * len(rows)
    word, noun = SAID[name]
    m = None if None in rows else sum(r or 0 for r in rows)
    if not is_dask(y):
        if m is None:
            raise DataError(
                f"{word}: expected {noun}s of Dask beside blocks of unknown length, got them in memory; give "
                "the name of their column, or X.compute_chunk_sizes() first"
            )
        y = np.asarray(vector(name, y, m))
        return [y[end - (r or 0) : end] for r, end in zip(rows, accumulate(r or 0 for r in rows))]
    chunks = y.chunks[0] if getattr(y, "chunks", ()) and y.ndim == 1 else (math.nan,)
    lengths_known = m is not None and not any(map(math.isnan, chunks))
    # The number of rows of a frame is unknown.
    shape = y.shape if hasattr(y, "chunks") else ("?", *y.shape[1:])
    check_column(name, shape, y.dtype, m if lengths_known else None)
    if lengths_known and chunks != rows:
        y = y.rechunk((rows,))
    parts = np.asarray(y.to_delayed(), dtype=object).ravel().tolist()
    if len(parts) != len(rows):
        raise DataError(
            f"{word}: expected {len(rows)} blocks, as X has, got {len(parts)}, some of unknown length; call "
            "compute_chunk_sizes() on both, or take them from one frame"
        )
    return parts
