"""The subject of a picture: a declared model, bound samples and its solution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.compiler.compile import plan_of
from ucm.compiler.plan import Plan
from ucm.data.bound import Data, bind
from ucm.errors import CompositionError, DataError, ParameterError
from ucm.evidence.relative import resolved
from ucm.forms.solution import Solution
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin, as_model
from ucm.plot.plane import feature_names

__all__ = ["MOST", "Problem", "problem_of", "problem_of_estimator", "thinned"]

MOST = 4000
"""Samples in a picture: more are a blot, and slow to draw."""


@dataclass(frozen=True)
class Problem:
    """A robust model with its answer.

    Attributes
    ----------
    model, data, solution : as they are elsewhere
    names : of the features, None where they have numbers
    """

    model: RobustMargin
    data: Data
    solution: Solution
    names: list[str] | None


def problem_of(
    model: Any, X: Any, y: Any, solution: Solution | None, who: str, *,
    class_weight: Any = None, sample_weight: Any = None, subgroup: Any = None,
    pos_label: Any = None, names: Any = None, solver: Any = "auto",
) -> Problem:  # fmt: skip
    """The model bound and solved, where no solution is given.

    Raises
    ------
    CompositionError
        The model is `loss + lam * penalty`, which has no set in the space of the features.
    DataError
        More than two classes, and what `ucm.compile` refuses.
    EmptySetError
        The set is empty.
    """
    if isinstance(model, Objective):
        raise CompositionError(
            f"{who}: {model!r} is a loss and a penalty, and no set to draw; loss.to_set(size) is the set "
            "of a convex loss"
        )
    declared = as_model(model, who)
    labels = np.unique(np.asarray(y))
    if labels.size > 2:
        raise DataError(
            f"{who}: a picture shows two classes, and y has {labels.size} labels; take the samples of two "
            "of them, as mask = np.isin(y, labels[:2])"
        )
    data = bind(X, y, class_weight, sample_weight, subgroup, pos_label)
    declared = resolved(declared, data)
    if solution is None:
        solution = plan_of(declared, data, None, solver).solve()
    if solution.w is None:
        raise ParameterError(
            f"{who}: the solution lives behind a kernel, where sets have no coordinates; solve without one"
        )
    weights = solution.weights
    if weights is not None and weights.size == data.given:
        weights = data.weighing.gathered(weights)
        solution = replace(solution, weights=weights)
    m = data.m if weights is None else weights.size
    if np.size(solution.w) != (declared.set.dimension(data.n) or data.n) or m != data.m:
        raise ParameterError(
            f"{who}: the solution is of other samples, with {m} of them and w in R^{np.size(solution.w)}; "
            "give X and y of its solve"
        )
    return Problem(declared, data, solution, feature_names(X, names))


def problem_of_estimator(estimator: Any, X: Any, y: Any, who: str) -> Problem:
    """Return the problem of a fitted `ucm.Classifier` over its training samples.

    Raises
    ------
    ParameterError
        It is not fitted, holds several problems, or no plan.
    """
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        raise ParameterError(
            f"{who}: {type(estimator).__name__} is not fitted; call fit(X, y) first"
        )
    if len(classes) > 2:
        raise DataError(
            f"{who}: the estimator has {len(classes)} classes, and a picture shows two; fit it to two of them"
        )
    plan = getattr(estimator, "plan_", None)
    if not isinstance(plan, Plan):
        raise ParameterError(
            f"{who}: the estimator has no plan_; fit a ucm.Classifier, or use from_model"
        )
    signs = np.where(np.asarray(y) == classes[1], 1.0, -1.0)
    groups = plan.data.groups
    return problem_of(
        plan.model, X, signs, estimator.solution_, who, class_weight=plan.data.weighing.classes,
        sample_weight=plan.data.weighing.given_weights,
        subgroup=None if groups is None else groups.labels,
    )  # fmt: skip


def thinned(y: NDArray[np.float64], weights: Any, most: int = MOST) -> NDArray[np.intp]:
    """Indices of at most `most` samples: those of the largest weight for a half, the others at random."""
    if y.size <= most:
        return np.arange(y.size)
    heavy = np.zeros(0, dtype=np.intp)
    if weights is not None:
        heavy = np.argsort(-weights, kind="stable")[: most // 2]
        heavy = heavy[weights[heavy] > 0.0]
    others = np.setdiff1d(np.arange(y.size), heavy)
    chosen = np.random.default_rng(0).choice(others, most - heavy.size, replace=False)
    return np.sort(np.concatenate([heavy, chosen]))
