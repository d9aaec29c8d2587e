"""The minimum-norm problem: the point of a lowered set nearest to 0, and solvers by inner products."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import orth
from scipy.optimize import nnls

from ucm.data.bound_data import Space
from ucm.data.linear_map import LinearMap, Vec, VStack
from ucm.forms.solver import Answer, Expected
from ucm.language.contracts import Block, Coupling, LoweredSet, Path
from ucm.language.domains import Box

_TINY = float(np.finfo(float).tiny)


def endless_box(block: Block) -> Box | None:
    """Return the domain of a block if it is a box with an infinite bound."""
    box = block.domain
    return box if isinstance(box, Box) and np.isinf(np.hstack(box.bounds())).any() else None


def in_dual_cone(rays: NDArray[np.float64], v: Vec) -> Vec:
    """Return the vector nearest to v with `<r, v> >= 0` for all rays r, the columns of a matrix."""
    return v + rays @ nnls(rays, -v)[0] if rays.size else v


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

    @functools.cached_property
    def n(self) -> int:
        return self.center.size

    @property
    def expected(self) -> Expected:
        couplings = tuple(c.offset.size for c in self.couplings)
        return Expected(tuple(b.map.shape[1] for b in self.blocks), self.n, multipliers=couplings)

    @functools.cached_property
    def entries(self) -> int:
        """The number of entries of the form as a program for a conic solver."""
        return sum(max(b.map.entries, b.map.shape[1]) for b in self.blocks)

    @property
    def coupled(self) -> int:
        """The number of coupling equations."""
        return sum(c.offset.size for c in self.couplings)

    def reason_against(self, domains: type = object, what: str = "", coupled: bool = False) -> str | None:
        """Return the reason why a solver in the Euclidean norm does not take this form; None if it may.

        The solver takes blocks whose domains are instances of `domains`, as it uses their `what`.
        """
        if self.norm != 2.0:
            return "it takes the Euclidean norm only"
        if self.couplings and not coupled:
            return "the blocks are coupled by an intersection"
        lacking = (b.domain for b in self.blocks if not isinstance(b.domain, domains))
        return next((f"{domain!r} has no {what}" for domain in lacking), None)

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
        return [b.projected(v) for b, v in zip(self.blocks, start.q, strict=True)]

    def splits(self, answer: Answer) -> dict[Path, Vec]:
        """Return the coupling multipliers of an answer, by the path of the intersection."""
        return {c.path: mu for c, mu in zip(self.couplings, answer.multipliers, strict=False)}

    def matvec(self, q: Sequence[Vec]) -> Vec:
        """Return the point `x(q) = center + sum_k A_k q_k`."""
        return sum((b.map.matvec(p) for b, p in zip(self.blocks, q, strict=True)), start=self.center.copy())

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
        """The size of U: the largest `size` at the centres and at `extremes`."""
        return max(self.size(self.centers()), self.size(self.extremes()))

    def extremes(self) -> list[Vec]:
        """Return the blocks of an extreme point in one direction, at their centres if there is no end."""
        supports = zip(self.supports(self.rmatvec(np.ones(self.n))), self.centers(), strict=True)
        return [q if np.isfinite(height) else center for (height, q), center in supports]

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

    def farthest(self, w: Vec) -> list[tuple[float, Vec]]:
        """Return `supports` at `A_k' w`, of which rounding counts as 0 if a support is infinite."""
        g = self.rmatvec(w)
        supports = self.supports(g)
        if all(np.isfinite(height) for height, _ in supports):
            return supports
        far = 1e-14 * float(np.linalg.norm(w))  # rounding of an inner product
        blocks = zip(self.blocks, g, strict=True)
        return self.supports([np.where(np.abs(u) <= far * b.map.column_norms(), 0.0, u) for b, u in blocks])

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

    @functools.cached_property
    def endless(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """An orthonormal basis of the lines in U, (n, l), and unit vectors along its other rays, (n, k).

        They are the images of the coordinates of boxes with infinite bounds, which couplings could bound.
        """
        lines, rays = [np.zeros((self.n, 0))], [np.zeros((self.n, 0))]
        for b in () if self.couplings else self.blocks:
            if (box := endless_box(b)) is not None:
                below, above = (np.broadcast_to(np.isinf(end), b.map.shape[1]) for end in box.bounds())
                A = b.map.matmat(np.diag(np.where(above, 1.0, -1.0)))
                lines.append(A[:, below & above])
                rays.append(A[:, below ^ above])
        columns = (F[:, F.any(axis=0)] for F in (np.hstack(lines), np.hstack(rays)))
        L, R = (F / np.linalg.norm(F, axis=0) for F in columns)
        return (orth(L, rcond=1e-10) if L.size else L), R

    def off_lines(self, x: Vec) -> Vec:
        """Return the projection of x orthogonal to the lines in U: another point of U if x is one."""
        lines = self.endless[0]
        return x - lines @ (lines.T @ x) if lines.size else x

    def bounded(self, w: Vec) -> Vec | None:
        """Return the vector nearest to w along which the support of -U is finite, as far as boxes decide.

        None if that is 0.
        """
        w = in_dual_cone(self.endless[1], self.off_lines(self.off_lines(w)))
        return w if w.any() else None

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
