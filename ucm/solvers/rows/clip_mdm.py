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
from ucm.errors import ParameterError
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.nearest import NearestPoint, ReducedHulls
from ucm.solvers.threads import blas_threads

__all__ = ["ClipMDM"]

_LIMIT, _MISSING = 1, 3
_ROWS = {"first-order": 2, "second-order": 4}  # rows of the Gram matrix that a step looks at


@dataclass(frozen=True)
class ClipMDM(NearestPoint):
    """Pair exchanges within a class, in compiled code.

    Parameters
    ----------
    choice : "second-order" (the pair that lowers the norm most, of those with one end most violated),
        or "first-order" as in the paper, equations (7) and (13)
    stop : "gap" (relative duality gap below tol), or "paper" (every class gap below `eps ||W||`)
    eps : of the paper's rule
    shrinking : leave out samples whose weight will stay at its bound, until the end
    coarse : begin with a part of the samples when there are at least this many

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
        if self.choice not in _ROWS:
            raise ParameterError(
                f'ClipMDM: choice is "second-order" or "first-order", got {self.choice!r}'
            )
        if self.stop not in ("gap", "paper"):
            raise ParameterError(f'ClipMDM: stop is "gap" or "paper", got {self.stop!r}')
        if not self.eps > 0.0 or self.coarse < 1:
            raise ParameterError(
                f"ClipMDM: eps and coarse are positive, got {self.eps} and {self.coarse}"
            )

    def solve(self, form: MinNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        with blas_threads(form.n):
            return self._solve(form, monitor, start)

    def _solve(self, form: MinNorm, monitor: Monitor, start: Answer | None) -> Answer:
        hulls = ReducedHulls.of(form)
        paper = self.stop == "paper"
        if start is None and not paper and hulls.n >= self.coarse:
            a = self._from_a_part(hulls)
        else:
            a = hulls.start(None if start is None else form.begin(start))
        state = _State(hulls, self, a)
        limit = monitor.limit(100_000 if paper else 10_000_000 + 100 * hulls.n)
        answer = Answer([])
        before = np.inf
        while True:
            W, gaps = hulls.norm(a, state.F), hulls.gaps(a, state.F)
            gap = float(gaps.sum()) / max(W * W, 1e-300)
            monitor.kernel_operations = state.operations
            monitor.passes = hulls.gram.computed / (2.0 * hulls.gram.m)
            stop = monitor.report(state.steps, -W, gap)
            if hulls.negligible(a, W, monitor.tol):
                break
            if float(gaps.max()) <= self.eps * W if paper else gap <= 0.9 * monitor.tol:
                break
            if stop:
                answer.status, answer.message = "interrupted", "stopped by the callback"
                break
            stuck = state.violation == 0.0 or (gap >= before and gap <= 1e-10)  # rounding is left
            before = gap
            if state.steps >= limit or stuck:
                answer.status = "max_iter"
                answer.message = (
                    f"{state.steps} steps left a relative gap of {gap:.2g}; raise max_iter or tol"
                )
                break
            if paper:
                end = min(limit, state.steps + max(1, state.steps // 100))
                state.exchange(0.0, end)
                continue
            state.reduce(max(0.5 * monitor.tol, 0.03 * gap) * W * W, limit)
        answer.q = hulls.blocks(form, a)
        return answer

    def _from_a_part(self, hulls: ReducedHulls) -> Vec:
        """The extreme points of the hulls in the direction that every eighth sample gives."""
        groups = range(hulls.mass.size)
        members = [np.flatnonzero(hulls.group == g) for g in groups]
        part = np.sort(np.concatenate([k[:: max(1, min(8, k.size // 50))] for k in members]))
        small = hulls.part(part)
        state = _State(small, self, small.start(None))
        for _ in range(20):
            W, gaps = small.norm(state.a, state.F), small.gaps(state.a, state.F)
            if float(gaps.sum()) <= 1e-2 * W * W:
                break
            state.reduce(0.5e-2 * W * W, 100 * small.n)
        a = np.zeros(hulls.n)
        a[part] = state.a
        return hulls.extreme(hulls.scores(a))


class _State:
    """The weights, and the samples that pair exchanges see.

    a : weights
    F : derivatives `<W, z_i>`, exact for the active samples only
    active : the samples at hand
    stale, exact : a and F when all samples were last exact
    violation : the largest of any pair, where it is known
    """

    def __init__(self, hulls: ReducedHulls, options: ClipMDM, a: Vec) -> None:
        self.hulls, self.options = hulls, options
        self.a = a
        self.F = hulls.scores(a)
        self.active = np.arange(hulls.n)
        self.stale, self.exact = a.copy(), self.F.copy()
        self.violation = np.inf
        self.steps = self.operations = 0
        # a step of second order looks at two rows of every group before it moves: all must stay
        enough = hulls.gram.store.shape[0] >= min(hulls.gram.m, 2 * hulls.mass.size + 2)
        self.choice = 2 if options.choice == "second-order" and enough else 0

    def exchange(self, eps: float, end: int) -> int:
        """Steps on the active samples until no pair violates by more than eps; a code."""
        hulls, gram, k = self.hulls, self.hulls.gram, self.active
        index, group = hulls.index[k], hulls.group[k]
        diagonal = gram.diagonal[index] * hulls.s[k] ** 2
        s, a, F = hulls.s[k], self.a[k], self.F[k]
        while True:
            done, code, missing, self.violation = numerics.clip_mdm(
                gram.store, gram.where, index, diagonal, s, group, hulls.cap, self.choice, eps,
                end - self.steps, float(self.steps), gram.used, a, F,
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
        chunk = max(100, min(self.hulls.n, 1000))
        while True:
            code = self.exchange(0.0, min(limit, self.steps + chunk))
            if code == _LIMIT and self.steps < limit and self._active_gap() > gap:
                if self.options.shrinking:
                    self._shrink()
                continue
            whole = self.active.size == self.hulls.n
            self._restore()
            if whole or self.steps >= limit:
                return

    def _active_gap(self) -> float:
        """The sum of the class gaps while the other samples keep their weights."""
        hulls, k = self.hulls, self.active
        a, group = self.a[k], hulls.group[k]
        mass = np.bincount(group, a, hulls.mass.size)
        gaps = np.empty(mass.size)
        numerics.class_gaps(self.F[k], a, group, hulls.cap, mass, gaps)
        return float(gaps.sum())

    def _shrink(self) -> None:
        """Leave out samples at a bound that no pair of the others violates with."""
        k, hulls = self.active, self.hulls
        a, F, group = self.a[k], self.F[k], hulls.group[k]
        grows, falls = a < hulls.cap[group], a > 0.0
        kept = grows & falls
        for g in range(hulls.mass.size):
            own = group == g
            low = F[own & grows].min(initial=np.inf)
            high = F[own & falls].max(initial=-np.inf)
            kept |= own & ((grows & (high >= F)) | (falls & (low <= F)))
        if kept.any() and np.count_nonzero(~kept) > 0.1 * k.size:
            self.active = k[kept]

    def _restore(self) -> None:
        """Exact F for every sample; all become active."""
        hulls = self.hulls
        if self.active.size < hulls.n:
            rest = np.setdiff1d(np.arange(hulls.n), self.active, assume_unique=True)
            moved = np.flatnonzero(self.a != self.stale)
            change = (self.a[moved] - self.stale[moved]) * hulls.s[moved]
            columns = hulls.index[rest]
            self.F[rest] = self.exact[rest] + hulls.s[rest] * hulls.gram.combine(
                hulls.index[moved], change, columns
            )
        self.stale, self.exact = self.a.copy(), self.F.copy()
        self.active = np.arange(hulls.n)
