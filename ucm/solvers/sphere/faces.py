"""p = inf and p = 1: the ball of the dual norm has few vertices, and one convex program each is global."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ucm.data.linear_map import Vec
from ucm.data.options import COUNT, check_fields
from ucm.forms.answer import Answer, LowerBoundProof
from ucm.forms.monitor import Monitor
from ucm.forms.sphere import UnitNorm, UnitSolver
from ucm.solvers.sphere.cuts import Cuts
from ucm.solvers.sphere.ray_shooting import Reach, radial


@dataclass(frozen=True)
class Faces(UnitSolver):
    """The global minimum over `||w||_inf = 1` by 2 n programs, over `||w||_1 = 1` by 2^n.

    `||w||_p = max <g, w>` over the vertices g of the ball of the dual norm, one for each face of the unit
    ball. Minimising f on `<g, w> = 1` for each of them, without the other bounds of the face, gives no less
    than the global minimum, as `w / ||w||_p` has no larger f; the least of them is the minimum. The dual
    programs `max {s : -s g in U}` find how far U reaches along every vertex: the largest ball in U. Over sums
    of reduced hulls they are linear, over intersections conic; over any other set cutting planes bound
    each face from below until no face can hold a better w.

    Parameters
    ----------
    most
        Largest number of features for p = 1.
    """

    most: int = 12
    name: ClassVar[str] = "faces"

    def __post_init__(self) -> None:
        check_fields(self, most=COUNT)

    def refuse(self, form: UnitNorm) -> str | None:
        if form.norm not in (1.0, np.inf):
            return "it takes p = 1 and p = inf"
        if form.norm == 1.0 and form.image.n > self.most:
            return f"p = 1 has 2^n faces: it takes up to {self.most} features, got {form.image.n}"
        return None

    def solve(self, form: UnitNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        v = form.begin(start)
        answer = Answer(form.image.centers(), form.lift(v))
        if form.hulls is None and not form.image.couplings:
            cuts = Cuts(form, monitor, v)
            found = self._search(form, monitor, cuts.reach, answer)
            if cuts.bounded:
                monitor.passes += cuts.passes
                return found
        return self._search(form, monitor, radial(form, monitor), answer)

    def _search(self, form: UnitNorm, monitor: Monitor, reach: Reach, answer: Answer) -> Answer:
        """Return the least over all faces."""
        points: list[list[Vec]] = []
        best = np.inf
        for g in form.vertices():
            if not monitor.may_continue:
                return answer.ended("max_iter", f"{monitor.iterations} faces searched; raise max_iter")
            found = reach(g)
            monitor.passes += 1.0
            if found is None and monitor.timed_out:
                return answer.interrupted()
            if found is None:
                return answer.ended("max_iter", "the program of a face had no answer; scale the features")
            points.append(found.q)
            # a face may end with a bound before its own minimum is known
            height = found.s if form.image.couplings else form.height(form.unit(found.v))
            if height < best:
                best, answer = height, found.answer(form)
            if monitor.report(monitor.iterations + 1, best, float("nan")):
                return answer.interrupted()
        answer.witness = LowerBoundProof("vertices", points)
        return answer
