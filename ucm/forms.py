"""The standard forms that solvers see, and the raw answers that they give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ucm.contracts import AffineImage, Block, Coupling, LinearMap, Projectable, Vec
from ucm.data import EuclideanSpace, Space
from ucm.gram import Gram
from ucm.operators import RowsMap

__all__ = ["HingeDual", "MinNorm", "Raw"]


@dataclass(frozen=True)
class MinNorm:
    """`min ||x||_q` over `x = center + sum_k A_k q_k`, `q_k in D_k`, couplings `B_j q + offset_j = 0`.

    Attributes
    ----------
    center : (n,) array
    blocks : the terms `A_k`, `D_k`
    couplings : linear equations between blocks
    norm : the exponent q in [1, inf]
    stored : entries of the bound data, the unit of a pass
    """

    center: Vec
    blocks: tuple[Block, ...]
    couplings: tuple[Coupling, ...] = ()
    norm: float = 2.0
    stored: int = 1
    space: Space = field(default_factory=lambda: EuclideanSpace(0))

    @classmethod
    def of(
        cls, image: AffineImage, norm: float, stored: int, space: Space | None = None
    ) -> MinNorm:
        """The form of a lowered set."""
        if space is None:
            space = EuclideanSpace(image.center.size)
        return cls(image.center, image.blocks, image.couplings, norm, stored, space)

    @property
    def n(self) -> int:
        return self.center.size

    @property
    def coupled(self) -> int:
        """The number of coupling equations."""
        return sum(c.offset.size for c in self.couplings)

    @property
    def projectable(self) -> bool:
        return all(isinstance(b.domain, Projectable) for b in self.blocks)

    def pass_cost(self) -> float:
        """Passes over the bound data in one `A q` and one `A' w`."""
        return sum(b.map.entries for b in self.blocks) / max(1, self.stored)

    def centers(self) -> list[Vec]:
        """A start deep inside every domain."""
        return [b.domain.center(b.map.shape[1], classes=b.classes) for b in self.blocks]

    def matvec(self, q: Sequence[Vec]) -> Vec:
        """`x(q)`."""
        return sum(
            (b.map.matvec(p) for b, p in zip(self.blocks, q, strict=True)),
            start=self.center.copy(),
        )

    def rmatvec(self, w: Vec) -> list[Vec]:
        """`A_k' w` for every block."""
        return [b.map.rmatvec(w) for b in self.blocks]

    def residuals(self, q: Sequence[Vec]) -> list[Vec]:
        """`B_j q + offset_j` for every coupling."""
        return [
            sum((B.matvec(q[k]) for k, B in c.terms), start=c.offset.copy()) for c in self.couplings
        ]

    def supports(self, g: Sequence[Vec]) -> list[tuple[float, Vec]]:
        """`max <g_k, q_k>` over every domain."""
        return [b.domain.support(u, classes=b.classes) for b, u in zip(self.blocks, g, strict=True)]

    def lower_bound(self, w: Vec, multipliers: Sequence[Vec] = ()) -> float:
        """A lower bound of the optimum from any w with `||w||_p <= 1` and any multipliers mu:
        `<c, w> + sum_j <offset_j, mu_j> - sum_k sigma_{D_k}(-(A_k' w + sum_j B_jk' mu_j))`."""
        pull = self.rmatvec(w)
        bound = float(self.center @ w)
        for c, mu in zip(self.couplings, multipliers, strict=True):
            bound += float(c.offset @ mu)
            for k, B in c.terms:
                pull[k] = pull[k] + B.rmatvec(mu)
        return bound - sum(height for height, _ in self.supports([-u for u in pull]))

    def stacked(self, block: int, weights: Sequence[float]) -> LinearMap:
        """`[A_k; weights_j B_jk]` for one block: features above, couplings below."""
        rows: list[tuple[float, int, LinearMap | None]] = [(1.0, self.n, self.blocks[block].map)]
        for c, weight in zip(self.couplings, weights, strict=True):
            maps = [B for k, B in c.terms if k == block]
            rows.append((weight, c.offset.size, maps[0] if maps else None))
        return RowsMap(rows, self.blocks[block].map.shape[1])


@dataclass(frozen=True)
class HingeDual:
    """`min ||w||^2 / 2 + sum_i C_i max(0, 1 - y_i (w'x_i + b))^p`, Sun (2024), equation (9).

    Its dual (17) is `max sum a - sum_i C_i (p - 1) xi_i^p - ||sum a_i y_i x_i||^2 / 2` over
    `a >= 0, y'a = 0` with `xi_i = (a_i / (C_i p))^(1/(p-1))`; for p = 1 without xi, and `a_i <= C_i`.

    Attributes
    ----------
    y : (m,) labels +1 and -1
    C : (m,) weights of the samples' losses
    p : exponent, at least 1
    gram : inner products of the samples
    X : (m, n) the samples themselves, or None behind a kernel
    """

    y: Vec
    C: Vec
    p: float
    gram: Gram
    X: Any = None

    @property
    def m(self) -> int:
        return self.y.size


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
    """

    q: list[Vec]
    w: Vec | None = None
    multipliers: list[Vec] = field(default_factory=list)
    status: str = "converged"
    message: str = ""

    def multiplier_map(self, form: MinNorm) -> dict[tuple[str, ...], np.ndarray]:
        """The multipliers by the path of their intersection: the splits of the support function."""
        return {c.path: mu for c, mu in zip(form.couplings, self.multipliers, strict=False)}
