"""What the solvers of reduced convex hulls by inner products share."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ucm.errors import brief
from ucm.forms.distance import MinNorm
from ucm.forms.solver import Solver


class NearestPoint(Solver[MinNorm]):
    """Base class of solvers of reduced hulls by inner products; `weighted` for a bound of each sample."""

    weighted: ClassVar[bool] = True

    def refuse(self, form: MinNorm) -> str | None:
        if (why := form.reason_against()) is not None:
            return why
        if not form.blocks:
            return "there is no hull"
        for b in form.blocks:
            if b.domain.groups is None:
                return f"{brief(b.domain)} is not the weights of a reduced convex hull"
            if b.groups is None and not self.weighted:
                return "it knows one cap for a class"
        if form.space.gram is not None:
            if any(b.samples is None or b.weight == 0.0 for b in form.blocks):
                return "a hull is not made of the samples of the kernel"
            uses = np.zeros(form.n, dtype=np.intp)
            for b in form.blocks:
                uses[b.samples] += 1
            if uses.max() > 1:
                return "two hulls share samples"
        return None
