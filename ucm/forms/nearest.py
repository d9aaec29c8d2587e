"""Nearest points of reduced convex hulls, by inner products only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.bound_data import GramSpace
from ucm.data.gram import Gram
from ucm.data.kernels import Kernel
from ucm.data.linear_map import Vec
from ucm.errors import brief
from ucm.forms.distance import MinNorm
from ucm.forms.solver import Solver


@dataclass(frozen=True)
class KernelHulls:
    """The nearest-point problem of reduced convex hulls, by inner products.

    `min ||W||^2 / 2`, `W = c + sum_i a_i z_i` over `0 <= a_i <= cap_i`, `sum a_i = mass_g` for each group.

    A group is one reduced convex hull. `z_i = s_i x_i`, where the x_i are the samples of a Gram matrix;
    `F_i = <W, z_i>` is the derivative for a_i.

    Attributes
    ----------
    gram : inner products of the x_i
    order : (n,) the index of each variable among the weights of all blocks
    index : (n,) the sample of each variable, increasing
    s : (n,) the factors
    group : (n,) the group of each variable
    cap : (n,) the bounds
    mass : of each group
    center_products : (n,) `<c, z_i>`
    square : `||c||^2`
    resolution : the norm ||W|| that counts as 0, relative to the size of U
    """

    gram: Gram
    order: NDArray[np.intp]
    index: NDArray[np.int64]
    s: Vec
    group: NDArray[np.int64]
    cap: Vec
    mass: Vec
    center_products: Vec
    square: float
    resolution: float

    @classmethod
    def of(cls, form: MinNorm) -> KernelHulls:
        """Return the nearest-point problem of a form that `NearestPoint` takes."""
        group, cap, mass = [], [], []
        for b in form.blocks:
            own, bound = np.empty(b.map.shape[1]), np.empty(b.map.shape[1])
            for g in b.domain.groups or ():
                own[g.entries], bound[g.entries] = len(mass), g.most
                mass.append(g.mass)
            group.append(own)
            cap.append(bound)
        if isinstance(form.space, GramSpace):
            gram = form.space.gram
            index = np.concatenate([b.samples for b in form.blocks if b.samples is not None])
            s: Vec = np.concatenate(
                [
                    b.weight * (np.ones(b.map.shape[1]) if b.classes is None else b.classes)
                    for b in form.blocks
                ]
            )
            scores = form.space.scores(form.center) if form.center.any() else form.center
            center_products, square = s * scores[index], float(form.center @ scores)
        else:
            Z: Any = [b.map.matrix().T for b in form.blocks]
            thin = any(sparse.issparse(A) for A in Z)
            stacked: Any = sparse.vstack(Z).tocsr() if thin else np.ascontiguousarray(np.vstack(Z))
            gram = Gram(Kernel("linear"), stacked)
            index, s = np.arange(stacked.shape[0]), np.ones(stacked.shape[0])
            center_products = np.asarray(stacked @ form.center).ravel()
            square = float(form.center @ form.center)
        order = np.argsort(index)
        groups = np.concatenate(group).astype(np.int64)
        return cls(
            gram, order, index[order], s[order], groups[order], np.concatenate(cap)[order], np.array(mass),
            center_products[order], square, form.space.resolution,
        )  # fmt: skip

    @property
    def n(self) -> int:
        """The number of variables."""
        return self.index.size

    def start(self, blocks: Sequence[Vec] | None) -> Vec:
        """Return the starting weights: the given blocks, or weights in proportion to the bounds."""
        if blocks is not None:
            return np.concatenate(blocks)[self.order]
        total = np.bincount(self.group, self.cap, minlength=self.mass.size)
        return self.cap * (self.mass / total)[self.group]

    def scores(self, a: Vec) -> Vec:
        """Return the derivatives `F_i = <W, z_i>` at the weights a."""
        return self.center_products + self.s * self.products(a)[self.index]

    def products(self, a: Vec) -> Vec:
        """Return `<sum a_i z_i, x_j>` for every sample x_j of the Gram matrix."""
        c = np.zeros(self.gram.m)
        np.add.at(c, self.index, self.s * a)
        return self.gram.times(c)

    def points(self, a: Vec) -> NDArray[np.float64]:
        """Return `<Z_g, z_k>`, (groups, n), for the point `Z_g = sum a_i z_i` of every group g."""
        groups = range(self.mass.size)
        return np.array(
            [self.s * self.products(np.where(self.group == g, a, 0.0))[self.index] for g in groups]
        )

    def norm(self, a: Vec, F: Vec) -> float:
        """Return `||W||`, from the weights a and the derivatives F."""
        return float(np.sqrt(max(self.square + float(a @ self.center_products) + float(a @ F), 0.0)))

    def gaps(self, a: Vec, F: Vec) -> Vec:
        """Return `<W, Z_g> - min <W, Z>` over the points Z of each hull g; the sum is the gap times ||W||."""
        gaps = np.empty(self.mass.size)
        for g, mass in enumerate(self.mass):
            members = np.flatnonzero(self.group == g)
            members = members[np.argsort(F[members], kind="stable")]
            before = np.cumsum(self.cap[members]) - self.cap[members]
            extreme = np.clip(mass - before, 0.0, self.cap[members])
            gaps[g] = max(float((a[members] - extreme) @ F[members]), 0.0)
        return gaps

    @property
    def reach(self) -> float:
        """An upper bound of the size of U: `||c||` plus the largest norm in every hull."""
        top = float(np.sqrt(max(self.gram.diagonal.max(initial=0.0), 0.0)))
        return float(np.abs(self.s).max(initial=0.0) * top * self.mass.sum() + np.sqrt(self.square))

    def negligible(self, a: Vec, W: float, gap: float, zero: float) -> bool:
        """True if `||W||`, known up to a relative gap, is at most `zero` of the size of U."""
        least = max(zero, self.resolution)
        if least * self.reach < W or (1.0 - gap) * W > self.resolution * self.reach:
            return False
        size = np.sqrt(self.square)
        for g, row in enumerate(self.points(a)):
            members = self.group == g
            size += np.sqrt(max(float(a[members] @ row[members]), 0.0))
        return 0.5 * least * size >= W

    def blocks(self, form: MinNorm, a: Vec) -> list[Vec]:
        """Return the weights a, arranged by block of the form."""
        sizes = [b.map.shape[1] for b in form.blocks]
        weights = np.empty(self.n)
        weights[self.order] = a
        return np.split(weights, np.cumsum(sizes)[:-1])


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
        if isinstance(form.space, GramSpace):
            if any(b.samples is None or b.weight == 0.0 for b in form.blocks):
                return "a hull is not made of the samples of the kernel"
            uses = np.zeros(form.n, dtype=np.intp)
            for b in form.blocks:
                uses[b.samples] += 1
            if uses.max() > 1:
                return "two hulls share samples"
        return None
