"""Row sources over arrays, memory maps and files: NumPy, Parquet and Arrow, CSV, HDF5, Zarr."""

from __future__ import annotations

import mmap
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.columns import SAID, Beside, Unlabelled, chosen, refuse_unnamed
from ucm.data.dask_rows import dask_rows, is_dask
from ucm.data.options import COUNT, SECONDS, optional
from ucm.data.sound import refuse_unsound
from ucm.data.source import BlockSource, RowSource, block_rows
from ucm.data.tags import label_in, refuse_tags, tagged
from ucm.errors import DataError, MissingExtraError, brief

__all__ = ["SUFFIXES", "feature_rows", "is_stored", "row_source"]

_FOLDERS = {".zarr": "zarr"}
SUFFIXES = {
    ".npy": "numpy", ".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow", ".h5": "hdf5",
    ".hdf5": "hdf5", ".csv": "csv", **_FOLDERS,
}  # fmt: skip
_LARGE = 1 << 28  # bytes as double precision: smaller memory maps are arrays like others


def is_stored(X: Any) -> bool:
    """Whether X is read block by block: a source, a path to rows, a large memory map, a table of Arrow, a
    dataset of HDF5 or Zarr, an array or a frame of Dask."""
    if isinstance(X, RowSource):
        return True
    if isinstance(X, str | Path):
        return Path(X).suffix.lower() in SUFFIXES
    if isinstance(X, np.memmap):
        return 8 * X.size > _LARGE
    return type(X).__module__.split(".")[0] in ("dask", "h5py", "zarr", "pyarrow")


def row_source(
    X: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    subgroup: Any = None,
    threads: int | None = None,
    block: int | None = None,
    timeout: float | None = None,
) -> RowSource:
    """Samples that are read block by block, and never whole.

    Parameters
    ----------
    X : array, CSR matrix, np.memmap, h5py.Dataset, zarr.Array, pyarrow.Table, array or frame of Dask, or path
        The samples, one a row; a path ends with .npy, .parquet, .arrow, .feather, .csv, .h5, .hdf5 or .zarr.
        Of Arrow, Parquet, CSV and frames every column but that of the labels is a feature; a file of HDF5
        or a group of Zarr holds them as `X`. What Dask has stays on the workers of the current client;
        without one a block is computed when it is read. CSV has a row a line, and is parsed in every pass.
    y : (m,) labels, or the name of their column
        In memory or not; a path to a .npy file too; of CSV also "first" and "last". Left out, the column
        named label, class, target or y; of HDF5 and Zarr the array `y`.
    sample_weight, subgroup : as y, optional
        What each sample weighs, and its group, as in `ucm.compile`; names of columns, of HDF5 and Zarr of
        arrays beside `X`.
    threads : int, optional
        That read at the same time; four at most by default.
    block : int, optional
        Rows of a block; by default some 2 MB of them, of float64 arrays and CSR matrices in memory 8.
    timeout : float, optional
        Seconds that workers of Dask may take for a round, or for the next block that they read; 600 by
        default.

    Raises
    ------
    DataError
        No table of real numbers, no such file or column, lengths that differ.
    MissingExtraError
        The library for the format is not installed.

    Examples
    --------
    >>> import numpy as np, pathlib, tempfile, ucm
    >>> X, y = ucm.datasets.load("wine")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "wine.npy"
    ...     np.save(file, X)
    ...     rows = ucm.row_source(file, y)
    ...     solution = ucm.solve(ucm.models.nu_svm(0.3), rows)
    >>> solution.status
    'optimal'
    """
    for name, number in (("threads", threads), ("block", block)):
        optional(COUNT).check(
            "row_source", name, number, "leave it out for what fits the processor"
        )
    optional(SECONDS).check("row_source", "timeout", timeout, "leave it out for ten minutes")
    if isinstance(X, RowSource):
        if y is not None:
            raise DataError(
                "y: expected none beside a row source, which has its own, got one; leave it out"
            )
        refuse_tags((sample_weight, subgroup))
        return X
    beside = Beside(y, sample_weight, subgroup)
    if is_dask(X):
        return dask_rows(X, beside, block, timeout)
    found = _opened(X, beside, block)
    found.threads = threads
    return found


def feature_rows(X: Any, names: list[str] | None) -> RowSource:
    """Rows without labels: of a table with columns those named, or all."""
    if isinstance(X, RowSource):
        return X
    return _opened(X, Beside(Unlabelled(names)), None)


def _opened(X: Any, y: Beside, block: int | None) -> BlockSource:
    if isinstance(X, str | Path):
        path = Path(X)
        kind = SUFFIXES.get(path.suffix.lower())
        if kind is None:
            raise DataError(
                f"X: expected a path that ends with {', '.join(SUFFIXES)}, got {str(path)!r}; read other "
                "files first, as with ucm.datasets"
            )
        if not path.exists():
            raise DataError(f"{path}: no such file; expected samples there")
        return _of_file(path, kind, y, block)
    library = type(X).__module__.split(".")[0]
    if library == "pyarrow":
        if not any(hasattr(X, name) for name in ("schema", "to_table")):
            raise DataError(
                f"X: expected a table of Arrow, got {type(X).__name__}; give pyarrow.table with a name for "
                "each column"
            )
        return _ArrowRows(_whole_table(X), y, block)
    if library in ("h5py", "zarr") and not hasattr(X, "shape"):
        return _of_group(X, y, block)
    return _of_arrays(X, y, block)


def _of_file(path: Path, kind: str, y: Beside, block: int | None) -> BlockSource:
    kept = _Kept(path)  # as it is before anything is read
    found = _of_format(path, kind, y, block)
    if isinstance(found, _Rows):
        found.kept = (kept, *(other for other in found.kept if not other.path.samefile(path)))
    return found


def _of_format(path: Path, kind: str, y: Beside, block: int | None) -> BlockSource:
    if kind == "numpy":
        try:
            X = np.load(path, mmap_mode="r")
        except (ValueError, OSError) as error:
            raise DataError(f"{path}: no array that can be mapped ({error}); save one") from error
        return _of_arrays(X, y, block)
    if kind == "parquet":
        return _ParquetRows(path, y, block)
    if kind == "csv":
        return _CsvRows(path, y, block)
    if kind == "arrow":
        arrow = _library("pyarrow", "feather")
        table = _read(path, lambda: arrow.feather.read_table(path, memory_map=True))
        return _ArrowRows(table, y, block)
    if kind == "hdf5":
        h5py = _library("h5py")
        return _of_group(_read(path, lambda: h5py.File(path, "r")), y, block)
    zarr = _library("zarr")
    opened = _read(path, lambda: zarr.open(str(path), mode="r"))
    return _of_arrays(opened, y, block) if hasattr(opened, "shape") else _of_group(opened, y, block)


def _read(path: Path, opened: Callable[[], Any]) -> Any:
    """What opens a file; what the library of its format raises is a `DataError`."""
    try:
        return opened()
    except Exception as error:
        raise DataError(
            f"{path}: expected a file of the format {path.suffix}, got an error ({error}); write it anew"
        ) from error


def _library(name: str, part: str | None = None) -> Any:
    try:
        library = import_module(name)
        if part is not None:
            import_module(f"{name}.{part}")
    except ImportError as error:
        raise MissingExtraError(
            f"row_source: expected {name}, which is not installed; pip install 'ucm[rows]'"
        ) from error
    return library


def _of_group(group: Any, y: Beside, block: int | None) -> BlockSource:
    names = {"label": "y"} if y.label is None else {}
    names |= {k: v for k, v in y._asdict().items() if k != "label" and isinstance(v, str)}
    missing = [name for name in ("X", *names.values()) if name not in group]
    if missing:
        raise DataError(
            f"row_source: expected the arrays {' and '.join(('X', *names.values()))}, got "
            f"{', '.join(group) or 'none'}; give the arrays themselves"
        )
    return _of_arrays(group["X"], y._replace(**{k: group[v] for k, v in names.items()}), block)


def _of_arrays(X: Any, beside: Beside, block: int | None) -> BlockSource:
    if beside.label is None:
        raise DataError("y: expected one label per row of X, got none; give the labels")
    beside = Beside(*map(_read_labels, Beside._fields, beside))
    if sparse.issparse(X):
        refuse_unsound(X, "X")
        X = sparse.csr_matrix(X)
    elif not hasattr(X, "dtype") or not hasattr(X, "shape"):
        try:
            X = np.asarray(X)
        except ValueError as error:
            raise DataError(
                f"X: expected a table (samples, features), got {brief(X)} ({error}); give one row of numbers "
                "per sample, all of one length"
            ) from error
    if len(X.shape) != 2 or X.shape[1] == 0:
        raise DataError(
            f"X: expected a table (samples, features), got shape {tuple(X.shape)}; give one row per sample"
        )
    if np.dtype(X.dtype).kind not in "biuf":
        raise DataError(
            f"X: expected a table of real numbers, got the dtype {X.dtype}; encode text and dates first"
        )
    return _ArrayRows(X, beside.columns(X.shape[0]), block)


def _read_labels(name: str, given: Any) -> Any:
    """What stands beside rows, of a .npy file where a path is given."""
    if not isinstance(given, str | Path):
        return given
    word, what = SAID[name]
    wanted = f"{word}: expected {what}s or a .npy file of them, got {str(given)!r}"
    if not Path(given).exists():
        raise DataError(f"{wanted}; save them with numpy.save")
    try:
        return np.load(given, mmap_mode="r")
    except (ValueError, OSError) as error:
        raise DataError(f"{wanted} ({error}); save them as .npy") from error


@dataclass(frozen=True)
class _Kept:
    """A file, or a folder of files, that has to stay as it is."""

    path: Path
    signature: tuple[int, int, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "signature", _signature(self.path))

    def check(self) -> None:
        if _signature(self.path) != self.signature:
            self.refuse("one that was changed since it was opened")

    def refuse(self, got: str) -> NoReturn:
        raise DataError(
            f"{self.path}: expected a file that stays as it is, got {got}; finish writing it, and solve again"
        )


def _signature(path: Path) -> tuple[int, int, int]:
    """Files, bytes, and the sum of the times of their last changes."""
    try:
        parts = [p.stat() for p in path.rglob("*")] if path.is_dir() else [path.stat()]
    except OSError as error:
        raise DataError(f"{path}: cannot be read any more ({error}); put it back") from error
    sizes, times = [part.st_size for part in parts], [part.st_mtime_ns for part in parts]
    return len(parts), sum(sizes), sum(times)


def _file_of(X: Any) -> tuple[_Kept, ...]:
    """The file of a dataset of HDF5, or the folder of an array of Zarr, where it is known."""
    library = type(X).__module__.split(".")[0]
    if library == "h5py":
        return (_Kept(Path(X.file.filename)),) if Path(X.file.filename).is_file() else ()
    root = getattr(getattr(X, "store", None), "root", None) if library == "zarr" else None
    return (_Kept(Path(root)),) if root is not None and Path(root).is_dir() else ()


class _Rows(BlockSource):
    """Rows of files that are looked at before and after every round."""

    kept: tuple[_Kept, ...] = ()

    def check(self) -> None:
        for file in self.kept:
            file.check()


class _ArrayRows(_Rows):
    """What gives rows by slices: arrays, CSR matrices, memory maps, datasets of HDF5 and Zarr."""

    def __init__(self, X: Any, beside: Beside, block: int | None) -> None:
        self.X, self.beside = _part(X), Beside(*map(_part, beside))
        parts = self.X, *self.beside
        mapped = [part.file for part in parts if isinstance(part, _MappedFile)]
        files = [file for part in (X, *beside) for file in _file_of(part)]
        self.kept, self.tags = (*mapped, *files), beside.tags
        self.m, self.n = X.shape
        per_row = X.shape[1] * X.dtype.itemsize
        if sparse.issparse(X):
            per_row = (X.data.itemsize + 4) * X.nnz / max(self.m, 1)
        self.nbytes = int(12 * X.nnz if sparse.issparse(X) else 8 * self.m * self.n)
        dense = isinstance(self.X, np.ndarray) and X.dtype == np.float64  # others are converted
        there = dense or sparse.issparse(self.X)
        self.step = block or block_rows(per_row / _IN_MEMORY if there else per_row)

    @property
    def blocks(self) -> int:
        return -(-self.m // self.step)

    def read(self, block: int) -> Iterator[tuple[Any, Any]]:
        start, end = block * self.step, min((block + 1) * self.step, self.m)
        yield self.X[start:end], self.beside.at(start, end)

    def labels(self) -> NDArray[Any]:
        y = self.beside.label
        if isinstance(y, np.ndarray):
            return np.unique(y)
        parts = [np.unique(np.asarray(y[i : i + _MANY])) for i in range(0, self.m, _MANY)]
        return np.unique(np.concatenate(parts)) if parts else np.empty(0)


_MANY = 1 << 20  # labels at a time
_TEXT = 1 << 23  # bytes at a time
_IN_MEMORY = (
    4  # times as large are blocks that take no room: threads wait for each other in between
)


def _part(X: Any) -> Any:
    """A memory map as the file that it is of: where that shrinks, reading it through the map ends the
    process."""
    whole = isinstance(X, np.memmap) and isinstance(X.base, mmap.mmap) and X.mode in ("r", "r+")
    ordered = whole and (X.flags.c_contiguous or X.flags.f_contiguous)
    return _MappedFile(X) if ordered and X.filename else X


class _MappedFile:
    """The file of a memory map, read by slices of rows."""

    def __init__(self, X: np.memmap) -> None:
        self.path, self.offset = Path(X.filename), X.offset  # type: ignore[arg-type]
        self.shape, self.dtype = X.shape, X.dtype
        self.by_rows = X.flags.c_contiguous
        X.flush()
        self.file = _Kept(self.path)

    def _read(self, first: int, count: int) -> NDArray[Any]:
        """Entries in the order of the file."""
        at = self.offset + first * self.dtype.itemsize
        found = np.fromfile(self.path, self.dtype, count, offset=at)
        if found.size < count:
            self.file.refuse(f"one that ends after {_signature(self.path)[1]} bytes")
        return found

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        start, end, _ = rows.indices(self.shape[0])
        count, rest = end - start, self.shape[1:]
        if self.by_rows:
            width = int(np.prod(rest, dtype=np.int64))
            return self._read(start * width, count * width).reshape(count, *rest)
        columns = [self._read(j * self.shape[0] + start, count) for j in range(rest[0])]
        return np.column_stack(columns)


# --- columns -----------------------------------------------------------------------------------
def _whole_table(X: Any) -> Any:
    if hasattr(X, "to_table"):  # a dataset: its files one by one would be better said by their path
        return X.to_table()
    if type(X).__name__ == "RecordBatch":
        return _library("pyarrow").Table.from_batches([X])
    return X


def _kinds(schema: Any) -> dict[str, str | None]:
    """The columns, with their type where they hold no real numbers."""
    types = _library("pyarrow").types
    real = (types.is_integer, types.is_floating, types.is_boolean)
    kinds = {name: schema.field(name).type for name in schema.names}
    return {
        name: None if any(test(kind) for test in real) else str(kind)
        for name, kind in kinds.items()
    }


def _dense(table: Any, features: list[str]) -> NDArray[Any]:
    """The features of a part of a table; what is missing is NaN."""
    columns = [table.column(name) for name in features]
    found = [np.asarray(c.to_numpy(zero_copy_only=False)) for c in columns]
    return np.column_stack(
        [np.asarray(v, np.float64 if v.dtype.kind in "bO" else v.dtype) for v in found]
    )


class _Columns(_Rows):
    """What Arrow tables and Parquet files share.

    Attributes
    ----------
    columns : those of the features
    names : the columns of labels, weights and groups
    beside : these where they are none of the columns
    """

    columns: list[str]
    names: Beside
    beside: Beside
    step: int

    def _begin(self, schema: Any, m: int, y: Beside, block: int | None) -> None:
        twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
        if twice:
            raise DataError(
                f"X: expected columns with names of their own, got two named {brief(twice[0])}; rename one"
            )
        self.columns, self.names = chosen(_kinds(schema), y)
        self.features, self.tags = self.columns, y.tags
        self.m, self.n = m, len(self.columns)
        self.nbytes = 8 * self.m * self.n
        self.step = block or block_rows(8 * self.n)
        self.beside = y.without(self.names).columns(m)

    def _at(self, part: Any, start: int) -> NDArray[Any]:
        """Labels, weights and groups of a part of the rows."""
        given = [
            v if name is None else self._of_column(part, field, name, start)
            for field, name, v in zip(
                Beside._fields,
                self.names,
                self.beside.parts(start, start + part.num_rows),
                strict=True,
            )
        ]
        return tagged(*given)

    def _of_column(self, part: Any, field: str, name: str, start: int) -> NDArray[Any]:
        found = part.column(name)
        if found.null_count:
            word, what = SAID[field]
            raise DataError(
                f"{word}: expected a {what} for every sample, got none in column {name!r} of some from row "
                f"{start} on; leave these samples out"
            )
        if type(found.type).__name__ == "DictionaryType":
            found = found.cast(found.type.value_type)
        return np.asarray(found.to_numpy(zero_copy_only=False))


class _ArrowRows(_Columns):
    """A table of Arrow in memory, or mapped."""

    def __init__(self, table: Any, y: Any, block: int | None) -> None:
        self.table = table
        self._begin(table.schema, table.num_rows, y, block)

    @property
    def blocks(self) -> int:
        return -(-self.m // self.step)

    def read(self, block: int) -> Iterator[tuple[Any, Any]]:
        start = block * self.step
        part = self.table.slice(start, self.step)
        yield _dense(part, self.columns), self._at(part, start)

    def labels(self) -> NDArray[Any]:
        return np.unique(label_in(self._at(self.table, 0)))


class _Parts(_Columns):
    """A file whose blocks are found first, and read one by one.

    Attributes
    ----------
    starts : the first row of each block, and their number
    """

    path: Path
    starts: list[int]

    @abstractmethod
    def _parts(self, block: int, columns: list[str]) -> Iterator[Any]:
        """Tables of these columns; raises `DataError` where they cannot be read."""

    @property
    def blocks(self) -> int:
        return len(self.starts) - 1

    def read(self, block: int) -> Iterator[tuple[Any, Any]]:
        start = self.starts[block]
        for part in self._parts(
            block, [*self.columns, *(name for name in self.names if name is not None)]
        ):
            yield _dense(part, self.columns), self._at(part, start)
            start += part.num_rows

    def labels(self) -> NDArray[Any]:
        name = self.names.label
        if name is None:
            return np.unique(self.beside.label)
        parts = [
            np.unique(self._of_column(part, "label", name, self.starts[block]))
            for block in range(self.blocks)
            for part in self._parts(block, [name])
        ]
        return np.unique(np.concatenate(parts)) if parts else np.empty(0)


class _ParquetRows(_Parts):
    """A file of Parquet: a block is a group of rows."""

    def __init__(self, path: Path, y: Any, block: int | None) -> None:
        self.path, parquet = path, _library("pyarrow", "parquet").parquet
        try:
            file = parquet.ParquetFile(path)
        except (OSError, ValueError) as error:
            raise DataError(
                f"{path}: cannot be read as Parquet ({error}); write it anew"
            ) from error
        sizes = [file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)]
        self.starts = np.concatenate([[0], np.cumsum(sizes)]).astype(int).tolist()
        self.parquet = parquet
        self._begin(file.schema_arrow, self.starts[-1], y, block)

    def _parts(self, block: int, columns: list[str]) -> Iterator[Any]:
        pyarrow = _library("pyarrow")
        try:
            with self.parquet.ParquetFile(self.path) as file:  # readers are not shared by threads
                batches = file.iter_batches(self.step, [block], columns, use_threads=False)
                for batch in batches:
                    yield pyarrow.Table.from_batches([batch])
        except (OSError, pyarrow.ArrowException) as error:
            raise DataError(
                f"{self.path}: expected a file that stays as it is, got an error in row group {block} "
                f"({error}); finish writing it, and solve again"
            ) from error


class _CsvRows(_Parts):
    """A CSV file, a row a line: where its blocks begin is found once, and each is parsed when it is read."""

    def __init__(self, path: Path, y: Beside, block: int | None) -> None:
        self.path, self.csv = path, _library("pyarrow", "csv").csv
        with _read(path, lambda: path.open("rb")) as stream:
            first = stream.readline()
            second = stream.readline()
        try:
            text = first.decode("utf-8-sig").strip()
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: expected UTF-8 text, got {error}; write it anew") from error
        self.mark = next((mark for mark in ",;\t" if mark in text), " ")
        cells = [cell.strip().strip('"') for cell in text.split(self.mark)]
        named = any(cells) and not any(map(_is_number, cells))
        if named:
            refuse_unnamed(path, cells)
        self.all = cells if named else [f"column {j + 1}" for j in range(len(cells))]
        begin = len(first) if named else len(first) - len(first.lstrip(b"\xef\xbb\xbf"))
        self.types: dict[str, Any] = {}
        self.offsets, self.starts = _lines(path, begin, block or block_rows(len(second or first)))
        if self.starts[-1] == 0:
            raise DataError(f"{path}: expected rows of numbers, got none; write some")
        types = _library("pyarrow").types
        schema = next(self._parts(0, self.all)).schema
        self.types = {
            field.name: _library("pyarrow").float64()
            if types.is_integer(field.type) or types.is_floating(field.type)
            else field.type
            for field in schema
        }
        if isinstance(y.label, str) and y.label in {"first", "last"} - set(self.all):
            y = y._replace(label=self.all[0 if y.label == "first" else -1])
        self._begin(schema, self.starts[-1], y, block)
        self.features = self.columns if named else None

    def _parts(self, block: int, columns: list[str]) -> Iterator[Any]:
        pyarrow, csv = _library("pyarrow"), self.csv
        begin, end = self.offsets[block : block + 2]
        first, rows = self.starts[block], self.starts[block + 1] - self.starts[block]
        try:
            with self.path.open("rb") as stream:
                stream.seek(begin)
                found = csv.read_csv(
                    pyarrow.BufferReader(stream.read(end - begin)),
                    csv.ReadOptions(use_threads=False, column_names=self.all),
                    csv.ParseOptions(delimiter=self.mark, ignore_empty_lines=False),
                    csv.ConvertOptions(column_types=self.types, include_columns=columns),
                )
        except (OSError, pyarrow.ArrowException) as error:
            raise DataError(
                f"{self.path}: expected {len(self.all)} columns in every row, of one type each, got an error "
                f"in one of {rows} rows from row {first + 1} on ({error}); mend it, or write the file anew"
            ) from error
        if found.num_rows != rows:
            raise DataError(
                f"{self.path}: expected a row a line, got {found.num_rows} in {rows} lines from row "
                f"{first + 1} on; write it without line breaks in cells"
            )
        yield found


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _lines(path: Path, begin: int, step: int) -> tuple[list[int], list[int]]:
    """Where every `step` lines of a file begin, from a place on, and how many lines are before them; both
    with their end, but for blank lines there."""
    with path.open("rb") as stream:
        end = stream.seek(0, os.SEEK_END)
        while end > begin:  # line breaks at the end
            stream.seek(max(begin, end - 64))
            tail = stream.read(end - max(begin, end - 64))
            kept = len(tail.rstrip(b"\r\n"))
            end -= len(tail) - kept
            if kept:
                break
        offsets, lines, at = [begin], 0, begin
        stream.seek(begin)
        while at < end:
            chunk = np.frombuffer(stream.read(min(_TEXT, end - at)), dtype=np.uint8)
            breaks = np.flatnonzero(chunk == ord("\n"))
            offsets += (at + 1 + breaks[step - 1 - lines % step :: step]).tolist()
            lines, at = lines + breaks.size, at + chunk.size
    lines += end > begin
    starts = [*range(0, lines, step), lines]
    return [*offsets[: len(starts) - 1], end], starts
