"""Nearest points of reduced hulls behind a kernel: semismooth Newton steps over rows of the Gram matrix.

The method of `ucm.solvers.distance.hulls` where only inner products are known: systems have the order of the
number of free samples, and a row of the Gram matrix is computed when the weight of its sample first
changes. It starts on a part of the samples: q there says little about all of them, but w and theta do,
and so does the sharpness `cap / sigma` of the kinks that the part could resolve.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ucm import numerics
from ucm.data.linear import Vec
from ucm.errors import ParameterError
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.nearest import NearestPoint, ReducedHulls
from ucm.solvers.threads import blas_threads

__all__ = ["GramNewton"]

_STRIDE = 8
_COARSE_GAP, _WIDTH = 0.01, 0.5  # gap of a coarse level; kinks of the next one, in its own
_LIMIT = 150  # outer steps
_DEFINITE = 1e12  # sigma times the largest square of a sample, at most
_SMALL = 1 << 18  # entries of a Gram matrix that is formed sooner than its rows are chosen
_WIDE = (
    100  # features from which the whole matrix, by symmetry, costs no more than half of its rows
)


@dataclass(frozen=True)
class GramNewton(NearestPoint):
    """Proximal augmented Lagrangian with semismooth Newton steps, on rows of the Gram matrix.

    Parameters
    ----------
    coarse : fewest samples of a coarse level
    rest : takes over where the rows of the support vectors outgrow the store
    """

    coarse: int = 50
    rest: NearestPoint | None = None
    name: ClassVar[str] = "newton-gram"

    def __post_init__(self) -> None:
        if self.coarse < 1:
            raise ParameterError(f"GramNewton: coarse must be at least 1, got {self.coarse}")

    def solve(self, form: MinNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        with blas_threads(0):
            answer = self._solve(form, monitor, start)
        if answer.status == "full" and self.rest is not None:
            return self.rest.solve(form, monitor, answer)
        if answer.status == "full":
            answer.status = "max_iter"
        return answer

    def _solve(self, form: MinNorm, monitor: Monitor, start: Answer | None) -> Answer:
        hulls = ReducedHulls.of(form)
        strides = [1]
        while start is None and hulls.n >= _STRIDE * strides[-1] * self.coarse:
            strides.append(_STRIDE * strides[-1])
        level = _Level(hulls, strides.pop())
        level.begin(level.hulls.start(None if start is None else form.begin(start)))
        if start is not None:
            level.sharpen()
        while True:
            state = level.run(monitor, _COARSE_GAP if strides else monitor.tol)
            if not strides or state != "converged":
                break
            level = level.refined(strides.pop())
        if level.stride > 1 or state == "full":  # then the extreme points in the direction of w
            last = level if level.stride == 1 else level.refined(1)
            a = hulls.extreme(last.by_variable(4))
        else:
            a = level.by_variable(1 if state == "converged" else 8)
        answer = Answer(hulls.blocks(form, a), status=state)
        if state == "interrupted":
            answer.message = "stopped by the callback"
        elif state == "full":
            answer.message = (
                f"cache_size holds {hulls.gram.store.shape[0]} rows of the Gram matrix, and the "
                'samples that carry weight are more; raise cache_size, or use solver="clip-mdm"'
            )
        elif state == "max_iter":
            answer.message = f"the gap stayed at {level['gap']:.2g}; raise max_iter or tol"
        elif state == "rounding":
            answer.status = "max_iter"
            answer.message = (
                f"the gap stayed at {level['gap']:.2g}: inner products of a kernel do not resolve so "
                'small a distance; raise tol, or use coordinates, solver="newton"'
            )
        return answer


class _Level:
    """Every `stride`-th sample of each hull; by name, the fields of `numerics.GRAM_STATE`.

    Attributes
    ----------
    hulls, whole : the hulls of these samples, and of all
    members, order : the variables of `whole` that are here, and these group after group
    index, s, pull, ends, side, V, points, need : as `numerics.gram_march` takes them
    """

    def __init__(self, whole: ReducedHulls, stride: int) -> None:
        self.whole, self.stride = whole, stride
        self.members = np.arange(whole.n) if stride == 1 else whole.every(stride)
        self.hulls = hulls = whole if stride == 1 else whole.part(self.members)
        self.order = np.argsort(hulls.group, kind="stable")
        self.index, self.s = hulls.index[self.order], hulls.s[self.order]
        self.pull = hulls.pull[self.order]
        self.sizes = np.bincount(hulls.group, minlength=hulls.mass.size)
        self.ends = np.concatenate([[0], np.cumsum(self.sizes)])
        self.side = np.column_stack([hulls.cap, hulls.mass, np.zeros(hulls.mass.size)])
        self.state = np.zeros(len(numerics.GRAM_STATE))
        self["square"] = hulls.square
        top = float((hulls.gram.diagonal[self.index] * self.s**2).max())
        self["largest"], self["best"] = _DEFINITE / max(top, 1e-280), np.inf
        self.V = np.zeros((9, hulls.n))
        self.points = np.zeros((3, hulls.gram.m))
        self.need = np.empty(hulls.n, dtype=np.int64)

    def __getitem__(self, name: str) -> float:
        return float(self.state[numerics.GRAM_STATE.index(name)])

    def __setitem__(self, name: str, value: float) -> None:
        self.state[numerics.GRAM_STATE.index(name)] = value

    def by_variable(self, row: int) -> Vec:
        """A row of V in the order of the variables of all samples, 0 for those that are not here."""
        v = np.zeros(self.whole.n)
        v[self.members[self.order]] = self.V[row]
        return v

    def begin(self, a: Vec) -> None:
        """Start at the weights a: `w = x`."""
        self.V[0] = a[self.order]
        self._set_normal(self.V[0])
        scores = self.V[4]
        self.side[:, 2] = np.add.reduceat(scores, self.ends[:-1]) / self.sizes
        cap = min(self.side[:, 0].max(), 2.0 * (self.side[:, 1] / self.sizes).max())
        spread = float(np.std(scores)) or float(np.abs(scores).max()) or 1.0
        self["sigma"] = 30.0 * cap / max(spread, 1e-280)

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

    def refined(self, stride: int) -> _Level:
        """The level of more samples, from the w and theta of this one. Where x is 0 here, w says
        nothing."""
        fine = _Level(self.whole, stride)
        if self["status"] == 2.0:
            fine.begin(fine.hulls.start(None))
            return fine
        fine._set_normal(self.by_variable(2)[fine.members[fine.order]])
        fine.side[:, 2] = self.side[:, 2]
        width = _WIDTH * float(self.side[:, 0].max()) / self["sigma"]
        fine["sigma"] = fine.side[:, 0].max() / width
        theta, cap = (np.repeat(fine.side[:, k], fine.sizes) for k in (2, 0))
        q = 0.5 * cap - fine["sigma"] * (fine.V[4] - theta)
        np.clip(q, 0.0, cap, out=fine.V[0])
        return fine

    def run(self, monitor: Monitor, tol: float) -> str:
        """Outer steps to a relative gap of `tol`; answers how they ended."""
        hulls, gram = self.hulls, self.hulls.gram
        self["tol"], self["floor"] = tol, max(monitor.tol, hulls.resolution) * hulls.reach
        left = monitor.limit(_LIMIT) - monitor.iterations
        step_by_step = monitor.callback is not None or monitor.verbose
        spent, systems = monitor.passes, monitor.systems
        while left > 0:
            log = np.empty((1 if step_by_step else left, 2))
            done = numerics.gram_march(
                gram.store, gram.where, self.index, self.s, self.pull, self.ends, self.side,
                self.state, self.V, self.points, self.need, log,
            )  # fmt: skip
            left -= done
            monitor.passes = spent + gram.computed / (2.0 * self.whole.gram.m)
            monitor.systems = systems + int(self["systems"])
            stop = False
            for gap, norm in log[:done].tolist():
                stop = monitor.report(monitor.iterations + 1, -norm, gap)
            if self["missing"] > 0.0:
                if not self._fetch(self.need[: int(self["missing"])]):
                    return "full"
            elif self["status"] == 2.0 and not self._negligible(monitor.tol):
                self["status"], self["floor"] = 0.0, 0.5 * self["norm"]
            elif self["status"] == 3.0 and not stop:
                return "rounding" if self.stride == 1 else "converged"
            elif self["status"] > 0.0 and (self.stride == 1 or (left > 0 and not stop)):
                return "converged"
            if stop:
                return "interrupted"
        return "max_iter"

    def _negligible(self, tol: float) -> bool:
        a = self.by_variable(1)[self.members]
        return self.hulls.negligible(a, self["norm"], tol)

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
