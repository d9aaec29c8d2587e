"""Data sets by name, from a folder of the user, scikit-learn or OpenML."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.linear_map import Matrix
from ucm.errors import DataError

__all__ = ["load", "names", "read_npz"]


# name: loader of scikit-learn, label of class +1 and of class -1
_BUNDLED = {
    "breast_cancer": ("load_breast_cancer", 1, 0),  # benign against malignant
    "digits": ("load_digits", 3, 8),
    "iris": ("load_iris", 1, 2),  # versicolor against virginica
    "wine": ("load_wine", 0, 1),
}
# Sets of Table 1 of Ito, Takeda and Toh (2015) that OpenML holds as the same samples, all numeric.
# name: number at OpenML, label of class +1
_OPENML = {
    "diabetes": (37, "tested_negative"),
    "heart": (53, "present"),
    "ionosphere": (59, "g"),
    "sonar": (40, "Rock"),
}


def names() -> list[str]:
    """List the names that `load` accepts: .npz files in the folder UCM_DATA, bundled sets, OpenML sets.

    Examples
    --------
    >>> "breast_cancer" in names()
    True
    """
    folder = _folder()
    files = [file.stem for file in folder.glob("*.npz")] if folder is not None else []
    return sorted({*files, *_BUNDLED, *_OPENML})


def load(name: str) -> tuple[Matrix, NDArray[np.int64]]:
    """Load a data set by name from the folder UCM_DATA, else from scikit-learn, else from OpenML.

    Bundled sets are two classes of the original and standardised: each feature has mean 0 and
    variance 1, or is 0 where it was constant. Sets from OpenML are scaled to [-1, 1] per feature,
    as in the paper, and kept by scikit-learn in its own cache.

    Parameters
    ----------
    name : str
        One of `names()`.

    Returns
    -------
    X : (m, n) float64 array or CSR matrix
        The samples, one a row.
    y : (m,) int64 array
        Labels -1 and +1; class numbers in a set of the folder with more than two classes.

    Raises
    ------
    DataError
        No such set, a broken file, or OpenML cannot be reached.

    Examples
    --------
    >>> X, y = load("wine")
    >>> X.shape, sorted(set(y.tolist()))
    ((130, 13), [-1, 1])
    """
    folder = _folder()
    if folder is not None and name in {file.stem for file in folder.glob("*.npz")}:
        return read_npz(folder / f"{name}.npz")
    if name in _BUNDLED:
        return _bundled(*_BUNDLED[name])
    if name in _OPENML:
        return _fetched(name, *_OPENML[name])
    raise DataError(
        f"data set {name!r}: not known; known are {', '.join(names())}. "
        "UCM_DATA may name a folder with more, as .npz files"
    )


def read_npz(path: str | Path) -> tuple[Matrix, NDArray[np.int64]]:
    """Return the samples, a dense array or CSR matrix, and the labels of an `.npz` file.

    The file holds `y`, and either `X` or the parts `data`, `indices`, `indptr` and `shape` of a CSR matrix.

    Parameters
    ----------
    path : str or Path
        The file.

    Raises
    ------
    DataError
        The file is missing, or holds something else.
    """
    try:
        with np.load(path, allow_pickle=False) as parts:
            y = parts["y"].astype(np.int64)
            if "X" in parts:
                return parts["X"].astype(np.float64, order="C"), y
            triple = (
                parts["data"].astype(np.float64),
                parts["indices"].astype(np.int32),
                parts["indptr"].astype(np.int32),
            )
            return sparse.csr_matrix(triple, shape=tuple(parts["shape"])), y
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except Exception as error:  # numpy raises a dozen kinds for a broken archive
        raise DataError(
            f"{path}: no data set ({error}); expected the arrays X and y, "
            "or data, indices, indptr, shape and y"
        ) from None


def _folder() -> Path | None:
    """Return the folder that the environment variable UCM_DATA names; None if unset or empty."""
    path = os.environ.get("UCM_DATA")
    if not path:
        return None
    folder = Path(path)
    if not folder.is_dir():
        raise DataError(f"UCM_DATA: {path} is no folder; name one, or unset it")
    return folder


def _bundled(loader: str, positive: int, negative: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    from sklearn import datasets

    X, target = getattr(datasets, loader)(return_X_y=True)
    rows = (target == positive) | (target == negative)
    X = np.asarray(X[rows], dtype=np.float64)
    X = X - X.mean(axis=0)
    deviation = X.std(axis=0)
    X /= np.where(deviation > 0, deviation, 1.0)
    return X, np.where(target[rows] == positive, 1, -1).astype(np.int64)


def _fetched(name: str, data_id: int, positive: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    from sklearn.datasets import fetch_openml

    try:
        X, target = fetch_openml(data_id=data_id, as_frame=False, parser="liac-arff", return_X_y=True)
        X = np.asarray(X, dtype=np.float64)
    except (OSError, ValueError) as error:
        raise DataError(
            f"data set {name!r}: OpenML did not answer ({error}); try again, "
            f"or set UCM_DATA to a folder with {name}.npz"
        ) from None
    low, high = X.min(axis=0), X.max(axis=0)
    middle, half = (low + high) / 2.0, (high - low) / 2.0
    X = (X - middle) / np.where(half > 0, half, 1.0)
    return X, np.where(np.asarray(target) == positive, 1, -1).astype(np.int64)
