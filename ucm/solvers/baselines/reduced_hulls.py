"""GSK and MDM algorithms of Lopez, Barbero and Dorronsoro (2011) for reduced convex hulls.

They solve `min ||W||^2 / 2` with `W = c + sum_i a_i z_i`, `0 <= a_i <= cap_g` and `sum a_i = mass_g` in
every group g (a class). `F_i = <W, z_i>` is the derivative for a_i, and `Z_g = sum a_i z_i` the point of a
group. A step moves weight in the group whose norm falls fastest: from the point Z_g (GSK) or from the sample
with the largest F (MDM), to the extreme point of the reduced hull with the least `<W, Z>`, or to one sample,
and then the step is clipped to the bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import Vec
from ucm.data.options import FLAG, POSITIVE, STOP, option
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Answer
from ucm.solvers.nearest_point import NearestPoint
from ucm.solvers.smo.problem import Pairs


class _State:
    """State of an algorithm for reduced hulls: weights, derivatives and cached products.

    hulls : the problem
    a, F : weights and derivatives
    cap : of each group
    H : (groups, n) `<Z_g, z_k>`
    operations : inner products so far, whether they are kept or not
    computed : entries of the Gram matrix before, of earlier solves
    """

    def __init__(self, hulls: Pairs, a: Vec) -> None:
        self.hulls, self.a, self.operations = hulls, a.copy(), 0
        gram, i, s = hulls.gram, hulls.index, hulls.s
        self.computed = gram.computed
        self._K = s[:, None] * gram.matrix()[np.ix_(i, i)] * s if gram.fits else None
        self.group = np.repeat(np.arange(hulls.sums.size), np.diff(hulls.ends))
        self.groups = [self.group == g for g in range(hulls.sums.size)]
        self.cap = np.array([hulls.hi[g].max() for g in self.groups])
        self.H = hulls.points(a)
        self.F = hulls.b + self.H.sum(axis=0)

    def products(self, d: Vec) -> Vec:
        """Return `<sum_i d_i z_i, z_k>` for every k, from cached or computed Gram rows."""
        rows, hulls = np.flatnonzero(d), self.hulls
        if self._K is not None:
            return d[rows] @ self._K[rows]
        return hulls.s * hulls.gram.sums(hulls.index[rows], (hulls.s * d)[rows])[hulls.index]

    def extreme(self, members: NDArray[np.bool_], cap: float, mass: float) -> Vec | None:
        """Return the weights of the extreme point Z of least `<W, Z>`; None if `members` are too few."""
        order = np.flatnonzero(members)
        if order.size * cap < mass * (1.0 - 1e-9):
            return None
        order = order[np.argsort(self.F[order], kind="stable")]
        w = np.zeros(self.a.size)
        w[order] = np.clip(mass - cap * np.arange(order.size), 0.0, cap)
        w[w < 1e-13 * mass] = 0.0
        return w


@dataclass(frozen=True)
class _ReducedHullBaseline(NearestPoint):
    """Base class of GSK, MDM (in `pairs` of samples), and of their `clipped` forms."""

    stop: str = option(STOP, "gap")
    eps: float = option(POSITIVE, 1e-5)
    weighted: ClassVar[bool] = False
    pairs: ClassVar[bool]
    clipped: ClassVar[bool]

    def _ends(self, at: _State, k: int) -> tuple[Vec, Vec] | None:
        """Return the weights from which and to which a step in group k moves; None without a target."""
        group, cap, mass = at.groups[k], at.cap[k], at.hulls.sums[k]
        members = group & (at.a < cap) if self.pairs or self.clipped else group
        source = np.where(group, at.a, 0.0)
        if self.pairs:
            giver = int(np.where(group & (at.a > 0.0), at.F, -np.inf).argmax())
            source = np.zeros(at.a.size)
            source[giver], members[giver] = mass, False
        target = at.extreme(members, mass if self.clipped else cap, mass)
        return None if target is None else (source, target)

    def _chosen(self, falls: list[float]) -> list[int]:
        """Return the groups to move, given the rate at which `||W||^2 / 2` falls in each group."""
        return [int(np.argmax(falls))]

    def step(self, at: _State) -> bool:
        """Take one step in place; return False if no step lowers the norm."""
        ends = [self._ends(at, k) for k in range(len(at.groups))]
        falls = [-np.inf if e is None else float((e[0] - e[1]) @ at.F) for e in ends]
        chosen = self._chosen(falls)
        fall = float(sum(falls[k] for k in chosen))
        if not fall > 0.0:
            return False
        d, moves, size, count = np.zeros(at.a.size), np.zeros((len(chosen), at.a.size)), 0.0, 0
        for place, k in enumerate(chosen):
            source, target = ends[k] or (d, d)
            products = at.products(target)
            moves[place] = products - (at.products(source) if self.pairs else at.H[k])
            d += target - source
            size += float(target @ products)
            count += int(np.count_nonzero(target)) + self.pairs
        at.operations += count * at.hulls.n + (0 if self.clipped else 2 * count * count)
        eta = float(d @ moves.sum(axis=0))
        cap = at.cap[at.group]
        reach = np.full(d.size, np.inf)
        np.divide(np.where(d > 0.0, cap - at.a, -at.a), d, out=reach, where=d != 0.0)
        most = float(reach.min())
        t = min(most, fall / eta) if eta > 1e-14 * size else most  # between equal points all weight moves
        if t <= 0.0:
            return False
        at.a = np.where(reach <= t, np.where(d > 0.0, cap, 0.0), np.clip(at.a + t * d, 0.0, cap))
        at.H[chosen] += t * moves
        at.F = at.F + t * moves.sum(axis=0)
        return True

    def solve(self, form: MinNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        hulls = Pairs.of_hulls(form)
        total = np.add.reduceat(hulls.hi, hulls.ends[:-1])
        a = hulls.hi * np.repeat(hulls.sums / total, np.diff(hulls.ends))  # in proportion to the caps
        at = _State(hulls, a if start is None else hulls.variables(form.begin(start)))
        answer = self._run(at, form, monitor)
        answer.q = hulls.blocks(form, at.a)
        return answer

    def _run(self, at: _State, form: MinNorm, monitor: Monitor) -> Answer:
        hulls, limit, steps, moved = at.hulls, monitor.limit(100_000), 0, True
        while True:
            W, gaps = hulls.norm(at.a, at.F), hulls.gaps(at.a, at.F)
            gap = float(gaps.sum()) / max(W * W, 1e-300)
            monitor.kernel_operations = at.operations
            monitor.passes = (hulls.gram.computed - at.computed) / (2.0 * hulls.gram.m)
            stop = monitor.report(steps, -W, gap, lambda: {"q": hulls.blocks(form, at.a)})
            small = gaps.max() <= self.eps * W if self.stop == "paper" else monitor.reached(gap)
            if small or hulls.negligible(at.a, W, gap, monitor.zero):
                return Answer()
            if stop:
                return Answer().interrupted()
            error = f'after {steps} steps the relative gap is {gap:.2g}; use solver="smo"'
            if not moved:
                return Answer().ended("stalled", f"{self.name} stalled, no step lowers the norm: {error}")
            if steps >= limit:
                return Answer().ended("max_iter", f"{error}, or raise max_iter")
            # a report after each hundredth part of the steps made
            end = min(monitor.next(steps, limit), steps + math.ceil((steps + 1) / 100))
            while moved and steps < end:
                moved = self.step(at)
                steps += moved


@dataclass(frozen=True)
class GSK(_ReducedHullBaseline):
    """GSK algorithm: move a class point towards the extreme point of its hull with the least `<W, Z>`.

    An extreme point has `1/cap` terms, so a step needs that many rows of the Gram matrix.

    Parameters
    ----------
    stop, eps
        "gap" (relative duality gap below tol), or "paper" (every class gap below `eps ||W||`).
    minkowski : bool
        The points of all classes move at once, by the same fraction: the variant of section 5 of the paper.

    Notes
    -----
    Lopez, Barbero and Dorronsoro (2011), equation (9), after Mavroforakis and Theodoridis (2006).
    """

    minkowski: bool = option(FLAG, False)
    name: ClassVar[str] = "gsk"
    pairs: ClassVar[bool] = False
    clipped: ClassVar[bool] = False

    def _chosen(self, falls: list[float]) -> list[int]:
        return list(range(len(falls))) if self.minkowski else super()._chosen(falls)


@dataclass(frozen=True)
class MDM(_ReducedHullBaseline):
    """MDM algorithm: move weight from the support vector of largest F to the extreme point of least `<W, Z>`.

    Terms at the cap cannot take weight and are passed over; if too few are left, or none lowers the
    norm, the method stalls short of the optimum (Figure 1 of the paper), and says so.

    Parameters
    ----------
    stop, eps
        "gap" (relative duality gap below tol), or "paper" (every class gap below `eps ||W||`).

    Notes
    -----
    Lopez, Barbero and Dorronsoro (2011), equation (10), after Tao, Wu and Wang (2008).
    """

    name: ClassVar[str] = "mdm"
    pairs: ClassVar[bool] = True
    clipped: ClassVar[bool] = False


@dataclass(frozen=True)
class ClipGSK(_ReducedHullBaseline):
    """Clipped GSK algorithm: move a class point towards one sample below its cap, one Gram row a step.

    The samples that would lower the norm may all be at the cap, far from the optimum (Figure 2 of the
    paper).

    Parameters
    ----------
    stop, eps
        "gap" (relative duality gap below tol), or "paper" (every class gap below `eps ||W||`).

    Notes
    -----
    Lopez, Barbero and Dorronsoro (2011), section 4.1, equations (3), (11) and (12).
    """

    name: ClassVar[str] = "clip-gsk"
    pairs: ClassVar[bool] = False
    clipped: ClassVar[bool] = True


@dataclass(frozen=True)
class ClipMDM(_ReducedHullBaseline):
    """Clipped MDM algorithm: move weight between two samples of a class (Mitchell-Demyanov-Malozemov).

    In each class L has the least F among `a < cap` and U the largest among `a > 0`; the class with the larger
    `F_U - F_L` moves weight from U to L, clipped to the bounds: two rows of the Gram matrix for each step.

    `ucm.solvers.SMO` chooses the pair by second order, leaves samples out and keeps rows.

    Parameters
    ----------
    stop, eps
        "gap" (relative duality gap below tol), or "paper" (every class gap below `eps ||W||`).

    Notes
    -----
    Lopez, Barbero and Dorronsoro (2011), equations (7), (13) and (14).
    """

    name: ClassVar[str] = "clip-mdm"
    pairs: ClassVar[bool] = True
    clipped: ClassVar[bool] = True
