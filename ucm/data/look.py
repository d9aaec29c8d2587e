"""What blocks of rows are looked at for, in the first pass over them."""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

import numpy as np
from scipy import sparse

from ucm.data.linear import Vec
from ucm.errors import DataError

__all__ = ["Look", "joined", "look", "refuse_bad", "refuse_empty"]

_SHOWN = 5  # labels in a message


class Look(NamedTuple):
    """What rows tell of themselves.

    Attributes
    ----------
    counts : of class +1 and class -1
    rows : of all
    bad : row, column and value of the first entry that is no finite number
    odd : labels that are neither -1 nor +1
    top : the largest absolute entry
    entries : stored
    """

    counts: tuple[int, int]
    rows: int
    bad: tuple[int, int, float] | None
    odd: tuple[float, ...]
    top: float
    entries: int


def look(X: Any, y: Any) -> tuple[Look, Vec]:
    """At a block, and its labels as numbers.

    Raises
    ------
    DataError
        The labels are no numbers.
    """
    try:
        y = np.asarray(y).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"y: expected labels -1 and +1, got values that are no numbers ({error}); "
            "ucm.Classifier takes any two labels"
        ) from error
    plus, minus = int((y == 1.0).sum()), int((y == -1.0).sum())
    odd = np.unique(y[np.abs(y) != 1.0])[:_SHOWN] if plus + minus < y.size else ()
    entries = X.data if sparse.issparse(X) else X
    low, high = (float(entries.min()), float(entries.max())) if entries.size else (0.0, 0.0)
    bad = None
    if not (np.isfinite(low) and np.isfinite(high)):
        at = int(np.flatnonzero(~np.isfinite(entries.ravel()))[0])
        i, j = divmod(at, X.shape[1])
        if sparse.issparse(X):
            i, j = int(np.searchsorted(X.indptr, at, side="right")) - 1, int(X.indices[at])
        bad = i, j, float(entries.ravel()[at])
    found = Look(
        (plus, minus), y.size, bad, tuple(map(float, odd)), max(high, -low), int(entries.size)
    )
    return found, y


def joined(a: Look, b: Look) -> Look:
    """What the rows of a and, after them, of b tell."""
    bad = a.bad
    if bad is None and b.bad is not None:
        bad = (b.bad[0] + a.rows, *b.bad[1:])
    return Look(
        (a.counts[0] + b.counts[0], a.counts[1] + b.counts[1]),
        a.rows + b.rows,
        bad,
        tuple(sorted({*a.odd, *b.odd}))[:_SHOWN],
        max(a.top, b.top),
        a.entries + b.entries,
    )


def refuse_empty() -> NoReturn:
    """Raises `DataError`: there is no row."""
    raise DataError("X: expected samples, got none (0 rows); add rows")


def refuse_bad(found: Look) -> None:
    """Refuse what no model can be fitted to.

    Raises
    ------
    DataError
        NaN or inf, no samples, labels other than both -1 and +1.
    """
    if found.rows == 0:
        refuse_empty()
    if found.bad is not None:
        i, j, entry = found.bad
        raise DataError(
            f"X: entry ({i}, {j}) is {entry}; remove the sample or fill it in, "
            "for example with sklearn.impute.SimpleImputer"
        )
    if found.odd:
        shown = ", ".join(f"{v:g}" for v in found.odd)
        raise DataError(
            f"y: expected the labels -1 and +1, got the value(s) {shown}; ucm.Classifier takes any two labels"
        )
    if min(found.counts) == 0:
        only = "+1" if found.counts[0] else "-1"
        raise DataError(
            f"y: expected two classes, got one (all labels are {only}); add samples of the other class"
        )
