"""Domains of weights, alone or intersected: how hulls and images lower and check them.

An intersection `D1 & D2` has no projection of its own. It becomes one block per operand, coupled to
be equal; the first block carries the image.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ucm.data.linear import LinearMap, Vec
from ucm.data.maps import IdentityMap, ZeroMap
from ucm.errors import CompositionError
from ucm.language import domains
from ucm.language.contracts import Block, Coupling, Domain, Path, Scope, Splits

__all__ = ["WeightSpace", "below", "placed", "weigh"]


def below(splits: Splits, name: str) -> dict[Path, Vec]:
    """The splits of the nodes under the field `name`, their paths shortened by it."""
    return {path[1:]: share for path, share in splits.items() if path and path[0] == name}


def placed(couplings: Iterable[Coupling], name: str, shift: int = 0) -> tuple[Coupling, ...]:
    """Couplings of an operand as its parent has them: under the field `name`, its blocks `shift`
    places later."""
    return tuple(
        Coupling((name, *c.path), tuple((k + shift, B) for k, B in c.terms), c.offset)
        for c in couplings
    )


def weigh(domain: Domain, class_weight: tuple[float, float]) -> Domain:
    """The domain with the cap of every sample multiplied by the weight of its class."""
    if class_weight == (1.0, 1.0) or isinstance(domain, domains.Simplex):
        return domain
    if isinstance(domain, domains.CappedSimplex):
        return domains.CappedSimplex(domain.cap, class_weight)
    if isinstance(domain, domains.DomainIntersection):
        return weigh(domain.left, class_weight) & weigh(domain.right, class_weight)
    raise CompositionError(
        f"class_weight: multiplies the caps of samples, and {domain!r} has none; "
        "use CappedSimplex or ReducedHull, or leave class_weight out"
    )


@dataclass(frozen=True)
class WeightSpace:
    """The weights of `dim` samples in `domain`, and on the simplex where `simplex` says so."""

    domain: Domain
    dim: int
    classes: Vec | None = None
    simplex: bool = True

    def _operands(self) -> tuple[Domain, Domain] | None:
        """The two domains to be coupled; None when this one stands alone."""
        if isinstance(self.domain, domains.DomainIntersection):
            return self.domain.left, self.domain.right
        if self.simplex and self.domain.on_simplex() is None:
            return domains.Simplex(), self.domain
        return None

    def _child(self, side: str, operand: Domain) -> WeightSpace:
        # the second operand of a domain that knows no simplex is that domain by itself
        implicit = not isinstance(self.domain, domains.DomainIntersection) and side == "right"
        return WeightSpace(operand, self.dim, self.classes, self.simplex and not implicit)

    def _alone(self) -> Domain:
        return (self.domain.on_simplex() if self.simplex else None) or self.domain

    def blocks(
        self, image: LinearMap, samples: np.ndarray | None, weight: float
    ) -> tuple[list[Block], list[Coupling]]:
        """The blocks, the first of them with the image, and their couplings."""
        operands = self._operands()
        if operands is None:
            return [Block(image, self._alone(), self.classes, samples, weight)], []
        nothing = ZeroMap(image.shape[0], self.dim)
        left, couplings = self._child("left", operands[0]).blocks(image, samples, weight)
        right, others = self._child("right", operands[1]).blocks(nothing, None, 0.0)
        meet = ((0, IdentityMap(self.dim)), (len(left), IdentityMap(self.dim, -1.0)))
        return left + right, [
            *placed(couplings, "left"),
            *placed(others, "right", len(left)),
            Coupling((), meet, np.zeros(self.dim)),
        ]

    def count(self) -> int:
        """How many blocks there are."""
        operands = self._operands()
        if operands is None:
            return 1
        return sum(
            self._child(side, d).count()
            for side, d in zip(("left", "right"), operands, strict=True)
        )

    def violation(self, q: Vec) -> float:
        """How far q is outside, relative, from the definitions."""
        operands = self._operands()
        if operands is None:
            return self._alone().violation(q, classes=self.classes)
        return max(
            self._child(side, d).violation(q)
            for side, d in zip(("left", "right"), operands, strict=True)
        )

    def support(self, g: Vec, splits: Splits) -> tuple[float, Vec | None]:
        """An upper bound of `max <g, q>`; a maximiser unless there is an intersection.

        For A & B and any split g = (g - s) + s:
        `sigma(g) <= min(sigma_A(g), sigma_B(g), sigma_A(g - s) + sigma_B(s))`.
        """
        operands = self._operands()
        if operands is None:
            return self._alone().support(g, classes=self.classes)
        left, right = self._child("left", operands[0]), self._child("right", operands[1])
        at_left, at_right = below(splits, "left"), below(splits, "right")
        bounds = [left.support(g, at_left)[0], right.support(g, at_right)[0]]
        if () in splits:
            share = splits[()]
            bounds.append(left.support(g - share, at_left)[0] + right.support(share, at_right)[0])
        return min(bounds), None

    def emptiness(self) -> str | None:
        """Why no weights exist; None also when only a solver can tell."""
        operands = self._operands()
        if operands is None:
            return self._alone().emptiness(self.dim, classes=self.classes)
        for side, d in zip(("left", "right"), operands, strict=True):
            why = self._child(side, d).emptiness()
            if why is not None:
                return why
        return None

    def twin(self, q, scope: Scope) -> list:  # type: ignore[no-untyped-def]
        """CVXPY constraints, from the declared domains."""
        if isinstance(self.domain, domains.DomainIntersection):
            sides = (self.domain.left, self.domain.right)
            return [c for d in sides for c in WeightSpace(d, self.dim, self.classes).twin(q, scope)]
        size = self.domain.size()
        number = None if size is None else scope.scalar(size)
        return self.domain.constraints(q, number, classes=self.classes)
