"""The models of `ucm.models` by their names, with the values of a command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from inspect import Parameter, signature
from typing import Any

from ucm.errors import ParameterError, did_you_mean
from ucm.language import models
from ucm.language.parameter import Param

_NUMBERS = ("Scalar", "Scalar | None", "float")


def model_names() -> list[str]:
    """Return the names of the models of `ucm.models` whose parameters are all numbers."""
    return [name for name in models.__all__ if _not_a_number(name) is None]


def _parameters(name: str) -> Mapping[str, Parameter]:
    return signature(getattr(models, name)).parameters


def _not_a_number(name: str) -> str | None:
    """Return the first parameter of a model that is not a number."""
    return next((w for w, p in _parameters(name).items() if p.annotation not in _NUMBERS), None)


def defaults(name: str) -> dict[str, float | None]:
    """Return the parameters of a named model with their default values, None for a required parameter.

    Alternative parameters, which are keyword-only, are left out.
    """
    return {
        parameter: None if p.default is p.empty else p.default
        for parameter, p in _parameters(name).items()
        if p.kind is not Parameter.KEYWORD_ONLY
    }


def parsed_values(assignments: Iterable[str]) -> dict[str, float]:
    """Return `["nu=0.3"]` as `{"nu": 0.3}`."""
    values: dict[str, float] = {}
    for text in assignments:
        name, _, number = text.partition("=")
        if name in values:
            raise ParameterError(f"--param {text}: {name} is set before, to {values[name]:g}; set it once")
        try:
            values[name] = float(number)
        except ValueError:
            raise ParameterError(f"--param {text}: expected NAME=VALUE with a number, as nu=0.3") from None
    return values


def declare(name: str, given: Mapping[str, float] | None = None) -> Any:
    """Return `ucm.models.<name>` with the values given.

    A parameter without a value gets its default, or is relative: half of its admissible interval.

    Raises
    ------
    ParameterError
        No model has the name, or a parameter is not a number, or the model has no parameter that is given.
    """
    given = given or {}
    if name not in models.__all__:
        known = model_names()
        remedy = did_you_mean([name], known) or f"; take one of {', '.join(known)}"
        raise ParameterError(f"model {name!r}: not known{remedy}")
    if other := _not_a_number(name):
        raise ParameterError(
            f"model {name!r}: expected a model whose parameters are numbers, got one that takes {other} "
            f"too; write ucm.to_json(ucm.models.{name}(...)) to a file and give it by --model-file"
        )
    known, default = _parameters(name), defaults(name)
    for parameter in given:
        if parameter not in known:
            raise ParameterError(f"{name}: no parameter {parameter!r}; it has {', '.join(known) or 'none'}")
    alternatives = known.keys() - default.keys()
    if given.keys() & alternatives:  # in place of the other parameters
        if missing := alternatives - given.keys():
            raise ParameterError(f"{name}: expected a value of {missing.pop()} too; write --param")
        return getattr(models, name)(**given)
    values = {w: Param(w, 0.5, relative=True) if x is None else x for w, x in default.items()}
    return getattr(models, name)(**{**values, **given})
