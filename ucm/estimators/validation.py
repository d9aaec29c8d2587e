"""What scikit-learn's conventions ask of labels, messages and coefficients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from ucm.compiler.plan import Plan
from ucm.compiler.recover import bias, feature_normal
from ucm.data.linear import Vec
from ucm.errors import CompositionError, DataError, ParameterError, UCMError
from ucm.forms.solution import Solution
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin

__all__ = ["class_weights", "data_errors", "labels_of", "normal_in_features", "with_bias"]


@contextmanager
def data_errors(where: str) -> Iterator[None]:
    """What scikit-learn finds wrong with X and y, as this library's own error."""
    try:
        yield
    except UCMError:
        raise
    except (ValueError, OverflowError) as error:
        text = str(error)
        if "\n" not in text:  # the longer ones say what to do
            text = f"{text.rstrip('.')}; give a table of finite numbers, one label per row"
        raise DataError(f"Classifier.{where}: {text}") from error


def labels_of(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The labels in order, and the place of every sample's label among them."""
    check_classification_targets(y)
    classes, index = np.unique(y, return_inverse=True)
    if classes.size == 1:
        raise DataError(
            f"y: expected two classes, got one class (all labels are {classes.tolist()[0]!r}); "
            "add samples of the other class"
        )
    return classes, index


def normal_in_features(
    model: RobustMargin | Objective, solution: Solution, n: int, side: str | None = None
) -> Vec:
    """w as a direction in the space of X, which has n features; `side` as for `Classifier`."""
    w = np.zeros(0) if solution.w is None else solution.w
    if isinstance(model, Objective):
        return w
    normal = feature_normal(model.set, w)
    if normal is None and side is not None:
        normal = feature_normal(model.set, w, side)
    if normal is None or solution.b is None:
        raise CompositionError(
            f"Classifier: w has {w.size} entries and lives in another space than X ({n} features); put all "
            'samples of U under one matrix, as in M @ (A - B), say by side="pos" or side="neg" through the '
            "maps of which class a new sample is read, or take ucm.solve for w itself"
        )
    return normal


def with_bias(
    model: RobustMargin | Objective, plan: Plan, solution: Solution, rule: str, side: str | None
) -> Solution:
    """The solution with the bias of the reading that `side` says, where it has none."""
    lowering = (solution.plan or plan).lowering
    q = [] if solution.answer is None else solution.answer.q
    if (
        side is None
        or solution.b is not None
        or not isinstance(model, RobustMargin)
        or solution.w is None
        or not q
    ):
        return solution
    b, named = bias(rule, model.set, lowering.image, lowering.data, q, solution.w, side)
    return replace(solution, b=b, bias_rule=named)


def class_weights(class_weight: Any, classes: NDArray[Any], y: NDArray[Any]) -> Vec:
    """`class_weight` for every class."""
    if class_weight is None:
        return np.ones(classes.size)
    try:
        weights = compute_class_weight(class_weight, classes=classes, y=y)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"Classifier: class_weight: {error}; "
            f'give None, "balanced" or weights of the labels {classes.tolist()}'
        ) from error
    return np.asarray(weights, dtype=np.float64)
