"""Clipped MDM, section 4 of Lopez, Barbero and Dorronsoro (2011), with what makes it fast.

Two weights of one class exchange mass, clipped to their bounds, so a step needs two rows of the Gram
matrix. Beyond the paper: the pair of the largest decrease, samples at a bound left out while they will
stay there (Joachims 1999), rows kept in a cache, a start from a part of the samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ucm import numerics
from ucm.data.linear import Vec
from ucm.data.options import COUNT, FLAG, check_fields, one_of
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.nearest import HullsByRows, Improving
from ucm.solvers.rows.active import Active
from ucm.solvers.rows.descent import Descending, Descent, Place

__all__ = ["ClipMDM"]

_LIMIT, _MISSING = 1, 3
_TURNS = 20  # of pair exchanges between two looks at the gap, inside of another problem
_ROWS = {"first-order": 2, "second-order": 4}  # rows of the Gram matrix that a step looks at


@dataclass(frozen=True)
class ClipMDM(Descending, Improving):
    """Pair exchanges within a class, in compiled code.

    Parameters
    ----------
    choice : "second-order" (the pair that lowers the norm most, of those with one end most violated),
        or "first-order" as in the paper, equations (7) and (13)
    stop : "gap" (relative duality gap below tol), or "paper" (every class gap below `eps ||W||`)
        The rule that ends it.
    eps
        Of the paper's rule.
    shrinking
        Leave out samples whose weight will stay at its bound, until the end.
    coarse
        Begin with a part of the samples when there are at least this many.

    Notes
    -----
    `stats.kernel_operations` counts the rows that a step looks at, as the paper does: two of them with
    the first-order choice, four with the other. Most are in the cache.
    """

    choice: str = "second-order"
    stop: str = "gap"
    eps: float = 1e-5
    shrinking: bool = True
    coarse: int = 2000
    name: ClassVar[str] = "clip-mdm"

    def __post_init__(self) -> None:
        self.check()
        check_fields(self, choice=one_of(*_ROWS), shrinking=FLAG, coarse=COUNT)

    def begin(self, hulls: HullsByRows, start: list[Vec] | None, monitor: Monitor) -> Descent:
        if start is None and self.stop != "paper" and hulls.n >= self.coarse:
            return _Exchange(hulls, self, self._from_a_part(hulls, monitor), monitor)
        return _Exchange(hulls, self, hulls.start(start), monitor)

    def improved(self, hulls: HullsByRows, a: Vec, monitor: Monitor) -> Vec:
        state, tol = _Exchange(hulls, self, a, monitor), monitor.tol
        for _ in range(_TURNS):
            if monitor.late:
                break
            W, gaps = hulls.norm(state.a, state.F), hulls.gaps(state.a, state.F)
            gap = float(gaps.sum())
            if gap <= tol * W * W:
                break
            state.reduce(max(0.5 * tol * W * W, 0.03 * gap), state.steps + 100 * hulls.n)
        return state.a

    def _from_a_part(self, hulls: HullsByRows, monitor: Monitor) -> Vec:
        """The extreme points of the hulls in the direction that every eighth sample gives."""
        groups = range(hulls.mass.size)
        members = [np.flatnonzero(hulls.group == g) for g in groups]
        part = np.sort(np.concatenate([k[:: max(1, min(8, k.size // 50))] for k in members]))
        small = hulls.part(part)
        a = np.zeros(hulls.n)
        a[part] = self.improved(small, small.start(None), monitor.below(1e-2))
        return hulls.extreme(hulls.scores(a))


_CHUNK = 100  # steps, after which a look at the gap of the active samples costs about one more


class _Exchange(Descent):
    """The weights, and the samples that pair exchanges see.

    F is exact for the active samples only.

    active : the samples at hand
    exact : F when that of all samples was last exact
    violation : the largest of any pair, where it is known
    before : the gap at the report before
    """

    def __init__(self, hulls: HullsByRows, options: ClipMDM, a: Vec, monitor: Monitor) -> None:
        self.hulls, self.options, self.monitor = hulls, options, monitor
        self.a = a
        self.F = hulls.scores(a)
        self.active, self.exact = Active(a), self.F.copy()
        self.violation = self.before = np.inf
        self.limit = 100_000 if options.stop == "paper" else 10_000_000 + 100 * hulls.n
        # a step of second order looks at two rows of every group before it moves: all must stay
        enough = hulls.gram.store.shape[0] >= min(hulls.gram.m, 2 * hulls.mass.size + 2)
        self.choice = 2 if options.choice == "second-order" and enough else 0

    def go(self, at: Place, tol: float, limit: int) -> None:
        if self.options.stop == "paper":
            self.exchange(0.0, min(limit, self.steps + max(1, self.steps // 100)))
        else:
            self.reduce(max(0.5 * tol, 0.03 * at.gap) * at.W * at.W, limit)

    def ended(self, gap: float, limit: int) -> Answer | None:
        stuck = self.violation == 0.0 or (gap >= self.before and gap <= 1e-10)  # rounding is left
        self.before = gap
        if self.steps < limit and not stuck:
            return None
        message = f"{self.steps} steps left a relative gap of {gap:.2g}; raise max_iter or tol"
        return Answer(status="max_iter", message=message)

    def exchange(self, eps: float, end: int) -> int:
        """Steps on the active samples until no pair violates by more than eps; a code."""
        hulls, gram, k = self.hulls, self.hulls.gram, self.active.index
        index, group = hulls.index[k], hulls.group[k]
        diagonal = gram.diagonal[index] * hulls.s[k] ** 2
        s, a, F = hulls.s[k], self.a[k], self.F[k]
        while True:
            done, code, missing, self.violation = numerics.clip_mdm(
                gram.store, gram.where, index, diagonal, s, group, hulls.cap[group], self.choice, eps,
                end - self.steps, float(self.steps), gram.used, self.monitor.stop, a, F,
            )  # fmt: skip
            self.steps += done
            self.operations += done * _ROWS[self.options.choice] * k.size
            if code != _MISSING:
                break
            gram.fetch(missing)
        self.a[k], self.F[k] = a, F
        return code

    def reduce(self, gap: float, limit: int) -> None:
        """Steps until the class gaps of all samples sum up to no more than `gap`."""
        while True:
            code = self.exchange(0.0, min(limit, self.steps + _CHUNK))
            on = self.steps < limit and not self.monitor.late
            if code == _LIMIT and on and self._active_gap() > gap:
                if self.options.shrinking:
                    self._shrink()
                continue
            whole = self.active.index.size == self.hulls.n
            self._restore()
            if whole or not on:
                return

    def _active_gap(self) -> float:
        """The sum of the class gaps while the other samples keep their weights."""
        hulls, k = self.hulls, self.active.index
        a, group = self.a[k], hulls.group[k]
        mass = np.bincount(group, a, hulls.mass.size)
        gaps = np.empty(mass.size)
        numerics.class_gaps(self.F[k], a, group, hulls.cap, mass, gaps)
        return float(gaps.sum())

    def _shrink(self) -> None:
        k, hulls = self.active.index, self.hulls
        a, group = self.a[k], hulls.group[k]
        self.active.shrink(self.F[k], a < hulls.cap[group], a > 0.0, group)

    def _restore(self) -> None:
        """Exact F for every sample; all become active."""
        hulls = self.hulls
        if self.active.index.size < hulls.n:
            rest, change = self.active.missed(hulls.gram, hulls.index, hulls.s, self.a)
            self.F[rest] = self.exact[rest] + hulls.s[rest] * change
        self.active.whole(self.a)
        self.exact = self.F.copy()
