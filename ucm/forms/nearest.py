"""Nearest points of reduced convex hulls, met through inner products only."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm import numerics
from ucm.data.bound import GramSpace
from ucm.data.gram import Gram
from ucm.data.kernels import Kernel
from ucm.data.linear import Vec
from ucm.data.options import Wanted
from ucm.errors import brief
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Solver
from ucm.language.contracts import Block

__all__ = ["IMPROVING", "NEAREST", "HullsByRows", "Improving", "NearestPoint", "small"]

_ZERO = 0.01  # of the tolerance


@dataclass(frozen=True)
class HullsByRows:
    """`min ||W||^2 / 2`, `W = c + sum_i a_i z_i` over `0 <= a_i <= cap_g`, `sum a_i = mass_g` per group.

    A group is one reduced convex hull. `z_i = s_i x_i`, where the x_i are the samples of a Gram matrix;
    `F_i = <W, z_i>` is the derivative for a_i.

    Attributes
    ----------
    gram : inner products of the x_i
    order : (n,) the place of each variable among the weights of all blocks
    index : (n,) which sample each variable belongs to, increasing
    s : (n,) the factors
    group : (n,) the group of each variable
    cap, mass : of each group
    pull : (n,) `<c, z_i>`
    square : `||c||^2`
    resolution : the part of the size of U below which ||W|| counts as 0
    """

    gram: Gram
    order: NDArray[np.intp]
    index: NDArray[np.int64]
    s: Vec
    group: NDArray[np.int64]
    cap: Vec
    mass: Vec
    pull: Vec
    square: float
    resolution: float

    @classmethod
    def of(cls, form: MinNorm) -> HullsByRows:
        """The hulls of a form that `NearestPoint.refuse` accepts."""
        group, cap, mass = [], [], []
        for b in form.blocks:
            own = np.empty(b.map.shape[1])
            for g in b.groups or ():
                own[g.entries] = len(cap)
                cap.append(g.most)
                mass.append(g.mass)
            group.append(own)
        if isinstance(form.space, GramSpace):
            gram = form.space.gram
            index = np.concatenate([b.samples for b in form.blocks if b.samples is not None])
            s: Vec = np.concatenate([_factors(b) for b in form.blocks])
            scores = form.space.scores(form.center) if form.center.any() else form.center
            pull, square = s * scores[index], float(form.center @ scores)
        else:
            Z: Any = [b.map.matrix().T for b in form.blocks]
            thin = any(sparse.issparse(A) for A in Z)
            stacked: Any = sparse.vstack(Z).tocsr() if thin else np.ascontiguousarray(np.vstack(Z))
            gram = Gram(Kernel("linear"), stacked)
            index, s = np.arange(stacked.shape[0]), np.ones(stacked.shape[0])
            pull = np.asarray(stacked @ form.center).ravel()
            square = float(form.center @ form.center)
        order = np.argsort(index)
        groups = np.concatenate(group).astype(np.int64)
        return cls(
            gram, order, index[order], s[order], groups[order], np.array(cap), np.array(mass),
            pull[order], square, form.space.resolution,
        )  # fmt: skip

    @property
    def n(self) -> int:
        """The number of variables."""
        return self.index.size

    def every(self, stride: int) -> NDArray[np.intp]:
        """The variables of every `stride`-th sample of each hull."""
        groups = range(self.mass.size)
        return np.sort(np.concatenate([np.flatnonzero(self.group == g)[::stride] for g in groups]))

    def part(self, members: NDArray[np.intp]) -> HullsByRows:
        """The hulls of some of the variables, their caps larger by as much as each group is smaller."""
        share = np.bincount(self.group[members]) / np.bincount(self.group)
        rest = np.arange(members.size)
        return replace(
            self,
            gram=self.gram.part(self.index[members]),
            order=rest,
            index=rest,
            s=self.s[members],
            group=self.group[members],
            cap=np.minimum(self.cap / share, self.mass),
            pull=self.pull[members],
        )

    def while_held(
        self, members: NDArray[np.intp], a: Vec, F: Vec, K: NDArray[np.float64]
    ) -> HullsByRows:
        """The hulls of some of the variables, without the hulls that have none of them, while the others keep
        their weights a; F are the derivatives, K the Gram matrix of the samples of these."""
        s, own = self.s[members], a[members]
        hulls, group = np.unique(self.group[members], return_inverse=True)
        inner = s * (K @ (s * own))
        pull, every = F[members] - inner, np.arange(members.size)
        square = self.square + float(a @ self.pull) + float(a @ F)
        square = max(square - float(own @ (2.0 * pull + inner)), 0.0)
        return replace(
            self, gram=Gram(Kernel("precomputed"), K), order=every, index=every, s=s, group=group,
            cap=self.cap[hulls], mass=np.bincount(group, own), pull=pull, square=square,
        )  # fmt: skip

    def start(self, blocks: Sequence[Vec] | None) -> Vec:
        """The weights in `blocks`, or the barycentre of every hull."""
        if blocks is not None:
            return np.concatenate(blocks)[self.order]
        return (self.mass / np.bincount(self.group, minlength=self.mass.size))[self.group]

    def scores(self, a: Vec) -> Vec:
        """F, computed afresh."""
        return self.pull + self.s * self.products(a)[self.index]

    def products(self, a: Vec) -> Vec:
        """`<sum a_i z_i, x_j>` for all samples."""
        c = np.zeros(self.gram.m)
        np.add.at(c, self.index, self.s * a)
        return self.gram.times(c)

    def points(self, a: Vec) -> NDArray[np.float64]:
        """`<Z_g, z_k>` of the point `Z_g = sum a_i z_i` of every group, (groups, n)."""
        groups = range(self.mass.size)
        return np.array(
            [self.s * self.products(np.where(self.group == g, a, 0.0))[self.index] for g in groups]
        )

    def norm(self, a: Vec, F: Vec) -> float:
        """`||W||`."""
        return float(np.sqrt(max(self.square + float(a @ self.pull) + float(a @ F), 0.0)))

    def gaps(self, a: Vec, F: Vec) -> Vec:
        """`<W, Z_g> - min <W, Z>` over the extreme points Z of every reduced hull. Their sum is the
        duality gap times ||W||."""
        gaps = np.empty(self.mass.size)
        numerics.class_gaps(F, a, self.group, self.cap, self.mass, gaps)
        return gaps

    def levels(self, F: Vec) -> Vec:
        """For each group the F at which the weights of an extreme point with the least `<W, Z>` end."""
        found = np.empty(self.mass.size)
        for g, (cap, mass) in enumerate(zip(self.cap, self.mass, strict=True)):
            own = F[self.group == g]
            k = min(int(mass / cap * (1.0 + 1e-12)), own.size - 1)
            found[g] = np.partition(own, k)[k]
        return found

    def nearest(self, v: Vec) -> Vec:
        """The weights nearest to v."""
        a = np.empty(self.n)
        for g, (cap, mass) in enumerate(zip(self.cap, self.mass, strict=True)):
            members = self.group == g
            own = v[members]
            top, shift = numerics.threshold(own, cap, mass)
            a[members] = np.clip((own - top) - shift, 0.0, cap)
        return a

    def extreme(self, F: Vec) -> Vec:
        """The weights of the extreme points with the least `<W, Z>`."""
        a = np.zeros(self.n)
        for g, (cap, mass) in enumerate(zip(self.cap, self.mass, strict=True)):
            members = np.flatnonzero(self.group == g)
            order = members[np.argsort(F[members], kind="stable")]
            left = mass - cap * np.arange(order.size)
            a[order] = np.clip(left, 0.0, cap)
        return a

    @property
    def reach(self) -> float:
        """A bound of `||c||` and the norms of the points of all hulls, together."""
        top = float(np.sqrt(max(self.gram.diagonal.max(initial=0.0), 0.0)))
        return float(np.abs(self.s).max(initial=0.0) * top * self.mass.sum() + np.sqrt(self.square))

    def negligible(self, a: Vec, W: float, gap: float, zero: float) -> bool:
        """Whether `||W||`, of a relative gap, is 0 for the purpose of `zero_in_set`: `zero` of the size of U
        at most, and not proven to be more."""
        least = max(zero, self.resolution)
        if least * self.reach < W or (1.0 - gap) * W > self.resolution * self.reach:
            return False
        size = np.sqrt(self.square)
        for g, row in enumerate(self.points(a)):
            own = self.group == g
            size += np.sqrt(max(float(a[own] @ row[own]), 0.0))
        return 0.5 * least * size >= W

    def blocks(self, form: MinNorm, a: Vec) -> list[Vec]:
        """The weights by block of the form they came from."""
        sizes = [b.map.shape[1] for b in form.blocks]
        weights = np.empty(self.n)
        weights[self.order] = a
        return np.split(weights, np.cumsum(sizes)[:-1])


def small(monitor: Monitor) -> float:
    """The part of the size of U below which a distance may count as 0; far below the tolerance, as no
    certificate of the distance comes from there."""
    return _ZERO * monitor.tol if monitor.least is None else monitor.least


def _factors(b: Block) -> Vec:
    """The s_i of a block made of samples."""
    return b.weight * (np.ones(b.map.shape[1]) if b.classes is None else b.classes)


class NearestPoint(Solver[MinNorm]):
    """A solver for reduced convex hulls that needs inner products only."""

    def refuse(self, form: MinNorm) -> str | None:
        if form.norm != 2.0:
            return "it takes the Euclidean norm only"
        if form.couplings:
            return "the blocks are coupled by an intersection"
        if not form.blocks:
            return "there is no hull"
        for b in form.blocks:
            if b.groups is None:
                return f"{brief(b.domain)} is not the weights of a reduced convex hull"
        if isinstance(form.space, GramSpace):
            if any(b.samples is None or b.weight == 0.0 for b in form.blocks):
                return "a hull is not made of the samples behind the kernel"
            uses = np.zeros(form.n, dtype=np.intp)
            for b in form.blocks:
                uses[b.samples] += 1
            if uses.max() > 1:
                return "two hulls share samples"
        return None

    def predicted_passes(self, form: MinNorm) -> float:
        return float("nan")


class Improving(NearestPoint):
    """One that goes on from weights of hulls, inside of another."""

    @abstractmethod
    def improved(self, hulls: HullsByRows, a: Vec, monitor: Monitor) -> Vec:
        """Weights that are optimal to the tolerance of the monitor, from the weights a."""


NEAREST = Wanted(
    "a solver by inner products, as ucm.solvers.ClipMDM()", lambda x: isinstance(x, NearestPoint)
)
IMPROVING = Wanted(
    "a solver that goes on from weights",
    lambda x: isinstance(x, Improving),
    "ucm.solvers.ClipMDM()",
)
