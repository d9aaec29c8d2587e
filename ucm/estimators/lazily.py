"""Predictions for arrays and frames of Dask: block by block, when they are looked at."""

from __future__ import annotations

import copy
import functools
import math
from importlib import import_module
from typing import Any

import numpy as np

from ucm.data.columns import refuse_lost
from ucm.data.dask_rows import is_dask
from ucm.errors import DataError

__all__ = ["lazy_accuracy", "lazy_answers"]

_HEAVY = ("plan_", "solution_", "certificate_", "history_", "support_", "dual_coef_")
"""What is fitted and predicts nothing: it stays here."""


def _answers(classifier: Any, method: str, like: Any, X: Any) -> Any:
    """What a method says of a block; of an empty one as much as of no row."""
    if X.shape[0] == 0:
        return like
    return np.asarray(getattr(classifier, method)(X))


def lazy_answers(classifier: Any, method: str, X: Any) -> Any:
    """A Dask array of what a method of a fitted classifier says of every row.

    Parameters
    ----------
    method : that takes an array in memory
    X : array or frame of Dask, of which the columns of the fit are taken

    Raises
    ------
    DataError
        Chunks along columns, no such columns. NaN raise it when they are met.
    """
    dask: Any = import_module("dask")
    da: Any = import_module("dask.array")
    light = copy.copy(classifier)
    for name in _HEAVY:
        vars(light).pop(name, None)
    n, names = classifier.n_features_in_, getattr(classifier, "feature_names_in_", None)
    frame = hasattr(X, "columns")
    if frame and names is not None:
        refuse_lost(names, X.columns)
        X = X[list(names)]
    elif not frame and X.ndim == 2 and X.numblocks[1] > 1:
        raise DataError(
            f"X: expected chunks of whole rows, got {X.numblocks[1]} chunks along the columns; ask for "
            "X.rechunk({1: -1})"
        )
    shape = (X.shape[1],) if X.ndim == 2 else ()
    if shape != (n,):
        raise DataError(
            f"Classifier.{method}: expected {n} features, got a {type(X).__name__} of shape "
            f"{tuple(X.shape)}; give those of the fit"
        )
    one = np.zeros((1, n))
    if frame and names is not None:
        one = import_module("pandas").DataFrame(one, columns=list(names))
    like = _answers(light, method, None, one)[:0]
    work = functools.partial(_answers, light, method, like)
    parts = np.asarray(X.to_delayed(), dtype=object).ravel()
    sizes = (math.nan,) * len(parts) if frame else X.chunks[0]
    call = dask.delayed(work, pure=False)
    return da.concatenate(
        [
            da.from_delayed(call(part), shape=(size, *like.shape[1:]), meta=like)
            for part, size in zip(parts, sizes, strict=True)
        ],
        allow_unknown_chunksizes=True,
    )


def lazy_accuracy(classifier: Any, X: Any, y: Any, sample_weight: Any = None) -> Any:
    """The part of rows that `predict` answers right, a Dask array without dimensions."""
    da: Any = import_module("dask.array")
    if isinstance(y, str):
        y = X[y]
    answers = lazy_answers(classifier, "predict", X)
    hits = answers == _beside(da, answers, y)
    if sample_weight is None:
        return hits.mean()
    w = _beside(da, answers, sample_weight)
    return (hits * w).sum() / w.sum()


def _beside(da: Any, answers: Any, y: Any) -> Any:
    """Labels in the blocks of the answers."""
    if is_dask(y):
        y = y if hasattr(y, "chunks") else y.to_dask_array()
        known = not any(math.isnan(size) for size in (*y.chunks[0], *answers.chunks[0]))
        return y.rechunk(answers.chunks) if known else y
    y = np.asarray(y)
    if any(math.isnan(size) for size in answers.chunks[0]):
        raise DataError(
            "y: expected labels of Dask beside blocks of unknown length, got them in memory; give the "
            "column of the frame, or X.compute_chunk_sizes() first"
        )
    if y.shape != answers.shape:
        raise DataError(
            f"y: expected {answers.size} labels, one per row of X, got shape {y.shape}; both must have "
            "the same length"
        )
    return da.from_array(y, chunks=answers.chunks)
