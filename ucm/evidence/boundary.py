"""The size at which 0 enters a set that grows, proven from both sides.

Let U(t) grow with t so that `{(t, x) : x in U(t)}` is convex, as for caps, radii and levels of divergence.

* Separated: for any w, `h(t) = min over U(t) of w'x` is convex and does not rise, and 0 lies outside of U(t)
  wherever h(t) > 0. The root of h is therefore a lower bound of the size sought. With w of the point of
  U(t) nearest to 0 it is at least as far as Newton's step for the distance of U(t) from 0, convex in t too,
  and never too far.
* Met: blocks q with x(q) = 0 belong to the set of every size at which each lies in its domain. From those of
  the nearest point they are one projection away, weights changed in proportion to themselves.

Both are read off the declaration, by `support` and `rebuild`. A relative gap g of a nearest point costs the
part g of Newton's step, no more, so that 1e-2 is enough, and what is left falls a hundredfold by each. For
reduced hulls the size sought is that of equation (30) of Barbero, Takeda and Lopez (2015).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import brentq

from ucm.data.bound import Data
from ucm.data.linear import LinearMap, Vec
from ucm.errors import CompositionError, SolverError
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Solver
from ucm.language import masses
from ucm.language.contracts import Block, Splits
from ucm.language.robust import RobustMargin
from ucm.solvers import APG, Clarabel, Newton, NewtonHull, Secular

__all__ = ["Boundary", "boundary"]

_SOLVERS: tuple[Solver[MinNorm], ...] = (
    Secular(), NewtonHull(), Newton(), Newton(iterative=True), APG(), Clarabel(),
)  # fmt: skip
_WIDTH = 1e-6  # between both proofs, relative: reached where the solvers end
_ENOUGH = 1e-4  # a width that is not worth solves that do not
_NEAR = 0.05  # relative: farther away weights do not lead to a point x = 0
_STEPS = 60
_GAP, _SHARPER = 1e-2, 1e-3  # of a nearest point; its factor for each that brought nothing
_PATIENCE = 3  # steps that bring nothing
_INNER = 20  # steps of a solver
_ZERO = 1e-13  # norm of a nearest point that is 0, relative
_INWARD = 1.0001  # of the smallest size: there weights are tied, which Newton steps do not like
_LARGE = 1e9  # in units of the smallest size: as large as any
_TRIES = 8  # sizes
_INNERMOST = (0.0, 1e-7, 1e-5)  # parts of the centres, where too few weights are positive
_ROUNDING = 1e-14
_REFINED = 6  # steps of refinement
_OUTSIDE = 1e-12  # violation of a point of U, and norm of x relative to the size of U
_ACCEPTED = 1e-9  # violation where a feature that is constant adds its rounding
_ORDER = 2500  # of a linear system


@dataclass(frozen=True)
class Boundary:
    """Between which sizes 0 enters.

    Attributes
    ----------
    lower : 0 is separated from U at every smaller size; inf: by one w at all sizes
    upper : U holds 0 at this size; inf where no such size was found
    """

    lower: float
    upper: float

    @property
    def proven(self) -> bool:
        """Whether both sides meet."""
        return math.isinf(self.lower) or self.upper - self.lower <= _ENOUGH * self.lower


def boundary(
    at: Callable[[float], RobustMargin], data: Data, start: float, monitor: Monitor
) -> Boundary:
    """Where 0 enters `at(t)`, for t from `start` on, where it is not empty.

    Ends with what is proven where no progress is made, or the time is over.
    """
    family = _Family(at, data, start)
    with data.products():
        return _between(family, start, monitor)


def _between(family: _Family, start: float, monitor: Monitor) -> Boundary:
    lower, upper, answer, since = start, math.inf, None, 0
    form = family.form(start)
    center = form.space.direction(form.matvec(form.centers()), 2.0)
    if center is not None and not form.couplings:
        lower = family.root(center, {}, start, upper)
    for _ in range(_STEPS):
        if math.isinf(lower) or monitor.late:
            break
        t = 0.5 * (lower + upper) if since > 1 and upper < math.inf else lower
        found = family.nearest(max(t, _INWARD * start), _GAP * _SHARPER**since, monitor, answer)
        if found is None:
            break
        form, answer = found
        root = lower
        for w in _directions(form, answer):
            if math.isfinite(root):
                root = family.root(w, form.splits(answer), root, upper)
        if root - lower <= _NEAR * root:
            upper = min(upper, family.met(form, answer, lower))
        stuck = answer.status != "converged" and upper - root <= _ENOUGH * root
        since = 0 if root - lower > 1e-3 * _WIDTH * root else since + 1
        lower = root
        if stuck or since == _PATIENCE or upper - lower <= _WIDTH * lower:
            break
    return Boundary(lower, max(lower, upper))


class _Family:
    """Sets of one declaration, by their size."""

    def __init__(self, at: Callable[[float], RobustMargin], data: Data, start: float) -> None:
        self.at, self.data = lru_cache(maxsize=4)(at), data
        self.unit = start if start > 0.0 else 1.0
        self.size = max(self.form(start).largest, data.scale)

    def form(self, t: float) -> MinNorm:
        return MinNorm.of(self.at(t).set.lower(self.data), 2.0, self.data.stored, self.data.space)

    def nearest(
        self, t: float, gap: float, monitor: Monitor, start: Answer | None
    ) -> tuple[MinNorm, Answer] | None:
        """The point of U(t) nearest to 0 with a relative gap of `gap`, or the best found; None where no
        solver has one."""
        form = self.form(t)
        solver = next((s for s in _SOLVERS if s.refuse(form) is None), None)
        if solver is None or not form.blocks:
            return None
        below = monitor.below(gap, _INNER, least=_ZERO)
        try:
            answer = solver.solve(form, below, start)
        except SolverError:
            return None
        monitor.passes += below.passes
        monitor.iterations += below.iterations
        return None if answer.status == "infeasible" else (form, answer)

    def height(self, t: float, w: Vec, splits: Splits) -> float:
        """`min over U(t) of w'x`, or a lower bound of it."""
        return -self.at(t).set.support(self.data, -w, splits)[0]

    def outside(self, t: float) -> bool:
        """Whether t lies beyond the range of the parameter."""
        try:
            return self.at(t).set.emptiness(self.data) is not None
        except CompositionError:
            return True

    def root(self, w: Vec, splits: Splits, low: float, high: float) -> float:
        """The largest size found at which w separates 0 from U; `low` where none does, inf where all do."""
        best = low

        def height(t: float) -> float:
            nonlocal best
            h = self.height(t, w, splits)
            if h > 0.0:
                best = max(best, t)
            return h

        if not height(low) > 0.0:
            return low
        step, wall = 1e-3, math.inf  # of the range of the parameter
        while math.isinf(high):
            t = low * (1.0 + step) + step * self.unit
            step *= 8.0
            if t >= wall:
                t = 0.5 * (best + wall)
            if t > _LARGE * self.unit or wall - best <= _WIDTH * max(best, self.unit / _LARGE):
                return math.inf
            if self.outside(t):
                wall = t
            elif height(t) <= 0.0:
                high = t
        if height(high) <= 0.0:
            # a root of many orders below its bracket is approached by halves: any end will do
            how: Any = {"xtol": 1e-300, "rtol": np.float64(1e-10), "disp": False}
            end: Any = brentq(height, best, high, **how)
            back = 1e-15 * end  # from the far side of the root
            while end - back > best and height(end - back) <= 0.0:
                back *= 4.0
        return best

    def met(self, form: MinNorm, answer: Answer, t: float) -> float:
        """The smallest size found at which blocks near those of the answer are in U, with x = 0."""
        upper, centers = math.inf, form.centers()
        for part in _INNERMOST:
            start = [(1.0 - part) * v + part * c for v, c in zip(answer.q, centers, strict=True)]
            found = _through_zero(form, start, self.size)
            upper = min((self.holding(t, q) for q in found), default=math.inf)
            if upper < math.inf:
                break
        return upper

    def holding(self, t: float, q: Sequence[Vec]) -> float:
        """A size from t on at which x(q) is a point of U: violations fall as sizes grow, nearly linearly."""
        step, before, violation = 0.0, math.inf, math.inf
        for _ in range(_TRIES):
            violation = self.at(t).set.rebuild(self.data, iter(q))[1]
            fallen = before - violation
            if not _OUTSIDE < violation <= 1.0 or not fallen > 0.0:
                break
            rate = step / fallen if math.isfinite(before) else max(t, 1e-3 * self.unit)
            step = violation * rate
            before, t = violation, t + step * (1.0 + 1e-9)
        return t if violation <= _ACCEPTED else math.inf


def _directions(form: MinNorm, answer: Answer) -> list[Vec]:
    """The dual vector of the answer and that of its point, of length 1."""
    found = [] if answer.w is None else [answer.w]
    directions = [form.space.direction(v, 2.0) for v in (*found, form.matvec(answer.q))]
    return [w for w in directions if w is not None]


def _through_zero(form: MinNorm, start: Sequence[Vec], size: float) -> Iterator[list[Vec]]:
    """Blocks near those given with x = 0, the couplings met and the masses kept, where they are found.

    With D how freely each weight may move, the least `||D^(-1/2) delta||` is `delta = D A'u`, `A D A'u`
    what is missing. Weights move in proportion to themselves, so that none becomes negative, and of those
    with a cap once also in proportion to what is left below it.
    """
    if form.n + form.coupled > _ORDER:
        return
    fixed = [_masses(b, v.size) for b, v in zip(form.blocks, start, strict=True)]
    maps = [form.stacked(k, [1.0] * len(form.couplings)) for k in range(len(start))]
    plain = [
        np.maximum(v, 0.0) if own else np.full(v.size, float(v @ v) or 1.0)
        for v, own in zip(start, fixed, strict=True)
    ]
    capped = [_below_caps(b, d) for b, d in zip(form.blocks, plain, strict=True)]
    for D in (plain, capped):
        solve = _system(maps, D, fixed)
        if solve is None:
            continue
        q = list(start)
        for _ in range(_REFINED):
            missing = np.concatenate([form.matvec(q), *form.residuals(q)])
            off = [[v[rows].sum() - mass for rows, mass in own] for v, own in zip(q, fixed)]
            worst = max((abs(o) for own in off for o in own), default=0.0)
            if np.abs(missing).max() <= _ROUNDING * size and worst <= _ROUNDING:
                break  # what is left would only be multiplied
            u, levels = solve(missing, off)
            for k, A in enumerate(maps):
                delta = A.rmatvec(u)
                for (rows, _), level in zip(fixed[k], levels[k], strict=True):
                    delta[rows] += level
                q[k] = q[k] - D[k] * delta
        if form.space.norm(form.matvec(q)) <= _OUTSIDE * size:
            yield q


def _below_caps(b: Block, d: Vec) -> Vec:
    """d, less where a weight is near its cap."""
    d = d.copy()
    for g in b.groups or ():
        d[g.entries] *= np.maximum(1.0 - d[g.entries] / g.most, 1e-6)
    return d


def _masses(b: Block, dim: int) -> list[tuple[Any, float]]:
    """The sums of weights that the domain of a block fixes."""
    found = []
    for rows, _ in masses.groups(dim, b.classes):
        e = np.zeros(dim)
        e[rows] = 1.0
        top = b.domain.support(e, classes=b.classes)[0]
        low = -b.domain.support(-e, classes=b.classes)[0]
        if math.isfinite(top) and abs(top - low) <= 1e-12 * abs(top):
            found.append((rows, top))
    return found


def _system(
    maps: Sequence[LinearMap], D: Sequence[Vec], fixed: Sequence[list[tuple[Any, float]]]
) -> Callable[[Vec, list[list[float]]], tuple[Vec, list[Vec]]] | None:
    """Solves `K (u, levels) = (missing, off)`, K = R D R' for the rows R of the maps and of the masses.

    None where K is not definite, by more than dependent rows.
    """
    n = maps[0].shape[0]
    ends = n + np.cumsum([0, *map(len, fixed)])
    K = np.zeros((ends[-1], ends[-1]))
    for A, d, own, begin in zip(maps, D, fixed, ends[:-1], strict=True):
        K[:n, :n] += A.weighted_gram(d)
        for j, (rows, _) in enumerate(own, begin):
            e = np.zeros(d.size)
            e[rows] = d[rows]
            K[:n, j] = K[j, :n] = A.matvec(e)
            K[j, j] = e.sum()
    diagonal = np.diagonal(K)
    scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    K *= scale[:, None] * scale
    K[np.diag_indices_from(K)] += _OUTSIDE
    try:
        factor = cho_factor(K, overwrite_a=True)
    except (np.linalg.LinAlgError, ValueError):
        return None

    def solve(missing: Vec, off: list[list[float]]) -> tuple[Vec, list[Vec]]:
        v = scale * cho_solve(factor, scale * np.concatenate([missing, *off]))
        return v[:n], [v[a:b] for a, b in pairwise(ends)]

    return solve
