"""What `+ - * / @ & |` between sets mean; installed as operators of `UncertaintySet`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from ucm.errors import CompositionError, brief
from ucm.language.contracts import Domain, UncertaintySet, operator
from ucm.language.node import Expression, Node, as_factor, axes, in_parentheses, is_zero, source
from ucm.language.parameter import within
from ucm.language.penalties.norms import exponent
from ucm.language.robust import dual_exponent
from ucm.language.sets.affine_image import Point
from ucm.language.sets.combination import LinearImage, Scaled, Sum
from ucm.language.sets.intersection import Intersection
from ucm.language.sets.union import ConvexUnion
from ucm.language.statistics.affine import VectorNode
from ucm.language.statistics.samples import SampleNode
from ucm.language.term_sums import ScaledPenalty
from ucm.language.terms import Penalty, Term

__all__ = ["as_set"]


@operator("set")
def as_set(x: Any, symbol: str) -> UncertaintySet:
    """A set as it is; vectors and statistics as Points."""
    if isinstance(x, UncertaintySet):
        return x
    if isinstance(x, VectorNode) or (
        isinstance(x, np.ndarray | list | tuple) and axes(x, symbol) == 1
    ):
        return Point(x)  # type: ignore[arg-type]
    if isinstance(x, SampleNode):
        raise CompositionError(f"{symbol}: {x!r} are samples, not a set; did you mean Hull({x!r})?")
    if isinstance(x, Term):
        raise CompositionError(f"{symbol}: {brief(x)} is no set{_as_ball(x)}")
    if isinstance(x, Domain):
        raise CompositionError(
            f"{symbol}: {x!r} is a domain of weights, not a set of feature vectors; "
            "did you mean Hull(pos, weights=...) or AffineImage(A, domain)?"
        )
    raise CompositionError(
        f"{symbol}: expected a set or a vector of feature space, got {brief(x)}; write Point(v) for a vector"
    )


def _as_ball(term: Term) -> str:
    """What to write where a loss or a penalty stands among sets: `r ||w||_p` is the support function of the
    ball of radius r of the dual norm."""
    inner, radius = term, 1.0
    if isinstance(term, ScaledPenalty):
        inner, radius = term.term, term.factor
    p = exponent(inner) if isinstance(inner, Penalty) else None
    if p is not None:
        ball = f"Ball(0, {source(radius)}, p={source(dual_exponent(p))})"
        return f"; a norm penalty on the margin is the ball of its dual norm, write U + {ball}"
    if isinstance(term, Penalty):
        return (
            "; a robust margin holds ||w|| at 1 and takes norm penalties only, as balls: L1() is "
            "Ball(0, r, p=inf); other penalties stand beside a loss, as in Hinge() + 0.5 * L2()"
        )
    return "; a loss stands beside a penalty, as in Hinge() + 0.5 * L2(), or as a set: loss.to_set(radius)"


@operator("+")
def add(a: Any, b: Any) -> UncertaintySet:
    """`{x + y : x in A, y in B}`; the number 0 is the origin."""
    if is_zero(a) or is_zero(b):
        return as_set(b if is_zero(a) else a, "+")
    return Sum(as_set(a, "+"), as_set(b, "+"))


@operator("-")
def subtract(a: Any, b: Any) -> Sum:
    """`{x - y : x in A, y in B}`."""
    return Sum(as_set(a, "-"), Scaled(-1.0, as_set(b, "-")))


@operator("*")
def scale(c: Any, a: UncertaintySet) -> UncertaintySet:
    """`{c x : x in A}`; constant factors are folded into one."""
    factor = as_factor(c)
    if factor is None:
        what = "two sets do not multiply" if isinstance(c, Node) else f"got the factor {brief(c)}"
        raise CompositionError(
            f"{a!r}: {what}; a set is multiplied by a number, and by a matrix with M @ U"
        )
    if isinstance(factor, float):
        if isinstance(a, Scaled) and not isinstance(a.factor, Expression):
            return scale(factor * a.factor, a.operand)
        if factor == 1.0:
            return a
    return Scaled(factor, a)


@operator("/")
def divide(a: UncertaintySet, divisor: Any) -> UncertaintySet:
    """`{x / c : x in A}`."""
    number = as_factor(divisor)
    if number is None:
        raise CompositionError(
            f"{a!r} / {in_parentheses(repr(divisor))}: a set is divided by a number; write c * U for a factor"
        )
    finite = within(
        number, -math.inf, math.inf, (0.0, -math.inf, math.inf),
        f"{a!r} / c: a set", "is divided by a finite number other than 0",
    )  # fmt: skip
    return scale(1.0 / finite, a)


@operator("@")
def transform(M: Any, a: Any) -> LinearImage:
    """`{M x : x in A}`."""
    if isinstance(M, Node) or not (isinstance(M, np.ndarray | list | tuple) or sparse.issparse(M)):
        raise CompositionError(
            f"{brief(M)} @ {brief(a)}: `@` takes a matrix on its left and a set on its right; write M @ U"
        )
    return LinearImage(M, a)


@operator("&")
def intersect(a: Any, b: Any) -> Intersection:
    """`A & B`."""
    return Intersection(as_set(a, "&"), as_set(b, "&"))


@operator("|")
def unite(a: Any, b: Any) -> ConvexUnion:
    """The closed convex hull of A and B."""
    return ConvexUnion(a, b)
