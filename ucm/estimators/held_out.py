"""Decision values of held-out samples for every value of a parameter, fold by fold.

The values agree with a fit of each model on the training part of each fold, the bias included. Sets of means
and covariances share the moments of the folds; other models solve a path over the values in each fold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.compiler.compile import plan_of, with_kernel
from ucm.compiler.moments import at_sizes, is_one_ellipsoid, is_sum_of_ellipsoids, leave_one_out
from ucm.compiler.path import solve_in_turn
from ucm.compiler.plan import Plan
from ucm.compiler.recover import least_error
from ucm.data.bound import bind
from ucm.data.linear import Vec
from ucm.data.moments import Moments, known_by, without_each
from ucm.errors import UCMError
from ucm.estimators.multiclass import Pair, each, pairs_of, side_weights
from ucm.estimators.options import kernel_options
from ucm.estimators.validation import (
    Fold,
    class_weights,
    counted,
    normal_in_features,
    with_bias,
)
from ucm.evidence.parameter_range import size_of
from ucm.forms.monitor import limit_from
from ucm.forms.solution import Solution
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin, as_model

__all__ = ["Search", "held_out", "leave_one_out_scores"]

Scores = NDArray[np.float64]


@dataclass(frozen=True)
class Search:
    """The model, values and samples of a search over folds.

    Attributes
    ----------
    estimator : whose options of a `Classifier` count
    model, names, values : the parameters that move together, and their numbers
    order : the places of the values, the most regular first
    X, index, labels : the samples, the place of the label of each, and the labels
    given, groups : its own weight and its group, where it has them
    n_jobs : how many folds are solved at a time
    began : when the fit began
    """

    estimator: Any
    model: RobustMargin | Objective
    names: list[str]
    values: Vec
    order: list[int]
    X: Any
    index: NDArray[np.intp]
    labels: NDArray[Any]
    given: Vec | None
    groups: NDArray[Any] | None
    n_jobs: int | None
    began: float

    def at(self, place: int) -> Any:
        """The model at a value."""
        return self.model.with_params(**dict.fromkeys(self.names, float(self.values[place])))

    @property
    def classes(self) -> int:
        return self.labels.size

    @property
    def kernel(self) -> bool:
        return self.estimator.kernel not in (None, "linear")

    def pairs(self, rows: NDArray[np.intp]) -> list[Pair]:
        """The problems of two classes over some samples, their rows counted among all."""
        found = pairs_of(self.index[rows], self.classes, self.estimator.multi_class)
        return [Pair(p.positive, p.negative, rows[p.rows], p.signs) for p in found]

    @property
    def _plain(self) -> bool:
        """Whether nothing is asked of the classifier but the model at numbers."""
        e = self.estimator
        plain = (
            not self.kernel and e.solver == "auto" and e.class_weight is None and e.read_as is None
        )
        return plain and len(self.names) == 1 and not self.model.relative_names()

    @property
    def by_moments(self) -> bool:
        """Whether means and covariances are all that its models ask of the samples, and the bias scores."""
        if not self._plain or not is_sum_of_ellipsoids(self.model):
            return False
        if self.estimator.bias_rule not in ("auto", "min_error", "means", "midpoint", "zero"):
            return False
        data = known_by(
            {kind: Moments(1.0, np.zeros(1), np.zeros((1, 1))) for kind in ("pos", "neg")}
        )
        return not isinstance(
            size_of(as_model(self.model, "ClassifierCV"), data, self.names[0]), str
        )  # no data in it


def leave_one_out_scores(search: Search) -> Scores | None:
    """(m, problems, values) decision values of every sample by the models without it, in closed form; None
    where there is none."""
    if not search.by_moments or not is_one_ellipsoid(search.model) or search.given is not None:
        return None
    if search.estimator.bias_rule not in ("means", "zero"):
        return None
    every, order = np.arange(search.index.size), search.order
    models = [search.at(k) for k in order]
    pairs = search.pairs(every)
    S = np.full((every.size, len(pairs), len(order)), np.nan)
    for p, pair in enumerate(pairs):
        rows = {"pos": pair.rows[pair.signs > 0.0], "neg": pair.rows[pair.signs < 0.0]}
        samples = {kind: search.X[own] for kind, own in rows.items()}
        moments = {kind: Moments.of(X) for kind, X in samples.items()}
        found = leave_one_out(models, moments, samples, search.estimator.bias_rule)
        if found is None:
            return None
        for kind, own in rows.items():
            S[own[:, None], p, np.array(order)] = found[kind]
        others = np.setdiff1d(every, pair.rows)  # no part of this problem
        if others.size:
            whole = at_sizes(models, moments, search.estimator.bias_rule, search.estimator.tol)
            S[others[:, None], p, np.array(order)] = search.X[others] @ whole.W + whole.b
    return S


def held_out(search: Search, folds: Sequence[Fold]) -> Iterator[Scores]:
    """For every fold (test, problems, values) decision values; nan where there is no classifier."""
    if search.by_moments:
        yield from _by_moments(search, folds)
    else:
        yield from each(lambda fold: _by_paths(search, *fold), folds, search.n_jobs)


# --- means and covariances ------------------------------------------------------------------------
def _by_moments(search: Search, folds: Sequence[Fold]) -> Iterator[Scores]:
    order, rule, tol = search.order, search.estimator.bias_rule, search.estimator.tol
    models = [search.at(k) for k in order]
    for (train, test), by_class in zip(folds, _moments(search, folds), strict=True):
        pairs = search.pairs(train)
        S = np.full((test.size, len(pairs), len(order)), np.nan)
        for p, pair in enumerate(pairs):
            rest = (
                [pair.negative]
                if pair.negative >= 0
                else np.delete(range(search.classes), pair.positive)
            )
            negative = by_class[rest[0]]
            for c in rest[1:]:
                negative = negative.merged(by_class[c])
            found = at_sizes(models, {"pos": by_class[pair.positive], "neg": negative}, rule, tol)
            solved = np.isfinite(found.W[0])
            W, b = np.ascontiguousarray(found.W[:, solved]), found.b[solved]
            asked = np.flatnonzero(np.isnan(b))  # for the least error on the training part
            if asked.size:
                every = _by_row(search.X, W)
                of_training = np.zeros(search.index.size, dtype=bool)
                of_training[pair.rows] = True
                for j in asked:
                    positive = search.index == pair.positive
                    b[j] = least_error(every[j], positive, search.given, of_training)
                held = every[:, test].T
            else:
                held = np.asarray(search.X[test] @ W)
            S[:, p, np.array(order)[solved]] = held + b
            missing = [order[k] for k in np.flatnonzero(~solved)]
            if missing:
                S[:, p, missing] = _solved(search, train, pair, test, missing)
        yield S


def _by_row(X: Any, W: Scores) -> Scores:
    """`(X W)'`, each row in one piece."""
    return W.T @ X.T if isinstance(X, np.ndarray) else np.ascontiguousarray((X @ W).T)


def _moments(search: Search, folds: Sequence[Fold]) -> Iterator[list[Any]]:
    """For every fold the moments of each class of its training part."""
    m, classes = search.index.size, range(search.classes)

    def of(rows: NDArray[np.intp], c: int) -> Moments | None:
        own = rows[search.index[rows] == c]
        weights = None if search.given is None else search.given[own]
        if own.size == 0 or (weights is not None and not weights.any()):
            return None
        return Moments.of(search.X[own], weights)

    held = np.zeros(m, dtype=np.intp)  # the folds that hold each sample out, and train on it
    used = np.zeros(m, dtype=np.intp)
    for train, test in folds:
        held[test] += 1
        used[train] += 1
    apart = all(train.size + test.size == m for train, test in folds)
    if apart and np.all(held == 1) and np.all(used == len(folds) - 1):
        rest = [without_each([of(test, c) for _, test in folds]) for c in classes]
        yield from ([rest[c][f] for c in classes] for f in range(len(folds)))
    else:
        yield from ([of(train, c) for c in classes] for train, _ in folds)


# --- any model --------------------------------------------------------------------------------------
def _by_paths(search: Search, train: NDArray[np.intp], test: NDArray[np.intp]) -> Scores:
    every = list(range(search.values.size))
    return np.stack([_solved(search, train, p, test, every) for p in search.pairs(train)], axis=1)


def _solved(
    search: Search, train: NDArray[np.intp], pair: Pair, test: NDArray[np.intp], places: list[int]
) -> Scores:
    """(test, places) decision values by solves, each from the one before; NaN where there is no solution."""
    e, X, rows = search.estimator, search.X, pair.rows
    square = e.kernel == "precomputed"

    def among(rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Any:
        return np.ascontiguousarray(X[rows][:, columns]) if square else X[rows]

    given = None if search.given is None else search.given[rows]
    of_fold = None if search.given is None else search.given[train]
    _, kernel = kernel_options(e, among(train, train), of_fold)
    counts = counted(of_fold, search.labels, search.index[train])
    factors = side_weights(pair, class_weights(e.class_weight, search.labels, counts), counts)
    groups = None if search.groups is None else search.groups[rows]
    data = bind(among(rows, rows), pair.signs, factors, given, groups, square=square)
    data, gram = with_kernel(kernel.pop("kernel"), data, kernel)

    def compiled(value: float) -> Plan | None:
        model = search.model.with_params(**dict.fromkeys(search.names, value))
        try:
            return plan_of(model, data, gram, e.solver)  # an interval of the data is found once
        except UCMError:
            return None

    def solved(plan: Plan, start: Solution | None) -> Solution | None:
        limit = limit_from(e.time_limit, search.began)
        options = {"tol": e.tol, "max_iter": e.max_iter, "bias_rule": e.bias_rule}
        try:
            solution = plan.solve(warm_start=start, time_limit=limit, **options)
        except UCMError:
            return None
        return with_bias(search.model, plan, solution, e.bias_rule, e.read_as)

    grid = [(k, float(search.values[k])) for k in search.order if k in places]
    S, held = np.full((test.size, len(places)), np.nan), among(test, rows)
    with data.unchecked():
        for k, solution in solve_in_turn(grid, compiled, solved).items():
            S[:, places.index(k)] = _decision(search, solution, held)
    return S


def _decision(search: Search, solution: Solution, X: Any) -> Any:
    """The decision values of a solution, nan where it has no direction, as for `Classifier`."""
    model, e = search.model, search.estimator
    direction = solution.coefficients if solution.w is None else solution.w
    if isinstance(model, RobustMargin) and (direction is None or not direction.any()):
        return np.nan
    if search.kernel:
        return solution.decision(X)
    return X @ normal_in_features(model, solution, X.shape[1], e.read_as) + solution.b
