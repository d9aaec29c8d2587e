"""Fit, scores and cross-validation of `Classifier` over out-of-core rows, and its lazy answers for Dask."""

from __future__ import annotations

import copy
import functools
import operator
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ucm.compiler.compile import bound_rows, compile, plan_of
from ucm.compiler.out_of_core import added_features
from ucm.compiler.plan import Plan
from ucm.data.array_rows import library
from ucm.data.bound_data import Data
from ucm.data.columns import Features, RowColumns, places_of
from ucm.data.dask_rows import lazy_blocks, refuse_cut_rows
from ucm.data.first_pass import FEATURES, refuse_gathering
from ucm.data.linear_map import Matrix, Vec
from ucm.data.options import OptionSpec, integer_from, one_of, optional
from ucm.data.readers import has_columns, open_rows
from ucm.data.shared_passes import SharedPasses
from ucm.data.source import Labelled, RowSource, as_double, with_features
from ucm.data.validation import refuse_empty
from ucm.data.weights import ClassWeight, class_factors, untagged
from ucm.errors import ConvergenceWarning, DataError, ParameterError, UCMError, brief, silenced
from ucm.estimators.multiclass import about_pair, answers, pair_factors, pairs_of, score_sign
from ucm.estimators.validation import kernel_options, labels_of, solve_options
from ucm.forms.solution import Solution
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin
from ucm.native.threads import blas_threads

_HEAVY = ("plan_", "solution_", "certificate_", "history_", "support_", "dual_coef_")
"""Fitted attributes that prediction does not need: copies for the workers leave these out."""


class Fitted(Protocol):
    """A fitted classifier."""

    n_features_in_: int

    def predict(self, X: Any, /) -> np.ndarray: ...


F = TypeVar("F", bound=Fitted)


def fit_rows(
    classifier: Any, model: RobustMargin | Objective, X: Any, y: Any, tags: dict
) -> tuple[RowSource, np.ndarray, list[Plan], list[Solution]]:
    """Solve the two-class problems over out-of-core rows; return source, classes, plans and solutions."""
    began = time.perf_counter()
    source = open_rows(X, y, **tags)
    refuse_in_memory(classifier, source, "Classifier")
    classes = labels_of(source.labels(), classifier.pos_label)[0]
    _, options = kernel_options(classifier, source, None)
    shared = SharedPasses(source)

    def fitted(part: Labelled, weight: ClassWeight) -> tuple[Plan, Solution]:
        with about_pair("" if classes.size == 2 else part.message_prefix()):
            plan = compile(model, part, solver=classifier.solver, class_weight=weight, **options)
            if classifier.bias_rule not in plan.lowering.bias_rules:
                raise ParameterError(
                    f"Classifier: bias_rule={classifier.bias_rule!r} does not apply over rows; take one of "
                    f"{', '.join(plan.lowering.bias_rules)}"
                )
            return plan, plan.solve(**solve_options(classifier, began))

    problems = problems_of(shared, classes, classifier)
    solved = shared.run([functools.partial(fitted, *problem) for problem in problems])
    plans, solutions = (list(each) for each in zip(*solved, strict=True))
    return source, classes, plans, solutions


def refuse_in_memory(classifier: Any, source: RowSource, who: str) -> None:
    """Raise `DataError` for options that need samples in memory: an exact kernel, or `read_as`."""
    if classifier.kernel not in (None, "linear") and classifier.kernel_approx is None:
        refuse_gathering(source, f"{who} with a kernel", FEATURES)
    if classifier.read_as is not None:
        refuse_gathering(source, f"{who} with read_as")


def problems_of(
    source: RowSource, classes: np.ndarray, classifier: Any
) -> Iterator[tuple[Labelled, ClassWeight]]:
    """Yield each two-class problem with its `class_weight`, in the order of `pairs_of`."""
    weight = classifier.class_weight
    pairs = pairs_of(classes, classifier)
    if classes.size == 2 and (weight is None or isinstance(weight, str)):
        yield Labelled(source, classes[pairs[0][0]]), weight
        return
    rows, counts = source.map_reduce(_class_sums, classes, merge=operator.add)
    factors = np.array(class_factors(weight, classes.tolist(), counts))
    for i, j in pairs:
        other, m = None, None
        if j >= 0 and classes.size > 2:
            other, m = classes[j], int(rows[i] + rows[j])
        yield Labelled(source, classes[i], other, m), pair_factors(i, j, factors, counts)


def _class_sums(X: Matrix, y: np.ndarray, classes: np.ndarray) -> NDArray[np.float64]:
    """Return the number of rows and the total sample weight of each class in a block, (2, classes)."""
    c, y = weights_and_labels(y)
    return np.array([[np.sum(y == label), c[y == label].sum()] for label in classes]).T


def _scores(X: Matrix, y: np.ndarray, W: NDArray[np.float64]) -> tuple[np.ndarray, np.ndarray, bool]:
    X = as_double(X)
    entries = X.data if hasattr(X, "indptr") else X
    return np.asarray(X @ W.T), untagged(y)[0], bool(np.isfinite(entries).all())


def scored(
    source: RowSource, W: NDArray[np.float64], names: Sequence[str] | None
) -> tuple[NDArray[np.float64], np.ndarray]:
    """Return `X W'` and the labels of all rows; `names` are the features of the fit, if they have names.

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
    blocks = source.map_reduce(_scores, W)
    if not all(sound for *_, sound in blocks):
        raise DataError("Classifier.predict: expected finite numbers, got NaN or inf; remove these samples")
    scores, labels = zip(*(block[:2] for block in blocks), strict=True)
    return np.concatenate(scores), np.concatenate(labels)


def hits_rows(classifier: Fitted, X: object, y: object, sample_weight: object) -> float:
    """Return the weighted accuracy of a fitted classifier over out-of-core rows, in one pass."""
    names = list(getattr(classifier, "feature_names_in_", ()))
    columns = names if names and has_columns(X) else None
    source = open_rows(X, y, sample_weight=sample_weight, columns=columns)
    source, light = with_features(source, names or None), light_of(classifier, named=False)
    _refuse_width(classifier, source.n)
    right, total = source.map_reduce(right_rows, light, merge=operator.add)
    return float(right / total)


def _refuse_width(classifier: Fitted, n: int) -> None:
    """Raise `DataError` if rows to score have another number of features than the fit."""
    if n != classifier.n_features_in_:
        raise DataError(
            f"Classifier.score: expected {classifier.n_features_in_} features, got {n}; give those of the fit"
        )


def write_scores(
    out: str | Path, labels: np.ndarray, scores: NDArray[np.float64], classes: np.ndarray
) -> None:
    """Write labels and decision values to a Parquet file."""
    pyarrow = library("pyarrow", "parquet")
    names = ["decision"] if scores.shape[1] == 1 else [f"decision_{label}" for label in classes]
    columns = {"label": labels} | dict(zip(names, scores.T, strict=True))
    pyarrow.parquet.write_table(pyarrow.table(columns), out)


# --- lazy answers of Dask ------------------------------------------------------------------------
def _of_block(classifier: Fitted, method: str, like: np.ndarray, X: Any) -> np.ndarray:
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
    work = functools.partial(_of_block, light, method, like)
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
    _refuse_width(classifier, n)
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


# --- cross-validation ----------------------------------------------------------------------------
def named_values(model: RobustMargin | Objective, param: str | None, values: object) -> tuple[str, object]:
    """Return the name of the searched parameter and its values; refuse a number in place of the values.

    Values from their number need the admissible interval, which needs all samples in memory.
    """
    names = list(model.params())
    name = param if param is not None else names[0] if len(names) == 1 else None
    if name is None or name not in names:
        raise ParameterError(
            f"ClassifierCV: for out-of-core data param_name is one of the model's parameters, "
            f"{', '.join(names) or 'none'}; got {brief(param)}; write its name"
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
    classes: np.ndarray,
    name: str,
    values: Vec,
    cv: Any,
    began: float,
) -> tuple[NDArray[np.float64], Data]:
    """Return the (values, folds) weighted accuracies over out-of-core rows, and the last bound problem.

    An accuracy is nan without a classifier. The folds, problems and values share their passes over the rows.
    """
    refuse_in_memory(classifier, source, "ClassifierCV")
    models = [model.with_params(**{name: float(value)}) for value in values]
    shared = SharedPasses(source)
    # the number of BLAS threads holds for all threads
    with silenced(ConvergenceWarning), blas_threads(0):
        folds = shared.split(cv)
        problems = shared.run(
            [functools.partial(_problems, classifier, train, classes) for train, _ in folds]
        )
        bound = shared.run(
            [
                functools.partial(bound_rows, model, part, weight, kernel, options)
                for kernel, options, pairs in problems
                for part, weight in pairs
            ]
        )
        planes = shared.run(
            [functools.partial(_solved, classifier, m, data, began) for data in bound for m in models]
        )
        sign = score_sign(classes, classifier.pos_label)
        n = bound[0].n - added_features(model)
        W = sign * np.reshape([w for w, _ in planes], (len(folds), -1, len(models), n))
        b = sign * np.reshape([b for _, b in planes], W.shape[:3])
        features = [options.get("kernel_approx") for _, options, _ in problems]
        held = [
            test if transform is None else test.mapped(transform)
            for (_, test), transform in zip(folds, features, strict=True)
        ]
        accuracies = shared.run(
            [
                functools.partial(_accuracies, test, *parts, classes, classifier.multi_class)
                for test, *parts in zip(held, W, b, strict=True)
            ]
        )
    return np.column_stack(accuracies), bound[-1]


def check_folds(who: str, cv: object, scoring: object, groups: object) -> None:
    """Raise `ParameterError` unless cv is a number, scoring None or the accuracy, and groups None."""
    accuracy, none = optional(one_of("accuracy")), OptionSpec("None", lambda x: x is None)
    options = (("scoring", scoring, accuracy), ("cv", cv, integer_from(2)), ("groups", groups, none))
    for option, value, spec in options:
        remedy = "take another, or X, y = ucm.open_rows(X, y).gather()"
        spec.check(f"{who} over rows that are read block by block", option, value, remedy)


def _problems(
    classifier: Any, train: RowSource, classes: np.ndarray
) -> tuple[object, dict, list[tuple[Labelled, ClassWeight]]]:
    """Return the kernel, its options, and the two-class problems for the training rows of a fold."""
    _, options = kernel_options(classifier, train, None)
    kernel = options.pop("kernel")
    return kernel, options, list(problems_of(train, classes, classifier))


def _solved(classifier: Any, model: RobustMargin | Objective, data: Data, began: float) -> tuple[Vec, float]:
    """Return w and b of a two-class problem; w = 0 and b = NaN without a classifier."""
    nothing = np.zeros(data.n - added_features(model)), np.nan
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
    test: RowSource, W: NDArray[np.float64], b: NDArray[np.float64], classes: np.ndarray, scheme: str
) -> Vec:
    """Return the weighted accuracy of each parameter value on a fold; NaN without a classifier."""
    right, weights = test.map_reduce(_hits, W, b, classes, scheme, merge=operator.add)
    return np.where(np.isnan(b).any(axis=0), np.nan, right / weights)


def _hits(
    X: Matrix,
    y: np.ndarray,
    W: NDArray[np.float64],
    b: NDArray[np.float64],
    classes: np.ndarray,
    scheme: str,
) -> NDArray[np.float64]:
    """Return the weights of the correct rows and of all rows of a block for each value, (2, values)."""
    c, y = weights_and_labels(y)
    if y.size == 0:
        return np.zeros((2, W.shape[1]))
    X = as_double(X)
    S = np.stack([np.asarray(X @ normals.T) for normals in W], axis=1) + b
    right = answers(S, classes, scheme) == y[:, None]
    return np.array([c @ right, np.full(W.shape[1], c.sum())])
