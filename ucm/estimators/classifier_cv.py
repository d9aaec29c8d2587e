"""A classifier whose size is chosen by cross-validation inside of `fit`."""

from __future__ import annotations

import inspect
import math
import time
import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import check_scoring
from sklearn.model_selection import LeaveOneOut, StratifiedKFold, check_cv
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ucm.compiler.compile import behind, in_its_space
from ucm.compiler.moments import of_one_ellipsoid
from ucm.data.approx import Nystroem, RandomFeatures
from ucm.data.bound import Data, bind
from ucm.errors import ConvergenceWarning, DataError, ParameterError, SolverError, brief
from ucm.estimators.classifier import Classifier
from ucm.estimators.declared import OfModel, fitted_anew
from ucm.estimators.held_out import Fold, Search, held_out, left_out
from ucm.estimators.multiclass import one_vs_one_scores, pairs_of
from ucm.estimators.options import check_options, kernel_options
from ucm.estimators.sizes import candidates, chosen_names, simple_first
from ucm.estimators.validation import class_weights, counted, samples_of
from ucm.forms.solver import Solver
from ucm.language.contracts import UncertaintySet
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin

__all__ = ["ClassifierCV"]


def _indices(part: Any, m: int) -> NDArray[np.intp]:
    """The samples of a part of a fold, from indices or a mask over all m."""
    part = np.asarray(part)
    if part.dtype != bool:
        return part.astype(np.intp)
    if part.shape != (m,):
        raise ValueError(f"a mask of shape {part.shape} over {m} samples")
    return np.flatnonzero(part)


class ClassifierCV(ClassifierMixin, OfModel):
    """A declared model whose size is chosen by cross-validation inside of `fit`.

    For every value of one parameter, the mean over the folds of the score on the samples held out; the model
    at the best value is then fitted to all samples. The scores are those of `GridSearchCV` over
    `Classifier`, for a fraction of its fits, as the folds share what the model allows:

    - ellipsoids of class means and covariances (MM-MPM, MM-FDA): the moments of a fold are those of the
      others merged, so that all folds cost one product of the samples; one eigendecomposition a fold, and all
      values by scalar roots;
    - two reduced hulls (the nu-SVM) of 5,000 samples or more: in each fold the compiled loop goes on from
      value to value, to a gap of 1e-4 or `tol`, if that is larger;
    - any other model: in each fold a path over the values, each solved from the one before.

    Parameters
    ----------
    model : UncertaintySet, RobustMargin or Objective, default=None
        As for `Classifier`.
    param : str, default=None
        The parameter that is chosen. None: all relative ones together, the only one, of an objective the only
        one with a lam_max, or the only factor of a term.
    values : int or array of numbers, default=20
        The values to try; or how many: the middles of so many equal parts of the admissible interval of all
        samples (see `ucm.admissible`). Of an objective at equal ratios, from a thousandth of lam_max to it,
        or three decades on either side of the present value. Fractions of each fold's own interval where the
        parameter is relative.
    cv : int, "loo", splitter or pairs (train, test), default=5
        The folds; an integer means that many stratified ones, or as many as the rarest class has samples;
        train and test are indices or boolean masks;
        "loo", as `LeaveOneOut()`, leaves out each sample once: of MM-FDA in closed form, with two
        eigendecompositions in all, for `bias` "means", which "auto" then stands for, or "zero".
    scoring : None, str or callable, default=None
        A score of scikit-learn, or a function of an estimator, X and y; None for accuracy. Scores of
        probabilities are not available.
    rule : "best" or "1se", default="best"
        The value with the best mean score, the most regular of equals; or the most regular one whose mean is
        within one standard error of that. The most regular is the smallest set, or the most weight on the
        penalty.
    kernel, kernel_approx, gamma, degree, coef0, solver, tol, max_iter, time_limit, bias, multi_class, \
decision_function_shape, class_weight, side, n_jobs, probability, verbose
        As for `Classifier`. `time_limit` is of the folds and the last fit together; `n_jobs` folds are solved
        at a time, in threads that share the samples.

    Attributes
    ----------
    values_ : (values,) array
        Those tried.
    scores_ : (values, folds) array
        The score of each on each fold, by weight where samples have weights; nan where there is no
        classifier, as where U is empty.
    mean_scores_, std_scores_ : (values,) arrays
        Over the folds. A value without a classifier on some fold is not chosen.
    best_index_, best_value_, best_score_ : int, float, float
        The value chosen, and its mean score.
    best_params_ : dict
        The parameters at it, by name.
    classifier_ : Classifier
        The model at that value, fitted to all samples, with its certificate.
    n_splits_ : int
        Number of folds.
    classes_, coef_, intercept_, n_iter_, n_features_in_, feature_names_in_
        Those of `classifier_`, where it has them.

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
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> search = ucm.ClassifierCV(ucm.models.mm_mpm(0.5), values=10).fit(X, y)
    >>> search.scores_.shape
    (10, 5)
    >>> search.best_value_ in search.values_
    True
    >>> search.classifier_.solution_.status
    'optimal'
    """

    classes_: NDArray[Any]
    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    values_: NDArray[np.float64]
    scores_: NDArray[np.float64]
    mean_scores_: NDArray[np.float64]
    std_scores_: NDArray[np.float64]
    best_index_: int
    best_value_: float
    best_score_: float
    best_params_: dict[str, float]
    classifier_: Classifier
    n_splits_: int
    n_features_in_: int

    def __init__(
        self,
        model: UncertaintySet | RobustMargin | Objective | None = None,
        *,
        param: str | None = None,
        values: Any = 20,
        cv: Any = 5,
        scoring: str | Callable[..., float] | None = None,
        rule: str = "best",
        kernel: str | Callable[..., Any] | None = None,
        kernel_approx: int | Nystroem | RandomFeatures | None = None,
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        solver: str | Solver = "auto",
        tol: float = 1e-6,
        max_iter: int | None = None,
        time_limit: float | None = None,
        bias: str = "auto",
        multi_class: str = "ovo",
        decision_function_shape: str = "ovr",
        class_weight: str | dict[Any, float] | None = None,
        side: str | None = None,
        n_jobs: int | None = None,
        probability: bool = False,
        verbose: int = 0,
    ) -> None:
        self.model = model
        self.param = param
        self.values = values
        self.cv = cv
        self.scoring = scoring
        self.rule = rule
        self.kernel = kernel
        self.kernel_approx = kernel_approx
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.bias = bias
        self.multi_class = multi_class
        self.decision_function_shape = decision_function_shape
        self.class_weight = class_weight
        self.side = side
        self.n_jobs = n_jobs
        self.probability = probability
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None, subgroup: Any = None) -> Self:
        """Score every value on every fold, and fit the model at the best one.

        Parameters
        ----------
        X, y, sample_weight, subgroup
            As for `Classifier.fit`; weights count in the scores too.
        """
        with fitted_anew(self):
            return self._fit(X, y, sample_weight, subgroup)

    def _fit(self, X: Any, y: Any, sample_weight: Any, subgroup: Any) -> Self:
        check_options(self)
        if self.rule not in ("best", "1se"):
            raise ParameterError(
                f'ClassifierCV: rule is "best" or "1se", got {brief(self.rule)}; leave it out for "best"'
            )
        began = time.perf_counter()
        model = self._declared
        given_X = X
        X, y, classes, index, given, groups = samples_of(self, X, y, sample_weight, subgroup)
        class_weights(self.class_weight, classes, counted(given, classes, index))  # refuses
        datas = self._datas(X, index, classes.size, given, groups)
        names = chosen_names(model, datas[0], self.param)
        values = candidates(model, datas, names, self.values)
        order = simple_first(model, datas[0], names[0], values)
        one_out = self.cv == "loo" if isinstance(self.cv, str) else isinstance(self.cv, LeaveOneOut)
        rule = self.bias
        if one_out and rule == "auto" and of_one_ellipsoid(model):
            rule = "means"
        search = Search(
            self,
            model,
            names,
            values,
            order,
            X,
            index,
            classes,
            given,
            groups,
            rule,
            began,
        )
        score = self._scorer(classes)
        self._check_folds(index, X.shape)
        S = left_out(search) if one_out else None
        if S is not None and self.scoring in (None, "accuracy"):
            right = _answers(S, classes, self.multi_class) == y[:, None]
            self.scores_ = np.where(np.isnan(S).any(axis=1), np.nan, right).T
        else:
            folds = self._folds(X, y, index, classes, given)
            parts = held_out(search, folds) if S is None else (S[test] for _, test in folds)
            # here, as filters of warnings are those of all threads
            with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
                self.scores_ = np.column_stack(
                    [
                        score(S, X[test], y[test], None if given is None else given[test])
                        for (_, test), S in zip(folds, parts, strict=True)
                    ]
                )
        self.values_, self.n_splits_ = values, self.scores_.shape[1]
        self._choose(order)
        self.best_params_ = dict.fromkeys(names, self.best_value_)
        own = inspect.signature(Classifier.__init__).parameters
        options = {name: x for name, x in self.get_params(deep=False).items() if name in own}
        self.classifier_ = Classifier(**options)
        self.classifier_.set_params(model=model.with_params(**self.best_params_), bias=rule)
        self.classifier_.fit(given_X, y, given, groups)
        self.classes_ = classes
        for name in ("coef_", "intercept_", "n_iter_"):
            if name in vars(self.classifier_):
                setattr(self, name, getattr(self.classifier_, name))
        return self

    def _datas(self, X: Any, index: Any, count: int, given: Any, groups: Any) -> list[Data]:
        """The samples of the problems, bound, behind a kernel in its feature space: of all where intervals
        are asked for, else of one."""
        asked = isinstance(self.values, int | np.integer)
        _, kernel = kernel_options(self, X, given) if asked else (None, {"kernel": None})
        square = kernel["kernel"] == "precomputed"
        options = {name: x for name, x in kernel.items() if name != "kernel"}
        found = []
        for pair in pairs_of(index, count, self.multi_class):
            rows = pair.rows
            part = X if rows.size == index.size else X[rows]
            part = (
                np.ascontiguousarray(part[:, rows]) if square and rows.size < index.size else part
            )
            labels, weights = (None if v is None else v[rows] for v in (groups, given))
            data = bind(part, pair.signs, None, weights, labels, square=square)
            found.append(in_its_space(*behind(kernel["kernel"], data, options)))
            if not asked:
                break
        return found

    def _check_folds(self, index: Any, shape: tuple[int, int]) -> None:
        """Refuse what is no way to split, and a class that cannot be split."""
        cv: Any = self.cv
        none = cv is None or isinstance(cv, bool | float) or (isinstance(cv, str) and cv != "loo")
        if none or (isinstance(cv, int | np.integer) and int(cv) < 2):
            raise ParameterError(
                'ClassifierCV: cv is a number of folds from 2 on, "loo", a splitter or pairs (train, test), '
                f"got {brief(cv)}; write cv=5"
            )
        if int(np.bincount(index).min()) < 2:
            raise DataError(
                "ClassifierCV: every class needs samples to train on while others are held out, and a class "
                f"has 1 sample (n_samples={shape[0]}, n_features={shape[1]}); add samples"
            )

    def _folds(self, X: Any, y: Any, index: Any, classes: Any, given: Any) -> list[Fold]:
        """The folds, each with samples of every class to train on, and with weights to score by."""
        cv = self.cv
        whole = isinstance(cv, int | np.integer)
        splitter: Any = cv
        if whole:
            splitter = StratifiedKFold(min(int(cv), int(np.bincount(index).min())))
        elif isinstance(cv, str):
            splitter = LeaveOneOut()
        try:
            splitting: Any = check_cv(splitter, y, classifier=True)
            found = list(splitting.split(np.zeros((y.size, 1)), y))
            folds = [(_indices(train, y.size), _indices(test, y.size)) for train, test in found]
            inside = all(part.min() >= 0 and part.max() < y.size for fold in folds for part in fold)
        except (ValueError, TypeError, IndexError) as error:
            raise ParameterError(
                f"ClassifierCV: cv={brief(cv)} does not split these samples "
                f"({' '.join(str(error).split())}); write cv=5"
            ) from error
        if not folds or not inside:
            raise ParameterError(
                f"ClassifierCV: expected folds with samples to train on and to hold out, got {brief(cv)}; "
                "write cv=5"
            )
        for k, (train, test) in enumerate(folds):
            if given is not None and not given[test].any():
                raise DataError(
                    f"ClassifierCV: expected weights above 0 to score fold {k} of {len(folds)} by, got 0 for "
                    f"all of its {test.size} samples; leave samples of weight 0 out, or shuffle the folds"
                )
            counts = np.bincount(index[train], minlength=classes.size)
            if not counts.all():
                missing = classes[int(np.argmin(counts))].item()
                raise DataError(
                    f"ClassifierCV: fold {k} of {len(folds)} has no sample of class {missing!r} to train on; "
                    "stratify the folds, as cv=5 does, or add samples"
                )
        return folds

    def _scorer(self, classes: NDArray[Any]) -> Callable[..., NDArray[np.float64]]:
        """What scores the decision values (test, problems, values) of a fold."""
        if self.scoring in (None, "accuracy"):

            def accuracy(S: Any, X: Any, y: Any, weights: Any) -> NDArray[np.float64]:
                right = _answers(S, classes, self.multi_class) == y[:, None]
                mean = np.average(right, axis=0, weights=weights)
                return np.where(np.isnan(S).any(axis=(0, 1)), np.nan, mean)

            return accuracy
        try:
            scoring: Any = self.scoring
            scorer: Any = check_scoring(_Held(np.zeros((1, 1)), classes, "ovo", "ovr"), scoring)
        except (ValueError, TypeError) as error:
            raise ParameterError(
                f"ClassifierCV: scoring={brief(self.scoring)} is no score "
                f"({' '.join(str(error).split())}); see sklearn.metrics.get_scorer_names()"
            ) from error

        def scored(S: Any, X: Any, y: Any, weights: Any) -> NDArray[np.float64]:
            found = np.full(S.shape[2], np.nan)
            own = (
                {}
                if weights is None or not hasattr(scorer, "_score_func")
                else {"sample_weight": weights}
            )
            for k in np.flatnonzero(~np.isnan(S).any(axis=(0, 1))):
                held = _Held(S[:, :, k], classes, self.multi_class, self.decision_function_shape)
                try:
                    found[k] = scorer(held, X, y, **own)
                except AttributeError as error:
                    raise ParameterError(
                        f"ClassifierCV: scoring={brief(self.scoring)} asks for more than decision values "
                        f"({' '.join(str(error).split())}); take another, or GridSearchCV over Classifier"
                    ) from error
            return found

        return scored

    def _choose(self, order: list[int]) -> None:
        """The best value by the rule, from the scores."""
        scores = self.scores_
        self.mean_scores_, self.std_scores_ = scores.mean(axis=1), scores.std(axis=1)
        mean = np.where(np.isnan(self.mean_scores_), -np.inf, self.mean_scores_)[order]
        if not np.isfinite(mean).any():
            raise SolverError(
                f"ClassifierCV: none of {mean.size} values from {self.values_.min():.6g} to "
                f"{self.values_.max():.6g} has a classifier on every fold; fit ucm.Classifier at one of them "
                "to see why, or write other values"
            )
        least = best = mean.max()
        if self.rule == "1se" and scores.shape[1] > 1:
            spread = scores[order[int(np.argmax(mean))]].std(ddof=1)
            least = best - spread / math.sqrt(scores.shape[1])
        self.best_index_ = order[int(np.flatnonzero(mean >= least - 1e-12 * abs(best))[0])]
        self.best_value_ = float(self.values_[self.best_index_])
        self.best_score_ = float(self.mean_scores_[self.best_index_])

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """That of `classifier_`."""
        check_is_fitted(self)
        return self.classifier_.decision_function(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """The label of every row of X, by `classifier_`."""
        check_is_fitted(self)
        return self.classifier_.predict(X)

    @available_if(lambda self: self.probability)
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities of the classes, by `classifier_`."""
        check_is_fitted(self)
        return self.classifier_.predict_proba(X)


def _answers(S: Any, classes: NDArray[Any], scheme: str) -> NDArray[Any]:
    """(test, values) labels from (test, problems, values) decision values."""
    if classes.size == 2:
        return classes[(S[:, 0] > 0.0).astype(np.intp)]
    if scheme == "ovr":
        return classes[np.argmax(S, axis=1)]
    votes = [one_vs_one_scores(S[:, :, k], classes.size).argmax(axis=1) for k in range(S.shape[2])]
    return classes[np.column_stack(votes)]


class _Held(ClassifierMixin, BaseEstimator):
    """Decision values of the samples held out, as what a scorer takes."""

    def __init__(self, scores: Any, classes: NDArray[Any], scheme: str, shape: str) -> None:
        self.scores, self.classes, self.scheme, self.shape = scores, classes, scheme, shape
        self.classes_ = classes

    def fit(self, X: Any, y: Any) -> _Held:
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        if self.classes.size == 2:
            return self.scores[:, 0]
        if self.scheme == "ovr" or self.shape == "ovo":
            return self.scores
        return one_vs_one_scores(self.scores, self.classes.size)

    def predict(self, X: Any) -> NDArray[Any]:
        return _answers(self.scores[:, :, None], self.classes, self.scheme)[:, 0]
