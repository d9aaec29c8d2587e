"""Validation of samples, labels, weights and groups, and checksums that detect changes in place."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from ucm import native
from ucm.data.linear_map import Matrix, Vec, column_ends
from ucm.data.weights import (
    Factors,
    class_totals,
    members_in,
    no_members,
    positive_rows,
    refuse_weightless,
    tagged,
    untagged,
)  # fmt: skip
from ucm.errors import DataError, brief

_COMPRESSED = ("csr", "csc", "bsr")
_SHOWN = 5  # labels in a message
_SIGNS = "y: expected the labels -1 and +1 of rows that are read block by block"
_UNSCALED = 1e3  # ratio of the ranges of features from which on there is a hint
SAID = {
    "label": ("y", "label"),
    "weight": ("sample_weight", "number"),
    "group": ("subgroup", "label"),
}  # what messages call them
_WANTED = {
    "sample_weight": (
        "finite numbers that are not negative, one per row of X",
        "a weight is a number of copies, 0 leaves the sample out",
    ),
    "subgroup": (
        "labels that are strings or numbers",
        "give every sample one, as 'none' where it is in no group",
    ),
}


# --- tables ------------------------------------------------------------------------------------
def library_of(X: object) -> str:
    """Return the name of the top-level package that defines the type of an object."""
    return type(X).__module__.split(".")[0]


def malformed(X: Matrix) -> str | None:
    """Return why the indices of a sparse matrix would lead compiled code outside of its arrays, else None."""
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


def refuse_unsound(X: object, name: str) -> None:
    """Raise `DataError` for masked entries, malformed sparse matrices and Dask collections."""
    if library_of(X) == "dask":
        raise DataError(
            f"{name}: expected samples in memory, got {brief(X)} of Dask; give X.compute() where it "
            "fits into memory"
        )
    if any(map(np.ma.is_masked, X)) if isinstance(X, list | tuple) else np.ma.is_masked(X):
        raise DataError(
            f"{name}: expected every entry, got a masked array with some of them hidden; remove these "
            "samples or fill them in, for example with sklearn.impute.SimpleImputer"
        )
    why = malformed(X) if sparse.issparse(X) else None
    if why is not None:
        raise DataError(
            f"{name}: expected a sparse matrix whose indices fit its shape, got a malformed {brief(X)} "
            f"({why}); build it anew, for example as scipy.sparse.csr_array((data, indices, indptr))"
        )


def read(X: object) -> Matrix:
    """Return X as a C-contiguous array or CSR matrix of float64, not copied if possible.

    Raises `DataError` unless it is a table of real numbers; a `Fingerprint` looks for NaN and inf.
    """
    if type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2 and X.size:
        return np.ascontiguousarray(X)
    refuse_unsound(X, "X")
    try:
        entries: Matrix = X if sparse.issparse(X) else np.asarray(X)
        if entries.dtype == object:
            entries = entries.astype(np.float64)
        check_table(entries.shape, entries.dtype)
        if sparse.issparse(entries):
            entries = sparse.csr_matrix(entries, dtype=np.float64)
            if not entries.has_canonical_format:
                entries = entries.copy()
                entries.sum_duplicates()
        else:
            entries = np.ascontiguousarray(entries, np.float64)
    except DataError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"X: expected a table of real numbers, got {error}; encode text and dates first"
        ) from error
    if entries.shape[0] == 0:
        refuse_empty()
    return entries


def check_table(shape: Sequence[float], dtype: DTypeLike, kind: str = "") -> None:
    """Raise `DataError` unless shape and dtype are those of a table of real numbers with features."""
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


class Defect(NamedTuple):
    """The first row of a block with an invalid entry, and the error message before and after its index."""

    row: int
    before: str
    after: str


def refuse(defect: Defect | None) -> None:
    """Raise `DataError` with the message of a defect; no effect for None."""
    if defect is not None:
        raise DataError(f"{defect.before}{defect.row}{defect.after}")


def bad_entry(X: Matrix) -> Defect | None:
    """Return the `Defect` of the first NaN or infinite entry of X, or None."""
    entries = X.data if sparse.issparse(X) else X
    low, high = (float(entries.min()), float(entries.max())) if entries.size else (0.0, 0.0)
    if np.isfinite(low) and np.isfinite(high):
        return None
    at = int(np.flatnonzero(~np.isfinite(entries.ravel()))[0])
    i, j = divmod(at, X.shape[1])
    if sparse.issparse(X):
        i, j = int(np.searchsorted(X.indptr, at, side="right")) - 1, int(X.indices[at])
    remedy = "remove the sample or fill it in, for example with sklearn.impute.SimpleImputer"
    return Defect(i, "X: entry (", f", {j}) is {float(entries.ravel()[at])}; {remedy}")


def table(X: object) -> Matrix:
    """Return X as finite C-contiguous or CSR float64, for samples used once; raises as `read`."""
    entries = read(X)
    refuse(bad_entry(entries))
    return entries


def scale_hint(X: Matrix) -> str:
    """Return a hint if the ranges of nonconstant features differ by a factor above 1000, else ""."""
    if 0 in X.shape:
        return ""
    low, high = column_ends(X)
    with np.errstate(over="ignore"):
        ranges = high - low
    ranges = ranges[ranges > 0.0]
    ratio = float(ranges.max() / ranges.min()) if ranges.size else 1.0
    if ratio <= _UNSCALED:
        return ""
    return f"ranges of features differ by a factor of {ratio:.1g}; a StandardScaler changes the classifier"


def as_double(X: Matrix) -> Matrix:
    """Return a dense or CSR table in float64, without a copy if its dtype is float64."""
    if sparse.issparse(X):
        return X if X.dtype == np.float64 else X.astype(np.float64)
    return np.asarray(X, dtype=np.float64)


def refuse_empty() -> NoReturn:
    """Raise `DataError` for samples without rows."""
    raise DataError("X: expected samples, got none (0 rows); add rows")


class Fingerprint:
    """Checksums of validated samples and labels, not copied, which detect later changes in place."""

    def __init__(self, X: Matrix, y: Vec) -> None:
        self.X, self.y = X, y
        self.unchecked = False  # whether the check is skipped, within one call
        self._sums = self._checksums()
        # The largest absolute entry, or inf or NaN if one occurs: it has the largest bits.
        self.largest = float(np.int64(self._sums[0][1]).view(np.float64))
        self.finite = bool(np.isfinite(self.largest))

    def _checksums(self) -> list[tuple[int, int]]:
        X = self.X
        parts = (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,)
        return [_sum(part.reshape(-1)) for part in (*parts, self.y)]

    def check(self) -> None:
        """Raise `DataError` if samples or labels have changed since; no effect if `unchecked`."""
        if not self.unchecked and self._checksums() != self._sums:
            raise DataError(
                "X or y: expected the samples that were compiled, got arrays that were changed in place "
                "since; compile the model anew, or give compile a copy"
            )


def _sum(v: np.ndarray) -> tuple[int, int]:
    short, found = v.itemsize == 4, np.empty(2, dtype=np.int64)
    checksum = native.library.checksum_short if short else native.library.checksum_long
    checksum(v.size, v.view(np.int32 if short else np.int64), found)
    total, top = found.tolist()
    return total, top


# --- labels, weights and groups ----------------------------------------------------------------
def vector(name: str, values: Any, m: int) -> Any:
    """Return labels, weights or groups as a validated array with one entry for each of m rows."""
    if np.ma.is_masked(values):
        raise DataError(
            f"{SAID[name][0]}: expected one for every sample, got a masked array with hidden entries; "
            "fill them in"
        )
    values = values.to_numpy() if hasattr(values, "to_numpy") else values
    v = values if hasattr(values, "shape") and hasattr(values, "dtype") else np.asarray(values)
    check_column(name, v.shape, v.dtype, m)
    return v


def check_column(name: str, shape: Sequence[object], dtype: object, m: int | None) -> None:
    """Raise `DataError` unless shape and dtype fit labels, weights or groups of m rows (None: unknown)."""
    word, noun = SAID[name]
    if len(shape) != 1:
        raise DataError(
            f"{word}: expected one {noun} per sample, got shape {tuple(shape)}; give one dimension"
        )
    if m is not None and shape[0] != m:
        raise DataError(
            f"{word}: expected {m} {noun}s, one per row of X, got {shape[0]}; both must have the same length"
        )
    if name == "weight" and getattr(dtype, "kind", "O") not in "biuf":
        raise DataError(
            f"sample_weight: expected {_WANTED['sample_weight'][0]}, got entries of the type {dtype}; give "
            "numbers"
        )


def no_entry(name: str, where: str = "") -> DataError:
    """Return the `DataError` for rows without a label, weight or group."""
    word, noun = SAID[name]
    return DataError(
        f"{word}: expected a {noun} for every sample, got none{where} for some; leave these samples out"
    )


def part_of(X: Any, rows: NDArray[np.intp], *columns: NDArray[np.intp]) -> Any:
    """Return rows of a data frame, a matrix, an array or lists; of a Gram matrix also its columns."""
    part = X.iloc[rows] if hasattr(X, "iloc") else (X if hasattr(X, "shape") else np.asarray(X))[rows]
    return part[:, columns[0]] if columns else part


def signs_of(
    y: np.ndarray, pos_label: object = None, alone: Callable[[], tuple[float, ...]] = tuple
) -> tuple[Vec, tuple[object, object]]:
    """Return labels of two classes as -1 and +1, and the original labels of class -1 and class +1.

    Labels in `alone()`, of +1 and -1, may be those of all samples. Raises as `classes_of`.
    """
    if pos_label is None and y.dtype.kind in "biuf":
        signs = np.asarray(y, dtype=np.float64, order="C")
        plus, minus = (int(np.count_nonzero(signs == sign)) for sign in (1.0, -1.0))
        if plus + minus == signs.size:
            if not (plus and minus) and not (plus + minus and (1.0 if plus else -1.0) in alone()):
                _refuse_one_class(plus, minus)
            return signs, (-1, 1)
    classes, index = classes_of(y, pos_label)
    negative, positive = signed_classes(classes, pos_label)
    return np.where(index == classes.index(positive), 1.0, -1.0), (negative, positive)


def signed_classes(classes: Sequence, pos_label: object) -> list:
    """Return the two sorted labels as those of class -1 and class +1, which is `pos_label` or the larger."""
    return sorted(classes, key=lambda label: label == pos_label)


def classes_of(
    y: np.ndarray, pos_label: object = None, several: bool = False
) -> tuple[list, NDArray[np.intp]]:
    """Return the sorted class labels, and the class index of every sample.

    Raises `DataError` for another number of labels than two, or for less than two if `several`; for labels
    that are complex numbers, bytes or NaN, or of several types; and for a `pos_label` that no sample has.
    """
    try:
        labels, index = np.unique(y, return_inverse=True)
        classes = labels.tolist()
    except TypeError as error:  # of None, or of numbers beside strings
        raise DataError(
            f"y: expected labels of one type, numbers or strings ({error}); convert them, and fill in or "
            "drop missing ones"
        ) from error
    if any(isinstance(label, complex | bytes) or label != label for label in classes):
        raise DataError(
            f"y: expected numbers or strings as labels, got {brief(classes)}; fill in or drop missing ones, "
            "decode bytes by y.astype(str)"
        )
    if len(classes) < 2:
        labels_text = f" (all labels are {brief(classes[0])})" if classes else ""
        raise DataError(
            f"y: expected two classes, got one class{labels_text}; add samples of the other class"
        )
    if len(classes) > 2 and pos_label is not None:
        raise DataError(
            f"pos_label: expected two classes, got {len(classes)}; each of several classes is the positive "
            "one of a problem, so leave it out"
        )
    if len(classes) > 2 and not several:
        labels_text = ", ".join(map(brief, classes[:_SHOWN]))
        raise DataError(
            f"y: expected two classes, got {len(classes)} (the labels {labels_text}); "
            "ucm.Classifier takes several"
        )
    if pos_label is not None and pos_label not in classes:
        raise DataError(
            f"pos_label: expected one of the labels {classes[0]!r} and {classes[1]!r}, got "
            f"{brief(pos_label)}; name the label of class +1"
        )
    return classes, index


def read_weights(sample_weight: object, m: int) -> Vec | None:
    """Return the validated weights of m samples; None if every weight is 1 or none are given.

    Raises `DataError` unless they are m finite numbers, none negative and not all 0.
    """
    if sample_weight is None:
        return None
    weights = np.array(vector("weight", sample_weight, m), dtype=np.float64)
    refuse(_bad_weight(weights))
    if not weights.any():
        raise DataError(
            f"sample_weight: expected {_WANTED['sample_weight'][0]}, got zeros only; give some sample a "
            "positive weight"
        )
    return None if (weights == 1.0).all() else weights


def read_groups(subgroup: object, m: int) -> np.ndarray:
    """Return the groups of m samples; raise `DataError` unless each is a string or a number."""
    groups = np.asarray(vector("group", subgroup, m))
    refuse(_bad_group(groups))
    return groups


def read_quantities(
    per_sample: object, m: int, shapes: Mapping[str, tuple[int, ...]] = MappingProxyType({})
) -> dict[str, Vec]:
    """Return the validated values of quantities of m samples by name; raise `DataError` for others.

    A value is a number, a vector or a matrix; `shapes` has its shape, by the name of a quantity where it is
    known. Else the declaration that takes the quantity checks it.
    """
    match per_sample:
        case None:
            return {}
        case Mapping() as given:
            pass
        case _:
            raise DataError(
                f"per_sample: expected {{name: values}}, got {brief(per_sample)}; write {{'radius': values}}"
            )
    quantities = {}
    for name, values in given.items():
        kind = ""
        try:
            v = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
            kind = "" if v.dtype.kind in "biufO" else f", entries of the type {v.dtype}"
            v = np.empty(0) if kind else v.astype(np.float64)
        except (TypeError, ValueError):
            v = np.empty(0)
        shape = (m, *shapes.get(name, v.shape[1:3]))
        if np.ma.is_masked(values) or v.shape != shape or not np.isfinite(v).all():
            got = "NaN or inf" if v.shape == shape else brief(values) + kind
            size = "one per row of X"
            if shapes.get(name):
                size = f"of shape {shape}, one for each row of X and each class"
            raise DataError(
                f"per_sample: {name}: expected {math.prod(shape)} finite numbers, {size}, got {got}; give as "
                "many"
            )
        quantities[str(name)] = v
    return quantities


def _bad_weight(c: Vec) -> Defect | None:
    rows = np.flatnonzero(~((c >= 0.0) & (c < np.inf)))
    return _defect("sample_weight", int(rows[0]), float(c[rows[0]])) if rows.size else None


def _bad_group(group: np.ndarray) -> Defect | None:
    if group.dtype.kind not in "biufUTO" and group.size:
        return _defect("subgroup", 0, group[:1].tolist()[0])
    if group.dtype.kind in "fO":
        rows = np.flatnonzero((group != group) | (group == np.array(None)))  # NaN differs from itself
        if rows.size:
            return _defect("subgroup", int(rows[0]), group[rows[:1]].tolist()[0])
    return None


def _defect(name: str, row: int, value: object) -> Defect:
    expected, hint = _WANTED[name]
    return Defect(row, f"{name}: expected {expected}, got {brief(value)} for sample ", f"; {hint}")


def _refuse_one_class(plus: float, minus: float) -> None:
    """Raise `DataError` unless the numbers of labels +1 and -1 are both positive."""
    if not plus or not minus:
        raise DataError(
            f"y: expected two classes, got one class (all labels are {'+1' if plus else '-1'}); add samples "
            "of the other class"
        )


# --- blocks ------------------------------------------------------------------------------------
class BlockSummary(NamedTuple):
    """The counts, weights and largest entry of a block of rows, by class, and its first defect."""

    rows: int
    labels: Vec  # (2,) the number of rows
    counts: Vec  # (2,) the number of rows of positive weight
    totals: Vec  # (2,) the sums of the weights of the counted rows
    all_totals: Vec  # (2,) the sums of the weights of all rows, of any group
    groups: frozenset[tuple[str, object]]  # kind and label of the named groups with a row of positive weight
    least: float  # the least positive weight of a counted row
    top: float  # the largest absolute entry
    entries: int  # the number of stored entries
    defect: Defect | None


def inspect_block(
    X: Matrix, y: np.ndarray, factors: Factors | None = None
) -> tuple[BlockSummary, Matrix, Vec, np.ndarray | None]:
    """Return the summary of a block, then its rows of positive weight, labels times weights, and groups.

    The `factors` are given where rows have weights or groups. Raises `DataError` for labels that are no
    numbers.
    """
    label, weight, group = untagged(y)
    v, defect = label_values(label)
    size, index = v.size, None
    labels = counts = totals = all_totals = class_totals(None, v)
    groups: frozenset[tuple[str, object]] = frozenset()
    least = 1.0
    if factors is not None:
        if group is not None:
            defect = _bad_group(group) or defect
        if weight is not None:
            weight = np.asarray(weight, dtype=np.float64)
            all_totals, defect = class_totals(weight, v), _bad_weight(weight) or defect
        X, v, index = positive_rows(X, tagged(v, weight, group), factors)
        group = group if group is None or index is None else group[index]
        counts, totals = class_totals(None, v), class_totals(np.abs(v), v)
        least = float(np.abs(v).min(initial=np.inf))
        groups = frozenset(
            part for part in factors.model_groups if group is not None and _has(v, group, *part)
        )
    bad, entries = bad_entry(X), X.data if sparse.issparse(X) else X
    if bad is not None and index is not None:
        bad = bad._replace(row=int(index[bad.row]))
    top = max(float(entries.max()), -float(entries.min())) if entries.size else 0.0
    summary = BlockSummary(
        size, labels, counts, totals, all_totals, groups, least, top, int(entries.size), defect or bad
    )
    return summary, X, v, group


def label_values(y: np.ndarray) -> tuple[Vec, Defect | None]:
    """Return labels as float64, and the defect of the first that is not -1 or +1."""
    remedy = "name the label of class +1 with pos_label"
    try:
        if y.dtype.kind == "c":
            raise TypeError("complex labels")
        v = np.asarray(y, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{_SIGNS}, got values that are no numbers ({error}); {remedy}") from error
    for row in np.flatnonzero(np.abs(v) != 1.0)[:1]:
        return v, Defect(int(row), f"{_SIGNS}, got {v[row]:g} for sample ", f"; {remedy}")
    return v, None


def _has(v: Vec, group: np.ndarray, kind: str, label: object) -> bool:
    """True if a row of the class or classes of a kind is in a group."""
    in_class = {"pos": v > 0.0, "neg": v < 0.0}.get(kind, True)
    return bool((in_class & members_in(group, label)).any())


def joined(a: BlockSummary, b: BlockSummary) -> BlockSummary:
    """Return the `BlockSummary` of the rows of a followed by the rows of b."""
    later = b.defect and b.defect._replace(row=b.defect.row + a.rows)
    return BlockSummary(
        a.rows + b.rows, a.labels + b.labels, a.counts + b.counts, a.totals + b.totals,
        a.all_totals + b.all_totals, a.groups | b.groups, min(a.least, b.least), max(a.top, b.top),
        a.entries + b.entries, a.defect or later,
    )  # fmt: skip


def refuse_bad(summary: BlockSummary, model_groups: Sequence[tuple[str, object]] = ()) -> None:
    """Raise `DataError` for a defect, a class without rows, or a group of the model without rows.

    `model_groups` are kind and label of the groups that a model names.
    """
    if summary.rows == 0:
        refuse_empty()
    refuse(summary.defect)
    _refuse_one_class(*summary.labels)
    refuse_weightless(summary.all_totals)
    missing = [part for part in model_groups if part not in summary.groups]
    if missing:
        raise no_members(*missing[0])
