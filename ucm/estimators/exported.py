"""A fitted `Classifier` as an estimator of scikit-learn, for exporters that know no other classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC

from ucm.errors import CompositionError
from ucm.estimators.multiclass import scheme_of


def exported(classifier: Any, logistic: bool) -> LinearSVC | LogisticRegression | SVC:
    """Return the estimator of scikit-learn with the decision function of a fitted classifier.

    `logistic` : whether the loss is the logistic one, whose probabilities `LogisticRegression` has too.
    """
    classes = classifier.classes_
    if "coef_" not in vars(classifier):
        return _svc(classifier)
    if classes.size > 2 and (scheme_of(classifier.multi_class, classes.size) != "ovr" or logistic):
        kind = "multinomial" if logistic else "one against the rest"
        raise CompositionError(
            f"to_sklearn: expected two classes, as linear models of {classes.size} are {kind} there; "
            "convert the estimators_ of a OneVsRestClassifier(Classifier(...)), or, for a loss without "
            'probabilities, set multi_class="ovr"'
        )
    made = LogisticRegression() if logistic else LinearSVC()
    made.coef_, made.intercept_ = classifier.coef_.copy(), classifier.intercept_.copy()
    return _shared(made, classifier)


def _svc(classifier: Any) -> SVC:
    """Return an SVC of two classes, whose support vectors are sorted by class as LIBSVM's are."""
    expansion, classes = classifier.expansion_, classifier.classes_
    kernel = getattr(expansion, "kernel", None)
    if classes.size > 2 or kernel is None or kernel.name in ("callable", "precomputed"):
        raise CompositionError(
            f"to_sklearn: expected a named kernel and two classes, got {classifier.kernel!r} and "
            f"{classes.size} classes; approximate the kernel in a pipeline, or convert the estimators_ of a "
            "OneVsOneClassifier"
        )
    c = expansion.coefficients.ravel()
    order = np.argsort(c > 0.0, kind="stable")  # the class -1 first
    c, vectors = c[order], expansion.samples[order]
    made = SVC(kernel=kernel.name, gamma=kernel.gamma, degree=kernel.degree, coef0=kernel.coef0)
    made.support_ = expansion.support[order].astype(np.int32)
    made.support_vectors_ = vectors
    made._n_support = np.array([np.sum(c <= 0.0), np.sum(c > 0.0)], dtype=np.int32)
    made._sparse = sparse.issparse(vectors)
    made.dual_coef_ = sparse.csr_matrix(c[None, :]) if made._sparse else c[None, :].copy()
    made.intercept_ = classifier.intercept_.copy()
    made._dual_coef_, made._intercept_ = -made.dual_coef_, -made.intercept_  # LIBSVM's signs
    made._gamma = kernel.gamma
    made._probA = made._probB = np.empty(0)
    made._effective_probability = False
    made.class_weight_, made.fit_status_ = np.ones(2), 0
    made.shape_fit_ = (expansion.m, classifier.n_features_in_)
    return _shared(made, classifier)


def _shared(made: Any, classifier: Any) -> Any:
    """Set the attributes of every fitted estimator."""
    made.classes_, made.n_features_in_ = classifier.classes_.copy(), classifier.n_features_in_
    made.n_iter_ = np.atleast_1d(classifier.n_iter_)
    if hasattr(classifier, "feature_names_in_"):
        made.feature_names_in_ = classifier.feature_names_in_.copy()
    return made
