"""What the types leave open, and a test knows."""

from __future__ import annotations

from typing import Any, TypeVar

import sklearn.datasets

import ucm

__all__ = ["known", "scikit", "untyped"]

T = TypeVar("T")

scikit: Any = sklearn.datasets
"""It comes without types: of its loaders and generators pyright infers neither the arguments nor what
comes back."""

untyped: Any = ucm
"""The library as it is called by someone who checks no types."""


def known(x: T | None) -> T:
    """`x`, which is not None."""
    assert x is not None
    return x
