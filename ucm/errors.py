"""Errors and warnings. Every message has three parts: what, got, remedy."""

from __future__ import annotations

import difflib
import re
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path

__all__ = [
    "CompositionError",
    "ConvergenceWarning",
    "DataError",
    "EmptySetError",
    "MissingExtraError",
    "ParameterError",
    "SolverError",
    "UCMError",
    "brief",
    "nearest",
    "unknown_option",
    "warn_of",
]

_PACKAGE = str(Path(__file__).parent)


_NUMBER = r"-?[\d.]+(?:e[-+]?\d+)?"
_NUMBERS = re.compile(rf"\[({_NUMBER}(?:, {_NUMBER}){{2}})(?:, {_NUMBER}){{4,}}, ({_NUMBER})\]")
_ROWS = re.compile(r"\[(\[[^][]*\], \[[^][]*\])(?:, \[[^][]*\]){2,}, (\[[^][]*\])\]")


class UCMError(ValueError):
    """The base class of the library's errors.

    Its text abbreviates arrays of more than 7 numbers or 4 rows in the source text of declarations.
    """

    def __str__(self) -> str:
        return _short(super().__str__())


def _short(message: str) -> str:
    return _ROWS.sub(r"[\1, ..., \2]", _NUMBERS.sub(r"[\1, ..., \2]", message))


class CompositionError(UCMError):
    """A declaration that has no meaning, refused when it is written or bound to data."""


class ParameterError(UCMError):
    """A hyperparameter or an option outside its range; the message names the range."""


class DataError(UCMError):
    """Invalid samples or labels, such as NaN, a single class, or shapes that do not match."""


class EmptySetError(UCMError):
    """An uncertainty set that is empty for these data and parameters."""


class MissingExtraError(UCMError, ImportError):
    """A missing optional dependency; the message names the extra to install."""


class SolverError(UCMError):
    """The failure of a solver, or an answer that contradicts its certificate."""


class ConvergenceWarning(UserWarning):
    """A solve ended above its tolerance; the message states the proven gap."""


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
    text = _short(" ".join(repr(x).split()))
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
