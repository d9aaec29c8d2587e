"""Models of `ucm.models` by name, with parameter values from the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from inspect import Parameter, signature

from ucm.errors import ParameterError, did_you_mean
from ucm.language import models
from ucm.language.objective import Objective
from ucm.language.parameter import Param, Scalar
from ucm.language.robust import RobustMargin

_NUMBERS = ("Scalar", "Scalar | None", "float")


def model_names() -> list[str]:
    """Return the names of the models of `ucm.models` whose parameters are all numbers."""
    return [name for name in models.__all__ if all(p.annotation in _NUMBERS for p in _parameters(name))]


def _parameters(name: str) -> list[Parameter]:
    return list(signature(getattr(models, name)).parameters.values())


def defaults(name: str) -> dict[str, float | None]:
    """Return the default values of the positional parameters of a named model, None if required."""
    return {
        p.name: None if p.default is p.empty else p.default
        for p in _parameters(name)
        if p.kind is not p.KEYWORD_ONLY
    }


def parsed_values(assignments: Iterable[str]) -> dict[str, float]:
    """Parse texts `NAME=VALUE` into numbers by name: `["nu=0.3"]` gives `{"nu": 0.3}`."""
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


def declare(name: str, values: Mapping[str, float] | None = None) -> RobustMargin | Objective:
    """Return the model `ucm.models.<name>`; a parameter without value or default is relative."""
    arguments: dict[str, Scalar] = dict(values or {})
    if name not in model_names():
        if name in models.__all__:
            raise ParameterError(
                f"model {name!r}: expected a model whose parameters are numbers; write "
                f"ucm.to_json(ucm.models.{name}(...)) to a file and give it by --model-file"
            )
        remedy = did_you_mean([name], model_names()) or f"; take one of {', '.join(model_names())}"
        raise ParameterError(f"model {name!r}: not known{remedy}")
    parameters, default = [p.name for p in _parameters(name)], defaults(name)
    if unknown := arguments.keys() - set(parameters):
        raise ParameterError(f"{name}: no parameter {unknown.pop()!r}; it has {', '.join(parameters)}")
    alternatives = set(parameters) - default.keys()
    if arguments.keys() & alternatives:  # in place of the other parameters
        if missing := alternatives - arguments.keys():
            raise ParameterError(f"{name}: expected a value of {missing.pop()} too; write --param")
    else:
        relative = {w: Param(w, 0.5, relative=True) if x is None else x for w, x in default.items()}
        arguments = {**relative, **arguments}
    return getattr(models, name)(**arguments)
