"""Clipped GSK, section 4.1 of Lopez, Barbero and Dorronsoro (2011), which can get stuck."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ucm import numerics
from ucm.errors import ParameterError
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.nearest import NearestPoint, ReducedHulls
from ucm.solvers.threads import blas_threads

__all__ = ["ClipGSK"]

_MISSING, _STUCK = 3, 4


@dataclass(frozen=True)
class ClipGSK(NearestPoint):
    """The point of one class moves towards one sample below its cap: one row of the Gram matrix a step.

    The samples that would lower the norm may all be at the cap, far from the optimum (Figure 2 of the
    paper); the status is then "stalled". It also slows down without end: `patience` ends a run whose
    gap has not halved within that many steps.

    Parameters
    ----------
    stop : "gap" (relative duality gap below tol), or "paper" (every class gap below `eps ||W||`)
    eps : of the paper's rule
    patience : steps within which the gap must halve
    """

    stop: str = "gap"
    eps: float = 1e-5
    patience: int = 20_000
    name: ClassVar[str] = "clip-gsk"

    def __post_init__(self) -> None:
        if self.stop not in ("gap", "paper"):
            raise ParameterError(f'ClipGSK: stop is "gap" or "paper", got {self.stop!r}')
        if not self.eps > 0.0 or self.patience < 1:
            raise ParameterError(
                f"ClipGSK: eps and patience are positive, got {self.eps} and {self.patience}"
            )

    def solve(self, form: MinNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        with blas_threads(form.n):
            return self._solve(form, monitor, start)

    def _solve(self, form: MinNorm, monitor: Monitor, start: Answer | None) -> Answer:
        hulls = ReducedHulls.of(form)
        gram = hulls.gram
        a = hulls.start(None if start is None else form.begin(start))
        H = hulls.points(a)
        F = hulls.pull + H.sum(axis=0)
        diagonal = gram.diagonal[hulls.index] * hulls.s**2
        limit, steps, code = monitor.limit(100_000), 0, 0
        answer = Answer([])
        best, since = np.inf, 0
        while True:
            W, gaps = hulls.norm(a, F), hulls.gaps(a, F)
            gap = float(gaps.sum()) / max(W * W, 1e-300)
            monitor.kernel_operations = (steps + 2) * hulls.n
            monitor.passes = gram.computed / (2.0 * gram.m)
            stop = monitor.report(steps, -W, gap)
            level = self.eps * W if self.stop == "paper" else 0.45 * monitor.tol * W * W
            if float(gaps.max()) <= level or hulls.negligible(a, W, monitor.tol):
                break
            if gap <= 0.5 * best:
                best, since = gap, steps
            if code == _STUCK or steps - since >= self.patience:
                why = "no sample below its cap lowers the norm" if code == _STUCK else "too slow"
                answer.status = "stalled"
                answer.message = (
                    f"clip-gsk stalled after {steps} steps ({why}), and the relative gap is {gap:.2g}; "
                    'use solver="clip-mdm", which cannot stall'
                )
                break
            if stop:
                answer.status, answer.message = "interrupted", "stopped by the callback"
                break
            if steps >= limit:
                answer.status = "max_iter"
                answer.message = f"{steps} steps left a relative gap of {gap:.2g}; raise max_iter"
                break
            end = min(limit, steps + 1000)
            while True:
                done, code, missing = numerics.clip_gsk(
                    gram.store, gram.where, hulls.index, diagonal, hulls.s, hulls.group, hulls.cap,
                    hulls.mass, level, end - steps, float(steps), gram.used, a, H, F,
                )  # fmt: skip
                steps += done
                if code != _MISSING:
                    break
                gram.fetch(missing)
        answer.q = hulls.blocks(form, a)
        return answer
