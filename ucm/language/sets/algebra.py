"""The operators `+ - * / @ & |` between sets, and the sum of a robust margin and a penalty."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from ucm.errors import CompositionError, brief
from ucm.language.contracts import Domain, UncertaintySet
from ucm.language.node import Node, axes, in_parentheses, operator
from ucm.language.objective import PenaltySum, ScaledPenalty
from ucm.language.parameter import Scalar, as_factor, is_zero, within
from ucm.language.penalties.groups import GroupLasso
from ucm.language.penalties.norms import L1, exponent
from ucm.language.robust import RobustMargin, dual_exponent
from ucm.language.sets.affine_image import Point, as_linear_map
from ucm.language.sets.combination import LinearCombination
from ucm.language.sets.ellipsoid import Ball
from ucm.language.sets.intersection import Intersection
from ucm.language.sets.union import ConvexUnion
from ucm.language.statistics.affine import VectorNode
from ucm.language.statistics.samples import SampleNode
from ucm.language.terms import Penalty, ProximalPenalty, Term


@operator("set")
def as_set(x: Any, symbol: str) -> UncertaintySet:
    """Return a set unchanged, and a vector or a vector statistic as a `Point`; refuse other objects."""
    if isinstance(x, UncertaintySet):
        return x
    if isinstance(x, VectorNode) or (isinstance(x, np.ndarray | list | tuple) and axes(x, symbol) == 1):
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
    """Return the end of the error message for a loss or a penalty where a set is expected."""
    if isinstance(term, Penalty):
        return f"; a penalty stands beside a loss, or beside a robust margin, RobustMargin(U) + {term!r}"
    return "; a loss stands beside a penalty, as in Hinge() + 0.5 * L2(), or as a set: loss.to_set(radius)"


@operator("margin +")
def penalised(a: Any, b: Any) -> RobustMargin:
    """Return `RobustMargin(U) + R` as the robust margin of `U + B`, R the support function of B.

    B is symmetric: `R(w) = max over x in B of -w'x`.

    Raises
    ------
    CompositionError
        No penalty, or on the sphere of w none of this form: it would leave no convex problem.
    """
    model, penalty = (a, b) if isinstance(a, RobustMargin) else (b, a)
    if is_zero(penalty):
        return model
    if not isinstance(penalty, Penalty):
        raise CompositionError(
            f"{a!r} + {b!r}: a robust margin holds a norm of w at 1 and takes penalties only; write "
            "RobustMargin(U) + 0.1 * L1(), add sets inside, RobustMargin(U + V), and losses to penalties"
        )
    balls = _balls(penalty, 1.0, model.norm)
    return RobustMargin(_added(model.set, *balls), model.norm)


def _balls(penalty: Penalty, c: Scalar, p: float) -> list[UncertaintySet]:
    """Return sets whose support functions sum to c times the penalty on `||w||_p = 1`."""
    if isinstance(penalty, PenaltySum):
        return [ball for R in penalty.terms for ball in _balls(R, c, p)]
    if isinstance(penalty, ScaledPenalty):
        return _balls(penalty.term, c * penalty.factor, p)
    q = exponent(penalty)
    if q is not None:
        return [Ball(0, c, dual_exponent(q))]
    ridge = penalty.norms() if isinstance(penalty, ProximalPenalty) else None
    if ridge is not None and p == 2.0:  # c ||w||_2^2, and ||w||_2 = 1
        return [Ball(0, c * ridge[1])]
    if isinstance(penalty, L1):
        return [transform(np.diag(penalty.weights), Ball(0, c, math.inf))]
    if isinstance(penalty, GroupLasso):
        eye, groups = np.eye(penalty.groups.size), np.unique(penalty.groups)
        weights = np.ones(groups.size) if penalty.weights is None else penalty.weights
        sections = [(r, eye[:, penalty.groups == g]) for r, g in zip(weights, groups, strict=True) if r > 0.0]
        return [transform(E, Ball(np.zeros(E.shape[1]), c * float(r))) for r, E in sections]
    raise CompositionError(
        f"RobustMargin(U) + {penalty!r}: a robust margin holds ||w||_{p:g} at 1, where only norms of w leave "
        "the problem convex; write L1(), Norm(p) or GroupLasso(groups), for a covariance Q "
        "U + Ellipsoid(0, Q, r), for w >= 0 U + AffineImage(np.eye(n), Box(0, np.inf)), or put the penalty "
        "beside a loss"
    )


def _added(*sets: UncertaintySet) -> UncertaintySet:
    """Return the Minkowski sum of the sets, with nested sums flattened."""
    parts = [U.parts if isinstance(U, LinearCombination) else ((1.0, U),) for U in sets]
    return sets[0] if len(sets) == 1 else LinearCombination(sum(parts, ()))


@operator("+")
def add(a: Any, b: Any) -> UncertaintySet:
    """Return the Minkowski sum `{x + y : x in A, y in B}`; adding the number 0 changes nothing."""
    if is_zero(a) or is_zero(b):
        return as_set(b if is_zero(a) else a, "+")
    return _added(as_set(a, "+"), as_set(b, "+"))


@operator("-")
def subtract(a: Any, b: Any) -> UncertaintySet:
    """Return the Minkowski sum of A and -B, `{x - y : x in A, y in B}`."""
    return _added(as_set(a, "-"), scale(-1.0, as_set(b, "-")))


@operator("*")
def scale(c: Any, a: UncertaintySet) -> UncertaintySet:
    """Return the multiple `{c x : x in A}` of a set; numeric factors of a multiple are multiplied."""
    factor = as_factor(c)
    if factor is None:
        reason = "two sets do not multiply" if isinstance(c, Node) else f"got the factor {brief(c)}"
        raise CompositionError(
            f"{a!r}: {reason}; a set is multiplied by a number, and by a matrix with M @ U"
        )
    if isinstance(factor, float) and isinstance(a, LinearCombination):
        (number, U), *more = a.parts
        if not more and isinstance(number, float):
            factor, a = factor * number, U
    return a if factor == 1.0 else LinearCombination(((factor, a),))


@operator("/")
def divide(a: UncertaintySet, divisor: Any) -> UncertaintySet:
    """Return the set divided by a number, `{x / c : x in A}`."""
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
def transform(M: Any, a: Any) -> UncertaintySet:
    """Return the linear image `{M x : x in A}` of a set."""
    if isinstance(M, Node) or not (isinstance(M, np.ndarray | list | tuple) or sparse.issparse(M)):
        raise CompositionError(
            f"{brief(M)} @ {brief(a)}: `@` takes a matrix on its left and a set on its right; write M @ U"
        )
    return LinearCombination(((as_linear_map(M, "M @ U"), a),))


@operator("&")
def intersect(a: Any, b: Any) -> Intersection:
    """Return the intersection `A & B` of two sets."""
    return Intersection(as_set(a, "&"), as_set(b, "&"))


@operator("|")
def unite(a: Any, b: Any) -> ConvexUnion:
    """Return the closed convex hull of the union of A and B."""
    return ConvexUnion(a, b)
