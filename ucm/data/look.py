"""What blocks of rows are looked at for, in the first pass over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
from scipy import sparse

from ucm.data.linear import Vec
from ucm.data.tags import Factors, group_in, kept, label_in, members_in, tagged, weight_in
from ucm.errors import DataError, brief

__all__ = ["Look", "joined", "look", "refuse_bad", "refuse_empty"]

_SHOWN = 5  # labels in a message
_WANTED = {
    "sample_weight": (
        "finite numbers that are not negative, one per row of X",
        "a weight is a repetition, 0 leaves it out",
    ),
    "subgroup": (
        "labels that are strings or numbers",
        "give every sample one, as 'none' where it is in no group",
    ),
}


class Look(NamedTuple):
    """What rows tell of themselves.

    Attributes
    ----------
    labels : rows of class +1 and class -1
    counts : of these the ones that count
    met : kind and label of the named groups that a row of positive weight is in
    totals : the sums of what these weigh
    whole : the sums of the weights of all rows, of any group
    least : the least positive weight of a row that counts
    rows : of all
    wrong : the first weight or group that is none: which, its row, and what it is
    bad : row, column and value of the first entry that is no finite number
    odd : labels that are neither -1 nor +1
    top : the largest absolute entry
    entries : stored
    """

    labels: tuple[int, int]
    counts: tuple[int, int]
    met: frozenset[tuple[str, Any]]
    totals: tuple[float, float]
    whole: tuple[float, float]
    least: float
    rows: int
    wrong: tuple[str, int, Any] | None
    bad: tuple[int, int, float] | None
    odd: tuple[float, ...]
    top: float
    entries: int


def look(X: Any, y: Any, factors: Factors | None = None) -> tuple[Look, Any, Vec, Any]:
    """At a block: what it tells, its rows that count, their labels times what they weigh, and their groups.

    Parameters
    ----------
    factors : of classes and groups, where rows have weights or groups

    Raises
    ------
    DataError
        The labels are no numbers.
    """
    try:
        v = label_in(y).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"y: expected labels -1 and +1, got values that are no numbers ({error}); "
            "ucm.Classifier takes any two labels"
        ) from error
    plus, minus = int((v == 1.0).sum()), int((v == -1.0).sum())
    odd = np.unique(v[np.abs(v) != 1.0])[:_SHOWN] if plus + minus < v.size else ()
    size, index, wrong, group = v.size, None, None, None
    counts: tuple[Any, Any] = plus, minus
    met: frozenset[tuple[str, Any]] = frozenset()
    totals = whole = float(plus), float(minus)
    least = 1.0
    if factors is not None:
        weight, group = weight_in(y), group_in(y)
        wrong = _wrong(weight, group)
        whole = totals if weight is None else _by_class(v, np.asarray(weight, dtype=np.float64))
        X, v, index = kept(X, tagged(v, weight, group), factors)
        group = group if group is None or index is None else group[index]
        counts, totals = _by_class(v, np.ones(v.size)), _by_class(v, np.abs(v))
        least = float(np.abs(v).min(initial=np.inf))
        met = frozenset(part for part in factors.named if _has(v, group, *part))
    entries = X.data if sparse.issparse(X) else X
    low, high = (float(entries.min()), float(entries.max())) if entries.size else (0.0, 0.0)
    bad = None
    if not (np.isfinite(low) and np.isfinite(high)):
        at = int(np.flatnonzero(~np.isfinite(entries.ravel()))[0])
        i, j = divmod(at, X.shape[1])
        if sparse.issparse(X):
            i, j = int(np.searchsorted(X.indptr, at, side="right")) - 1, int(X.indices[at])
        bad = i if index is None else int(index[i]), j, float(entries.ravel()[at])
    found = Look(
        (plus, minus), (int(counts[0]), int(counts[1])), met, totals, whole, least, size, wrong, bad,
        tuple(map(float, odd)), max(high, -low), int(entries.size),
    )  # fmt: skip
    return found, X, v, group


def _has(v: Vec, group: Any, kind: str, label: Any) -> bool:
    """Whether one of the rows is of a group."""
    own = {"pos": v > 0.0, "neg": v < 0.0}.get(kind, True)
    return bool((own & members_in(group, label)).any())


def _by_class(v: Vec, weights: Vec) -> tuple[float, float]:
    return float(weights[v > 0.0].sum()), float(weights[v < 0.0].sum())


def _wrong(weight: Any, group: Any) -> tuple[str, int, Any] | None:
    """The first weight or group of a block that is none."""
    if weight is not None:
        c = np.asarray(weight, dtype=np.float64)
        rows = np.flatnonzero(~((c >= 0.0) & (c < np.inf)))
        if rows.size:
            return "sample_weight", int(rows[0]), float(c[rows[0]])
    if group is not None and group.dtype.kind not in "biufUTO" and group.size:
        return "subgroup", 0, group[0]
    if group is not None and group.dtype.kind in "fO":
        none: Any = None
        rows = np.flatnonzero((group != group) | np.equal(group, none))  # of NaN it is not itself
        if rows.size:
            return "subgroup", int(rows[0]), group[rows[0]]
    return None


def joined(a: Look, b: Look) -> Look:
    """What the rows of a and, after them, of b tell."""
    bad, wrong = a.bad, a.wrong
    if bad is None and b.bad is not None:
        bad = (b.bad[0] + a.rows, *b.bad[1:])
    if wrong is None and b.wrong is not None:
        wrong = (b.wrong[0], b.wrong[1] + a.rows, b.wrong[2])
    return Look(
        (a.labels[0] + b.labels[0], a.labels[1] + b.labels[1]),
        (a.counts[0] + b.counts[0], a.counts[1] + b.counts[1]),
        a.met | b.met,
        (a.totals[0] + b.totals[0], a.totals[1] + b.totals[1]),
        (a.whole[0] + b.whole[0], a.whole[1] + b.whole[1]),
        min(a.least, b.least),
        a.rows + b.rows,
        wrong,
        bad,
        tuple(sorted({*a.odd, *b.odd}))[:_SHOWN],
        max(a.top, b.top),
        a.entries + b.entries,
    )


def refuse_empty() -> NoReturn:
    """Raises `DataError`: there is no row."""
    raise DataError("X: expected samples, got none (0 rows); add rows")


def refuse_bad(found: Look, named: Sequence[tuple[str, Any]] = ()) -> None:
    """Refuse what no model can be fitted to.

    Parameters
    ----------
    named : kind and label of the groups that a model names

    Raises
    ------
    DataError
        NaN or inf, no samples, labels other than both -1 and +1, weights or groups that are none.
    """
    if found.rows == 0:
        refuse_empty()
    if found.wrong is not None:
        name, i, what = found.wrong
        wanted, hint = _WANTED[name]
        raise DataError(f"{name}: expected {wanted}, got {brief(what)} for sample {i}; {hint}")
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
    if min(found.labels) == 0:
        only = "+1" if found.labels[0] else "-1"
        raise DataError(
            f"y: expected two classes, got one (all labels are {only}); add samples of the other class"
        )
    if min(found.whole) == 0.0:
        none = "-1" if found.whole[0] else "+1"
        raise DataError(
            f"sample_weight: expected samples of both classes with a positive weight, got zeros for all of "
            f"class {none}; give some of them a positive weight, or leave the class out"
        )
    lost = [part for part in named if part not in found.met]
    if lost:
        kind, label = lost[0]
        of = {"pos": "class +1", "neg": "class -1"}.get(kind, "both classes")
        raise DataError(
            f"{kind}.group({label!r}): expected samples of {of} in the group, got none; leave the group out, "
            "or add samples"
        )
