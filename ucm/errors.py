"""Exceptions and warnings of the library, and functions that compose their messages.

A message says what is wrong, the value, and the remedy.
"""

from __future__ import annotations

import difflib
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

VERSION = "0.2.0"
DISTRIBUTION = "ucm-classifiers"  # the name to install; `ucm` on PyPI is another project

__all__ = [
    "CompositionError",
    "ConvergenceWarning",
    "DataError",
    "EmptySetError",
    "MissingExtraError",
    "NonConvexWarning",
    "ParameterError",
    "ScaleWarning",
    "SolverError",
    "UCMError",
    "brief",
    "did_you_mean",
    "missing_extra",
    "silenced",
    "unknown_attribute",
    "unknown_option",
    "warn_of",
    "warn_of_namesake",
]

_PACKAGE = str(Path(__file__).parent)
_SILENCED: ContextVar[tuple[type[Warning], ...]] = ContextVar("silenced", default=())

_NUMBER = r"-?[\d.]+(?:e[-+]?\d+)?"
_NUMBERS = re.compile(rf"\[({_NUMBER}(?:, {_NUMBER}){{2}})(?:, {_NUMBER}){{4,}}, ({_NUMBER})\]")
_ROWS = re.compile(r"\[(\[[^][]*\], \[[^][]*\])(?:, \[[^][]*\]){2,}, (\[[^][]*\])\]")


class UCMError(ValueError):
    """The base class of all exceptions of the library, a `ValueError`.

    Its text abbreviates arrays of more than 7 numbers or 4 rows in the source text of declarations.
    """

    def __str__(self) -> str:
        return _short(super().__str__())


def _short(message: str) -> str:
    return _ROWS.sub(r"[\1, ..., \2]", _NUMBERS.sub(r"[\1, ..., \2]", message))


class CompositionError(UCMError):
    """Error for a declaration without a meaning, raised at its construction or when bound to data."""


class ParameterError(UCMError):
    """Error for a hyperparameter or an option outside its range; the message names the range."""


class DataError(UCMError):
    """Error for invalid samples or labels, such as NaN, a single class, or mismatched shapes."""


class EmptySetError(UCMError):
    """Error for an uncertainty set that is empty for the given data and parameters."""


class MissingExtraError(UCMError, ImportError):
    """Error for a missing optional dependency; the message names the extra to install."""


def missing_extra(what: str, extra: str) -> MissingExtraError:
    """Return a `MissingExtraError` whose remedy is the command that installs an extra."""
    return MissingExtraError(f"{what}; pip install '{DISTRIBUTION}[{extra}]'")


class SolverError(UCMError):
    """Error for a solver that fails, or whose answer contradicts its certificate."""


class ConvergenceWarning(UserWarning):
    """Warning for a solve that ends above its tolerance; the message states the proven gap."""


class NonConvexWarning(ConvergenceWarning):
    """Warning for a classifier of a set that contains 0, with a local minimum or a stationary point as w."""


class ScaleWarning(UserWarning):
    """Warning for features whose ranges are of different orders of magnitude."""


@contextmanager
def silenced(*categories: type[Warning]) -> Iterator[None]:
    """Leave out the library's own warnings of these categories in the context.

    A filter of the module `warnings` would hold for all threads, and stay behind when two of them overlap.
    """
    token = _SILENCED.set((*_SILENCED.get(), *categories))
    try:
        yield
    finally:
        _SILENCED.reset(token)


def warn_of(message: str, category: type[Warning]) -> None:
    """Issue a warning that points at the nearest calling line outside of this package and scikit-learn."""
    if issubclass(category, _SILENCED.get()):
        return
    level, frame = 1, sys._getframe()
    while frame is not None and (
        frame.f_code.co_filename.startswith(_PACKAGE)
        or str(frame.f_globals.get("__name__")).startswith("sklearn.")
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def warn_of_namesake() -> None:
    """Warn if the project `ucm` of PyPI has its files in this folder, and its command in place of ours."""
    if Path(_PACKAGE, "SwarmListView.py").exists():
        warn_of(
            "ucm: expected this folder for itself, got files of the project `ucm` of PyPI too; run `pip"
            f" uninstall ucm {DISTRIBUTION}`, then `pip install {DISTRIBUTION}`", UserWarning,
        )  # fmt: skip


def brief(x: object) -> str:
    """Return the `repr` of a value in at most 200 characters, or the type and shape of an array."""
    shape = getattr(x, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"{type(x).__name__} of shape {shape}"
    text = _short(" ".join(repr(x).split()))
    return text if len(text) <= 200 else f"{text[:197]}..."


def unknown_option(
    where: str, got: Iterable[str], known: Iterable[str], params: Iterable[str] | None = None
) -> ParameterError:
    """Return a `ParameterError` for unknown options, with the most similar ones or model parameters."""
    got, known = sorted(got), list(dict.fromkeys(known))
    meant = did_you_mean(got, [*(params or ()), *known]) or ";"
    model = "" if params is None else f" the model's parameters are {', '.join(params) or 'none'};"
    return ParameterError(
        f"{where}: unknown option {', '.join(got)}{meant}{model} the options are {', '.join(known)}"
    )


def unknown_attribute(module: str, name: str, known: list[str]) -> AttributeError:
    """Return an `AttributeError` for a missing module attribute that suggests the most similar name."""
    return AttributeError(f"{module} has no attribute {name!r}{did_you_mean([name], known)}")


def did_you_mean(got: Iterable[str], known: list[str]) -> str:
    """Return the message part `; did you mean nu?` with similar known names; empty if no name is similar."""
    suggestions = dict.fromkeys(option for name in got for option in _nearest(name, known))
    return f"; did you mean {', '.join(suggestions)}?" if suggestions else ""


def _nearest(name: str, known: list[str]) -> list[str]:
    """Return at most one known name: a prefix or an extension of `name`, else the most similar spelling."""
    begin = [x for x in known if name.startswith(x) or x.startswith(name)]
    return begin[:1] or difflib.get_close_matches(name, known, n=1)
