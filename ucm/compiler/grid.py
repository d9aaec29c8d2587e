"""Parameter grids of paths and searches: the parameters, their values and the order of the solves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from ucm.data.bound_data import Data
from ucm.data.linear_map import Vec
from ucm.data.options import COUNT
from ucm.errors import ParameterError, brief
from ucm.language.objective import Objective, TermMultiple
from ucm.language.parameter import holds
from ucm.language.robust import RobustMargin
from ucm.ranges.lambda_max import lambda_max
from ucm.ranges.parameter_range import declared_range, effects, interval_of, weight_sets
from ucm.ranges.relative_sizes import intervals_of, with_relative_sizes

_DOWN, _AROUND = 1e-3, 1e3  # of lam_max; above and below a factor without one


def chosen_names(
    model: RobustMargin | Objective, data: Data, param: str | None = None, where: str = "ClassifierCV",
    remedy: str = 'name it, as param_name="{}"',
) -> list[str]:  # fmt: skip
    """Return the names of the parameters to vary: one parameter, or all relative parameters together.

    The given name; else all relative ones, the only one, the only one with a lam_max, or the only factor.
    """
    params = list(model.params())
    if param is not None:
        if param not in params:
            raise ParameterError(
                f"ClassifierCV: param_name is one of the model's parameters, {', '.join(params) or 'none'}; "
                f"got {brief(param)}; name a size with ucm.Param to choose it"
            )
        return [param]
    if model.relative_names():
        return list(model.relative_names())
    names = params
    if isinstance(model, Objective) and len(names) > 1:
        factors = [term.factor for term in model.nodes_of_type(TermMultiple)]
        names = [n for n in params if lambda_max(model, data, n)] or [
            n for n in params if any(holds(factor, n) for factor in factors)
        ]
    if not params:
        sizes = with_relative_sizes(model, data)
        example = f", as in {brief(sizes)}" if sizes.params() else ""
        raise ParameterError(f"{where}: expected a model with a parameter; write a size as a Param{example}")
    if len(names) != 1:
        raise ParameterError(
            f"{where}: expected a model with one parameter, got the parameters "
            f"{', '.join(params)}; {remedy.format(params[0])}, or make them "
            "relative to move them together"
        )
    return names


def numbers_in(values: object) -> list[float]:
    """Return the numbers of a sequence as floats; an empty list for any other argument."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        return []
    try:
        return [float(v) for v in values]
    except (TypeError, ValueError, OverflowError):
        return []


def candidates(
    model: RobustMargin | Objective, datas: Sequence[Data], names: Sequence[str], values: object
) -> Vec:
    """Return the candidate values of a parameter: the given sequence, or a number of values by `spread`."""
    if not COUNT.holds(values):
        numbers = np.array(numbers_in(values))
        if not numbers.size or not np.isfinite(numbers).all():
            raise ParameterError(
                "ClassifierCV: param_range is a number of values, or a sequence of numbers, got "
                f"{brief(values)}; write param_range=20"
            )
        return numbers
    where = f"ClassifierCV: param_range={values}"
    return spread(model, datas, names[0], int(values), where, "param_range")  # type: ignore[arg-type]


def spread(
    model: RobustMargin | Objective, datas: Sequence[Data], name: str, count: int, where: str,
    option: str, closed: bool = False,
) -> Vec:  # fmt: skip
    """Return a grid over the interval of a set or of weights, or up to lam_max for an objective.

    The interval is the intersection over all `datas`. A relative parameter has fractions as values.

    Of a set the middles of equal parts, with `closed` the closed end and values at equal distances up to the
    open end. Of an objective values at equal ratios from a thousandth of lam_max to lam_max, with `closed`
    lam_max first, without it up to the value before lam_max; without a lam_max over three decades on either
    side of the present value.

    Parameters
    ----------
    where, option : the start of an error message, and the option that takes values

    Raises
    ------
    ParameterError
        An interval has no lower end, or the intervals share no value.
    """
    relative = name in model.relative_names()
    if isinstance(model, Objective) and not weight_sets(model, name):
        tops = [lam.upper for data in datas if (lam := lambda_max(model, data, name)) is not None]
        if not relative and not tops:
            if (declared := declared_range(model, name)).lower == -math.inf:
                raise ParameterError(f"{where}: {declared.how}, as {option}=[1, 2, 3]")
            return model.params()[name] * np.geomspace(1.0 / _AROUND, _AROUND, count)
        top = 1.0 if relative else max(tops)
        if closed:
            return top * np.geomspace(1.0, _DOWN, count)
        return top * np.geomspace(_DOWN, 1.0, count + 1)[:-1]
    if relative and not closed:
        return (np.arange(count) + 0.5) / count
    each = [intervals_of(model, d)[name] if relative else interval_of(model, d, name) for d in datas]
    lower, upper = max(i.lower for i in each), min(i.upper for i in each)
    if not (math.isfinite(lower) and lower < upper):
        raise ParameterError(
            f"{where} needs an admissible interval of {name}, and there is none ({each[0].how}); "
            f"write values, as {option}=[0.2, 0.3]"
        )
    parts = (np.arange(count) + (0.0 if closed else 0.5)) / count
    if closed and not each[0].lower_closed:
        parts = 1.0 - parts
    interval = replace(each[0], lower=lower, upper=upper)
    return parts if relative else np.array([interval.at(x) for x in parts])


def simple_first(model: RobustMargin | Objective, data: Data, name: str, values: Vec) -> list[int]:
    """Return the indices of the values, ordered from the most to the least regularised classifier."""
    order = np.argsort(values, kind="stable").tolist()
    if isinstance(model, Objective):
        terms = model.loss.nodes_of_type(TermMultiple)
        factors = [c for term in terms if holds(c := term.factor, name)]
        grown = (c.at(lambda p: (1 + (p.name == name)) * p.value) > c.value for c in factors)
        return order if any(grown) else order[::-1]
    changed = effects(model, data, name)
    return order if all(size.grows for size in changed.sizes) else order[::-1]
