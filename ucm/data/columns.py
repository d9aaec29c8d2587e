"""Which columns of a table are features, and which holds the labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.errors import DataError

__all__ = ["LABELS", "Unlabelled", "chosen", "listed", "refuse_lost", "weights_of"]

LABELS = ("label", "class", "target", "y")


class Unlabelled:
    """In place of labels, where there are none: zeros for all rows."""

    def __init__(self, names: list[str] | None) -> None:
        self.names = names

    def zeros(self, m: int) -> NDArray[Any]:
        return np.broadcast_to(0.0, m)


def chosen(kinds: Mapping[Any, str | None], y: Any) -> tuple[list[Any], Any]:
    """The features, and the column of the labels where they stand there.

    Parameters
    ----------
    kinds : by the names of the columns, the type of one that does not hold real numbers, else None
    y : labels, the name of their column, `Unlabelled`, or None to look for the column

    Raises
    ------
    DataError
        No such column, no features, or one that holds no real numbers.
    """
    names = list(kinds)
    label = y if isinstance(y, str) else None
    if y is None:
        found = [name for name in names if str(name).lower() in LABELS]
        if len(found) != 1:
            raise DataError(
                f"y: expected one column named {', '.join(LABELS)}, got {len(found)} of them among "
                f"{listed(names)}; give the name of the column"
            )
        label = found[0]
    if label is not None and label not in names:
        raise DataError(
            f"y: expected the name of a column, got {label!r}; there are {listed(names)}"
        )
    features = [name for name in names if name != label]
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
    return features, label


def refuse_lost(names: Iterable[str], there: Iterable[Any]) -> None:
    """Raises `DataError` where a table has not all columns of the fit."""
    lost = sorted(set(names) - set(there))
    if lost:
        raise DataError(
            f"X: expected the columns of the fit, got none named {', '.join(lost)}; "
            "give a table that has them"
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
