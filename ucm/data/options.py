"""Specifications of the allowed values of options, with one check and one form of error message."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, NamedTuple

from ucm.errors import ParameterError, brief


class OptionSpec(NamedTuple):
    """The allowed values of an option, as a description and a test, with an example."""

    words: str
    holds: Callable[[Any], bool]
    example: str = "one"

    def check(self, where: str, name: str, x: object, remedy: str) -> None:
        """Raise `ParameterError` unless x is an allowed value."""
        if not self.holds(x):
            raise ParameterError(f"{where}: {name} is {self.words}, got {brief(x)}; {remedy}")


def within(words: str, holds: Callable[[Any], bool]) -> OptionSpec:
    """Return the specification of a real number, not a bool, that satisfies `holds`."""
    return OptionSpec(words, lambda x: isinstance(x, Real) and type(x) is not bool and bool(holds(x)))


def integer_from(least: int, most: float = math.inf) -> OptionSpec:
    """Return the specification of an integer from `least` to `most`."""
    end = "on" if most == math.inf else f"to {most}"
    number = within(f"a whole number from {least} {end}", lambda x: least <= x <= most)
    return number._replace(holds=lambda x: isinstance(x, Integral) and number.holds(x))


def one_of(*known: str) -> OptionSpec:
    """Return the specification of a string that is one of `known`."""
    words = ", ".join(f'"{word}"' for word in known[:-1])
    return OptionSpec(f'{words} or "{known[-1]}"', lambda x: isinstance(x, str) and x in known)


def optional(spec: OptionSpec) -> OptionSpec:
    """Return a specification that allows None besides the values of another specification."""
    return OptionSpec(f"{spec.words} or None", lambda x: x is None or spec.holds(x))


@functools.cache
def options_of(function: Callable[..., object]) -> list[str]:
    """Return the names of the keyword-only parameters of a function."""
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]


STOP = one_of("gap", "paper")
TOLERANCE = within("a number in (0, 1)", lambda x: 0.0 < x < 1.0)
COUNT = OptionSpec("a positive whole number", integer_from(1).holds)
MOST_STARTS = 10_000
STARTS = integer_from(1, MOST_STARTS)
SEED = integer_from(0)
POSITIVE = within("a positive number", lambda x: 0.0 < x < math.inf)
SECONDS = within("a positive number of seconds", lambda x: x > 0.0)
FLAG = OptionSpec("True or False", lambda x: type(x).__name__ in ("bool", "bool_"))


def option(spec: OptionSpec, default: object = dataclasses.MISSING) -> Any:
    """Return a dataclass field whose value `check_fields` checks against a specification."""
    return dataclasses.field(default=default, metadata={"spec": spec})


def check_fields(owner: Any) -> None:
    """Raise `ParameterError` for a field made by `option` whose value its specification does not allow."""
    for field in dataclasses.fields(owner):
        if spec := field.metadata.get("spec"):
            has_default = field.default is not dataclasses.MISSING
            remedy = f"leave it out for {field.default!r}" if has_default else f"give {spec.example}"
            spec.check(type(owner).__name__, field.name, getattr(owner, field.name), remedy)
