"""Comparison of models and other estimators on the same folds: scores, certificates, significance tests."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import stdtr
from sklearn import config_context, get_config
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import column_or_1d, get_tags, indexable
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.validation import has_fit_parameter

from ucm.data.bound_data import bind, is_stored
from ucm.data.first_pass import refuse_gathering
from ucm.data.linear_map import Matrix, Vec
from ucm.data.options import COUNT, FLAG, OptionSpec, options_of
from ucm.data.readers import open_rows
from ucm.data.source import RowSource
from ucm.data.validation import (
    part_of,
    read_groups,
    read_quantities,
    read_weights,
    refuse_unsound,
    scale_hint,
)
from ucm.errors import (
    ConvergenceWarning,
    DataError,
    ParameterError,
    ScaleWarning,
    SolverError,
    UCMError,
    brief,
    silenced,
    unknown_option,
    warn_of,
)
from ucm.estimators.classifier import Classifier
from ucm.estimators.classifier_cv import ClassifierCV, HeldOutScores, headless, mapped
from ucm.estimators.out_of_core import check_folds
from ucm.estimators.progress import live_table
from ucm.estimators.validation import (
    cloned,
    folds_of,
    labels_of,
    model_of,
    offset_of,
    offset_shape,
    scorer_of,
)
from ucm.forms.display import Report, aligned, sheet
from ucm.forms.display import table as html_table
from ucm.forms.monitor import check_time_limit
from ucm.language import models as named_models
from ucm.language.losses import Hinge
from ucm.language.node import Node, as_declared
from ucm.ranges.relative_sizes import with_relative_sizes

Scoring = str | Callable[..., float] | None


GAMMAS = 5  # number of values of gamma that `tune` tries
LEVEL = 0.05  # significance level of the t tests
_SCORE = OptionSpec(
    "None, the name of one score or a function",
    lambda x: x is None or isinstance(x, str) or callable(x),
)
_FORMATS = {
    "score": ".4f", "error": ".4f", "seconds": ".2g", "gap": ".1e", "features": ".4g", "samples": ".4g",
}  # fmt: skip


@dataclass(frozen=True)
class Compared:
    """The results of one model or estimator on all folds: scores, seconds, gap, parameters, failures.

    Attributes
    ----------
    name : as it was given, or made up
    score, error : the mean over the folds and its standard error; None if a fold failed, the error also for
        one fold
    seconds : the median over the folds, with the choice of parameters; None if a fold failed
    gap : the worst proven relative duality gap; None for other estimators
    features, samples : mean numbers of features and samples that the classifier uses; None if unknown
    fold_scores, fold_seconds : (k,) of the folds, NaN if the fit or the score failed
    chosen : the parameters of each fold that worked
    fractions : the fractions of their intervals that were chosen with `tune=True`, of each such fold
    edges : {end: number of folds} that chose an end of a grid, as {"the largest C": 2}
    failures : {fold: reason}
    remark : how it differs from the best, in words
    difference : the mean of best - this, over the folds
    p_value : of that difference, by the corrected resampled t test; None for the best, and if there is none
    """

    name: str
    score: float | None
    error: float | None
    seconds: float | None
    gap: float | None
    features: float | None
    samples: float | None
    fold_scores: Vec
    fold_seconds: Vec
    chosen: tuple[dict[str, Any], ...]
    fractions: tuple[dict[str, Any], ...]
    edges: dict[str, int]
    failures: dict[int, str]
    remark: str = ""
    difference: float | None = None
    p_value: float | None = None

    @property
    def parameters(self) -> str:
        """The parameter ranges over the folds as text, with `tune=True` also as fractions of intervals."""
        words = {name: f"{name} {values}" for name, values in _ranges(self.chosen).items()}
        for name, part in _ranges(self.fractions).items():
            part = f"at {part} of the way through its admissible interval"
            words[name] = f"{words[name]} ({part})" if name in words else f"{name} {part}"
        return ", ".join(words.values())


def _ranges(chosen: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the range of each parameter over the folds as text, such as "0.1 to 0.3"."""
    ranges = {}
    for name in dict.fromkeys(name for one in chosen for name in one):
        values = [one[name] for one in chosen if name in one]
        try:
            ends = [f"{min(values):.3g}", f"{max(values):.3g}"]
            ranges[name] = " to ".join(dict.fromkeys(ends))
        except (TypeError, ValueError):
            ranges[name] = " or ".join(dict.fromkeys(map(str, values)))
    return ranges


@dataclass(frozen=True, repr=False)
class Comparison(Report[Compared]):
    """The result of `ucm.compare`: a sequence of `Compared`, best mean score first, failures last.

    Attributes
    ----------
    compared : the models, in that order
    scoring : what the scores are
    folds : how many folds there are
    note : the test behind the remarks
    """

    compared: tuple[Compared, ...]
    scoring: str
    folds: int
    note: str = ""
    _listed = "compared"

    def rows(self) -> list[dict]:
        """Return one dict for each model: name, score, error, seconds, gap, parameters, p value, remark."""
        columns = (*_FORMATS, "parameters", "difference", "p_value", "remark")
        return [
            {"model": one.name, **{name: getattr(one, name) for name in columns}} for one in self.compared
        ]

    def plot(self, ax: object = None) -> Any:
        """Plot the mean scores with their standard errors as error bars, and return the axes.

        `pandas.DataFrame.plot` draws the picture.

        Raises
        ------
        MissingExtraError
            pandas is not installed.
        """
        rows: Any = self.to_frame().dropna(subset="score").iloc[::-1].reset_index()
        label = f"{self.scoring}, {self.folds} folds"
        drawn: Any = rows.plot.scatter(
            x="score", y="index", xerr="error", s=50, xlabel=label, ylabel="", ax=ax
        )
        drawn.set_yticks(rows.index, rows["model"])
        return drawn

    def _cells(self) -> list[tuple[str, ...]]:
        """Return the text of all table cells: the row of column names, then one row for each model."""
        rows: list[tuple[str, ...]] = [("model", self.scoring, "±", *list(_FORMATS)[2:], "parameters")]
        for row in self.rows():
            numbers = ["" if row[n] is None else format(row[n], f) for n, f in _FORMATS.items()]
            rows.append((row["model"], numbers[0] or "failed", *numbers[1:], row["parameters"]))
        return rows

    def __repr__(self) -> str:
        return f"Comparison({len(self)} models, {self.folds} folds, {self.scoring})"

    def __str__(self) -> str:
        lines = aligned(self._cells(), right=range(1, len(_FORMATS) + 1))
        lines += ["", *(f"{one.name}: {one.remark}" for one in self.compared if one.remark)]
        lines += [
            f"{one.name}: {end} that was tried is the best one on {count} of {self.folds} folds; try "
            f"{'smaller' if 'smallest' in end else 'larger'} values too"
            for one in self.compared
            for end, count in one.edges.items()
        ]
        return "\n".join([*lines, *([self.note] if self.note else [])])

    def _repr_html_(self) -> str:
        head, *rows = self._cells()
        marks = ["grey" if one.failures else "bold" * (k == 0) for k, one in enumerate(self)]
        remarks = [(*row, one.remark) for row, one in zip(rows, self.compared, strict=True)]
        return sheet(repr(self), {}, html_table(remarks, (*head, "remark"), marks), self.note)


def compare(
    models: object, X: object, y: object = None, *, cv: Any = 5, scoring: Scoring = None,
    sample_weight: object = None, subgroup: object = None, groups: object = None, per_sample: object = None,
    tune: bool = False, n_values: int = 10, n_jobs: int | None = None, time_limit: float | None = None,
    progress: bool = True, **unknown: object,
) -> Comparison:  # fmt: skip
    """Cross-validate models and estimators on the same folds, and test the differences from the best.

    Fits and scores are those of `sklearn.model_selection.cross_validate`. A model whose fit or score fails
    on a fold has no mean score.

    Parameters
    ----------
    models : list, or dict {name: model}
        Declared models, which stand for `ucm.Classifier(model)`, and scikit-learn classifiers.
    X : (m, n) array, data frame or sparse matrix, or an argument of `ucm.open_rows`
        The samples. Rows that are read block by block take models, `Classifier` and `ClassifierCV`, a number
        of folds and the accuracy.
    y : (m,) labels
        Of two classes or more; of a file also the name of their column.
    cv : int, "loo", splitter or iterable of (train, test), default=5
        As for `ClassifierCV`.
    scoring : str or callable, optional
        As in scikit-learn; larger is better. None means accuracy.
    sample_weight, subgroup : (m,) arrays, optional
        As in `ucm.compile`, for the fits that accept them; weights count in the scores too. An estimator
        whose `fit` takes no weights is refused with them. With metadata routing they go to the fits that
        request them, as the steps of a pipeline can; a declared model requests both.
    groups : (m,) array, optional
        The group of every sample, for a splitter `cv` that keeps groups together, such as `GroupKFold`, and
        for a `ClassifierCV` with such a splitter.
    per_sample : {name: (m,) array}, optional
        The values of quantities `ucm.per_sample(name)`, for the models that declare them.
    tune : bool, default=False
        Choose the sizes of declared models in each fold, by `ClassifierCV` with 5 folds of its training part:
        the relative `Param`s, else the `Param`s that are sizes of sets or have a lam_max, else the numeric
        sizes. Several sizes move together, as fractions of their admissible intervals. A factor without a
        lam_max, as C, has values over three decades on both sides of the present one, and gamma of a kernel,
        unless it is a number, values about "scale". A pipeline that ends in a `Classifier` is tuned with all
        its steps inside the folds. Other estimators are fitted as they are.
    n_values : int, default=10
        Number of values of a size that `tune` tries.
    n_jobs : int, optional
        Number of fits at a time, in threads; seconds then include waiting.
    time_limit : float, optional
        Seconds for all fits. A fit of this library ends with the gap that is proven by then; a fit that did
        not begin in time counts as failed. Fits of other estimators are not interrupted.
    progress : bool, default=True
        Print a line on standard error for each model that is finished; in a terminal or a notebook a table of
        the models that are finished, and the fits that are not.
    **unknown
        Refused, with the nearest option.

    Returns
    -------
    Comparison
        One row for each model, with text, HTML, `to_frame()` and `plot()`.

    Raises
    ------
    ParameterError
        No models, an entry that is no model, or an option outside its range.
    CompositionError
        A declaration that is no model.
    DataError
        X and y of different lengths, one class, or too few samples for the folds.

    Notes
    -----
    Each model is compared with the best by paired differences d of the k folds: with n_test / n_train the
    ratio of their sizes, ``mean(d) / sqrt((1 / k + n_test / n_train) var(d))`` is taken for Student's t with
    k - 1 degrees of freedom, the corrected resampled t test of Nadeau and Bengio (2003), "Inference for the
    generalization error". Warnings about fits that do not reach their tolerance are not shown: the gap is in
    the table.

    Examples
    --------
    >>> import ucm
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = ucm.datasets.load("wine")
    >>> models = [ucm.models.nu_svm(0.3), LogisticRegression(max_iter=5000)]
    >>> found = ucm.compare(models, X, y, cv=3, progress=False)
    >>> sorted(row["model"] for row in found.rows())
    ['LogisticRegression', 'nu_svm']
    """
    if unknown:
        raise unknown_option("compare", unknown, options_of(compare))
    estimators = _estimators(models)
    _SCORE.check("compare", "scoring", scoring, 'write "roc_auc"')
    COUNT.check("compare", "n_values", n_values, "write n_values=10")
    FLAG.check("compare", "tune", tune, "leave it out for False")
    fold: Callable[..., _Fold]
    if is_stored(X):
        source = open_rows(X, y, sample_weight=sample_weight, subgroup=subgroup)
        if per_sample:
            raise ParameterError(
                "compare: per_sample: expected none for rows that are read block by block, got "
                f"{brief(per_sample)}; leave it out, or give the samples in memory"
            )
        check_folds("compare", cv, scoring, groups)
        if tune:
            refuse_gathering(source, "compare with tune=True", "a ClassifierCV with param_range=[...]")
        for name, estimator in estimators.items():
            if not isinstance(estimator, Classifier | ClassifierCV):
                refuse_gathering(source, f"{name}, a {type(estimator).__name__},", "declared models")
        folds: list[tuple[Any, Any]] = list(source.split(cv))
        sizes = [(train.m, test.m) for train, test in folds]
        fold = _fold_of_rows
    else:
        X, y, index = _samples(X, y)
        tags: dict = {"sample_weight": read_weights(sample_weight, index.size)}
        if subgroup is not None:
            tags["subgroup"] = read_groups(subgroup, index.size).astype(object)
        shapes: dict[str, tuple[int, ...]] = {}
        for estimator in estimators.values():
            shapes |= offset_shape(model_of(estimator), int(index.max()) + 1)
        quantities = read_quantities(per_sample, index.size, shapes)
        if unused := [n for n in quantities if not any(_takes(e, n) for e in estimators.values())]:
            raise ParameterError(
                f"compare: per_sample: expected quantities that a model declares, got {unused[0]!r}; correct "
                f"the name, leave it out, or write per_sample({unused[0]!r}) in a model"
            )
        tags |= quantities
        table = X if sparse.issparse(X) else np.asarray(X)
        folds = folds_of(cv, y, index, "compare", tags["sample_weight"], groups)
        tags |= {} if groups is None else {"groups": np.asarray(groups)}
        sizes = [(train.size, test.size) for train, test in folds]
        if tune:
            estimators = _tuned(estimators, X, y, index, tags, scoring, n_values)
        _check_estimators(estimators, scoring, tags)
        _warn_of_scales(estimators, table)
        fold = partial(_fold, scoring, X, y, tags)

    check_time_limit(time_limit, "compare")
    began = time.perf_counter()
    config = get_config()  # scikit-learn's configuration is one of a thread

    def work(name: str, k: int) -> tuple[str, int, _Fold]:
        try:
            with (
                config_context(**config),
                silenced(ConvergenceWarning, ScaleWarning),
            ):  # `_warn_of_scales` warns once
                return name, k, fold(_within(estimators[name], time_limit, began), *folds[k])
        except Exception as error:  # any error of an estimator: its row states the reason
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            return name, k, _Fold({}, {}, failure=reason)

    results: dict[str, dict[int, _Fold]] = {name: {} for name in estimators}
    parallel = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator_unordered")
    finished: Any = parallel(delayed(work)(*task) for task in product(estimators, range(len(folds))))
    word = scoring if isinstance(scoring, str) else getattr(scoring, "__name__", "score")

    def judged() -> Comparison:
        """Return the comparison of the models that are finished."""
        done = {name: parts for name, parts in results.items() if len(parts) == len(folds)}
        rows = [_row(name, [parts[k] for k in range(len(folds))]) for name, parts in done.items()]
        return _judged(rows, sizes, "accuracy" if scoring is None else word)

    with live_table(progress) as show:
        for name, k, result in finished:
            results[name][k] = result
            seconds = f"{time.perf_counter() - began:.1f} s"
            if show:
                count = sum(map(len, results.values()))
                fits = f"{count} of {len(results) * len(folds)} fits after {seconds}"
                show(f"{judged()}\n{fits}" if count < len(results) * len(folds) else fits)
            elif progress and len(results[name]) == len(folds):
                print(f"compare: {name}: finished after {seconds}", file=sys.stderr, flush=True)
    return judged()


# --- input -----------------------------------------------------------------------------------------
def _samples(X: object, y: object) -> tuple[Matrix, np.ndarray, NDArray[np.intp]]:
    """Validate X and y, and return the samples, the labels and the class index of each sample."""
    refuse_unsound(X, "compare: X")
    try:
        X, y = indexable(X if hasattr(X, "shape") else np.asarray(X), y)
        labels = column_or_1d(y)
        return X, labels, labels_of(labels)[1]
    except UCMError:
        raise
    except (ValueError, TypeError) as error:
        raise DataError(
            f"compare: expected samples and one label for each, got {brief(X)} and {brief(y)} "
            f"({' '.join(str(error).split())}); give a table and as many labels"
        ) from error


def _check_estimators(
    estimators: Mapping[str, BaseEstimator], scoring: Scoring, tags: Mapping[str, np.ndarray | None]
) -> None:
    """Raise `ParameterError` for an estimator without support for the scoring or the sample weights."""
    for name, estimator in estimators.items():
        scorer_of("compare", name, estimator, scoring)
        if tags["sample_weight"] is not None and not _takes(estimator, "sample_weight"):
            raise ParameterError(
                f"compare: expected estimators whose fit takes sample_weight, got {name}, a "
                f"{type(estimator).__name__}; leave it out, compare without weights, or request them by "
                "set_fit_request(sample_weight=True) with metadata routing"
            )


def _takes(estimator: BaseEstimator, tag: str) -> bool:
    """True if `fit` has this argument; with metadata routing, if it or a step inside requests the tag."""
    match estimator:
        case Classifier() | ClassifierCV() if tag not in ("sample_weight", "subgroup"):
            return estimator.get_metadata_routing().fit.requests.get(tag) is True
    if get_config()["enable_metadata_routing"]:
        return tag in get_routing_for_object(estimator).consumes("fit", [tag])
    return has_fit_parameter(estimator, tag)


def _requesting(clf: Any) -> Any:
    """Return the classifier of a declared model; with metadata routing it requests weights and groups."""
    routed = get_config()["enable_metadata_routing"]
    return clf.set_fit_request(sample_weight=True, subgroup=True) if routed else clf


def _warn_of_scales(estimators: Mapping[str, BaseEstimator], table: Matrix) -> None:
    """Warn once of features with different scales, in place of one warning for each fit."""
    unscaled = (
        isinstance(estimator, Classifier | ClassifierCV)
        and not isinstance(getattr(estimator, "estimator", None), Pipeline)  # a pipeline may scale
        and not get_tags(estimator).input_tags.pairwise
        for estimator in estimators.values()
    )
    if table.dtype.kind in "biuf" and any(unscaled) and (hint := scale_hint(table)):
        warn_of(f"compare: {hint}, and mostly improves it", ScaleWarning)


def _tuned(
    estimators: Mapping[str, BaseEstimator], X: Any, y: np.ndarray, index: NDArray[np.intp],
    tags: Mapping[str, np.ndarray | None], scoring: Scoring, n_values: int,
) -> dict[str, BaseEstimator]:  # fmt: skip
    """Return the estimators, with a `ClassifierCV` in place of each one with sizes to choose.

    These are the `Classifier`s, and the pipelines that end in one.
    """
    rows = np.flatnonzero(index < 2)  # two classes show which parameters are sizes
    known_tags: dict[str, Any] = {name: v[rows] for name, v in tags.items() if v is not None}
    options = {name: known_tags.pop(name) for name in ("sample_weight", "subgroup") if name in known_tags}
    signs, tuned = np.where(index[rows] == 0, -1.0, 1.0), dict(estimators)
    for name, estimator in estimators.items():
        head = headless(estimator)
        clf: Any = estimator if head is None else estimator.steps[-1][1]  # type: ignore[attr-defined]
        if not isinstance(clf, Classifier):
            continue
        try:
            table = X if head is None else mapped(head, X, y)[0]
            table = table if sparse.issparse(table) else np.asarray(table)
            data = bind(table[rows], signs, per_sample=known_tags, **options)
            relative = with_relative_sizes(clf.declared_model, data)
        except Exception:  # the folds report an error of the model, of a step or of the samples
            continue
        if not relative.params():
            continue
        moved = None if relative.relative_names() else next(iter(relative.params()))
        ranges = {moved: n_values}
        if clf.kernel not in (None, "linear", "precomputed") and clf.gamma in ("scale", "auto"):
            ranges["gamma"] = GAMMAS
        search = cloned(estimator)
        search.set_params(**{"model" if head is None else f"{head.steps[-1][0]}__model": relative})
        tuned[name] = _requesting(ClassifierCV(search, param_range=ranges, scoring=scoring))
    return tuned


def _estimators(models: object) -> dict[str, BaseEstimator]:
    """Return {name: estimator} for a dict or a list of models; list entries are named by `_name_of`."""
    pairs: list[tuple[object, object]] = []
    match models:
        case Mapping():
            pairs = list(models.items())
        case str() | Node() | BaseEstimator():
            pass
        case Iterable():
            pairs = [(None, model) for model in models]
    if not pairs:
        raise ParameterError(
            f"compare: expected a list of models or a dict {{name: model}}, got {brief(models)}; write for "
            "example [ucm.models.nu_svm(0.3), ucm.models.mm_fda(0.1)]"
        )
    estimators: dict[str, BaseEstimator] = {}
    model: Any
    for name, model in pairs:
        if isinstance(model, Node):
            as_declared(model, "compare")  # refuses other nodes
            model = _requesting(Classifier(model))  # type: ignore[arg-type]
        methods = ("fit", "predict", "get_params")
        if isinstance(model, type) or not all(callable(getattr(model, w, None)) for w in methods):
            raise ParameterError(
                f"compare: expected a declared model or a scikit-learn classifier, got {brief(model)}; write "
                "for example ucm.models.nu_svm(0.3) or sklearn.svm.SVC()"
            )
        base = _name_of(model) if name is None else str(name)
        names = (base, *(f"{base} ({k})" for k in range(2, len(pairs) + 2)))
        estimators[next(word for word in names if word not in estimators)] = model
    return estimators


def _name_of(estimator: object) -> str:
    """Return a display name: the name in `ucm.models`, the text of a model, or the estimator's class."""
    if not isinstance(estimator, Classifier):
        steps = [step for _, step in getattr(estimator, "steps", ())] or [estimator]
        return " + ".join(type(step).__name__ for step in steps)
    model: Any = estimator.declared_model if estimator.model is None else estimator.model
    powers = [{"p": node.p} for node in model.nodes_of_type(Hinge)]
    for name, power in product(named_models.__all__, [{}, *powers]):
        try:
            if getattr(named_models, name)(**model.params(), **power) == model:
                return name
        except (TypeError, UCMError):
            continue
    text = str(model)
    return text if len(text) <= 28 else f"{text[:27]}…"


def _within(estimator: BaseEstimator, time_limit: float | None, began: float) -> BaseEstimator:
    """Return an estimator that ends within the time limit; raise `SolverError` if the time is over."""
    if time_limit is None:
        return estimator
    left = time_limit - (time.perf_counter() - began)
    if left <= 0.0:
        raise SolverError(f"compare: the time limit of {time_limit:g} s ended before this fit; raise it")
    limited = cloned(estimator)
    for option in [name for name in limited.get_params() if name.rpartition("__")[2] == "time_limit"]:
        own = limited.get_params()[option]
        limited.set_params(**{option: left if own is None else min(own, left)})
    return limited


# --- one fold --------------------------------------------------------------------------------------
class _Fold(NamedTuple):
    """The results of one estimator on one fold, or the reason of a failed fit or score."""

    chosen: dict[str, Any]
    fractions: dict[str, Any]
    score: float = math.nan
    seconds: float = math.nan
    gap: float | None = None
    features: int | None = None
    samples: int | None = None
    edges: tuple[str, ...] = ()
    failure: str = ""


def _fold(
    scoring: Scoring, X: Matrix, y: np.ndarray, tags: Mapping[str, np.ndarray | None],
    estimator: BaseEstimator, train: NDArray[np.intp], test: NDArray[np.intp],
) -> _Fold:  # fmt: skip
    """Return the results of a clone that is fitted to the training part and scored on the test part."""
    # `cross_validate` would stop at the first failure, and sets the warning filters of all threads.
    scorer = scorer_of("compare", "an estimator", estimator, scoring)
    columns = (train,) if get_tags(estimator).input_tags.pairwise else ()
    weights = {}
    if tags["sample_weight"] is not None and (scoring is None or hasattr(scorer, "set_score_request")):
        weights = {"sample_weight": tags["sample_weight"][test]}  # a plain function takes none
    given = {n: v[train] for n, v in tags.items() if v is not None and _takes(estimator, n)}
    fitted, seconds = _fitted(estimator, part_of(X, train, *columns), y[train], **given)
    name, held = offset_of(model_of(estimator)), part_of(X, test, *columns)
    offset = {name: tags[name][test]} if name in given else {}  # type: ignore[index]
    judged = HeldOutScores.at(getattr(fitted, "best_estimator_", fitted), held, offset) if offset else fitted
    score = scorer(judged, held, y[test], **weights)
    return _described(fitted, float(score), seconds)


def _fold_of_rows(estimator: BaseEstimator, train: RowSource, test: RowSource) -> _Fold:
    """Return the results of a clone fitted to out-of-core training rows and scored on the test rows."""
    fitted, seconds = _fitted(estimator, train)
    return _described(fitted, float(fitted.score(test)), seconds)


def _fitted(estimator: BaseEstimator, *samples: object, **tags: object) -> tuple[Any, float]:
    """Return a fitted clone of an estimator, and the seconds of its fit."""
    began = time.perf_counter()
    fitted: Any = cloned(estimator)
    fitted.fit(*samples, **tags)
    return fitted, time.perf_counter() - began


def _described(fitted: Any, score: float, seconds: float) -> _Fold:
    """Return the `_Fold` of a fitted estimator: its score, seconds, gap, used features and samples."""
    best = getattr(fitted, "best_estimator_", fitted)
    last = best.steps[-1][1] if hasattr(best, "steps") else best
    w, support = getattr(last, "coef_", None), getattr(last, "support_", None)
    params, fractions = dict(getattr(fitted, "best_params_", {})), {}
    proofs = []
    if isinstance(last, Classifier):
        proofs = last.certificate_ if isinstance(last.certificate_, list) else [last.certificate_]
        if isinstance(fitted, ClassifierCV):
            params = {_bare(name): x for name, x in params.items()}
            fractions = {n: params.pop(n) for n in last.declared_model.relative_names() if n in params}
        if len(proofs) == 1:
            params |= last.solution_.params
        else:  # the two-class problems have different values of relative parameters
            params |= {n: x for n, x in last.declared_model.params().items() if n not in fractions}
    return _Fold(
        params,
        fractions,
        score,
        seconds,
        max((proof.relative_gap for proof in proofs), default=None),
        None if w is None else int(np.asarray(w != 0.0).any(axis=0).sum()),
        None if support is None else len(support),
        tuple(_edges(fitted)),
    )


def _bare(name: str) -> str:
    """Return the name of a parameter without the prefixes of the model and of the step of a pipeline."""
    return name.rpartition("__")[2]


def _edges(search: Any) -> Iterator[str]:
    """Yield the parameters with the smallest or the largest tried value, as "the largest C"."""
    for name, best in getattr(search, "best_params_", {}).items():
        tried = [one[name] for one in search.cv_results_["params"] if name in one]
        ordered = all(isinstance(x, Real) for x in tried)
        if ordered and min(tried) < max(tried) and best in (min(tried), max(tried)):
            yield f"the {'smallest' if best == min(tried) else 'largest'} {_bare(name)}"


# --- all of them -----------------------------------------------------------------------------------
def _row(name: str, folds: list[_Fold]) -> Compared:
    failures = {k: fold.failure for k, fold in enumerate(folds) if fold.failure}
    worked, k = [fold for fold in folds if not fold.failure], len(folds)

    def over_folds(entry: str, reduction: Callable[[Vec], float]) -> float | None:
        numbers = [getattr(fold, entry) for fold in folds]
        return None if failures or None in numbers else float(reduction(np.array(numbers)))

    remark = ""
    if failures:
        first, reason = next(iter(failures.items()))
        remark = f"failed on {len(failures)} of {k} folds, on fold {first + 1} by {reason}"
    return Compared(
        name,
        score=over_folds("score", np.mean),
        error=None if k < 2 else over_folds("score", lambda x: x.std(ddof=1) / math.sqrt(k)),
        seconds=over_folds("seconds", np.median),
        gap=over_folds("gap", np.max),
        features=over_folds("features", np.mean),
        samples=over_folds("samples", np.mean),
        fold_scores=np.array([fold.score for fold in folds]),
        fold_seconds=np.array([fold.seconds for fold in folds]),
        chosen=tuple(fold.chosen for fold in worked),
        fractions=tuple(fold.fractions for fold in worked),
        edges=dict(Counter(name for fold in worked for name in fold.edges)),
        failures=failures,
        remark=remark,
    )


def _judged(rows: list[Compared], folds: list[tuple[int, int]], scoring: str) -> Comparison:
    """Return the `Comparison`: the models sorted by mean score, each tested against the best.

    `folds` holds the numbers of training and test samples.
    """
    complete = sorted((r for r in rows if not r.failures), key=lambda r: -(r.score or 0.0))
    ratio = float(np.mean([test / train for train, test in folds]))
    judged = [_beside(one, complete[0], ratio) for one in complete] + [r for r in rows if r.failures]
    note = (
        f"Differences by the corrected resampled t test (Nadeau and Bengio 2003) over {len(folds)} folds; p "
        "is not corrected for the number of models, nor for choosing the best by the same folds."
    )
    return Comparison(tuple(judged), scoring, len(folds), note if len(complete) > 1 else "")


def _beside(one: Compared, best: Compared, ratio: float) -> Compared:
    """Return the row with its difference from the best row, the p value and a remark."""
    d = best.fold_scores - one.fold_scores
    mean, p = float(d.mean()), corrected_t_test(d, ratio)
    if one is best:
        remark, p = "best mean score", None
    elif not d.any():
        remark, p = f"equal to {best.name} on every fold", 1.0
    elif p is None:
        remark = f"{mean:.4f} behind {best.name}, not tested: there is one fold"
    else:
        sure = "" if p < LEVEL else "not "
        remark = f"{mean:.4f} behind {best.name}, {sure}significantly different (p = {p:.2g})"
    return replace(one, remark=remark, difference=mean, p_value=p)


def corrected_t_test(d: NDArray[np.float64], ratio: float) -> float | None:
    """Return the two-sided p value of the corrected resampled t test of k paired differences; None for k = 1.

    Parameters
    ----------
    ratio : n_test / n_train
    """
    k = d.size
    if k < 2:
        return None
    spread = float(d.var(ddof=1))
    if spread <= 1e-30:  # the same on every fold
        return 1.0 if abs(float(d.mean())) <= 1e-15 else 0.0
    t = abs(float(d.mean())) / math.sqrt((1.0 / k + ratio) * spread)
    return float(2.0 * stdtr(k - 1, -t))
