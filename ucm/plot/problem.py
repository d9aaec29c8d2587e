"""The subject of a picture: a declared model, bound samples and its solution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from ucm.compiler.compile import plan_of
from ucm.compiler.plan import Plan
from ucm.data.bound_data import Data, bind
from ucm.errors import CompositionError, DataError, ParameterError, brief
from ucm.evidence.relative_sizes import resolved
from ucm.forms.solution import Solution
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin, as_model
from ucm.plot.plane import feature_names

MAX_SAMPLES = 4000
"""The largest number of samples that a picture shows."""


class SampleOptions(TypedDict, total=False):
    """The options of `ucm.compile` that describe the samples."""

    class_weight: Any
    sample_weight: Any
    subgroup: Any
    pos_label: Any


@dataclass(frozen=True)
class Problem:
    """A robust model, its samples and its solution.

    Attributes
    ----------
    names : of the features, None if they have none
    """

    model: RobustMargin
    data: Data
    solution: Solution
    names: list[str] | None


def problem_of(model: Any, X: Any, y: Any, solution: Solution | None, who: str, **options: Any) -> Problem:
    """Bind the samples, with the options of `SampleOptions`, and solve if no solution is given.

    Raises
    ------
    CompositionError
        The model is `loss + lam * penalty`, which has no set in the space of the features.
    DataError
        More than two classes, or samples that `ucm.compile` refuses.
    EmptySetError
        The set is empty.
    ParameterError
        The solution is of other samples, or of a kernel.
    """
    if isinstance(model, Objective):
        raise CompositionError(
            f"{who}: expected an uncertainty set, got {model!r}, a loss and a penalty; loss.to_set(size) is "
            "the set of a convex loss"
        )
    declared = as_model(model, who)
    labels = np.unique(np.asarray(y))
    if labels.size > 2:
        raise DataError(
            f"{who}: a picture shows two classes, and y has {labels.size} labels; take the samples of two "
            "of them, as mask = np.isin(y, labels[:2])"
        )
    data = bind(X, y, **options)
    declared = resolved(declared, data)
    if solution is None:
        solution = plan_of(declared, data, None, "auto").solve()
    if solution.w is None:
        raise ParameterError(
            f"{who}: the solution is of a kernel, whose sets have no coordinates; solve without a kernel"
        )
    weights = solution.weights
    if weights is not None and weights.size == data.given:
        weights = data.weighing.gather(weights)
        solution = replace(solution, weights=weights)
    m = data.m if weights is None else weights.size
    if np.size(solution.w) != (declared.set.dimension(data.n) or data.n) or m != data.m:
        raise ParameterError(
            f"{who}: the solution is of other samples, with {m} of them and w in R^{np.size(solution.w)}; "
            "give X and y of its solve"
        )
    return Problem(declared, data, solution, feature_names(X))


def problem_of_estimator(estimator: Any, X: Any, y: Any, who: str) -> Problem:
    """Return the problem of a fitted `ucm.Classifier` over its training samples.

    Parameters
    ----------
    estimator : a `ucm.Classifier`, or a pipeline or a search with one
    X : samples as in the fit of the estimator

    Raises
    ------
    ParameterError
        The estimator is not fitted, or has no plan.
    DataError
        It has several classes.
    """
    estimator, X = _classifier_of(estimator, X)
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        raise ParameterError(f"{who}: {type(estimator).__name__} is not fitted; call fit(X, y) first")
    if len(classes) > 2:
        raise DataError(
            f"{who}: the estimator has {len(classes)} classes, and a picture shows two; fit it to two of them"
        )
    plan = getattr(estimator, "plan_", None)
    if not isinstance(plan, Plan):
        raise ParameterError(
            f"{who}: expected a ucm.Classifier with its plan_, got {brief(estimator)}; use from_model"
        )
    signs = np.where(np.asarray(y) == classes[1], 1.0, -1.0)
    weighing = plan.data.weighing
    return problem_of(
        plan.model, X, signs, estimator.solution_, who, class_weight=weighing.classes,
        sample_weight=weighing.given_weights, subgroup=weighing.scatter(plan.data.groups),
    )  # fmt: skip


def _classifier_of(estimator: Any, X: Any) -> tuple[Any, Any]:
    """Return the last step of a pipeline, or the best estimator of a search, and the samples of its fit."""
    if len(getattr(estimator, "steps", ())) > 1:
        return _classifier_of(estimator[-1], estimator[:-1].transform(X))
    best = getattr(estimator, "best_estimator_", None)
    return (estimator, X) if best is None else _classifier_of(best, X)


def subsample(y: NDArray[np.float64], weights: Any) -> NDArray[np.intp]:
    """Return the indices of at most `MAX_SAMPLES` samples: half by the largest weights, half at random."""
    if y.size <= MAX_SAMPLES:
        return np.arange(y.size)
    heavy = np.zeros(0, dtype=np.intp)
    if weights is not None:
        heavy = np.argsort(-weights, kind="stable")[: MAX_SAMPLES // 2]
        heavy = heavy[weights[heavy] > 0.0]
    remaining = np.setdiff1d(np.arange(y.size), heavy)
    chosen = np.random.default_rng(0).choice(remaining, MAX_SAMPLES - heavy.size, replace=False)
    return np.sort(np.concatenate([heavy, chosen]))
