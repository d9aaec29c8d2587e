"""Cross-validation of parameter values over rows that are read block by block."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.compiler.compile import bound_rows, plan_of_rows
from ucm.data.first_pass import FEATURES, refuse_gathering
from ucm.data.linear import Vec
from ucm.data.row_metadata import label_in, weight_in
from ucm.data.source import RowSource, as_double
from ucm.errors import ConvergenceWarning, ParameterError, UCMError, brief
from ucm.estimators.multiclass import one_vs_one_scores
from ucm.estimators.options import kernel_options, solve_options
from ucm.estimators.out_of_core import problems_of
from ucm.forms.solution import Solution
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin

__all__ = ["answers", "check_folds", "named_values", "scores_of_rows"]


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
    one problem. One pass validates a fold for all values.

    Raises
    ------
    DataError, ParameterError
        An option that needs all samples in memory.
    """
    if classifier.kernel not in (None, "linear") and classifier.kernel_approx is None:
        refuse_gathering(source, "ClassifierCV with a kernel", FEATURES)
    if classifier.read_as is not None:
        refuse_gathering(source, "ClassifierCV with read_as")
    check_folds("ClassifierCV", cv, scoring)
    columns, data = [], None
    for train, test in source.split(cv):
        W, b, data = _fitted(classifier, model, train, classes, name, values, began)
        held = test if W.features is None else test.mapped(W.features)
        sums = held.map_reduce(_hits, W.normals, b, classes, classifier.multi_class)
        right, weights = (np.sum(v, axis=0) for v in zip(*sums, strict=True))
        lost = np.isnan(b).any(axis=0)
        columns.append(np.where(lost, np.nan, right / weights))
    return np.column_stack(columns), data


def check_folds(who: str, cv: Any, scoring: Any) -> None:
    """Refuse folds and scores that need all samples in memory.

    Raises
    ------
    ParameterError
        cv is no number of folds, or the score no accuracy.
    """
    for option, given, known in (
        ("scoring", scoring, (None, "accuracy")),
        ("cv", cv, ()),
    ):
        ok = given in known if known else isinstance(given, int | np.integer) and given >= 2
        if not ok or isinstance(given, bool):
            wanted = 'None or "accuracy"' if known else "a number of folds from 2 on"
            raise ParameterError(
                f"{who}: {option} is {wanted} over rows that are read block by block, got "
                f"{brief(given)}; take another, or X, y = ucm.open_rows(X, y).gather()"
            )


class _Normals:
    """(problems, values, n) normals with their approximate kernel features, if there are any."""

    def __init__(self, normals: NDArray[np.float64], features: Any) -> None:
        self.normals, self.features = normals, features


def _fitted(
    classifier: Any,
    model: Any,
    train: RowSource,
    classes: Any,
    name: str,
    values: Vec,
    began: float,
) -> tuple[_Normals, NDArray[np.float64], Any]:
    """Return normals and biases of a training part, (problems, values), nan without a classifier, and the
    statistics of the rows of the last problem."""
    _, options = kernel_options(classifier, train, None)
    features = options.get("kernel_approx")
    kernel, of_kernel = options["kernel"], {n: x for n, x in options.items() if n != "kernel"}
    n = train.n if features is None else train.mapped(features).n
    normals, biases, data = [], [], None
    for part, weight in problems_of(train, classes, classifier):
        W, b = np.zeros((len(values), n)), np.full(len(values), np.nan)
        data = bound_rows(model, part, weight, kernel, of_kernel)
        for k, value in enumerate(values):
            try:
                plan = plan_of_rows(
                    model.with_params(**{name: float(value)}), data, classifier.solver
                )
                with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
                    solution: Solution = plan.solve(**solve_options(classifier, began))
            except UCMError:
                continue
            w = solution.w
            if w is None or solution.b is None or (isinstance(model, RobustMargin) and not w.any()):
                continue
            W[k], b[k] = w, solution.b
        normals.append(W)
        biases.append(b)
    return _Normals(np.array(normals), features), np.array(biases), data


def _hits(
    X: Any,
    y: Any,
    W: NDArray[np.float64],
    b: NDArray[np.float64],
    classes: Any,
    scheme: str,
) -> tuple[Vec, Vec]:
    """Return for each value the weight of the correctly classified rows, and the weight of all rows."""
    c, y = weight_in(y), label_in(y)
    c = np.ones(y.size) if c is None else c
    if y.size == 0:
        return np.zeros(W.shape[1]), np.zeros(W.shape[1])
    X = as_double(X)
    S = np.stack([np.asarray(X @ own.T) for own in W], axis=1) + b
    right = answers(S, classes, scheme) == y[:, None]
    return c @ right, np.full(W.shape[1], c.sum())


def answers(S: Any, classes: NDArray[Any], scheme: str) -> NDArray[Any]:
    """Return (test, values) labels from (test, problems, values) decision values."""
    if classes.size == 2:
        return classes[(S[:, 0] > 0.0).astype(np.intp)]
    if scheme == "ovr":
        return classes[np.argmax(S, axis=1)]
    votes = [one_vs_one_scores(S[:, :, k], classes.size).argmax(axis=1) for k in range(S.shape[2])]
    return classes[np.column_stack(votes)]
