"""The minimum-norm problem: the point of a lowered set nearest to 0, and solvers by inner products."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.bound_data import Space
from ucm.data.linear_map import LinearMap, Vec, VStack
from ucm.errors import brief
from ucm.forms.solver import Answer, Expected, Solver
from ucm.language.contracts import Block, Coupling, LoweredSet, Path, Projectable

_TINY = float(np.finfo(float).tiny)
_ROUNDS = 10  # limit of rounds that remove unbounded columns
_MOST = 1000  # largest block whose weights are tested one by one
_ROUNDING = 1e-14  # of an inner product


@dataclass(frozen=True)
class MinNorm:
    """The minimum-norm problem `min ||x||_q` over a lowered set.

    `x = center + sum_k A_k q_k`, `q_k in D_k`, with the couplings `B_j q + offset_j = 0`.

    Attributes
    ----------
    center : (n,) array
    blocks : the terms `A_k`, `D_k`
    couplings : linear equations between blocks
    norm : the exponent q in [1, inf]
    stored : entries of the bound data, the unit of a pass
    space : the space of x with its norms: features, or the feature space of a kernel
    """

    center: Vec
    blocks: tuple[Block, ...]
    couplings: tuple[Coupling, ...] = ()
    norm: float = 2.0
    stored: int = 1
    space: Space = field(default_factory=Space)

    @classmethod
    def of(cls, image: LoweredSet, norm: float, stored: int, space: Space | None = None) -> MinNorm:
        """Return the minimum-norm problem of a lowered set; `norm` is the exponent q."""
        return cls(image.center, image.blocks, image.couplings, norm, stored, space or Space())

    @property
    def n(self) -> int:
        return self.center.size

    @property
    def expected(self) -> Expected:
        couplings = tuple(c.offset.size for c in self.couplings)
        return Expected(tuple(b.map.shape[1] for b in self.blocks), self.n, multipliers=couplings)

    @property
    def coupled(self) -> int:
        """The number of coupling equations."""
        return sum(c.offset.size for c in self.couplings)

    @property
    def projectable(self) -> bool:
        return all(isinstance(b.domain, Projectable) for b in self.blocks)

    def pass_cost(self) -> float:
        """Return the cost of one `A q` and one `A' w`, in passes over the bound data."""
        return sum(b.map.entries for b in self.blocks) / max(1, self.stored)

    def centers(self) -> list[Vec]:
        """Return the centre of the domain of every block."""
        return [b.domain.center(b.map.shape[1]) for b in self.blocks]

    def begin(self, start: Answer | None) -> list[Vec]:
        """Return the starting blocks: the centres, or the blocks of `start` projected onto their domains.

        With couplings, which a projection would violate, the blocks are not projected.
        """
        if start is None:
            return self.centers()
        if self.couplings:
            return list(start.q)
        return [
            b.domain.project(v) if isinstance(b.domain, Projectable) else v
            for b, v in zip(self.blocks, start.q, strict=True)
        ]

    def splits(self, answer: Answer) -> dict[Path, Vec]:
        """Return the coupling multipliers of an answer, by the path of the intersection."""
        return {c.path: mu for c, mu in zip(self.couplings, answer.multipliers, strict=False)}

    def matvec(self, q: Sequence[Vec]) -> Vec:
        """Return the point `x(q) = center + sum_k A_k q_k`."""
        return sum(
            (b.map.matvec(p) for b, p in zip(self.blocks, q, strict=True)),
            start=self.center.copy(),
        )

    def matrix(self) -> NDArray[np.float64]:
        """Return the dense matrix `[A_1, ..., A_K]`, of shape (n, entries of all blocks)."""
        parts = [b.map.matrix() for b in self.blocks]
        return np.hstack([np.asarray(A.todense() if sparse.issparse(A) else A) for A in parts])

    def rmatvec(self, w: Vec) -> list[Vec]:
        """Return `A_k' w` of every block k."""
        return [b.map.rmatvec(w) for b in self.blocks]

    def size(self, q: Sequence[Vec]) -> float:
        """Return `||c|| + sum ||A_k q_k||`, the unit of the rounding error of x."""
        parts = [self.space.size(b.map.matvec(v)) for b, v in zip(self.blocks, q, strict=True)]
        return self.space.size(self.center) + sum(parts)

    @functools.cached_property
    def largest(self) -> float:
        """The size of U: the largest `size` at the centres and at extreme points in one direction.

        A block with an unbounded support in this direction stays at its centre.
        """
        heights = self.supports(self.rmatvec(np.ones(self.n)))
        centers = self.centers()
        far = [q if np.isfinite(h) else c for (h, q), c in zip(heights, centers, strict=True)]
        return max(self.size(centers), self.size(far))

    def residuals(self, q: Sequence[Vec]) -> list[Vec]:
        """Return the residual `B_j q + offset_j` of every coupling j."""
        return [sum((B.matvec(q[k]) for k, B in c.terms), start=c.offset.copy()) for c in self.couplings]

    def units(self, q: Sequence[Vec]) -> list[float]:
        """Return for every coupling the largest norm of its terms at q; 1 if all terms are 0."""
        sizes = [
            [float(np.linalg.norm(v)) for v in (c.offset, *(B.matvec(q[k]) for k, B in c.terms))]
            for c in self.couplings
        ]
        return [max(own) or 1.0 for own in sizes]

    def coupling_violation(self, q: Sequence[Vec]) -> float:
        """Return the largest violation of a coupling, relative to its largest term."""
        pairs = zip(self.residuals(q), self.units(q), strict=True)
        return max((float(np.linalg.norm(r)) / unit for r, unit in pairs), default=0.0)

    def supports(self, g: Sequence[Vec]) -> list[tuple[float, Vec]]:
        """Return for every block the support function of its domain at g_k, and a maximiser."""
        return [b.domain.support(u) for b, u in zip(self.blocks, g, strict=True)]

    def lower_bound(self, w: Vec, multipliers: Sequence[Vec] = ()) -> float:
        """Return the lower bound of the optimum by any w with `||w||_p <= 1` and any multipliers mu.

        It is `<c, w> + sum_j <offset_j, mu_j> - sum_k sigma_{D_k}(-(A_k' w + sum_j B_jk' mu_j))`.
        """
        pull = self.rmatvec(w)
        bound = float(self.center @ w)
        for c, mu in zip(self.couplings, multipliers, strict=True):
            bound += float(c.offset @ mu)
            for k, B in c.terms:
                pull[k] = pull[k] + B.rmatvec(mu)
        return bound - sum(height for height, _ in self.supports([-u for u in pull]))

    def proves_empty(self, multipliers: Sequence[Vec], units: Sequence[float]) -> bool:
        """True if the multipliers prove, beyond rounding, that no q satisfies the couplings.

        The proof is `sum_j <offset_j, mu_j> > sum_k sigma_{D_k}(-sum_j B_jk' mu_j)`; `units`
        are the sizes of the terms, for the rounding.
        """
        size = sum(float(np.linalg.norm(mu)) * u for mu, u in zip(multipliers, units, strict=True))
        return size > _TINY and self.lower_bound(np.zeros(self.n), multipliers) > 1e-9 * size

    def bounded(self, w: Vec) -> Vec | None:
        """Return the projection of w orthogonal to the columns along which U is unbounded against w.

        None if there is no such column, or w is in their span. If U contains a line, only w orthogonal to it
        has a finite support; a solver satisfies this only up to its accuracy.
        """
        columns: list[Vec] = []
        for _ in range(_ROUNDS):
            directions = self._endless(w)
            if not directions:
                return w if columns else None
            columns += directions
            Z = np.linalg.qr(np.array(columns).T)[0]
            w = w - Z @ (Z.T @ w)
            w = w - Z @ (Z.T @ w)  # to rounding
        return None

    def _endless(self, w: Vec) -> list[Vec]:
        """Return the columns along which U is unbounded against w, beyond rounding."""
        images = []
        for b in self.blocks:
            g, d = -b.map.rmatvec(w), b.map.shape[1]
            if d > _MOST or np.isfinite(b.domain.support(g)[0]):
                continue
            far = _ROUNDING * b.map.column_norms() * float(np.linalg.norm(w))
            for j in np.flatnonzero(np.abs(g) > far):
                e = np.zeros(d)
                e[j] = g[j]
                if b.domain.support(e)[0] == np.inf:
                    e[j] = 1.0
                    images.append(b.map.matvec(e))
        return images

    def stacked(self, block: int, weights: Sequence[float]) -> LinearMap:
        """Return the linear map `[A_k; weights_j B_jk]` of one block: features above, couplings below."""
        if not self.couplings:
            return self.blocks[block].map
        return VStack(
            [(1.0, self.n, self.blocks[block].map), *self._coupling_rows(block, weights)],
            self.blocks[block].map.shape[1],
        )

    def of_residuals(self, units: Sequence[float]) -> MinNorm:
        """Return the form whose points are the residuals of the couplings, each in its unit."""
        weights = [1.0 / unit for unit in units]
        maps = [VStack(self._coupling_rows(k, weights), b.map.shape[1]) for k, b in enumerate(self.blocks)]
        blocks = tuple(replace(b, map=A) for b, A in zip(self.blocks, maps, strict=True))
        offsets = [weight * c.offset for c, weight in zip(self.couplings, weights, strict=True)]
        return MinNorm(np.concatenate(offsets), blocks, stored=self.stored)

    def _coupling_rows(
        self, block: int, weights: Sequence[float]
    ) -> list[tuple[float, int, LinearMap | None]]:
        rows: list[tuple[float, int, LinearMap | None]] = []
        for c, weight in zip(self.couplings, weights, strict=True):
            maps = [B for k, B in c.terms if k == block]
            rows.append((weight, c.offset.size, maps[0] if maps else None))
        return rows


class NearestPoint(Solver[MinNorm]):
    """Base class of the solvers of reduced convex hulls that need inner products only.

    Attributes
    ----------
    weighted : True if it takes different bounds for samples of one class
    """

    weighted: ClassVar[bool] = True

    def refuse(self, form: MinNorm) -> str | None:
        if form.norm != 2.0:
            return "it takes the Euclidean norm only"
        if form.couplings:
            return "the blocks are coupled by an intersection"
        if not form.blocks:
            return "there is no hull"
        for b in form.blocks:
            if b.domain.groups is None:
                return f"{brief(b.domain)} is not the weights of a reduced convex hull"
            if b.groups is None and not self.weighted:
                return "it knows one cap for a class"
        if form.space.gram is not None:
            if any(b.samples is None or b.weight == 0.0 for b in form.blocks):
                return "a hull is not made of the samples of the kernel"
            uses = np.zeros(form.n, dtype=np.intp)
            for b in form.blocks:
                uses[b.samples] += 1
            if uses.max() > 1:
                return "two hulls share samples"
        return None
