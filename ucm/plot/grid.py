"""Paths for pictures: over given values of a parameter, or over its admissible interval and beyond."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ucm.compiler.path import Path, path
from ucm.data.bound_data import bind
from ucm.data.effective_weights import SAMPLE_OPTIONS
from ucm.errors import ParameterError
from ucm.evidence.parameter_range import Interval
from ucm.evidence.relative_sizes import admissible, resolved
from ucm.language.objective import Objective
from ucm.language.robust import as_model

_BEYOND = 0.35  # of the width of the interval


def path_over(model: Any, X: Any, y: Any, count: int, options: dict[str, Any], who: str) -> Path:
    """Call `ucm.path` with the options, which name a parameter with its values, or with `count` values.

    Raises
    ------
    ParameterError
        No values, and the model is not a set of one parameter; options that `ucm.path` refuses.
    """
    declared = model if isinstance(model, Objective) else as_model(model, who)
    of_samples = {word: options[word] for word in SAMPLE_OPTIONS if word in options}
    declared = resolved(declared, bind(X, y, **of_samples))
    parameters = declared.params()
    if not options.keys() & parameters.keys():
        if len(parameters) != 1 or isinstance(declared, Objective):
            raise ParameterError(
                f"{who}: expected values of one parameter of {model!r}, which has "
                f"{', '.join(parameters) or 'none'}; write for example nu=[0.2, 0.3]"
            )
        ((name, value),) = parameters.items()
        interval = admissible(declared, X, y, **of_samples)[name]
        options = {**options, name: _values(interval, value, count)}
    return path(declared, X, y, **options)


def _values(interval: Interval, value: float, count: int) -> list[float]:
    """Return values over an admissible interval and beyond the end at which 0 enters U."""
    lower, upper = interval.lower, interval.upper
    if not math.isfinite(upper):
        upper = 3.0 * max(value, abs(lower) if math.isfinite(lower) else 0.0)
    if not math.isfinite(lower):
        lower = min(0.0, upper - 3.0 * abs(value))
    width = upper - lower
    if not interval.lower_closed:
        lower = max(lower - _BEYOND * width, 0.05 * lower) if lower > 0.0 else lower + 0.02 * width
    if not interval.upper_closed and math.isfinite(interval.upper):
        upper += _BEYOND * width
    return np.linspace(lower, upper, count).tolist()
