"""The difference-of-convex-functions algorithm, Algorithm 1 of Ong and Le Thi (2013)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ucm.composite import DifferenceOfConvex, InnerSolver, Point, Session
from ucm.contracts import Solver, Vec
from ucm.errors import ParameterError
from ucm.solvers.driver import Monitor

__all__ = ["DCA"]


@dataclass(frozen=True)
class DCA(Solver):
    """`z <- argmin G(z) - <gamma, z>`, gamma a subgradient of H at the last z.

    The first z solves the convex problem with the convex part of the loss and L1 (or L2) at the weight
    of the penalty, as the paper does: at w = 0 the gradient of H may vanish, and the
    iterations stop there. The objective never increases. They stop at a critical point, where the next
    problem is already solved within tolerance, or when the objective stops.

    Parameters
    ----------
    inner : the solver of the convex problems; None: chosen by the structure
    max_outer : limit of convex problems for each start
    seed : of the further starts, hyperplanes through random samples

    Notes
    -----
    Ong and Le Thi (2013), Algorithm 1 and Theorem 3.1.
    """

    inner: InnerSolver | None = None
    max_outer: int = 200
    seed: int = 0
    name: ClassVar[str] = "dca"

    def __post_init__(self) -> None:
        if self.inner is not None and not isinstance(self.inner, InnerSolver):
            raise ParameterError(
                f"DCA: inner is a solver of composite problems, got {self.inner!r}; "
                "for example ucm.solvers.HiGHS()"
            )
        if self.max_outer < 1:
            raise ParameterError(f"DCA: max_outer is at least 1, got {self.max_outer}")

    def refuse(self, form: DifferenceOfConvex) -> str | None:
        return None if self.inner is None else self.inner.refuse(form.G)

    def predicted_passes(self, form: DifferenceOfConvex) -> float:
        return float("nan")

    def solve(
        self, form: DifferenceOfConvex, monitor: Monitor, start: Any = None, starts: int = 1
    ) -> Point:
        """`start` is a `Point`; `starts` counts it, or the convex problem in its place."""
        if self.inner is None:
            raise ParameterError("DCA: give the inner solver, or let ucm.compile choose it")
        session = self.inner.open(form.G, monitor)
        first = start
        if first is None:
            first = session.solve(form.first(), form.G.flat(), monitor.tol)
            if first.status != "converged":
                first.message = f"the convex problem to start from: {first.message}"
                return first
        best = self._descend(form, session, first, monitor)
        height = _value(form, best)
        generator = np.random.default_rng(self.seed)
        for _ in range(starts - 1):
            other = self._descend(form, session, _random(form, first, generator), monitor)
            if _value(form, other) < height:
                best, height = other, _value(form, other)
        return best

    def _descend(
        self, form: DifferenceOfConvex, session: Session, point: Point, monitor: Monitor
    ) -> Point:
        """From one start to a critical point."""
        margin = form.G.margins(point.w, point.b)
        height = form.value(margin, point.w)
        tilt = form.tilt(margin, point.w)
        session.place(point.w, point.b)
        exact = max(1e-12, min(monitor.tol, 1e-10))
        for _ in range(monitor.limit(self.max_outer)):
            gap = _gap(form, point, margin, tilt)
            if monitor.report(monitor.iterations + 1, height, gap):
                return replace(point, status="interrupted", message="stopped by the callback")
            if gap <= exact:
                return point
            new = session.solve(form.G, tilt, min(monitor.tol, 1e-8))
            if new.status != "converged":
                return replace(point, status=new.status, message=new.message)
            margin_new = form.G.margins(new.w, new.b)
            below = form.value(margin_new, new.w)
            if not below < height - 1e-12 * abs(height):
                # the last problem is solved by the last z, and its dual point proves it
                return replace(point, slopes=new.slopes)
            drop = (height - below) / max(abs(height), 1e-300)
            point, margin, height = new, margin_new, below
            tilt = form.tilt(margin, point.w)
            if drop <= 1e-3 * monitor.tol and _gap(form, point, margin, tilt) <= monitor.tol:
                monitor.report(monitor.iterations + 1, height, _gap(form, point, margin, tilt))
                return point
        return replace(
            point,
            status="max_iter",
            message=f"{monitor.limit(self.max_outer)} convex problems solved; raise max_iter",
        )


def _value(form: DifferenceOfConvex, point: Point) -> float:
    return form.value(form.G.margins(point.w, point.b), point.w)


def _gap(form: DifferenceOfConvex, point: Point, margin: Vec, tilt: Any) -> float:
    """How much the next convex problem can gain at most, relative; inf without a dual point."""
    if point.slopes is None:
        return np.inf
    bound, violation = form.G.lower_bound(point.slopes, margin, tilt)
    gain = form.G.value(margin, point.w, tilt) - bound
    size = max(abs(form.value(margin, point.w)), 1e-300)
    return np.inf if violation > 1e-9 else max(gain, 0.0) / size


def _random(form: DifferenceOfConvex, first: Point, generator: np.random.Generator) -> Point:
    """A hyperplane through a random sample, its margins spread like a random multiple of 1."""
    G = form.G
    direction = generator.standard_normal(G.n)
    scores = np.asarray(G.X @ direction)
    scale = float(np.exp(generator.uniform(-1.0, 2.5))) / max(float(scores.std()), 1e-300)
    w = scale * direction
    b = -scale * float(scores[generator.integers(G.m)])
    return Point(w, b)
