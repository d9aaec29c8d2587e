"""HiGHS: nearest points in the norms 1 and inf, and one piecewise linear loss with l1 and l infinity
norms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ucm.data.options import COUNT, check_fields, optional
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.objective import INNER, Composite, InnerSolver, Session
from ucm.solvers.linear_programs.distance import nearest_point, polyhedron
from ucm.solvers.linear_programs.generation import Generation

__all__ = ["HiGHS"]

_LARGEST = 1000  # most features with l infinity: its rows enter at once


@dataclass(frozen=True)
class HiGHS(InnerSolver):
    """Linear programs by the dual simplex method, warm from problem to problem.

    Parameters
    ----------
    samples, features
        Samples or features enter the program as needed where there are more than this many; None: all at
        once.
    rough
        A solver whose answer names the samples and features to begin with, where samples enter as needed;
        None: all samples at once.
    """

    samples: int | None = 20_000
    features: int | None = 150
    rough: InnerSolver | None = None
    name: ClassVar[str] = "highs"
    takes: ClassVar[tuple[type, ...]] = (MinNorm, Composite)

    def __post_init__(self) -> None:
        size = optional(COUNT)
        check_fields(self, samples=size, features=size, rough=optional(INNER))

    def refuse(self, form: MinNorm | Composite) -> str | None:
        if isinstance(form, MinNorm):
            if form.norm not in (1.0, math.inf):
                return "it takes the norms 1 and inf of x (inf and 1 of w)"
            others = (b.domain for b in form.blocks if polyhedron(b) is None)
            return next((f"{domain!r} is no polyhedron" for domain in others), None)
        a, c, s, others = form.norms
        if s > 0.0 and form.n > _LARGEST:
            return f"with l infinity it takes at most {_LARGEST} features, got {form.n}"
        if len(form.losses) != 1 or form.losses[0].slope() is None:
            return "it takes one piecewise linear loss (Hinge, Ramp)"
        if c > 0.0 or others or a + s == 0.0:
            return "it takes the norms of l1 and l infinity as the only convex penalty"
        return None

    def open(self, form: Composite, monitor: Monitor) -> Session:
        rough, many = None, self.samples is not None and form.m > self.samples
        if many and self.rough is not None and self.rough.refuse(form) is None:
            rough = self.rough.open(form, monitor)
        features = None if form.norms[2] > 0.0 else self.features
        return Generation(form, monitor, features, rough)

    def solve(
        self, form: MinNorm | Composite, monitor: Monitor, start: Answer | None = None
    ) -> Answer:
        if isinstance(form, MinNorm):
            return nearest_point(form, monitor)
        return super().solve(form, monitor, start)
