"""Cross-validated decision values of held-out samples, for every value of a parameter.

The values agree with a fit of each model on the training part of each fold, the bias included. Sets of means
and covariances need one eigendecomposition in each fold; other models solve a path over the values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.compiler.compile import plan_of
from ucm.compiler.path import solve_in_turn
from ucm.compiler.plan import Plan
from ucm.compiler.recover import least_error
from ucm.data.bound_data import bind, known_by
from ucm.data.kernel_options import with_kernel
from ucm.data.linear_map import Matrix, Vec
from ucm.data.moments import Moments
from ucm.errors import UCMError
from ucm.estimators.classifier import Classifier
from ucm.estimators.moments import at_sizes, is_sum_of_ellipsoids
from ucm.estimators.multiclass import Pair, Problems, each
from ucm.estimators.validation import (
    Fold,
    Samples,
    has_direction,
    kernel_options,
    normal_in_features,
    offset_of,
    solve_options,
    with_bias,
)
from ucm.forms.solution import Solution
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin
from ucm.ranges.parameter_range import size_of

Scores = NDArray[np.float64]


@dataclass(frozen=True)
class Search:
    """The inputs of a cross-validated search: model, parameter names, values, samples and options."""

    estimator: Classifier  # whose options count
    model: RobustMargin | Objective
    names: list[str]  # of the parameters that move together
    values: Vec
    order: list[int]  # the places of the values, the most regular first
    samples: Samples
    n_jobs: int | None
    began: float

    def at(self, place: int) -> Any:
        """Return the model whose searched parameters have the value at index `place`."""
        return self.model.with_params(**dict.fromkeys(self.names, float(self.values[place])))

    @property
    def kernel(self) -> bool:
        return self.estimator.kernel not in (None, "linear") or self.estimator.kernel_approx is not None

    @property
    def by_moments(self) -> bool:
        """True if class means and covariances determine w for every value, and no option needs a solve."""
        e = self.estimator
        if (
            self.kernel
            or e.solver != "auto"
            or e.class_weight is not None
            or e.read_as is not None
            or e.bias_rule not in ("auto", "min_error", "means", "midpoint", "zero")
            or len(self.names) != 1
            or self.model.relative_names()
            or not is_sum_of_ellipsoids(self.model)
        ):
            return False
        nothing = Moments(1.0, np.zeros(1), np.zeros((1, 1)))  # the size does not depend on data
        data = known_by({"pos": nothing, "neg": nothing})
        return not isinstance(size_of(self.model.model, data, self.names[0]), str)


def held_out(search: Search, folds: Sequence[Fold]) -> Iterator[Scores]:
    """Yield the (test, problems, values) decision values of each fold, NaN if a value has no classifier."""
    if search.by_moments:
        yield from _by_moments(search, folds)
    else:
        yield from each(lambda fold: _by_paths(search, *fold), folds, search.n_jobs)


# --- means and covariances ------------------------------------------------------------------------
def _by_moments(search: Search, folds: Sequence[Fold]) -> Iterator[Scores]:
    e, samples, order = search.estimator, search.samples, np.array(search.order)
    models = [search.at(k) for k in search.order]
    for train, test in folds:
        problems, by_class = Problems(e, samples, train), _moments(samples, train)
        S = np.full((test.size, len(problems.pairs), len(order)), np.nan)
        for p, pair in enumerate(problems.pairs):
            negative = reduce(Moments.merged, (by_class[c] for c in problems.classes_against(pair)))
            moments = {"pos": by_class[pair.positive], "neg": negative}
            W, b = at_sizes(models, moments, e.bias_rule, e.tol)
            solved = np.isfinite(W[0])
            W, b = np.ascontiguousarray(W[:, solved]), b[solved]
            unbiased = np.flatnonzero(np.isnan(b))  # these biases minimise the error on the training part
            if unbiased.size:
                every = _by_row(samples.X, W)
                rows, costs = pair.rows, None
                if samples.weights is not None:  # `fit` leaves out samples of weight 0
                    rows = rows[samples.weights[rows] > 0.0]
                    costs = samples.weights[rows]
                for j in unbiased:
                    b[j] = least_error(every[j, rows], samples.index[rows] == pair.positive, costs)
                held = every[:, test].T
            else:
                held = np.asarray(samples.X[test] @ W)
            S[:, p, order[solved]] = held + b
            missing = order[~solved].tolist()
            if missing:
                S[:, p, missing] = _solved(search, problems, pair, train, test, missing)
        yield S


def _moments(samples: Samples, rows: NDArray[np.intp]) -> list[Moments]:
    """Return the moments of some samples, one entry for each class."""
    members = [rows[samples.index[rows] == c] for c in range(samples.classes.size)]
    weights = [None if samples.weights is None else samples.weights[of_class] for of_class in members]
    return [Moments.of(samples.X[of_class], c) for of_class, c in zip(members, weights, strict=True)]


def _by_row(X: Matrix, W: Scores) -> Scores:
    """Return `(X W)'` as an array with contiguous rows."""
    return W.T @ X.T if isinstance(X, np.ndarray) else np.ascontiguousarray((X @ W).T)


# --- any model --------------------------------------------------------------------------------------
def _by_paths(search: Search, train: NDArray[np.intp], test: NDArray[np.intp]) -> Scores:
    problems = Problems(search.estimator, search.samples, train)
    every = list(range(search.values.size))
    parts = [_solved(search, problems, pair, train, test, every) for pair in problems.pairs]
    return np.stack(parts, axis=1)


def _solved(
    search: Search, problems: Problems, pair: Pair, train: NDArray[np.intp], test: NDArray[np.intp],
    places: list[int],
) -> Scores:  # fmt: skip
    """Return (test, places) decision values by warm-started solves, NaN for values without a classifier."""
    e, weights = search.estimator, search.samples.weights
    of_fold = None if weights is None else weights[train]
    _, kernel = kernel_options(e, problems.part(train, train), of_fold)
    data = bind(**problems.arguments(pair), square=e.kernel == "precomputed")
    data, gram = with_kernel(kernel.pop("kernel"), data, kernel)

    def compiled(value: float) -> Plan | None:
        model = search.model.with_params(**dict.fromkeys(search.names, value))
        try:
            return plan_of(model, data, gram, e.solver)  # an interval of the data is found once
        except UCMError:
            return None

    def solved(plan: Plan, start: Solution | None) -> Solution | None:
        try:
            options = {**solve_options(e, search.began), "verbose": False}
            solution = plan.solve(warm_start=start, **options)
        except UCMError:
            return None
        return with_bias(search.model, plan, solution, e.bias_rule, e.read_as)

    grid = [(k, float(search.values[k])) for k in search.order if k in places]
    S, held = np.full((test.size, len(places)), np.nan), problems.part(test, pair.rows)
    with data.unchecked():
        for k, solution in solve_in_turn(grid, compiled, solved).items():
            if not has_direction(search.model, solution):
                continue
            if search.kernel:
                scores = solution.decision(held)
            else:
                normal = normal_in_features(search.model, solution, held.shape[1])
                scores = held @ normal + solution.b
            offset = offset_of(search.model)
            known = 0.0 if offset is None else problems.quantities(pair, test)[offset]
            S[:, places.index(k)] = scores + known
    return S
