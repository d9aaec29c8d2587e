"""The scikit-learn estimator `ClassifierCV`: a `Classifier` with a cross-validated model parameter."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from inspect import signature
from itertools import chain
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, check_array, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRequest, get_routing_for_object
from sklearn.utils.validation import check_is_fitted

from ucm.compiler.grid import candidates, chosen_names, simple_first
from ucm.compiler.lowering import in_its_space
from ucm.data.bound_data import Data, bind, is_stored
from ucm.data.first_pass import refuse_gathering
from ucm.data.kernel_options import with_kernel
from ucm.data.linear_map import Matrix, Vec
from ucm.data.options import one_of
from ucm.data.readers import open_rows
from ucm.data.source import RowSource
from ucm.data.validation import part_of
from ucm.errors import ConvergenceWarning, ParameterError, SolverError, brief, silenced
from ucm.estimators.classifier import Classifier, fitted_anew
from ucm.estimators.held_out import Scores, Search, held_out
from ucm.estimators.multiclass import Problems, answers, score_sign
from ucm.estimators.out_of_core import check_folds, named_values, scores_of_rows
from ucm.estimators.progress import CallbackSupportMixin, Done, tasks, with_callbacks
from ucm.estimators.validation import (
    Fold,
    Samples,
    Versioned,
    check_options,
    cloned,
    data_errors,
    folds_of,
    kernel_options,
    labels_of,
    model_of,
    requests_of,
    samples_of,
    scorer_of,
)
from ucm.language.objective import Objective
from ucm.language.per_sample import check_quantities
from ucm.language.robust import RobustMargin

_GAMMAS = 30.0  # a number of values of gamma is about "scale", up to this factor


class ClassifierCV(CallbackSupportMixin, ClassifierMixin, Versioned):
    """A `Classifier` whose `fit` selects the value of a model parameter by cross-validation.

    Each value of the parameter is scored by its mean score on the held-out folds; the model with the best
    value is then fitted to all samples. The scores are equal to those of `GridSearchCV` over `Classifier`,
    at a lower cost, because the folds share work:

    - ellipsoids of class means and covariances (MM-MPM, MM-FDA): each fold needs one eigendecomposition for
      all values;
    - other models: each fold solves a path over the values, each value from the solution of the one before.

    Parameters
    ----------
    estimator : Classifier, a declared model, or a pipeline that ends in one, default=None
        A declared model, or None, stands for `Classifier(model)`. The steps of a pipeline before it are
        fitted anew in each fold; weights reach the classifier alone. The `time_limit` of the classifier holds
        for the folds and the last fit together.
    param_name : str or list of str, default=None
        The parameter of the model, as "nu" or "model__nu", or an option of the classifier, as "gamma"; of
        several all combinations are tried. None: all relative parameters together, else the only one, of an
        objective the only one with a lam_max, or the only factor of a term.
    param_range : int, array of numbers, or dict {name: either of them}, default=20
        The values, or their number; a dict has them for each parameter, in place of `param_name`. A number k
        stands for, of a size of a set, the middles of k equal parts of its admissible interval (see
        `ucm.admissible`), which all two-class problems share, or, if it is relative, of the interval of each
        fold; of a factor of an objective, k values with equal ratios from a thousandth of lam_max to lam_max,
        or, without a lam_max, over three decades on both sides of the present value; of gamma, k values with
        equal ratios from a thirtieth of "scale" to 30 times it. Other options need values.
    cv : int, "loo", splitter or pairs (train, test), default=5
        The folds. An integer means stratified folds, at most as many as the rarest class has samples; train
        and test are indices or boolean masks. "loo" leaves out one sample at a time. `GroupKFold()` and
        other splitters of groups take the `groups` of `fit`.
    scoring : None, str or callable, default=None
        A score of scikit-learn, or a function of an estimator, X and y, that needs decision values or labels
        only. None means accuracy. It is the score of `score` too.
    selection : "best" or "1se", default="best"
        The value with the best mean score, the most regular one among equals; or the most regular value
        whose mean score is within one standard error of the best. The most regular value gives the smallest
        set, or the largest weight of the penalty.
    n_jobs : int, default=None
        Number of folds solved at a time, in threads that share the samples.
    verbose : int, default=0
        Print a line on standard error after each fold. In a terminal or a notebook a spinner shows a fit of
        more than 2 seconds in any case; callbacks of scikit-learn (`set_callbacks`) have one task for each
        path over the values in a fold.

    Attributes
    ----------
    cv_results_ : dict
        As in `GridSearchCV`: "params", ``param_model__NAME`` or ``param_NAME``, "split<k>_test_score",
        "mean_test_score", "std_test_score", "rank_test_score". A score is NaN if there is no classifier, for
        example because the set is empty; a value with such a fold is not chosen. Sample weights count in the
        scores.
    best_estimator_ : Classifier or Pipeline
        The model with the best value, or the pipeline that ends in it, fitted to all samples.
    best_params_ : dict
        The best value by its name in `Classifier.set_params`.
    best_index_, best_score_, n_splits_ : int, float, int
        The place of the best value, its mean score, the number of folds.
    classes_, n_features_in_, feature_names_in_
        As for `Classifier`.

    Raises
    ------
    ParameterError, DataError, EmptySetError, SolverError, CompositionError
        As for `Classifier`; an option outside its range; a fold whose training part lacks a class; no value
        with a classifier on every fold.

    Notes
    -----
    The rule of one standard error is that of Breiman, Friedman, Olshen and Stone (1984), section 3.4.3.

    Examples
    --------
    >>> import ucm
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = scale(X)
    >>> search = ucm.ClassifierCV(ucm.Classifier(ucm.models.mm_mpm(0.5)), param_range=10).fit(X, y)
    >>> search.cv_results_["mean_test_score"].shape
    (10,)
    >>> search.best_params_["model__kappa"] in search.cv_results_["param_model__kappa"]
    True
    >>> search.best_estimator_.solution_.status
    'optimal'
    """

    classes_: np.ndarray
    cv_results_: dict
    best_index_: int
    best_score_: float
    best_params_: dict[str, Any]
    best_estimator_: Any  # a Classifier, or a Pipeline
    n_splits_: int
    n_features_in_: int

    def __init__(
        self,
        estimator: object = None,
        *,
        param_name: str | Sequence[str] | None = None,
        param_range: Any = 20,
        cv: object = 5,
        scoring: str | Callable[..., float] | None = None,
        selection: str = "best",
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.param_name = param_name
        self.param_range = param_range
        self.cv = cv
        self.scoring = scoring
        self.selection = selection
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _classifier(self) -> Classifier:
        """Return a clone of the classifier, the last step of a pipeline, or `Classifier(model)`."""
        estimator: Any = self.estimator
        last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
        if hasattr(last, "fit") and not isinstance(last, Classifier):
            raise ParameterError(
                "ClassifierCV: expected a model, a Classifier or a pipeline that ends in one, got a "
                f"{type(last).__name__}; search other estimators with GridSearchCV"
            )
        return cloned(last) if isinstance(last, Classifier) else Classifier(last)

    @property
    def declared_model(self) -> RobustMargin | Objective:
        """The model of the classifier, as of a `Classifier`."""
        return self._classifier().declared_model

    def __sklearn_tags__(self) -> Tags:
        tags, given = super().__sklearn_tags__(), self.estimator
        inner_tags = get_tags(given if hasattr(given, "fit") else Classifier()).input_tags
        tags.input_tags.pairwise, tags.input_tags.sparse = inner_tags.pairwise, inner_tags.sparse
        return tags

    @with_callbacks
    def fit(
        self, X: object, y: object = None, sample_weight: object = None, subgroup: object = None,
        groups: object = None, **per_sample: object,
    ) -> Self:  # fmt: skip
        """Score each parameter value on each fold, then fit the model with the selected value to all samples.

        Parameters
        ----------
        X, y, sample_weight, subgroup, **per_sample
            As for `Classifier.fit`; weights count in the scores too. Out-of-core data use the folds of
            `RowSource.split`, and need a number of folds and explicit values.
        groups : (m,) array, optional
            The group of every sample, for a splitter `cv` that keeps groups together, such as `GroupKFold`.
            With metadata routing they come without a request, as to `GridSearchCV`.
        """
        with fitted_anew(self):
            return self._fit(X, y, sample_weight, subgroup, groups, per_sample)

    def get_metadata_routing(self) -> MetadataRequest:
        """Return the metadata requests of scikit-learn, those of the quantities of the model included."""
        routing = requests_of(super().get_metadata_routing(), model_of(self))
        if get_routing_for_object(self.cv).consumes("split", ["groups"]):
            routing.fit.add_request(param="groups", alias=True)
        return routing

    def _fit(
        self, X: Matrix, y: Any, sample_weight: object, subgroup: object, groups: object,
        per_sample: Mapping[str, object],
    ) -> Self:  # fmt: skip
        began = time.perf_counter()
        remedy = 'leave it out for "best"'
        one_of("best", "1se").check("ClassifierCV", "selection", self.selection, remedy)
        clf = self._classifier()
        check_options(clf)
        axes = self._axes()
        if is_stored(X):
            check_quantities(clf.declared_model, per_sample)
            check_folds("ClassifierCV", self.cv, self.scoring, groups)
            source = open_rows(X, y, sample_weight=sample_weight, subgroup=subgroup)
            return self._fit_rows(clf, axes, source, began)
        given = sample_weight, subgroup, per_sample, clf.pos_label, clf.declared_model
        head = headless(self.estimator)
        table = X if head is None else indexable(X if hasattr(X, "shape") else np.asarray(X))[0]
        samples = samples_of(*((self, X) if head is None else (clf, mapped(head, table, y)[0])), y, *given)
        y, weights = samples.y, samples.weights
        folds = folds_of(self.cv, y, samples.index, "ClassifierCV", weights, groups)
        searches = self._searches(clf, samples, axes, began)
        parts = [(samples, folds)]
        if head is not None:
            parts = [_over_fold(self.estimator, table, samples, *fold) for fold in folds]
        score, sign = self._scorer(samples.classes, clf), score_sign(samples.classes, clf.pos_label)
        rows = samples.X if head is None else table

        def scores_of(search: Search, done: Done) -> NDArray[np.float64]:
            """Return the (values, folds) scores of a search."""
            of_parts = (held_out(replace(search, samples=part), own) for part, own in parts)
            held = chain.from_iterable(of_parts)
            columns = []
            for (_, test), S in zip(folds, held, strict=True):
                of_fold = None if weights is None else weights[test]
                columns.append(score(sign * S, part_of(rows, test), y[test], of_fold))
                done(f"fold {len(columns)} of {len(folds)}")
            return np.column_stack(columns)

        with (
            silenced(ConvergenceWarning),
            tasks(self, len(searches) * len(folds), bool(self.verbose)) as done,
        ):
            scores = np.vstack([scores_of(search, done) for _, search in searches])
        points, order = [], []
        for settings, search in searches:
            order += [len(points) + k for k in search.order]
            points += [settings | {f"model__{n}": float(x) for n in search.names} for x in search.values]
        given_rows = X if head is None and hasattr(X, "columns") else samples.X
        again = partial(clf.fit, given_rows, y, weights, samples.groups, **samples.per_sample)
        self._refit(clf, points, scores, order, again, head)
        return self

    def _axes(self) -> dict[str | None, Any]:
        """Return the searched parameters with their values, or numbers of values; None for the only one."""
        if isinstance(self.param_range, Mapping):
            axes = dict(self.param_range)
        elif isinstance(self.param_name, str) or not isinstance(self.param_name, Iterable):
            axes = {self.param_name: self.param_range}
        else:
            axes = dict.fromkeys(self.param_name, self.param_range)
        return {
            name.removeprefix("model__") if isinstance(name, str) else name: x for name, x in axes.items()
        }

    def _searches(
        self, clf: Classifier, samples: Samples, axes: Mapping[str | None, Any], began: float
    ) -> list[tuple[dict[str, Any], Search]]:
        """Return the searches over the last parameter of the model, with the values of the other ones.

        Each of them solves one path over its values in each fold.
        """
        model, settings = clf.declared_model, [{}]
        options = clf.get_params(deep=False)
        outer = [name for name in axes if name is not None and name not in model.params() and name in options]
        along = [name for name in axes if name not in outer]
        for name in outer:
            settings = [one | {name: x} for one in settings for x in _option_values(clf, samples, name, axes)]
        for name in along[:-1]:
            problems = self._problems(clf, samples, axes[name])
            values = candidates(model, problems, chosen_names(model, problems[0], name), axes[name])
            settings = [one | {f"model__{name}": x} for one in settings for x in values.tolist()]
        searches, names, values, order = [], [], np.zeros(0), []
        for one in settings:
            own = cloned(clf)
            declared = own.set_params(**one).declared_model
            if not along:  # one value of no parameter
                values, order = np.zeros(1), [0]
            elif not searches or isinstance(declared, RobustMargin):
                problems = self._problems(own, samples, axes[along[-1]])
                names = chosen_names(declared, problems[0], along[-1])
                values = candidates(declared, problems, names, axes[along[-1]])
                order = simple_first(declared, problems[0], names[0], values)
            searches.append((one, Search(own, declared, names, values, order, samples, self.n_jobs, began)))
        return searches

    def _fit_rows(
        self, clf: Classifier, axes: Mapping[str | None, Any], source: RowSource, began: float
    ) -> Self:
        model = clf.declared_model
        if len(axes) != 1 or isinstance(self.estimator, Pipeline):
            refuse_gathering(source, "ClassifierCV of a pipeline or several parameters")
        name, requested_values = named_values(model, *next(iter(axes.items())))
        values = candidates(model, (), [name], requested_values)
        classes = labels_of(source.labels(), clf.pos_label)[0]
        scores, data = scores_of_rows(clf, model, source, classes, name, values, self.cv, began)
        points = [{f"model__{name}": float(x)} for x in values]
        self._refit(clf, points, scores, simple_first(model, data, name, values), partial(clf.fit, source))
        return self

    def _refit(
        self,
        clf: Classifier,
        points: list[dict[str, Any]],
        scores: NDArray[np.float64],
        order: list[int],
        fit: Callable[[], Classifier],
        head: Any = None,
    ) -> None:
        """Select a point by the (points, folds) scores, fit its model to all samples, set attributes."""
        mean = scores.mean(axis=1)
        ranked = np.where(np.isnan(mean), -np.inf, mean)
        self.n_splits_ = scores.shape[1]
        last = "" if head is None else head.steps[-1][0]
        prefix = last and f"{last}__"
        self.cv_results_ = {
            **{f"param_{prefix}{name}": np.array([point[name] for point in points]) for name in points[0]},
            "params": [{prefix + name: x for name, x in point.items()} for point in points],
            **{f"split{k}_test_score": column for k, column in enumerate(scores.T)},
            "mean_test_score": mean,
            "std_test_score": scores.std(axis=1),
            "rank_test_score": 1 + (ranked > ranked[:, None]).sum(axis=1),
        }
        if not np.isfinite(ranked).any():
            raise SolverError(
                f"ClassifierCV: none of {len(points)} values from {brief(points[0])} to {brief(points[-1])} "
                "has a classifier on every fold; fit ucm.Classifier at one of them to see why, or give other "
                "values"
            )
        least = best = ranked.max()
        if self.selection == "1se" and self.n_splits_ > 1:
            spread = scores[order[int(np.argmax(ranked[order]))]].std(ddof=1)
            least = best - spread / math.sqrt(self.n_splits_)
        within = np.flatnonzero(ranked[order] >= least - 1e-12 * abs(best))
        self.best_index_ = order[int(within[0])]
        self.best_score_ = float(mean[self.best_index_])
        self.best_params_ = self.cv_results_["params"][self.best_index_]
        clf.set_params(**points[self.best_index_])
        fitted = fit()
        self.best_estimator_ = fitted if head is None else head.set_params(**{last: fitted})
        for name in ("classes_", "n_features_in_", "feature_names_in_"):
            if hasattr(self.best_estimator_, name):
                setattr(self, name, getattr(self.best_estimator_, name))

    def _problems(self, clf: Classifier, samples: Samples, values: object) -> list[Data]:
        """Return the bound two-class problems: all if `values` is a number of values, else the first.

        The admissible interval needs all problems, with a kernel in the feature space of the kernel.
        """
        problems = Problems(clf, samples)
        if not isinstance(values, int | np.integer):
            return [bind(**problems.arguments(problems.pairs[0]))]
        _, options = kernel_options(clf, samples.X, samples.weights)
        kernel, square = options.pop("kernel"), clf.kernel == "precomputed"
        bound_problems = (bind(**problems.arguments(pair), square=square) for pair in problems.pairs)
        return [in_its_space(*with_kernel(kernel, data, options)) for data in bound_problems]

    def _scorer(self, classes: np.ndarray, clf: Classifier) -> Callable[..., NDArray[np.float64]]:
        """Return the function from the (test, problems, values) decision values of a fold to the scores."""
        if self.scoring in (None, "accuracy"):

            def accuracy(S: Scores, X: Matrix, y: np.ndarray, weights: Vec | None) -> NDArray[np.float64]:
                mean = np.average(answers(S, classes, clf.multi_class) == y[:, None], axis=0, weights=weights)
                return np.where(np.isnan(S).any(axis=(0, 1)), np.nan, mean)

            return accuracy
        stand_in = HeldOutScores.of(clf, classes)
        scorer = scorer_of("ClassifierCV", "the estimator", stand_in, self.scoring)

        def scored(S: Scores, X: Matrix, y: np.ndarray, weights: Vec | None) -> NDArray[np.float64]:
            scores = np.full(S.shape[2], np.nan)
            weighted = weights is not None and "sample_weight" in signature(scorer).parameters
            options = {"sample_weight": weights} if weighted else {}
            for k in np.flatnonzero(~np.isnan(S).any(axis=(0, 1))):
                stand_in.given_ = S[:, :, k]
                try:
                    scores[k] = scorer(stand_in, X, y, **options)
                except AttributeError as error:
                    raise ParameterError(
                        f"ClassifierCV: scoring={brief(self.scoring)} asks for more than decision values "
                        f"({' '.join(str(error).split())}); take another, or GridSearchCV over Classifier"
                    ) from error
            return scores

        return scored

    def decision_function(self, X: object, **per_sample: object) -> NDArray[np.float64]:
        """Return the decision values of `best_estimator_` for the rows of X."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X, **per_sample)

    def predict(self, X: object, **per_sample: object) -> np.ndarray:
        """Return the labels that `best_estimator_` predicts for the rows of X."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X, **per_sample)

    @property
    def predict_proba(self) -> Callable[..., NDArray[np.float64]]:
        """The method `predict_proba` of `best_estimator_`, or of the unfitted classifier before `fit`."""
        return vars(self).get("best_estimator_", self._classifier()).predict_proba

    def score(self, X: object, y: object = None, sample_weight: object = None, **per_sample: object) -> float:
        """Return the score of `best_estimator_` by `scoring`, by default its accuracy."""
        check_is_fitted(self)
        if self.scoring is None or is_stored(X):
            return HeldOutScores.at(self.best_estimator_, X, per_sample).score(X, y, sample_weight)
        scorer = scorer_of("ClassifierCV", "the estimator", self.best_estimator_, self.scoring)
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return scorer(HeldOutScores.at(self.best_estimator_, X, per_sample), X, y, **weights)


def headless(estimator: object) -> Any:
    """Return a clone of a pipeline with "passthrough" for its classifier; None of another estimator."""
    if not isinstance(estimator, Pipeline):
        return None
    return cloned(estimator).set_params(**{estimator.steps[-1][0]: "passthrough"})


def mapped(head: Any, X: Any, y: Any, *others: Any) -> list[Any]:
    """Fit the steps before a classifier to X and y, and return X and further rows mapped by them."""
    with data_errors("fit"):
        return [head.fit_transform(X, y), *map(head.transform, others)]


def _over_fold(
    estimator: object, X: Any, samples: Samples, train: NDArray[np.intp], test: NDArray[np.intp]
) -> tuple[Samples, list[Fold]]:
    """Return the training samples, then the others, mapped by steps that saw the former; and their fold."""
    parts = mapped(headless(estimator), part_of(X, train), samples.y[train], part_of(X, test))
    stack: Any = sparse.vstack if any(map(sparse.issparse, parts)) else np.vstack
    check: Any = check_array
    Z = check(stack(parts), accept_sparse="csr", dtype=np.float64, order="C")
    rows = np.concatenate([train, test])
    return samples.of_rows(rows, Z), [(np.arange(train.size), np.arange(train.size, rows.size))]


def _option_values(clf: Classifier, samples: Samples, name: str, axes: Mapping[str | None, Any]) -> list:
    """Return the values of an option of the classifier; a number of values of gamma is about "scale"."""
    values = axes[name]
    if not isinstance(values, int | np.integer):
        return list(values)
    if name != "gamma":
        raise ParameterError(f"ClassifierCV: expected values of {name}, got {values}; write their list")
    scaled = cloned(clf)
    kernel, _ = kernel_options(scaled.set_params(gamma="scale"), samples.X, samples.weights)
    if kernel is None:
        raise ParameterError(
            f"ClassifierCV: gamma is of a kernel, got kernel={brief(clf.kernel)}; write kernel='rbf'"
        )
    return (kernel.gamma * np.geomspace(1.0 / _GAMMAS, _GAMMAS, values)).tolist()


class HeldOutScores(Classifier):
    """A classifier for a scorer, whose decision values of the held-out samples are given."""

    given_: NDArray[np.float64]

    @classmethod
    def of(cls, clf: Classifier, classes: np.ndarray) -> HeldOutScores:
        """Return the stand-in for a classifier of these classes."""
        stand_in = cls(**clf.get_params(deep=False))
        stand_in.classes_ = classes
        return stand_in

    @classmethod
    def at(cls, fitted: Any, X: Any, per_sample: Mapping[str, object]) -> Any:
        """Return a stand-in at samples with an offset, which scorers do not pass on; else the estimator."""
        if not per_sample:
            return fitted
        if isinstance(fitted, Pipeline):
            X = fitted[:-1].transform(X) if len(fitted.steps) > 1 else X
            fitted = fitted.steps[-1][1]
        stand_in = cls.of(fitted, fitted.classes_)
        stand_in.given_ = fitted._scores(X, **per_sample)
        return stand_in

    def _scores(self, X: object, **per_sample: object) -> NDArray[np.float64]:
        return self.given_
