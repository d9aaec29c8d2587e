"""The problems of LIBSVM: `SVC` and `NuSVC`, in scikit-learn and in libraries with its attributes.

`C * sum_i max(0, 1 - t_i) + ||w||^2 / 2` with a free intercept, or the nu-SVM, whose w is divided by the
margin rho. Of k classes there is one problem for each pair (Chang and Lin, 2011).
"""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np

from ucm.audits.reading import Answer, Estimator, Family, Statement, dense
from ucm.data.linear_map import Matrix
from ucm.errors import DataError
from ucm.language.losses import Hinge
from ucm.language.models import nu_svm
from ucm.language.penalties import L2


def _svc(estimator: Estimator) -> Statement:
    C = float(estimator.C)
    model = (Hinge() if C == 1.0 else C * Hinge()) + 0.5 * L2()
    return Statement(model, class_weight=estimator.class_weight, kernel=kernel_of(estimator))


def _nu_svc(estimator: Estimator) -> Statement:
    """State the nu-SVM; LIBSVM takes no weights of classes there, and scikit-learn's are without effect."""
    return Statement(nu_svm(float(estimator.nu)), kernel=kernel_of(estimator))


def kernel_of(estimator: Estimator) -> dict[str, object]:
    """Return the kernel options of `ucm.compile`; none for the linear kernel."""
    if estimator.kernel == "linear":
        return {}
    if callable(estimator.kernel) or estimator.kernel == "precomputed":
        return {"kernel": estimator.kernel}
    gamma = getattr(estimator, "_gamma", estimator.gamma)
    gamma = gamma if isinstance(gamma, str) else float(gamma)
    options = {"kernel": estimator.kernel, "gamma": gamma}
    if estimator.kernel != "rbf":
        options["coef0"] = float(estimator.coef0)
    if estimator.kernel == "poly":
        options["degree"] = int(estimator.degree)
    return options


def _answers(estimator: Estimator, X: Matrix) -> list[Answer]:
    """Return the answers of all pairs of classes, from the layout of LIBSVM's `sv_coef`.

    Its columns are the support vectors, sorted by class. Of the pair (i, j) the coefficients of class i stand
    in row j - 1, and those of class j in row i.
    """
    coefficients = np.atleast_2d(dense(estimator.dual_coef_))
    support = np.asarray(estimator.support_).ravel()
    _check_samples(estimator, X, support)
    ends = np.cumsum([0, *np.ravel(estimator.n_support_)])  # cuML has one number, of two classes
    columns = [slice(*span) for span in pairwise(ends)]
    classes, answers = len(coefficients) + 1, []
    pairs = zip(combinations(range(classes), 2), np.ravel(dense(estimator.intercept_)), strict=True)
    for (i, j), b in pairs:
        c = np.zeros(X.shape[0])
        if classes == 2:
            c[support] = coefficients[0]
            i, j = 1, 0  # scikit-learn turns the signs of two classes
        else:
            c[support[columns[i]]] = coefficients[j - 1, columns[i]]
            c[support[columns[j]]] = coefficients[i, columns[j]]
        w = np.asarray(X.T @ c).ravel() if estimator.kernel == "linear" else None
        answers.append(Answer(i, j, float(b), w, c))
    return answers


def _check_samples(estimator: Estimator, X: Matrix, support: np.ndarray) -> None:
    """Raise `DataError` if X does not hold the support vectors at their places."""
    remedy = "give the samples of the fit in their order, as the multipliers are of them"
    if support.size and int(support.max()) >= X.shape[0]:
        raise DataError(
            f"audit: X: expected more than {int(support.max())} samples, got {X.shape[0]}; {remedy}"
        )
    if callable(estimator.kernel) or estimator.kernel == "precomputed":
        return
    V = dense(estimator.support_vectors_)
    if V.shape[1] != X.shape[1]:
        raise DataError(f"audit: X: expected {V.shape[1]} features, got {X.shape[1]}; {remedy}")
    same = np.isclose(dense(X[support]), V, rtol=1e-5, atol=1e-7 * float(np.abs(V).max(initial=0.0)))
    if not same.all():
        raise DataError(
            f"audit: X: expected the samples of the fit, got {np.sum(~same.all(axis=1))} of {support.size} "
            f"support vectors elsewhere; {remedy}"
        )


FAMILIES = (
    Family(("SVC", "LibsvmSVC"), ("C", "kernel", "gamma"), _svc, _answers, "dual_coef_", True),
    Family(("NuSVC", "LibsvmNuSVC"), ("nu", "kernel", "gamma"), _nu_svc, _answers, "dual_coef_", True),
)
