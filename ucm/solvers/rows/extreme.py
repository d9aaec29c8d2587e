"""mu-GSK and mu-MDM: steps to and from extreme points of reduced convex hulls.

Section 3 of Lopez, Barbero and Dorronsoro (2011), after Mavroforakis and Theodoridis (2006) and Tao, Wu
and Wang (2008). An extreme point has `1/cap` terms, so a step needs that many rows of the Gram matrix.
"""

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

__all__ = ["GSK", "MDM"]


@dataclass(frozen=True)
class _Extreme(NearestPoint):
    """What both do between two reports.

    Parameters
    ----------
    stop : "gap" (relative duality gap below tol), or "paper" (every class gap below `eps ||W||`)
    eps : of the paper's rule
    """

    stop: str = "gap"
    eps: float = 1e-5
    pairs: ClassVar[bool]

    def __post_init__(self) -> None:
        if self.stop not in ("gap", "paper"):
            raise ParameterError(f'{self.name}: stop is "gap" or "paper", got {self.stop!r}')
        if not self.eps > 0.0:
            raise ParameterError(f"{self.name}: eps is positive, got {self.eps}")

    def solve(self, form: MinNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        with blas_threads(form.n):
            return self._solve(form, monitor, start)

    def _solve(self, form: MinNorm, monitor: Monitor, start: Answer | None) -> Answer:
        hulls = ReducedHulls.of(form)
        a = hulls.start(None if start is None else form.begin(start))
        K = hulls.gram.whole()
        if hulls.n < K.shape[0]:
            K = np.ascontiguousarray(K[np.ix_(hulls.index, hulls.index)])
        H = hulls.points(a)
        F = hulls.pull + H.sum(axis=0)
        limit, steps, code = monitor.limit(100_000), 0, 0
        answer = Answer([])
        while True:
            W, gaps = hulls.norm(a, F), hulls.gaps(a, F)
            gap = float(gaps.sum()) / max(W * W, 1e-300)
            monitor.passes = hulls.gram.computed / (2.0 * hulls.gram.m)
            stop = monitor.report(steps, -W, gap)
            level = self.eps * W if self.stop == "paper" else 0.45 * monitor.tol * W * W
            if float(gaps.max()) <= level or gap <= 0.9 * monitor.tol * (self.stop == "gap"):
                break
            if hulls.negligible(a, W, monitor.tol):
                break
            if code == 4:
                answer.status = "stalled"
                answer.message = (
                    f"{self.name} stalled after {steps} steps: no step it knows lowers the norm, and "
                    f'the relative gap is {gap:.2g}; use solver="clip-mdm", which cannot stall'
                )
                break
            if stop:
                answer.status, answer.message = "interrupted", "stopped by the callback"
                break
            if steps >= limit:
                answer.status = "max_iter"
                answer.message = (
                    f"{steps} steps left a relative gap of {gap:.2g}; raise max_iter, or use "
                    'solver="clip-mdm"'
                )
                break
            chunk = min(limit - steps, 1 if self.stop == "paper" and steps < 1000 else 1000)
            done, code, operations = numerics.extreme_steps(
                K, hulls.s, hulls.group, hulls.cap, hulls.mass, self.pairs, level, chunk, a, H, F
            )
            steps += done
            monitor.kernel_operations += operations
        answer.q = hulls.blocks(form, a)
        return answer


class GSK(_Extreme):
    """mu-GSK, equation (9): the point of one class moves towards the extreme point of its hull."""

    name: ClassVar[str] = "gsk"
    pairs: ClassVar[bool] = False


class MDM(_Extreme):
    """mu-MDM, equation (10): weight moves from one support vector to an extreme point of the hull.

    Terms at the cap cannot take weight and are passed over; where too few are left, or none lowers
    the norm, the method stalls short of the optimum (Figure 1 of the paper), and says so.
    """

    name: ClassVar[str] = "mdm"
    pairs: ClassVar[bool] = True
