"""Which columns of a table are features, and which holds the labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucm.data.row_metadata import tagged
from ucm.data.validation import SAID, vector
from ucm.errors import DataError, brief

__all__ = [
    "EVERY",
    "LABELS",
    "Features",
    "RowColumns",
    "Unlabelled",
    "chosen",
    "listed",
    "refuse_lost",
    "refuse_unnamed",
    "weights_of",
]  # fmt: skip

LABELS = ("label", "class", "target", "y")


class Unlabelled:
    """A column of zeros for rows without labels."""

    def __init__(self, names: list[str] | None) -> None:
        self.names = names

    def zeros(self, m: int) -> NDArray[Any]:
        return np.broadcast_to(0.0, m)


_NO_FEATURES = (
    "id", "index", "__index_level_0__", "unnamed: 0", "weight", "weights", "sample_weight", "group",
    "subgroup", "label", "class", "target",
)  # fmt: skip


class Features(NamedTuple):
    """Which columns of a table are features.

    Attributes
    ----------
    columns : their names, in order; None for all that hold no labels, weights or groups
    drop : names of columns that are no features
    """

    columns: tuple[Any, ...] | None = None
    drop: tuple[Any, ...] = ()

    @classmethod
    def of(cls, columns: Any, drop: Any) -> Features:
        """Return the features that the options `columns` and `drop` name.

        Raises
        ------
        DataError
            One of them is no sequence of names, or both are given.
        """
        for word, given in (("columns", columns), ("drop", drop)):
            if given is not None and (
                isinstance(given, str | bytes) or not isinstance(given, Iterable)
            ):
                raise DataError(
                    f"open_rows: {word}: expected names of columns in a sequence, got {brief(given)}; write "
                    f'{word}=["..."]'
                )
        if columns is not None and drop is not None:
            raise DataError(
                "open_rows: expected columns or drop, got both; name the features, or what is none"
            )
        return cls(None if columns is None else tuple(columns), tuple(drop or ()))

    def among(self, names: Sequence[Any], own: RowColumns) -> list[Any]:
        """The features among the columns of a table, some of which hold labels, weights and groups.

        Raises
        ------
        DataError
            No such column; one whose name says that it is no feature, and nothing that it is one.
        """
        lost = [name for name in (*(self.columns or ()), *self.drop) if name not in names]
        if lost:
            raise DataError(
                f"X: expected names of columns, got {lost[0]!r}; there are {listed(list(names))}"
            )
        if self.columns is not None:
            held = [name for name in self.columns if name in own]
            if held:
                raise DataError(
                    f"X: expected features, got {held[0]!r} in columns, which holds labels, weights or "
                    "groups; leave it out there"
                )
            return list(self.columns)
        found = [name for name in names if name not in own and name not in self.drop]
        doubtful = [name for name in found if str(name).lower() in _NO_FEATURES]
        if doubtful:
            raise DataError(
                f"X: expected features, got a column named {doubtful[0]!r}; leave it out, as with "
                f"ucm.open_rows(X, y, drop={doubtful!r}), name it as what it is (y, sample_weight, "
                "subgroup), or name all features, columns=[...]"
            )
        return found


EVERY = Features()


class RowColumns(NamedTuple):
    """Labels, weights and groups of rows: arrays or objects that are read by slices, or names of columns of a
    table."""

    label: Any
    weight: Any = None
    group: Any = None

    @property
    def tags(self) -> tuple[str, ...]:
        """The names of the columns without the labels."""
        return tuple(name for name in ("weight", "group") if getattr(self, name) is not None)

    def without(self, names: RowColumns) -> RowColumns:
        """Return the entries that are not names of columns."""
        pairs = zip(self, names, strict=True)
        return RowColumns(*(v if name is None else None for v, name in pairs))

    def columns(self, m: int) -> RowColumns:
        """Return vectors of m entries.

        Raises
        ------
        DataError
            Of another length; weights that are no numbers.
        """
        given = (v.zeros(m) if isinstance(v, Unlabelled) else v for v in self)
        pairs = zip(self._fields, given, strict=True)
        return RowColumns(*(None if v is None else vector(name, v, m) for name, v in pairs))

    def parts(self, start: int, end: int) -> RowColumns:
        """Return the entries of the rows from start to end."""
        return RowColumns(*(None if v is None else np.asarray(v[start:end]) for v in self))

    def at(self, start: int, end: int) -> NDArray[Any]:
        """Return the entries of the rows from start to end as one array."""
        return tagged(*self.parts(start, end))


def chosen(
    kinds: Mapping[Any, str | None], beside: RowColumns, wanted: Features = EVERY
) -> tuple[list[Any], RowColumns]:
    """Return the features, and the columns of labels, weights and groups in a table.

    Parameters
    ----------
    kinds : by the names of the columns, the type of one that does not hold real numbers, else None
    beside : labels, the name of their column, `Unlabelled`, or None to look for the column; weights, groups
    wanted : which columns are features

    Raises
    ------
    DataError
        No such column, no features, or one that holds no real numbers.
    """
    names, y = list(kinds), beside.label
    label = y if isinstance(y, str) else None
    if y is None:
        found = [n for n in names if str(n).lower() in LABELS and n not in wanted.drop]
        if len(found) != 1:
            raise DataError(
                f"y: expected one column named {', '.join(LABELS)}, got {len(found)} of them among "
                f"{listed(names)}; give the name of the column"
            )
        label = found[0]
    own = RowColumns(label, *(v if isinstance(v, str) else None for v in beside[1:]))
    for field, name in own._asdict().items():
        if name is not None and name not in names:
            raise DataError(
                f"{SAID[field][0]}: expected the name of a column, got {name!r}; there are {listed(names)}"
            )
    if own.weight is not None and kinds[own.weight] is not None:
        raise DataError(
            f"sample_weight: expected a column of real numbers, got {own.weight!r} of the type "
            f"{kinds[own.weight]}; give numbers"
        )
    if isinstance(y, Unlabelled):
        features = names if y.names is None else y.names
        refuse_lost(features, names)
    else:
        features = wanted.among(names, own)
    if not features:
        raise DataError("X: expected features, got none beside the labels; add columns")
    for name in features:
        if kinds[name] is not None:
            raise DataError(
                f"X: expected columns of real numbers, got {name!r} of the type {kinds[name]}; encode it "
                "first, for example one column of 0 and 1 for each category"
            )
    return features, own


def refuse_lost(names: Iterable[str], there: Iterable[Any]) -> None:
    """Raise `DataError` if a table has not all columns of the fit."""
    lost = sorted(set(names) - set(there))
    if lost:
        raise DataError(
            f"X: expected the columns of the fit, got none named {', '.join(lost)}; "
            "give a table that has them"
        )


def refuse_unnamed(path: Any, header: Sequence[str]) -> None:
    """Raise `DataError` for a header with a column without a name, as the index of a frame."""
    if "" in header:
        raise DataError(
            f"{path}: expected a name for every column, got none for column {header.index('') + 1} of the "
            "header; name it, or, if it is the index of a frame, write the file with "
            "to_csv(path, index=False)"
        )


def weights_of(
    W: NDArray[np.float64], names: Sequence[str] | None, there: Sequence[Any] | None
) -> NDArray[np.float64]:
    """Return weights of the features of a fit, (..., n), for the columns of a table: by name, 0 for another
    column. Without names they stay as they are.

    Raises
    ------
    DataError
        The table has not all columns of the fit.
    """
    if names is None or there is None or list(names) == list(there):
        return W
    refuse_lost(names, there)
    places = {name: j for j, name in enumerate(there)}
    found = np.zeros((*W.shape[:-1], len(there)))
    found[..., [places[name] for name in names]] = W
    return found


def listed(names: list[Any]) -> str:
    """The first ten names, for a message."""
    return ", ".join(map(str, names[:10])) + (", ..." if len(names) > 10 else "")
