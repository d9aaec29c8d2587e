"""Errors and warnings. Every message has three parts: what, got, remedy."""

from __future__ import annotations

__all__ = [
    "CompositionError",
    "ConvergenceWarning",
    "DataError",
    "EmptySetError",
    "ParameterError",
    "SolverError",
    "UCMError",
]


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


class SolverError(UCMError):
    """A solver that failed, or an answer that the certificate contradicts."""


class ConvergenceWarning(UserWarning):
    """The tolerance was not reached; the message carries the gap that was."""
