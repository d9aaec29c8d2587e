"""scikit-learn's `RidgeClassifier` and `SGDClassifier`, with a free intercept.

The first has least squares on the labels -1 and +1, the second a mean loss plus `alpha` times a penalty.
"""

from __future__ import annotations

from ucm.audits.reading import Estimator, Family, Statement, elastic_net, linear_answers, objective, one_of
from ucm.language.losses import Hinge, HuberHinge, LeastSquares, Logistic
from ucm.language.penalties import L2, NonNegative

_LOSSES = {
    "hinge": Hinge(),
    "squared_hinge": Hinge(2.0),
    "log_loss": Logistic(),
    "modified_huber": 4.0 * HuberHinge(2.0),  # max(0, 1 - t)^2 down to t = -1, then -4 t
    "squared_error": 0.5 * LeastSquares(),
}


def _ridge(estimator: Estimator) -> Statement:
    alpha = float(getattr(estimator, "alpha_", getattr(estimator, "alpha", 0.0)))
    R = alpha * L2()
    if getattr(estimator, "positive", False):
        R = R + NonNegative()
    model = objective(1.0, LeastSquares(), R, estimator.fit_intercept)
    return Statement(model, class_weight=estimator.class_weight)


def _sgd(estimator: Estimator) -> Statement:
    ratios = {"l2": 0.0, "l1": 1.0, "elasticnet": estimator.l1_ratio, None: 0.0}
    ratio = one_of(estimator, "penalty", ratios)
    R = elastic_net(0.0 if estimator.penalty is None else float(estimator.alpha), float(ratio))
    model = objective(1.0, one_of(estimator, "loss", _LOSSES), R, estimator.fit_intercept)
    held = "early_stopping fitted a part of the samples, and the objective is of all"
    note = held if estimator.early_stopping else ""
    return Statement(model, mean=True, class_weight=estimator.class_weight, rest=False, note=note)


FAMILIES = (
    Family(("SGDClassifier",), ("alpha", "early_stopping"), _sgd, linear_answers),
    Family(("RidgeClassifier", "RidgeClassifierCV"), ("fit_intercept",), _ridge, linear_answers),
)
