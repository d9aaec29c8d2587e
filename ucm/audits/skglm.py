"""skglm's classifiers: `LinearSVC` by its dual, `SparseLogisticRegression`, and the general estimator.

Of the general estimator the data fits `Logistic` and `QuadraticSVC` and the convex separable penalties are
known; the mean loss is meant, and intercepts are free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ucm.audits.reading import (
    Answer,
    Estimator,
    Family,
    Statement,
    dense,
    elastic_net,
    linear_answers,
    no_declaration,
    objective,
)
from ucm.data.linear_map import Matrix
from ucm.errors import DataError
from ucm.language.losses import Hinge, Logistic
from ucm.language.penalties import L1, L2
from ucm.language.terms import Penalty

_PENALTIES: dict[str, Callable[[Estimator], Penalty]] = {
    "L1": lambda R: elastic_net(R.alpha, 1.0),
    "L2": lambda R: elastic_net(R.alpha, 0.0),
    "L1_plus_L2": lambda R: elastic_net(R.alpha, R.l1_ratio),
    "WeightedL1": lambda R: R.alpha * L1(weights=R.weights),
}


def _linear_svc(estimator: Estimator) -> Statement:
    return Statement(objective(float(estimator.C), Hinge(), 0.5 * L2(), False))


def _sparse_logistic_regression(estimator: Estimator) -> Statement:
    R = elastic_net(float(estimator.alpha), float(getattr(estimator, "l1_ratio", 1.0)))
    return Statement(objective(1.0, Logistic(), R, estimator.fit_intercept), mean=True)


def _generalized(estimator: Estimator) -> Statement:
    fit, R, solver = estimator.datafit, estimator.penalty, estimator.solver
    names = type(fit).__name__, type(R).__name__
    if names == ("QuadraticSVC", "IndicatorBox"):
        return Statement(objective(float(R.alpha), Hinge(), 0.5 * L2(), False))
    if names[0] != "Logistic" or names[1] not in _PENALTIES or getattr(R, "positive", False):
        why = f"expected Logistic with one of {', '.join(_PENALTIES)}"
        raise no_declaration(estimator, "datafit and penalty", f"{why}, got {' with '.join(names)}")
    intercept = bool(getattr(solver, "fit_intercept", True))
    return Statement(objective(1.0, Logistic(), _PENALTIES[names[1]](R), intercept), mean=True)


def _answers(estimator: Estimator, X: Matrix) -> list[Answer]:
    """Return the linear answers with the multipliers of the dual, one row for each problem."""
    found, dual = linear_answers(estimator, X), getattr(estimator, "dual_coef_", None)
    if dual is None:
        return found
    rows = np.atleast_2d(dense(dual))
    if rows.shape[1] != X.shape[0]:
        raise DataError(
            f"audit: X: expected the {rows.shape[1]} samples of dual_coef_, got {X.shape[0]}; give the "
            "samples of the fit"
        )
    return [replace(answer, multipliers=row) for answer, row in zip(found, rows, strict=True)]


FAMILIES = (
    Family(("LinearSVC",), ("C", "ws_strategy"), _linear_svc, _answers),
    Family(
        ("SparseLogisticRegression",), ("alpha", "max_epochs"), _sparse_logistic_regression, linear_answers
    ),
    Family(("GeneralizedLinearEstimator",), ("datafit", "penalty"), _generalized, _answers),
)
