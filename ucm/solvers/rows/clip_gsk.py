"""Clipped GSK, section 4.1 of Lopez, Barbero and Dorronsoro (2011), which can get stuck."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ucm import numerics
from ucm.data.linear import Vec
from ucm.data.options import COUNT, check_fields
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.nearest import HullsByRows
from ucm.solvers.rows.descent import Descending, Descent, Place

__all__ = ["ClipGSK"]

_MISSING, _STUCK = 3, 4


@dataclass(frozen=True)
class ClipGSK(Descending):
    """The point of one class moves towards one sample below its cap: one row of the Gram matrix a step.

    The samples that would lower the norm may all be at the cap, far from the optimum (Figure 2 of the
    paper); the status is then "stalled". It also slows down without end: `patience` ends a run whose
    gap has not halved within that many steps.

    Parameters
    ----------
    stop : "gap" (relative duality gap below tol), or "paper" (every class gap below `eps ||W||`)
        The rule that ends it.
    eps
        Of the paper's rule.
    patience
        Steps within which the gap must halve.
    """

    stop: str = "gap"
    eps: float = 1e-5
    patience: int = 20_000
    name: ClassVar[str] = "clip-gsk"

    def __post_init__(self) -> None:
        self.check()
        check_fields(self, patience=COUNT)

    def begin(self, hulls: HullsByRows, start: list[Vec] | None, monitor: Monitor) -> Descent:
        return _Towards(hulls, start, self.patience, monitor)


class _Towards(Descent):
    """H[g, k] is `<Z_g, z_k>` of the point `Z_g = sum a_i z_i` of a group; the gap was last halved, to
    `best`, after `since` steps."""

    def __init__(
        self, hulls: HullsByRows, start: list[Vec] | None, patience: int, monitor: Monitor
    ) -> None:
        self.hulls, self.monitor = hulls, monitor
        self.patience, self.a = patience, hulls.start(start)
        self.H = hulls.points(self.a)
        self.F = hulls.pull + self.H.sum(axis=0)
        self.diagonal = hulls.gram.diagonal[hulls.index] * hulls.s**2
        self.operations = 2 * hulls.n
        self.stuck, self.best, self.since = False, np.inf, 0

    def go(self, at: Place, tol: float, limit: int) -> None:
        hulls, gram, end = self.hulls, self.hulls.gram, min(limit, self.steps + 1000)
        while True:
            done, code, missing = numerics.clip_gsk(
                gram.store, gram.where, hulls.index, self.diagonal, hulls.s, hulls.group, hulls.cap,
                hulls.mass, at.level, end - self.steps, float(self.steps), gram.used,
                self.monitor.stop, self.a, self.H, self.F,
            )  # fmt: skip
            self.steps += done
            self.operations += done * hulls.n
            if code != _MISSING:
                break
            gram.fetch(missing)
        self.stuck = code == _STUCK

    def ended(self, gap: float, limit: int) -> Answer | None:
        if gap <= 0.5 * self.best:
            self.best, self.since = gap, self.steps
        if self.stuck or self.steps - self.since >= self.patience:
            why = "no sample below its cap lowers the norm" if self.stuck else "too slow"
            message = (
                f"clip-gsk stalled after {self.steps} steps ({why}), and the relative gap is {gap:.2g}; "
                'use solver="clip-mdm", which cannot stall'
            )
            return Answer(status="stalled", message=message)
        message = f"{self.steps} steps left a relative gap of {gap:.2g}; raise max_iter"
        return Answer(status="max_iter", message=message) if self.steps >= limit else None
