"""Readers of LIBSVM and CSV files, with error messages that name the line."""

from __future__ import annotations

import bisect
import bz2
import csv
import gzip
import io
import math
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucm.data.columns import LABELS, listed, refuse_unnamed
from ucm.data.linear_map import Matrix
from ucm.errors import DataError

_OPENERS: dict = {".gz": gzip.open, ".bz2": bz2.open}
_PAIR = re.compile(r"\d+:[^,;]+")


class Table(NamedTuple):
    """The samples, labels and feature names of a LIBSVM or CSV file."""

    X: Matrix  # (m, n) float64 array, or CSR matrix for LIBSVM
    y: Any  # the labels as they stand, numbers or else strings; None where the file has none
    zero_based: bool | None  # whether the indices of a LIBSVM file begin at 0; None for a CSV file
    names: list[str] | None = None  # of the features of a CSV file with a header of distinct names


def read(
    path: str | Path, *, label: str | None = None, features: int | None = None, zero_based: bool | None = None
) -> Table:
    """Read a LIBSVM or CSV file into a `Table`; the content determines the format.

    A LIBSVM row is `label index:value ...`; `zero_based` says whether its indices begin at 0, by default
    where one of them is 0. A CSV row is split at commas, semicolons, tabs or blanks, and may stand below a
    header. A file that ends with .gz or .bz2 is decompressed. Raises `DataError` in one line naming file and
    line.

    label : where a CSV file holds its labels: "first", "last", or a name in its header; by default the column
        named label, class, target or y; else the only column of text; else the first or the last, if exactly
        one of the two holds two values
    features : how many a CSV row has: with as many columns the file has no labels
    """
    path = Path(path)
    text = _text(path)
    lines = text.splitlines()
    rows = [i for i, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#")]
    if not rows:
        raise DataError(f"{path}: the file is empty; expected rows of LIBSVM or CSV")
    if any(_PAIR.fullmatch(token) for i in rows[:10] for token in lines[i].split()[1:]):
        if label is not None:
            raise DataError(f"{path}: a LIBSVM file has its labels first, got label={label!r}; leave it out")
        return _libsvm(path, lines, rows, zero_based)
    return _csv(path, text, label, features)


def _text(path: Path) -> str:
    """Return the decompressed content of a file, decoded as UTF-8."""
    try:
        with _OPENERS.get(path.suffix, open)(path, "rb") as stream:
            content = stream.read()
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise DataError(f"{path}, line {line}: not UTF-8 text; expected LIBSVM or CSV") from None
    except (OSError, EOFError, zlib.error, ValueError) as error:  # a name can hold no NUL
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: cannot be read ({reason}); name a file of LIBSVM or CSV") from None


# --- LIBSVM -----------------------------------------------------------------------------------
def _libsvm(path: Path, lines: list[str], rows: list[int], zero_based: bool | None) -> Table:
    X, y, error = _parsed(lines)
    if error:  # the loader names no line: this is the first one with which it fails
        i = bisect.bisect_left(rows, True, key=lambda i: bool(_parsed(lines[: i + 1])[2]))
        raise DataError(
            f"{path}, line {rows[i] + 1}: expected 'label index:value ...' with finite numbers and "
            f"increasing indices, got an error ({_parsed(lines[: rows[i] + 1])[2]}); correct the line"
        )
    if X.shape[1] == 0:
        raise DataError(f"{path}: no row has a feature; expected index:value pairs")
    occurs = bool((X.indices == 0).any())
    if zero_based is False and occurs:
        raise DataError(f"{path}: index 0, where the classifier was fitted on indices from 1; count from 1")
    zero_based = occurs if zero_based is None else zero_based
    return Table(X if zero_based else X[:, 1:], y, zero_based)


def _parsed(lines: list[str]) -> tuple[Matrix, Matrix, str]:
    """Parse LIBSVM lines into samples and labels, and return an error message if that fails, else ""."""
    from sklearn.datasets import load_svmlight_file

    load: Any = load_svmlight_file  # its types know neither a stream nor True
    try:
        X, y = load(io.BytesIO("\n".join(lines).encode()), zero_based=True)
    except (ValueError, OverflowError) as error:
        return None, None, str(error)
    return X, y, "" if np.isfinite(X.data).all() and np.isfinite(y).all() else "NaN or inf"


# --- CSV --------------------------------------------------------------------------------------
def _csv(path: Path, text: str, label: str | None, features: int | None) -> Table:
    rows = list(_cells(path, text))
    width = len(rows[0][1])
    for line, cells in rows:
        if len(cells) != width:
            raise DataError(
                f"{path}, line {line}: {_count(len(cells))}, the first row has {width}; "
                "give every row as many"
            )
    numbers = np.array([[number_in(cell) for cell in cells] for _, cells in rows])
    words = [np.isnan(row).all() for row in numbers[:2]]
    header = rows[0][1] if words[0] and not any(words[1:]) else None
    if header is not None:
        refuse_unnamed(path, header)
        rows, numbers = rows[1:], numbers[1:]
        if not rows:
            raise DataError(f"{path}: a header and no rows; add rows of samples")
    bare = width == features
    if features is not None and width not in (features, features + 1):
        raise DataError(
            f"{path}: {_count(width)} in a row, where the classifier was fitted on {features} features; "
            "give these, with the label or without"
        )
    if width == 1 and not bare:
        raise DataError(f"{path}: one column only; expected features and a label in every row")
    where = -1 if bare else _label_column(path, rows, numbers, header, label)
    y = None if bare else _labels(path, rows, numbers, where)
    columns = [j for j in range(width) if j != where]
    names = header or [f"column {j + 1}" for j in range(width)]
    X = np.ascontiguousarray(numbers[:, columns])
    for i, k in np.argwhere(np.isnan(X))[:1]:
        line, cells = rows[i]
        cell = cells[columns[k]]
        wrong = f"{cell!r} is no finite number" if cell else "the value is missing"
        raise DataError(f"{path}, line {line}, {names[columns[k]]}: {wrong}")
    distinct = header is not None and len(set(names)) == width
    return Table(X, y, None, [names[j] for j in columns] if distinct else None)


def _cells(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, cells) for each CSV row that is neither blank nor a comment."""
    first = next(s for s in text.splitlines() if s.strip() and not s.lstrip().startswith("#"))
    delimiter = delimiter_of(first)
    reader = csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True, strict=True)
    try:
        for cells in reader:
            stripped = [cell.strip() for cell in cells]
            if delimiter == " ":
                stripped = [cell for cell in stripped if cell]
            if any(stripped) and not stripped[0].startswith("#"):
                yield reader.line_num, stripped
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: {error}") from None


def delimiter_of(line: str) -> str:
    """Return the delimiter of a line: the first of comma, semicolon and tab that occurs, else a blank."""
    return next((mark for mark in ",;\t" if mark in line), " ")


def _label_column(
    path: Path,
    rows: list[tuple[int, list[str]]],
    numbers: NDArray[np.float64],
    header: list[str] | None,
    label: str | None,
) -> int:
    width = numbers.shape[1]
    if label in ("first", "last"):
        return 0 if label == "first" else width - 1
    if label is not None:
        if header is None:
            raise DataError(f"{path}: no header, so no column named {label!r}; use first or last")
        if label not in header:
            raise DataError(f"{path}: no column named {label!r}; the header has {listed(header)}")
        return header.index(label)
    by_name = [j for j, name in enumerate(header or []) if name.lower() in LABELS]
    text = np.flatnonzero(np.isnan(numbers).all(axis=0)).tolist()
    ends = [j for j in (0, width - 1) if len({cells[j] for _, cells in rows}) == 2]
    for columns in (by_name, text, ends):
        if len(columns) == 1:
            return columns[0]
    reason = "both hold two values" if ends else "neither holds two values"
    raise DataError(
        f"{path}: the labels may stand in the first or the last column, and {reason}; "
        "name the column (first, last, or its name in the header)"
    )


def _labels(
    path: Path, rows: list[tuple[int, list[str]]], numbers: NDArray[np.float64], where: int
) -> np.ndarray:
    """Return the label column as numbers, or as strings if a label is no finite number."""
    for line, cells in rows:
        if not cells[where]:
            raise DataError(f"{path}, line {line}: the label is missing; fill it in, or leave the row out")
    if np.isnan(numbers[:, where]).any():
        return np.array([cells[where] for _, cells in rows])
    return numbers[:, where].copy()


def number_in(cell: str) -> float:
    """Return the finite number in a cell, or NaN if the cell holds no finite number."""
    try:
        number = float(cell)
    except ValueError:
        return math.nan
    return number if math.isfinite(number) and "_" not in cell else math.nan


def _count(cells: int) -> str:
    return "1 value" if cells == 1 else f"{cells} values"
