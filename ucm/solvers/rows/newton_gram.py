"""Nearest points of reduced hulls behind a kernel: semismooth Newton steps over rows of the Gram matrix.

The method of `ucm.solvers.distance.newton_hull` where only inner products are known: systems have the order
of the number of free samples, and a row of the Gram matrix is computed when the weight of its sample first
changes. So it too starts on a part of the samples (`ucm.solvers.levels`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ucm import numerics
from ucm.data.linear import Vec
from ucm.data.options import COUNT, check_fields, optional
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.nearest import NEAREST, HullsByRows, Improving, NearestPoint, small
from ucm.solvers.levels import Level, descend, strides
from ucm.solvers.threads import blas_threads

__all__ = ["GramNewton"]

_COARSE_GAP, _WIDER = 0.01, 0.5  # of a coarse level; its kinks become so much wider on the next
_DEFINITE = 1e12  # sigma times the largest square of a sample, at most
_SMALL = 1 << 18  # entries of a Gram matrix that is formed sooner than its rows are chosen
_WIDE = 100  # features from which the whole matrix, by symmetry, costs at most half of its rows


@dataclass(frozen=True)
class GramNewton(Improving):
    """Proximal augmented Lagrangian with semismooth Newton steps, on rows of the Gram matrix.

    Parameters
    ----------
    coarse
        Fewest samples of a coarse level.
    rest
        Takes over where the rows of the support vectors outgrow the store.
    """

    coarse: int = 50
    rest: NearestPoint | None = None
    name: ClassVar[str] = "newton-gram"

    def __post_init__(self) -> None:
        check_fields(self, coarse=COUNT, rest=optional(NEAREST))

    def solve(self, form: MinNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        with blas_threads(0):
            answer = self._solve(form, monitor, start)
        if answer.status == "full" and self.rest is not None:
            return self.rest.solve(form, monitor, answer)
        if answer.status == "full":
            answer.status = "max_iter"
        return answer

    def improved(self, hulls: HullsByRows, a: Vec, monitor: Monitor) -> Vec:
        level = _GramLevel(hulls, 1)
        level.begin(a)
        level.sharpen()
        ended = level.run(monitor, monitor.tol, at_once=True)
        return level.by_variable(1 if ended == "converged" else 8)

    def _solve(self, form: MinNorm, monitor: Monitor, start: Answer | None) -> Answer:
        hulls = HullsByRows.of(form)
        if start is None:
            rest = strides(lambda stride: hulls.n >= stride * self.coarse)
            level = _GramLevel(hulls, rest.pop())
            level.begin(level.hulls.start(None))
        else:
            rest, level = [], _GramLevel(hulls, 1)
            level.begin(hulls.start(form.begin(start)))
            level.sharpen()
        level, state = descend(level, rest, monitor, _COARSE_GAP, at_once=True)
        if level.stride > 1 or state == "full":  # then the extreme points in the direction of w
            last = level if level.stride == 1 else level.refined(1)
            a = hulls.extreme(last.by_variable(4))
        else:
            a = level.by_variable(1 if state == "converged" else 8)
        left = f"the gap stayed at {level['gap']:.2g}"
        message = f"{left}; raise max_iter or tol"
        if state == "full":
            message = (
                f"cache_size holds {hulls.gram.store.shape[0]} rows of the Gram matrix, and the "
                'samples that carry weight are more; raise cache_size, or use solver="clip-mdm"'
            )
        elif state == "rounding":
            state = "max_iter"
            message = (
                f"{left}: inner products of a kernel do not resolve so small a distance; raise tol, or use "
                'coordinates, solver="newton"'
            )
        return Answer(hulls.blocks(form, a)).after(state, message)


class _GramLevel(Level):
    """As `numerics.gram_march` takes it.

    Attributes
    ----------
    hulls, whole : the hulls of these samples, and of all
    members, order : the variables of `whole` that are here, and these group after group
    index, s, pull, ends, side, V, points, need : as `numerics.gram_march` takes them
    """

    names, theta = numerics.GRAM_STATE, 2

    def __init__(self, whole: HullsByRows, stride: int) -> None:
        self.whole, self.stride = whole, stride
        self.members = np.arange(whole.n) if stride == 1 else whole.every(stride)
        self.hulls = hulls = whole if stride == 1 else whole.part(self.members)
        self.order = np.argsort(hulls.group, kind="stable")
        self.index, self.s = hulls.index[self.order], hulls.s[self.order]
        self.pull = hulls.pull[self.order]
        self.sizes = np.bincount(hulls.group, minlength=hulls.mass.size)
        self.ends = np.concatenate([[0], np.cumsum(self.sizes)])
        self.starts = self.ends[:-1]
        self.side = np.column_stack([hulls.cap, hulls.mass, np.zeros(hulls.mass.size)])
        self.state = np.zeros(len(numerics.GRAM_STATE))
        self["square"] = hulls.square
        top = float((hulls.gram.diagonal[self.index] * self.s**2).max())
        self["largest"], self["best"] = _DEFINITE / max(top, 1e-280), np.inf
        self.V = np.zeros((9, hulls.n))
        self.points = np.zeros((3, hulls.gram.m))
        self.need = np.empty(hulls.n, dtype=np.int64)
        self.computed = 0  # entries of the Gram matrix that are counted

    def by_variable(self, row: int) -> Vec:
        """A row of V in the order of the variables of all samples, 0 for those that are not here."""
        v = np.zeros(self.whole.n)
        v[self.members[self.order]] = self.V[row]
        return v

    def begin(self, a: Vec) -> None:
        """Start at the weights a: `w = x`."""
        self.V[0] = a[self.order]
        self._set_normal(self.V[0])
        self.begin_at(self.V[4])

    def sharpen(self) -> None:
        """Kinks some three times as wide as the scores of a start are off: that is its gap, for a
        mass of 1 in each hull."""
        gap = float(self.hulls.gaps(self.by_variable(0), self.by_variable(4)).sum())
        width = 3.0 * gap / float(self.side[:, 1].sum())
        if width > 0.0:
            self["sigma"] = max(self["sigma"], float(self.side[:, 0].max()) / width)

    def _set_normal(self, u: Vec) -> None:
        """w with the weights u, and its scores."""
        used = np.flatnonzero(u)
        self.V[2] = u
        self.points[1] = self.hulls.gram.scores(self.index[used], (self.s * u)[used], 0.0)
        self.V[4] = self.pull + self.s * self.points[1][self.index]

    def refined(self, stride: int) -> _GramLevel:
        """The level of more samples, from the w and theta of this one. Where x is 0 here, w says
        nothing."""
        fine = _GramLevel(self.whole, stride)
        if self["status"] == 2.0:
            fine.begin(fine.hulls.start(None))
            return fine
        fine._set_normal(self.by_variable(2)[fine.members[fine.order]])
        fine.begin_after(self, _WIDER, fine.V[4], fine.V[0])
        return fine

    def march(self, log: Any, monitor: Monitor) -> int:
        hulls, gram = self.hulls, self.hulls.gram
        if self["floor"] == 0.0:
            self["floor"] = max(small(monitor), hulls.resolution) * hulls.reach
        before = self["systems"]
        done = numerics.gram_march(
            gram.store, gram.where, self.index, self.s, self.pull, self.ends, self.side, self.state,
            self.V, self.points, self.need, monitor.stop, log,
        )  # fmt: skip
        monitor.passes += (gram.computed - self.computed) / (2.0 * self.whole.gram.m)
        monitor.systems += int(self["systems"] - before)
        self.computed = gram.computed
        return done

    def told(self, row: list[float], monitor: Monitor) -> tuple[float, float]:
        return -row[1], row[0]

    def ended(self, monitor: Monitor) -> str | None:
        if self["missing"] > 0.0:
            return None if self._fetch(self.need[: int(self["missing"])]) else "full"
        if self["status"] == 2.0 and not self._negligible(small(monitor)):
            self["status"], self["floor"] = 0.0, 0.5 * self["norm"]
        if self["status"] == 3.0 and self.stride == 1:
            return "rounding"
        return "converged" if self["status"] > 0.0 else None

    def _negligible(self, zero: float) -> bool:
        a = self.by_variable(1)[self.members]
        return self.hulls.negligible(a, self["norm"], self["gap"], zero)

    def _wants_all(self, count: int) -> bool:
        """Whether the whole matrix costs less than its rows as they come, of which `count` are next:
        it takes half the products, and no decisions."""
        gram = self.hulls.gram
        wide = gram.X.shape[1] > _WIDE
        return gram.m**2 <= _SMALL or (wide and 2 * count > gram.m)

    def _fetch(self, rows: NDArray[np.int64]) -> bool:
        """Rows into the store, in place of those that no weight needs; whether there is room."""
        gram = self.hulls.gram
        if gram.store.shape[0] == gram.m and self._wants_all(rows.size):
            gram.keep_whole()
            return True
        if not gram.has_room(rows.size):
            held = gram.where[self.index[(self.V[1] != 0.0) | (self.V[6] != self.V[1])]]
            held = held[held >= 0]
            if held.size + rows.size > gram.store.shape[0]:
                return False
            gram.used[:] = 0.0
            gram.used[held] = np.inf
        gram.keep(rows)
        return True
