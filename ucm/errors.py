"""Errors and warnings. Every message has three parts: what, got, remedy."""

from __future__ import annotations

import dataclasses
import difflib
import math
import sys
import warnings
from collections.abc import Callable, Iterable
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple

__all__ = [
    "COUNT",
    "FLAG",
    "POSITIVE",
    "SECONDS",
    "SEED",
    "STOP",
    "CompositionError",
    "ConvergenceWarning",
    "DataError",
    "EmptySetError",
    "MissingExtraError",
    "ParameterError",
    "SolverError",
    "UCMError",
    "Wanted",
    "brief",
    "check_fields",
    "nearest",
    "one_of",
    "optional",
    "unknown_option",
    "warn_of",
    "whole",
    "within",
]

_PACKAGE = str(Path(__file__).parent)


class UCMError(ValueError):
    """Base of every error that the library raises on purpose."""


class CompositionError(UCMError):
    """A declaration that has no meaning, refused when it is written or bound to data."""


class ParameterError(UCMError):
    """A hyperparameter or an option outside its range; the message names the range."""


class DataError(UCMError):
    """Samples or labels that no model can be fitted to (NaN, one class, wrong shapes)."""


class EmptySetError(UCMError):
    """An uncertainty set without a point for the bound data and parameters."""


class MissingExtraError(UCMError, ImportError):
    """A part of the library whose extra is not installed; the message names the extra."""


class SolverError(UCMError):
    """A solver that failed, or an answer that the certificate contradicts."""


class ConvergenceWarning(UserWarning):
    """The tolerance was not reached; the message carries the gap that was."""


def warn_of(message: str, category: type[Warning]) -> None:
    """Warn at the line outside of this package that led here."""
    level, frame = 1, sys._getframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def brief(x: object) -> str:
    """What was got, on one line of an error message."""
    shape = getattr(x, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"{type(x).__name__} of shape {shape}"
    text = " ".join(repr(x).split())
    return text if len(text) <= 200 else f"{text[:197]}..."


def unknown_option(where: str, got: Iterable[str], known: Iterable[str]) -> ParameterError:
    """The error for options that there are not: it names the nearest that there are."""
    got, known = sorted(got), list(dict.fromkeys(known))
    near = dict.fromkeys(word for name in got for word in nearest(name, known))
    meant = f"; did you mean {', '.join(near)}?" if near else ";"
    return ParameterError(
        f"{where}: unknown option {', '.join(got)}{meant} the options are {', '.join(known)}"
    )


def nearest(name: str, known: list[str]) -> list[str]:
    """The nearest of the known names: one that begins as it does, or is spelt much like it."""
    begin = [word for word in known if name.startswith(word) or word.startswith(name)]
    return begin[:1] or difflib.get_close_matches(name, known, n=1)


class Wanted(NamedTuple):
    """What an option may be, in words and as a test."""

    words: str
    holds: Callable[[Any], bool]

    def check(self, where: str, name: str, x: Any, remedy: str) -> None:
        """Raises `ParameterError` where x is something else."""
        if not self.holds(x):
            raise ParameterError(f"{where}: {name} is {self.words}, got {brief(x)}; {remedy}")


def within(words: str, holds: Callable[[Any], bool]) -> Wanted:
    """A real number of a range."""
    return Wanted(
        words, lambda x: isinstance(x, Real) and not isinstance(x, bool) and bool(holds(x))
    )


def whole(least: int) -> Wanted:
    """A whole number of at least that."""
    found = within(f"a whole number from {least} on", lambda x: x >= least)
    return found._replace(holds=lambda x: isinstance(x, Integral) and found.holds(x))


def one_of(*known: str) -> Wanted:
    """One of these words."""
    words = ", ".join(f'"{word}"' for word in known[:-1])
    return Wanted(f'{words} or "{known[-1]}"', lambda x: isinstance(x, str) and x in known)


def optional(wanted: Wanted) -> Wanted:
    """The same, or None."""
    return Wanted(f"{wanted.words} or None", lambda x: x is None or wanted.holds(x))


STOP = one_of("gap", "paper")
COUNT = Wanted("a positive whole number", whole(1).holds)
SEED = whole(0)
POSITIVE = within("a positive number", lambda x: 0.0 < x < math.inf)
SECONDS = within("a positive number of seconds", lambda x: x > 0.0)
FLAG = Wanted("True or False", lambda x: type(x).__name__ in ("bool", "bool_"))


def check_fields(owner: Any, **wanted: Wanted) -> None:
    """Raises `ParameterError` where a field of a dataclass is not what it may be."""
    kind = type(owner)
    for field in dataclasses.fields(owner):
        if field.name in wanted:
            left = field.default is not dataclasses.MISSING
            remedy = f"leave it out for {field.default!r}" if left else "give one"
            wanted[field.name].check(kind.__name__, field.name, getattr(owner, field.name), remedy)
