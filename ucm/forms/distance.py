"""The minimum-norm problem: the nearest point of a lowered set to 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ucm.data.bound import EuclideanSpace, Space
from ucm.data.linear import LinearMap, Vec
from ucm.data.maps import RowsMap
from ucm.forms.answer import Answer
from ucm.language.contracts import AffineImage, Block, Coupling, Path, Projectable

__all__ = ["MinNorm"]


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

    def begin(self, start: Answer | None) -> list[Vec]:
        """Where to start: the centres, or the blocks of `start`, brought into their domains; with
        couplings, which a point inside would miss, as they are."""
        if start is None:
            return self.centers()
        if self.couplings:
            return list(start.q)
        return [
            b.domain.project(v, classes=b.classes) if isinstance(b.domain, Projectable) else v
            for b, v in zip(self.blocks, start.q, strict=True)
        ]

    def splits(self, answer: Answer) -> dict[Path, Vec]:
        """The multipliers by the path of their intersection: the splits of the support function."""
        return {c.path: mu for c, mu in zip(self.couplings, answer.multipliers, strict=False)}

    def matvec(self, q: Sequence[Vec]) -> Vec:
        """`x(q)`."""
        return sum(
            (b.map.matvec(p) for b, p in zip(self.blocks, q, strict=True)),
            start=self.center.copy(),
        )

    def reach(self, q: Sequence[Vec]) -> float:
        """`||c|| + sum ||A_k q_k||`: what rounding is relative to."""
        parts = [self.space.norm(b.map.matvec(p)) for b, p in zip(self.blocks, q, strict=True)]
        return self.space.norm(self.center) + sum(parts)

    def rmatvec(self, w: Vec) -> list[Vec]:
        """`A_k' w` for every block."""
        return [b.map.rmatvec(w) for b in self.blocks]

    def residuals(self, q: Sequence[Vec]) -> list[Vec]:
        """`B_j q + offset_j` for every coupling."""
        return [
            sum((B.matvec(q[k]) for k, B in c.terms), start=c.offset.copy()) for c in self.couplings
        ]

    def missed(self, q: Sequence[Vec]) -> float:
        """How far the couplings are missed, each relative to the largest term that meets in it."""
        worst = 0.0
        for c, r in zip(self.couplings, self.residuals(q), strict=True):
            sizes = [float(np.linalg.norm(B.matvec(q[k]))) for k, B in c.terms]
            unit = max(*sizes, float(np.linalg.norm(c.offset)))
            worst = max(worst, float(np.linalg.norm(r)) / unit if unit > 0.0 else 0.0)
        return worst

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
        if not self.couplings:
            return self.blocks[block].map
        rows: list[tuple[float, int, LinearMap | None]] = [(1.0, self.n, self.blocks[block].map)]
        for c, weight in zip(self.couplings, weights, strict=True):
            maps = [B for k, B in c.terms if k == block]
            rows.append((weight, c.offset.size, maps[0] if maps else None))
        return RowsMap(rows, self.blocks[block].map.shape[1])
