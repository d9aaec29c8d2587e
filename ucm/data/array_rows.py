"""Row sources over arrays, CSR matrices and memory maps, and over NumPy, HDF5 and Zarr files."""

from __future__ import annotations

import math
import mmap
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

import numpy as np
from scipy import sparse

from ucm.data.columns import Features, Foreign, RowColumns
from ucm.data.source import Block, BlockSource, block_rows
from ucm.data.validation import SAID, check_table, library_of, refuse_unsound
from ucm.data.weights import tagged
from ucm.errors import DataError, UCMError, brief, missing_extra

_MANY = 1 << 20  # labels at a time


@contextmanager
def reading(path: Path | None) -> Iterator[None]:
    """Raise every error of a file-format library in the context as `DataError`."""
    try:
        yield
    except UCMError:
        raise
    except Exception as error:
        of_format = f" of the format {path.suffix}" if path is not None and path.suffix else ""
        raise DataError(
            f"{path or 'X'}: expected a table{of_format} that stays as it is, got an error "
            f"({type(error).__name__}: {error}); mend it, or write it anew"
        ) from error


def library(name: str, part: str | None = None) -> Foreign:
    """Import and return an optional module, after importing its submodule `part`, if given."""
    try:
        module = import_module(name)
        if part is not None:
            import_module(f"{name}.{part}")
    except ImportError as error:
        raise missing_extra(f"open_rows: expected {name}, which is not installed", "rows") from error
    return module


Signature = tuple[int, int, int]


def signature_of(path: Path) -> Signature:
    """Return the signature of a file or folder: number of paths, total bytes, sum of modification times."""
    try:
        parts = [p.stat() for p in path.rglob("*")] if path.is_dir() else [path.stat()]
    except OSError as error:
        raise DataError(f"{path}: cannot be read any more ({error}); put it back") from error
    sizes, times = [part.st_size for part in parts], [part.st_mtime_ns for part in parts]
    return len(parts), sum(sizes), sum(times)


def _signatures(X: Foreign) -> dict[Path, Signature]:
    """Return {path: signature} of the file or folder that backs an array; {} for an array in memory."""
    owner, path = library_of(X), None
    if isinstance(X, np.memmap):
        X.flush()  # a later write of the map would change the time of the file
        path = X.filename
    elif owner in ("h5py", "zarr"):
        path = X.file.filename if owner == "h5py" else getattr(X.store, "root", None)
    if path is None or not Path(path).exists():
        return {}
    return {Path(path).resolve(): signature_of(Path(path))}


def _by_reads(X: Foreign) -> Foreign:
    """Return a `_MappedFile` for a contiguous memory map that is no view, any other array unchanged.

    Access to a memory map of a truncated file kills the process, and its pages count as process memory.
    """
    maps_file = isinstance(X, np.memmap) and isinstance(X.base, mmap.mmap) and X.mode in ("r", "r+")
    return _MappedFile(X) if maps_file and X.filename and X.flags.forc else X


class _MappedFile:
    """A reader of row slices from the file of a memory map."""

    def __init__(self, X: np.memmap) -> None:
        self.path, self.offset, self.by_rows = Path(str(X.filename)), X.offset, X.flags.c_contiguous
        self.shape, self.dtype = X.shape, X.dtype

    def _read(self, first: int, count: int) -> np.ndarray:
        """Return `count` consecutive entries of the file, starting at entry `first`."""
        entries = np.fromfile(self.path, self.dtype, count, offset=self.offset + first * self.dtype.itemsize)
        if entries.size < count:
            raise DataError(
                f"{self.path}: expected a file that stays as it is, got one that ends {count - entries.size} "
                "entries earlier; finish writing it, and solve again"
            )
        return entries

    def __getitem__(self, rows: slice) -> np.ndarray:
        start, end, _ = rows.indices(self.shape[0])
        if self.by_rows:
            width = math.prod(self.shape[1:])
            return self._read(start * width, (end - start) * width).reshape(-1, *self.shape[1:])
        starts = (j * self.shape[0] + start for j in range(self.shape[1]))
        return np.column_stack([self._read(first, end - start) for first in starts])


class FileRows(BlockSource):
    """Base class of row sources that compare the `signatures` of their files before and after every pass."""

    signatures: Mapping[Path, Signature] = MappingProxyType({})
    path: Path | None = None

    def read(self, block: int) -> Iterator[Block]:
        with reading(self.path):
            yield from self.parts(block)

    def labels(self) -> np.ndarray:
        with reading(self.path):
            parts = [np.unique(part) for part in self.label_parts()]
            return np.unique(np.concatenate(parts)) if parts else np.empty(0)

    @abstractmethod
    def parts(self, block: int) -> Iterator[Block]:
        """Yield (samples, labels) of the parts of a block; may raise errors of the file-format library."""

    @abstractmethod
    def label_parts(self) -> Iterator[Foreign]:
        """Yield the labels in parts, perhaps without repetitions; may raise as `parts`."""

    def check(self) -> None:
        for path, signature in self.signatures.items():
            if signature_of(path) != signature:
                raise DataError(
                    f"{path}: expected a file that stays as it is, got one that was changed since it was "
                    "opened; finish writing it, and solve again"
                )


class ArrayRows(FileRows):
    """Row source over an array that supports row slices: NumPy, CSR, memory map, HDF5 or Zarr."""

    def __init__(self, X: Foreign, beside: RowColumns, block: int | None) -> None:
        self.signatures = {k: v for part in (X, *beside) for k, v in _signatures(part).items()}
        self.X, self.beside = _by_reads(X), RowColumns(*map(_by_reads, beside))
        self.tags = beside.tags
        self.m, self.n = X.shape
        if sparse.issparse(X):
            self.nbytes, per_row = 12 * X.nnz, (X.data.itemsize + 4) * X.nnz / max(self.m, 1)
        else:
            self.nbytes, per_row = 8 * self.m * self.n, self.n * X.dtype.itemsize
        self.step = block or block_rows(per_row)

    @property
    def blocks(self) -> int:
        return -(-self.m // self.step)

    def parts(self, block: int) -> Iterator[Block]:
        start, end = block * self.step, min((block + 1) * self.step, self.m)
        X = self.X[start:end]
        yield X if sparse.issparse(X) else np.asarray(X), tagged(*self.beside.parts(start, end))

    def label_parts(self) -> Iterator[Foreign]:
        return (np.asarray(self.beside.label[i : i + _MANY]) for i in range(0, self.m, _MANY))


# --- what is opened ----------------------------------------------------------------------------
def of_group(group: Foreign, y: RowColumns, block: int | None) -> ArrayRows:
    """Open the array `X` of a group of HDF5 or Zarr; labels, weights and groups are names of arrays there."""
    names = {"label": "y"} if y.label is None else {}
    names |= {k: v for k, v in y.column_names().items() if k != "label"}
    missing = [name for name in ("X", *names.values()) if name not in group]
    if missing:
        raise DataError(
            f"open_rows: expected the arrays {' and '.join(('X', *names.values()))}, got "
            f"{', '.join(group) or 'none'}; give the arrays themselves"
        )
    return of_arrays(group["X"], y._replace(**{k: group[v] for k, v in names.items()}), block)


def of_arrays(X: Foreign, beside: RowColumns, block: int | None) -> ArrayRows:
    """Open an array, CSR matrix or nested lists, with labels, weights and groups of as many rows."""
    if beside.label is None:
        raise DataError("y: expected one label per row of X, got none; give the labels")
    beside = RowColumns(*map(_read_labels, RowColumns._fields, beside))
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
    check_table(X.shape, X.dtype)
    return ArrayRows(X, beside.columns(X.shape[0]), block)


def _read_labels(name: str, values: object) -> object:
    """Return labels, weights or groups unchanged, or for a path the array in the .npy file."""
    if not isinstance(values, str | Path):
        return values
    try:
        return np.load(values, mmap_mode="r")
    except (ValueError, OSError) as error:
        word, noun = SAID[name]
        raise DataError(
            f"{word}: expected {noun}s or a .npy file of them, got {str(values)!r} ({error}); save them with "
            "numpy.save"
        ) from error


def array_in_file(path: Path, kind: str, y: RowColumns, block: int | None, _: Features) -> ArrayRows:
    """Open a NumPy, HDF5 or Zarr file, which has no named features, as a row source."""
    if kind == "numpy":
        return of_arrays(np.load(path, mmap_mode="r"), y, block)
    stored = library("h5py" if kind == "hdf5" else kind)
    container = (stored.File if kind == "hdf5" else stored.open)(str(path), mode="r")
    return of_arrays(container, y, block) if hasattr(container, "shape") else of_group(container, y, block)
