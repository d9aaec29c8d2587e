"""A named model with values for its parameters, chosen from the data where none are given."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from inspect import Parameter, signature
from typing import Any

from ucm.errors import ParameterError, nearest
from ucm.evidence.parameter_range import Interval
from ucm.evidence.relative import admissible
from ucm.language import models

__all__ = ["declare", "model_names", "parameters", "refuse_open", "sample"]

_NUMBERS = ("Scalar", "Scalar | None", "float")


def model_names() -> list[str]:
    """The names of `ucm.models` whose parameters are all numbers, in their order there."""
    return [
        name
        for name in models.__all__
        if all(p.annotation in _NUMBERS for p in _signature(name).values())
    ]


def parameters(name: str, given: Collection[str] = ()) -> dict[str, float | None]:
    """The parameters of a named model and their defaults, None where one has none.

    A model with parameters in place of others has these where one of them is given.

    Raises
    ------
    ParameterError
        No model has the name, or it takes more than numbers, or has no parameter that is given.
    """
    if name in models.__all__ and name not in model_names():
        more = [w for w, p in _signature(name).items() if p.annotation not in _NUMBERS]
        raise ParameterError(
            f"model {name!r}: expected a model whose parameters are numbers, got one that takes "
            f"{more[0]} too; write ucm.to_json(ucm.models.{name}(...)) to a file and give it by --model-file"
        )
    if name not in model_names():
        close = nearest(name, model_names())
        remedy = f"did you mean {close[0]}?" if close else f"take one of {', '.join(model_names())}"
        raise ParameterError(f"model {name!r}: not known; {remedy}")
    known = _signature(name)
    for word in given:
        if word not in known:
            raise ParameterError(
                f"{name}: no parameter {word!r}; it has {', '.join(known) or 'none'}"
            )
    own = any(known[word].kind is Parameter.KEYWORD_ONLY for word in given)
    return {
        word: None if p.default is p.empty else p.default
        for word, p in known.items()
        if (p.kind is Parameter.KEYWORD_ONLY) == own
    }


def _signature(name: str) -> Mapping[str, Parameter]:
    return signature(getattr(models, name)).parameters


def sample(name: str, given: Mapping[str, float] | None = None) -> Any:
    """`ucm.models.<name>` with the values given; a parameter without a value gets its default, or
    0.5, which every parameter accepts when written.

    Raises
    ------
    ParameterError
        No model has the name, or the model no such parameter.
    """
    values = {
        w: 0.5 if default is None else default
        for w, default in parameters(name, given or {}).items()
    }
    return getattr(models, name)(**{**values, **(given or {})})


def declare(name: str, given: Mapping[str, float], X: Any, y: Any) -> Any:
    """`ucm.models.<name>` with the values given and the others chosen.

    A parameter with a default keeps it; a single one without gets the middle of its admissible
    interval; several get 1.1 times their least admissible value.

    Raises
    ------
    ParameterError
        No model has the name, the model no such parameter, or a parameter no interval.
    """
    model = sample(name, given)
    left = _left(name, given)
    if not left:
        return model
    intervals = admissible(model, X, y)
    for word in left:
        if not math.isfinite(intervals[word].lower):
            raise ParameterError(
                f"{name}: {word}: no value to choose, {intervals[word].how}; give a value of {word}"
            )
    if len(left) == 1:
        values = {left[0]: intervals[left[0]].middle}
    else:
        values = {word: 1.1 * intervals[word].lower for word in left}
    return model.with_params(**{w: _readable(x, intervals[w]) for w, x in values.items()})


def _left(name: str, given: Mapping[str, float]) -> list[str]:
    """The parameters that have no value."""
    return [w for w, x in parameters(name, given).items() if x is None and w not in given]


def refuse_open(name: str, given: Mapping[str, float], file: str) -> None:
    """Raises `ParameterError` where a value would be chosen from a file that is read block by block."""
    sample(name, given)
    left = _left(name, given)
    if left:
        raise ParameterError(
            f"{name}: expected values for {', '.join(left)}, which are chosen from samples in memory only, "
            f"got {file}; write --param {left[0]}=VALUE"
        )


def _readable(x: float, interval: Interval) -> float:
    """x to three digits, where that is admissible too."""
    short = float(f"{x:.3g}")
    return short if short in interval else x
