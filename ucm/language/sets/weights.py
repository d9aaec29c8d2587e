"""Domains of weights, alone or intersected: how hulls and images lower and check them.

An intersection `D1 & D2` has no projection of its own. It becomes one block per operand, coupled to
be equal; the first block carries the image.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ucm.data.bound import Data
from ucm.data.linear import LinearMap, Vec
from ucm.data.maps import IdentityMap, ZeroMap
from ucm.errors import CompositionError
from ucm.language import domains
from ucm.language.contracts import (
    AffineImage,
    Block,
    Coupling,
    Domain,
    Path,
    Scope,
    Splits,
    UncertaintySet,
)

__all__ = ["OfWeights", "WeightSpace", "below", "placed", "split_bound", "weigh"]


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


def split_bound(
    left: Callable[[Vec, Splits], float],
    right: Callable[[Vec, Splits], float],
    d: Vec,
    splits: Splits,
) -> float:
    """An upper bound of the support function of A & B from those of A and B: for any split
    `d = (d - s) + s`, `sigma(d) <= min(sigma_A(d), sigma_B(d), sigma_A(d - s) + sigma_B(s))`."""
    at_left, at_right = below(splits, "left"), below(splits, "right")
    bound = min(left(d, at_left), right(d, at_right))
    if () not in splits:
        return bound
    s = splits[()]
    return min(bound, left(d - s, at_left) + right(s, at_right))


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
    samples: np.ndarray | None = None  # their indices

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
        samples = self.samples if side == "left" else None
        return WeightSpace(operand, self.dim, self.classes, self.simplex and not implicit, samples)

    def _alone(self) -> Domain:
        return (self.domain.on_simplex() if self.simplex else None) or self.domain

    def blocks(self, image: LinearMap) -> tuple[list[Block], list[Coupling]]:
        """The blocks, the first of them with the image, and their couplings."""
        operands = self._operands()
        if operands is None:
            weight = 0.0 if self.samples is None else 1.0
            return [Block(image, self._alone(), self.classes, self.samples, weight)], []
        nothing = ZeroMap(image.shape[0], self.dim)
        left, couplings = self._child("left", operands[0]).blocks(image)
        right, others = self._child("right", operands[1]).blocks(nothing)
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
            over = domains.Simplex().violation(q, classes=self.classes) if self.simplex else 0.0
            return max(over, self._alone().violation(q, classes=self.classes))
        return max(
            self._child(side, d).violation(q)
            for side, d in zip(("left", "right"), operands, strict=True)
        )

    def support(self, g: Vec, splits: Splits) -> tuple[float, Vec | None]:
        """An upper bound of `max <g, q>`; a maximiser unless there is an intersection."""
        operands = self._operands()
        if operands is None:
            return self._alone().support(g, classes=self.classes)
        left, right = self._child("left", operands[0]), self._child("right", operands[1])
        bound = split_bound(
            lambda v, at: left.support(v, at)[0], lambda v, at: right.support(v, at)[0], g, splits
        )
        return bound, None

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


class OfWeights(UncertaintySet):
    """`{c + A q : q in D}`, D a space of weights."""

    @abstractmethod
    def space(self, data: Data) -> WeightSpace:
        """D over bound samples."""

    @abstractmethod
    def image(self, data: Data) -> tuple[Vec, LinearMap]:
        """c and A."""

    def lower(self, data: Data) -> AffineImage:
        c, A = self.image(data)
        blocks, couplings = self.space(data).blocks(A)
        return AffineImage(c, tuple(blocks), tuple(couplings))

    def rebuild(self, data: Data, q: Iterator[Vec]) -> tuple[Vec, float]:
        (c, A), space = self.image(data), self.space(data)
        first, *_ = [next(q) for _ in range(space.count())]
        return c + A.matvec(first), space.violation(first)

    def support(self, data: Data, d: Vec, splits: Splits) -> tuple[float, Vec | None]:
        c, A = self.image(data)
        height, q = self.space(data).support(A.rmatvec(d), splits)
        return float(c @ d) + height, None if q is None else c + A.matvec(q)
