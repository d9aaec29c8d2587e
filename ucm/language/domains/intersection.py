"""Intersections of two domains."""

from __future__ import annotations

from typing import Any

import numpy as np

from ucm.data.linear import Vec
from ucm.errors import SolverError
from ucm.language import cvx as cp
from ucm.language.contracts import Domain, operator
from ucm.language.node import Notation
from ucm.language.simplex_projection import vector

__all__ = ["DomainIntersection"]


class DomainIntersection(Domain):
    """The common points of two domains, written `A & B`.

    It has no projection of its own: solvers couple one block for each operand, each bound to the samples.
    Where the maximiser over one operand does not lie in the other, the support function is a conic program,
    and its value the upper bound `sigma_A(g - s) + sigma_B(s)` at the split s that the program returns.

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

    def support(self, g: Vec) -> tuple[float, Vec]:
        g = vector(g)
        for here, there in ((self.left, self.right), (self.right, self.left)):
            top, q = here.support(g)
            if np.isfinite(top) and there.violation(q) == 0.0:
                return top, q
        return self._conic_support(g)

    def _conic_support(self, g: Vec) -> tuple[float, Vec]:
        q, copy = cp.Variable(g.size), cp.Variable(g.size)
        meet = q == copy
        own = self.left.own_constraints(q) + self.right.own_constraints(copy)
        scale = max(float(np.abs(g).max()), 1e-300)
        problem = cp.Problem(cp.Maximize((g / scale) @ q), [meet, *own])
        cp.clarabel(problem)
        if problem.status == cp.UNBOUNDED:
            return np.inf, self.center(g.size)
        if q.value is None:
            raise SolverError(
                f"{self!r}: no support, the conic solver says {problem.status}; scale the operands"
            )
        bounds = [d.support(g)[0] for d in (self.left, self.right)]
        for s in (scale * meet.dual_value, -scale * meet.dual_value):
            one = self.left.support(g - s)[0]
            bounds.append(one + self.right.support(s)[0])
        return min(bounds), 0.5 * (q.value + copy.value)

    def violation(self, q: Vec) -> float:
        return max(d.violation(q) for d in (self.left, self.right))

    def center(self, dim: int) -> Vec:
        q = self._center(dim)
        if q is None:
            raise SolverError(
                f"{self!r}: no centre, the operands have no common point; make one of them larger"
            )
        return q

    def _center(self, dim: int) -> Vec | None:
        """A centre of an operand if it serves, else the common point nearest to both centres."""
        centers = [d.center(dim) for d in (self.left, self.right)]
        for q in (0.5 * (centers[0] + centers[1]), *centers):
            if self.violation(q) == 0.0:
                return q
        x = cp.Variable(dim)
        distance = cp.sum_squares(x - centers[0]) + cp.sum_squares(x - centers[1])
        problem = cp.Problem(cp.Minimize(distance), self.own_constraints(x))
        cp.clarabel(problem)
        return None if problem.status in (cp.INFEASIBLE, cp.INFEASIBLE_INACCURATE) else x.value

    def infeasibility(self, dim: int) -> str | None:
        for d in (self.left, self.right):
            reason = d.infeasibility(dim)
            if reason:
                return reason
        if self._center(dim) is not None:
            return None
        return f"{self!r}: empty, the operands have no common point; enlarge one of them"

    def constraints(self, q: cp.Expression, size: Any) -> list[cp.Constraint]:
        return self.left.own_constraints(q) + self.right.own_constraints(q)

    def __repr__(self) -> str:
        right = repr(self.right)
        nested = isinstance(self.right, DomainIntersection)
        return f"{self.left!r} & ({right})" if nested else f"{self.left!r} & {right}"

    def formula(self, notation: Notation) -> str:
        return f"{self.left.formula(notation)}, {self.right.formula(notation)}"


@operator("domain &")
def _intersect(left: Domain, right: Any) -> DomainIntersection:
    return DomainIntersection(left, right)
