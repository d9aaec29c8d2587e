"""Accelerated proximal gradient, Algorithm 1 of Ito, Takeda and Toh (2015)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ucm.data.linear import Vec
from ucm.errors import ParameterError
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Solver
from ucm.language.contracts import Projectable
from ucm.solvers.threads import blas_threads

__all__ = ["APG"]

_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class APG(Solver[MinNorm]):
    """`q <- P(p - grad f(p) / L)` with momentum, for `f(q) = ||x(q)||^2 / 2`.

    Each of the paper's four strategies (section 3.2) can be switched off.

    Parameters
    ----------
    stop : "gap" (relative duality gap below tol) or "paper" (`||L (q - p)|| < eps`)
    eps : the paper's absolute tolerance, for its form with mass 1/2 per class
    backtracking : test L against the quadratic model every 10 iterations; else L is the Lipschitz
        constant, by power iteration
    decrease_L : try L / eta at each test
    restart : drop the momentum when it points uphill
    decrease_eta : `eta <- delta eta + (1 - delta)` at each restart
    eta, delta : as above; the paper's 1.1 and 0.8
    eta_min : floor of eta. Without one it tends to 1 and L can no longer grow
    L : start value; None for the largest squared column norm, as in the paper

    Notes
    -----
    As x is affine in q, x(p) comes from x(q) without a product, so an iteration costs one pass. The
    count of iterations, and so its limit, goes on through restarts.
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
    name: ClassVar[str] = "apg"

    def __post_init__(self) -> None:
        if self.stop not in ("gap", "paper"):
            raise ParameterError(f'APG: stop is "gap" or "paper", got {self.stop!r}')
        if not self.eta >= self.eta_min > 1.0:
            raise ParameterError(f"APG: eta >= eta_min > 1, got {self.eta} and {self.eta_min}")
        if not 0.0 < self.delta < 1.0:
            raise ParameterError(f"APG: delta lies in (0, 1), got {self.delta}")
        if not self.eps > 0.0 or (self.L is not None and not self.L > 0.0):
            raise ParameterError(f"APG: eps and L are positive, got {self.eps} and {self.L}")

    def refuse(self, form: MinNorm) -> str | None:
        if form.norm != 2.0:
            return "it takes the Euclidean norm only"
        if form.couplings:
            return "the blocks are coupled by an intersection"
        for b in form.blocks:
            if not isinstance(b.domain, Projectable):
                return f"{b.domain!r} has no projection"
        return None

    def predicted_passes(self, form: MinNorm) -> float:
        return 800.0

    def solve(self, form: MinNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        with blas_threads(form.n):
            return self._solve(form, monitor, start)

    def _solve(self, form: MinNorm, monitor: Monitor, start: Answer | None) -> Answer:
        cost = form.pass_cost()
        q = form.begin(start)
        x = form.matvec(q)
        monitor.passes += cost / 2
        L = self._first_L(form)
        eta, t = self.eta, 1.0
        p, xp = q, x
        since = 0  # iterations since the last restart
        best = _Best(q, x, form.center)
        unit = 2.0 if any(b.samples is not None and b.classes is None for b in form.blocks) else 1.0
        answer, k = Answer(q), 0
        for k in range(1, monitor.limit(100_000) + 1):
            since += 1
            gradient = form.rmatvec(xp)
            monitor.passes += cost / 2
            fp = 0.5 * float(xp @ xp)
            test = self.backtracking and since % 10 == 1
            if test and self.decrease_L:
                L /= eta
            while True:
                new = _step(form, p, gradient, L)
                xnew = form.matvec(new)
                monitor.passes += cost / 2
                if not test or _below_model(fp, gradient, new, p, L, 0.5 * float(xnew @ xnew)):
                    break
                L *= eta
            moved = L * _distance(new, p)
            if since % 100 == 1 or since % 10 == 0 or moved < self.eps * unit:
                gap, norm = best.update(form, new, xnew)
                monitor.passes += cost / 2
                stop = monitor.report(k, -norm, gap)
                near_zero = norm <= max(0.1 * monitor.tol, 1e-10) * best.largest
                if near_zero or (self.stop == "gap" and gap <= 0.5 * monitor.tol):
                    break
                if self.stop == "paper" and (
                    moved < self.eps * unit
                    or (since % 100 == 1 and best.step(form, L) < self.eps * unit)
                ):
                    break
                if stop:
                    answer.status, answer.message = "interrupted", "stopped by the callback"
                    break
            uphill = sum(float(g @ (a - b)) for g, a, b in zip(gradient, new, q, strict=True))
            if self.restart and uphill > 0.0:
                # as printed: from q^(k-1), momentum zero
                p, xp, t, since = q, x, 1.0, 0
                if self.decrease_eta:
                    eta = max(self.delta * eta + (1.0 - self.delta), self.eta_min)
                continue
            t_next = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
            beta = (t - 1.0) / t_next
            p = [a + beta * (a - b) for a, b in zip(new, q, strict=True)]
            xp = xnew + beta * (xnew - x)
            q, x, t = new, xnew, t_next
        else:
            answer.status = "max_iter"
            gap, norm = best.update(form, q, x)
            monitor.report(k, -norm, gap)
            answer.message = f"{monitor.limit(100_000)} iterations left a relative gap of {gap:.2g}"
        answer.q = best.q
        return answer

    def _first_L(self, form: MinNorm) -> float:
        if self.L is not None:
            return self.L
        if not self.backtracking:
            return 1.01 * _lipschitz(form)
        squares = [float((b.map.column_norms() ** 2).max(initial=0.0)) for b in form.blocks]
        return max([*squares, _TINY])


class _Best:
    """The last point assessed: its gap comes from w = x / ||x||."""

    def __init__(self, q: list[Vec], x: Vec, center: Vec) -> None:
        self.q, self.x = q, x
        self.largest = max(float(np.linalg.norm(x)), float(np.linalg.norm(center)))

    def update(self, form: MinNorm, q: list[Vec], x: Vec) -> tuple[float, float]:
        """The relative gap and the norm of x."""
        self.q, self.x = q, x
        norm = form.space.norm(x)
        self.largest = max(self.largest, norm)
        if norm == 0.0:
            return 0.0, 0.0
        gap = norm - form.lower_bound(x / norm)
        return gap / max(norm, 1e-12 * self.largest), norm

    def step(self, form: MinNorm, L: float) -> float:
        """`||L (T_L(q) - q)||`, the paper's second test."""
        return L * _distance(_step(form, self.q, form.rmatvec(self.x), L), self.q)


def _step(form: MinNorm, p: Sequence[Vec], gradient: Sequence[Vec], L: float) -> list[Vec]:
    """`T_L(p) = P(p - grad / L)`."""
    return [
        b.domain.project(v - g / L, classes=b.classes)  # type: ignore[attr-defined]
        for b, v, g in zip(form.blocks, p, gradient, strict=True)
    ]


def _distance(a: Sequence[Vec], b: Sequence[Vec]) -> float:
    return math.sqrt(sum(float((u - v) @ (u - v)) for u, v in zip(a, b, strict=True)))


def _below_model(
    fp: float, gradient: Sequence[Vec], new: Sequence[Vec], p: Sequence[Vec], L: float, f: float
) -> bool:
    """Equation (8): `f(new) <= f(p) + <grad, new - p> + L/2 ||new - p||^2`, up to rounding."""
    model = fp
    for g, a, b in zip(gradient, new, p, strict=True):
        model += float(g @ (a - b)) + 0.5 * L * float((a - b) @ (a - b))
    return f <= model + 1e-15 * fp


def _lipschitz(form: MinNorm) -> float:
    """The largest eigenvalue of `sum_k A_k A_k'`, by power iteration."""
    w = np.ones(form.n) / math.sqrt(form.n)
    value = 0.0
    for _ in range(200):
        z = sum((b.map.matvec(b.map.rmatvec(w)) for b in form.blocks), start=np.zeros(form.n))
        old, value = value, float(np.linalg.norm(z))
        if value == 0.0:
            return _TINY
        w = z / value
        if abs(value - old) <= 1e-6 * value:
            break
    return value
