"""What enters as samples is looked at before anything reads it, and again before it is used."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm import numerics
from ucm.data.linear import Vec
from ucm.data.look import refuse_empty
from ucm.data.source import as_double
from ucm.errors import DataError

__all__ = ["Seal", "finite", "malformed", "read", "refuse_entry", "refuse_unsound", "table"]

_INFINITE = 0x7FF0000000000000  # the bits of inf; those of NaN are larger
_COMPRESSED = ("csr", "csc", "bsr")


def malformed(X: Any) -> str | None:
    """Why the indices of a sparse matrix do not fit its shape, where compiled code would read or write
    outside of its arrays; None where they do."""
    if X.format == "coo":
        return _stray(X)
    try:
        if X.format not in _COMPRESSED:  # these become rows one by one
            X = sparse.csr_matrix(X)
        same = type(X)(X)  # `check_format` may replace arrays
        if np.any(np.diff(same.indptr) < 0):  # SciPy does not look where the last one is 0
            return "the pointers decrease"
        same.check_format(full_check=True)
    except (TypeError, ValueError, IndexError) as error:
        return str(error)
    return None


def _stray(X: Any) -> str | None:
    indices = (X.row, X.col) if X.ndim == 2 else X.coords
    for axis, (index, size) in enumerate(zip(indices, X.shape, strict=True)):
        if index.size != X.data.size:
            return f"{index.size} indices for {X.data.size} entries"
        if index.size and not (index.min() >= 0 and index.max() < size):
            return f"axis {axis} of length {size} has indices from {index.min()} to {index.max()}"
    return None


def refuse_unsound(X: Any, name: str) -> None:
    """Refuse what would be read as other numbers than are meant: hidden entries, stray indices.

    Raises
    ------
    DataError
        A masked array with masked entries, or a sparse matrix whose indices do not fit its shape.
    """
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
        if sparse.issparse(X):
            if X.dtype.kind not in "biuf":
                raise TypeError(f"dtype {X.dtype}")
            X = sparse.csr_matrix(X, dtype=np.float64)
            if not X.has_canonical_format:
                X = X.copy()
                X.sum_duplicates()
        else:
            X = np.asarray(X)
            if X.dtype.kind not in "biufO":
                raise TypeError(f"dtype {X.dtype}")
            X = np.ascontiguousarray(X, dtype=X.dtype if X.dtype == np.float32 else np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"X: expected a table of real numbers, got {error}; encode text and dates first"
        ) from error
    if X.ndim != 2:
        raise DataError(
            f"X: expected a table (samples, features), got {X.ndim} dimension(s); "
            "reshape one feature with X.reshape(-1, 1)"
        )
    if X.shape[0] == 0:
        refuse_empty()
    if X.shape[1] == 0:
        raise DataError(f"X: expected features, got none (shape {X.shape}); add columns")
    return X


def refuse_entry(X: Any, rows: Any = None) -> NoReturn:
    """Raises `DataError`, with the first entry that is no finite number; `rows` say where those of X are."""
    entries = X.data if sparse.issparse(X) else X
    first, second = X.tocoo().coords if sparse.issparse(X) else np.indices(X.shape)
    flat = np.flatnonzero(~np.isfinite(entries.ravel()))[0]
    i, j = int(np.ravel(first)[flat]), int(np.ravel(second)[flat])
    raise DataError(
        f"X: entry ({i if rows is None else rows[i]}, {j}) is {X[i, j]}; remove the sample or fill it in, "
        "for example with sklearn.impute.SimpleImputer"
    )


def table(X: Any, rows: Any = None) -> Any:
    """X as float64, C-contiguous or CSR, its entries finite: for samples that are used once, these rows of
    all.

    Raises
    ------
    DataError
        As `read`, or NaN or inf.
    """
    X = as_double(read(X))
    if not finite(X.data if sparse.issparse(X) else X):
        refuse_entry(X, rows)
    return X


def finite(v: NDArray[np.float64]) -> bool:
    """Whether all entries are finite numbers; no temporary, and the fastest way for short vectors."""
    if not v.flags.c_contiguous:
        return bool(np.isfinite(v).all())
    flat = v if v.ndim == 1 else v.reshape(-1)
    return numerics.checksum(flat.view(np.int64))[1] < _INFINITE


def _hidden(X: Any) -> bool:
    """Whether entries are masked, of an array or of the rows of a list."""
    return any(map(np.ma.is_masked, X)) if isinstance(X, list | tuple) else np.ma.is_masked(X)


class Seal:
    """Checksums of validated samples, which are not copied: what was computed from them is theirs as long
    as they stay as they were.

    Parameters
    ----------
    X : (m, n) array of float64 or float32, or CSR matrix of float64
    y : (m,) array of float64

    Attributes
    ----------
    finite : whether all entries of X were finite numbers
    largest : the largest absolute one
    rests : whether nobody can have changed them, within one call
    """

    def __init__(self, X: Any, y: Vec) -> None:
        self.X, self.y = X, y
        self.rests = False
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
        """Raises `DataError` where the samples or the labels are others now: one pass over them."""
        if not self.rests and self._taken() != self._sums:
            raise DataError(
                "X or y: expected the samples that were compiled, got arrays that were changed in place "
                "since; compile the model anew, or give compile a copy"
            )


def _sum(part: NDArray[Any]) -> tuple[int, int]:
    flat = part.reshape(-1)
    return numerics.checksum(flat.view(np.int32 if flat.itemsize == 4 else np.int64))
