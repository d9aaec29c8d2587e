"""Labels, messages and coefficients by the conventions of scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.model_selection import LeaveOneOut, StratifiedKFold, check_cv
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from ucm.compiler.plan import Plan
from ucm.compiler.recover import bias, feature_normal
from ucm.compiler.robust import DistanceLowering, SphereLowering
from ucm.data.first_pass import RowData
from ucm.data.groups import groups_of
from ucm.data.linear import Vec
from ucm.data.source import as_double
from ucm.data.validation import in_order, read_weights, refuse_empty, refuse_unsound
from ucm.errors import (
    CompositionError,
    DataError,
    ParameterError,
    SolverError,
    UCMError,
    brief,
    warn_of,
)
from ucm.forms.solution import Solution
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin

__all__ = [
    "class_weights",
    "counted",
    "data_errors",
    "fitted_anew",
    "folds_of",
    "labels_of",
    "normal_in_features",
    "samples_of",
    "warn_if_turned",
    "with_bias",
]

_FEW = 200  # samples of a class in the mean of kernel scores


@contextmanager
def fitted_anew(estimator: BaseEstimator) -> Iterator[None]:
    """Remove the fitted attributes before a fit, and restore them if the fit raises."""
    former = dict(vars(estimator))
    try:
        for name in [name for name in former if name.endswith("_")]:
            delattr(estimator, name)
        yield
    except BaseException:  # Ctrl-C too
        vars(estimator).clear()
        vars(estimator).update(former)
        raise


@contextmanager
def data_errors(where: str) -> Iterator[None]:
    """Turn errors of scikit-learn about X and y into `DataError`."""
    try:
        yield
    except UCMError:
        raise
    except (ValueError, OverflowError) as error:
        text = str(error)
        if "\n" not in text:  # the longer ones say what to do
            text = f"{text.rstrip('.')}; give a table of finite numbers, one label per row"
        raise DataError(f"Classifier.{where}: {text}") from error


def labels_of(y: NDArray[Any], pos_label: Any = None) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the labels in order, `pos_label` last, and the index of every sample's label among them.

    Raises
    ------
    DataError
        One class only; or `pos_label` is given, and is no label, or there are more than two.
    """
    if y.size == 0:
        refuse_empty()
    check_classification_targets(y)
    classes, index = np.unique(y, return_inverse=True)
    if classes.size == 1:
        raise DataError(
            f"y: expected two classes, got one class (all labels are {classes.tolist()[0]!r}); "
            "add samples of the other class"
        )
    if pos_label is None:
        return classes, index
    if classes.size > 2:
        raise DataError(
            f"pos_label: expected two classes, got {classes.size}; each of several classes is the positive "
            "one of a problem, so leave it out"
        )
    ordered = in_order(classes.tolist(), pos_label)
    turned = ordered != classes.tolist()
    return (classes[::-1], 1 - index) if turned else (classes, index)


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
    pos_label: Any,
    single: bool = False,
) -> _Samples:
    """Validate the arguments of `fit`.

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
        classes, index = labels_of(y, pos_label)
    if classes.size > 2:
        X = as_double(X)  # once for all problems
    weights = read_weights(sample_weight, index.size)
    groups = None
    if subgroup is not None:
        groups = np.array(groups_of(subgroup, index.size).labels, dtype=object)
    return _Samples(X, y, classes, index, weights, groups)


def normal_in_features(
    model: RobustMargin | Objective, solution: Solution, n: int, read_as: str | None = None
) -> Vec:
    """w as a direction in the space of X, which has n features; `read_as` as for `Classifier`."""
    w = np.zeros(0) if solution.w is None else solution.w
    if isinstance(model, Objective):
        return w
    normal = feature_normal(model.set, w)
    if normal is None and read_as is not None:
        normal = feature_normal(model.set, w, read_as)
    if solution.b is None and solution.certificate.kind == "none":
        raise SolverError(f"Classifier: {solution.message}")
    if normal is None or solution.b is None:
        raise CompositionError(
            f"Classifier: w has {w.size} entries and lives in another space than X ({n} features); put all "
            "samples of U under one matrix, as in M @ (A - B), or name the class whose matrix maps a sample "
            'by read_as="pos" or read_as="neg", or take ucm.solve for w itself'
        )
    return normal


def warn_if_turned(
    model: RobustMargin,
    plan: Plan,
    solution: Solution,
    X: Any,
    signs: NDArray[np.int8],
    named: str,
    read_as: str | None,
) -> None:
    """Warn where w scores the mean of class -1 above that of class +1, as in `Hull(neg) - Hull(pos)`; behind
    a kernel, and of a table that no solver has converted to double precision, the means are those of some
    samples."""
    both = (np.flatnonzero(signs > 0), np.flatnonzero(signs < 0))
    few = [rows[:: max(1, rows.size // _FEW)] for rows in both]
    if solution.expansion is None:
        normal = feature_normal(model.set, solution.w)
        normal = (
            feature_normal(model.set, solution.w, read_as) if normal is None and read_as else normal
        )
        if normal is None or normal.size != plan.data.n:
            return
        if isinstance(plan.data, RowData) or "X" not in vars(plan.data):
            plus, minus = (float(np.mean(X[rows] @ normal)) for rows in few)
            apart = plus - minus
        else:
            apart = float(normal @ (plan.data.mean("pos") - plan.data.mean("neg")))
    else:
        plus, minus = (float(solution.decision(X[rows]).mean()) for rows in few)
        apart = plus - minus
    if apart < 0.0:
        warn_of(
            f"Classifier: {named}w'(mean of class +1 - mean of class -1) = {apart:.3g} is negative: the "
            "scores of the classes are the wrong way round; write the set as one of class +1 minus one of "
            "class -1, as Hull(pos) - Hull(neg)",
            UserWarning,
        )


def with_bias(
    model: RobustMargin | Objective, plan: Plan, solution: Solution, rule: str, read_as: str | None
) -> Solution:
    """The solution with the bias of the reading `read_as`, where it has none."""
    lowering = (solution.plan or plan).lowering
    q = [] if solution.answer is None else solution.answer.q
    if (
        read_as is None
        or not isinstance(lowering, DistanceLowering | SphereLowering)
        or solution.b is not None
        or not isinstance(model, RobustMargin)
        or solution.w is None
        or not q
    ):
        return solution
    b, named, rho = bias(rule, model.set, lowering.image, lowering.data, q, solution.w, read_as)
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


Fold = tuple[NDArray[np.intp], NDArray[np.intp]]


def folds_of(
    cv: Any, y: NDArray[Any], index: NDArray[np.intp], who: str, weights: Vec | None = None
) -> list[Fold]:
    """The folds (train, test) as indices, each with samples of every class to train on and, with weights, a
    positive weight to score by.

    Parameters
    ----------
    cv : int, "loo", splitter or pairs (train, test)
    y, index : labels, and the class index of each sample
    who : the caller, for messages

    Raises
    ------
    ParameterError
        `cv` does not split the samples.
    DataError
        A class, or a fold, without the samples that are needed.
    """
    classes = np.bincount(index)
    whole = isinstance(cv, int | np.integer) and not isinstance(cv, bool)
    if cv is None or isinstance(cv, bool | float) or (isinstance(cv, str) and cv != "loo"):
        whole, cv = True, 0 if cv is None else cv
    if whole and not (isinstance(cv, int | np.integer) and cv >= 2):
        raise ParameterError(
            f'{who}: cv is a number of folds from 2 on, "loo", a splitter or pairs (train, test), got '
            f"{brief(cv)}; write cv=5"
        )
    if classes.min() < 2:
        raise DataError(
            f"{who}: every class needs samples to train on while others are held out, and a class has 1 "
            f"sample (n_samples={y.size}); add samples"
        )
    splitter: Any = LeaveOneOut() if isinstance(cv, str) else cv
    if whole:
        splitter = StratifiedKFold(min(int(cv), int(classes.min())))
    try:
        splitting: Any = check_cv(splitter, y, classifier=True)
        parts = list(splitting.split(np.zeros((y.size, 1)), y))
        folds = [(_indices(train, y.size), _indices(test, y.size)) for train, test in parts]
        inside = all(part.min() >= 0 and part.max() < y.size for fold in folds for part in fold)
    except (ValueError, TypeError, IndexError) as error:
        raise ParameterError(
            f"{who}: cv={brief(cv)} does not split these samples ({' '.join(str(error).split())}); "
            "write cv=5"
        ) from error
    if not folds or not inside:
        raise ParameterError(
            f"{who}: expected folds with samples to train on and to hold out, got {brief(cv)}; write cv=5"
        )
    for k, (train, test) in enumerate(folds):
        if weights is not None and not weights[test].any():
            raise DataError(
                f"{who}: expected weights above 0 to score fold {k} of {len(folds)} by, got 0 for all of its "
                f"{test.size} samples; leave samples of weight 0 out, or shuffle the folds"
            )
        counts = np.bincount(index[train], minlength=classes.size)
        if not counts.all():
            missing = y[index == int(np.argmin(counts))][0]
            raise DataError(
                f"{who}: fold {k} of {len(folds)} has no sample of class {missing.item()!r} to train on; "
                "stratify the folds, as cv=5 does, or add samples"
            )
    return folds


def _indices(part: Any, m: int) -> NDArray[np.intp]:
    """The indices of a part of a fold, which may be a mask over all m samples."""
    part = np.asarray(part)
    if part.dtype != bool:
        return part.astype(np.intp)
    if part.shape != (m,):
        raise ValueError(f"a mask of shape {part.shape} over {m} samples")
    return np.flatnonzero(part)
