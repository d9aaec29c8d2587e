"""Hinge losses over many samples behind a kernel: `ucm.solvers.rows.banded`, the bands by pair updates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ucm import numerics
from ucm.data.linear import Vec
from ucm.data.options import check_fields
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.pair import HingeDual
from ucm.forms.solver import Solver, solver_of
from ucm.solvers.rows.banded import Band, Banded, Levels, sieved
from ucm.solvers.threads import blas_threads

__all__ = ["HingeBand"]

_WIDER = 1.5  # the free multipliers that a level begins with, against those of the coarser one
_FALL = 0.02  # of the violation in a band
_HALVINGS = 60  # of an interval for the bias


@dataclass(frozen=True)
class HingeBand(Levels, Solver[HingeDual]):
    """A sample, the multipliers near their bounds by pair updates, the scores of all samples, and again.

    Parameters
    ----------
    rest
        Goes on over all samples where bands gain nothing more.
    coarse, stride, band
        As in `Levels`; the weights are the multipliers, a kink is a bound of one.
    """

    rest: Solver[HingeDual]
    name: ClassVar[str] = "hinge-band"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, rest=solver_of(HingeDual, "ucm.solvers.PSMO()"))

    def refuse(self, form: HingeDual) -> str | None:
        if form.X is not None:
            return "there are features, which give the scores of all samples at once"
        if not form.gram.kernel.definite:
            return "the kernel may be indefinite, which its bands do not tell"
        return None

    def predicted_passes(self, form: HingeDual) -> float:
        return float("nan")

    def solve(self, form: HingeDual, monitor: Monitor, start: Answer | None = None) -> Answer:
        with blas_threads(0):
            problem = _Margins(form)
            known = None if start is None else start.slopes
            found = sieved(problem, self, monitor, None if known is None else form.feasible(known))
            b = problem.bias(found.p, problem.follow(found.p))
        answer = Answer(slopes=found.p, b=b).ended(found.status, found.message)
        return self.rest.solve(form, monitor, answer) if found.status == "stalled" else answer


class _Margins(Banded):
    """Multipliers a of the dual, F its derivatives `y_i f_i - 1 + xi_i`."""

    def __init__(self, form: HingeDual) -> None:
        self.form, self.gram, self.s = form, form.gram, form.y
        self.index = np.arange(form.m)
        self.top = form.C if form.p == 1.0 else np.full(form.m, np.inf)

    def every(self, stride: int) -> NDArray[np.intp]:
        return np.sort(np.concatenate([np.flatnonzero(self.s == o)[::stride] for o in (1.0, -1.0)]))

    def part(self, members: NDArray[np.intp]) -> Self:
        y, C = self.s[members], self.form.C[members]
        for o in (1.0, -1.0):
            C[y == o] *= np.count_nonzero(self.s == o) / np.count_nonzero(y == o)
        return type(self)(replace(self.form, y=y, C=C, gram=self.gram.part(members)))

    def begin(self) -> Vec:
        return np.zeros(self.form.m)

    def lifted(self, free: int, products: Vec) -> Vec:
        """The multipliers of these scores; for p = 1 the kink is as wide as lets `_WIDER` times as many be
        free as there."""
        form, y = self.form, self.s
        u = 1.0 - y * (products + self._best(products))
        k = min(u.size - 1, int(_WIDER * free) + 20)
        width = max(2.0 * float(np.partition(np.abs(u), k)[k]), 1e-300)

        def multipliers(b: float) -> Vec:
            if form.p == 1.0:
                return form.C * np.clip(0.5 + (u - y * b) / width, 0.0, 1.0)
            return form.p * form.C * np.maximum(u - y * b, 0.0) ** (form.p - 1.0)

        reach = 1.0 + float(np.abs(u).max()) + width
        return form.feasible(multipliers(_root(lambda b: float(y @ multipliers(b)), reach)))

    def derivatives(self, p: Vec, products: Vec) -> Vec:
        form = self.form
        return self.s * products - 1.0 + numerics.slacks(p, form.C, form.p)

    def _scores(self, p: Vec, F: Vec) -> Vec:
        return self.s * (F + 1.0 - numerics.slacks(p, self.form.C, self.form.p))

    def bias(self, p: Vec, F: Vec) -> float:
        """The best b for the scores of the multipliers."""
        return self._best(self._scores(p, F))

    def _best(self, f: Vec) -> float:
        """The b of the least loss: its slope falls at every `y_i - f_i` by C_i, or has one root."""
        form, y = self.form, self.s
        kinks = y - f
        if form.p == 1.0:
            order = np.argsort(kinks, kind="stable")
            sums = np.cumsum(form.C[order])
            k = int(np.searchsorted(sums, float(form.C[y > 0.0].sum()) * (1.0 - 1e-12)))
            return float(kinks[order[min(k, order.size - 1)]])

        def slope(b: float) -> float:
            return float((y * form.C) @ np.maximum(y * (kinks - b), 0.0) ** (form.p - 1.0))

        return _root(slope, 1.0 + float(np.abs(kinks).max()))

    def value(self, p: Vec, F: Vec) -> tuple[float, float]:
        form, f = self.form, self._scores(p, F)
        loss, dual = numerics.hinge_gap(self.s, form.C, p, f, self._best(f), form.p)
        square = float((p * self.s) @ f)
        primal = 0.5 * square + loss
        return primal, (primal - dual + 0.5 * square) / max(abs(primal), 1e-300)

    def sides(self, p: Vec, F: Vec) -> tuple[NDArray[np.bool_], NDArray[np.bool_], Vec]:
        free = (p > 0.0) & (p < self.top)
        own = -(self.s * F)[free]
        b = float(np.median(own)) if own.size else self.bias(p, F)
        r = F + self.s * b
        if self.form.p > 1.0:  # every support vector is free
            return np.zeros(p.size, dtype=bool), free | (r < 0.0), r
        return free, ((p <= 0.0) & (r < 0.0)) | ((p >= self.top) & (r > 0.0)), r

    def solved(self, band: Band, monitor: Monitor) -> Vec:
        (index, p, F, K), form = band, self.form
        every, y, C, a = np.arange(index.size), self.s[index], form.C[index], p[index]
        levels = -(self.s * F)[index]
        top, bottom = numerics.hinge_levels(y, C, a, form.p, levels)
        numerics.smo(
            K, every, every, np.diagonal(K).copy(), y, C, form.p, max(_FALL * (top - bottom), 1e-13),
            100 * index.size, -1, 0.0, np.zeros(index.size), monitor.stop, a, levels,
        )  # fmt: skip
        return a


def _root(f: Callable[[float], float], reach: float) -> float:
    """Where a falling f changes sign in [-reach, reach]."""
    low, high = -reach, reach
    for _ in range(_HALVINGS):
        b = 0.5 * (low + high)
        low, high = (b, high) if f(b) > 0.0 else (low, b)
    return 0.5 * (low + high)
