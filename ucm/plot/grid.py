"""The values of the parameter that moves: those given, or a grid over the admissible interval."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ucm.errors import ParameterError, brief
from ucm.evidence.parameter_range import Interval
from ucm.evidence.relative import admissible
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin

__all__ = ["grid_of", "values_over"]


def grid_of(
    model: RobustMargin | Objective,
    X: Any,
    y: Any,
    grid: dict[str, Any],
    count: int,
    who: str,
    of_samples: dict[str, Any],
) -> tuple[str, list[float]]:
    """The parameter and its values: given, or `count` over its admissible interval and beyond.

    Raises
    ------
    ParameterError
        No values where the model is no set of one parameter; several parameters, or one that the model does
        not have; no numbers.
    """
    known = model.params()
    has = ", ".join(known) or "none"
    if not grid:
        if len(known) != 1 or isinstance(model, Objective):
            raise ParameterError(
                f"{who}: without values the one parameter of a set moves, and the parameters of "
                f"{model!r} are {has}; write for example nu=[0.2, 0.3]"
            )
        name = next(iter(known))
        return name, values_over(admissible(model, X, y, **of_samples)[name], known[name], count)
    if len(grid) != 1 or next(iter(grid)) not in known:
        raise ParameterError(
            f"{who}: expected values for one parameter of the model, which has {has}; got {', '.join(grid)}; "
            "write for example nu=[0.2, 0.3]"
        )
    ((name, given),) = grid.items()
    try:
        values = [float(v) for v in given] if isinstance(given, Iterable) else []
    except (TypeError, ValueError):
        values = []
    if not values or isinstance(given, str):
        raise ParameterError(
            f"{who}: {name} takes one number or more in a sequence, got {brief(given)}; write [0.2, 0.3]"
        )
    return name, values


def values_over(interval: Interval, now: float, count: int, beyond: float = 0.35) -> list[float]:
    """Values over an admissible interval, and a part `beyond` of it further where 0 enters U."""
    lower, upper = interval.lower, interval.upper
    if not math.isfinite(upper):
        upper = 3.0 * max(now, abs(lower) if math.isfinite(lower) else 0.0)
    if not math.isfinite(lower):
        lower = min(0.0, upper - 3.0 * abs(now))
    width = upper - lower
    if not interval.lower_closed:
        lower = max(lower - beyond * width, 0.05 * lower) if lower > 0.0 else lower + 0.02 * width
    if not interval.upper_closed and math.isfinite(interval.upper):
        upper += beyond * width
    return np.linspace(lower, upper, count).tolist()
