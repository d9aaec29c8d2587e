"""Intersections of two domains."""

from __future__ import annotations

from typing import Any

from ucm.data.linear_map import Vec
from ucm.language import cvx as cp
from ucm.language.contracts import Domain
from ucm.language.domains.cvxpy_domain import ConicDomain
from ucm.language.node import Notation, operator


class DomainIntersection(Domain, ConicDomain):
    """The common points of two domains, written `A & B`.

    It has no projection of its own: solvers couple one block for each operand, each bound to the samples. Its
    own support function is a conic program.

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

    def violation(self, q: Vec) -> float:
        return max(d.violation(q) for d in (self.left, self.right))

    def infeasibility_reason(self, dim: int) -> str | None:
        reasons = [d.infeasibility_reason(dim) for d in (self.left, self.right)]
        return reasons[0] or reasons[1] or super().infeasibility_reason(dim)

    def cvxpy(self, q: cp.Expression, size: Any) -> list[cp.Constraint]:
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
