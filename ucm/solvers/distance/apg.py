"""Accelerated proximal gradient, Algorithm 1 of Ito, Takeda and Toh (2015).

Beck and Teboulle (2009), A fast iterative shrinkage-thresholding algorithm for linear inverse problems, give
the method.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np

from ucm.data.linear_map import Vec
from ucm.data.options import FLAG, POSITIVE, STOP, TOLERANCE, option, optional, within
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Answer, Solver
from ucm.language.contracts import Projectable
from ucm.native.threads import blas_threads

_TINY = float(np.finfo(float).tiny)

T = TypeVar("T")


@dataclass(frozen=True)
class APG(Solver[MinNorm]):
    """Solve Euclidean nearest points by accelerated proximal gradient: `q <- P(p - grad f(p) / L)`.

    `f(q) = ||x(q)||^2 / 2`, and p is q with momentum. Each of the paper's four strategies (section 3.2) can
    be switched off.

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

    Notes
    -----
    As x is affine in q, x(p) comes from x(q) without a product, so an iteration costs one pass.

    `APG(stop="paper", eta_min=1.0)` is Algorithm 1 as printed, but for this: the count of iterations, and so
    its limit, goes on through restarts; rounding, 1e-15 of f, is tolerated in the test of L, which gives up
    after 3,000 trials of a factor close to 1; eps refers to mass 1/2 per class, whatever the form has; and it
    ends where 0 lies in U to rounding, or the gap was not halved in 10,000 iterations.
    """

    stop: str = option(STOP, "gap")
    eps: float = option(POSITIVE, 1e-6)
    backtracking: bool = option(FLAG, True)
    decrease_L: bool = option(FLAG, True)
    restart: bool = option(FLAG, True)
    decrease_eta: bool = option(FLAG, True)
    eta: float = option(within("a number above 1", lambda x: 1.0 < x < math.inf), 1.1)
    delta: float = option(TOLERANCE, 0.8)
    eta_min: float = 1.01
    L: float | None = option(optional(POSITIVE), None)
    name: ClassVar[str] = "apg"

    def __post_init__(self) -> None:
        super().__post_init__()
        within(f"a number from 1 to eta = {self.eta}", lambda x: 1.0 <= x <= self.eta).check(
            "APG", "eta_min", self.eta_min, "give eta_min=1.0"
        )

    def refuse(self, form: MinNorm) -> str | None:
        return form.reason_against(Projectable, "projection")

    def solve(self, form: MinNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        with blas_threads(form.n):
            return self._solve(form, monitor, start)

    def _solve(self, form: MinNorm, monitor: Monitor, start: Answer | None) -> Answer:
        run = _Run(self, form, monitor, form.begin(start))
        k, limit = 0, monitor.limit(100_000)
        if monitor.trace:
            run.report_trace(0, run.z)
        for k in range(1, limit + 1):
            run.step()
            if run.due() or monitor.timed_out:
                answer = run.verdict(k)
                if answer is not None:
                    return answer
                if run.stalled(k):
                    break
            elif monitor.due(k) and run.report_trace(k, run.new):
                return Answer(run.new.q).interrupted()
            run.advance()
        gap, _ = run.assess(run.z, k)
        message = f"{k} iterations left a relative gap of {gap:.2g}"
        if k < limit:
            message += ", and it falls no more; scale the features, or take another solver"
        return Answer(run.best.q, status="max_iter", message=message)

    def first_L(self, form: MinNorm, monitor: Monitor) -> float:
        """Return the initial L: the option, the Lipschitz constant, or the largest squared column norm.

        The Lipschitz constant, with a margin of 0.01, is taken without backtracking.
        """
        if self.L is not None:
            return self.L
        if not self.backtracking:
            return 1.01 * _lipschitz(form, monitor)
        squares = [float((b.map.column_norms() ** 2).max(initial=0.0)) for b in form.blocks]
        return max([*squares, _TINY])


class _Iterate(NamedTuple):
    """Point q, by block, with its image x(q)."""

    q: list[Vec]
    x: Vec

    def beyond(self, before: _Iterate, beta: float) -> _Iterate:
        """Return the extrapolation `q + beta (q - q_before)`."""
        q = [a + beta * (a - b) for a, b in zip(self.q, before.q, strict=True)]
        return _Iterate(q, self.x + beta * (self.x - before.x))

    def minus(self, other: _Iterate) -> list[Vec]:
        """Return the difference `q - q_other`, by block."""
        return [a - b for a, b in zip(self.q, other.q, strict=True)]


class _Run:
    """State of one solve by APG, of `f(q) = ||x(q)||^2 / 2` over the domains of the blocks.

    counts, spent : the number and the seconds of the evaluations, in a traced solve
    z : the last iterate
    p, gradient : z with its momentum, and the gradient of f there
    new, d : the step from p, and new - p
    L, eta : reciprocal step length, and by which factor it grows
    theta : of the momentum, `beta = (theta - 1) / theta+`
    restarts, since : so far, and iterations since the last one
    best : the last point assessed
    largest : the largest ||x|| met, the unit in which 0 is judged
    eps : the paper's tolerance in the units of the form
    gap, least, halved : the last gap, the least by halves, and the iteration that reached it
    lost, stuck : whether no step from p, of those tried, was seen to lower f; assessments in a row where so
    """

    def __init__(self, options: APG, form: MinNorm, monitor: Monitor, q: list[Vec]) -> None:
        self.options, self.form, self.monitor = options, form, monitor
        self.half = form.pass_cost() / 2
        names = ("gradients", "projections", "products", "evaluations")
        self.counts: dict[str, int] = dict.fromkeys(names, 0)
        self.spent: dict[str, float] = dict.fromkeys(names, 0.0)
        self.z = self.p = self.new = self.best = self._iterate(q)
        self.gradient: list[Vec] = []
        self.d: list[Vec] = []
        self.L = options.first_L(form, monitor)
        self.eta, self.theta, self.restarts, self.since = options.eta, 1.0, 0, 0
        self.largest = max(float(np.linalg.norm(self.z.x)), float(np.linalg.norm(form.center)))
        mass = any(b.samples is not None and b.classes is None for b in form.blocks)
        self.eps = (2.0 if mass else 1.0) * options.eps
        self.gap = self.least = math.inf
        self.halved = self.stuck = 0
        self.lost = False

    def _timed(self, name: str, work: Callable[[], T]) -> T:
        if not self.monitor.trace:
            return work()
        began = time.perf_counter()
        result = work()
        self.spent[name] += time.perf_counter() - began
        self.counts[name] += 1
        return result

    def _iterate(self, q: list[Vec]) -> _Iterate:
        """Return the point q with its image, at the cost of half a pass."""
        self.monitor.passes += self.half
        return _Iterate(q, self._timed("products", lambda: self.form.matvec(q)))

    def _value(self, at: _Iterate) -> float:
        """Return f(q) from the image."""
        return self._timed("evaluations", lambda: 0.5 * float(at.x @ at.x))

    def _gradient(self, at: _Iterate) -> list[Vec]:
        """Return the gradient of f at q, by block, at the cost of half a pass."""
        self.monitor.passes += self.half
        return self._timed("gradients", lambda: self.form.rmatvec(at.x))

    def _stepped(self, at: _Iterate, gradient: list[Vec]) -> list[Vec]:
        """Return the projected gradient step `T_L(q) = P(q - grad f(q) / L)`."""

        def projected() -> list[Vec]:
            steps = zip(self.form.blocks, (v - g / self.L for v, g in zip(at.q, gradient, strict=True)))
            return [b.domain.project(v) for b, v in steps]  # type: ignore[attr-defined]

        return self._timed("projections", projected)

    def step(self) -> None:
        """Take a projected gradient step from p; at every tenth step, adapt L by backtracking.

        `f(new) <= f(p) + <grad, new - p> + L/2 ||new - p||^2` must then hold.
        """
        self.since += 1
        test = self.options.backtracking and self.since % 10 == 1
        if test and self.options.decrease_L:
            self.L /= self.eta
        self.gradient = self._gradient(self.p)
        self._try()
        if not test:
            return
        height = self._value(self.p)
        tolerance = 1e-15 * abs(height)  # rounding of f
        L, trials = self.L, 0
        while not self.monitor.timed_out:
            square = _inner(self.d, self.d)
            model = _inner(self.gradient, self.d) + 0.5 * self.L * square
            if self._value(self.new) <= height + model + tolerance:
                break
            trials += 1
            # 3000 trials of 1.01 exceed 1e12 too
            if trials > 3000 or not self.L < 1e12 * L or not square > 0.0:
                self.L, self.lost = L, True
                return
            self.L *= self.eta
            self._try()
        self.lost = False

    def _try(self) -> None:
        self.new = self._iterate(self._stepped(self.p, self.gradient))
        self.d = self.new.minus(self.p)

    @property
    def moved(self) -> float:
        """Norm `L ||new - p||` of the gradient mapping at p."""
        return self.L * math.sqrt(_inner(self.d, self.d))

    def due(self) -> bool:
        """Return True if this iteration has to check the stopping rule."""
        return self.since % 10 == 0 or self.since % 100 == 1 or self.moved < self.eps

    def assess(self, at: _Iterate, k: int) -> tuple[float, bool]:
        """Return the relative gap for w = x / ||x||, and True if the callback asks to stop."""
        norm = self.form.space.norm(at.x)
        self.best, self.largest = at, max(self.largest, norm)
        self.gap = self._gap(at, norm)
        return self.gap, self._report(k, at, norm, self.gap)

    def _gap(self, at: _Iterate, norm: float) -> float:
        if not norm > 0.0:
            return 0.0
        gap = norm - self.form.lower_bound(at.x / norm)
        return gap / max(norm, 1e-12 * self.largest)

    def report_trace(self, k: int, at: _Iterate) -> bool:
        """Report the iterate to the trace; return True if the callback asks to stop."""
        norm = self.form.space.norm(at.x)
        return self._report(k, at, norm, self._gap(at, norm))

    def _report(self, k: int, at: _Iterate, norm: float, gap: float) -> bool:
        def more() -> dict:
            passes, counts, spent = self.monitor.passes, dict(self.counts), dict(self.spent)
            residual = self._residual(at)
            self.monitor.passes, self.counts, self.spent = passes, dict(counts), dict(spent)
            return {
                "q": [v.copy() for v in at.q],
                "x": at.x.copy(),
                "eta": self.eta,
                "residual": residual,
                "L": self.L,
                "restarts": self.restarts,
                "step": self.moved,
                **counts,
                "spent": spent,
            }

        return self.monitor.report(k, -norm, gap, more)

    def verdict(self, k: int) -> Answer | None:
        """Return an answer on convergence, x = 0 to rounding or a stop by the callback; else None."""
        self.monitor.passes += self.half
        gap, stop = self.assess(self.new, k)
        norm = self.form.space.norm(self.best.x)
        near_zero = self.monitor.at_zero(norm, (1.0 - gap) * norm, self.largest)
        enough = self.monitor.reached(gap) if self.options.stop == "gap" else self._still()
        if near_zero or enough:
            return Answer(self.best.q)
        return Answer(self.best.q).interrupted() if stop else None

    def stalled(self, k: int) -> bool:
        """Return True if the gap has not halved in 10,000 iterations, or rounding hides the steps."""
        if self.gap < 0.5 * self.least:
            self.least, self.halved = self.gap, k
        self.stuck = self.stuck + 1 if self.lost else 0
        return k - self.halved > 10_000 or self.stuck > 3

    def _still(self) -> bool:
        """Return True if `||L (q - p)|| < eps`, or at each 100th iteration `||L (T_L(q) - q)|| < eps`."""
        if self.moved < self.eps:
            return True
        if self.since % 100 != 1:
            return False
        return self._residual(self.best) < self.eps

    def _residual(self, at: _Iterate) -> float:
        """Return the norm `||L (T_L(q) - q)||` of the gradient mapping at q."""
        step = _Iterate(self._stepped(at, self._gradient(at)), at.x).minus(at)
        return self.L * math.sqrt(_inner(step, step))

    def advance(self) -> None:
        """Accept the step and update the momentum; restart from z if uphill and `restart` is set."""
        options = self.options
        if not (options.restart and _inner(self.gradient, self.new.minus(self.z)) > 0.0):
            theta = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * self.theta * self.theta))
            self.p = self.new.beyond(self.z, (self.theta - 1.0) / theta)
            self.z, self.theta = self.new, theta
            return
        self.p, self.theta, self.since = self.z, 1.0, 0
        self.restarts += 1
        if options.decrease_eta:
            self.eta = max(options.delta * self.eta + (1.0 - options.delta), options.eta_min)


def _inner(a: Sequence[Vec], b: Sequence[Vec]) -> float:
    """Return the inner product of two vectors given by block."""
    return sum(float(u @ v) for u, v in zip(a, b, strict=True))


def _lipschitz(form: MinNorm, monitor: Monitor) -> float:
    """Estimate the largest eigenvalue of `sum_k A_k A_k'` by power iteration from a random vector."""
    w = np.random.default_rng(0).standard_normal(form.n)
    w /= np.linalg.norm(w)
    value = 0.0
    for _ in range(200):
        z = sum((b.map.matvec(b.map.rmatvec(w)) for b in form.blocks), start=np.zeros(form.n))
        old, value = value, float(np.linalg.norm(z))
        if value == 0.0:
            return _TINY
        w = z / value
        if abs(value - old) <= 1e-6 * value or monitor.timed_out:
            break
    return value
