"""What multiples and sums of losses and of penalties share."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ucm.data.linear import Vec
from ucm.errors import CompositionError
from ucm.language.arithmetic import in_parentheses
from ucm.language.node import Node, Notation, Scalar, source, value
from ucm.language.terms import Term

__all__ = ["TermMultiple", "TermSum"]


class TermMultiple(Term):
    """`factor / divisor` times a term, written `factor * term` or `term / divisor`.

    Parameters
    ----------
    factor : float or Param
        Positive.
    term : Loss or Penalty
        Of the kind `of`.
    divisor : float or Param, optional
        Positive.

    Raises
    ------
    CompositionError
        A factor that is not positive and finite, or a term of another kind.
    """

    of: ClassVar[type[Term]]
    but: ClassVar[tuple[type[Term], ...]] = ()

    factor: Scalar
    term: Any
    divisor: Scalar = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.term, self.of) or isinstance(self.term, self.but):
            raise CompositionError(
                f"{type(self).__name__}: expected a term of the kind {self.of.__name__}, got "
                f"{self.term!r}; write factor * term"
            )
        positive(self, self.factor, self.divisor)

    def c(self) -> float:
        """The number that multiplies the term."""
        return value(self.factor) / value(self.divisor)

    def value(self, x: Vec, /) -> float:
        return self.c() * self.term.value(x)

    def __repr__(self) -> str:
        return multiple_source(self.factor, self.divisor, self.term)

    def formula(self, notation: Notation) -> str:
        return multiple(self.factor, self.divisor, self.term.formula(notation), notation)


class TermSum(Term):
    """A sum of terms of the kind `of`, written with `+`."""

    of: ClassVar[type[Term]]

    terms: tuple[Any, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        for term in self.terms:
            if not isinstance(term, self.of) or isinstance(term, TermSum):
                raise CompositionError(
                    f"{type(self).__name__}: expected terms of the kind {self.of.__name__}, got "
                    f"{term!r}; add them with +"
                )

    def value(self, x: Vec, /) -> float:
        return sum(term.value(x) for term in self.terms)

    def split(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        parts = [term.split() for term in self.terms]
        return tuple(t for plus, _ in parts for t in plus), tuple(
            t for _, minus in parts for t in minus
        )

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.terms))

    def formula(self, notation: Notation) -> str:
        return " + ".join(term.formula(notation) for term in self.terms)


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
