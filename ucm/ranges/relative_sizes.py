"""Admissible intervals of the parameters of a model, and sizes given as fractions of these intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from numpy.typing import ArrayLike

from ucm.data.bound_data import Data, bind, is_stored
from ucm.data.first_pass import refuse_gathering
from ucm.data.options import options_of
from ucm.data.readers import open_rows
from ucm.data.weights import ClassWeight
from ucm.errors import CompositionError, SolverError, unknown_option
from ucm.language.contracts import UncertaintySet
from ucm.language.node import Node, as_declared, each
from ucm.language.objective import Objective
from ucm.language.parameter import Param
from ucm.language.per_sample import check_quantities
from ucm.language.robust import RobustMargin
from ucm.ranges.generalised_nu_svm import radius_from_lambda
from ucm.ranges.interval import Interval
from ucm.ranges.lambda_max import lambda_max
from ucm.ranges.parameter_range import (
    grows_with,
    interval_of,
    intervals_of_sizes,
    own_size,
)

Model = TypeVar("Model", bound=RobustMargin | Objective)


def admissible(
    model: UncertaintySet | RobustMargin | Objective,
    X: object,
    y: ArrayLike | None = None,
    *,
    class_weight: ClassWeight = None,
    sample_weight: object = None,
    subgroup: object = None,
    pos_label: object = None,
    per_sample: object = None,
    time_limit: float = math.inf,
    **unknown: object,
) -> dict[str, Interval]:
    """Return for each hyperparameter the interval in which U is not empty and does not contain 0.

    The sets grow (or shrink) with their size, so one end is the smallest size with a point at all,
    the other the smallest with `x = 0`, for caps equation (30) of Barbero, Takeda and Lopez (2015). That
    end has two proofs: a w that separates 0 from every smaller set, and a point x = 0 of one at most 1e-4
    larger, mostly 1e-6. When no size contains 0 (separable classes) it is 0 or inf. The operands of an
    intersection meet where 0 enters the set of their differences, which gives the smallest size with a point.

    For an objective `loss + lam * penalty` the upper end of lam is lam_max, the least lam with w = 0, where
    the penalty has a kink at 0. Of other parameters the interval is the range that the terms accept.

    Of a generalised nu-SVM `lam` goes up to the norm of w without the bound `||w|| <= lam`: beyond it the
    bound is inactive and the solution stays the same, as it does below the least `nu` of a multiple
    `Hinge(p) / nu`, p > 1.

    Of a relative `Param` it is the interval that it is a fraction of, of several their parts of one ray; the
    others are at the numbers that these fractions stand for.

    Parameters
    ----------
    model, X, y, class_weight, sample_weight, subgroup, pos_label, per_sample
        As in `ucm.compile`.
    time_limit
        Seconds for each end.
    **unknown
        Refused, with the nearest option.

    Raises
    ------
    EmptySetError
        U is empty for every value.
    SolverError
        An end was not found, or not in time.

    Notes
    -----
    Of several hyperparameters one without an answer is `(-inf, inf)`, and `how` says why not; the error is
    raised where none has one.

    Examples
    --------
    >>> import ucm
    >>> X, y = [[0.0], [2.0], [1.0], [3.0]], [-1, -1, 1, 1]
    >>> interval = ucm.admissible(ucm.models.nu_svm(0.8), X, y)["nu"]
    >>> round(interval.lower, 6), round(interval.upper, 6)
    (0.666667, 1.0)
    """
    if unknown:
        raise unknown_option("admissible", unknown, options_of(admissible))
    if is_stored(X):
        refuse_gathering(open_rows(X, y), f"admissible of {model!r}")
    declared = as_declared(model, "admissible")
    data = bind(X, y, class_weight, sample_weight, subgroup, pos_label, per_sample)
    check_quantities(declared, data.per_sample)
    if isinstance(declared, RobustMargin):
        declared.set.dimension(data.n)
    relative = intervals_of(declared, data, time_limit) if declared.relative_names() else {}
    numbers = with_numbers(declared, data, time_limit)
    intervals, failed = dict(relative), []
    for name in declared.params():
        if name in relative:
            continue
        try:
            intervals[name] = interval_of(numbers, data, name, time_limit)
        except (CompositionError, SolverError) as error:
            failed.append(error)
            intervals[name] = Interval(-math.inf, math.inf, f"not known: {error}")
    if failed and len(failed) == len(intervals):
        raise failed[0]
    return {name: intervals[name] for name in declared.params()}


def resolved(model: Model, data: Data) -> Model:
    """Return the model with numbers for its relative `Param`s, and radii for lam in `LossBall`s."""
    model = with_numbers(model, data)
    return radius_from_lambda(model, data).model if model.by_lam else model  # type: ignore[return-value, arg-type]


def with_numbers(model: Model, data: Data, time_limit: float = math.inf) -> Model:
    """Return the model with numbers in place of its relative `Param`s.

    A relative parameter becomes the point at its fraction of its interval by `intervals_of`, of several
    their parts of one ray (`intervals_of_sizes`). The search for each end takes at most `time_limit`
    seconds. Raises `CompositionError` for a relative `Param` without an interval.
    """
    names = model.relative_names()
    if not names:
        return model
    intervals = intervals_of(model, data, time_limit)
    return model.substitute({n: intervals[n].at(x) for n, x in model.params().items() if n in names})


def intervals_of(
    model: RobustMargin | Objective, data: Data, time_limit: float = math.inf
) -> Mapping[str, Interval]:
    """Return the admissible intervals of the relative `Param`s of a model by name, cached in the data."""
    names = model.relative_names()
    if not (isinstance(model, Objective) and len(names) > 1):  # else lam_max depends on the fractions
        model = model.with_params(**dict.fromkeys(names, 0.5))
    return model.once("relative", lambda: _intervals(model, names, data, time_limit), data)


def _intervals(
    model: RobustMargin | Objective, names: tuple[str, ...], data: Data, time_limit: float
) -> Mapping[str, Interval]:
    plain = model.substitute(dict.fromkeys(names, 0.5))
    if len(names) > 1 and isinstance(plain, RobustMargin):
        intervals = intervals_of_sizes(plain, names, data, time_limit)
    else:
        intervals = {name: interval_of(plain, data, name, time_limit) for name in names}
    for name, interval in intervals.items():
        if math.isinf(interval.lower):
            raise CompositionError(
                f"Param({name!r}, relative=True): a fraction of the admissible interval, and there is none "
                f"({interval.how}); give the number, or make it the size of a set"
            )
    if isinstance(plain, Objective) and len(names) > 1:
        parts = model.params()
        numbers = {n: intervals[n].at(parts[n]) for n in names if lambda_max(plain, data, n) is None}
        plain = plain.substitute(numbers)
        intervals |= {n: interval_of(plain, data, n) for n in names if n not in numbers}
    return intervals


def with_relative_sizes(model: Model, data: Data) -> Model:
    """Return the model with its sizes as relative `Param`s, all at the fraction 0.5 of their intervals.

    These are the relative parameters if there are any; else every `Param` that is the size of a set, or has a
    lam_max. Without a `Param` they are the sizes that are numbers (equal numbers of one kind get one
    `Param`), or a factor `lam` of the whole penalty, which stays a number if it has no lam_max.
    """
    if model.relative_names():
        return model.as_fractions(model.relative_names())
    model = model if model.params() else _with_params(model, data)
    names = list(model.params())
    match model:
        case Objective():
            names = [n for n in names if lambda_max(model, data, n) is not None]
        case RobustMargin():
            names = [n for n in names if grows_with(model, data, n) in (True, False)]
    return model.as_fractions(names)


def _with_params(model: Model, data: Data) -> Model:
    """Return the model with a `Param` for each size that is a number, or a factor `lam` of the penalty."""
    if isinstance(model, Objective):
        return replace(model, penalty=Param("lam", 1.0) * model.penalty)
    params: dict[tuple[str, float], Param] = {}

    def rewritten(x: Node) -> Node:
        new = {name: each(getattr(x, name), rewritten) for name in x._names}
        size = own_size(x, data)
        number = None if size is None else size.declared
        equal = [n for n in (*x._scalars, *x._names) if type(new[n]) is float and new[n] == number]
        for name in equal[:1]:
            count = sum(other == name for other, _ in params)
            word = f"{name}_{count + 1}" if count else name
            new[name] = params.setdefault((name, new[name]), Param(word, new[name]))
        return replace(x, **new)  # type: ignore[type-var]

    return rewritten(model)
