"""Errors and warnings. Every message has three parts: what, got, remedy."""

from __future__ import annotations

import difflib
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
