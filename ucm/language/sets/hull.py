"""Convex hulls of samples, their weights confined to a domain."""

from __future__ import annotations

import numpy as np

from ucm.data.bound import Data
from ucm.data.linear import LinearMap, Vec
from ucm.errors import CompositionError, brief
from ucm.language import cvx as cp
from ucm.language.contracts import Domain, Scope, Size
from ucm.language.domains import Simplex
from ucm.language.node import CoordinateFree, Notation
from ucm.language.sets.weights import OfWeights, WeightSpace, weigh
from ucm.language.statistics.samples import Samples

__all__ = ["Hull", "hull_formula"]


class Hull(OfWeights, CoordinateFree):
    """Convex combinations of samples: `{sum_i q_i x_i : q in the simplex, q in weights}`.

    Over `pos` or `neg` the weights sum to 1. Over `signed` the set is `{sum_i q_i y_i x_i}` and q a
    distribution over all samples with mass 1/2 on each class (Ito, Takeda and Toh 2015, section 5.1).

    Parameters
    ----------
    samples : pos, neg or signed
    weights : Domain, optional
        Confines q further; `KLBall` and `LossBall` refer to the uniform distribution over the
        hull's own samples.

    Raises
    ------
    CompositionError
        `samples` are no samples, or `weights` no domain.

    Examples
    --------
    >>> import ucm
    >>> ucm.Hull(ucm.signed, weights=ucm.NormBall(ucm.Param("kappa", 0.2)))
    Hull(signed, weights=NormBall(Param('kappa', 0.2)))
    """

    samples: Samples
    weights: Domain | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.samples, Samples):
            raise CompositionError(
                f"Hull: expected pos, neg or signed, got {brief(self.samples)}; "
                "to add points write Hull(pos) + Point(v)"
            )
        if self.weights is not None and not isinstance(self.weights, Domain):
            raise CompositionError(
                f"Hull: weights must be a domain, got {brief(self.weights)}; "
                "use for example weights=NormBall(0.2)"
            )
        super().__post_init__()

    def dimension(self, n: int | None) -> int | None:
        return n

    def space(self, data: Data) -> WeightSpace:
        """The weights of this hull over bound samples."""
        kind = self.samples.kind
        factors = data.class_weight
        if kind != "signed":
            own = factors[kind == "neg"]
            factors = (own, own)
        domain = weigh(self.weights or Simplex(), factors)
        rows = data.rows(kind)
        return WeightSpace(domain, rows.size, data.signs(kind), samples=rows)

    def emptiness(self, data: Data) -> str | None:
        why = self.space(data).emptiness()
        return None if why is None else f"{self!r}: {why}"

    def size(self, data: Data) -> Size | None:
        return None

    def image(self, data: Data) -> tuple[Vec, LinearMap]:
        return np.zeros(data.n), data.samples(self.samples.kind)

    def cvxpy(self, data: Data, scope: Scope) -> tuple[cp.Expression, list[cp.Constraint]]:
        space = self.space(data)
        q = cp.Variable(space.dim) / space.dim  # entries of the variable are near 1
        constraints = [] if self.weights is None else space.twin(q, scope)
        if self.weights is None or self.weights.on_simplex() != self.weights:
            constraints += Simplex().constraints(q, None, classes=space.classes)
        return data.samples(self.samples.kind).matrix() @ q, constraints

    def formula(self, notation: Notation) -> str:
        domain = None if self.weights is None else self.weights.formula(notation)
        return hull_formula(self.samples, domain, notation)


def hull_formula(samples: Samples, condition: str | None, notation: Notation) -> str:
    """`{sum_i q_i x_i : q in the simplex, condition}`."""
    q, x, y = notation.sub("q", "i"), notation.sub("x", "i"), notation.sub("y", "i")
    if samples.kind == "signed":
        term = notation.sum_over("i", f"{q} {y} {x}")
    else:
        term = notation.sum_over(f"{y} = {'+1' if samples.kind == 'pos' else '-1'}", f"{q} {x}")
    simplex = f"q{notation.element}{notation.symbol('Delta')}"
    return notation.set_of(term, simplex if condition is None else f"{simplex}, {condition}")
