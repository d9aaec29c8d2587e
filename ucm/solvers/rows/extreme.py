"""mu-GSK and mu-MDM: steps to and from extreme points of reduced convex hulls.

Section 3 of Lopez, Barbero and Dorronsoro (2011), after Mavroforakis and Theodoridis (2006) and Tao, Wu
and Wang (2008). An extreme point has `1/cap` terms, so a step needs that many rows of the Gram matrix: those
that are kept, or, where so many do not fit, their sum, computed again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ucm import numerics
from ucm.data.linear import Vec
from ucm.data.options import FLAG, check_fields
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.nearest import HullsByRows
from ucm.solvers.rows.descent import Descending, Descent, Place

__all__ = ["GSK", "MDM"]

_MISSING, _STUCK = 3, 4


@dataclass(frozen=True)
class _Extreme(Descending):
    """What both do between two reports.

    Parameters
    ----------
    stop : "gap" (relative duality gap below tol), or "paper" (every class gap below `eps ||W||`)
    eps : of the paper's rule
    """

    stop: str = "gap"
    eps: float = 1e-5
    minkowski: bool = field(default=False, init=False, repr=False)  # of GSK
    pairs: ClassVar[bool]

    def __post_init__(self) -> None:
        self.check()
        check_fields(self, minkowski=FLAG)

    def begin(self, hulls: HullsByRows, start: list[Vec] | None, monitor: Monitor) -> Descent:
        return _Towards(hulls, start, self, monitor)


class _Towards(Descent):
    """H[g, k] is `<Z_g, z_k>` of the point `Z_g = sum a_i z_i` of a group."""

    def __init__(
        self, hulls: HullsByRows, start: list[Vec] | None, solver: _Extreme, monitor: Monitor
    ) -> None:
        self.hulls, self.monitor = hulls, monitor
        self.solver, self.a = solver, hulls.start(start)
        self.H = hulls.points(self.a)
        self.F = hulls.pull + self.H.sum(axis=0)
        if solver.minkowski:
            self.H = self.H.sum(axis=0, keepdims=True)
        self.stuck = False

    def go(self, at: Place, tol: float, limit: int) -> None:
        # by the paper's rule after every step while there are few
        hulls, gram = self.hulls, self.hulls.gram
        chunk = 1 if self.solver.stop == "paper" and self.steps < 1000 else 1000
        end, known = min(limit, self.steps + chunk), False
        row, share = np.empty(hulls.n), np.empty(hulls.n)
        while True:
            done, code, operations = numerics.extreme_steps(
                gram.store, gram.where, hulls.index, hulls.s, hulls.group, hulls.cap, hulls.mass,
                self.solver.pairs, at.level, end - self.steps, float(self.steps), gram.used,
                self.monitor.stop, known, row, share, self.a, self.H, self.F,
            )  # fmt: skip
            self.steps += done
            self.operations += operations
            if code != _MISSING or self.monitor.late:
                break
            needed = np.flatnonzero(share)
            lacking = hulls.index[needed[gram.where[hulls.index[needed]] < 0]]
            known = needed.size > gram.store.shape[0]
            if known:
                row[:] = gram.combine(hulls.index[needed], share[needed], hulls.index)
            else:
                gram.keep(lacking)
        self.stuck = code == _STUCK

    def ended(self, gap: float, limit: int) -> Answer | None:
        if self.stuck:
            message = (
                f"{self.solver.name} stalled after {self.steps} steps: no step it knows lowers the norm, "
                f'and the relative gap is {gap:.2g}; use solver="clip-mdm", which cannot stall'
            )
            return Answer(status="stalled", message=message)
        message = (
            f"{self.steps} steps left a relative gap of {gap:.2g}; raise max_iter, or use "
            'solver="clip-mdm"'
        )
        return Answer(status="max_iter", message=message) if self.steps >= limit else None


@dataclass(frozen=True)
class GSK(_Extreme):
    """mu-GSK, equation (9): the point of one class moves towards the extreme point of its hull.

    Parameters
    ----------
    stop : str
        "gap" (relative duality gap below tol), or "paper" (every class gap below `eps ||W||`).
    eps : float
        Of the paper's rule.
    minkowski : bool
        The points of all classes move at once, by the same share: the Minkowski variant that section 5 of
        the paper speaks of.
    """

    minkowski: bool = False
    name: ClassVar[str] = "gsk"
    pairs: ClassVar[bool] = False


class MDM(_Extreme):
    """mu-MDM, equation (10): weight moves from one support vector to an extreme point of the hull.

    Terms at the cap cannot take weight and are passed over; where too few are left, or none lowers
    the norm, the method stalls short of the optimum (Figure 1 of the paper), and says so.

    Parameters
    ----------
    stop : str
        "gap" (relative duality gap below tol), or "paper" (every class gap below `eps ||W||`).
    eps : float
        Of the paper's rule.
    """

    name: ClassVar[str] = "mdm"
    pairs: ClassVar[bool] = True
