"""scikit-learn's `SGDClassifier`: the mean loss plus `alpha` times a penalty, with a free intercept."""

from __future__ import annotations

from typing import Any

from ucm.audits.reading import Family, Statement, elastic_net, linear_answers, objective, one_of
from ucm.language.losses import Hinge, HuberHinge, LeastSquares, Logistic

_LOSSES = {
    "hinge": Hinge(),
    "squared_hinge": Hinge(2.0),
    "log_loss": Logistic(),
    "modified_huber": 4.0 * HuberHinge(2.0),  # max(0, 1 - t)^2 down to t = -1, then -4 t
    "squared_error": 0.5 * LeastSquares(),
}


def _state(estimator: Any) -> Statement:
    ratios = {"l2": 0.0, "l1": 1.0, "elasticnet": estimator.l1_ratio, None: 0.0}
    ratio = one_of(estimator, "penalty", ratios)
    R = elastic_net(0.0 if estimator.penalty is None else float(estimator.alpha), float(ratio))
    model = objective(1.0, one_of(estimator, "loss", _LOSSES), R, estimator.fit_intercept)
    held = "early_stopping fitted a part of the samples, and the objective is of all"
    note = held if estimator.early_stopping else ""
    return Statement(model, mean=True, class_weight=estimator.class_weight, rest=False, note=note)


FAMILIES = (Family(("SGDClassifier",), ("alpha", "early_stopping"), _state, linear_answers),)
