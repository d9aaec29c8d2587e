"""The parameters that a path or a search moves, their values, and the order in which they are solved."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ucm.data.bound_data import Data
from ucm.data.linear_map import Vec
from ucm.errors import ParameterError, brief
from ucm.evidence.lambda_max import lambda_max
from ucm.evidence.parameter_range import Interval, interval_of, sizes_of
from ucm.language.objective import Objective
from ucm.language.parameter import Expression, holds
from ucm.language.robust import RobustMargin
from ucm.language.term_sums import TermMultiple

__all__ = ["candidates", "chosen_names", "numbers_in", "shared_interval", "simple_first"]

_DOWN, _AROUND = 1e-3, 1e3  # of lam_max; above and below a factor without one


def chosen_names(
    model: RobustMargin | Objective, data: Data, param: Any = None, where: str = "ClassifierCV",
    remedy: str = 'name it, as param_name="{}"',
) -> list[str]:  # fmt: skip
    """Return the names of the parameters that move together.

    The given name; else all relative parameters, the only parameter, the only parameter with a lam_max, or
    the only factor of a term.

    Raises
    ------
    ParameterError
        The model has none of that name, or it is not clear which.
    """
    known = list(model.params())
    if param is not None:
        if param not in known:
            raise ParameterError(
                f"ClassifierCV: param_name is one of the model's parameters, {', '.join(known) or 'none'}; "
                f"got {brief(param)}; name a size with ucm.Param to choose it"
            )
        return [param]
    if model.relative_names():
        return list(model.relative_names())
    names = known
    if isinstance(model, Objective) and len(names) > 1:
        names = [n for n in known if lambda_max(model, data, n)] or [
            n for n in known if any(holds(t.factor, n) for t in _multiples(model))
        ]
    if len(names) != 1:
        raise ParameterError(
            f"{where}: expected a model with one parameter, got the parameters {', '.join(known) or 'none'}; "
            f"{remedy.format(next(iter(known), 'nu'))}, or make the parameters relative to move them together"
        )
    return names


def _multiples(model: Objective) -> list[TermMultiple]:
    return [node for node in model.walk() if isinstance(node, TermMultiple)]


def numbers_in(given: Any) -> list[float]:
    """Return the numbers of a sequence; none if it is no sequence of numbers."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        return []
    try:
        return [float(v) for v in given]
    except (TypeError, ValueError, OverflowError):
        return []


def candidates(
    model: RobustMargin | Objective, datas: Sequence[Data], names: Sequence[str], values: Any
) -> Vec:
    """Return the candidate values of a parameter.

    The given values, or the middles of equal parts of the intersection of all admissible intervals. Of an
    objective values at equal ratios, from a thousandth of lam_max to lam_max, or over three decades on either
    side of the present value.

    Raises
    ------
    ParameterError
        No number of values, nor values; an interval without an end, or none that all share.
    """
    if not isinstance(values, int | np.integer) or isinstance(values, bool):
        given = np.array(numbers_in(values))
        if not given.size or not np.isfinite(given).all():
            raise ParameterError(
                "ClassifierCV: param_range is a number of values, or a sequence of numbers, got "
                f"{brief(values)}; write param_range=20"
            )
        return given
    if values < 1:
        raise ParameterError(
            f"ClassifierCV: param_range is at least 1, got {values}; write param_range=20"
        )
    if isinstance(model, Objective):
        return _of_objective(model, datas, names[0], int(values))
    parts = (np.arange(values) + 0.5) / values
    if model.relative_names():
        return parts
    where = f"ClassifierCV: param_range={values}"
    interval = shared_interval(model, datas, names[0], where, "param_range")
    return np.array([interval.at(x) for x in parts])


def shared_interval(
    model: RobustMargin | Objective, datas: Sequence[Data], name: str, where: str, option: str
) -> Interval:
    """Return the intersection of the admissible intervals of a parameter.

    Raises
    ------
    ParameterError
        An interval has no lower end, or the intervals share no value.
    """
    each = [interval_of(model, data, name) for data in datas]
    lower, upper = max(i.lower for i in each), min(i.upper for i in each)
    if not (math.isfinite(lower) and lower < upper):
        raise ParameterError(
            f"{where} needs an admissible interval of {name}, and there is none ({each[0].how}); "
            f"write values, as {option}=[0.2, 0.3]"
        )
    return replace(each[0], lower=lower, upper=upper)


def _of_objective(model: Objective, datas: Sequence[Data], name: str, count: int) -> Vec:
    tops = [lam.value for data in datas if (lam := lambda_max(model, data, name)) is not None]
    if model.relative_names() or tops:
        top = max(tops, default=1.0) if not model.relative_names() else 1.0
        return np.geomspace(_DOWN, 1.0, count + 1)[:-1] * top
    return model.params()[name] * np.geomspace(1.0 / _AROUND, _AROUND, count)


def simple_first(model: RobustMargin | Objective, data: Data, name: str, values: Vec) -> list[int]:
    """Return the indices of the values, the most regular classifier first.

    Of a set, the smallest set first, for which w is nearest to the difference of the class centres; of an
    objective, the largest weight on the penalty.
    """
    order = np.argsort(values, kind="stable").tolist()
    if isinstance(model, Objective):
        of_loss = [
            factor.at(lambda p: 2.0 * p.value if p.name == name else p.value) > factor.value
            for t in model.loss.walk()
            if isinstance(t, TermMultiple)
            and isinstance(factor := t.factor, Expression)
            and holds(factor, name)
        ]
        return order if any(of_loss) else order[::-1]
    sizes = sizes_of(model, data, name)
    return order if not sizes or sizes[0].grows else order[::-1]
