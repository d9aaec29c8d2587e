"""The scikit-learn estimator `Classifier`, which compiles and solves a declared model in `fit`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.svm import SVC, LinearSVC
from sklearn.utils import Tags
from sklearn.utils.metadata_routing import MetadataRequest
from sklearn.utils.validation import check_is_fitted, validate_data

from ucm.compiler.compile import compile
from ucm.compiler.plan import Plan
from ucm.data.bound_data import is_stored
from ucm.data.dask_rows import is_dask
from ucm.data.gram import Expansion
from ucm.data.kernel_options import FeatureFunction
from ucm.data.kernels import KernelName
from ucm.data.linear_map import Matrix
from ucm.data.moments import in_double
from ucm.data.readers import feature_rows
from ucm.data.source import RowSource
from ucm.data.validation import refuse_unsound, scale_hint
from ucm.errors import CompositionError, ParameterError, ScaleWarning, SolverError, brief, warn_of
from ucm.estimators.exported import exported
from ucm.estimators.multiclass import (
    Pair,
    Problems,
    about_pair,
    answers,
    contrast,
    coupled_probabilities,
    each,
    one_vs_one_scores,
    pairs_of,
    scheme_of,
    score_sign,
)
from ucm.estimators.out_of_core import (
    fit_rows,
    hits_rows,
    lazy_accuracy,
    lazy_answers,
    scored,
    write_scores,
)
from ucm.estimators.progress import CallbackSupportMixin, tasks, with_callbacks
from ucm.estimators.validation import (
    Versioned,
    check_options,
    data_errors,
    fitted_anew,
    has_direction,
    kernel_options,
    model_of,
    normal_in_features,
    offset_of,
    offsets,
    requests_of,
    samples_of,
    solve_options,
    warn_if_doubtful,
    with_bias,
)
from ucm.forms.monitor import Monitor, time_of
from ucm.forms.solution import Certificate, Solution
from ucm.forms.solver import Solver
from ucm.language import models
from ucm.language.contracts import UncertaintySet
from ucm.language.losses import Logistic
from ucm.language.node import Node, as_declared
from ucm.language.objective import Objective, split_scalar
from ucm.language.per_sample import check_quantities
from ucm.language.robust import RobustMargin

_NESTED = "model__"
_OF_SAMPLES = ("plan_", "solution_", "history_", "support_")  # as large as the samples; not in a pickle


def default_model(kernel: object = None) -> Objective:
    """Return the default model of a `Classifier`: a squared-hinge SVM, C = 0.1 if linear, else C = 1."""
    return models.psvm(2.0, 0.1 if kernel in (None, "linear") else 1.0)


class Classifier(CallbackSupportMixin, ClassifierMixin, Versioned):
    """A scikit-learn classifier for two or more classes that fits a declared model.

    `fit` compiles the model for the samples and solves it. Where the decision function is positive, `predict`
    returns `classes_[1]`; it is `w'x + b`, or minus this if `pos_label` is `classes_[0]`. For more classes
    `fit` solves several problems of two classes, one against one or one against the rest.

    Every `Param` of the model is a parameter of the estimator too: `Param("nu", 0.3)` can be set and searched
    as `model__nu`. A declaration is immutable: `clone` shares it, and `set_params` replaces it.

    Parameters
    ----------
    model : UncertaintySet, RobustMargin or Objective, default=None
        None means `ucm.models.psvm(2.0, 0.1)`, the squared hinge loss with `L2()`, and `psvm(2.0, 1.0)` with
        a kernel other than "linear" (benchmarks/RESULTS.md has the measurements).
    kernel : None, "linear", "poly", "rbf", "sigmoid", "precomputed" or callable, default=None
        As in `sklearn.svm.SVC`; None and "linear" mean the same.
    kernel_approx : int or transformer, default=None
        Features in place of the kernel, from all samples of the fit: the number of samples of scikit-learn's
        `Nystroem`, or without `kernel` a transformer such as `RBFSampler`, fitted or not. `certificate_` is
        then of the model in these features.
    gamma, degree, coef0 : default="scale", 3, 0.0
        Of the kernels, as in `sklearn.svm.SVC`, from all samples of the fit.
    solver : str or Solver, default="auto"
        As in `ucm.compile`.
    tol : float in (0, 1), default=1e-6
        Relative duality gap to prove.
    max_iter : int, default=None
        Limit of iterations; None for the default of the solver.
    time_limit : float, default=None
        Seconds for all problems of one fit together. `certificate_` has the gap that is proven by then.
    bias_rule : str, default="auto"
        The bias b of a set, by a rule of `Plan.solve`: from the "multipliers" of the mass constraints, at the
        "midpoint" of the nearest points of the classes or of the class "means", with the least training error
        ("min_error"), by the "odds" of two normal distributions of the scores, through the nearest point of a
        set of one class ("boundary"), or "zero". "auto" is the first of "multipliers", "midpoint" and
        "min_error" that applies; with class weights "multipliers" or "odds"; for the objective 0 "min_error".
    multi_class : "auto", "ovo" or "ovr", default="auto"
        One against one (the most votes win, ties go to the larger sum of decision values), or one against the
        rest; "auto" is "ovr" from 10 classes on.
    decision_function_shape : "ovr" or "ovo", default="ovr"
        With more than two classes, whether `decision_function` has one column for each class or for each
        problem.
    fit_intercept : bool, default=True
        False: b = 0, for `loss + penalty` only. True: the intercept that the model declares, by default a
        free one.
    intercept_scaling : float, default=None
        The value of one more feature, whose penalised weight gives the intercept, as in
        `sklearn.svm.LinearSVC`; None for the intercept that the model declares.
    class_weight : None, "balanced" or dict {label: weight}, default=None
        Factor of the sample weights of a class: in losses; with sets, in the caps and balls of the weights,
        and as the cost of errors in the bias rules "min_error" and "odds"; m in `nu` does not change.
        "balanced" means m / (k m_o) for the m_o samples of one of k classes. A label that is not in the dict
        has weight 1. Means and covariances of a class do not depend on the weight of the class. The rest in
        "ovr" has the mean weight of its samples.
    pos_label : default=None
        The label of the class `pos`, +1 of the declaration, of two labels; None for the larger label.
    read_as : None, "pos" or "neg", default=None
        The class whose matrix maps new samples, if the classes have different matrices, as in
        `M1 @ A - M2 @ B`. "pos" is `pos_label`; with several classes it is the positive class of each
        problem. `coef_` is then `M'w` for that matrix, and `bias_rule="auto"` minimises the training error of
        the mapped samples. None refuses such a set.
    n_jobs : int, default=None
        Number of two-class problems solved at a time, in threads.
    keep_solution : bool, default=False
        Whether a pickle holds `plan_` with the training data, `solution_`, `history_` and `support_` too.
    verbose : int, default=0
        Print a table of the iterations. In a terminal or a notebook a spinner shows a fit of more than 2
        seconds in any case; callbacks of scikit-learn (`set_callbacks`) have one task for each problem.

    Attributes
    ----------
    classes_ : (k,) array
        The sorted labels.
    pos_label_ : object
        Of two classes, the label of the class `pos`.
    coef_ : (problems, n) array
        The normal w, one row for two classes: of norm 1, the norm of the model, for a set, and `M'w` for a
        set `M @ U`. Missing with a kernel. With `classes_[0]` as `pos_label` all coefficients are negated.
    intercept_ : (problems,) array
        The bias b.
    dual_coef_ : (problems, k) array
        With a kernel that is not approximated, the coefficients of the samples `support_`.
    support_ : (k,) array of int
        Indices of the samples with weight (more than `tol` times the largest weight), if the set has samples.
        With a kernel that is not approximated, all samples that `decision_function` evaluates.
    n_iter_ : int, or (problems,) array
        Iterations of the solver.
    n_features_in_ : int
        Number of features n.
    feature_names_in_ : (n,) array of str
        Names of the features, if X has names.
    dual_gap_ : float
        The largest proven absolute duality gap.
    plan_, solution_, certificate_, history_ : of the one problem, or lists of them
        The compiled model (`plan_.explain()`, `plan_.verify()`); the solution with status, message, weights
        of the samples and statistics; the proof of accuracy, computed from the declaration; one record for
        each reported iteration. A pickle or a copy has `certificate_` alone, and of a linear classifier no
        `support_`, which are as large as the samples, unless `keep_solution`.

    Raises
    ------
    DataError
        X or y cannot be used: NaN, one class, lengths that differ, ...
    ParameterError
        An option outside its range.
    EmptySetError
        The set has no point for these parameters.
    SolverError
        0 lies in the set, the set turned out to be empty, or the solver does not take it.
    CompositionError
        The model does not fit the data, or its w is no direction in the space of X.

    Notes
    -----
    A fit that raises, or is interrupted, leaves the estimator as it was before.

    A group, `pos.group("A")`, has the samples of the fold or the pair of classes that is fitted; `m` in `nu`
    counts all samples of that fold or pair.

    A sample of weight 2 is equivalent to two copies of the sample.

    Examples
    --------
    >>> import ucm
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = scale(X)
    >>> clf = ucm.Classifier(ucm.models.nu_svm(0.3)).fit(X, y)
    >>> clf.solution_.status
    'optimal'
    >>> clf.score(X, y) > 0.9
    True
    >>> clf.get_params()["model__nu"]
    0.3
    >>> search = GridSearchCV(clf, {"model__nu": [0.2, 0.3]}, cv=3).fit(X, y)
    >>> search.best_estimator_.model.params() == {"nu": search.best_params_["model__nu"]}
    True
    """

    classes_: np.ndarray
    pos_label_: Any
    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    dual_coef_: NDArray[np.float64]
    support_: NDArray[np.intp]
    expansion_: Expansion | FeatureFunction
    n_features_in_: int
    feature_names_in_: np.ndarray
    dual_gap_: float
    # for two classes one object, for more classes a list
    n_iter_: Any
    plan_: Any
    solution_: Any
    certificate_: Certificate | list[Certificate]
    history_: Any

    def __init__(
        self,
        model: UncertaintySet | RobustMargin | Objective | None = None,
        *,
        kernel: KernelName | Callable[..., Any] | None = None,
        kernel_approx: Any = None,
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        solver: str | Solver = "auto",
        tol: float = 1e-6,
        max_iter: int | None = None,
        time_limit: float | None = None,
        bias_rule: str = "auto",
        multi_class: str = "auto",
        decision_function_shape: str = "ovr",
        fit_intercept: bool = True,
        intercept_scaling: float | None = None,
        class_weight: str | dict[Any, float] | None = None,
        pos_label: object = None,
        read_as: str | None = None,
        n_jobs: int | None = None,
        keep_solution: bool = False,
        verbose: int = 0,
    ) -> None:
        self.model = model
        self.kernel = kernel
        self.kernel_approx = kernel_approx
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.bias_rule = bias_rule
        self.multi_class = multi_class
        self.decision_function_shape = decision_function_shape
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.read_as = read_as
        self.n_jobs = n_jobs
        self.keep_solution = keep_solution
        self.verbose = verbose

    # --- parameters ------------------------------------------------------------------------
    @property
    def _given_model(self) -> Any:
        return default_model(self.kernel) if self.model is None else self.model

    @property
    def declared_model(self) -> RobustMargin | Objective:
        """The model that `fit` compiles: `model`, or the default if None; a set as its `RobustMargin`."""
        declared, scaling = as_declared(self._given_model, type(self).__name__), self.intercept_scaling
        if self.fit_intercept and scaling is None:
            return declared
        if not isinstance(declared, Objective):
            raise CompositionError(
                "Classifier: fit_intercept and intercept_scaling: expected a loss plus a penalty, got the "
                f"set of {brief(declared)}, whose b follows from bias_rule; leave them out, or write "
                'bias_rule="zero"'
            )
        if not self.fit_intercept and scaling is not None:
            raise ParameterError(
                f"Classifier: intercept_scaling: expected None without an intercept, got {brief(scaling)}; "
                "leave it out, or set fit_intercept=True"
            )
        kind, value = (None, 1.0) if scaling is None else ("penalised", scaling)
        return declared.with_intercept(kind, value)

    def get_params(self, deep: bool = True) -> dict:
        """Return the parameters by name; if `deep`, also `model__<name>` for each `Param` of the model.

        Without a `model` they are those of the default model, as `model__C`.
        """
        params = super().get_params(deep=deep)
        if deep and isinstance(self._given_model, Node):
            params |= {_NESTED + name: x for name, x in self._given_model.params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; `model__<name>=x` replaces the model by a copy in which the `Param` <name> is x.

        Raises
        ------
        ValueError
            The estimator, or its model, has no parameter of that name.
        """
        nested = {
            name.removeprefix(_NESTED): params.pop(name) for name in list(params) if name.startswith(_NESTED)
        }
        every = self.get_params()
        inner = [name for name in params if name not in every and _NESTED + name in every]
        if inner:
            raise ParameterError(
                f"set_params: expected an option of Classifier, got {inner[0]!r}, a parameter of its model; "
                f"write {_NESTED}{inner[0]}"
            )
        super().set_params(**params)  # first, as it may replace the model
        if nested:
            model = self._given_model
            if not isinstance(model, Node):
                raise ParameterError(
                    f"set_params: {_NESTED}{next(iter(nested))} is a parameter of the model, got the model "
                    f"{model!r}; give a declared one, such as ucm.models.psvm(2.0, 0.1)"
                )
            self.model = model.with_params(**nested)
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags

    # --- fit -------------------------------------------------------------------------------
    @with_callbacks
    def fit(
        self, X: object, y: object = None, sample_weight: object = None, subgroup: object = None,
        **per_sample: object,
    ) -> Self:  # fmt: skip
        """Compile and solve the model for each two-class problem of the samples, and return the estimator.

        Parameters
        ----------
        X : (m, n) array, data frame or sparse matrix of finite numbers, or an argument of `ucm.open_rows`
        y : (m,) two or more different labels, numbers or strings; of a file also the name of their column
        sample_weight : (m,) array of numbers >= 0, optional
            Multiplicities of the samples in losses, caps, balls of weights, means, covariances, the bias and
            gamma="scale"; samples of weight 0 are left out.
        subgroup : (m,) array of strings or numbers, optional
            The group of every sample, for models with `pos.group("A")`. scikit-learn's tools pass it on,
            fold by fold, after `sklearn.set_config(enable_metadata_routing=True)` and
            `set_fit_request(subgroup=True)`.
        **per_sample : (m,) arrays of numbers
            The values of the quantities `ucm.per_sample(name)` of the model, by name, as `radius=r`. The
            offset of the scores of k > 2 classes is (m, k): a problem of two classes has the difference of
            their columns, one against the rest the column of the class. scikit-learn's tools pass the values
            on with metadata routing; they need no request.
        """
        with fitted_anew(self):
            check_options(self)
            model = self.declared_model
            if is_stored(X):
                check_quantities(model, per_sample)
                self._fit_rows(model, X, y, sample_weight, subgroup)
            else:
                self._fit(model, X, y, sample_weight, subgroup, per_sample)
        return self

    def get_metadata_routing(self) -> MetadataRequest:
        """Return the metadata requests of scikit-learn, those of the quantities of the model included."""
        return requests_of(super().get_metadata_routing(), model_of(self))

    def _fit(
        self, model: RobustMargin | Objective, X: Matrix, y: object, sample_weight: object, subgroup: object,
        per_sample: Mapping[str, object],
    ) -> None:  # fmt: skip
        """Set the fitted attributes from samples in memory."""
        began = time.perf_counter()
        given = sample_weight, subgroup, per_sample
        samples = samples_of(self, X, y, *given, self.pos_label, model)
        X, classes = samples.X, samples.classes
        problems = Problems(self, samples)
        kernel, options = kernel_options(self, X, samples.weights)
        if self.kernel != "precomputed" and (hint := scale_hint(X)):
            warn_of(f"Classifier: {hint}, and mostly improves it", ScaleWarning)

        def work(pair: Pair) -> tuple[Plan, Solution]:
            prefix, arguments = pair.prefix(classes), problems.arguments(pair)
            to_solve = solve_options(self, began)
            with about_pair(prefix):
                with time_of(Monitor(time_limit=to_solve["time_limit"])):
                    plan = compile(model, **arguments, solver=self.solver, **options)
                with plan.data.unchecked():  # the checksum was computed above
                    solution = plan.solve(**to_solve)
            if not has_direction(model, solution):
                raise SolverError(f"Classifier: {prefix}{solution.message}")
            solution = with_bias(model, plan, solution, self.bias_rule, self.read_as)
            limit = to_solve["time_limit"]
            warn_if_doubtful(plan, solution, arguments["X"], pair.signs, prefix, limit)
            return plan, solution

        pairs, solved = problems.pairs, []
        with tasks(self, len(pairs)) as done:
            for pair, answer in zip(pairs, each(work, pairs, self.n_jobs), strict=True):
                solved.append(answer)
                done(pair.prefix(classes) or "solved")
        plans, solutions = zip(*solved, strict=True)
        self._set_solutions(model, classes, X.shape[1], plans, solutions)
        if kernel is not None:
            C = np.zeros((X.shape[0], len(pairs)))
            for k, (pair, s) in enumerate(zip(pairs, solutions, strict=True)):
                C[pair.rows, k] = score_sign(classes, self.pos_label) * s.coefficients
            expansion = Expansion.of(kernel, X, C)
            self.expansion_, self.support_ = expansion, expansion.support
            self.dual_coef_ = C[self.support_].T
        elif all(s.weights is not None for s in solutions):
            used = np.zeros(X.shape[0], dtype=bool)
            for pair, s in zip(pairs, solutions, strict=True):
                # an interior-point method returns small numbers for weights that are 0
                used[pair.rows] |= s.weights > self.tol * s.weights.max()
            self.support_ = np.flatnonzero(used)

    def _fit_rows(
        self, model: RobustMargin | Objective, X: object, y: object, sample_weight: object, subgroup: object
    ) -> None:
        """Set the fitted attributes from out-of-core rows, which are read block by block."""
        tags = {"sample_weight": sample_weight, "subgroup": subgroup}
        source, classes, plans, solutions = fit_rows(self, model, X, y, tags)
        for solution in solutions:
            if not has_direction(model, solution):
                raise SolverError(f"Classifier: {solution.message}")
        self.n_features_in_ = source.n
        if source.features is not None:
            self.feature_names_in_ = np.array(source.features, dtype=object)
        self._set_solutions(model, classes, source.n, plans, solutions)

    def _set_solutions(
        self, model: RobustMargin | Objective, classes: np.ndarray, n: int, plans: Sequence[Plan],
        solutions: Sequence[Solution],
    ) -> None:  # fmt: skip
        """Set the fitted attributes that samples in memory and out-of-core rows have in common."""
        self.classes_, sign = classes, score_sign(classes, self.pos_label)
        if classes.size == 2:
            self.pos_label_ = classes[int(sign > 0.0)]
        self.plan_ = _one_or_list(plans)
        self.solution_ = _one_or_list(solutions)
        self.certificate_ = _one_or_list([s.certificate for s in solutions])
        self.history_ = _one_or_list([s.history for s in solutions])
        iterations = np.array([s.stats.iterations for s in solutions])
        self.n_iter_ = int(iterations[0]) if iterations.size == 1 else iterations
        self.dual_gap_ = max(s.certificate.gap for s in solutions)
        approx = plans[0].data.approx
        if approx is not None:
            self.expansion_ = FeatureFunction(approx, sign * np.array([s.w for s in solutions]).T)
        elif solutions[0].w is not None:
            self.coef_ = sign * np.array([normal_in_features(model, s, n) for s in solutions])
        self.intercept_ = sign * np.array([s.b for s in solutions], dtype=float)

    def __getstate__(self) -> dict:
        """Return the state of a pickle: what predicts and the certificate, and all with `keep_solution`."""
        state: Any = super().__getstate__()
        if self.keep_solution:
            return state
        left_out = _OF_SAMPLES if "coef_" in state else _OF_SAMPLES[:-1]  # a kernel predicts by `support_`
        return {name: value for name, value in state.items() if name not in left_out}

    if not TYPE_CHECKING:  # a type checker would accept every name

        def __getattr__(self, name: str) -> NoReturn:
            """Raise `AttributeError`, with the remedy for an attribute that the pickle left out."""
            if name not in _OF_SAMPLES or "classes_" not in vars(self):
                object.__getattribute__(self, name)  # raises the error, also that of a property
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}; a pickle and a copy hold it with "
                "keep_solution=True"
            )

    @property
    def _against_the_rest(self) -> bool:
        return scheme_of(self.multi_class, self.classes_.size) == "ovr"

    # --- predict ---------------------------------------------------------------------------
    def decision_function(self, X: object, **per_sample: object) -> NDArray[np.float64]:
        """Return the decision values, one column for each class or problem of more than two classes.

        A positive value means `classes_[1]` of two classes: `w'x + b`, or minus this if `pos_label` is
        `classes_[0]`.

        With k > 2 classes one column for each class, the largest of which `predict` returns (in "ovo" votes,
        plus less than half a vote by the sums of decision values); with `decision_function_shape="ovo"` the
        values of the problems, positive for the first class of a pair.

        Parameters
        ----------
        X : (m, n) array, data frame or sparse matrix, or an argument of `ucm.open_rows`, without labels; with
            kernel="precomputed" the k(x, x_i) for the samples x_i of the fit
        **per_sample : (m,) or (m, k) array
            The offset of the scores by its name, if the model has one, as in `fit`.

        Returns
        -------
        (m,), (m, k) or (m, k (k - 1) / 2) array; for Dask a Dask array, as from `predict`
        """
        if is_dask(X):
            return lazy_answers(self, "decision_function", X)
        scores = self._scores(X, **per_sample)
        if self.classes_.size == 2:
            return scores[:, 0]
        if self._against_the_rest or self.decision_function_shape == "ovo":
            return scores
        return one_vs_one_scores(scores, self.classes_.size)

    def score(self, X: object, y: object = None, sample_weight: object = None, **per_sample: object) -> float:
        """Return the accuracy of `predict`, weighted by `sample_weight`; for Dask input a lazy Dask scalar.

        Parameters
        ----------
        X : as in `decision_function`, or a source with labels
        y, sample_weight : labels and weights, or names of columns of a file or a frame of Dask; None if the
            source has them
        **per_sample : as in `decision_function`
        """
        check_is_fitted(self)
        if is_dask(X):
            return lazy_accuracy(self, X, y, sample_weight)
        if is_stored(X) and (y is None or not isinstance(X, RowSource)):
            return hits_rows(self, X, y, sample_weight)
        return float(accuracy_score(y, self.predict(X, None, **per_sample), sample_weight=sample_weight))

    def _scores(self, X: Matrix, **per_sample: object) -> NDArray[np.float64]:
        """Return the decision values, (m, problems), one column for each two-class problem."""
        check_is_fitted(self)
        if is_stored(X):
            if offset_of(self.declared_model):
                raise CompositionError(
                    "Classifier: expected samples in memory for a model with an offset of the scores, got "
                    f"rows that are read block by block, {brief(X)}; give arrays"
                )
            names = getattr(self, "feature_names_in_", None)
            columns = None if names is None else list(names)
            source = feature_rows(X, columns)
            if "coef_" in vars(self):
                return scored(source, self.coef_, columns)[0] + self.intercept_
            mapped = source.mapped(self.expansion_.scores)
            return scored(mapped, np.eye(self.intercept_.size), None)[0] + self.intercept_
        with data_errors("predict"):
            refuse_unsound(X, "Classifier: X")
            X = validate_data(self, X, accept_sparse="csr", reset=False)
        linear = "coef_" in vars(self)
        scores = np.empty((X.shape[0], self.intercept_.size))
        for rows, part in in_double(X):
            products = part @ self.coef_.T if linear else self.expansion_.scores(part)
            np.add(products, self.intercept_, out=scores[rows])
        offset = offsets(self.declared_model, per_sample, X.shape[0], self.classes_.size)
        if self.classes_.size == 2:
            return scores + score_sign(self.classes_, self.pos_label) * offset
        if offset.shape[1] > 1:
            scores += np.column_stack([contrast(offset, *pair) for pair in pairs_of(self.classes_, self)])
        return scores

    def predict(self, X: object, out: str | Path | None = None, **per_sample: object) -> np.ndarray:
        """Return the predicted label of every row of X, (m,); for Dask input a lazy Dask array.

        Parameters
        ----------
        X : as in `decision_function`
        out : path, optional
            A Parquet file to write, with the labels in the column `label` and the decision values in
            `decision`, or in `decision_<class>` for each of several classes.
        **per_sample : as in `decision_function`
        """
        if is_dask(X):
            return lazy_answers(self, "predict", X)
        scores = self._scores(X, **per_sample)
        labels = answers(scores[:, :, None], self.classes_, self.multi_class)[:, 0]
        if out is not None:
            if scores.shape[1] > 1 and not self._against_the_rest:
                scores = one_vs_one_scores(scores, self.classes_.size)
            write_scores(out, labels, scores, self.classes_)
        return labels

    @property
    def predict_proba(self) -> Callable[..., NDArray[np.float64]]:
        """The method that maps X to class probabilities, (m, k); only for models with the loss `Logistic()`.

        `P(classes_[1] | x) = 1 / (1 + exp(-decision_function(x)))`, with `Logistic()` as its negative
        log-likelihood. For several classes one against the rest the sigmoids of the problems, divided by
        their sum; one against one they are coupled (Wu, Lin and Weng 2004). Class weights and sample weights
        change the odds of the classes.

        Raises
        ------
        AttributeError
            The model is not `loss + penalty` with the loss `Logistic()` of all samples.
        """
        model = self.declared_model
        if not _logistic(model):
            raise AttributeError(
                f"Classifier.predict_proba: needs the loss Logistic(), and the model is {model!r}; calibrate "
                "its decision values: sklearn.calibration.CalibratedClassifierCV(Classifier(...))"
            )
        return self._sigmoids

    def to_sklearn(self) -> LinearSVC | LogisticRegression | SVC:
        """Return the fitted classifier as one of scikit-learn, for exporters such as skl2onnx and SHAP.

        It is a `LogisticRegression` for the loss `Logistic()`, an `SVC` with a kernel, else a `LinearSVC`,
        with the same classes and decision function. Its parameters are not those of the model.

        Raises
        ------
        CompositionError
            scikit-learn has no such estimator: kernels of several classes, callable, precomputed or
            approximated kernels, and linear models of several classes one against one or with probabilities.

        Examples
        --------
        >>> import ucm
        >>> X, y = ucm.datasets.load("wine")
        >>> clf = ucm.Classifier(ucm.models.nu_svm(0.3)).fit(X, y)
        >>> bool((clf.to_sklearn().predict(X) == clf.predict(X)).all())
        True
        """
        check_is_fitted(self)
        model = self.declared_model
        if offset_of(model):
            raise CompositionError(
                f"to_sklearn: expected a model without an offset of the scores, got {brief(model)}; "
                "scikit-learn has none, so add it to decision_function"
            )
        return exported(self, _logistic(model))

    def _sigmoids(self, X: object, **per_sample: object) -> NDArray[np.float64]:
        if is_dask(X):
            return lazy_answers(self, "predict_proba", X)
        scores = self._scores(X, **per_sample)
        P = expit(scores)
        if self.classes_.size == 2:
            return np.column_stack([expit(-scores), P])
        if not self._against_the_rest:
            return coupled_probabilities(P, self.classes_.size)
        return P / P.sum(axis=1, keepdims=True)


def _one_or_list(items: Sequence[Any]) -> Any:
    """Return a single item itself, and several items as a list."""
    return items[0] if len(items) == 1 else list(items)


def _logistic(model: Node) -> bool:
    """True if the loss is a scalar multiple of `Logistic()` over all samples."""
    loss: Any = split_scalar(model.loss)[1] if isinstance(model, Objective) else None
    return type(loss) is Logistic and loss.on is None
