"""Accelerated proximal gradient, Algorithm 1 of Ito, Takeda and Toh (2015)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ucm.data.linear import Vec
from ucm.data.options import FLAG, POSITIVE, STOP, check_fields, one_of, optional, within
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Solver
from ucm.language.contracts import Projectable
from ucm.solvers.accelerated import Iterate, Smooth, State, Watched, inner
from ucm.solvers.baselines.projections import project, refuse
from ucm.solvers.threads import blas_threads

__all__ = ["APG"]

_LIMIT = 100_000
_PATIENCE = 10_000  # iterations in which the gap is not halved
_STUCK = 3  # times in a row that rounding hides every step
_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class APG(Solver[MinNorm]):
    """Accelerated proximal gradient: `q <- P(p - grad f(p) / L)` with momentum, `f(q) = ||x(q)||^2 / 2`.

    Each of the paper's four strategies (section 3.2) can be switched off.

    Parameters
    ----------
    stop : "gap" (relative duality gap below tol) or "paper" (`||L (q - p)|| < eps`)
        The rule that ends it.
    eps
        The paper's absolute tolerance, for its form with mass 1/2 per class.
    backtracking
        Test L against the quadratic model every 10 iterations; else L is the Lipschitz
        constant, by power iteration.
    decrease_L
        Try L / eta at each test.
    restart
        Drop the momentum when it points uphill.
    decrease_eta
        `eta <- delta eta + (1 - delta)` at each restart.
    eta, delta
        As above; the paper's 1.1 and 0.8.
    eta_min
        Floor of eta, at least 1. With 1, as printed, eta tends to 1 and L can no longer grow.
    L
        Start value; None for the largest squared column norm, as in the paper.
    projection : "exact", "bisection" or "breakpoints"
        How weights are projected: by the root of their domain; by the paper's Algorithms 2 and 3, for a
        capped simplex and for the simplex of one class in a Euclidean ball; by breakpoint search with random
        pivots, for a capped simplex.

    Notes
    -----
    As x is affine in q, x(p) comes from x(q) without a product, so an iteration costs one pass.

    `APG(stop="paper", eta_min=1.0)` is Algorithm 1 as printed, but for this: the count of iterations, and so
    its limit, goes on through restarts; rounding, 1e-15 of f, is forgiven in the test of L, which gives up
    after 3,000 trials of a factor close to 1; eps refers to mass 1/2 per class, whatever the form has; and it
    ends where 0 lies in U to rounding, or the gap was not halved in 10,000 iterations.
    """

    stop: str = "gap"
    eps: float = 1e-6
    backtracking: bool = True
    decrease_L: bool = True
    restart: bool = True
    decrease_eta: bool = True
    eta: float = 1.1
    delta: float = 0.8
    eta_min: float = 1.01
    L: float | None = None
    projection: str = "exact"
    name: ClassVar[str] = "apg"

    def __post_init__(self) -> None:
        check_fields(
            self,
            stop=STOP,
            eps=POSITIVE,
            backtracking=FLAG,
            decrease_L=FLAG,
            restart=FLAG,
            decrease_eta=FLAG,
            eta=within("a number above 1", lambda x: 1.0 < x < math.inf),
            delta=within("a number in (0, 1)", lambda x: 0.0 < x < 1.0),
            L=optional(POSITIVE),
            projection=one_of("exact", "bisection", "breakpoints"),
        )
        within(f"a number from 1 to eta = {self.eta}", lambda x: 1.0 <= x <= self.eta).check(
            "APG", "eta_min", self.eta_min, "give eta_min=1.0"
        )

    def refuse(self, form: MinNorm) -> str | None:
        if form.norm != 2.0:
            return "it takes the Euclidean norm only"
        if form.couplings:
            return "the blocks are coupled by an intersection"
        for b in form.blocks:
            if not isinstance(b.domain, Projectable):
                return f"{b.domain!r} has no projection"
        if self.projection == "exact":
            return None
        return next((why for why in (refuse(self.projection, b) for b in form.blocks) if why), None)

    def predicted_passes(self, form: MinNorm) -> float:
        return 800.0

    def solve(self, form: MinNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        with blas_threads(form.n):
            return self._solve(form, monitor, start)

    def _solve(self, form: MinNorm, monitor: Monitor, start: Answer | None) -> Answer:
        run = _Run(self, form, monitor, form.begin(start))
        k, limit = 0, monitor.limit(_LIMIT)
        if monitor.trace:
            run.told(0, run.state.z)
        for k in range(1, limit + 1):
            run.step()
            if run.due() or monitor.late:
                answer = run.verdict(k)
                if answer is not None:
                    return answer
                if run.stalled(k):
                    break
            elif monitor.due(k) and run.told(k, run.state.new):
                return Answer(run.state.new.z).interrupted()
            run.advance()
        gap, _ = run.assess(run.state.z, k)
        message = f"{k} iterations left a relative gap of {gap:.2g}"
        if k < limit:
            message += ", and it falls no more; scale the features, or take another solver"
        return Answer(run.best.z, status="max_iter", message=message)

    def first_L(self, form: MinNorm, monitor: Monitor) -> float:
        """Return the first value of L."""
        if self.L is not None:
            return self.L
        if not self.backtracking:
            return 1.01 * _lipschitz(form, monitor)
        squares = [float((b.map.column_norms() ** 2).max(initial=0.0)) for b in form.blocks]
        return max([*squares, _TINY])


class _Distance(Smooth):
    """`||x||^2 / 2` for the image x(q), over the domains of the blocks."""

    rounding = 1e-15

    def __init__(self, form: MinNorm, monitor: Monitor, projection: str) -> None:
        self.form, self.monitor, self.projection = form, monitor, projection
        self.half = form.pass_cost() / 2

    def iterate(self, z: list[Vec]) -> Iterate:
        self.monitor.passes += self.half
        return Iterate(z, self.form.matvec(z))

    def value(self, at: Iterate) -> float:
        return 0.5 * float(at.image @ at.image)

    def gradient(self, at: Iterate) -> list[Vec]:
        self.monitor.passes += self.half
        return self.form.rmatvec(at.image)

    def prox(self, at: Iterate, gradient: Sequence[Vec], L: float) -> list[Vec]:
        """`T_L(p) = P(p - grad / L)`."""
        steps = [v - g / L for v, g in zip(at.z, gradient, strict=True)]
        if self.projection != "exact":
            return [
                project(self.projection, b, v) for b, v in zip(self.form.blocks, steps, strict=True)
            ]
        return [
            b.domain.project(v)  # type: ignore[attr-defined]
            for b, v in zip(self.form.blocks, steps, strict=True)
        ]


class _Run:
    """One solve.

    distance, f : the problem; the same, watched where it is traced
    half : half a pass
    state : of the method
    eta : by which L grows
    since : iterations since the last restart
    best : the last point assessed
    largest : the largest ||x|| met, the unit in which 0 is judged
    eps : the paper's tolerance in the units of the form
    gap, least, halved : the last gap, the least by halves, and the iteration that reached it
    stuck : assessments in a row at which no step lowered f
    """

    def __init__(self, options: APG, form: MinNorm, monitor: Monitor, q: list[Vec]) -> None:
        self.options, self.form, self.monitor = options, form, monitor
        self.distance = _Distance(form, monitor, options.projection)
        self.half = self.distance.half
        self.f: Smooth = Watched(self.distance) if monitor.trace else self.distance
        self.state = State(self.f.iterate(q), options.first_L(form, monitor))
        self.eta, self.since = options.eta, 0
        self.best = self.state.z
        x = self.best.image
        self.largest = max(float(np.linalg.norm(x)), float(np.linalg.norm(form.center)))
        mass = any(b.samples is not None and b.classes is None for b in form.blocks)
        self.eps = (2.0 if mass else 1.0) * options.eps
        self.gap = self.least = math.inf
        self.halved = self.stuck = 0

    def step(self) -> None:
        """The step from p, L tested every tenth time."""
        self.since += 1
        test = self.options.backtracking and self.since % 10 == 1
        if test and self.options.decrease_L:
            self.state.L /= self.eta
        self.state.step(self.f, self.eta if test else None)

    def due(self) -> bool:
        """Whether the point is to be assessed."""
        return self.since % 10 == 0 or self.since % 100 == 1 or self.state.moved < self.eps

    def assess(self, at: Iterate, k: int) -> tuple[float, bool]:
        """The relative gap, from w = x / ||x||; whether the callback asks to stop."""
        norm = self.form.space.norm(at.image)
        self.best, self.largest = at, max(self.largest, norm)
        self.gap = self._gap(at, norm)
        return self.gap, self._report(k, at, norm, self.gap)

    def _gap(self, at: Iterate, norm: float) -> float:
        if not norm > 0.0:
            return 0.0
        gap = norm - self.form.lower_bound(at.image / norm)
        return gap / max(norm, 1e-12 * self.largest)

    def told(self, k: int, at: Iterate) -> bool:
        """Report a point of the trace, which changes nothing; whether the callback asks to stop."""
        norm = self.form.space.norm(at.image)
        return self._report(k, at, norm, self._gap(at, norm))

    def _report(self, k: int, at: Iterate, norm: float, gap: float) -> bool:
        def more() -> dict[str, Any]:
            passes = self.monitor.passes
            residual = self._residual(at, self.distance)
            self.monitor.passes = passes
            return {
                "q": [v.copy() for v in at.z],
                "x": at.image.copy(),
                "eta": self.eta,
                "residual": residual,
                **self.state.told(self.f),
            }

        return self.monitor.report(k, -norm, gap, more)

    def verdict(self, k: int) -> Answer | None:
        """The answer, where the step is one or the callback asks to stop."""
        self.monitor.passes += self.half
        gap, stop = self.assess(self.state.new, k)
        norm = self.form.space.norm(self.best.image)
        near_zero = self.monitor.at_zero(norm, (1.0 - gap) * norm, self.largest)
        enough = self.monitor.reached(gap) if self.options.stop == "gap" else self._still()
        if near_zero or enough:
            return Answer(self.best.z)
        return Answer(self.best.z).interrupted() if stop else None

    def stalled(self, k: int) -> bool:
        """Whether the gap has not been halved for long, or rounding hides what steps gain."""
        if self.gap < 0.5 * self.least:
            self.least, self.halved = self.gap, k
        self.stuck = self.stuck + 1 if self.state.stuck else 0
        return k - self.halved > _PATIENCE or self.stuck > _STUCK

    def _still(self) -> bool:
        """The paper's rule: `||L (q - p)|| < eps`, or `||L (T_L(q) - q)|| < eps` every 100 iterations."""
        if self.state.moved < self.eps:
            return True
        if self.since % 100 != 1:
            return False
        return self._residual(self.best, self.f) < self.eps

    def _residual(self, q: Iterate, f: Smooth) -> float:
        """`||L (T_L(q) - q)||`."""
        L = self.state.L
        step = Iterate(f.prox(q, f.gradient(q), L), q.image).minus(q)
        return L * math.sqrt(inner(step, step))

    def advance(self) -> None:
        """On to the step; where the momentum pointed uphill, as printed, back to the point before."""
        state, options = self.state, self.options
        uphill = inner(state.gradient, state.new.minus(state.z)) > 0.0
        if not (options.restart and uphill):
            state.accelerate()
            return
        state.restart(state.z)
        self.since = 0
        if options.decrease_eta:
            self.eta = max(options.delta * self.eta + (1.0 - options.delta), options.eta_min)


def _lipschitz(form: MinNorm, monitor: Monitor) -> float:
    """The largest eigenvalue of `sum_k A_k A_k'`, by power iteration from a random vector: one of equal
    entries is orthogonal to the columns where their entries add up to 0."""
    w = np.random.default_rng(0).standard_normal(form.n)
    w /= np.linalg.norm(w)
    value = 0.0
    for _ in range(200):
        z = sum((b.map.matvec(b.map.rmatvec(w)) for b in form.blocks), start=np.zeros(form.n))
        old, value = value, float(np.linalg.norm(z))
        if value == 0.0:
            return _TINY
        w = z / value
        if abs(value - old) <= 1e-6 * value or monitor.late:
            break
    return value
