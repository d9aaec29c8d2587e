"""scikit-learn's `RidgeClassifier`: least squares on the labels -1 and +1, with a free intercept."""

from __future__ import annotations

from typing import Any

from ucm.audits.reading import Family, Statement, linear_answers, objective
from ucm.language.losses import LeastSquares
from ucm.language.penalties import L2, NonNegative


def _state(estimator: Any) -> Statement:
    alpha = float(getattr(estimator, "alpha_", getattr(estimator, "alpha", 0.0)))
    R = alpha * L2()
    if getattr(estimator, "positive", False):
        R = R + NonNegative()
    model = objective(1.0, LeastSquares(), R, estimator.fit_intercept)
    return Statement(model, class_weight=estimator.class_weight)


FAMILIES = (Family(("RidgeClassifier", "RidgeClassifierCV"), ("fit_intercept",), _state, linear_answers),)
