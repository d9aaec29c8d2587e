"""The difference-of-convex-functions algorithm, Algorithm 1 of Ong and Le Thi (2013)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from ucm.data.linear import Vec
from ucm.errors import ParameterError
from ucm.forms.objective import DifferenceOfConvex, InnerSolver, Point, Session, Tilt
from ucm.forms.solver import Solver
from ucm.language.penalties import ScaledPenalty
from ucm.solvers.driver import Monitor

__all__ = ["DCA"]

_FREE = 50  # most free weights of a random start


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
    seed : of the further starts
    draws : random vertices of which the best becomes a further start

    Notes
    -----
    Ong and Le Thi (2013), Algorithm 1 and Theorem 3.1.
    """

    inner: InnerSolver | None = None
    max_outer: int = 200
    seed: int = 0
    draws: int = 100
    name: ClassVar[str] = "dca"

    def __post_init__(self) -> None:
        if self.inner is not None and not isinstance(self.inner, InnerSolver):
            raise ParameterError(
                f"DCA: inner is a solver of composite problems, got {self.inner!r}; "
                "for example ucm.solvers.HiGHS()"
            )
        if self.max_outer < 1 or self.draws < 1:
            raise ParameterError("DCA: max_outer and draws must be at least 1")

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
        for k in range(starts - 1):
            if k % 3 == 0:
                begin = _relaxation(form, session, generator, monitor.tol)
            elif k % 3 == 1:
                begin = _vertex(form, generator, self.draws)
            else:
                begin = _nearby(form, best, generator, self.draws)
            other = self._descend(form, session, begin, monitor)
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


def _relaxation(
    form: DifferenceOfConvex, session: Session, generator: np.random.Generator, tol: float
) -> Point:
    """The convex problem to start from, at another weight of the penalty, and with random samples
    given up where the loss is bounded."""
    factor = float(10.0 ** generator.uniform(-3.0, 0.5))
    weights = tuple(ScaledPenalty(factor, penalty) for penalty in form.start)
    lost = generator.random(form.G.m) < generator.choice([0.0, 0.1, 0.3])
    below = form.tilt(np.full(form.G.m, -np.inf), np.zeros(form.G.n)).margin
    tilt = Tilt(np.where(lost, below, 0.0), np.zeros(form.G.n))
    return session.solve(replace(form.G, penalties=weights), tilt, tol)


def _nearby(
    form: DifferenceOfConvex, best: Point, generator: np.random.Generator, draws: int
) -> Point:
    """The best of several random steps away from the best point so far."""
    G = form.G
    size = float(np.abs(best.w).mean()) or 1.0
    chosen, height = best, np.inf
    for _ in range(draws):
        step = size * float(np.exp(generator.uniform(-2.0, 1.0)))
        w = best.w + step * generator.standard_normal(G.n)
        scores = G.X[generator.integers(G.m)] @ w
        b = best.b + step * generator.standard_normal() if generator.random() < 0.5 else -scores
        point = Point(w, float(np.squeeze(b)))
        value = _value(form, point)
        if value < height:
            chosen, height = point, value
    return chosen


def _vertex(form: DifferenceOfConvex, generator: np.random.Generator, draws: int) -> Point:
    """The best of several random vertices: k weights are free, the others 0, and k + 1 samples lie at
    kinks of the loss, as they do at a solution of a linear program."""
    G = form.G
    kinks = [loss.offset for loss in (*G.losses, *form.losses)]
    best, height = Point(np.zeros(G.n), 0.0), np.inf
    for _ in range(draws):
        k = int(generator.integers(1, min(G.n, G.m - 1, _FREE) + 1))
        features = generator.choice(G.n, k, replace=False)
        samples = generator.choice(G.m, k + 1, replace=False)
        rows = G.X[samples][:, features]
        rows = rows.toarray() if sparse.issparse(rows) else rows
        system = np.column_stack([rows, np.ones(k + 1)]) * G.y[samples, None]
        vertex = np.linalg.lstsq(system, generator.choice(kinks, k + 1))[0]
        w = np.zeros(G.n)
        w[features] = vertex[:-1]
        point = Point(w, float(vertex[-1]))
        value = _value(form, point)
        if value < height:
            best, height = point, value
    return best
