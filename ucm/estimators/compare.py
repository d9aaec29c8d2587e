"""Models and other estimators on the same folds: scores with errors, certificates, differences."""

from __future__ import annotations

import functools
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from scipy import sparse
from scipy.special import stdtr
from sklearn.base import BaseEstimator, clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import cross_validate
from sklearn.utils import _safe_indexing, column_or_1d, get_tags, indexable
from sklearn.utils.validation import has_fit_parameter

from ucm.data.bound import bind
from ucm.data.first_pass import refuse_gathering
from ucm.data.groups import groups_of
from ucm.data.options import options_of
from ucm.data.readers import is_stored, open_rows
from ucm.data.source import RowSource
from ucm.data.validation import read_weights, refuse_unsound, scale_hint
from ucm.errors import (
    CompositionError,
    ConvergenceWarning,
    DataError,
    ParameterError,
    UCMError,
    brief,
    unknown_option,
    warn_of,
)
from ucm.estimators.classifier import Classifier, default_model
from ucm.estimators.classifier_cv import ClassifierCV
from ucm.estimators.search_out_of_core import check_folds
from ucm.estimators.validation import folds_of, labels_of
from ucm.evidence.relative import with_relative_sizes
from ucm.forms.display import frame, sheet
from ucm.forms.display import table as html_table
from ucm.language import models as named_models
from ucm.language.losses import Hinge
from ucm.language.node import Node
from ucm.language.objective import Objective
from ucm.language.robust import as_model

__all__ = ["Compared", "Comparison", "compare"]

INNER = 3  # folds of the training part, on which parameters are chosen
LEVEL = 0.05  # of the tests


@dataclass(frozen=True)
class Compared:
    """The scores of one model on all folds.

    Attributes
    ----------
    name : as it was given, or made up
    fold_scores, fold_seconds : (k,) of the folds, NaN if the fit or the score failed; the seconds include the
        choice of parameters
    gap : the worst proven relative duality gap; None for other estimators
    features, samples : mean numbers of features and samples that the classifier uses; None if unknown
    chosen : the parameters of each fold that worked
    fractions : the fractions of their intervals that were chosen with `tune=True`, of each such fold
    edges : {parameter: number of folds} on which the first or the last value of a grid was chosen
    failures : {fold: reason}
    remark : how it differs from the best, in words
    difference : the mean of best - this, over the folds
    p_value : of that difference, by the corrected resampled t test; None for the best, and if there is none
    """

    name: str
    fold_scores: NDArray[np.float64]
    fold_seconds: NDArray[np.float64]
    gap: float | None
    features: float | None
    samples: float | None
    chosen: tuple[dict[str, Any], ...]
    fractions: tuple[dict[str, float], ...]
    edges: dict[str, int]
    failures: dict[int, str]
    remark: str = ""
    difference: float | None = None
    p_value: float | None = None

    @property
    def score(self) -> float | None:
        """The mean over all folds; None if one failed."""
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
        """The median time of a fit; None if a fold failed."""
        return None if self.failures else float(np.median(self.fold_seconds))

    @property
    def parameters(self) -> str:
        """The parameters of the folds as ranges; with `tune=True` also the fractions of their intervals."""
        values, fractions = _ranges(self.chosen), _ranges(self.fractions)
        words = []
        for name in dict.fromkeys([*values, *fractions]):
            part = f"{fractions[name]} of its range" if name in fractions else ""
            value = values.get(name, "")
            words.append(
                f"{name} {value} ({part})" if value and part else f"{name} {value or part}"
            )
        return ", ".join(words)


def _ranges(chosen: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The values of each parameter, from the smallest to the largest."""
    found = {}
    for name in dict.fromkeys(name for one in chosen for name in one):
        values = [one[name] for one in chosen if name in one]
        try:
            low, high = f"{min(values):.3g}", f"{max(values):.3g}"
            found[name] = low if low == high else f"{low} to {high}"
        except (TypeError, ValueError):
            found[name] = " or ".join(dict.fromkeys(map(str, values)))
    return found


@dataclass(frozen=True, repr=False)
class Comparison(Sequence[Compared]):
    """The comparison of models on equal folds: a sequence of `Compared`, best first, failures last.

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

    def plot(self, ax: Any = None) -> Any:
        """Draw the mean scores with their standard errors, by `pandas.DataFrame.plot`; return the axes.

        Raises
        ------
        MissingExtraError
            pandas is not installed.
        """
        rows = self.to_frame().dropna(subset="score").iloc[::-1].reset_index()
        ax = rows.plot.scatter(
            x="score",
            y="index",
            xerr="error",
            s=50,
            xlabel=f"{self.scoring}, {self.folds} folds",
            ylabel="",
            ax=ax,
        )
        ax.set_yticks(rows.index, rows["model"])
        return ax

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
        text += [
            f"{one.name}: {name} was at an end of the tried values on {count} of {self.folds} folds; "
            "try more or other values"
            for one in self.compared
            for name, count in one.edges.items()
        ]
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
    y: Any = None,
    *,
    cv: Any = 5,
    scoring: str | Callable[..., float] | None = None,
    sample_weight: Any = None,
    subgroup: Any = None,
    tune: bool = False,
    n_values: int = 10,
    n_jobs: int | None = None,
    progress: bool = True,
    **unknown: Any,
) -> Comparison:
    """Score models and other estimators on equal folds, and test their differences for significance.

    Each fold is one `sklearn.model_selection.cross_validate` of a clone. A model whose fit fails on a fold
    has no mean score.

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
        whose `fit` takes no weights is refused with them.
    tune : bool, default=False
        Choose the sizes of declared models in each fold by `ClassifierCV` with 3 folds of its training part,
        as fractions of their admissible intervals: the relative `Param`s; else the `Param`s that are sizes of
        sets or factors of penalties; of a model without a `Param`, its numeric sizes. Several move together.
        Other estimators are fitted as they are.
    n_values : int, default=10
        Number of fractions that `tune` tries.
    n_jobs : int, optional
        Number of fits at a time, in threads; seconds then include waiting.
    progress : bool, default=True
        Show on standard error a bar in a terminal, else a line for each model.
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
    named = _estimators(models)
    _check_options(scoring, tune, n_values, progress)
    fold: Callable[..., _Fold]
    if is_stored(X):
        source = open_rows(X, y, sample_weight=sample_weight, subgroup=subgroup)
        _check_rows(named, source, cv, scoring, tune)
        folds: list[tuple[Any, Any]] = list(source.split(cv))
        sizes = [(train.m, test.m) for train, test in folds]
        fold = _fold_of_rows
    else:
        refuse_unsound(X, "compare: X")
        X, y, index = _samples(X, y)
        tags = _tags(sample_weight, subgroup, index.size)
        folds = folds_of(cv, y, index, "compare", tags.get("sample_weight"))
        sizes = [(train.size, test.size) for train, test in folds]
        if tune:
            named = _tuned(named, X, index, tags, scoring, n_values)
        for name, estimator in named.items():
            _scorer(estimator, scoring, name)
            if "sample_weight" in tags and not has_fit_parameter(estimator, "sample_weight"):
                raise ParameterError(
                    f"compare: expected estimators whose fit takes sample_weight, got {name}, a "
                    f"{type(estimator).__name__}; leave it out, or compare without weights"
                )
        fold = functools.partial(_fold, scoring, X, y, tags)
        _warn_of_scales(named, X)
    tasks = [(name, k) for name in named for k in range(len(folds))]

    def work(name: str, k: int) -> tuple[str, int, _Fold | str]:
        try:
            return name, k, fold(named[name], *folds[k])
        except Exception as error:  # of any estimator: its row tells
            return name, k, f"{type(error).__name__}: {' '.join(str(error).split())}"

    results: dict[str, dict[int, _Fold | str]] = {name: {} for name in named}
    parallel = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator_unordered")
    shown = _Shown(len(tasks), progress)
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning), shown.bar:
        warnings.filterwarnings("ignore", "Classifier: ranges of features")  # said for all folds
        found: Any = parallel(delayed(work)(*task) for task in tasks)
        for name, k, result in found:
            results[name][k] = result
            shown.step(name, results[name], len(folds))
    rows = [_row(name, [found[k] for k in range(len(folds))]) for name, found in results.items()]
    word = scoring if isinstance(scoring, str) else getattr(scoring, "__name__", "score")
    return _judged(rows, sizes, "accuracy" if scoring is None else word)


# --- input -----------------------------------------------------------------------------------------
def _samples(X: Any, y: Any) -> tuple[Any, Any, NDArray[np.intp]]:
    try:
        X, y = indexable(X, y)
        y = column_or_1d(y)
        return X, y, labels_of(y)[1]
    except UCMError:
        raise
    except (ValueError, TypeError) as error:
        raise DataError(
            f"compare: expected samples and one label for each, got {brief(X)} and {brief(y)} "
            f"({' '.join(str(error).split())}); give a table and as many labels"
        ) from error


def _check_rows(
    named: Mapping[str, Any], source: RowSource, cv: Any, scoring: Any, tune: bool
) -> None:
    """Refuse what rows that are read block by block do not take."""
    check_folds("compare", cv, scoring)
    if tune:
        refuse_gathering(source, "compare with tune=True", "a ClassifierCV with param_range=[...]")
    for name, estimator in named.items():
        if not isinstance(estimator, Classifier | ClassifierCV):
            refuse_gathering(source, f"{name}, a {type(estimator).__name__},", "declared models")


def _warn_of_scales(named: Mapping[str, Any], X: Any) -> None:
    """Say once what each fit of a `Classifier` to these samples would say."""
    table = X if sparse.issparse(X) else np.asarray(X)
    if table.dtype.kind not in "biuf" or all(
        not isinstance(estimator, Classifier | ClassifierCV)
        or get_tags(estimator).input_tags.pairwise
        for estimator in named.values()
    ):
        return
    if hint := scale_hint(table):
        warn_of(f"compare: {hint}, and mostly improves it", UserWarning)


def _tags(sample_weight: Any, subgroup: Any, m: int) -> dict[str, Any]:
    """The weights and groups of the samples by their names in `fit`, without missing ones."""
    found: dict[str, Any] = {"sample_weight": read_weights(sample_weight, m)}
    if subgroup is not None:
        found["subgroup"] = np.array(groups_of(subgroup, m).labels, dtype=object)
    return {name: v for name, v in found.items() if v is not None}


def _tuned(
    named: Mapping[str, Any],
    X: Any,
    index: Any,
    tags: Mapping[str, Any],
    scoring: Any,
    n_values: int,
) -> dict[str, Any]:
    """The estimators, with a `ClassifierCV` in place of each declared model that has sizes."""
    rows = np.flatnonzero(index < 2)  # two classes show which parameters are sizes
    try:
        y = np.where(index[rows] == 0, -1.0, 1.0)
        data = bind(
            _safe_indexing(X, rows), y, None, *(tags[n][rows] if n in tags else None for n in _TAGS)
        )
    except DataError:  # no numbers: only other estimators can work
        return dict(named)
    found = dict(named)
    for name, estimator in named.items():
        if not isinstance(estimator, Classifier) or not isinstance(estimator.model, Node):
            continue
        try:
            relative = with_relative_sizes(estimator.declared_model, data)
        except (CompositionError, DataError):  # a model that does not fit the data: its folds tell
            continue
        if relative.relative_names():
            clf: Any = clone(estimator)
            clf.set_params(model=relative)
            found[name] = ClassifierCV(clf, param_range=n_values, cv=INNER, scoring=scoring)
    return found


_TAGS = ("sample_weight", "subgroup")


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
    if isinstance(model, Classifier):
        model = default_model(model.kernel) if model.model is None else model.model
    if isinstance(model, Node):
        given = model.params()
        powers = [{"p": node.p} for node in model.walk() if isinstance(node, Hinge)]
        for name, power in product(named_models.__all__, [{}, *powers]):
            try:
                if getattr(named_models, name)(**given, **power) == model:
                    return name
            except (TypeError, UCMError):
                continue
        text = str(model)
        return text if len(text) <= 28 else f"{text[:27]}…"
    steps = getattr(model, "steps", None)
    if steps:
        return " + ".join(type(step).__name__ for _, step in steps)
    return type(model).__name__


def _check_options(scoring: Any, tune: Any, n_values: Any, progress: Any) -> None:
    if scoring is not None and not isinstance(scoring, str) and not callable(scoring):
        raise ParameterError(
            f"compare: scoring is None, the name of one score or a function, got {brief(scoring)}; "
            'write "roc_auc"'
        )
    if isinstance(n_values, bool) or not isinstance(n_values, int | np.integer) or n_values < 1:
        raise ParameterError(
            f"compare: n_values is a positive whole number, got {brief(n_values)}; write n_values=10"
        )
    for name, given in (("tune", tune), ("progress", progress)):
        if not isinstance(given, bool):
            raise ParameterError(
                f"compare: {name} is True or False, got {brief(given)}; leave it out"
            )


def _scorer(estimator: Any, scoring: Any, name: str) -> Any:
    try:
        return check_scoring(estimator, scoring)
    except (ValueError, TypeError) as error:
        raise ParameterError(
            f"compare: scoring={brief(scoring)} does not fit {name} ({' '.join(str(error).split())}); see "
            "sklearn.metrics.get_scorer_names()"
        ) from error


# --- one fold --------------------------------------------------------------------------------------
class _Fold(NamedTuple):
    score: float
    seconds: float
    gap: float | None
    features: int | None
    samples: int | None
    chosen: dict[str, Any]
    fractions: dict[str, float]
    edges: list[str]


def _fold(
    scoring: Any, X: Any, y: Any, tags: Mapping[str, Any], estimator: Any, train: Any, test: Any
) -> _Fold:
    """Fit a clone to the training part, and score it on the rest."""
    scorer: Any = check_scoring(estimator, scoring)
    held, raised = {}, "raise"
    if "sample_weight" in tags and (scoring is None or hasattr(scorer, "_score_func")):
        held = {"sample_weight": tags["sample_weight"][test]}
    found = cross_validate(
        estimator,
        X,
        y,
        cv=[(train, test)],
        scoring=lambda fitted, A, t: scorer(fitted, A, t, **held),
        params={name: v for name, v in tags.items() if has_fit_parameter(estimator, name)},
        return_estimator=True,
        error_score=raised,  # type: ignore[arg-type]
    )
    return _told(found["estimator"][0], float(found["test_score"][0]), float(found["fit_time"][0]))


def _fold_of_rows(estimator: Any, train: RowSource, test: RowSource) -> _Fold:
    """Fit a clone to the rows of the training part, and score it on the others, in one pass."""
    began = time.perf_counter()
    copy: Any = clone(estimator)
    fitted = copy.fit(train)
    seconds = time.perf_counter() - began
    return _told(fitted, float(fitted.score(test)), seconds)


def _told(fitted: Any, score: float, seconds: float) -> _Fold:
    """The row of a fitted estimator."""
    best = getattr(fitted, "best_estimator_", fitted)
    last = best.steps[-1][1] if hasattr(best, "steps") else best
    w, support = getattr(last, "coef_", None), getattr(last, "support_", None)
    params, fractions = dict(getattr(fitted, "best_params_", {})), {}
    if isinstance(fitted, ClassifierCV):
        fractions = {name.removeprefix("model__"): x for name, x in params.items()}
        params = {}
    if isinstance(best, Classifier) and isinstance(best.model, Node):
        # each of several problems has numbers of its own
        numbers = best.solution_.params if best.classes_.size == 2 else best.model.params()
        params = {n: x for n, x in numbers.items() if best.classes_.size == 2 or n not in fractions}
    proofs = getattr(best, "certificate_", [])
    gaps = [proof.relative_gap for proof in (proofs if isinstance(proofs, list) else [proofs])]
    return _Fold(
        score,
        seconds,
        max(gaps, default=None),
        None if w is None else int(np.asarray(w != 0.0).any(axis=0).sum()),
        None if support is None else len(support),
        params,
        fractions,
        _edges(fitted),
    )


def _edges(search: Any) -> list[str]:
    """The parameters of a search over a grid whose best value is the smallest or the largest one."""
    found = []
    for name, best in getattr(search, "best_params_", {}).items():
        tried = [one[name] for one in search.cv_results_["params"] if name in one]
        ordered = all(isinstance(x, Real) for x in tried)
        if ordered and min(tried) < max(tried) and best in (min(tried), max(tried)):
            found.append(name.removeprefix("model__"))
    return found


# --- all of them -----------------------------------------------------------------------------------
class _Shown:
    """The progress of all fits on standard error: a bar in a terminal, else a line for each model."""

    def __init__(self, total: int, progress: bool) -> None:
        errors = Console(stderr=True)
        self.lines = progress and not errors.is_terminal
        hidden = not progress or self.lines
        self.bar = Progress(console=errors, transient=True, auto_refresh=False, disable=hidden)
        self.task, self.began = self.bar.add_task("compare", total=total), time.perf_counter()

    def step(self, name: str, results: Mapping[int, _Fold | str], folds: int) -> None:
        """Report that a fold of a model is finished."""
        self.bar.update(self.task, description=name, advance=1, refresh=True)
        if self.lines and len(results) == folds:
            seconds = time.perf_counter() - self.began
            failed = sum(isinstance(one, str) for one in results.values())
            words = f", failed on {failed}" if failed else ""
            print(
                f"compare: {name}: {folds} folds{words} ({seconds:.1f} s)",
                file=sys.stderr,
                flush=True,
            )


def _row(name: str, folds: list[_Fold | str]) -> Compared:
    worked = [fold for fold in folds if not isinstance(fold, str)]

    def each(field: str) -> NDArray[np.float64]:
        return np.array([math.nan if isinstance(f, str) else getattr(f, field) for f in folds])

    def mean(found: list[int | None]) -> float | None:
        known = [x for x in found if x is not None]
        return None if len(known) < len(folds) else float(np.mean(known))

    gaps = [fold.gap for fold in worked if fold.gap is not None]
    failures = {k: fold for k, fold in enumerate(folds) if isinstance(fold, str)}
    ends = [word for fold in worked for word in fold.edges]
    return Compared(
        name,
        each("score"),
        each("seconds"),
        None if failures or not gaps else max(gaps),
        mean([fold.features for fold in worked]),
        mean([fold.samples for fold in worked]),
        tuple(fold.chosen for fold in worked),
        tuple(fold.fractions for fold in worked),
        {word: ends.count(word) for word in dict.fromkeys(ends)},
        failures,
    )


def _judged(rows: list[Compared], folds: list[tuple[int, int]], scoring: str) -> Comparison:
    """Compare with the best; `folds` holds the numbers of training and test samples."""
    whole = sorted((r for r in rows if not r.failures), key=lambda r: -(r.score or 0.0))
    ratio = float(np.mean([test / train for train, test in folds]))
    judged = [_beside(one, whole[0], ratio) for one in whole]
    for one in rows:
        if one.failures:
            fold, reason = next(iter(one.failures.items()))
            words = f"failed on {len(one.failures)} of {len(folds)} folds, on fold {fold + 1} by {reason}"
            judged.append(replace(one, remark=words))
    note = (
        f"Differences by the corrected resampled t test (Nadeau and Bengio 2003) over {len(folds)} folds; p "
        "is not corrected for the number of models, nor for choosing the best by the same folds."
    )
    return Comparison(tuple(judged), scoring, len(folds), note if len(whole) > 1 else "")


def _beside(one: Compared, best: Compared, ratio: float) -> Compared:
    if one is best:
        return replace(one, remark="best mean score", difference=0.0)
    d = best.fold_scores - one.fold_scores
    mean, p = float(d.mean()), corrected_t_test(d, ratio)
    if not d.any():
        return replace(
            one, remark=f"equal to {best.name} on every fold", difference=0.0, p_value=1.0
        )
    remark = f"{mean:.4f} behind {best.name}, "
    if p is None:
        remark += "not tested: there is one fold"
    else:
        remark += f"{'' if p < LEVEL else 'not '}significantly different (p = {p:.2g})"
    return replace(one, remark=remark, difference=mean, p_value=p)


def corrected_t_test(d: NDArray[np.float64], ratio: float) -> float | None:
    """Return the two-sided p value of the mean of paired differences over k folds; None for one fold.

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
