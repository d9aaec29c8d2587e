"""The raw answers that solvers give."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ucm.data.linear import Vec
from ucm.forms.distance import MinNorm

__all__ = ["Raw", "Witness"]


@dataclass(frozen=True)
class Witness:
    """What proves a lower bound of `UnitNorm`; `evidence.bounds` turns it into the bound.

    Attributes
    ----------
    kind : "vertices": points of U along every vertex of the ball of the dual norm, which it therefore
        holds; "points": points of U whose convex hull holds that ball; "sphere": the multiplier of an
        ellipsoid
    points : blocks of points of U
    multiplier : the number
    """

    kind: str
    points: list[list[Vec]] = field(default_factory=list)
    multiplier: float = 0.0


@dataclass
class Raw:
    """What a solver returns: a primal point, and the dual quantities that it happens to know.

    Attributes
    ----------
    q : the blocks
    w : a dual vector with `||w||_p = 1`, or None to take that of x
    multipliers : of the couplings, scaled to w; of `HingeDual`, b where the solver knows it
    status : "converged", "max_iter", "infeasible" or "interrupted"
    message : a sentence for the person, empty when all is well
    witness : of `UnitNorm`, what proves a lower bound of the optimum
    """

    q: list[Vec]
    w: Vec | None = None
    multipliers: list[Vec] = field(default_factory=list)
    status: str = "converged"
    message: str = ""
    witness: Witness | None = None

    def multiplier_map(self, form: MinNorm) -> dict[tuple[str, ...], np.ndarray]:
        """The multipliers by the path of their intersection: the splits of the support function."""
        return {c.path: mu for c, mu in zip(form.couplings, self.multipliers, strict=False)}
