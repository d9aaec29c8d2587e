"""The base of the algorithms of Lopez, Barbero and Dorronsoro (2011): the state, the stopping rules, the
reports.

They solve `min ||W||^2 / 2` with `W = c + sum_i a_i z_i`, `0 <= a_i <= cap_g` and `sum a_i = mass_g` in
every group g (a class). `F_i = <W, z_i>` is the derivative for a_i, and `Z_g = sum a_i z_i` the point of a
group.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import Vec
from ucm.data.options import POSITIVE, STOP, check_fields
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.nearest import KernelHulls, NearestPoint

_STEPS = 100_000
_SHARE = 100  # a report after each hundredth part of the steps made


class ExtremePoint(NamedTuple):
    """The weights of an extreme point of a reduced hull, and `<W, Z>` there."""

    weights: Vec
    value: float


class BaselineState:
    """The state of an algorithm.

    Attributes
    ----------
    hulls : the problem
    a, F : weights and derivatives
    cap : of each group
    H : (groups, n) `<Z_g, z_k>`
    operations : inner products so far, whether they are kept or not
    """

    def __init__(self, hulls: KernelHulls, a: Vec) -> None:
        self.hulls, self.a, self.operations = hulls, a.copy(), 0
        gram, i, s = hulls.gram, hulls.index, hulls.s
        self._K = s[:, None] * gram.matrix()[np.ix_(i, i)] * s if gram.fits else None
        self.cap = np.array([hulls.cap[g].max() for g in self.groups])
        self.H = np.array([self.products(np.where(g, a, 0.0)) for g in self.groups])
        self.F = hulls.center_products + self.H.sum(axis=0)

    @property
    def groups(self) -> list[NDArray[np.bool_]]:
        """(n,) which variables each group has."""
        return [self.hulls.group == g for g in range(self.hulls.mass.size)]

    def products(self, d: Vec) -> Vec:
        """Return `<sum_i d_i z_i, z_k>` for every k."""
        rows, hulls = np.flatnonzero(d), self.hulls
        if self._K is not None:
            return d[rows] @ self._K[rows]
        return hulls.s * hulls.gram.sums(hulls.index[rows], (hulls.s * d)[rows])[hulls.index]

    def extreme(self, members: NDArray[np.bool_], cap: float, mass: float) -> ExtremePoint | None:
        """Return the extreme point Z of members of a group with the least `<W, Z>`; None for too few members.

        The members with the least F have the cap as weight, until the mass is used up.
        """
        own = np.flatnonzero(members)
        if own.size * cap < mass * (1.0 - 1e-9):
            return None
        own = own[np.argsort(self.F[own], kind="stable")]
        w = np.zeros(self.a.size)
        w[own] = np.clip(mass - cap * np.arange(own.size), 0.0, cap)
        w[w < 1e-13 * mass] = 0.0
        return ExtremePoint(w, float(w @ self.F))


@dataclass(frozen=True)
class NearestPointBaseline(NearestPoint):
    """The base class of the algorithms of Lopez, Barbero and Dorronsoro (2011) for nearest points.

    Parameters
    ----------
    stop : "gap" (relative duality gap below tol), or "paper" (every class gap below `eps ||W||`)
    eps : of the paper's rule
    """

    stop: str = "gap"
    eps: float = 1e-5
    weighted: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_fields(self, stop=STOP, eps=POSITIVE)

    @abstractmethod
    def step(self, at: BaselineState) -> bool:
        """Take a step; return False if no step lowers the norm."""

    def solve(self, form: MinNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        hulls = KernelHulls.of(form)
        at = BaselineState(hulls, hulls.start(None if start is None else form.begin(start)))
        answer = self._run(at, form, monitor)
        answer.q = hulls.blocks(form, at.a)
        return answer

    def _run(self, at: BaselineState, form: MinNorm, monitor: Monitor) -> Answer:
        hulls, limit, done, moved = at.hulls, monitor.limit(_STEPS), 0, True
        while True:
            W, gaps = hulls.norm(at.a, at.F), hulls.gaps(at.a, at.F)
            gap = float(gaps.sum()) / max(W * W, 1e-300)
            monitor.kernel_operations = at.operations
            monitor.passes = hulls.gram.computed / (2.0 * hulls.gram.m)
            stop = monitor.report(done, -W, gap, lambda: {"q": hulls.blocks(form, at.a)})
            near = gaps.max() <= self.eps * W if self.stop == "paper" else monitor.reached(gap)
            if near or hulls.negligible(at.a, W, gap, monitor.zero):
                return Answer()
            if stop:
                return Answer().interrupted()
            left = f'after {done} steps the relative gap is {gap:.2g}; use solver="smo"'
            if not moved:
                return Answer().ended("stalled", f"{self.name} stalled, no step lowers the norm: {left}")
            if done >= limit:
                return Answer().ended("max_iter", f"{left}, or raise max_iter")
            end = min(monitor.next(done, limit), done + math.ceil((done + 1) / _SHARE))
            while moved and done < end:
                moved = self.step(at)
                done += moved
