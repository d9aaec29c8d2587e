"""Projected subgradient method on the unit sphere."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ucm.data.options import COUNT, POSITIVE, option
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Answer, Solver
from ucm.forms.sphere import UnitNorm


@dataclass(frozen=True)
class Subgradient(Solver[UnitNorm]):
    """Minimise f over the unit sphere by projected subgradient steps `w <- R(w - t_k g)`.

    g is any subgradient, `t_k = step / (||g|| sqrt(k))`, and R divides by the norm.

    The best w met is returned. It takes little from the problem and converges slowly: a baseline.

    Parameters
    ----------
    step
        First step.
    max_steps
        Limit.

    Notes
    -----
    Barbero, Takeda and Lopez (2015), Algorithm 1; the projection is that of their section 5.3.
    """

    step: float = option(POSITIVE, 0.3)
    max_steps: int = option(COUNT, 1000)
    name: ClassVar[str] = "subgradient"

    def refuse(self, form: UnitNorm) -> str | None:
        if form.image.couplings:
            return "an intersection has no subgradient at hand"
        return None if form.bounded else "U has no bound"

    def solve(self, form: UnitNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        v = form.begin(start)
        height, q = form.highest(v)
        best, answer = height, Answer(q, form.lift(v))
        for k in range(1, monitor.limit(self.max_steps) + 1):
            x = form.lower(form.image.matvec(q))
            size = float(np.linalg.norm(x))
            if size == 0.0:
                break
            v = form.unit(v + (self.step / (size * np.sqrt(k))) * x)
            height, q = form.highest(v)
            monitor.passes += 1.0
            if height < best:
                best, answer.q, answer.w = height, q, form.lift(v)
            record = functools.partial(form.trace_record, v)
            if monitor.report(k, best, float("nan"), record):
                return answer.interrupted()
        return answer
