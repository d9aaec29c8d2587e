"""Quadratic programs over bounded variables with fixed group sums, the problems of SMO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.gram import Gram
from ucm.data.kernels import Kernel
from ucm.data.linear_map import Vec
from ucm.forms.bound import balance
from ucm.forms.distance import MinNorm
from ucm.forms.hinge_dual import HingeDual, slacks
from ucm.language.domains.simplex import clip_to_mass
from ucm.solvers.sample_layout import largest


@dataclass(frozen=True)
class Pairs:
    """Quadratic program over bounded variables with a fixed sum in each group.

    `min u'Q u / 2 + b'u + sum_i phi_i(u_i)` over `lo <= u <= hi`.

    `Q_ij = s_i s_j k(x_i, x_j)`. Reduced convex hulls, `min ||W||^2 / 2` with `W = c + sum_i u_i s_i x_i`,
    have one group for each hull, and `b_i = <c, s_i x_i>`; F is the derivative `<W, s_i x_i>`. The dual (17)
    of Sun (2024) has `u = y a`, `s = 1`, `b = -y`, one group, and for p > 1 `phi_i(u) = C_i (p - 1) xi^p`,
    `xi = (|u| / (C_i p))^(1 / (p - 1))`.

    Attributes
    ----------
    gram : inner products of the x_i
    index : (n,) the sample of each variable
    s, b, lo, hi : (n,) as above
    ends : (groups + 1,) where the groups begin: the variables of a group stand together
    sums : (groups,) the sums of the variables of each group
    offset : twice the constant of the objective: of hulls the square of their center
    p, C : the exponent, and the (n,) weights of the losses; p = 1 without
    order : of hulls, the index of each variable among the weights of all blocks of the form
    resolution : of hulls, the norm ||W|| that counts as 0, relative to the size of U
    """

    gram: Gram
    index: NDArray[np.int64]
    s: Vec
    b: Vec
    lo: Vec
    hi: Vec
    ends: NDArray[np.int64]
    sums: Vec
    offset: float = 0.0
    p: float = 1.0
    C: Vec = field(default_factory=lambda: np.empty(0))
    order: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    resolution: float = 0.0

    @classmethod
    def of_hulls(cls, form: MinNorm) -> Pairs:
        """Return the program of reduced hulls, from a form that `NearestPoint` takes."""
        group, cap, mass = [], [], []
        for b in form.blocks:
            own, bound = np.empty(b.map.shape[1]), np.empty(b.map.shape[1])
            for g in b.domain.groups or ():
                own[g.entries], bound[g.entries] = len(mass), g.most
                mass.append(g.mass)
            group.append(own)
            cap.append(bound)
        gram = form.space.gram
        if gram is not None:
            index = np.concatenate([b.samples for b in form.blocks if b.samples is not None])
            signs = [np.ones(b.map.shape[1]) if b.classes is None else b.classes for b in form.blocks]
            s = np.concatenate([b.weight * sign for b, sign in zip(form.blocks, signs, strict=True)])
            scores = gram.times(form.center) if form.center.any() else form.center
            products, square = s * scores[index], float(form.center @ scores)
        else:
            Z: Any = [b.map.matrix().T for b in form.blocks]
            thin = any(sparse.issparse(A) for A in Z)
            stacked: Any = sparse.vstack(Z).tocsr() if thin else np.ascontiguousarray(np.vstack(Z))
            products = np.asarray(stacked @ form.center).ravel()
            unit = float(np.ldexp(1.0, np.frexp(largest(stacked))[1])) or 1.0
            stacked *= 1.0 / unit  # squares in float32 do not overflow
            gram = Gram(Kernel("linear"), stacked)
            index, s = np.arange(stacked.shape[0]), np.full(stacked.shape[0], unit)
            square = float(form.center @ form.center)
        groups = np.concatenate(group)
        order = np.lexsort((index, groups))
        ends = np.searchsorted(groups[order], np.arange(len(mass) + 1))
        return cls(
            gram, index[order], s[order], products[order], np.zeros(index.size), np.concatenate(cap)[order],
            ends, np.array(mass), square, order=order, resolution=form.space.resolution,
        )  # fmt: skip

    @classmethod
    def of_hinge(cls, form: HingeDual) -> Pairs:
        """Return the program of the dual of a hinge loss, with variables `u = y a`."""
        positive = form.y > 0.0
        top = form.C if form.p == 1.0 else np.full(form.m, np.inf)
        return cls(
            form.gram, np.arange(form.m), np.ones(form.m), -form.y, np.where(positive, 0.0, -top),
            np.where(positive, top, 0.0), np.array([0, form.m]), np.zeros(1), 0.0, form.p, form.C,
        )  # fmt: skip

    @property
    def n(self) -> int:
        """Number of variables."""
        return self.index.size

    @property
    def hinge(self) -> bool:
        """True for the dual of a hinge loss, False for reduced hulls."""
        return self.C.size > 0

    @property
    def groups(self) -> list[slice]:
        return [slice(a, b) for a, b in zip(self.ends[:-1], self.ends[1:], strict=True)]

    def begin(self) -> Vec:
        """Return the cold start: in every group the first variables at their caps; 0 for a loss."""
        u = np.zeros(self.n)
        if not self.hinge:
            for g, total in zip(self.groups, self.sums, strict=True):
                u[g] = np.clip(total - np.cumsum(self.hi[g]) + self.hi[g], 0.0, self.hi[g])
        return u

    def feasible(self, u: Vec) -> Vec:
        """Return a feasible point near u: within the bounds, with the sums of the groups."""
        u = np.clip(u, self.lo, self.hi)
        for g, total in zip(self.groups, self.sums, strict=True):
            if self.hinge:
                u[g] *= balance(u[g])[0]
            elif abs(float(u[g].sum()) - total) > 1e-15 * total:
                lo = self.lo[g]
                u[g] = lo + clip_to_mass(u[g] - lo, self.hi[g] - lo, total - float(lo.sum()))
        return u

    # --- reduced hulls -------------------------------------------------------------------------------
    def variables(self, blocks: Sequence[Vec]) -> Vec:
        """Return the variables of hulls from the weights, by block of the form."""
        return np.concatenate(blocks)[self.order]

    def blocks(self, form: MinNorm, u: Vec) -> list[Vec]:
        """Return the variables of hulls as weights, by block of the form."""
        weights = np.empty(self.n)
        weights[self.order] = u
        return np.split(weights, np.cumsum([b.map.shape[1] for b in form.blocks])[:-1])

    def points(self, u: Vec) -> NDArray[np.float64]:
        """Return `<Z_g, s_k x_k>`, (groups, n), for the point `Z_g = sum u_i s_i x_i` of every hull g."""
        each = np.arange(self.n)
        parts = (np.where((g.start <= each) & (each < g.stop), u, 0.0) for g in self.groups)
        return np.array([self.s * self.gram.times(self.coefficients(part))[self.index] for part in parts])

    def norm(self, u: Vec, F: Vec) -> float:
        """Return `||W||` of hulls, from the variables and the gradient."""
        return float(np.sqrt(max(self.offset + float(u @ self.b) + float(u @ F), 0.0)))

    def negligible(self, u: Vec, W: float, gap: float, zero: float) -> bool:
        """True if `||W||` of hulls, known up to a relative gap, is at most `zero` of the size of U.

        The size is at most `||c||` plus the largest norm in every hull.
        """
        least, size = max(zero, self.resolution), float(np.sqrt(self.offset))
        top = float(np.sqrt(max(self.gram.diagonal.max(initial=0.0), 0.0)))
        reach = float(np.abs(self.s).max(initial=0.0)) * top * float(self.sums.sum()) + size
        if least * reach < W or (1.0 - gap) * W > self.resolution * reach:
            return False
        for g, row in zip(self.groups, self.points(u), strict=True):
            size += float(np.sqrt(max(float(u[g] @ row[g]), 0.0)))
        return 0.5 * least * size >= W

    # --- the gradient, the gap -----------------------------------------------------------------------
    def slacks(self, u: Vec) -> Vec:
        """Return the slack xi of each variable in a hinge loss; 0 for hulls."""
        return slacks(np.abs(u), self.C, self.p) if self.hinge else np.zeros(u.size)

    def signs(self) -> Vec:
        """Return the label sign of each variable: +1 if its upper bound is positive, else -1."""
        return np.where(self.hi > 0.0, 1.0, -1.0)

    def gradient(self, u: Vec, products: Vec) -> Vec:
        """Return the gradient F at u from the products `sum_j s_j u_j k(x_j, x)` at all samples."""
        F = self.b + self.s * products[self.index]
        return F if self.p == 1.0 else F + self.signs() * self.slacks(u)

    def coefficients(self, u: Vec) -> Vec:
        """Return the (m,) coefficients of the samples: the sums of `s u` of their variables."""
        c = np.zeros(self.gram.m)
        np.add.at(c, self.index, self.s * u)
        return c

    def thresholds(self, u: Vec, F: Vec) -> Vec:
        """Return for each group the multiplier theta of its sum with the least duality gap."""
        thresholds = np.zeros(self.sums.size)
        for k, g in enumerate(self.groups):
            if self.p == 1.0:
                order = np.argsort(F[g], kind="stable")
                width = np.cumsum((self.hi - self.lo)[g][order])
                at = np.searchsorted(width, float((u - self.lo)[g].sum()) * (1.0 - 1e-12))
                thresholds[k] = F[g][order[min(int(at), order.size - 1)]]
            else:
                thresholds[k] = self._zero_of_slopes(F - self.signs() * self.slacks(u), g)
        return thresholds

    def _zero_of_slopes(self, linear: Vec, g: slice) -> float:
        """Return the theta of group g at which the slopes of the losses sum to 0, for p > 1."""
        y, p, C, values = self.signs()[g], self.p, self.C[g], linear[g]
        reach = 1.0 + float(np.abs(values).max())

        low, high = -reach, reach
        for _ in range(100):
            theta = 0.5 * (low + high)
            rises = float((y * C) @ np.maximum(y * (theta - values), 0.0) ** (p - 1.0)) < 0.0
            low, high = (theta, high) if rises else (low, theta)
        return 0.5 * (low + high)

    def gaps(self, u: Vec, F: Vec) -> Vec:
        """Return the duality gap of each group."""
        r = F - np.repeat(self.thresholds(u, F), np.diff(self.ends))
        if self.p == 1.0:
            with np.errstate(invalid="ignore"):
                each = np.where(r > 0.0, r * (u - self.lo), r * (u - self.hi))
        else:
            xi, y = self.slacks(u), self.signs()
            a, slack = y * u, np.maximum(xi - y * r, 0.0)
            each = self.C * slack**self.p + (self.p - 1.0) / self.p * a * xi - a * (xi - y * r)
        return np.array([each[g].sum() for g in self.groups])

    def gap(self, u: Vec, F: Vec) -> tuple[float, float, float]:
        """Return the reported objective, the duality gap, and the divisor for the relative gap."""
        gap = float(self.gaps(u, F).sum())
        if not self.hinge:
            norm = self.norm(u, F)
            return -norm, gap, norm * norm
        linear = F - self.b - (0.0 if self.p == 1.0 else self.signs() * self.slacks(u))
        dual = -float(u @ self.b) - 0.5 * float(u @ linear)
        if self.p != 1.0:
            dual -= (self.p - 1.0) / self.p * float(np.abs(u) @ self.slacks(u))
        return dual + gap, gap, abs(dual + gap)
