"""Models and other estimators on the same folds: scores with errors, proofs, differences."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from scipy.special import stdtr
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.utils import _safe_indexing, column_or_1d, indexable

from ucm.compiler.path import path
from ucm.data.bound import Data, bind
from ucm.errors import (
    CompositionError,
    ConvergenceWarning,
    DataError,
    ParameterError,
    UCMError,
    brief,
)
from ucm.estimators.classifier import Classifier
from ucm.estimators.validation import labels_of
from ucm.evidence.relative import resolved, with_relative_sizes
from ucm.forms.display import frame, sheet
from ucm.forms.display import table as html_table
from ucm.forms.solution import Solution
from ucm.language import models as named_models
from ucm.language.node import Node
from ucm.language.objective import Objective
from ucm.language.robust import as_model

__all__ = ["Compared", "Comparison", "compare"]

INNER = 3  # folds of the training part, on which parameters are chosen
LEVEL = 0.05  # of the tests
_LOWEST = 1e-3  # the smallest fraction of lam_max
_OF_A_PATH = ("model", "solver", "tol", "max_iter", "time_limit", "bias")


@dataclass(frozen=True)
class Compared:
    """One model over all folds.

    Attributes
    ----------
    name : as it was given, or made up
    fold_scores, fold_seconds : (k,) of the folds; NaN where the fit or the score failed
    gap : the worst relative duality gap proven; None of other estimators
    features, samples : how many of them the fit uses, in the mean over the folds; None where it does not say
    chosen : the parameters of each fold that worked
    failures : {fold: reason}
    remark : how it differs from the best, in words
    difference : the mean of best - this, over the folds
    p_value : of that difference, by the corrected resampled t test; None of the best, and where there is none
    ours : whether it is a `ucm.Classifier`
    """

    name: str
    fold_scores: NDArray[np.float64]
    fold_seconds: NDArray[np.float64]
    gap: float | None
    features: float | None
    samples: float | None
    chosen: tuple[dict[str, Any], ...]
    failures: dict[int, str]
    remark: str = ""
    difference: float | None = None
    p_value: float | None = None
    ours: bool = True

    @property
    def score(self) -> float | None:
        """The mean over all folds; None where one failed."""
        return None if self.failures else float(self.fold_scores.mean())

    @property
    def error(self) -> float | None:
        """The standard error of the mean over the folds."""
        k = self.fold_scores.size
        if self.failures or k < 2:
            return None
        return float(self.fold_scores.std(ddof=1) / math.sqrt(k))

    @property
    def seconds(self) -> float | None:
        """The median time of a fit; None where a fold failed."""
        return None if self.failures else float(np.median(self.fold_seconds))

    @property
    def parameters(self) -> str:
        """What was chosen inside the folds, from the least to the largest."""
        words = []
        for name in dict.fromkeys(name for one in self.chosen for name in one):
            found = [one[name] for one in self.chosen if name in one]
            try:
                low, high = f"{min(found):.3g}", f"{max(found):.3g}"
                words.append(f"{name} {low}" + (f" to {high}" if high != low else ""))
            except (TypeError, ValueError):
                words.append(f"{name} {' or '.join(dict.fromkeys(map(str, found)))}")
        return ", ".join(words)


@dataclass(frozen=True, repr=False)
class Comparison(Sequence[Compared]):
    """Models over the same folds, the best first, those that failed last; a sequence of `Compared`.

    Attributes
    ----------
    compared : the models, in that order
    scoring : what the scores are
    folds : how many folds there are
    note : what the remarks rest on
    """

    compared: tuple[Compared, ...]
    scoring: str
    folds: int
    note: str = ""

    def __len__(self) -> int:
        return len(self.compared)

    def __getitem__(self, index: Any) -> Any:
        return self.compared[index]

    def rows(self) -> list[dict[str, Any]]:
        """One row for each model: name, score and its error, seconds, proof, what it uses, remark."""
        return [
            {
                "model": one.name,
                "score": one.score,
                "error": one.error,
                "seconds": one.seconds,
                "gap": one.gap,
                "features": one.features,
                "samples": one.samples,
                "parameters": one.parameters,
                "difference": one.difference,
                "p_value": one.p_value,
                "remark": one.remark,
            }
            for one in self.compared
        ]

    def to_frame(self) -> Any:
        """`rows()` as a `pandas.DataFrame`.

        Raises
        ------
        MissingExtraError
            pandas is not installed.
        """
        return frame("Comparison", self.rows())

    def __repr__(self) -> str:
        return f"Comparison({len(self)} models, {self.folds} folds, {self.scoring})"

    def __str__(self) -> str:
        head = ("model", self.scoring, "seconds", "gap", "features", "samples", "parameters")
        lines = [head, *(_cells(row) for row in self.rows())]
        widths = [max(len(line[k]) for line in lines) for k in range(len(head))]
        text = []
        for line in lines:
            cells = [
                cell.ljust(n) if k in (0, 6) else cell.rjust(n)
                for k, (cell, n) in enumerate(zip(line, widths, strict=True))
            ]
            text.append("  ".join(cells).rstrip())
        text += ["", *(f"{one.name}: {one.remark}" for one in self.compared if one.remark)]
        return "\n".join([*text, *([self.note] if self.note else [])])

    def _repr_html_(self) -> str:
        head = (
            "model",
            self.scoring,
            "±",
            "seconds",
            "gap",
            "features",
            "samples",
            "parameters",
            "remark",
        )
        wanted = ("score", "error", "seconds", "gap", "features", "samples")
        rows = [
            (r["model"], *(_rounded(r[n], 4) for n in wanted), r["parameters"], r["remark"])
            for r in self.rows()
        ]  # fmt: skip
        marks = ["grey" if one.failures else "" for one in self.compared]
        if marks and not marks[0]:
            marks[0] = "bold"
        return sheet(repr(self), {}, html_table(rows, head, marks), self.note)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    score = "failed" if row["score"] is None else f"{row['score']:.4f}"
    if row["error"] is not None:
        score += f" ± {row['error']:.4f}"
    entries = {"seconds": ".2g", "gap": ".1e", "features": ".4g", "samples": ".4g"}
    return (
        row["model"],
        score,
        *("" if row[name] is None else format(row[name], form) for name, form in entries.items()),
        row["parameters"],
    )


def _rounded(x: float | None, digits: int) -> float | None:
    return None if x is None else float(f"{x:.{digits}g}")


def compare(
    models: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    scoring: str | Callable[..., float] | None = None,
    search: str | None = None,
    values: int = 10,
    n_jobs: int | None = None,
    progress: bool = True,
) -> Comparison:
    """Score models and other estimators on the same folds, and say what the differences are worth.

    Every fit is of a clone, to the training part of a fold alone. Where one fails, its model has no score:
    the mean of the other folds is not given in its place.

    Parameters
    ----------
    models : list, or dict {name: model}
        Declared models, taken as `ucm.Classifier(model)`, and scikit-learn classifiers in any mixture.
    X : (m, n) array, data frame or sparse matrix
        The samples.
    y : (m,) labels
        Of two classes or more.
    cv : int, splitter or iterable of (train, test), default=5
        As in scikit-learn; a number means so many stratified folds, in the order of the samples.
    scoring : str or callable, optional
        As in scikit-learn; larger is better. None means accuracy.
    search : None or "relative sizes"
        Whether the sizes of declared models are chosen, inside of each fold, by 3 stratified folds of its
        training part, as fractions of the admissible interval there. Moved are the `Param`s that are
        relative; else those that are sizes of sets or factors of penalties; of a model without a `Param`,
        its numeric sizes. Several move together. Other estimators are fitted as they are.
    values : int, default=10
        So many fractions: of sets at equal distances, both ends left out; of objectives from a thousandth
        up at equal ratios, 1 left out. Each is solved from the one before it where that is `ucm.path`.
    n_jobs : int, optional
        Fits at a time, in threads; seconds then hold what they wait for each other.
    progress : bool, default=True
        Show a bar on standard error, where that is a terminal.

    Returns
    -------
    Comparison
        One row for each model; it prints, has HTML and goes to a frame.
        `ucm.plot.ComparisonDisplay.from_comparison` draws it.

    Raises
    ------
    ParameterError
        No models, one that is none, or an option outside its range.
    CompositionError
        A declaration that is no model.
    DataError
        X and y are of different lengths, one class, or too few samples for the folds.

    Notes
    -----
    Each model is compared with the best by paired differences d of the k folds: with n_test / n_train the
    ratio of their sizes, ``mean(d) / sqrt((1 / k + n_test / n_train) var(d))`` is taken for Student's t with
    k - 1 degrees of freedom, the corrected resampled t test of Nadeau and Bengio (2003), "Inference for the
    generalization error". Warnings of fits that do not reach their tolerance are not shown: the gap is in
    the table.

    Examples
    --------
    >>> import ucm
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = ucm.datasets.load("wine")
    >>> found = ucm.compare([ucm.models.nu_svm(0.3), LogisticRegression(max_iter=5000)], X, y, cv=3)
    >>> sorted(row["model"] for row in found.rows())
    ['LogisticRegression', 'nu_svm']
    """
    X, y, classes, index = _samples(X, y)
    named = _estimators(models)
    _check_options(scoring, search, values, n_jobs, progress)
    splits = _splits(cv, X, y)
    data = _data(X, index) if search else None
    tasks = []
    for name, estimator in named.items():
        score = _scorer(estimator, scoring, name)
        relative = _relative(estimator, data) if data is not None else None
        for fold, split in enumerate(splits):
            tasks.append((name, fold, estimator, relative, score, split))

    def work(task: Any) -> tuple[str, int, _Fold | str]:
        name, fold, estimator, relative, score, split = task
        try:
            return name, fold, _fold(estimator, relative, values, score, X, y, classes, *split)
        except Exception as error:  # of any estimator: its row says so
            return name, fold, f"{type(error).__name__}: {' '.join(str(error).split())}"

    results: dict[str, dict[int, _Fold | str]] = {name: {} for name in named}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name, fold, result in _shown(_run(work, tasks, n_jobs), len(tasks), progress):
            results[name][fold] = result
    rows = [
        _row(name, [results[name][fold] for fold in range(len(splits))], isinstance(e, Classifier))
        for name, e in named.items()
    ]
    word = scoring if isinstance(scoring, str) else getattr(scoring, "__name__", "score")
    return _judged(rows, splits, "accuracy" if scoring is None else word)


# --- input -----------------------------------------------------------------------------------------
def _samples(X: Any, y: Any) -> tuple[Any, Any, NDArray[Any], NDArray[np.intp]]:
    try:
        X, y = indexable(X, y)
        y = column_or_1d(y)
        classes, index = labels_of(y)
    except UCMError:
        raise
    except (ValueError, TypeError) as error:
        raise DataError(
            f"compare: expected samples and one label for each, got {brief(X)} and {brief(y)} "
            f"({' '.join(str(error).split())}); give a table and as many labels"
        ) from error
    return X, y, classes, index


def _data(X: Any, index: NDArray[np.intp]) -> Data | None:
    """The samples of the first two classes: which parameters are sizes is asked of them."""
    rows = np.flatnonzero(index < 2)
    try:
        return bind(_safe_indexing(X, rows), np.where(index[rows] == 0, -1.0, 1.0))
    except DataError:
        return None  # no numbers: only other estimators can work


def _estimators(models: Any) -> dict[str, Any]:
    if isinstance(models, Mapping):
        given = list(models.items())
    elif isinstance(models, Iterable) and not isinstance(models, str | Node | BaseEstimator):
        given = [(None, model) for model in models]
    else:
        given = []
    if not given:
        raise ParameterError(
            f"compare: expected a list of models or a dict {{name: model}}, got {brief(models)}; write for "
            "example [ucm.models.nu_svm(0.3), ucm.models.mm_fda(0.1)]"
        )
    found: dict[str, Any] = {}
    for name, model in given:
        estimator = _estimator(model)
        if name is not None and not isinstance(name, str):
            raise ParameterError(
                f"compare: a name is text, got {brief(name)}; write for example 'nu-SVM'"
            )
        base = word = _name_of(model) if name is None else name
        for k in range(2, len(given) + 2):
            if word not in found:
                break
            word = f"{base} ({k})"
        found[word] = estimator
    return found


def _estimator(model: Any) -> Any:
    if isinstance(model, Node):
        if not isinstance(model, Objective):
            as_model(model, "compare")
        return Classifier(model)  # type: ignore[arg-type]
    wanted = ("fit", "predict", "get_params")
    if isinstance(model, type) or not all(callable(getattr(model, w, None)) for w in wanted):
        raise ParameterError(
            f"compare: expected a declared model or a scikit-learn classifier, got {brief(model)}; write for "
            "example ucm.models.nu_svm(0.3) or sklearn.svm.SVC()"
        )
    return model


def _name_of(model: Any) -> str:
    model = model.model if isinstance(model, Classifier) else model
    if isinstance(model, Node):
        for name in named_models.__all__:
            try:
                if getattr(named_models, name)(**model.params()) == model:
                    return name
            except (TypeError, UCMError):
                continue
        text = str(model)
        return text if len(text) <= 28 else f"{text[:27]}…"
    if model is None:
        return "mm_fda"
    steps = getattr(model, "steps", None)
    if steps:
        return " + ".join(type(step).__name__ for _, step in steps)
    return type(model).__name__


def _check_options(scoring: Any, search: Any, values: Any, n_jobs: Any, progress: Any) -> None:
    if scoring is not None and not isinstance(scoring, str) and not callable(scoring):
        raise ParameterError(
            f"compare: scoring is None, the name of one score or a function, got {brief(scoring)}; "
            'write "roc_auc"'
        )
    if search not in (None, "relative sizes"):
        raise ParameterError(
            f'compare: search is None or "relative sizes", got {brief(search)}; for another search give '
            "sklearn.model_selection.GridSearchCV(...) as an estimator"
        )
    if isinstance(values, bool) or not isinstance(values, int | np.integer) or values < 1:
        raise ParameterError(
            f"compare: values is a positive whole number, got {brief(values)}; write values=10"
        )
    whole = isinstance(n_jobs, int | np.integer) and not isinstance(n_jobs, bool)
    if n_jobs is not None and (not whole or n_jobs == 0):
        raise ParameterError(
            f"compare: n_jobs is None or a whole number other than 0, got {brief(n_jobs)}; write n_jobs=2"
        )
    if not isinstance(progress, bool):
        raise ParameterError(
            f"compare: progress is True or False, got {brief(progress)}; leave it out"
        )


def _scorer(estimator: Any, scoring: Any, name: str) -> Callable[..., float]:
    try:
        scorer: Any = check_scoring(estimator, scoring)
        return scorer
    except (ValueError, TypeError) as error:
        raise ParameterError(
            f"compare: scoring={brief(scoring)} does not fit {name} ({' '.join(str(error).split())}); see "
            "sklearn.metrics.get_scorer_names()"
        ) from error


def _splits(cv: Any, X: Any, y: Any) -> list[tuple[Any, Any]]:
    whole = isinstance(cv, int | np.integer) and not isinstance(cv, bool)
    if cv is None or isinstance(cv, bool | float | str) or (whole and cv < 2):
        raise ParameterError(
            f"compare: cv is a number of folds from 2 on, a splitter or pairs (train, test), got "
            f"{brief(cv)}; write cv=5"
        )
    if whole:
        least = int(np.unique(y, return_counts=True)[1].min())
        if least < cv:
            raise DataError(
                f"compare: {cv} folds need {cv} samples of every class, got {least} of the rarest; lower cv, "
                "or add samples"
            )
    try:
        splitter: Any = check_cv(cv, y, classifier=True)  # type: ignore[arg-type]
        found = [tuple(pair) for pair in splitter.split(X, y)]
        splits = [(np.asarray(train), np.asarray(test)) for train, test in found]
    except (ValueError, TypeError, IndexError) as error:
        raise ParameterError(
            f"compare: cv={brief(cv)} does not split these samples ({' '.join(str(error).split())}); "
            "write cv=5"
        ) from error
    if not splits or any(train.size == 0 or test.size == 0 for train, test in splits):
        raise ParameterError(
            f"compare: every fold needs training and test samples, got {brief(cv)}; write cv=5"
        )
    return splits


# --- one fold --------------------------------------------------------------------------------------
class _Fold(NamedTuple):
    score: float
    seconds: float
    gap: float | None
    features: int | None
    samples: int | None
    chosen: dict[str, Any]


class _Answer(ClassifierMixin, BaseEstimator):
    """A solution of two classes, as what a scorer takes."""

    def __init__(self, solution: Solution, classes: NDArray[Any]) -> None:
        self.solution = solution
        self.classes = classes
        self.classes_ = classes

    def fit(self, X: Any, y: Any) -> _Answer:
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        return self.solution.decision(X)

    def predict(self, X: Any) -> NDArray[Any]:
        return self.classes_[(self.decision_function(X) > 0.0).astype(np.intp)]


def _fold(
    estimator: Any, relative: Any, values: int, score: Any, X: Any, y: Any, classes: Any,
    train: NDArray[Any], test: NDArray[Any],
) -> _Fold:  # fmt: skip
    A, t = _safe_indexing(X, train), y[train]
    estimator = clone(estimator)
    if relative is not None and relative.relative_names():
        estimator.set_params(model=_best(estimator, relative, values, score, A, t, classes))
    began = time.perf_counter()
    estimator.fit(A, t)
    seconds = time.perf_counter() - began
    return _Fold(
        float(score(estimator, _safe_indexing(X, test), y[test])),
        seconds,
        _gap(estimator),
        *_used(estimator),
        _parameters(estimator),
    )


def _gap(estimator: Any) -> float | None:
    if not isinstance(estimator, Classifier):
        return None
    proofs = estimator.certificate_
    proofs = proofs if isinstance(proofs, list) else [proofs]
    return max(proof.relative_gap for proof in proofs)


def _used(estimator: Any) -> tuple[int | None, int | None]:
    estimator = getattr(estimator, "best_estimator_", estimator)
    steps = getattr(estimator, "steps", None)
    last = steps[-1][1] if steps else estimator
    w, support = getattr(last, "coef_", None), getattr(last, "support_", None)
    features = None if w is None else int(np.asarray(w != 0.0).any(axis=0).sum())
    return features, None if support is None else len(support)


def _parameters(estimator: Any) -> dict[str, Any]:
    if not isinstance(estimator, Classifier):
        return dict(getattr(estimator, "best_params_", {}))
    found = estimator.solution_
    if isinstance(found, list):  # of several problems each has numbers of its own
        return estimator.model.params() if isinstance(estimator.model, Node) else {}
    return dict(found.params)


# --- sizes chosen inside of a fold -----------------------------------------------------------------
def _relative(estimator: Any, data: Data) -> Any:
    if not isinstance(estimator, Classifier) or not isinstance(estimator.model, Node):
        return None
    model = estimator.model
    if not isinstance(model, Objective):
        model = as_model(model, "compare")
    try:
        return with_relative_sizes(model, data)
    except (CompositionError, DataError):
        return None  # a model that does not fit the data: its folds say why


def _fractions(model: Any, values: int) -> NDArray[np.float64]:
    if isinstance(model, Objective):
        return np.geomspace(_LOWEST, 1.0, values + 1)[:-1]
    return (np.arange(values) + 0.5) / values


def _best(
    estimator: Classifier, model: Any, values: int, score: Any, X: Any, y: Any, classes: Any
) -> Any:
    """The model at the fraction with the best mean score over the inner folds, the first of equals."""
    fractions = _fractions(model, values)
    names = model.relative_names()
    total = np.zeros(values)
    for train, test in StratifiedKFold(INNER).split(np.zeros(len(y)), y):
        A, t = _safe_indexing(X, train), y[train]
        B, s = _safe_indexing(X, test), y[test]
        found = None
        plain = classes.size == 2 and _is_path(estimator)
        if plain and len(names) == 1:
            found = _along_a_path(estimator, model, fractions, A, t, classes)
        if found is None:
            data = bind(A, np.where(t == classes[1], 1.0, -1.0)) if plain else None
            found = _one_by_one(estimator, model, fractions, A, t, data)
        for k in range(values):
            total[k] += score(found[k], B, s) if k in found else -math.inf
    if not np.isfinite(total).any():
        raise ParameterError(
            f"compare: none of {values} fractions of {', '.join(names)} could be fitted on every inner fold; "
            "leave search out to see why"
        )
    best = float(fractions[int(np.argmax(np.where(np.isfinite(total), total, -math.inf)))])
    return model.with_params(**dict.fromkeys(names, best))


def _is_path(estimator: Classifier) -> bool:
    """Whether nothing is asked of the classifier that a path does not do."""
    default = Classifier().get_params(deep=False)
    given = estimator.get_params(deep=False)
    return all(given[name] == default[name] for name in given if name not in _OF_A_PATH)


def _along_a_path(
    estimator: Classifier, model: Any, fractions: Any, X: Any, y: Any, classes: Any
) -> dict[int, Any] | None:
    found: dict[int, Any] = {}

    def keep(place: int, solution: Solution) -> None:
        if solution.w is not None and solution.w.any() and solution.b is not None:
            found[place] = _Answer(solution, classes)

    options = {"solver": estimator.solver, "tol": estimator.tol, "max_iter": estimator.max_iter}
    try:
        path(
            model,
            X,
            np.where(y == classes[1], 1.0, -1.0),
            on_empty="skip",
            progress=keep,
            time_limit=estimator.time_limit,
            bias_rule=estimator.bias,
            **options,
            **{model.relative_names()[0]: fractions},
        )
    except UCMError:
        return None  # one value stops a path, but not the others
    return found


def _one_by_one(
    estimator: Classifier, model: Any, fractions: Any, X: Any, y: Any, data: Data | None
) -> dict[int, Any]:
    """Fits at every fraction; over bound data their intervals are found once."""
    found = {}
    for k, fraction in enumerate(fractions.tolist()):
        at = model.with_params(**dict.fromkeys(model.relative_names(), fraction))
        try:
            at = at if data is None else resolved(at, data)
            fresh: Any = clone(estimator)
            found[k] = fresh.set_params(model=at).fit(X, y)
        except UCMError:
            continue
    return found


# --- all of them -----------------------------------------------------------------------------------
def _run(work: Callable[..., Any], tasks: list[Any], n_jobs: int | None) -> Iterator[Any]:
    if n_jobs in (None, 1):
        return map(work, tasks)
    parallel = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator_unordered")
    return iter(parallel(delayed(work)(task) for task in tasks))  # type: ignore[arg-type]


def _shown(results: Iterator[Any], total: int, progress: bool) -> Iterator[Any]:
    errors = Console(stderr=True)
    hidden = not (progress and errors.is_terminal)
    with Progress(console=errors, transient=True, auto_refresh=False, disable=hidden) as bar:
        task = bar.add_task("compare", total=total)
        for result in results:
            bar.update(task, description=result[0], advance=1, refresh=True)
            yield result


def _row(name: str, folds: list[_Fold | str], ours: bool) -> Compared:
    failures = {k: fold for k, fold in enumerate(folds) if isinstance(fold, str)}
    worked = [fold for fold in folds if not isinstance(fold, str)]

    def each(field: str) -> NDArray[np.float64]:
        return np.array([math.nan if isinstance(f, str) else getattr(f, field) for f in folds])

    def mean(found: list[int | None]) -> float | None:
        known = [x for x in found if x is not None]
        return None if len(known) < len(folds) else float(np.mean(known))

    gaps = [fold.gap for fold in worked if fold.gap is not None]
    return Compared(
        name,
        each("score"),
        each("seconds"),
        None if failures or not gaps else max(gaps),
        mean([fold.features for fold in worked]),
        mean([fold.samples for fold in worked]),
        tuple(fold.chosen for fold in worked),
        failures,
        ours=ours,
    )


def _judged(rows: list[Compared], splits: list[tuple[Any, Any]], scoring: str) -> Comparison:
    whole = sorted((r for r in rows if not r.failures), key=lambda r: -(r.score or 0.0))
    ratio = float(np.mean([test.size / train.size for train, test in splits]))
    judged = [_beside(one, whole[0], ratio) for one in whole]
    for one in rows:
        if one.failures:
            fold, reason = next(iter(one.failures.items()))
            words = f"failed on {len(one.failures)} of {len(splits)} folds, on fold {fold + 1} by {reason}"
            judged.append(_with(one, words, None, None))
    note = (
        f"Differences by the corrected resampled t test (Nadeau and Bengio 2003) over {len(splits)} folds; p "
        "is not corrected for the number of models, nor for choosing the best by the same folds."
    )
    return Comparison(tuple(judged), scoring, len(splits), note if len(whole) > 1 else "")


def _with(one: Compared, remark: str, difference: float | None, p: float | None) -> Compared:
    return replace(one, remark=remark, difference=difference, p_value=p)


def _beside(one: Compared, best: Compared, ratio: float) -> Compared:
    if one is best:
        return _with(one, "the best mean score", 0.0, None)
    d = best.fold_scores - one.fold_scores
    mean, p = float(d.mean()), corrected_t_test(d, ratio)
    if not d.any():
        return _with(one, f"the same as {best.name} on every fold", 0.0, 1.0)
    behind = f"{mean:.4f} behind {best.name}"
    if p is None:
        return _with(one, f"{behind}; one fold tells nothing of chance", mean, None)
    verdict = (
        "more than chance explains" if p < LEVEL else "which these folds do not tell from chance"
    )
    return _with(one, f"{behind}, {verdict} (p = {p:.2g})", mean, p)


def corrected_t_test(d: NDArray[np.float64], ratio: float) -> float | None:
    """The two-sided p value of the mean of paired differences over k folds, `ratio = n_test / n_train`;
    None of fewer than two."""
    k = d.size
    if k < 2:
        return None
    spread = float(d.var(ddof=1))
    if spread <= 1e-30:  # the same on every fold
        return 1.0 if abs(float(d.mean())) <= 1e-15 else 0.0
    t = abs(float(d.mean())) / math.sqrt((1.0 / k + ratio) * spread)
    return float(2.0 * stdtr(k - 1, -t))
