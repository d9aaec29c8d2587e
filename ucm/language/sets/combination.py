"""Minkowski combinations of sets, the operators `+ - * / @ & |` between sets, and margins with penalties."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from numbers import Real
from operator import add
from typing import Any

import numpy as np
from scipy import sparse

from ucm.data.bound_data import Data
from ucm.data.linear_map import ComposedMap, Matrix, Vec
from ucm.errors import CompositionError, brief
from ucm.language import cvx as cp
from ucm.language.contracts import Block, Domain, LoweredSet, Scope, Splits, UncertaintySet, common_dimension
from ucm.language.domains import Box
from ucm.language.node import (
    OPERATORS,
    Node,
    Notation,
    axes,
    in_parentheses,
    operator,
    signed_sum,
    some,
    source,
    with_value,
)
from ucm.language.objective import PenaltySum, ScaledPenalty
from ucm.language.parameter import Expression, Scalar, as_factor, declared_value, is_zero, value
from ucm.language.penalties.constraints import Bounds, LinearConstraint
from ucm.language.penalties.norms import L1, GroupLasso, Norm
from ucm.language.per_sample import PerSample
from ucm.language.robust import RobustMargin, dual_exponent
from ucm.language.sample_sets import PerSampleImage
from ucm.language.sets.affine_image import AffineImage, Ball, Point, as_linear_map, reindexed, subpaths
from ucm.language.sets.intersection import Intersection
from ucm.language.sets.union import ConvexUnion
from ucm.language.statistics.affine import VectorNode
from ucm.language.statistics.samples import SampleNode
from ucm.language.terms import Penalty, ProximalPenalty, Term


class Combination(UncertaintySet):
    """The base class of Minkowski sums `{sum_k L_k x_k : x_k in U_k}`, the L_k numbers or matrices.

    The terms determine the lowering, the support function `sum_k sigma_k(L_k' d)` and the CVXPY form. A
    subclass of an extension also has the midpoint bias and the normal in the features.
    """

    @abstractmethod
    def terms(self) -> tuple[tuple[UncertaintySet, Matrix], ...]:
        """Return the terms of the sum as pairs (U_k, L_k), L_k a number, a `Param` or a matrix."""

    def dimension(self, n: int | None) -> int | None:
        sizes = []
        for U, L in self.terms():
            inner = U.dimension(n)
            if not is_number(L) and inner not in (None, L.shape[1]):
                raise CompositionError(
                    f"expected a matrix with {inner} columns, the dimension of the set, got one of shape "
                    f"{L.shape}, in {brief(self)}; both must be equal"
                )
            sizes.append(inner if is_number(L) else L.shape[0])
        return common_dimension(self, sizes)

    def infeasibility_reason(self, data: Data) -> str | None:
        reasons = (U.infeasibility_reason(data) for U, _ in self.terms())
        return next((reason for reason in reasons if reason), None)

    def lower(self, data: Data) -> LoweredSet:
        centers, blocks, couplings = [], [], []
        for k, (U, L) in enumerate(self.terms()):
            image = U.lower(data)
            centers.append(times(L, image.center))
            couplings += reindexed(image.couplings, str(k), len(blocks))
            blocks += [_moved(L, b) for b in image.blocks]
        return LoweredSet(reduce(add, centers), tuple(blocks), tuple(couplings))

    def evaluate(self, data: Data, q: Iterator[Vec]) -> tuple[Vec, float]:
        return self.combined([U.evaluate(data, q) for U, _ in self.terms()])

    def combined(self, points: Sequence[tuple[Vec, float]]) -> tuple[Vec, float]:
        """Return the combination of points of the operands, each with its violation, and the largest one."""
        x = reduce(add, [times(L, x) for (_, L), (x, _) in zip(self.terms(), points, strict=True)])
        return x, max(outside for _, outside in points)

    def cvxpy(self, data: Data, scope: Scope) -> tuple[cp.Expression, list[cp.Constraint]]:
        points, constraints = [], []
        for U, L in self.terms():
            x, inside = U.cvxpy(data, scope)
            if isinstance(L, Expression):
                # a parameter times a variable is DPP; times an expression with another one it is not
                z = scope.unit(data.scale) * cp.Variable(x.shape)
                x, inside = scope.of(L, signed=True) * z, [*inside, z == x]
            else:
                x = times(L, x)
            points.append(x)
            constraints += inside
        return reduce(add, points), constraints

    def support(self, data: Data, d: Vec, splits: Splits) -> tuple[float, Vec | None]:
        height, points = 0.0, []
        for k, (U, L) in enumerate(self.terms()):
            part, x = U.support(data, times(transposed(L), d), subpaths(splits, str(k)))
            height += part
            points.append(None if x is None else times(L, x))
        return height, None if any(x is None for x in points) else reduce(add, points)


class LinearCombination(Combination):
    """The Minkowski combination `{sum_k L_k x_k : x_k in U_k}`, written with `+`, `-`, `*` and `@`.

    Attributes
    ----------
    parts : the pairs (L_k, U_k), L_k a number, a `Param` or a matrix

    Examples
    --------
    >>> import ucm
    >>> ucm.Hull(ucm.pos) - 2 * ucm.Hull(ucm.neg)
    Hull(pos) - 2 * Hull(neg)
    >>> print([[1.0, 0.0]] @ ucm.Ball([0.0, 0.0], 1))
    [1, 0] {(0, 0) + u : ‖u‖₂ ≤ 1}
    """

    parts: tuple[tuple[Scalar | Any, UncertaintySet], ...] = some("set")

    def _check(self) -> None:
        super()._check()
        for L, _ in self.parts:
            if is_number(L) and not math.isfinite(declared_value(L)):
                raise CompositionError(
                    f"{self!r}: the factor must be finite, got {with_value(L)}; write a number below 1e308"
                )

    def terms(self) -> tuple[tuple[UncertaintySet, Matrix], ...]:
        return tuple((U, L) for L, U in self.parts)

    @property
    def rotation_invariant(self) -> bool:
        return all(is_number(L) for L, _ in self.parts)

    def __repr__(self) -> str:
        words = [(L, in_parentheses(repr(U))) for L, U in self.parts]
        return signed_sum(
            [(L, w) if is_number(L) else (1.0, f"{source(L)} @ {w}") for L, w in words], " * ", source
        )

    def formula(self, notation: Notation) -> str:
        words = [(L, in_parentheses(U.formula(notation))) for L, U in self.parts]
        return signed_sum(
            [(L, w) if is_number(L) else (1.0, f"{notation.array(L)} {w}") for L, w in words],
            " ",
            notation.scalar,
            notation.minkowski_sum,  # a difference is written with -, though erosion is another set
        )


def summands(U: UncertaintySet, factor: float = 1.0) -> Iterator[tuple[UncertaintySet, float]]:
    """Yield every Minkowski summand with its numeric factor, nan where a matrix multiplies it."""
    for V, L in (terms := U.terms()):
        yield from summands(V, factor * value(L) if is_number(L) else math.nan)
    if not terms:
        yield U, factor


def is_number(L: object) -> bool:
    """True if L is a number, a `Param` or an expression of parameters, and not a matrix."""
    return type(L) is float or isinstance(L, Real | Expression)  # nearly always a float


def times(L: Matrix, x: Matrix) -> Matrix:
    """Return the product `L x` for a number, a `Param` or a matrix L."""
    if not is_number(L):
        return L @ x
    c = value(L)
    return x if c == 1.0 else c * x


def transposed(L: Matrix) -> Matrix:
    """Return the transpose of a matrix, or a number unchanged."""
    return L if is_number(L) else L.T


def _moved(L: Matrix, b: Block) -> Block:
    """Return the block of the image `L U` that corresponds to a block of U."""
    if not is_number(L):
        return replace(b, map=ComposedMap(b.map, L))
    c = value(L)
    return b if c == 1.0 else replace(b.weighing(c), map=b.map.scaled(c))


# --- operators -------------------------------------------------------------------------------------
@operator("set algebra")
def combine(symbol: str, a: Any, b: Any) -> UncertaintySet:
    """Return `a symbol b` for sets: Minkowski sums, multiples and images, intersections, unions."""
    match symbol:
        case "*":
            return _multiple(a, b)
        case "/":
            factor = as_factor(b)
            if factor is None or factor in (0.0, math.inf, -math.inf):
                raise CompositionError(
                    f"{a!r} / {in_parentheses(repr(b))}: a set is divided by a finite number other than 0; "
                    "write c * U for a factor"
                )
            return _multiple(1.0 / factor, a)
        case "@" if isinstance(a, PerSample):
            return PerSampleImage(a, b)  # type: ignore[return-value]
        case "@":
            if not (isinstance(a, np.ndarray | list | tuple) or sparse.issparse(a)):
                raise CompositionError(
                    f"{brief(a)} @ {brief(b)}: `@` takes a matrix on its left and a set on its right; write "
                    "M @ U"
                )
            return LinearCombination(((as_linear_map(a, "M @ U"), b),))
        case "|":
            return ConvexUnion(a, b)
        case "&":
            return Intersection(as_set(a, "&"), as_set(b, "&"))
        case "+" if is_zero(a) or is_zero(b):
            return as_set(b if is_zero(a) else a, "+")
    left, right = as_set(a, symbol), as_set(b, symbol)
    return _sum(left, _multiple(-1.0, right) if symbol == "-" else right)


def _sum(*sets: UncertaintySet) -> UncertaintySet:
    """Return the Minkowski sum of the sets, with nested sums flattened."""
    parts = [U.parts if isinstance(U, LinearCombination) else ((1.0, U),) for U in sets]
    return sets[0] if len(sets) == 1 else LinearCombination(sum(parts, ()))


def _multiple(c: object, a: UncertaintySet) -> UncertaintySet:
    """Return the multiple `{c x : x in A}` of a set."""
    factor = as_factor(c)
    if factor is None:
        reason = "two sets do not multiply" if isinstance(c, Node) else f"got the factor {brief(c)}"
        raise CompositionError(
            f"{a!r}: {reason}; a set is multiplied by a number, by a matrix with M @ U, and in "
            "Robust(Hinge(), U) by a number for each sample, per_sample('radius') * U"
        )
    if isinstance(factor, float) and isinstance(a, LinearCombination):
        (number, U), *more = a.parts
        if not more and isinstance(number, float):
            factor, a = factor * number, U
    return a if factor == 1.0 else LinearCombination(((factor, a),))


@operator("set")
def as_set(x: object, symbol: str) -> UncertaintySet:
    """Return a set unchanged, and a vector or a vector statistic as a `Point`; refuse other objects."""
    match x:
        case UncertaintySet():
            return x
        case VectorNode():
            return Point(x)
        case np.ndarray() | list() | tuple() if axes(x, symbol) == 1:
            return Point(x)
        case SampleNode():
            why = f"{x!r} are samples, not a set; did you mean Hull({x!r})?"
        case Penalty():
            why = (
                f"{brief(x)} is no set; a penalty stands beside a loss, or beside a robust margin, "
                f"RobustMargin(U) + {x!r}"
            )
        case Term():
            why = (
                f"{brief(x)} is no set; a loss stands beside a penalty, as in Hinge() + 0.5 * L2(), or as a "
                "set: loss.to_set(radius)"
            )
        case Domain():
            why = (
                f"{x!r} is a domain of weights, not a set of feature vectors; "
                "did you mean Hull(pos, weights=...) or AffineImage(A, domain)?"
            )
        case _:
            why = f"expected a set or a vector of feature space, got {brief(x)}; write Point(v) for a vector"
    raise CompositionError(f"{symbol}: {why}")


@operator("margin +")
def penalised(a: Any, b: Any) -> RobustMargin:
    """Return `RobustMargin(U) + R` as that of `U + B`, R the support function of a symmetric B."""
    model, penalty = (a, b) if isinstance(a, RobustMargin) else (b, a)
    if is_zero(penalty):
        return model
    penalty = OPERATORS["as constraint"](penalty)
    if not isinstance(penalty, Penalty):
        raise CompositionError(
            f"{a!r} + {b!r}: a robust margin holds a norm of w at 1 and takes penalties only; write "
            "RobustMargin(U) + 0.1 * L1(), add sets inside, RobustMargin(U + V), and losses to penalties"
        )
    balls = _balls(penalty, 1.0, model.norm)
    return RobustMargin(_sum(model.set, *balls), model.norm)


def _balls(penalty: Penalty, c: Scalar, p: float) -> list[UncertaintySet]:
    """Return sets whose support functions sum to c times the penalty on `||w||_p = 1`."""
    match penalty:
        case Norm():
            return [Ball(0, c, dual_exponent(penalty.p))]
        case PenaltySum():
            return [ball for R in penalty.terms for ball in _balls(R, c, p)]
        case ScaledPenalty():
            return _balls(penalty.term, c * penalty.factor, p)
        case ProximalPenalty() if (norms := penalty.norms()) is not None and (p == 2.0 or norms[1] == 0.0):
            exponents = (math.inf, 2.0, 1.0)  # of the dual norms; where ||w||_2 = 1 it is its square
            return [Ball(0, c * a, q) for a, q in zip(norms, exponents, strict=True) if a > 0.0]
        case LinearConstraint():
            return [AffineImage(_cone_rows(penalty).T, Box(0.0, math.inf))]
        case L1():
            return [np.diag(penalty.weights) @ Ball(0, c, math.inf)]
        case GroupLasso():
            eye, groups = np.eye(penalty.groups.size), np.unique(penalty.groups)
            weights = np.ones(groups.size) if penalty.weights is None else penalty.weights
            sections = [(r, eye[:, penalty.groups == g]) for r, g in zip(weights, groups, strict=True)]
            return [E @ Ball(np.zeros(E.shape[1]), c * float(r)) for r, E in sections if r > 0.0]
    raise CompositionError(
        f"RobustMargin(U) + {penalty!r}: a robust margin holds ||w||_{p:g} at 1, where only norms of w leave "
        "the problem convex; write L1(), Norm(p) or GroupLasso(groups), for a covariance Q "
        "U + Ellipsoid(0, Q, r), or put the penalty beside a loss"
    )


def _cone_rows(penalty: LinearConstraint) -> Matrix:
    """Return the rows of B of a constraint `B w >= 0`; refuse bounds that are not 0, and an unknown B.

    The support function of `K* = {B'mu : mu >= 0}` at -w is 0 where `B w >= 0`, and infinite elsewhere.
    """
    rows = penalty
    if isinstance(penalty, Bounds):
        each = next((b for b in (penalty.lb, penalty.ub) if isinstance(b, tuple)), None)
        rows = None if each is None else penalty.over(len(each))
    if rows is None or rows.of_statistics or rows.upper[1].any():
        raise CompositionError(
            f"RobustMargin(U) + {penalty!r}: expected B w >= 0 with a given matrix B, as a robust margin "
            "takes finite bounds of 0 only, one each; write NonNegative([True] * n) for n features "
            "or LinearConstraint(A, 0), or put the constraint beside a loss"
        )
    return -rows.upper[0]
