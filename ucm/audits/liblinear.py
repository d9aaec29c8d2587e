"""The problems of LIBLINEAR: `LinearSVC`, `LogisticRegression` of any solver, and its plain models.

The loss has the factor C, the squared norm the factor 1/2. LIBLINEAR's intercept is `intercept_scaling` times
the weight of one more feature, a part of the penalty. One class against the rest: the rest has weight 1 (Fan
et al., 2008, and its `train`).
"""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np

from ucm.audits.reading import (
    Estimator,
    Family,
    Statement,
    elastic_net,
    linear_answers,
    no_declaration,
    objective,
    one_of,
)
from ucm.language.losses import Hinge, Logistic

_SVC = {"hinge": Hinge(), "squared_hinge": Hinge(2.0)}
_RATIOS = {"l2": 0.0, "l1": 1.0}


def _linear_svc(estimator: Estimator) -> Statement:
    one_of(estimator, "multi_class", {"ovr": True})
    penalty = elastic_net(1.0, one_of(estimator, "penalty", _RATIOS))
    scaling = float(getattr(estimator, "intercept_scaling", 1.0))  # cuML has a switch in its place
    scaling = scaling if getattr(estimator, "penalized_intercept", True) else None
    loss = one_of(estimator, "loss", _SVC)
    model = objective(float(estimator.C), loss, penalty, estimator.fit_intercept, scaling)
    return Statement(model, class_weight=estimator.class_weight, rest=False, weighted=_by_weight())


def _logistic_regression(estimator: Estimator) -> Statement:
    """State the problem of scikit-learn 1.8 on (l1_ratio, and C = inf for none) or before (penalty).

    `LogisticRegressionCV` has its choice in `C_` and `l1_ratio_`, one for all classes or one a class.
    """
    penalty, by_liblinear = getattr(estimator, "penalty", "deprecated"), estimator.solver == "liblinear"
    C, ratio = (_chosen(estimator, name) for name in ("C", "l1_ratio"))
    if penalty is None or penalty == "none":
        C = math.inf
    elif penalty in _RATIOS:
        ratio = _RATIOS[penalty]
    several = len(getattr(estimator, "classes_", ())) > 2
    if several and not by_liblinear and getattr(estimator, "multi_class", "auto") != "ovr":
        why = "its loss is multinomial, which is no function of a margin"
        raise no_declaration(estimator, "more than two classes", f"{why}; wrap it in OneVsRestClassifier")
    endless = math.isinf(C)
    R = elastic_net(0.0 if endless else 1.0, ratio or 0.0)
    scaling = float(estimator.intercept_scaling) if by_liblinear else None
    model = objective(1.0 if endless else C, Logistic(), R, estimator.fit_intercept, scaling)
    rest = not (several and by_liblinear)
    return Statement(model, class_weight=estimator.class_weight, rest=rest, weighted=_by_weight())


def _by_weight() -> bool:
    """True if "balanced" counts the sample weights, as from scikit-learn 1.7 on."""
    from sklearn.utils.class_weight import compute_class_weight

    return "sample_weight" in inspect.signature(compute_class_weight).parameters


def _chosen(estimator: Estimator, name: str) -> Any:
    """Return a parameter, or the value that cross-validation has chosen for all classes."""
    values = set(
        np.ravel(np.asarray(getattr(estimator, f"{name}_", getattr(estimator, name, None)))).tolist()
    )
    if len(values) > 1:
        raise no_declaration(estimator, f"{name}_", "got another value for each class")
    return values.pop()


FAMILIES = (
    Family(("LinearSVC",), ("loss", "penalty", "penalized_intercept"), _linear_svc, linear_answers),
    Family(
        ("LinearSVC", "LiblinearSVC"), ("loss", "penalty", "intercept_scaling"), _linear_svc, linear_answers
    ),
    Family(
        ("LogisticRegression", "LogisticRegressionCV", "LiblinearLogistic"),
        ("solver", "fit_intercept"),
        _logistic_regression,
        linear_answers,
    ),
)
