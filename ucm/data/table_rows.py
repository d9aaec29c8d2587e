"""Row sources over Parquet, Arrow and CSV tables with named columns, by `pyarrow.dataset`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ucm.data.array_rows import FileRows, library
from ucm.data.columns import Features, Foreign, RowColumns, chosen, kinds_of, refuse_unnamed, table_of_columns
from ucm.data.files import delimiter_of, number_in
from ucm.data.source import Block, block_rows
from ucm.data.validation import no_entry
from ucm.data.weights import tagged
from ucm.errors import DataError, brief

_DIGITS = re.compile("([0-9]+)")


class TableRows(FileRows):
    """Row source over a `pyarrow.dataset`, with one block per fragment: a row group, file or slice.

    `fragments` are pairs (fragment, number of rows), None for a table in memory.
    """

    def __init__(
        self,
        dataset: Foreign,
        fragments: list[tuple[Foreign, int]] | None,
        y: RowColumns,
        block: int | None,
        features: Features,
    ) -> None:
        schema = dataset.schema
        twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
        if twice:
            raise DataError(
                f"X: expected columns with names of their own, got two named {brief(twice[0])}; rename one"
            )
        self.columns, y = chosen(kinds_of(schema), y, features)
        self.names = y.column_names()
        self.schema, self.n = schema, len(self.columns)
        self.features, self.tags = self.columns, y.tags
        self.step = block or block_rows(8 * self.n)
        self.fragments = _slices(dataset, self.step) if fragments is None else fragments
        self.starts = np.cumsum([0, *(rows for _, rows in self.fragments)]).tolist()
        self.m = self.starts[-1]
        self.nbytes = 8 * self.m * self.n
        self.beside = y.columns(self.m)

    @property
    def blocks(self) -> int:
        return len(self.fragments)

    def parts(self, block: int) -> Iterator[Block]:
        start = self.starts[block]
        for batch in self._batches(block, [*self.columns, *self.names.values()]):
            stored = {field: _column(batch.column(name), field, name) for field, name in self.names.items()}
            beside = self.beside.parts(start, start + batch.num_rows)._replace(**stored)
            columns = (batch.column(name).to_numpy(zero_copy_only=False) for name in self.columns)
            yield table_of_columns(columns), tagged(*beside)
            start += batch.num_rows

    def _batches(self, block: int, columns: list[str]) -> Iterator[Foreign]:
        options = {"schema": self.schema, "batch_readahead": 2, "use_threads": False}
        batches = self.fragments[block][0].to_batches(columns=columns, batch_size=self.step, **options)
        return (batch for batch in batches if batch.num_rows)

    def label_parts(self) -> Iterator[Foreign]:
        name = self.names.get("label")
        if name is None:
            yield self.beside.label
            return
        for block in range(self.blocks):
            for batch in self._batches(block, [name]):
                yield _column(batch.column(name).unique(), "label", name)


def _column(found: Foreign, field: str, name: str) -> np.ndarray:
    """Return a column of labels, weights or groups as an array; raise `DataError` for missing entries."""
    if found.null_count:
        raise no_entry(field, f" in column {name!r}")
    if library("pyarrow").types.is_primitive(found.type):
        return np.asarray(found.to_numpy(zero_copy_only=False))
    found = found.dictionary_encode()  # one Python object for each label, not for each row
    return np.asarray(found.dictionary.to_numpy(zero_copy_only=False))[found.indices.to_numpy()]


# --- datasets ----------------------------------------------------------------------------------
def table_in_memory(X: Foreign, y: RowColumns, block: int | None, features: Features) -> TableRows:
    """Open a pyarrow table, record batch or dataset as a row source."""
    arrow = library("pyarrow", "dataset")
    if isinstance(X, arrow.dataset.Dataset):
        return TableRows(X, _fragments(X), y, block, features)
    if not isinstance(X, arrow.Table | arrow.RecordBatch):
        raise DataError(
            f"X: expected a table of Arrow, got {type(X).__name__}; give pyarrow.table with a name for each "
            "column"
        )
    table = arrow.Table.from_batches([X]) if isinstance(X, arrow.RecordBatch) else X
    return TableRows(table, None, y, block, features)


def table_in_file(path: Path, kind: str, y: RowColumns, block: int | None, features: Features) -> TableRows:
    """Open a Parquet, Arrow or CSV file, or a folder of Parquet files, as a row source."""
    if kind == "arrow":
        feather = library("pyarrow", "feather").feather
        table = feather.read_table(path, memory_map=True)
        return TableRows(table, None, y, block, features)
    if kind == "parquet":
        dataset = _parquet(path, list(y.column_names().values()))
        return TableRows(dataset, _fragments(dataset), y, block, features)
    mark, has_names = _header(path)
    dataset = _csv(path, mark, has_names)
    names = dataset.schema.names
    if y.column_names().get("label") in {"first", "last"} - set(names):
        y = y._replace(label=names[0 if y.label == "first" else -1])
    source = TableRows(dataset, _fragments(dataset), y, block, features)
    source.features = source.columns if has_names else None
    return source


def _slices(table: Foreign, step: int) -> list[tuple[Foreign, int]]:
    dataset = library("pyarrow", "dataset").dataset
    parts = [table.slice(start, step) for start in range(0, table.num_rows, step)]
    return [(next(dataset.dataset(part).get_fragments()), part.num_rows) for part in parts]


def _fragments(dataset: Foreign) -> list[tuple[Foreign, int]]:
    fragments = []
    for fragment in dataset.get_fragments():
        if hasattr(fragment, "split_by_row_group"):
            groups = fragment.split_by_row_group()
            fragments += [(group, sum(r.num_rows for r in group.row_groups)) for group in groups]
        else:
            fragments.append((fragment, fragment.count_rows()))
    return fragments


def _parquet(path: Path, names: list[str]) -> Foreign:
    """Return the dataset of Parquet, part 2 before part 10, with the named strings as dictionaries."""
    dataset = library("pyarrow", "dataset").dataset
    form = dataset.ParquetFileFormat(
        read_options={"dictionary_columns": names},
        use_buffered_stream=True,  # takes a third less memory
        pre_buffer=False,
    )
    if not path.is_dir():
        return dataset.dataset(path, format=form)
    parts = [p.relative_to(path) for p in path.rglob("*.parquet")]
    parts = [p for p in parts if not any(part[0] in "._" for part in p.parts)]  # files of the writers
    if not parts:
        raise DataError(f"{path}: expected files that end with .parquet in the folder, got none")
    numbers = {p: [int(s) if s.isdigit() else s for s in _DIGITS.split(str(p))] for p in parts}
    files = [str(path / p) for p in sorted(parts, key=numbers.__getitem__)]
    folder = dataset.dataset(files, format=form, partitioning="hive", partition_base_dir=str(path))
    schemas = [fragment.physical_schema for fragment in folder.get_fragments()]
    for file, schema in zip(files, schemas, strict=True):
        if schema.names != schemas[0].names or schema.types != schemas[0].types:
            raise DataError(
                f"{file}: expected the columns of {Path(files[0]).name}, of the same types, got others; "
                "write the files anew with one schema"
            )
    return folder


def _header(path: Path) -> tuple[str, bool]:
    """Return the delimiter of a CSV file, and whether its first line holds column names."""
    with path.open("rb") as stream:
        first = stream.readline()
    try:
        text = first.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: expected UTF-8 text, got {error}; write it anew") from error
    mark = delimiter_of(text)
    cells = [cell.strip().strip('"') for cell in text.split(mark)]
    has_names = any(cells) and all(math.isnan(number_in(cell)) for cell in cells)
    if has_names:
        refuse_unnamed(path, cells)
    return mark, has_names


def _csv(path: Path, mark: str, named: bool) -> Foreign:
    """Return the dataset of a CSV file, with integer and empty columns as float64."""
    arrow = library("pyarrow", "dataset")
    csv = library("pyarrow", "csv").csv
    form = arrow.dataset.CsvFileFormat(
        parse_options=csv.ParseOptions(delimiter=mark),
        read_options=csv.ReadOptions(autogenerate_column_names=not named),
    )
    schema = arrow.dataset.dataset(path, format=form).schema
    types = arrow.types
    wide = (types.is_integer, types.is_null)
    fields = [f.with_type(arrow.float64()) if any(test(f.type) for test in wide) else f for f in schema]
    return arrow.dataset.dataset(path, schema=arrow.schema(fields), format=form)
