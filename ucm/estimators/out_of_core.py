"""Fits and scores of the classifier for rows that are read block by block."""

from __future__ import annotations

import functools
import operator
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.compiler.compile import compile
from ucm.compiler.plan import Plan
from ucm.data.array_rows import library
from ucm.data.effective_weights import class_factors
from ucm.data.first_pass import FEATURES, refuse_gathering
from ucm.data.readers import has_columns, open_rows
from ucm.data.row_metadata import label_in
from ucm.data.shared_passes import SharedPasses
from ucm.data.source import Labelled, RowSource, as_double, with_features
from ucm.data.validation import refuse_empty
from ucm.errors import DataError, ParameterError
from ucm.estimators.multiclass import about_pair, pair_factors, pairs_of
from ucm.estimators.on_dask import light_of, refuse_width, right_rows, weights_and_labels
from ucm.estimators.options import kernel_options, solve_options
from ucm.estimators.validation import labels_of
from ucm.forms.solution import Solution
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin


def fit_rows(
    classifier: Any, model: RobustMargin | Objective, X: Any, y: Any, tags: dict[str, Any]
) -> tuple[RowSource, NDArray[Any], list[Plan], list[Solution]]:
    """Return the source, the labels, and the plans and solutions of the two-class problems.

    Raises
    ------
    DataError
        One class; a kernel that is not approximated, or `read_as`: they need all samples in memory.
    """
    began = time.perf_counter()
    source = open_rows(X, y, **tags)
    refuse_in_memory(classifier, source, "Classifier")
    classes = labels_of(source.labels(), classifier.pos_label)[0]
    _, options = kernel_options(classifier, source, None)
    shared = SharedPasses(source)

    def fitted(part: Labelled, weight: Any) -> tuple[Plan, Solution]:
        with about_pair("" if classes.size == 2 else part.named()):
            plan = compile(model, part, solver=classifier.solver, class_weight=weight, **options)
            if classifier.bias_rule not in plan.lowering.bias_rules:
                raise ParameterError(
                    f"Classifier: bias_rule={classifier.bias_rule!r} does not apply over rows; take one of "
                    f"{', '.join(plan.lowering.bias_rules)}"
                )
            return plan, plan.solve(**solve_options(classifier, began))

    problems = problems_of(shared, classes, classifier)
    found = shared.run([functools.partial(fitted, *problem) for problem in problems])
    plans, solutions = (list(each) for each in zip(*found, strict=True))
    return source, classes, plans, solutions


def refuse_in_memory(classifier: Any, source: RowSource, who: str) -> None:
    """Raise `DataError` for options that need all samples in memory."""
    if classifier.kernel not in (None, "linear") and classifier.kernel_approx is None:
        refuse_gathering(source, f"{who} with a kernel", FEATURES)
    if classifier.read_as is not None:
        refuse_gathering(source, f"{who} with read_as")


def problems_of(source: RowSource, classes: NDArray[Any], classifier: Any) -> Iterator[tuple[Labelled, Any]]:
    """Yield the two-class problems with the weights of both sides, in the order of `pairs_of`."""
    weight = classifier.class_weight
    if classes.size == 2 and (weight is None or isinstance(weight, str)):
        yield Labelled(source, classes[1]), weight
        return
    rows, counts = source.map_reduce(_class_sums, classes, merge=operator.add)
    factors = np.array(class_factors(weight, classes.tolist(), counts))
    for i, j in pairs_of(classes.size, classifier.multi_class):
        other, m = None, None
        if j >= 0 and classes.size > 2:
            other, m = classes[j], int(rows[i] + rows[j])
        yield Labelled(source, classes[i], other, m), pair_factors(i, j, factors, counts)


def _class_sums(X: Any, y: Any, classes: NDArray[Any]) -> NDArray[np.float64]:
    """Return by class the number of rows of a block, and their weight."""
    c, y = weights_and_labels(y)
    return np.array([[np.sum(y == label), c[y == label].sum()] for label in classes]).T


def _scores(X: Any, y: Any, W: NDArray[np.float64]) -> tuple[Any, Any, bool]:
    X = as_double(X)
    entries = X.data if hasattr(X, "indptr") else X
    return np.asarray(X @ W.T), label_in(y), bool(np.isfinite(entries).all())


def scored(
    source: RowSource, W: NDArray[np.float64], names: Sequence[str] | None
) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Return `X W'` and the labels, computed block by block.

    Parameters
    ----------
    names : of the features of the fit, if they have some

    Raises
    ------
    DataError
        No rows, another number of features, a column of the fit that is not there, or NaN or inf.
    """
    if source.m == 0:
        refuse_empty()
    source = with_features(source, names)
    if source.n != W.shape[1]:
        raise DataError(
            f"Classifier.predict: expected {W.shape[1]} features, got {source.n}; give those of the fit"
        )
    found = source.map_reduce(_scores, W)
    if not all(sound for *_, sound in found):
        raise DataError("Classifier.predict: expected finite numbers, got NaN or inf; remove these samples")
    scores, labels = zip(*(block[:2] for block in found), strict=True)
    return np.concatenate(scores), np.concatenate(labels)


def hits_rows(classifier: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """Return the weighted accuracy of a fitted classifier, in one pass.

    Parameters
    ----------
    y, sample_weight : as for `ucm.open_rows`, of which a source has its own
    """
    names = list(getattr(classifier, "feature_names_in_", ()))
    if isinstance(X, RowSource):
        source = open_rows(X, y, sample_weight=sample_weight)
    else:
        columns = names if names and has_columns(X) else None
        source = open_rows(X, y, sample_weight=sample_weight, columns=columns)
    source, light = with_features(source, names or None), light_of(classifier, named=False)
    refuse_width(classifier, "score", source.n)
    right, whole = source.map_reduce(right_rows, light, merge=operator.add)
    return float(right / whole)


def write_scores(
    out: str | Path, labels: NDArray[Any], scores: NDArray[np.float64], classes: NDArray[Any]
) -> None:
    """Write labels and decision values to a file of Parquet.

    Raises
    ------
    MissingExtraError
        pyarrow is not installed.
    """
    pyarrow = library("pyarrow", "parquet")
    names = ["decision"] if scores.shape[1] == 1 else [f"decision_{label}" for label in classes]
    columns = {"label": labels} | dict(zip(names, scores.T, strict=True))
    pyarrow.parquet.write_table(pyarrow.table(columns), out)
