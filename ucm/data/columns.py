"""The columns of a table: choice of features, labels, weights and groups."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ucm.data.validation import SAID, library_of, no_entry, vector
from ucm.errors import DataError, brief

Foreign = Any
"""An object of pyarrow, h5py, Zarr, Dask, pandas or Polars, whose types are not imported."""
Column = Any
"""The labels, weights or groups of rows: an array, the name of a column, one label, or None."""
LABELS = ("label", "class", "target", "y")
_NO_FEATURES = (
    "id", "index", "__index_level_0__", "unnamed: 0", "weight", "weights", "sample_weight", "group",
    "subgroup", "label", "class", "target",
)  # fmt: skip


def text_names(columns: Iterable[object] | None) -> list[str] | None:
    """Return the names of columns; None without columns, and unless all are strings."""
    names = [] if columns is None else list(columns)  # an index of pandas has no truth value
    return [str(name) for name in names] if names and all(isinstance(name, str) for name in names) else None


class Features(NamedTuple):
    """The choice of the feature columns of a table."""

    columns: tuple | None = None  # names in order; None for all columns without labels, weights or groups
    drop: tuple = ()  # names of columns that are no features

    @classmethod
    def of(cls, columns: Iterable[object] | None, drop: Iterable[object] | None) -> Features:
        """Return the choice from the options of `open_rows`; raise `DataError` unless one is a sequence."""
        for word, names in (("columns", columns), ("drop", drop)):
            if names is not None and (isinstance(names, str | bytes) or not isinstance(names, Iterable)):
                raise DataError(
                    f"open_rows: {word}: expected names of columns in a sequence, got {brief(names)}; write "
                    f'{word}=["..."]'
                )
        if columns is not None and drop is not None:
            raise DataError(
                "open_rows: expected columns or drop, got both; name the features, or the other columns"
            )
        return cls(None if columns is None else tuple(columns), tuple(drop or ()))


EVERY = Features()


class RowColumns(NamedTuple):
    """The labels, weights and groups of rows: each an array, a column name, one label, or None."""

    label: Column
    weight: Column = None
    group: Column = None

    @property
    def tags(self) -> tuple[str, ...]:
        """The names "weight" and "group" of the fields that are given."""
        return tuple(name for name in ("weight", "group") if getattr(self, name) is not None)

    def column_names(self) -> dict[str, str]:
        """Return {field: column name} for the fields that name a column of a table."""
        return {field: v for field, v in self._asdict().items() if isinstance(v, str)}

    def columns(self, m: int) -> RowColumns:
        """Return the fields as validated vectors of m entries, and None for a field that is a column name."""
        given = self._asdict() | dict.fromkeys(self.column_names())
        if isinstance(self.label, float):
            given["label"] = np.broadcast_to(self.label, m)
        return RowColumns(*(v if v is None else vector(field, v, m) for field, v in given.items()))

    def parts(self, start: int, end: int) -> RowColumns:
        """Return the entries of each field in the half-open row range [start, end)."""
        return RowColumns(*(None if v is None else np.asarray(v[start:end]) for v in self))


def is_frame(X: object) -> bool:
    """True for a data frame in memory that narwhals knows, such as one of pandas or Polars."""
    import narwhals as nw

    return nw.dependencies.is_into_dataframe(X)


def kinds_of(schema: Foreign) -> dict[Hashable, str | None]:
    """Return {column: None if it holds real numbers, else its type} for a schema or Dask's `dtypes`."""
    import narwhals as nw

    if is_frame(schema):
        kinds = nw.from_native(schema, eager_only=True).schema
    elif library_of(schema) == "pyarrow":
        kinds = nw.Schema.from_arrow(schema)
    else:
        kinds = nw.Schema.from_pandas_like(dict(schema))
    return {
        name: None if kind.is_integer() or kind.is_float() or kind == nw.Boolean else str(kind)
        for name, kind in kinds.items()
    }


def table_of_columns(columns: Iterable[Foreign]) -> np.ndarray:
    """Return columns of real numbers as one array, with NaN for missing entries."""
    arrays = [np.asarray(v) for v in columns]
    return np.column_stack([np.asarray(v, np.float64 if v.dtype.kind in "bO" else v.dtype) for v in arrays])


def of_frame(X: Foreign, beside: RowColumns, choice: Features) -> tuple[np.ndarray, RowColumns, list]:
    """Return the features of a frame as an array, the labels, weights and groups, and the feature names."""
    import narwhals as nw

    frame = nw.from_native(X, eager_only=True)
    names, beside = chosen(kinds_of(X), beside, choice)
    stored = {field: frame.get_column(name) for field, name in beside.column_names().items()}
    for field, column in stored.items():
        if column.null_count():
            raise no_entry(field, f" in column {column.name!r}")
    beside = beside._replace(**{field: column.to_numpy() for field, column in stored.items()})
    return table_of_columns(frame.get_column(name).to_numpy() for name in names), beside, names


def chosen(
    kinds: Mapping[Hashable, str | None], beside: RowColumns, choice: Features = EVERY
) -> tuple[list, RowColumns]:
    """Return the feature names of a table, and `beside` with the label column found if its label is None."""
    names = list(kinds)
    if beside.label is None:
        candidates = [n for n in names if str(n).lower() in LABELS and n not in choice.drop]
        if len(candidates) != 1:
            raise DataError(
                f"y: expected one column named {', '.join(LABELS)}, got {len(candidates)} of them among "
                f"{listed(names)}; give the name of the column"
            )
        beside = beside._replace(label=candidates[0])
    named_columns = beside.column_names()
    required = [(SAID[field][0], name) for field, name in named_columns.items()]
    for word, name in (*required, *(("X", name) for name in (*(choice.columns or ()), *choice.drop))):
        if name not in names:
            raise DataError(f"{word}: expected the name of a column, got {name!r}; there are {listed(names)}")
    features = list(choice.columns or ())
    held = [name for name in features if name in named_columns.values()]
    if held:
        raise DataError(
            f"X: expected features, got {held[0]!r} in columns, which holds labels, weights or groups; leave "
            "it out there"
        )
    if choice.columns is None:
        features = [n for n in names if n not in named_columns.values() and n not in choice.drop]
        doubtful = [name for name in features if str(name).lower() in _NO_FEATURES]
        if doubtful and not isinstance(beside.label, float):
            raise DataError(
                f"X: expected features, got a column named {doubtful[0]!r}; leave it out, as with "
                f"ucm.open_rows(X, y, drop={doubtful!r}), name it as what it is (y, sample_weight, "
                "subgroup), or name all features, columns=[...]"
            )
    if not features:
        raise DataError("X: expected features, got none beside the labels; add columns")
    for word, name in (*(("X", name) for name in features), ("sample_weight", named_columns.get("weight"))):
        if kinds.get(name) is not None:
            raise DataError(
                f"{word}: expected a column of real numbers, got {name!r} of the type {kinds[name]}; encode "
                "it first, for example one column of 0 and 1 for each category"
            )
    return features, beside


def places_of(names: Sequence[str], columns: Sequence[object]) -> list[int]:
    """Return the index in `columns` of each feature name of a fit; raise `DataError` unless all are there."""
    places = {name: j for j, name in enumerate(columns)}
    lost = sorted(set(names) - set(places))
    if lost:
        raise DataError(
            f"X: expected the columns of the fit, got none named {', '.join(lost)}; "
            "give a table that has them"
        )
    return [places[name] for name in names]


def refuse_unnamed(path: object, header: Sequence[str]) -> None:
    """Raise `DataError` if a header has a column without a name, such as the index of a data frame."""
    if "" in header:
        raise DataError(
            f"{path}: expected a name for every column, got none for column {header.index('') + 1} of the "
            "header; name it, or, if it is the index of a frame, write the file with "
            "to_csv(path, index=False)"
        )


def listed(names: list) -> str:
    """Return the first ten names, separated by commas, for an error message."""
    return ", ".join(map(str, names[:10])) + (", ..." if len(names) > 10 else "")
