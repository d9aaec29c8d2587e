"""What scikit-learn's conventions ask of labels, messages and coefficients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from ucm.compiler.plan import Plan
from ucm.compiler.recover import bias, feature_normal
from ucm.compiler.robust import ToDistance, ToSphere
from ucm.data.groups import groups_of
from ucm.data.linear import Vec
from ucm.data.sound import refuse_unsound
from ucm.data.source import as_double
from ucm.data.weighing import read_weights
from ucm.errors import CompositionError, DataError, ParameterError, UCMError, brief
from ucm.forms.solution import Solution
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin

__all__ = [
    "class_weights",
    "counted",
    "data_errors",
    "labels_of",
    "normal_in_features",
    "samples_of",
    "with_bias",
]


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


class _Samples(NamedTuple):
    """X as float64, y, its labels in order and the place of every sample's among them; weights and groups,
    None where none are given."""

    X: Any
    y: Any
    classes: NDArray[Any]
    places: NDArray[np.intp]
    weights: Vec | None
    groups: NDArray[Any] | None


def samples_of(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    sample_weight: Any,
    subgroup: Any,
    single: bool = False,
) -> _Samples:
    """What `fit` is given, looked through.

    Parameters
    ----------
    single : whether X of two classes may stay float32

    Raises
    ------
    DataError
        X, y, weights or groups cannot be used.
    """
    with data_errors("fit"):
        refuse_unsound(X, "Classifier: X")
        refuse_unsound(y, "Classifier: y")
        dtype = [np.float64, np.float32] if single else np.float64  # others become the first
        X, y = validate_data(estimator, X, y, accept_sparse="csr", dtype=dtype, order="C")
        classes, index = labels_of(y)
    if classes.size > 2:
        X = as_double(X)  # once for all problems
    weights = read_weights(sample_weight, index.size)
    groups = None
    if subgroup is not None:
        groups = np.array(groups_of(subgroup, index.size).labels, dtype=object)
    return _Samples(X, y, classes, index, weights, groups)


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
        or not isinstance(lowering, ToDistance | ToSphere)
        or solution.b is not None
        or not isinstance(model, RobustMargin)
        or solution.w is None
        or not q
    ):
        return solution
    b, named, rho = bias(rule, model.set, lowering.image, lowering.data, q, solution.w, side)
    return replace(solution, b=b, bias_rule=named, rho=rho)


def class_weights(class_weight: Any, classes: NDArray[Any], counts: Vec) -> Vec:
    """`class_weight` for every class, of which there are so many samples.

    Raises
    ------
    ParameterError
        It is no dict of positive numbers by label, not "balanced" and not None.
    """
    if class_weight is None:
        return np.ones(classes.size)
    if isinstance(class_weight, str) and class_weight == "balanced":
        return counts.sum() / (classes.size * counts)
    labels = classes.tolist()
    wanted = (
        f'Classifier: class_weight: expected None, "balanced" or weights of the labels {labels}'
    )
    if not isinstance(class_weight, Mapping):
        raise ParameterError(
            f"{wanted}, got {brief(class_weight)}; write for example {{label: 2.0}}"
        )
    unknown = [label for label in class_weight if label not in labels]
    if unknown:
        raise ParameterError(f"{wanted}, got the label {brief(unknown[0])}; leave it out")
    for label, w in class_weight.items():
        if not isinstance(w, Real) or isinstance(w, bool) or not 0.0 < float(w) < np.inf:
            raise ParameterError(
                f"{wanted}, got {brief(w)} for {brief(label)}; every weight is positive and finite"
            )
    return np.array([float(class_weight.get(label, 1.0)) for label in labels])


def counted(weights: Vec | None, classes: NDArray[Any], index: NDArray[np.intp]) -> Vec:
    """The samples of every class, as often as they count.

    Raises
    ------
    DataError
        All samples of a class have weight 0.
    """
    counts = np.bincount(index, weights, minlength=classes.size).astype(np.float64)
    if not counts.all():
        raise DataError(
            "sample_weight: expected samples of every class with a positive weight, got zeros for all of "
            f"class {classes[int(np.argmin(counts))].item()!r}; leave the class out of X and y"
        )
    return counts
