"""What vectors and matrices of the language share: coefficients, dimensions, printed sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse

from ucm.errors import CompositionError, brief
from ucm.language.node import Node, Notation, Scalar, source, value

__all__ = [
    "axes",
    "coefficient",
    "common_dimension",
    "in_parentheses",
    "multiple",
    "multiple_source",
    "positive",
    "signed_sum",
]


def coefficient(c: Any, node: Node) -> float:
    """`c` as the finite number that multiplies `node`."""
    if isinstance(c, np.ndarray) and c.ndim == 0:
        c = c.item()
    if isinstance(c, bool) or not isinstance(c, Real) or not np.isfinite(float(c)):
        raise CompositionError(
            f"{node!r}: a statistic is multiplied by finite numbers only, got {brief(c)}"
        )
    return float(c)


def axes(x: Any, where: str) -> int:
    """The number of axes of an array, nested lists, or a number."""
    if sparse.issparse(x):
        return 2
    try:
        return np.ndim(x)
    except ValueError as error:
        raise CompositionError(f"{where}: expected rows of equal length, got {brief(x)}") from error


def common_dimension(node: Node, sizes: list[int | None]) -> int | None:
    """The one dimension among `sizes`; None entries are not known yet."""
    known = {d for d in sizes if d is not None}
    if len(known) > 1:
        low, high = min(known), max(known)
        raise CompositionError(
            f"{node!r}: its operands live in different spaces, of dimension {low} and {high}; "
            "both must have the same dimension"
        )
    return known.pop() if known else None


def signed_sum(
    terms: list[tuple[float, str]], times: str, number: Callable[[float], str] = "{:.6g}".format
) -> str:
    """`a x - b y` from pairs (coefficient, word); a coefficient of 1 is not written."""
    text = ""
    for c, word in terms:
        body = word if abs(c) == 1.0 else f"{number(abs(c))}{times}{word}"
        if text:
            text += (" - " if c < 0 else " + ") + body
        else:
            text = ("-" if c < 0 else "") + body
    return text


def in_parentheses(text: str) -> str:
    """The text, in parentheses when it has an operator outside of all brackets."""
    depth = 0
    for ch in text:
        depth += (ch in "([{") - (ch in ")]}")
        if ch == " " and depth == 0:
            return f"({text})"
    return text


def positive(node: Node, *scalars: Scalar) -> None:
    """Refuse multiples that are not positive and finite."""
    for scalar in scalars:
        if not 0.0 < value(scalar) < math.inf:
            raise CompositionError(
                f"{type(node).__name__}: losses and penalties are multiplied by positive finite "
                f"numbers, got {scalar!r}; a negative multiple would make the objective concave"
            )


def multiple_source(factor: Scalar, divisor: Scalar, term: Node) -> str:
    """`factor * term / divisor` as source text."""
    text = in_parentheses(repr(term))
    if factor != 1.0:
        text = f"{source(factor)} * {text}"
    return text if divisor == 1.0 else f"{text} / {source(divisor)}"


def multiple(factor: Scalar, divisor: Scalar, inner: str, notation: Notation) -> str:
    """`factor / divisor` times a formula; a factor of 1 is not written."""
    head = notation.scalar(factor)
    if divisor != 1.0:
        head = notation.fraction(head, notation.scalar(divisor))
    elif factor == 1.0:
        return inner
    return head + notation.times + inner
