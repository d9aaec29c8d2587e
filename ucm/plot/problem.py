"""The inputs of a display: a declared model, bound samples, its solution, and the projection plane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh

from ucm.compiler.compile import plan_of
from ucm.compiler.plan import Plan
from ucm.data.bound_data import Data, bind
from ucm.data.columns import text_names
from ucm.data.linear_map import Vec
from ucm.errors import CompositionError, DataError, ParameterError, brief
from ucm.forms.solution import Solution
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin, as_model
from ucm.ranges.relative_sizes import resolved

_WAYS = (
    'plane="normal" (w and the direction of largest variance orthogonal to w) or plane=P, a (2, n) array of '
    "directions"
)


@dataclass(frozen=True)
class Plane:
    """Two orthonormal directions of R^n with labels, the axes of a picture."""

    P: NDArray[np.float64]  # (2, n)
    labels: tuple[str, str]

    def contains(self, w: Vec) -> bool:
        """True if w lies in the plane, so that the hyperplane is a line in the picture."""
        return float(np.hypot(*(self.P @ w))) >= (1.0 - 1e-6) * float(np.linalg.norm(w))


def feature_names(X: object, names: Sequence[str] | None = None) -> list[str] | None:
    """Return the given names, or the column names of a data frame; None unless all names are strings."""
    return text_names(getattr(X, "columns", None) if names is None else names)


def plane_of(plane: object, data: Data, w: Vec | None, names: list[str] | None, who: str) -> Plane:
    """Return the `Plane` for the argument `plane` of a display.

    plane : None, "features", "normal" or (2, n) array
        None is "features", for samples with two features.
    w : the normal
    """
    n = data.n
    if plane is None or (isinstance(plane, str) and plane == "features"):
        if n != 2:
            raise ParameterError(
                f"{who}: a picture has two axes, and the samples have {n} features; "
                + ("add a feature" if n == 1 else f"give {_WAYS}")
            )
        return Plane(np.eye(2), ("$x_1$", "$x_2$") if names is None else (names[0], names[1]))
    if isinstance(plane, str):
        if plane != "normal":
            raise ParameterError(f'{who}: plane is "features", {_WAYS}; got {brief(plane)}')
        return _normal_plane(data, w, who)
    try:
        A = np.asarray(plane, dtype=np.float64)
    except (TypeError, ValueError):
        A = np.zeros(0)
    if A.shape != (2, n) or not np.isfinite(A).all():
        raise ParameterError(
            f"{who}: plane is a (2, {n}) array of finite numbers, its rows two directions among the {n} "
            f"features, got {brief(plane)}"
        )
    if np.linalg.matrix_rank(A / np.maximum(np.linalg.norm(A, axis=1, keepdims=True), 1e-300)) < 2:
        raise ParameterError(
            f"{who}: the rows of plane span a line and no plane, {brief(plane)}; give two directions that "
            "are not multiples of each other"
        )
    Q, R = np.linalg.qr(A.T)
    P = (Q * np.sign(np.diag(R))).T
    return Plane(P, (_direction_name(P[0], names, "$u_1$"), _direction_name(P[1], names, "$u_2$")))


def _direction_name(u: Vec, names: list[str] | None, default: str) -> str:
    """Return the name of the feature if u points along its positive axis, else the default label."""
    support = np.flatnonzero(np.abs(u) > 1e-12)
    if support.size != 1 or u[support[0]] < 0.0:
        return default
    return f"$x_{{{support[0] + 1}}}$" if names is None else names[support[0]]


def _normal_plane(data: Data, w: Vec | None, who: str) -> Plane:
    """Return the plane spanned by w and the direction of largest variance orthogonal to w."""
    n, m = data.n, data.m
    if n == 1 or w is None or w.size != n or not np.any(w):
        raise ParameterError(
            f'{who}: plane="normal" needs a normal w != 0 among two features or more, got {brief(w)} and {n} '
            "features; give a (2, n) array"
        )
    u = w / np.linalg.norm(w)
    mean = np.asarray(data.X.mean(axis=0)).ravel()

    def project(v: Vec) -> Vec:
        return v - (v @ u) * u

    def covariance(v: Vec) -> Vec:
        """Return `C v`, C the covariance matrix restricted to the orthogonal complement of w."""
        v = project(np.ravel(v))
        z = np.asarray(data.X @ v).ravel() - float(mean @ v)
        return project(np.asarray(data.X.T @ z).ravel() - mean * float(z.sum())) / m

    v, note = project(np.random.default_rng(0).standard_normal(n)), ""
    squares = data.X.multiply(data.X) if hasattr(data.X, "multiply") else data.X**2
    along_w = float(np.asarray(data.X @ u).ravel().var())
    remaining = float(squares.sum()) / m - float(mean @ mean) - along_w
    if n > 2 and remaining > 0.0:
        options: dict = {"matvec": covariance, "dtype": np.float64}
        lanczos: dict = {"k": 1, "v0": v, "tol": 1e-4}
        values, vectors = eigsh(LinearOperator((n, n), **options), **lanczos)
        v, note = project(vectors[:, 0]), f", {values[0] / remaining:.0%} of the remaining variance"
    v /= np.linalg.norm(v)
    v = v if v[np.argmax(np.abs(v))] > 0.0 else -v
    return Plane(np.vstack([u, v]), ("along $w$", rf"orthogonal to $w${note}"))


MAX_SAMPLES = 4000
"""The largest number of samples that a picture shows."""


class SampleOptions(TypedDict, total=False):
    """The keyword options of `ucm.compile` that describe the samples."""

    class_weight: object
    sample_weight: object
    subgroup: object
    pos_label: object


@dataclass(frozen=True)
class Problem:
    """A robust model, its data, its solution and the feature names, if the features have names."""

    model: RobustMargin
    data: Data
    solution: Solution
    names: list[str] | None
    class_names: dict[int, str]  # the words for the classes +1 and -1 in a legend


def class_names(y: object, positive: object = None) -> dict[int, str]:
    """Return {+1 | -1: the label of the class}, a number as "class 2"."""
    labels = np.unique(np.asarray(y)).tolist()
    signs = set(labels) <= {-1, 1}
    if positive is None:
        positive = 1 if signs else labels[-1]
    form = "class {:+g}" if signs else "class {}"
    words = {1 if x == positive else -1: x if isinstance(x, str) else form.format(x) for x in labels}
    return {sign: words.get(sign, f"class {sign:+d}") for sign in (1, -1)}


def problem_of(
    model: object, X: object, y: object, solution: Solution | None, who: str, **options: Unpack[SampleOptions]
) -> Problem:
    """Return the `Problem` of a model and its samples; solve the model if no solution is given."""
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
    return Problem(declared, data, solution, feature_names(X), class_names(y, options.get("pos_label")))


def problem_of_estimator(estimator: Any, X: object, y: object, who: str) -> Problem:
    """Return the `Problem` of a fitted two-class classifier, a pipeline or a search, and its samples."""
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
    signs = np.where(np.asarray(y) == estimator.pos_label_, 1.0, -1.0)
    weighing = plan.data.weighing
    problem = problem_of(
        plan.model, X, signs, estimator.solution_, who, class_weight=weighing.classes,
        sample_weight=weighing.given_weights, subgroup=weighing.scatter(plan.data.groups),
    )  # fmt: skip
    return replace(problem, class_names=class_names(estimator.classes_, estimator.pos_label_))


def _classifier_of(estimator: Any, X: object) -> tuple[Any, Any]:
    """Return the classifier inside a pipeline or a search, and X as transformed by the pipeline."""
    if len(getattr(estimator, "steps", ())) > 1:
        return _classifier_of(estimator[-1], estimator[:-1].transform(X))
    best = getattr(estimator, "best_estimator_", None)
    return (estimator, X) if best is None else _classifier_of(best, X)


def subsample(y: NDArray[np.float64], weights: Vec | None) -> NDArray[np.intp]:
    """Return indices of at most `MAX_SAMPLES` samples: up to half by largest weight, the others at random."""
    if y.size <= MAX_SAMPLES:
        return np.arange(y.size)
    heavy = np.zeros(0, dtype=np.intp)
    if weights is not None:
        heavy = np.argsort(-weights, kind="stable")[: MAX_SAMPLES // 2]
        heavy = heavy[weights[heavy] > 0.0]
    remaining = np.setdiff1d(np.arange(y.size), heavy)
    chosen = np.random.default_rng(0).choice(remaining, MAX_SAMPLES - heavy.size, replace=False)
    return np.sort(np.concatenate([heavy, chosen]))
