"""A named model with values for its parameters, chosen from the data where none are given."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from ucm.errors import ParameterError
from ucm.evidence.admissible import Interval, admissible
from ucm.language import models

__all__ = ["declare", "model_names", "refuse_open", "sample", "signature"]


def model_names() -> list[str]:
    """The names of `ucm.models` whose parameters are all numbers, in their order there."""
    known = {name: inspect.signature(getattr(models, name)) for name in models.__all__}
    plain = ("Scalar", "float")
    return [
        n for n, s in known.items() if all(p.annotation in plain for p in s.parameters.values())
    ]


def signature(name: str) -> inspect.Signature:
    """The parameters of a named model.

    Raises
    ------
    ParameterError
        No model has the name.
    """
    if name not in model_names():
        raise ParameterError(f"model {name!r}: not known; known are {', '.join(model_names())}")
    return inspect.signature(getattr(models, name))


def sample(name: str, given: Mapping[str, float] | None = None) -> Any:
    """`ucm.models.<name>` with the values given; a parameter without a value gets its default, or
    0.5, which every parameter accepts when written.

    Raises
    ------
    ParameterError
        No model has the name, or the model no such parameter.
    """
    expected = signature(name).parameters
    for word in given or {}:
        if word not in expected:
            raise ParameterError(
                f"{name}: no parameter {word!r}; it has {', '.join(expected) or 'none'}"
            )
    values = {w: 0.5 if p.default is p.empty else p.default for w, p in expected.items()}
    return getattr(models, name)(**{**values, **(given or {})})


def declare(name: str, given: Mapping[str, float], X: Any, y: Any) -> Any:
    """`ucm.models.<name>` with the values given and the others chosen.

    A parameter with a default keeps it; a single one without gets the middle of its admissible
    interval; several get 1.1 times their least admissible value.

    Raises
    ------
    ParameterError
        No model has the name, or the model no such parameter.
    """
    model = sample(name, given)
    left = _left(name, given)
    if not left:
        return model
    intervals = admissible(model, X, y)
    if len(left) == 1:
        values = {left[0]: intervals[left[0]].middle}
    else:
        values = {word: 1.1 * intervals[word].lower for word in left}
    return model.with_params(**{w: _readable(x, intervals[w]) for w, x in values.items()})


def _left(name: str, given: Mapping[str, float]) -> list[str]:
    """The parameters that have no value."""
    parameters = signature(name).parameters
    return [w for w, p in parameters.items() if p.default is p.empty and w not in given]


def refuse_open(name: str, given: Mapping[str, float], file: str) -> None:
    """Raises `ParameterError` where a value would be chosen from a file that is read block by block."""
    sample(name, given)
    left = _left(name, given)
    if left:
        raise ParameterError(
            f"{name}: expected values for {', '.join(left)}, which are chosen from samples in memory only, "
            f"got {file}; write --set {left[0]}=VALUE"
        )


def _readable(x: float, interval: Interval) -> float:
    """x to three digits, where that is admissible too."""
    short = float(f"{x:.3g}")
    return short if short in interval else x
