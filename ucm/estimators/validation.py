"""Validation of samples, options and folds of a fit, and coefficients by the conventions of scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import LeaveOneOut, check_cv
from sklearn.utils.metadata_routing import MetadataRequest
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from ucm.compiler.plan import Plan
from ucm.compiler.recover import bias, feature_normal
from ucm.compiler.robust import DistanceLowering, SphereLowering
from ucm.data.gram import check_gram
from ucm.data.kernel_options import features_of, is_linear, row_features
from ucm.data.kernels import Kernel, kernel_of
from ucm.data.linear_map import Matrix, Vec
from ucm.data.options import FLAG, one_of, optional
from ucm.data.source import RowSource
from ucm.data.validation import (
    classes_of,
    read_groups,
    read_quantities,
    read_weights,
    refuse_empty,
    refuse_unsound,
)
from ucm.errors import (
    VERSION,
    CompositionError,
    DataError,
    NonConvexWarning,
    ParameterError,
    SolverError,
    UCMError,
    brief,
    warn_of,
)
from ucm.forms.monitor import Monitor, check_time_limit, limit_from
from ucm.forms.solution import Solution, of_this_version
from ucm.language.node import Node
from ucm.language.objective import Objective
from ucm.language.per_sample import quantities_of
from ucm.language.robust import RobustMargin

Estimator = TypeVar("Estimator", bound=BaseEstimator)

_OF_KERNELS = ("gamma", "degree", "coef0")
_TABLE = "give a table of finite numbers, with a row for each sample and a column for each feature"
_REMEDIES = {  # by words of the message of scikit-learn
    "NaN": "fill missing values, as by a SimpleImputer before it in a pipeline, or leave these samples out",
    "infinity": "replace infinite values, or leave these samples out",
    "inconsistent numbers of samples": "give as many labels as X has rows",
    "expecting": "give the features of the fit",
    "feature names": "give the features of the fit, by their names and in their order",
    "1D array": "Reshape your data: X.reshape(1, -1) for one sample, X.reshape(-1, 1) for one feature",
    "label type": "give class labels; numpy.digitize cuts measurements into classes",
    "target y is None": "give y, a class label for each row of X",
    "convert string": "encode text as numbers, as by a OneHotEncoder before it in a pipeline",
}
_FEW = 200  # largest number of samples of a class in its mean score


class Versioned(BaseEstimator):
    """An estimator whose pickle is read by the versions of the library with the same minor number."""

    def __getstate__(self) -> dict:
        state: Any = super().__getstate__()
        return {**state, "_version": VERSION}

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(of_this_version(type(self), state))


@contextmanager
def fitted_anew(estimator: BaseEstimator) -> Iterator[None]:
    """Remove the fitted attributes for a fit in the context, and restore them if the fit raises."""
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
    """Convert errors of scikit-learn about X and y, raised in the context, into `DataError`."""
    try:
        yield
    except UCMError:
        raise
    except (ValueError, OverflowError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        reason = " ".join(lines if "feature names" in lines[0] else lines[:1]).rstrip(".:")
        remedy = next((text for words, text in _REMEDIES.items() if words in reason), _TABLE)
        raise DataError(f"Classifier.{where}: {reason}; {remedy}") from error


def labels_of(y: np.ndarray, pos_label: object = None) -> tuple[np.ndarray, NDArray[np.intp]]:
    """Return the sorted class labels, and the class index of every sample; validate `pos_label`."""
    if y.size == 0:
        refuse_empty()
    classes, index = classes_of(y, pos_label, several=True)
    whole = y.dtype.kind in "biuf" and bool(np.all(np.isfinite(y) & (y == np.rint(y))))
    if not whole:  # whole numbers are labels
        check_classification_targets(y)
    return np.array(classes, dtype=y.dtype), index


@dataclass(frozen=True)
class Samples:
    """The validated samples, labels, weights and groups of a fit."""

    X: Matrix  # in double precision, or of two classes in single precision
    y: np.ndarray  # as given
    classes: np.ndarray  # the labels in order
    index: NDArray[np.intp]  # of the label of each sample among the classes
    weights: Vec | None
    groups: np.ndarray | None
    per_sample: Mapping[str, Vec]

    def of_rows(self, rows: NDArray[np.intp], X: Matrix) -> Samples:
        """Return some of the samples in another order, with other features X."""
        weights = None if self.weights is None else self.weights[rows]
        groups = None if self.groups is None else self.groups[rows]
        quantities = {name: v[rows] for name, v in self.per_sample.items()}
        return Samples(X, self.y[rows], self.classes, self.index[rows], weights, groups, quantities)


def cloned(estimator: Estimator) -> Estimator:
    """Return the clone of an estimator, which `clone` gives no type."""
    return clone(estimator)  # type: ignore[return-value]


def samples_of(
    estimator: BaseEstimator, X: Matrix, y: Any, sample_weight: object, subgroup: object,
    per_sample: Mapping[str, object], pos_label: object, model: Node,
) -> Samples:  # fmt: skip
    """Validate the arguments of `fit`, and return the `Samples`."""
    with data_errors("fit"):
        refuse_unsound(X, "Classifier: X")
        refuse_unsound(y, "Classifier: y")
        X, y = validate_data(estimator, X, y, accept_sparse="csr", dtype=np.float64, order="C")
        classes, index = labels_of(y, pos_label)
    groups = None if subgroup is None else read_groups(subgroup, y.size).astype(object)
    weights = read_weights(sample_weight, y.size)
    quantities = read_quantities(per_sample, y.size, offset_shape(model, classes.size))
    return Samples(X, y, classes, index, weights, groups, quantities)


def model_of(estimator: object) -> Any:
    """Return the model of a `Classifier` or a `ClassifierCV`; None of others, and where `fit` refuses it."""
    try:
        return getattr(estimator, "declared_model", None)
    except UCMError:
        return None


def requests_of(routing: MetadataRequest, model: Node | None) -> MetadataRequest:
    """Return the metadata requests of an estimator, with those of the quantities of its model.

    `fit` needs all of them, and a prediction the offset of the scores.
    """
    for name in () if model is None else quantities_of(model):
        routing.fit.add_request(param=name, alias=True)
    if offset := offset_of(model):
        for method in (routing.predict, routing.decision_function, routing.predict_proba, routing.score):
            method.add_request(param=offset, alias=True)
    return routing


def offset_of(model: Node | None) -> str | None:
    """Return the name of the offset of the scores; None without one."""
    offset = model.offset if isinstance(model, Objective) else None
    return None if offset is None else offset.name


def offset_shape(model: Node | None, classes: int) -> dict[str, tuple[int, ...]]:
    """Return {name: shape} of an offset of a sample, a number for each of several classes; {} without one."""
    name = offset_of(model)
    return {} if name is None else {name: (classes,) if classes > 2 else ()}


def offsets(model: Node, per_sample: Mapping[str, object], m: int, classes: int) -> NDArray[np.float64]:
    """Return the validated offset of the scores of m new samples, (m, classes), (m, 1) for two classes.

    Raises `DataError` where it is missing or no such array, `ParameterError` for any other name.
    """
    name = offset_of(model)
    if unused := [given for given in per_sample if given != name]:
        known = "no quantity" if name is None else repr(name)
        raise ParameterError(
            f"Classifier: expected {known} of each sample to predict from, got {unused[0]!r} too; leave it "
            "out"
        )
    if name is None:
        return np.zeros((m, 1))
    if name not in per_sample:
        raise DataError(
            f"per_sample({name!r}): expected the offset of the score of each sample, got none; give it, as "
            f"predict(X, {name}=values)"
        )
    return read_quantities(per_sample, m, offset_shape(model, classes))[name].reshape(m, -1)


def has_direction(model: RobustMargin | Objective, solution: Solution) -> bool:
    """True if the solution has a nonzero w, or the model is an `Objective`.

    For a set w = 0 means that 0 lies in the set, or that the set is empty.
    """
    w = solution.coefficients if solution.w is None else solution.w
    return isinstance(model, Objective) or bool(w is not None and w.any())


def with_bias(
    model: RobustMargin | Objective, plan: Plan, solution: Solution, rule: str, read_as: str | None
) -> Solution:
    """Return the solution, with a missing normal and bias for samples mapped by the `read_as` matrix."""
    lowering, answer, w = (solution.plan or plan).lowering, solution.answer, solution.w
    if read_as is None or solution.b is not None or w is None or not (answer and answer.q):
        return solution
    if not isinstance(model, RobustMargin) or not isinstance(lowering, DistanceLowering | SphereLowering):
        return solution
    b, rule_name, rho = bias(rule, model.set, lowering.image, lowering.data, answer.q, w, read_as)
    normal = feature_normal(model.set, w, read_as)
    return replace(solution, b=b, bias_rule=rule_name, rho=rho, normal=normal)


def normal_in_features(model: RobustMargin | Objective, solution: Solution, n: int) -> Vec:
    """Return w as a normal in the space of X, which has n features; raise an error for a set without it."""
    w = np.zeros(0) if solution.w is None else solution.w
    if isinstance(model, Objective) or solution.b is not None:
        return w if solution.normal is None else solution.normal
    if solution.certificate.kind == "none":
        raise SolverError(f"Classifier: {solution.message}")
    raise CompositionError(
        f"Classifier: w has {w.size} entries and lives in another space than X ({n} features); put all "
        "samples of U under one matrix, as in M @ (A - B), or name the class whose matrix maps a sample "
        'by read_as="pos" or read_as="neg", or take ucm.solve for w itself'
    )


def warn_if_doubtful(
    plan: Plan, solution: Solution, X: Matrix, signs: NDArray[np.int8], prefix: str, limit: float | None
) -> None:
    """Warn of a w that is not proven because 0 lies in the set, or that turns the classes round.

    In the convex regime w turns them round if it scores the mean of class -1 above the mean of class +1, as
    for `Hull(neg) - Hull(pos)`. The means are of at most `_FEW` samples of each class.
    """
    if isinstance(plan.model, Objective) or solution.b is None:
        return
    if solution.objective > 0.0 or solution.status == "zero_in_set":
        if solution.status in ("local", "stationary", "zero_in_set"):
            advice = plan.lowering.advice(Monitor(time_limit=limit))  # type: ignore[attr-defined]
            warn_of(
                f"Classifier: {prefix}0 lies in U, where the model is not convex: the status is "
                f"{solution.status!r}, the relative gap {solution.certificate.relative_gap:.2g}. {advice} A "
                "size Param(name, 0.5, relative=True) is the middle of the interval",
                NonConvexWarning,
            )
        return
    classes = (np.flatnonzero(signs == sign) for sign in (1, -1))
    samples = (X[rows[:: max(1, rows.size // _FEW)]] for rows in classes)
    positive, negative = (float(solution.decision(few).mean()) for few in samples)
    if positive < negative:
        warn_of(
            f"Classifier: {prefix}w'(mean of class +1 - mean of class -1) = {positive - negative:.3g} is "
            "negative: the scores of the classes are the wrong way round; write the set as one of class +1 "
            "minus one of class -1, as Hull(pos) - Hull(neg)",
            UserWarning,
        )


def scorer_of(who: str, name: str, estimator: Any, scoring: Any) -> Any:
    """Return the scorer of scikit-learn; raise `ParameterError`, with the given name, if none fits."""
    try:
        return check_scoring(estimator, scoring)
    except (ValueError, TypeError) as error:
        raise ParameterError(
            f"{who}: scoring={brief(scoring)} is no score of {name} "
            f"({' '.join(str(error).split())}); see sklearn.metrics.get_scorer_names()"
        ) from error


def counted(weights: Vec | None, classes: np.ndarray, index: NDArray[np.intp]) -> Vec:
    """Return the sum of the sample weights of every class; raise `DataError` if a sum is 0."""
    counts = np.bincount(index, weights, minlength=classes.size).astype(np.float64)
    if not counts.all():
        raise DataError(
            "sample_weight: expected samples of every class with a positive weight, got zeros for all of "
            f"class {classes.tolist()[int(np.argmin(counts))]!r}; leave the class out of X and y"
        )
    return counts


Fold = tuple[NDArray[np.intp], NDArray[np.intp]]


def folds_of(
    cv: object, y: np.ndarray, index: NDArray[np.intp], who: str, weights: Vec | None = None,
    groups: object = None,
) -> list[Fold]:  # fmt: skip
    """Return the validated cross-validation folds as pairs (train, test) of index arrays.

    The training part of a fold has samples of every class; with weights, its test part has a positive weight.

    `index` is the class index of each sample, `who` the caller, `groups` of a splitter such as `GroupKFold`.
    """
    classes, m = np.bincount(index), y.size
    if classes.min() < 2:
        raise DataError(
            f"{who}: every class needs samples to train on while others are held out, and a class has 1 "
            f"sample (n_samples={m}); add samples"
        )
    splitter: Any = LeaveOneOut() if isinstance(cv, str) and cv == "loo" else cv
    if isinstance(cv, int | np.integer):
        splitter = min(int(cv), int(classes.min()))
        if splitter < cv:
            warn_of(
                f"{who}: cv={cv}: the rarest class has {splitter} samples, so there are {splitter} folds; "
                f"add samples, or write cv={splitter}",
                UserWarning,
            )
    try:
        splitting: Any = check_cv(splitter, y, classifier=True)
        parts = list(splitting.split(np.zeros((m, 1)), y, groups))
        folds = [(_indices(train, m), _indices(test, m)) for train, test in parts]
    except (ValueError, TypeError, IndexError) as error:
        raise ParameterError(
            f"{who}: cv={brief(cv)} does not split these samples ({' '.join(str(error).split())}); cv is a "
            'number of folds from 2 on, "loo", a splitter (of groups with groups=), or pairs (train, test): '
            "write cv=5"
        ) from error
    if not folds or not all(part.size for fold in folds for part in fold):
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
            missing = y[index == int(np.argmin(counts))].tolist()[0]
            raise DataError(
                f"{who}: fold {k} of {len(folds)} has no sample of class {missing!r} to train on; "
                "stratify the folds, as cv=5 does, or add samples"
            )
    return folds


def _indices(part: ArrayLike, m: int) -> NDArray[np.intp]:
    """Return a part of a fold as indices, given as indices or as a boolean mask of all m samples."""
    part = np.asarray(part)
    if part.dtype != bool and (part < 0).any():
        raise IndexError(f"index {part.min()} is negative")
    return np.arange(m)[part]


# --- options -----------------------------------------------------------------------------------
def check_options(classifier: Any) -> None:
    """Check `time_limit` and the options with few values; raise `ParameterError` if one is invalid."""
    check_time_limit(classifier.time_limit, "Classifier")
    for name, spec, default in (
        ("read_as", optional(one_of("pos", "neg")), None),
        ("multi_class", one_of("auto", "ovo", "ovr"), "auto"),
        ("decision_function_shape", one_of("ovr", "ovo"), "ovr"),
        ("fit_intercept", FLAG, True),
    ):
        remedy = f"leave it out for {default!r}"
        spec.check("Classifier", name, getattr(classifier, name), remedy)


def kernel_options(classifier: Any, X: object, weights: Vec | None) -> tuple[Kernel | None, dict]:
    """Return the kernel, None if w is explicit, and the kernel options of `compile`.

    gamma and approximate features come from all samples of the fit. Without a kernel, or with approximate
    features, w is explicit and the kernel is None.
    """
    linear = classifier.kernel is None or classifier.kernel == "linear"
    if linear and classifier.kernel_approx is None:
        return None, {"kernel": None}
    if classifier.kernel_approx is not None:
        arguments = {"kernel_approx": classifier.kernel_approx}
        is_linear(classifier.kernel, arguments)
        if classifier.kernel is not None:
            arguments |= {name: getattr(classifier, name) for name in _OF_KERNELS}
        if isinstance(X, RowSource):
            features = row_features(type(classifier).__name__, X, classifier.kernel, arguments)
        else:
            features = features_of(classifier.kernel, X, weights, arguments)
        return None, {"kernel": None, "kernel_approx": features}
    options = {name: getattr(classifier, name) for name in _OF_KERNELS}
    kernel, _ = kernel_of(classifier.kernel, X, weights, **options)
    if kernel.name == "precomputed":
        check_gram(X)
    settled = {name: getattr(kernel, name) for name in _OF_KERNELS}
    return kernel, {"kernel": classifier.kernel, **settled}


def solve_options(classifier: Any, began: float) -> dict:
    """Return the options of `Plan.solve` for a fit, with the time limit counted from `began`."""
    return {
        "tol": classifier.tol,
        "max_iter": classifier.max_iter,
        "time_limit": limit_from(classifier.time_limit, began),
        "verbose": bool(classifier.verbose),
        "bias_rule": classifier.bias_rule,
    }
