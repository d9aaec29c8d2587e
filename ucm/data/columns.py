"""Which columns of a table are features, and which holds the labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucm.data.tags import tagged
from ucm.errors import DataError

__all__ = [
    "LABELS", "SAID", "Beside", "Unlabelled", "chosen", "listed", "refuse_kind", "refuse_lengths",
    "refuse_lost", "refuse_unnamed", "vector", "weights_of",
]  # fmt: skip

LABELS = ("label", "class", "target", "y")


class Unlabelled:
    """In place of labels, where there are none: zeros for all rows."""

    def __init__(self, names: list[str] | None) -> None:
        self.names = names

    def zeros(self, m: int) -> NDArray[Any]:
        return np.broadcast_to(0.0, m)


SAID = {
    "label": ("y", "label"),
    "weight": ("sample_weight", "number"),
    "group": ("subgroup", "label"),
}  # what messages call them


class Beside(NamedTuple):
    """What stands beside the samples, one entry a row: arrays, what gives their entries by slices, or, of a
    table, names of columns."""

    label: Any
    weight: Any = None
    group: Any = None

    @property
    def tags(self) -> tuple[str, ...]:
        """Which there are but for the labels."""
        return tuple(name for name in ("weight", "group") if getattr(self, name) is not None)

    def without(self, names: Beside) -> Beside:
        """Those that are no columns."""
        pairs = zip(self, names, strict=True)
        return Beside(*(v if name is None else None for v, name in pairs))

    def columns(self, m: int) -> Beside:
        """As vectors of m entries.

        Raises
        ------
        DataError
            Of another length; weights that are no numbers.
        """
        return Beside(*(vector(name, v, m) for name, v in self._asdict().items()))

    def parts(self, start: int, end: int) -> Beside:
        """Those of some rows."""
        return Beside(*(None if v is None else np.asarray(v[start:end]) for v in self))

    def at(self, start: int, end: int) -> NDArray[Any]:
        """The same as one array."""
        return tagged(*self.parts(start, end))


def vector(name: str, given: Any, m: int) -> Any:
    """One entry for each of m rows; None as it is.

    Raises
    ------
    DataError
        Another shape, weights that are no numbers.
    """
    if given is None or isinstance(given, Unlabelled):
        return None if given is None else given.zeros(m)
    word, what = SAID[name]
    if np.ma.is_masked(given):
        raise DataError(f"{word}: expected an entry for every row, got a masked array; fill it in")
    given = given.to_numpy() if hasattr(given, "to_numpy") else given
    v = given if hasattr(given, "shape") and hasattr(given, "dtype") else np.asarray(given)
    if len(v.shape) != 1:
        raise DataError(
            f"{word}: expected one {what} per sample, got shape {tuple(v.shape)}; give one dimension"
        )
    refuse_lengths(m, v.shape[0], name)
    refuse_kind(name, v.dtype, m)
    return v


def refuse_lengths(rows: int, given: int, name: str = "label") -> None:
    """Raises `DataError` where there is not one label, weight or group for each row."""
    word, what = SAID[name]
    if rows != given:
        raise DataError(
            f"{word}: expected {rows} {what}s, one per row of X, got {given}; both must have the same length"
        )


def refuse_kind(name: str, kind: Any, m: int) -> None:
    """Raises `DataError` where weights are no numbers."""
    if name == "weight" and getattr(kind, "kind", "O") not in "biuf":
        raise DataError(
            f"sample_weight: expected {m} finite numbers that are not negative, one per row of X, got "
            f"entries of the type {kind}; give numbers"
        )


def chosen(kinds: Mapping[Any, str | None], beside: Beside) -> tuple[list[Any], Beside]:
    """The features, and the columns of labels, weights and groups where they stand there.

    Parameters
    ----------
    kinds : by the names of the columns, the type of one that does not hold real numbers, else None
    beside : labels, the name of their column, `Unlabelled`, or None to look for the column; weights, groups

    Raises
    ------
    DataError
        No such column, no features, or one that holds no real numbers.
    """
    names, y = list(kinds), beside.label
    label = y if isinstance(y, str) else None
    if y is None:
        found = [name for name in names if str(name).lower() in LABELS]
        if len(found) != 1:
            raise DataError(
                f"y: expected one column named {', '.join(LABELS)}, got {len(found)} of them among "
                f"{listed(names)}; give the name of the column"
            )
        label = found[0]
    own = Beside(label, *(v if isinstance(v, str) else None for v in beside[1:]))
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
    features = [name for name in names if name not in own]
    if isinstance(y, Unlabelled) and y.names is not None:
        features = y.names
        refuse_lost(features, names)
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
    """Raises `DataError` where a table has not all columns of the fit."""
    lost = sorted(set(names) - set(there))
    if lost:
        raise DataError(
            f"X: expected the columns of the fit, got none named {', '.join(lost)}; "
            "give a table that has them"
        )


def refuse_unnamed(path: Any, header: Sequence[str]) -> None:
    """Raises `DataError` where a header leaves a column without a name, as frames do for their index."""
    if "" in header:
        raise DataError(
            f"{path}: expected a name for every column, got none for column {header.index('') + 1} of the "
            "header; name it, or, if it is the index of a frame, write the file with "
            "to_csv(path, index=False)"
        )


def weights_of(
    W: NDArray[np.float64], names: Sequence[str] | None, there: Sequence[Any] | None
) -> NDArray[np.float64]:
    """Weights of the features of a fit, (..., n), as those of the columns of a table: by their names, 0 for
    a column that is none of them. As they are where the fit or the table has no names.

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
    """The first ten."""
    return ", ".join(map(str, names[:10])) + (", ..." if len(names) > 10 else "")
