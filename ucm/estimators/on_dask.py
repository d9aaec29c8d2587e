"""Lazy predictions and lazy accuracy of a fitted classifier for Dask arrays and data frames."""

from __future__ import annotations

import copy
import functools
from importlib import import_module
from typing import Any, Protocol, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ucm.data.columns import Features, RowColumns, places_of
from ucm.data.dask_rows import lazy_blocks, refuse_cut_rows
from ucm.data.linear_map import Matrix, Vec
from ucm.data.weights import untagged
from ucm.errors import DataError

_HEAVY = ("plan_", "solution_", "certificate_", "history_", "support_", "dual_coef_")
"""Fitted attributes that prediction does not need: copies for the workers leave these out."""


class Fitted(Protocol):
    """A fitted classifier."""

    n_features_in_: int

    def predict(self, X: Any, /) -> np.ndarray: ...


F = TypeVar("F", bound=Fitted)


def _answers(classifier: Fitted, method: str, like: np.ndarray, X: Any) -> np.ndarray:
    """Return the result of a method of the classifier for a block, or `like` for an empty block."""
    if X.shape[0] == 0:
        return like
    return np.asarray(getattr(classifier, method)(X))


def lazy_answers(classifier: Fitted, method: str, X: Any) -> Any:
    """Return a lazy Dask array of the results of a method of a fitted classifier for a Dask array or frame X.

    Raises `DataError` for chunks along columns, or without the columns of the fit; for NaN when they are met.
    """
    check_is_fitted(classifier)
    light = light_of(classifier)
    n, names = classifier.n_features_in_, getattr(classifier, "feature_names_in_", None)
    frame = hasattr(X, "columns")
    if frame and names is not None:
        places_of(names, X.columns)
        X = X[list(names)]
    elif not frame and X.ndim == 2:
        refuse_cut_rows(X)
    shape = (X.shape[1],) if X.ndim == 2 else ()
    if shape != (n,):
        raise DataError(
            f"Classifier.{method}: expected {n} features, got a {type(X).__name__} of shape "
            f"{tuple(X.shape)}; give those of the fit"
        )
    one = np.zeros((1, n))
    if frame and names is not None:
        one = import_module("pandas").DataFrame(one, columns=list(names))
    like = np.asarray(getattr(light, method)(one))[:0]
    work = functools.partial(_answers, light, method, like)
    if frame:
        return X.map_partitions(work, meta=like)
    shapes = {"drop_axis": 1} if like.ndim == 1 else {"chunks": (X.chunks[0], like.shape[1:])}
    return X.map_blocks(work, meta=like, **shapes)


def lazy_accuracy(classifier: Fitted, X: Any, y: Any, sample_weight: Any = None) -> Any:
    """Return the accuracy of `predict`, weighted by `sample_weight`, as a lazy zero-dimensional Dask array.

    y and `sample_weight` are of Dask or in memory, or names of columns of a frame.
    """
    dask: Any = import_module("dask")
    da: Any = import_module("dask.array")
    names = list(getattr(classifier, "feature_names_in_", ()))
    light = light_of(classifier, named=False)
    features = Features(tuple(names) if names and hasattr(X, "columns") else None)
    blocks, n, *_ = lazy_blocks(X, RowColumns(y, sample_weight), features)
    if n != classifier.n_features_in_:
        raise DataError(
            f"Classifier.score: expected {classifier.n_features_in_} features, got {n}; give those of the fit"
        )
    call = dask.delayed(lambda block: right_rows(block[0], block[1], light), pure=False)
    parts = [da.from_delayed(call(block), shape=(2,), dtype=float) for block in blocks]
    correct, total = da.stack(parts).sum(axis=0)
    return correct / total


def light_of(classifier: F, named: bool = True) -> F:
    """Return a copy of a fitted classifier without the attributes that prediction does not need.

    With `named=False` it predicts for arrays with the columns of the fit.
    """
    light = copy.copy(classifier)
    for name in _HEAVY if named else (*_HEAVY, "feature_names_in_"):
        vars(light).pop(name, None)
    return light


def right_rows(X: Matrix, y: np.ndarray, classifier: Fitted) -> Vec:
    """Return the weight of the correctly classified rows of a block, and the weight of all rows."""
    c, y = weights_and_labels(y)
    if y.size == 0:
        return np.zeros(2)
    correct = np.asarray(classifier.predict(X)) == y
    return np.array([float(c @ correct), float(c.sum())])


def weights_and_labels(y: np.ndarray) -> tuple[Vec, np.ndarray]:
    """Return the sample weights of a block, ones if no weights are given, and the labels."""
    y, c, _ = untagged(y)
    return np.ones(y.size) if c is None else c, y
