"""The scikit-learn classifier: store, validate, compile, solve, copy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from ucm import models
from ucm.compiler.compile import compile
from ucm.compiler.recover import feature_normal
from ucm.contracts import Solver, UncertaintySet, Vec
from ucm.errors import CompositionError, DataError, ParameterError, SolverError, UCMError
from ucm.evidence.sparsity import sparsity
from ucm.expression import Node
from ucm.language.objective import RobustMargin, as_model
from ucm.language.regularised import Objective
from ucm.solution import Solution

__all__ = ["Classifier"]

_NESTED = "model__"


class Classifier(ClassifierMixin, BaseEstimator):
    """A declared model as a scikit-learn estimator for two classes.

    `fit` compiles the model for the samples and solves it. The decision function is
    `w'x + b`; where it is positive, `predict` answers `classes_[1]`, which is the class `pos`.

    Every `Param` of the model is a parameter of the estimator too: `Param("nu", 0.3)` can be set
    and searched as `model__nu`. A declaration is immutable; `clone` shares it, and `set_params`
    puts another one in its place.

    Parameters
    ----------
    model : UncertaintySet, RobustMargin or Objective, default=None
        None means `ucm.models.mm_fda(0.05)`.
    kernel : None or "linear", default=None
        The inner product of the feature space; the two values mean the same.
    gamma : "scale", "auto" or float, default="scale"
        Of the non-linear kernels, as in `sklearn.svm.SVC`; not read by a linear one.
    degree : int, default=3
        As `gamma`.
    coef0 : float, default=0.0
        As `gamma`.
    solver : str or Solver, default="auto"
        As in `ucm.compile`.
    tol : float in (0, 1), default=1e-6
        Relative duality gap to prove.
    max_iter : int, default=None
        Limit of iterations; None for the solver's own.
    bias : "auto", "kkt", "midpoint", "error" or "zero", default="auto"
        How b is found: from the multipliers of the mass constraints, half-way between the nearest
        points of the classes, by the least training error, or not at all. "auto" takes the first of
        the first three that applies to the set.
    multi_class : "ovo" or "ovr", default="ovo"
        One against one, or one against the rest. Two classes are the same problem either way.
    class_weight : None, "balanced" or dict {label: weight}, default=None
        Multiplies the caps on the weights of the samples (`ReducedHull`, `CappedSimplex`) and the
        cost of their errors in the bias rule "error". "balanced" means m / (2 m_o) for the m_o
        samples of a class. A label that the dict leaves out has weight 1. Constants cancel in
        means and covariances; a domain of weights without caps refuses class weights.
    n_jobs : int, default=None
        Number of two-class problems solved at a time. Two classes make one problem.
    verbose : int, default=0
        Print a table of the iterations.

    Attributes
    ----------
    classes_ : (2,) array
        The labels; `classes_[0]` is `neg`, `classes_[1]` is `pos`.
    coef_ : (1, n) array
        The normal w (of norm 1, the norm of the model, when it is robust). `M'w` for a set `M @ U`.
    intercept_ : (1,) array
        The bias b.
    support_ : (k,) array of int
        Indices of the samples with weight (more than `tol` times the largest one), where the set is
        made of samples; else there is no such attribute.
    sparsity_ : Sparsity
        The fractions of features and of samples in use, and their product.
    n_iter_ : int
        Iterations of the solver.
    n_features_in_ : int
        Number of features n.
    feature_names_in_ : (n,) array of str
        Their names, where X has names.
    dual_gap_ : float
        The proven absolute duality gap, `certificate_.gap`.
    certificate_ : Certificate
        The proof of accuracy, computed from the declaration.
    solution_ : Solution
        The whole answer: status, message, weights of the samples, statistics.
    history_ : list of dict
        One record per reported iteration.
    plan_ : Plan
        The compiled model: `plan_.explain()`, `plan_.verify()`. It holds the training data, and so
        does a pickle of the estimator; after `del clf.plan_` it still predicts.

    Raises
    ------
    DataError
        X or y cannot be used: NaN, one class, three classes, lengths that differ, ...
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

    There is no `sample_weight`: means, covariances and hulls would each have to give it a meaning.

    Examples
    --------
    >>> import ucm
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import GridSearchCV
    >>> X, y = load_breast_cancer(return_X_y=True)
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

    def __init__(
        self,
        model: UncertaintySet | RobustMargin | Objective | None = None,
        *,
        kernel: str | None = None,
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        solver: str | Solver = "auto",
        tol: float = 1e-6,
        max_iter: int | None = None,
        bias: str = "auto",
        multi_class: str = "ovo",
        class_weight: str | dict[Any, float] | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.model = model
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.bias = bias
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.verbose = verbose

    # --- parameters ------------------------------------------------------------------------
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; with `deep`, `model__<name>` for every `Param` of the model."""
        params = super().get_params(deep=deep)
        if deep and isinstance(self.model, Node):
            params |= {_NESTED + name: x for name, x in self.model.params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; `model__<name>` replaces the model by one with that value.

        Raises
        ------
        ValueError
            The estimator, or its model, has no parameter of that name.
        """
        own = {name: x for name, x in params.items() if not name.startswith(_NESTED)}
        nested = {n.removeprefix(_NESTED): x for n, x in params.items() if n not in own}
        super().set_params(**own)  # first: it may put the model there whose values follow
        if not nested:
            return self
        if not isinstance(self.model, Node):
            raise ParameterError(
                f"set_params: {_NESTED}{next(iter(nested))} is a parameter of the model, and the "
                f"model is {self.model!r}; give one first, such as ucm.models.mm_fda(0.05)"
            )
        self.model = self.model.with_params(**nested)
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags

    # --- fit -------------------------------------------------------------------------------
    def fit(self, X: Any, y: Any) -> Self:
        """Compile the model for these samples and solve it.

        Parameters
        ----------
        X : (m, n) array, data frame or sparse matrix of finite numbers
        y : (m,) two different labels, numbers or strings

        Returns
        -------
        self
        """
        former = dict(vars(self))
        try:
            for name in former:
                if name.endswith("_"):
                    delattr(self, name)
            return self._fit(X, y)
        except BaseException:  # Ctrl-C too
            vars(self).clear()
            vars(self).update(former)
            raise

    def _fit(self, X: Any, y: Any) -> Self:
        self._check_options()
        declared = models.mm_fda(0.05) if self.model is None else self.model
        model = declared if isinstance(declared, Objective) else as_model(declared, "Classifier")
        with _data_errors("fit"):
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, order="C")
            classes, signs = _two_classes(y)
        self.plan_ = compile(
            model,
            X,
            signs,
            kernel=self.kernel,
            solver=self.solver,
            class_weight=self._weights(classes, y),
        )
        solution = self.plan_.solve(
            tol=self.tol,
            max_iter=self.max_iter,
            verbose=bool(self.verbose),
            bias_rule=self.bias,
        )
        if isinstance(model, RobustMargin) and not solution.w.any():
            # 0 lies in the set, or the set is empty: nothing to classify by
            raise SolverError(f"Classifier: {solution.message}")
        self.classes_ = classes
        self.coef_ = np.array([_normal(model, solution, X.shape[1])])
        self.intercept_ = np.array([solution.b])
        self.n_iter_ = solution.stats.iterations
        self.solution_ = solution
        self.certificate_ = solution.certificate
        self.dual_gap_ = solution.certificate.gap
        self.history_ = solution.history
        self.sparsity_ = sparsity(model, self.plan_.data, solution)
        if solution.weights is not None:
            # an interior-point route leaves small numbers where others leave exact zeros
            largest = solution.weights.max()
            self.support_ = np.flatnonzero(solution.weights > self.tol * largest)
        return self

    def _check_options(self) -> None:
        """The options that neither `compile` nor `solve` reads."""
        if self.multi_class not in ("ovo", "ovr"):
            raise ParameterError(
                f'Classifier: multi_class is "ovo" or "ovr", got {self.multi_class!r}; '
                "for two classes both are the same"
            )

    def _weights(self, classes: NDArray[Any], y: NDArray[Any]) -> tuple[float, float]:
        """`class_weight` as the pair for `pos` and `neg`."""
        try:
            weights = compute_class_weight(self.class_weight, classes=classes, y=y)
        except (TypeError, ValueError) as error:
            raise ParameterError(
                f"Classifier: class_weight: {error}; "
                f'give None, "balanced" or weights of the labels {classes.tolist()}'
            ) from error
        return float(weights[1]), float(weights[0])

    # --- predict ---------------------------------------------------------------------------
    def decision_function(self, X: Any) -> Vec:
        """`w'x + b` for every row x of X; positive means `classes_[1]`.

        Parameters
        ----------
        X : (m, n) array, data frame or sparse matrix

        Returns
        -------
        (m,) array
        """
        check_is_fitted(self)
        with _data_errors("predict"):
            X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return X @ self.coef_[0] + self.intercept_[0]

    def predict(self, X: Any) -> NDArray[Any]:
        """The label of every row of X.

        Parameters
        ----------
        X : (m, n) array, data frame or sparse matrix

        Returns
        -------
        (m,) array of labels
        """
        scores = self.decision_function(X)
        return self.classes_[(scores > 0.0).astype(np.intp)]


@contextmanager
def _data_errors(where: str) -> Iterator[None]:
    """What scikit-learn finds wrong with X and y, as this library's own error."""
    try:
        yield
    except UCMError:
        raise
    except ValueError as error:
        text = str(error)
        if "\n" not in text:  # the longer ones say what to do
            text = f"{text.rstrip('.')}; give a table of finite numbers, one label per row"
        raise DataError(f"Classifier.{where}: {text}") from error


def _two_classes(y: NDArray[Any]) -> tuple[NDArray[Any], Vec]:
    """The two labels in order, and -1.0 or +1.0 for every sample."""
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y", raise_unknown=True)
    classes, index = np.unique(y, return_inverse=True)
    if kind != "binary":
        raise DataError(
            f"Only binary classification is supported. The type of the target is {kind}, "
            f"with {classes.size} classes; wrap the estimator, for example in "
            "sklearn.multiclass.OneVsOneClassifier"
        )
    if classes.size == 1:
        raise DataError(
            f"y: expected two classes, got one class (all labels are {classes.tolist()[0]!r}); "
            "add samples of the other class"
        )
    return classes, np.where(index == 1, 1.0, -1.0)


def _normal(model: RobustMargin | Objective, solution: Solution, n: int) -> Vec:
    """w as a direction in the space of X, which has n features."""
    if isinstance(model, Objective):
        return solution.w
    normal = feature_normal(model.set, solution.w)
    if normal is None or solution.b is None:
        raise CompositionError(
            f"Classifier: w has {solution.w.size} entries and lives in another space than X ({n} "
            "features); put all samples of U under one matrix, as in M @ (A - B), or take "
            "ucm.solve for w itself"
        )
    return normal
