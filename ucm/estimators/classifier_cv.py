"""The scikit-learn estimator `ClassifierCV`: a `Classifier` with a cross-validated model parameter."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from inspect import signature
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import LeaveOneOut
from sklearn.utils import Tags, get_tags
from sklearn.utils.metadata_routing import MetadataRequest
from sklearn.utils.validation import check_is_fitted

from ucm.compiler.grid import candidates, chosen_names, simple_first
from ucm.compiler.lowering import in_its_space
from ucm.data.bound_data import Data, bind, is_stored
from ucm.data.kernel_options import with_kernel
from ucm.data.linear_map import Matrix, Vec
from ucm.data.options import one_of
from ucm.data.readers import open_rows
from ucm.data.source import RowSource
from ucm.errors import ConvergenceWarning, ParameterError, SolverError, brief, silenced
from ucm.estimators.classifier import Classifier, fitted_anew
from ucm.estimators.held_out import Scores, Search, held_out, leave_one_out_scores
from ucm.estimators.moments import is_one_ellipsoid
from ucm.estimators.multiclass import Problems, answers, score_sign
from ucm.estimators.out_of_core import named_values, scores_of_rows
from ucm.estimators.validation import (
    Samples,
    Versioned,
    check_options,
    folds_of,
    kernel_options,
    labels_of,
    requests_of,
    samples_of,
)


class ClassifierCV(ClassifierMixin, Versioned):
    """A `Classifier` whose `fit` selects the value of a model parameter by cross-validation.

    Each value of the parameter is scored by its mean score on the held-out folds; the model with the best
    value is then fitted to all samples. The scores are equal to those of `GridSearchCV` over `Classifier`,
    at a lower cost, because the folds share work:

    - ellipsoids of class means and covariances (MM-MPM, MM-FDA): the moments of a fold are merged from those
      of the others, and each fold needs one eigendecomposition for all values;
    - other models: each fold solves a path over the values, each value from the solution of the one before.

    Parameters
    ----------
    estimator : Classifier or a declared model, default=None
        A declared model, or None, stands for `Classifier(model)`. Its `time_limit` holds for the folds and
        the last fit together.
    param_name : str, default=None
        The parameter of the model, as "nu" or "model__nu". None: all relative parameters together, else the
        only one, of an objective the only one with a lam_max, or the only factor of a term.
    param_range : int or array of numbers, default=20
        The values, or their number: the middles of as many equal parts of the admissible interval that all
        two-class problems share (see `ucm.admissible`), or fractions of each fold's own interval for a
        relative parameter. For an objective the values have equal ratios, from a thousandth of lam_max to
        lam_max, or over three decades on both sides of the present value.
    cv : int, "loo", splitter or pairs (train, test), default=5
        The folds. An integer means stratified folds, at most as many as the rarest class has samples; train
        and test are indices or boolean masks. "loo" and `LeaveOneOut()` leave out one sample at a time: for
        MM-FDA in closed form, with two eigendecompositions in all, if `bias_rule` is "means" (which "auto"
        then stands for) or "zero".
    scoring : None, str or callable, default=None
        A score of scikit-learn, or a function of an estimator, X and y, that needs decision values or labels
        only. None means accuracy.
    selection : "best" or "1se", default="best"
        The value with the best mean score, the most regular one among equals; or the most regular value
        whose mean score is within one standard error of the best. The most regular value gives the smallest
        set, or the largest weight of the penalty.
    n_jobs : int, default=None
        Number of folds solved at a time, in threads that share the samples.

    Attributes
    ----------
    cv_results_ : dict
        As in `GridSearchCV`: "params", ``param_model__NAME``, "split<k>_test_score", "mean_test_score",
        "std_test_score", "rank_test_score". A score is NaN if there is no classifier, for example because
        the set is empty; a value with such a fold is not chosen. Sample weights count in the scores.
    best_estimator_ : Classifier
        The model with the best value, fitted to all samples.
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
    The moments are merged by Chan, Golub and LeVeque (1983), equation (2.1). The rule of one standard error
    is that of Breiman, Friedman, Olshen and Stone (1984), section 3.4.3.

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
    best_params_: dict[str, float]
    best_estimator_: Classifier
    n_splits_: int
    n_features_in_: int

    def __init__(
        self,
        estimator: object = None,
        *,
        param_name: str | None = None,
        param_range: Any = 20,
        cv: object = 5,
        scoring: str | Callable[..., float] | None = None,
        selection: str = "best",
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.param_name = param_name
        self.param_range = param_range
        self.cv = cv
        self.scoring = scoring
        self.selection = selection
        self.n_jobs = n_jobs

    def _classifier(self) -> Classifier:
        estimator: Any = self.estimator
        return clone(estimator) if isinstance(estimator, Classifier) else Classifier(estimator)  # type: ignore[return-value]

    def __sklearn_tags__(self) -> Tags:
        tags, inner_tags = super().__sklearn_tags__(), get_tags(self._classifier()).input_tags
        tags.input_tags.pairwise, tags.input_tags.sparse = inner_tags.pairwise, inner_tags.sparse
        return tags

    def fit(
        self, X: object, y: object = None, sample_weight: object = None, subgroup: object = None,
        **per_sample: object,
    ) -> Self:  # fmt: skip
        """Score each parameter value on each fold, then fit the model with the selected value to all samples.

        Parameters
        ----------
        X, y, sample_weight, subgroup, **per_sample
            As for `Classifier.fit`; weights count in the scores too. Out-of-core data use the folds of
            `RowSource.split`, and need a number of folds and explicit values.
        """
        with fitted_anew(self):
            return self._fit(X, y, sample_weight, subgroup, per_sample)

    def get_metadata_routing(self) -> MetadataRequest:
        """Return the metadata requests of scikit-learn, those of the quantities of the model included."""
        return requests_of(super().get_metadata_routing(), self._classifier().declared_model)

    def _fit(
        self, X: Matrix, y: Any, sample_weight: object, subgroup: object, per_sample: Mapping[str, object]
    ) -> Self:
        began = time.perf_counter()
        remedy = 'leave it out for "best"'
        one_of("best", "1se").check("ClassifierCV", "selection", self.selection, remedy)
        if hasattr(self.estimator, "fit") and not isinstance(self.estimator, Classifier):
            raise ParameterError(
                f"ClassifierCV: expected a model or a Classifier, got a {type(self.estimator).__name__}; put "
                "ClassifierCV last in a pipeline, or search any estimator with GridSearchCV"
            )
        clf = self._classifier()
        check_options(clf)
        name = self.param_name
        name = name.removeprefix("model__") if isinstance(name, str) else name
        if is_stored(X):
            source = open_rows(X, y, sample_weight=sample_weight, subgroup=subgroup)
            return self._fit_rows(clf, name, source, began)
        table, model = X, clf.declared_model
        samples = samples_of(self, X, y, sample_weight, subgroup, per_sample, clf.pos_label)
        X, y, weights = samples.X, samples.y, samples.weights
        problems = self._problems(clf, samples)
        names = chosen_names(model, problems[0], name)
        values = candidates(model, problems, names, self.param_range)
        order = simple_first(model, problems[0], names[0], values)
        one_out = self.cv == "loo" if isinstance(self.cv, str) else isinstance(self.cv, LeaveOneOut)
        if one_out and clf.bias_rule == "auto" and is_one_ellipsoid(model):
            clf.bias_rule = "means"
        search = Search(clf, model, names, values, order, samples, self.n_jobs, began)
        score = self._scorer(samples.classes, clf)
        folds = folds_of(self.cv, y, samples.index, "ClassifierCV", weights)
        S = leave_one_out_scores(search) if one_out else None
        parts = held_out(search, folds) if S is None else (S[test] for _, test in folds)
        sign = score_sign(samples.classes, clf.pos_label)
        with silenced(ConvergenceWarning):
            scores = np.column_stack(
                [
                    score(sign * S, X[test], y[test], None if weights is None else weights[test])
                    for (_, test), S in zip(folds, parts, strict=True)
                ]
            )
        given = partial(clf.fit, table, y, weights, samples.groups, **samples.per_sample)
        self._refit(clf, names, values, scores, order, given)
        return self

    def _fit_rows(self, clf: Classifier, name: str | None, source: RowSource, began: float) -> Self:
        model = clf.declared_model
        name, requested_values = named_values(model, name, self.param_range)
        values = candidates(model, (), [name], requested_values)
        classes = labels_of(source.labels(), clf.pos_label)[0]
        scores, data = scores_of_rows(clf, model, source, classes, name, values, self.cv, self.scoring, began)
        self._refit(
            clf, [name], values, scores, simple_first(model, data, name, values), partial(clf.fit, source)
        )
        return self

    def _refit(
        self,
        clf: Classifier,
        names: list[str],
        values: NDArray[np.float64],
        scores: NDArray[np.float64],
        order: list[int],
        fit: Callable[[], Classifier],
    ) -> None:
        """Select a value by the (values, folds) scores, fit its model to all samples, set attributes."""
        mean = scores.mean(axis=1)
        ranked = np.where(np.isnan(mean), -np.inf, mean)
        self.n_splits_ = scores.shape[1]
        self.cv_results_ = {
            **{f"param_model__{name}": values for name in names},
            "params": [{f"model__{name}": float(x) for name in names} for x in values],
            **{f"split{k}_test_score": column for k, column in enumerate(scores.T)},
            "mean_test_score": mean,
            "std_test_score": scores.std(axis=1),
            "rank_test_score": 1 + (ranked > ranked[:, None]).sum(axis=1),
        }
        if not np.isfinite(ranked).any():
            raise SolverError(
                f"ClassifierCV: none of {values.size} values from {values.min():.6g} to {values.max():.6g} "
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
        model = clf.declared_model.with_params(**dict.fromkeys(names, float(values[self.best_index_])))
        clf.set_params(model=model)
        self.best_estimator_ = fit()
        of_data = ("classes_", "n_features_in_", "feature_names_in_")
        vars(self).update({name: x for name, x in vars(self.best_estimator_).items() if name in of_data})

    def _problems(self, clf: Classifier, samples: Samples) -> list[Data]:
        """Return the bound two-class problems: all if `param_range` is a number of values, else the first.

        The admissible interval needs all problems, with a kernel in the feature space of the kernel.
        """
        problems = Problems(clf, samples)
        if not isinstance(self.param_range, int | np.integer):
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
        stand_in = _HeldOutScores(**clf.get_params(deep=False))
        stand_in.classes_ = classes
        try:
            scoring: Any = self.scoring
            scorer: Any = check_scoring(stand_in, scoring)
        except (ValueError, TypeError) as error:
            raise ParameterError(
                f"ClassifierCV: scoring={brief(self.scoring)} is no score "
                f"({' '.join(str(error).split())}); see sklearn.metrics.get_scorer_names()"
            ) from error

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

    def decision_function(self, X: object) -> NDArray[np.float64]:
        """Return the decision values of `best_estimator_` for the rows of X."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)

    def predict(self, X: object) -> np.ndarray:
        """Return the labels that `best_estimator_` predicts for the rows of X."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    @property
    def predict_proba(self) -> Callable[[object], NDArray[np.float64]]:
        """The method `predict_proba` of `best_estimator_`, or of the unfitted classifier before `fit`."""
        return vars(self).get("best_estimator_", self._classifier()).predict_proba

    def score(self, X: object, y: object = None, sample_weight: object = None) -> float:
        """Return the accuracy of `best_estimator_` on X and y, weighted by `sample_weight`."""
        check_is_fitted(self)
        return self.best_estimator_.score(X, y, sample_weight)


class _HeldOutScores(Classifier):
    """A classifier for a scorer, whose decision values of the held-out samples are given."""

    given_: NDArray[np.float64]

    def _scores(self, X: object) -> NDArray[np.float64]:
        return self.given_
