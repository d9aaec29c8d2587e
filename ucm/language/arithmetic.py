"""What the nodes of feature space share: factors, axes, parentheses."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse

from ucm.errors import CompositionError, brief
from ucm.language.node import Scalar, Tunable

__all__ = ["as_factor", "axes", "in_parentheses", "is_zero"]


def as_factor(c: Any) -> Scalar | None:
    """`c` as what multiplies a node, a number, a `Param` or arithmetic of these; None when it is neither."""
    if isinstance(c, np.ndarray) and c.ndim == 0:
        c = c.item()
    if isinstance(c, Tunable):
        return c
    return None if isinstance(c, bool) or not isinstance(c, Real) else float(c)


def is_zero(x: Any) -> bool:
    """Whether x is the number 0, which `sum` begins with, and which changes no sum."""
    return as_factor(x) == 0.0


def axes(x: Any, where: str) -> int:
    """The number of axes of an array, nested lists, or a number."""
    if sparse.issparse(x):
        return 2
    try:
        return np.ndim(x)
    except ValueError as error:
        raise CompositionError(
            f"{where}: expected rows of equal length, got {brief(x)}; "
            "give every row as many numbers as the first"
        ) from error


def in_parentheses(text: str) -> str:
    """The text, in parentheses when it has an operator outside of all brackets."""
    depth = 0
    for ch in text:
        depth += (ch in "([{") - (ch in ")]}")
        if ch == " " and depth == 0:
            return f"({text})"
    return text
