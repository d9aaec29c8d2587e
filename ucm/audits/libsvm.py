"""The problems of LIBSVM: `SVC` and `NuSVC`, in scikit-learn and in libraries with its attributes.

`C * sum_i max(0, 1 - t_i) + ||w||^2 / 2` with a free intercept, or the nu-SVM, whose w is divided by the
margin rho. Of k classes there is one problem for each pair (Chang and Lin, 2011).
"""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import numpy as np

from ucm.audits.reading import Answer, Family, Statement, dense
from ucm.data.linear_map import Matrix
from ucm.errors import DataError
from ucm.language.losses import Hinge
from ucm.language.models import nu_svm
from ucm.language.penalties import L2


def _svc(estimator: Any) -> Statement:
    C = float(estimator.C)
    model = (Hinge() if C == 1.0 else C * Hinge()) + 0.5 * L2()
    return Statement(model, class_weight=estimator.class_weight, kernel=kernel_of(estimator))


def _nu_svc(estimator: Any) -> Statement:
    """State the nu-SVM; LIBSVM takes no weights of classes there, and scikit-learn's are without effect."""
    return Statement(nu_svm(float(estimator.nu)), kernel=kernel_of(estimator))


def kernel_of(estimator: Any) -> dict[str, Any]:
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


def _answers(estimator: Any, X: Matrix) -> list[Answer]:
    """Return the answers in the layout of `sv_coef`: of the pair (i, j), i in row j - 1, j in row i."""
    C, support = np.atleast_2d(dense(estimator.dual_coef_)), np.asarray(estimator.support_).ravel()
    b, linear, k = np.ravel(dense(estimator.intercept_)), estimator.kernel == "linear", len(C) + 1
    _check_samples(estimator, X, support)
    found = []
    ends = np.cumsum([0, *np.ravel(estimator.n_support_)])  # cuML has one number, of two classes
    of = [slice(*span) for span in pairwise(ends)]
    for p, (i, j) in enumerate(combinations(range(k), 2)):
        c = np.zeros(X.shape[0])
        if k == 2:
            c[support] = C[0]
        else:
            c[support[of[i]]], c[support[of[j]]] = C[j - 1, of[i]], C[i, of[j]]
        w = np.asarray(X.T @ c).ravel() if linear else None
        found.append(Answer(*((1, 0) if k == 2 else (i, j)), float(b[p]), w, c))
    return found


def _check_samples(estimator: Any, X: Matrix, support: np.ndarray) -> None:
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
