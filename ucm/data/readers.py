"""`open_rows`: row sources over samples in files, tables and Dask collections."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ucm.data.array_rows import FileRows, array_in_file, of_arrays, of_group, reading, signature_of
from ucm.data.columns import EVERY, Features, Foreign, RowColumns, is_frame, of_frame, text_names
from ucm.data.dask_rows import DaskRows, is_dask
from ucm.data.options import COUNT, SECONDS, optional
from ucm.data.source import RowSource
from ucm.data.table_rows import table_in_file, table_in_memory
from ucm.data.validation import library_of
from ucm.errors import DataError

SUFFIXES = {
    ".npy": "numpy", ".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow", ".h5": "hdf5",
    ".hdf5": "hdf5", ".csv": "csv", ".zarr": "zarr",
}  # fmt: skip
_TABLES = ("parquet", "csv", "arrow")


def open_rows(
    X: object,
    y: object = None,
    *,
    sample_weight: object = None,
    subgroup: object = None,
    columns: Iterable[object] | None = None,
    drop: Iterable[object] | None = None,
    threads: int | None = None,
    block: int | None = None,
    timeout: float | None = None,
) -> RowSource:
    """Open samples in files or arrays as a row source, which is read block by block.

    Parameters
    ----------
    X : array, CSR matrix, data frame, np.memmap, h5py.Dataset, zarr.Array, pyarrow.Table, Dask, or path
        The samples in rows. A data frame is one of pandas or Polars. A path ends with .npy, .parquet, .arrow,
        .feather, .csv, .h5, .hdf5 or .zarr; any other folder holds files of Parquet, perhaps in partitions as
        Hive writes them, whose keys are columns. Every column of a table is a feature except labels, weights
        and groups; a further column with such a name, or the name of an index, is refused until it is named
        or dropped. A file of HDF5 or a group of Zarr holds the samples as `X`. The blocks of Dask stay on the
        workers of the current client; without one a block is computed when it is read. CSV is parsed in every
        pass.
    y : (m,) labels, or the name of their column
        In memory or not; a path to a .npy file too; of CSV also "first" and "last". Left out, the column
        named label, class, target or y; of HDF5 and Zarr the array `y`.
    sample_weight, subgroup : as y, optional
        The weight and the group of each sample, as in `ucm.compile`, or names of columns; of HDF5 and Zarr,
        names of arrays in the group of `X`.
    columns : sequence of names, optional
        The names of the features of a table.
    drop : sequence of names, optional
        Instead, the columns that are no features, such as an identifier.
    threads : int, optional
        The number of threads that read; at most four by default.
    block : int, optional
        Rows of a block; by default about 8 MB of rows.
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
    ...     rows = ucm.open_rows(file, y)
    ...     solution = ucm.solve(ucm.models.nu_svm(0.3), rows)
    >>> solution.status
    'optimal'
    """
    for name, number in (("threads", threads), ("block", block)):
        optional(COUNT).check("open_rows", name, number, "leave it out for what fits the processor")
    optional(SECONDS).check("open_rows", "timeout", timeout, "leave it out for ten minutes")
    if isinstance(X, RowSource):
        own = (y, sample_weight, subgroup, columns, drop)
        if any(value is not None for value in own):
            raise DataError(
                "y, sample_weight, subgroup, columns, drop: expected none beside a row source, which has its "
                "own, got some; give them where the source is made, ucm.open_rows(X, y, ...)"
            )
        return X
    beside, features = RowColumns(y, sample_weight, subgroup), Features.of(columns, drop)
    if is_dask(X):
        return DaskRows(X, beside, block, timeout, features)
    source = _opened(X, beside, block, features)
    source.threads = threads
    return source


def has_columns(X: object) -> bool:
    """True if X is a pyarrow object, a data frame, or a path to a Parquet, Arrow or CSV table."""
    if isinstance(X, str | Path):
        return SUFFIXES.get(Path(X).suffix.lower(), "parquet") in _TABLES
    return library_of(X) == "pyarrow" or is_frame(X)


def feature_rows(X: object, names: list[str] | None) -> RowSource:
    """Return a row source with label 0 for every row; of a table, with the columns `names` or all."""
    if isinstance(X, RowSource):
        return X
    by_name = names is not None and has_columns(X)
    return _opened(X, RowColumns(0.0), None, Features(tuple(names or ())) if by_name else EVERY)


def _opened(X: Foreign, y: RowColumns, block: int | None, features: Features = EVERY) -> FileRows:
    module = library_of(X)
    kind = _kind(Path(X)) if isinstance(X, str | Path) else None
    if features != EVERY and not has_columns(X):
        raise DataError(
            "open_rows: columns and drop are of tables with names, got an array; give X[:, indices]"
        )
    if kind is not None:
        path, in_file = Path(X), table_in_file if kind in _TABLES else array_in_file
        signature = signature_of(path)  # before anything is read
        with reading(path):
            source = in_file(path, kind, y, block, features)
        source.path = path
        source.signatures = {**source.signatures, path.resolve(): signature}
        return source
    if module == "pyarrow":
        return table_in_memory(X, y, block, features)
    if is_frame(X):
        table, y, names = of_frame(X, y, features)
        source = of_arrays(table, y, block)
        source.features = text_names(names)
        return source
    if module in ("h5py", "zarr") and not hasattr(X, "shape"):
        return of_group(X, y, block)
    return of_arrays(X, y, block)


def _kind(path: Path) -> str:
    kind = SUFFIXES.get(path.suffix.lower())
    if kind is None and path.is_dir():
        kind = "parquet"
    if kind is None:
        raise DataError(
            f"X: expected a path that ends with {', '.join(SUFFIXES)}, or a folder of files of Parquet, "
            f"got {str(path)!r}; read other files first, as with ucm.datasets"
        )
    if not path.exists():
        raise DataError(f"{path}: no such file; expected samples there")
    return kind
