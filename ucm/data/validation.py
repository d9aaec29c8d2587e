"""Validation of samples, labels, weights and groups, in memory and block by block, and checksums that detect
later changes in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm import native
from ucm.data.linear_map import Matrix, Vec
from ucm.data.row_metadata import (
    Factors,
    group_in,
    kept,
    label_in,
    members_in,
    no_members,
    tagged,
    weight_in,
)  # fmt: skip
from ucm.errors import DataError, brief

__all__ = [
    "SAID",
    "BlockSummary",
    "Fingerprint",
    "as_double",
    "check_column",
    "check_table",
    "distinct_labels",
    "finite",
    "first_bad",
    "in_order",
    "inspect_block",
    "joined",
    "label_values",
    "library_of",
    "malformed",
    "no_entry",
    "read",
    "read_groups",
    "read_weights",
    "refuse_bad",
    "refuse_empty",
    "refuse_entry",
    "refuse_labels",
    "refuse_unsound",
    "refuse_weightless",
    "scale_hint",
    "signs_of",
    "table",
    "vector",
]  # fmt: skip

_INFINITE = 0x7FF0000000000000  # the bits of inf; those of NaN are larger
_COMPRESSED = ("csr", "csc", "bsr")
_SHOWN = 5  # labels in a message
_UNSCALED = 1e3  # ratio of the ranges of features from which on there is a hint
SAID = {
    "label": ("y", "label"),
    "weight": ("sample_weight", "number"),
    "group": ("subgroup", "label"),
}  # what messages call them
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


# --- tables ------------------------------------------------------------------------------------
def library_of(X: Any) -> str:
    """The name of the library of an object."""
    return type(X).__module__.split(".")[0]


def malformed(X: Any) -> str | None:
    """Return why the indices of a sparse matrix do not fit its shape, or None.

    Compiled code would read or write outside of its arrays.
    """
    try:
        if X.format == "coo":  # its constructor compares the indices with the shape
            sparse.coo_array((X.data, X.coords), shape=X.shape)
            return None
        if X.format not in _COMPRESSED:  # these become rows one by one
            X = sparse.csr_matrix(X)
        same = type(X)(X)  # `check_format` may replace arrays
        if np.any(np.diff(same.indptr) < 0):  # SciPy does not look where the last one is 0
            return "the pointers decrease"
        same.check_format(full_check=True)
    except (TypeError, ValueError, IndexError) as error:
        return str(error)
    return None


def refuse_unsound(X: Any, name: str) -> None:
    """Refuse masked arrays with hidden entries, malformed sparse matrices and collections of Dask.

    Raises
    ------
    DataError
        A masked array with masked entries, a sparse matrix whose indices do not fit its shape, or what Dask
        has, which would be computed and brought here in silence.
    """
    if library_of(X) == "dask":
        raise DataError(
            f"{name}: expected samples in memory, got {brief(X)} of Dask; give X.compute() where it "
            "fits into memory"
        )
    if _hidden(X):
        raise DataError(
            f"{name}: expected every entry, got a masked array with some of them hidden; remove these "
            "samples or fill them in, for example with sklearn.impute.SimpleImputer"
        )
    why = malformed(X) if sparse.issparse(X) else None
    if why is not None:
        raise DataError(
            f"{name}: expected a sparse matrix whose indices fit its shape {X.shape}, got a malformed one "
            f"({why}); build it anew, for example as scipy.sparse.csr_array((data, indices, indptr))"
        )


def _hidden(X: Any) -> bool:
    """True if entries of an array, or of the rows of a list, are masked."""
    return any(map(np.ma.is_masked, X)) if isinstance(X, list | tuple) else np.ma.is_masked(X)


def read(X: Any) -> Any:
    """X as float64, C-contiguous or CSR, without a copy where it is that already; dense float32 stays.
    Whether its entries are finite a `Seal` tells.

    Raises
    ------
    DataError
        No table of real numbers, with samples and features.
    """
    if type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2 and X.size:
        return np.ascontiguousarray(X)
    refuse_unsound(X, "X")
    try:
        X = X if sparse.issparse(X) else np.asarray(X)
        if X.dtype == object:
            X = X.astype(np.float64)
        check_table(X.shape, X.dtype)
        if sparse.issparse(X):
            X = sparse.csr_matrix(X, dtype=np.float64)
            if not X.has_canonical_format:
                X = X.copy()
                X.sum_duplicates()
        else:
            X = np.ascontiguousarray(X, dtype=X.dtype if X.dtype == np.float32 else np.float64)
    except DataError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"X: expected a table of real numbers, got {error}; encode text and dates first"
        ) from error
    if X.shape[0] == 0:
        refuse_empty()
    return X


def check_table(shape: Sequence[Any], dtype: Any, kind: str = "") -> None:
    """Refuse samples that are no table of real numbers with at least one feature.

    Parameters
    ----------
    kind : a word about the samples for a message

    Raises
    ------
    DataError
        Another number of dimensions than two, no features, entries of another type.
    """
    if len(shape) != 2:
        raise DataError(
            f"X: expected a table (samples, features), got {kind}{len(shape)} dimension(s), shape "
            f"{tuple(shape)}; give one row per sample, reshape one feature with X.reshape(-1, 1)"
        )
    if shape[1] == 0:
        raise DataError(f"X: expected features, got none (shape {tuple(shape)}); add columns")
    if np.dtype(dtype).kind not in "biuf":
        raise DataError(
            f"X: expected a table of real numbers, got the dtype {dtype}; encode text and dates first"
        )


def first_bad(X: Matrix) -> tuple[int, int, float] | None:
    """Row, column and value of the first entry that is no finite number."""
    entries = X.data if sparse.issparse(X) else X
    low, high = (float(entries.min()), float(entries.max())) if entries.size else (0.0, 0.0)
    if np.isfinite(low) and np.isfinite(high):
        return None
    at = int(np.flatnonzero(~np.isfinite(entries.ravel()))[0])
    i, j = divmod(at, X.shape[1])
    if sparse.issparse(X):
        i, j = int(np.searchsorted(X.indptr, at, side="right")) - 1, int(X.indices[at])
    return i, j, float(entries.ravel()[at])


def refuse_entry(bad: tuple[int, int, float], rows: Any = None) -> NoReturn:
    """Raise `DataError` for an entry of some rows that is no finite number."""
    i, j, entry = bad
    raise DataError(
        f"X: entry ({i if rows is None else rows[i]}, {j}) is {entry}; remove the sample or fill it in, "
        "for example with sklearn.impute.SimpleImputer"
    )


def table(X: Any, rows: Any = None) -> Any:
    """X as float64, C-contiguous or CSR, its entries finite: for samples that are used once.

    Parameters
    ----------
    rows : the numbers of the rows among all, for a message

    Raises
    ------
    DataError
        As `read`, or NaN or inf.
    """
    X = as_double(read(X))
    if not finite(X.data if sparse.issparse(X) else X):
        refuse_entry(first_bad(X) or (0, 0, np.nan), rows)
    return X


def scale_hint(X: Matrix) -> str:
    """Return a hint if the ranges of the features, constant ones left out, are so different that a few
    features decide the norms; else an empty text."""
    if 0 in X.shape:
        return ""
    ends = (X.max(axis=0), X.min(axis=0))
    high, low = (np.ravel(v.toarray() if sparse.issparse(v) else v).astype(float) for v in ends)
    with np.errstate(over="ignore"):
        ranges = high - low
    ranges = ranges[ranges > 0.0]
    ratio = float(ranges.max() / ranges.min()) if ranges.size else 1.0
    if ratio <= _UNSCALED:
        return ""
    return f"ranges of features differ by a factor of {ratio:.1g}; a StandardScaler changes the classifier"


def as_double(X: Matrix) -> Any:
    """A table in double precision, without a copy if it is that already."""
    if sparse.issparse(X):
        return X if X.dtype == np.float64 else X.astype(np.float64)
    return np.asarray(X, dtype=np.float64)


def refuse_empty() -> NoReturn:
    """Raise `DataError`: there is no row."""
    raise DataError("X: expected samples, got none (0 rows); add rows")


def finite(v: NDArray[np.float64]) -> bool:
    """True if all entries are finite numbers; without a temporary array."""
    if not v.flags.c_contiguous:
        return bool(np.isfinite(v).all())
    flat = v if v.ndim == 1 else v.reshape(-1)
    return native.checksum(flat.view(np.int64))[1] < _INFINITE


class Fingerprint:
    """Checksums of validated samples, which are not copied: they detect later changes in place.

    Parameters
    ----------
    X : (m, n) array of float64 or float32, or CSR matrix of float64
    y : (m,) array of float64

    Attributes
    ----------
    finite : whether all entries of X were finite numbers
    largest : the largest absolute one
    unchecked : whether nobody can have changed them, within one call
    """

    def __init__(self, X: Matrix, y: Vec) -> None:
        self.X, self.y = X, y
        self.unchecked = False
        self._sums = self._taken()
        if X.dtype == np.float64:
            self.finite = self._sums[0][1] < _INFINITE
            self.largest = float(np.int64(self._sums[0][1]).view(np.float64))
        else:
            self.largest = float(np.maximum(X.max(), -X.min()))  # NaN where there is one
            self.finite = bool(np.isfinite(self.largest))

    def _taken(self) -> list[tuple[int, int]]:
        X = self.X
        parts = (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,)
        return [_sum(part) for part in (*parts, self.y)]

    def check(self) -> None:
        """Raise `DataError` if the samples or the labels have changed: one pass over them."""
        if not self.unchecked and self._taken() != self._sums:
            raise DataError(
                "X or y: expected the samples that were compiled, got arrays that were changed in place "
                "since; compile the model anew, or give compile a copy"
            )


def _sum(part: NDArray[Any]) -> tuple[int, int]:
    flat: Any = part.reshape(-1)
    return native.checksum(flat.view(np.int32 if flat.itemsize == 4 else np.int64))


# --- labels, weights and groups ----------------------------------------------------------------
def vector(name: str, given: Any, m: int) -> Any:
    """Return an array with one entry for each of m rows.

    Raises
    ------
    DataError
        Another shape, weights that are no numbers.
    """
    if np.ma.is_masked(given):
        raise DataError(
            f"{SAID[name][0]}: expected one for every sample, got a masked array with hidden entries; "
            "fill them in"
        )
    given = given.to_numpy() if hasattr(given, "to_numpy") else given
    v = given if hasattr(given, "shape") and hasattr(given, "dtype") else np.asarray(given)
    check_column(name, v.shape, v.dtype, m)
    return v


def check_column(name: str, shape: Sequence[Any], dtype: Any, m: int | None) -> None:
    """Refuse labels, weights or groups that are no vector with an entry for each row, and weights that are
    no numbers.

    Parameters
    ----------
    m : the number of rows; None if it is unknown

    Raises
    ------
    DataError
        Another shape, weights of another type.
    """
    word, what = SAID[name]
    if len(shape) != 1:
        raise DataError(
            f"{word}: expected one {what} per sample, got shape {tuple(shape)}; give one dimension"
        )
    if m is not None and shape[0] != m:
        raise DataError(
            f"{word}: expected {m} {what}s, one per row of X, got {shape[0]}; both must have the same length"
        )
    if name == "weight" and getattr(dtype, "kind", "O") not in "biuf":
        raise DataError(
            f"sample_weight: expected {_WANTED['sample_weight'][0]}, got entries of the type {dtype}; give "
            "numbers"
        )


def no_entry(name: str, where: str = "") -> DataError:
    """The error of rows without a label, weight or group."""
    word, what = SAID[name]
    return DataError(
        f"{word}: expected a {what} for every sample, got none{where} for some; leave these samples out"
    )


def label_values(y: Any) -> Vec:
    """Return labels as numbers.

    Raises
    ------
    DataError
        They are no numbers.
    """
    try:
        if y.dtype.kind == "c":
            raise TypeError("complex labels")
        return np.asarray(y, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(
            "y: expected labels -1 and +1 of rows that are read block by block, got values that are no "
            f"numbers ({error}); name the label of class +1 with pos_label"
        ) from error


def signs_of(y: NDArray[Any], pos_label: Any = None) -> tuple[Vec, tuple[Any, Any]]:
    """Return labels of two classes as -1 and +1, and the labels that stand for these.

    Parameters
    ----------
    y : (m,) array of numbers or strings
    pos_label : the label of class +1; None for the larger one

    Raises
    ------
    DataError
        Another number of labels than two, NaN or None among them, or no sample with the label `pos_label`.
    """
    if pos_label is None and y.dtype.kind in "biuf":
        signs = np.asarray(y, dtype=np.float64, order="C")
        plus, minus = (np.count_nonzero(signs == sign) for sign in (1.0, -1.0))
        if plus + minus == signs.size:
            refuse_labels(plus, minus, ())
            return signs, (-1, 1)
    labels = distinct_labels(y)
    if len(labels) != 2:
        shown = ", ".join(map(brief, labels[:_SHOWN]))
        raise DataError(
            f"y: expected two classes, got {len(labels)} (the labels {shown}); "
            + (
                "add samples of another class"
                if len(labels) < 2
                else "ucm.Classifier takes several"
            )
        )
    negative, positive = in_order(labels, pos_label)
    return np.where(y == positive, 1.0, -1.0), (negative, positive)


def distinct_labels(y: NDArray[Any]) -> list[Any]:
    """Return the labels of the classes in order.

    Raises
    ------
    DataError
        A label that is neither a number nor a string, or NaN.
    """
    try:
        labels = np.unique(y).tolist()
    except TypeError as error:  # of None, or of numbers beside strings
        raise DataError(
            f"y: expected labels of one type, numbers or strings ({error}); convert them, and fill in or "
            "drop missing ones"
        ) from error
    if any(isinstance(label, complex) or label != label for label in labels):
        raise DataError(
            f"y: expected numbers or strings as labels, got {brief(labels)}; fill in or drop missing ones"
        )
    return labels


def in_order(labels: Sequence[Any], pos_label: Any) -> list[Any]:
    """Return two labels, that of class +1 last: `pos_label`, or the larger one.

    Raises
    ------
    DataError
        `pos_label` is none of them.
    """
    if pos_label is None:
        return list(labels)
    if pos_label not in labels:
        raise DataError(
            f"pos_label: expected one of the labels {labels[0]!r} and {labels[1]!r}, got {brief(pos_label)}; "
            "name the label of class +1"
        )
    return sorted(labels, key=lambda label: label == pos_label)


def read_weights(sample_weight: Any, m: int) -> Vec | None:
    """Validate the weights of m samples; return None if each is 1.

    Raises
    ------
    DataError
        They are no numbers, not one for each sample, negative, NaN or infinite, or all 0.
    """
    if sample_weight is None:
        return None
    weights = np.array(vector("weight", sample_weight, m), dtype=np.float64)
    refuse_wrong(_wrong(weights, None))
    if not weights.any():
        raise DataError(
            f"sample_weight: expected {_WANTED['sample_weight'][0]}, got zeros only; give some sample a "
            "positive weight"
        )
    return None if (weights == 1.0).all() else weights


def read_groups(subgroup: Any, m: int) -> NDArray[Any]:
    """Validate the group of each of m samples.

    Raises
    ------
    DataError
        Not one label for each sample, or one that is no string and no number.
    """
    groups = np.asarray(vector("group", subgroup, m))
    refuse_wrong(_wrong(None, groups))
    return groups


def refuse_wrong(wrong: tuple[str, int, Any] | None) -> None:
    """Raise `DataError` for an invalid weight or group of a sample."""
    if wrong is not None:
        name, i, what = wrong
        wanted, hint = _WANTED[name]
        raise DataError(f"{name}: expected {wanted}, got {brief(what)} for sample {i}; {hint}")


def refuse_labels(plus: Any, minus: Any, odd: Sequence[float]) -> None:
    """Raise `DataError` unless there are the labels -1 and +1, and no other."""
    if odd:
        shown = ", ".join(f"{v:g}" for v in odd)
        raise DataError(
            "y: expected the labels -1 and +1 of rows that are read block by block, got the value(s) "
            f"{shown}; name the label of class +1 with pos_label"
        )
    if not plus or not minus:
        raise DataError(
            f"y: expected two classes, got one (all labels are {'+1' if plus else '-1'}); add samples of the "
            "other class"
        )


def refuse_weightless(totals: tuple[float, float]) -> None:
    """Raise `DataError` if all samples of a class have weight 0."""
    if min(totals) == 0.0:
        none = "-1" if totals[0] else "+1"
        raise DataError(
            f"sample_weight: expected samples of both classes with a positive weight, got zeros for all of "
            f"class {none}; give some of them a positive weight, or leave the class out"
        )


def _wrong(weight: Any, group: Any) -> tuple[str, int, Any] | None:
    """Return the first invalid weight or group of a block: its name, its row and its value; or None."""
    if weight is not None:
        c = np.asarray(weight, dtype=np.float64)
        rows = np.flatnonzero(~((c >= 0.0) & (c < np.inf)))
        if rows.size:
            return "sample_weight", int(rows[0]), float(c[rows[0]])
    if group is not None and group.dtype.kind not in "biufUTO" and group.size:
        return "subgroup", 0, group[:1].tolist()[0]
    if group is not None and group.dtype.kind in "fO":
        none: Any = None
        rows = np.flatnonzero((group != group) | np.equal(group, none))  # of NaN it is not itself
        if rows.size:
            return "subgroup", int(rows[0]), group[rows[:1]].tolist()[0]
    return None


# --- the first pass ----------------------------------------------------------------------------
class BlockSummary(NamedTuple):
    """The counts, weights, groups and defects of a block of rows.

    Attributes
    ----------
    labels : rows of class +1 and class -1
    counts : rows of positive weight of class +1 and class -1
    met : kind and label of the named groups with a row of positive weight
    totals : the sums of the weights of the counted rows
    whole : the sums of the weights of all rows, of any group
    least : the least positive weight of a counted row
    rows : the number of rows
    wrong : name, row and value of the first invalid weight or group
    bad : row, column and value of the first entry that is no finite number
    odd : labels that are neither -1 nor +1
    top : the largest absolute entry
    entries : the number of stored entries
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


def inspect_block(
    X: Matrix, y: Any, factors: Factors | None = None
) -> tuple[BlockSummary, Any, Vec, Any]:
    """Return the `BlockSummary` of a block, its rows of positive weight, their labels times weights, groups.

    Parameters
    ----------
    factors : of classes and groups, where rows have weights or groups

    Raises
    ------
    DataError
        The labels are no numbers.
    """
    v = label_values(label_in(y))
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
    bad, entries = first_bad(X), X.data if sparse.issparse(X) else X
    if bad is not None and index is not None:
        bad = int(index[bad[0]]), *bad[1:]
    top = max(float(entries.max()), -float(entries.min())) if entries.size else 0.0
    found = BlockSummary(
        (plus, minus), (int(counts[0]), int(counts[1])), met, totals, whole, least, size, wrong, bad,
        tuple(map(float, odd)), top, int(entries.size),
    )  # fmt: skip
    return found, X, v, group


def _has(v: Vec, group: Any, kind: str, label: Any) -> bool:
    """True if one of the rows is in a group."""
    own = {"pos": v > 0.0, "neg": v < 0.0}.get(kind, True)
    return bool((own & members_in(group, label)).any())


def _by_class(v: Vec, weights: Vec) -> tuple[float, float]:
    return float(weights[v > 0.0].sum()), float(weights[v < 0.0].sum())


def joined(a: BlockSummary, b: BlockSummary) -> BlockSummary:
    """Return the `BlockSummary` of the rows of a followed by those of b."""
    bad, wrong = a.bad, a.wrong
    if bad is None and b.bad is not None:
        bad = (b.bad[0] + a.rows, *b.bad[1:])
    if wrong is None and b.wrong is not None:
        wrong = (b.wrong[0], b.wrong[1] + a.rows, b.wrong[2])
    return BlockSummary(
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


def refuse_bad(found: BlockSummary, named: Sequence[tuple[str, Any]] = ()) -> None:
    """Refuse samples to which no model can be fitted.

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
    refuse_wrong(found.wrong)
    if found.bad is not None:
        refuse_entry(found.bad)
    refuse_labels(*found.labels, found.odd)
    refuse_weightless(found.whole)
    lost = [part for part in named if part not in found.met]
    if lost:
        raise no_members(*lost[0])
