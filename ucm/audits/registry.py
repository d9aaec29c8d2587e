"""The families of estimators that can be audited, and the parts of estimators that wrap others."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucm.audits import liblinear, libsvm, linear_models, models, skglm
from ucm.audits.reading import Estimator, Family, Options
from ucm.data.validation import part_of, read
from ucm.errors import DataError, ParameterError, brief

FAMILIES: tuple[Family, ...] = (
    *liblinear.FAMILIES,
    *libsvm.FAMILIES,
    *linear_models.FAMILIES,
    *skglm.FAMILIES,
)
_WHY = {
    "Perceptron": "its updates minimise max(0, -t), whose least value is that of w = 0",
    "Classifier": "ucm proves its own answers, in certificate_",
    "PassiveAggressiveClassifier": "its updates are of one sample at a time, and minimise no objective",
}
_REMEDY = "declare its problem, and write ucm.compile(model, X, y).certify(w=, b=)"


class Part(NamedTuple):
    """A fitted estimator with the samples that it saw, the indices of them, and its name among others."""

    estimator: Estimator
    X: Any
    y: NDArray
    rows: NDArray[np.intp]
    name: str = ""


def family_of(estimator: object) -> Family:
    """Return the family that reads an estimator; refuse an unknown class by name."""
    for family in FAMILIES:
        if family.reads(estimator):
            return family
    name = type(estimator).__name__
    why = _WHY.get(name, "no family of estimators has this name and these parameters")
    raise ParameterError(f"audit: {name}: unknown: {why}; {_REMEDY}")


def innermost(estimator: Estimator) -> Estimator:
    """Return the estimator inside pipelines and searches, fitted where those are."""
    while True:
        if hasattr(estimator, "steps"):
            estimator = estimator.steps[-1][1]
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif hasattr(estimator, "param_grid") or hasattr(estimator, "param_distributions"):
            estimator = estimator.estimator
        else:
            return estimator


def parts_of(estimator: Estimator, X: Any, y: NDArray, params: Options, name: str = "") -> list[Part]:
    """Return the estimators inside pipelines, searches and reductions, with the samples that reach them."""
    if isinstance(estimator, str | Path):
        return [Part(models.of_file(estimator, read(X), params), X, y, np.arange(y.size), name)]
    kind = type(estimator).__name__
    plain = kind in ("model", "svm_model") and hasattr(estimator, "param")
    if params and not plain:
        raise ParameterError(
            f"audit: {', '.join(sorted(params))}: expected for a model file only, which has no parameters, "
            f"got {brief(estimator)}; leave it out, as the estimator has its own"
        )
    if hasattr(estimator, "best_estimator_"):
        return parts_of(estimator.best_estimator_, X, y, params, name)
    if hasattr(estimator, "steps"):
        for step, transform in estimator.steps[:-1]:
            if hasattr(transform, "fit_resample"):
                raise ParameterError(
                    f"audit: step {step!r}: expected transforms of X, got {brief(transform)}, whose fit "
                    "changes the samples; audit the last step with the samples that it was given"
                )
            X = X if transform in (None, "passthrough") else transform.transform(X)
        return parts_of(estimator.steps[-1][1], X, y, params, name)
    if kind in ("OneVsRestClassifier", "OneVsOneClassifier"):
        return _reduced(estimator, kind == "OneVsOneClassifier", X, y)
    if innermost(estimator) is not estimator:
        raise not_fitted(estimator, "best_estimator_")
    if plain:
        estimator = models.of_package(estimator, read(X), params)
    return [Part(estimator, X, y, np.arange(y.size), name)]


def _reduced(estimator: Estimator, pairs: bool, X: Any, y: NDArray) -> list[Part]:
    """Return the parts of a reduction to two classes, whose estimators have the labels 0 and 1."""
    if not hasattr(estimator, "estimators_"):
        raise not_fitted(estimator, "estimators_")
    classes, found = estimator.classes_.tolist(), list[Part]()
    ways: list[tuple[list, Any, str]] = [(classes, label, f"{label} against the rest") for label in classes]
    if pairs:
        ways = [([i, j], j, f"{j} against {i}") for i, j in combinations(classes, 2)]
    elif len(classes) == 2:
        ways = [(classes, classes[1], "")]
    for k, (inner, (labels, label, name)) in enumerate(zip(estimator.estimators_, ways, strict=True)):
        rows = np.flatnonzero(np.isin(y, labels))
        part = X if rows.size == y.size else part_of(X, rows)
        if pairs and getattr(estimator, "pairwise_indices_", None) is not None:
            part = part[:, estimator.pairwise_indices_[k]]
        inside = parts_of(inner, part, (y[rows] == label).astype(int), {}, name)
        found += [one._replace(rows=rows[one.rows]) for one in inside]
    return found


def not_fitted(estimator: object, missing: str) -> DataError:
    """Return the error for an estimator without an attribute that its fit sets."""
    return DataError(
        f"audit: {type(estimator).__name__}: expected a fitted estimator, got none with {missing}; "
        "call fit(X, y)"
    )
