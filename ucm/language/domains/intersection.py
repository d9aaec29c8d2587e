"""Intersections of two domains."""

from __future__ import annotations

from typing import Any

import numpy as np

from ucm.data.linear import Vec
from ucm.errors import CompositionError, SolverError, brief
from ucm.language import cvx as cp
from ucm.language import masses
from ucm.language.contracts import Domain, Sampled, Size, Weighable, operator
from ucm.language.node import Notation

__all__ = ["DomainIntersection"]


class DomainIntersection(Sampled):
    """The common points of two domains, written `A & B`.

    It has no projection of its own: solvers couple one block for each operand. Where no operand
    settles it, the support function is a conic program, and its value the upper bound
    `sigma_A(g - s) + sigma_B(s)` at the split s that the program returns.

    Parameters
    ----------
    left, right : Domain

    Examples
    --------
    >>> import ucm
    >>> D = ucm.NormBall(0.8) & ucm.Box(0.0, 0.5)
    >>> D.violation([0.5, 0.5])
    0.0
    """

    left: Domain
    right: Domain

    def __post_init__(self) -> None:
        super().__post_init__()
        for operand in (self.left, self.right):
            if not isinstance(operand, Domain):
                raise CompositionError(
                    f"A & B of domains: expected a domain, got {brief(operand)}; "
                    "write for example NormBall(0.2) & Box(0, 0.1)"
                )

    def support(self, g: Vec, *, classes: Vec | None = None) -> tuple[float, Vec]:
        g = masses.vector(g)
        for here, there in ((self.left, self.right), (self.right, self.left)):
            top, q = here.support(g, classes=classes)
            if np.isfinite(top) and there.violation(q, classes=classes) == 0.0:
                return top, q
        return self._conic_support(g, classes)

    def _conic_support(self, g: Vec, classes: Vec | None) -> tuple[float, Vec]:
        q, copy = cp.Variable(g.size), cp.Variable(g.size)
        meet = q == copy
        own = self.left.own_constraints(q, classes) + self.right.own_constraints(copy, classes)
        scale = max(float(np.abs(g).max()), 1e-300)
        problem = cp.Problem(cp.Maximize((g / scale) @ q), [meet, *own])
        cp.clarabel(problem)
        if problem.status == cp.UNBOUNDED:
            return np.inf, self.center(g.size, classes=classes)
        if q.value is None:
            raise SolverError(
                f"{self!r}: no support, the conic solver says {problem.status}; scale the operands"
            )
        bounds = [d.support(g, classes=classes)[0] for d in (self.left, self.right)]
        for s in (scale * meet.dual_value, -scale * meet.dual_value):
            one = self.left.support(g - s, classes=classes)[0]
            bounds.append(one + self.right.support(s, classes=classes)[0])
        return min(bounds), 0.5 * (q.value + copy.value)

    def violation(self, q: Vec, *, classes: Vec | None = None) -> float:
        return max(d.violation(q, classes=classes) for d in (self.left, self.right))

    def center(self, dim: int, *, classes: Vec | None = None) -> Vec:
        q = self._center(dim, classes)
        if q is None:
            raise SolverError(
                f"{self!r}: no centre, the operands have no common point; make one of them larger"
            )
        return q

    def _center(self, dim: int, classes: Vec | None) -> Vec | None:
        """A centre of an operand if it serves, else the common point nearest to both centres."""
        centers = [d.center(dim, classes=classes) for d in (self.left, self.right)]
        for q in (0.5 * (centers[0] + centers[1]), *centers):
            if self.violation(q, classes=classes) == 0.0:
                return q
        x = cp.Variable(dim)
        distance = cp.sum_squares(x - centers[0]) + cp.sum_squares(x - centers[1])
        problem = cp.Problem(cp.Minimize(distance), self.constraints(x, classes=classes))
        cp.clarabel(problem)
        return None if problem.status in (cp.INFEASIBLE, cp.INFEASIBLE_INACCURATE) else x.value

    def emptiness(self, dim: int, *, classes: Vec | None = None) -> str | None:
        for d in (self.left, self.right):
            reason = d.emptiness(dim, classes=classes)
            if reason:
                return reason
        if self._center(dim, classes) is not None:
            return None
        return f"{self!r}: empty, the operands have no common point; enlarge one of them"

    def size(self) -> Size | None:
        return None

    def constraints(
        self, q: cp.Expression, size: Any = None, *, classes: Vec | None = None
    ) -> list[cp.Constraint]:
        return self.left.own_constraints(q, classes) + self.right.own_constraints(q, classes)

    def on_simplex(self) -> Domain | None:
        return None

    def weighed(self, weights: Vec, *, classes: Vec | None = None) -> DomainIntersection | None:
        left, right = (
            d.weighed(weights, classes=classes) if isinstance(d, Weighable) else None
            for d in (self.left, self.right)
        )
        return None if left is None or right is None else DomainIntersection(left, right)

    def of_samples(self, number: float) -> DomainIntersection:
        sides = (self.left, self.right)
        return DomainIntersection(
            *(d.of_samples(number) if isinstance(d, Sampled) else d for d in sides)
        )

    def __repr__(self) -> str:
        right = repr(self.right)
        nested = isinstance(self.right, DomainIntersection)
        return f"{self.left!r} & ({right})" if nested else f"{self.left!r} & {right}"

    def formula(self, notation: Notation) -> str:
        return f"{self.left.formula(notation)}, {self.right.formula(notation)}"


@operator("domain &")
def _intersect(left: Domain, right: Any) -> DomainIntersection:
    return DomainIntersection(left, right)
