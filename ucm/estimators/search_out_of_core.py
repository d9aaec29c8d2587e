"""Cross-validation of parameter values over rows that are read block by block."""

from __future__ import annotations

import operator
import warnings
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.compiler.compile import bound_rows, plan_of
from ucm.data.linear_map import Vec
from ucm.data.options import integer_from, one_of, optional
from ucm.data.shared_passes import SharedPasses
from ucm.data.source import Labelled, RowSource, as_double
from ucm.errors import ConvergenceWarning, ParameterError, UCMError, brief
from ucm.estimators.multiclass import one_vs_one_scores
from ucm.estimators.on_dask import weights_and_labels
from ucm.estimators.options import kernel_options, solve_options
from ucm.estimators.out_of_core import problems_of, refuse_in_memory
from ucm.forms.solution import Solution
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin
from ucm.native.functions import blas_threads


def named_values(model: RobustMargin | Objective, param: Any, values: Any) -> tuple[str, Vec]:
    """Return the parameter and its values; a number of values is refused, as admissible intervals need all
    samples in memory.

    Raises
    ------
    ParameterError
        No values, or it is not clear of which parameter.
    """
    known = list(model.params())
    name = param if param is not None else known[0] if len(known) == 1 else None
    if name not in known:
        raise ParameterError(
            f"ClassifierCV: for out-of-core data param_name is one of the model's parameters, "
            f"{', '.join(known) or 'none'}; got {brief(param)}; write its name"
        )
    if isinstance(values, int | np.integer):
        raise ParameterError(
            f"ClassifierCV: expected values of {name} for out-of-core data, got their number {values}, which "
            "needs all samples in memory; write param_range=[...]"
        )
    return name, values


def scores_of_rows(
    classifier: Any,
    model: RobustMargin | Objective,
    source: RowSource,
    classes: NDArray[Any],
    name: str,
    values: Vec,
    cv: Any,
    scoring: Any,
    began: float,
) -> tuple[NDArray[np.float64], Any]:
    """Return (values, folds) weighted accuracies, nan without a classifier, and the statistics of the rows of
    one problem. The folds, problems and values share their passes over the rows.

    Raises
    ------
    DataError, ParameterError
        An option that needs all samples in memory.
    """
    refuse_in_memory(classifier, source, "ClassifierCV")
    check_folds("ClassifierCV", cv, scoring)
    models = [model.with_params(**{name: float(value)}) for value in values]
    shared = SharedPasses(source)
    # here, because filters of warnings and the number of BLAS threads hold for all threads
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning), blas_threads(0):
        folds = shared.split(cv)
        problems = shared.run([partial(_problems, classifier, train, classes) for train, _ in folds])
        bound = shared.run(
            [
                partial(bound_rows, model, part, weight, kernel, options)
                for kernel, options, pairs in problems
                for part, weight in pairs
            ]
        )
        found = shared.run([partial(_solved, classifier, m, data, began) for data in bound for m in models])
        W = np.reshape([w for w, _ in found], (len(folds), -1, len(models), bound[0].n))
        b = np.reshape([b for _, b in found], W.shape[:3])
        features = [options.get("kernel_approx") for _, options, _ in problems]
        held = [
            test if transform is None else test.mapped(transform)
            for (_, test), transform in zip(folds, features, strict=True)
        ]
        accuracies = shared.run(
            [
                partial(_accuracies, test, *parts, classes, classifier.multi_class)
                for test, *parts in zip(held, W, b, strict=True)
            ]
        )
    return np.column_stack(accuracies), bound[-1]


def check_folds(who: str, cv: Any, scoring: Any) -> None:
    """Refuse folds and scores that need all samples in memory.

    Raises
    ------
    ParameterError
        cv is not a number of folds, or the score is not the accuracy.
    """
    accuracy = optional(one_of("accuracy"))
    for option, given, spec in (("scoring", scoring, accuracy), ("cv", cv, integer_from(2))):
        remedy = "take another, or X, y = ucm.open_rows(X, y).gather()"
        spec.check(f"{who} over rows that are read block by block", option, given, remedy)


def _problems(
    classifier: Any, train: RowSource, classes: NDArray[Any]
) -> tuple[Any, dict[str, Any], list[tuple[Labelled, Any]]]:
    """Return the kernel, its options, and the two-class problems of a training part."""
    _, options = kernel_options(classifier, train, None)
    kernel = options.pop("kernel")
    return kernel, options, list(problems_of(train, classes, classifier))


def _solved(classifier: Any, model: RobustMargin | Objective, data: Any, began: float) -> tuple[Vec, float]:
    """Return w and b; a bias of nan without a classifier."""
    nothing = np.zeros(data.n), np.nan
    try:
        plan = plan_of(model, data, None, classifier.solver)
        solution: Solution = plan.solve(**solve_options(classifier, began))
    except UCMError:
        return nothing
    w, b = solution.w, solution.b
    if w is None or b is None or (isinstance(model, RobustMargin) and not w.any()):
        return nothing
    return w, b


def _accuracies(
    test: RowSource, W: NDArray[np.float64], b: NDArray[np.float64], classes: Any, scheme: str
) -> Vec:
    """Return the weighted accuracy of each value on a fold, nan without a classifier."""
    right, weights = test.map_reduce(_hits, W, b, classes, scheme, merge=operator.add)
    return np.where(np.isnan(b).any(axis=0), np.nan, right / weights)


def _hits(
    X: Any,
    y: Any,
    W: NDArray[np.float64],
    b: NDArray[np.float64],
    classes: Any,
    scheme: str,
) -> NDArray[np.float64]:
    """Return for each value the weight of the correctly classified rows, and the weight of all rows."""
    c, y = weights_and_labels(y)
    if y.size == 0:
        return np.zeros((2, W.shape[1]))
    X = as_double(X)
    S = np.stack([np.asarray(X @ own.T) for own in W], axis=1) + b
    index = np.zeros(y.size, dtype=np.intp)
    for k, label in enumerate(classes):
        index[y == label] = k
    right = answers(S, np.arange(classes.size), scheme) == index[:, None]
    return np.array([c @ right, np.full(W.shape[1], c.sum())])


def answers(S: Any, classes: NDArray[Any], scheme: str) -> NDArray[Any]:
    """Return (test, values) labels from (test, problems, values) decision values."""
    if classes.size == 2:
        return classes[(S[:, 0] > 0.0).astype(np.intp)]
    if scheme == "ovr":
        return classes[np.argmax(S, axis=1)]
    votes = [one_vs_one_scores(S[:, :, k], classes.size).argmax(axis=1) for k in range(S.shape[2])]
    return classes[np.column_stack(votes)]
