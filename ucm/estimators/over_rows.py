"""The classifier over rows that are read block by block: its fit, and scores of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.compiler.compile import compile
from ucm.compiler.plan import Plan
from ucm.data.columns import weights_of
from ucm.data.linear import Vec
from ucm.data.look import refuse_empty
from ucm.data.source import Labelled, RowSource, as_double, told
from ucm.data.stored import feature_rows, row_source
from ucm.data.survey import FEATURES, refuse_gathering
from ucm.data.tags import label_in, weight_in
from ucm.errors import DataError, ParameterError
from ucm.estimators.options import kernel_options, solve_options
from ucm.estimators.validation import class_weights
from ucm.forms.solution import Solution
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin

__all__ = ["accuracy_rows", "fit_rows", "score_rows", "scored"]


def fit_rows(
    classifier: Any, model: RobustMargin | Objective, X: Any, y: Any, tags: dict[str, Any]
) -> tuple[RowSource, NDArray[Any], list[Plan], list[Solution]]:
    """The source, the labels, and of every problem of two classes the plan and its solution.

    Raises
    ------
    DataError
        One class, a kernel that is not approximated, or probabilities: they need all samples in memory.
    """
    began = time.perf_counter()
    source = row_source(X, y, **tags)
    if classifier.kernel not in (None, "linear") and classifier.kernel_approx is None:
        refuse_gathering(source, "Classifier with a kernel", FEATURES)
    for word, given in (
        ("probability=True", classifier.probability),
        ("side", classifier.side is not None),
    ):
        if given:
            refuse_gathering(source, f"Classifier with {word}")
    classes = source.labels()
    if classes.size < 2:
        raise DataError(
            f"y: expected two classes, got {classes.size} ({classes.tolist()}); add samples of another class"
        )
    _, options = kernel_options(classifier, source, None)
    plans, solutions = [], []
    for part, weight in _problems(source, classes, classifier):
        plan = compile(model, part, solver=classifier.solver, class_weight=weight, **options)
        if classifier.bias not in plan.lowering.rules:
            raise ParameterError(
                f"Classifier: bias={classifier.bias!r} does not apply over rows; take one of "
                f"{', '.join(plan.lowering.rules)}"
            )
        plans.append(plan)
        solutions.append(plan.solve(**solve_options(classifier, began)))
    return source, classes, plans, solutions


def _problems(
    source: RowSource, classes: NDArray[Any], classifier: Any
) -> Iterator[tuple[RowSource, Any]]:
    """The problems of two classes in the order of `ucm.estimators.multiclass.pairs_of`, with the weights of
    both."""
    weight = classifier.class_weight
    if classes.size == 2 and (weight is None or isinstance(weight, str)):
        yield Labelled(source, classes[1]), weight
        return
    rows, met = told(source.rounds(), _met, classes, merge=_added)
    weights = class_weights(weight, classes, met)
    if classes.size == 2:
        yield Labelled(source, classes[1]), (weights[1], weights[0])
    elif classifier.multi_class == "ovr":
        for i, label in enumerate(classes):
            rest = np.arange(classes.size) != i
            yield (
                Labelled(source, label),
                (weights[i], np.average(weights[rest], weights=met[rest])),
            )
    else:
        for i, j in combinations(range(classes.size), 2):
            part = Labelled(source, classes[i], classes[j], int(rows[i] + rows[j]))
            yield part, (weights[i], weights[j])


def _met(X: Any, y: Any, state: Any, classes: NDArray[Any]) -> tuple[Any, NDArray[np.float64]]:
    c, y = weight_in(y), label_in(y)
    c = np.ones(y.size) if c is None else c
    own = [c[y == label] for label in classes]
    return state, np.array([[v.size for v in own], [v.sum() for v in own]])


def _added(a: Any, b: Any) -> Any:
    return a + b


def _scores(X: Any, y: Any, state: Any, W: NDArray[np.float64]) -> tuple[Any, Any]:
    X = as_double(X)
    entries = X.data if hasattr(X, "indptr") else X
    return state, (np.asarray(X @ W.T), label_in(y), bool(np.isfinite(entries).all()))


def score_rows(X: Any, W: NDArray[np.float64], names: list[str] | None) -> NDArray[np.float64]:
    """`X W'`, block by block.

    Parameters
    ----------
    names : the columns that are features, of a table with names; None for all

    Raises
    ------
    DataError
        No rows, another number of features, a column of the fit that is not there, or NaN or inf.
    """
    return scored(feature_rows(X, names), W, names)[0]


def scored(
    source: RowSource, W: NDArray[np.float64], names: list[str] | None
) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """`X W'` and the labels; raises as `score_rows`."""
    if source.m == 0:
        refuse_empty()
    W = weights_of(W, names, source.features)
    if source.n != W.shape[1]:
        raise DataError(
            f"Classifier.predict: expected {W.shape[1]} features, got {source.n}; give those of the fit"
        )
    found = told(source.rounds(), _scores, W)
    if not all(sound for *_, sound in found):
        raise DataError(
            "Classifier.predict: expected finite numbers, got NaN or inf; remove these samples"
        )
    scores, labels = zip(*(block[:2] for block in found), strict=True)
    return np.concatenate(scores), np.concatenate(labels)


def _right(X: Any, y: Any, state: Any, w: Vec, b: float) -> tuple[Any, int]:
    positive = np.asarray(as_double(X) @ w).ravel() + b > 0.0
    return state, int(np.count_nonzero(positive == (label_in(y) > 0.0)))


def accuracy_rows(source: RowSource, w: Vec, b: float) -> float:
    """The share of the rows on their own side, labels -1 and +1."""
    return sum(told(source.rounds(), _right, w, b)) / source.m
