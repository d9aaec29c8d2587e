"""Logistic regression of scikit-learn by parameters of any version."""

from __future__ import annotations

import inspect
from typing import Any

import sklearn.linear_model

linear: Any = sklearn.linear_model
# from scikit-learn 1.8 on l1_ratio alone says the penalty; before, `penalty` did
BY_RATIO = inspect.signature(linear.LogisticRegression).parameters["penalty"].default == "deprecated"


def logistic(l1_ratio: float = 0.0, **params: Any) -> Any:
    """Return `LogisticRegression` with the penalty of a ratio of the l1 norm."""
    if BY_RATIO:
        return linear.LogisticRegression(l1_ratio=l1_ratio, **params)
    if l1_ratio in (0.0, 1.0):
        return linear.LogisticRegression(penalty="l1" if l1_ratio else "l2", **params)
    return linear.LogisticRegression(penalty="elasticnet", l1_ratio=l1_ratio, **params)


def logistic_cv(**params: Any) -> Any:
    """Return `LogisticRegressionCV` with the penalty l2 and the attributes of the version's future."""
    if BY_RATIO:
        params |= {"l1_ratios": (0.0,), "use_legacy_attributes": False}
    return linear.LogisticRegressionCV(**params)
