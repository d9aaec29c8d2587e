"""What is asked of the fields that are written for one number of features."""

from __future__ import annotations

from typing import Any

import numpy as np

from ucm.errors import CompositionError, brief
from ucm.language.node import Node, source

__all__ = ["check_length", "check_weights"]


def check_weights(node: Node, weights: Any, each: str) -> None:
    """Refuse weights that are no vector of finite numbers >= 0, one above 0."""
    if not isinstance(weights, np.ndarray) or weights.ndim != 1:
        raise CompositionError(
            f"{type(node).__name__}: weights is a vector, one number for each {each}, got {brief(weights)}; "
            "write for example weights=[1.0, 0.5]"
        )
    if not weights.size or weights.min() < 0.0 or not weights.any():
        raise CompositionError(
            f"{type(node).__name__}: the weights must not be negative, nor all 0, got {source(weights)}; a "
            f"{each} of weight 0 is free"
        )


def check_length(node: Node, field: str, given: int, n: int) -> None:
    """Refuse a field that is written for another number of features."""
    if given != n:
        raise CompositionError(
            f"{type(node).__name__}: {field} has entries for {given} features, got samples of {n}; give "
            "one for each feature"
        )
