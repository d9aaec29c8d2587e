"""Semismooth Newton for `|w|^2/2 + sum C_i max(0, u_i)^p`, `u_i = 1 - y_i (w'x_i + b)`, linear kernel.

A proximal augmented Lagrangian on the dual (17) of Sun (2024). From the multipliers a, one outer step
minimises over (w, b)

    |w|^2 / 2 + sum_i max over s >= 0 of  s u_i - l_i*(s) - (s - a_i)^2 / (2 sigma),

whose gradient is `(w - sum s_i y_i x_i, -y's)` at `s + sigma xi(s) = a + sigma u` and whose generalised
Hessian is `[I + X'DX, X'D1; 1'DX, 1'D1]`, `D_i = sigma / (1 + sigma xi'(s_i))`. Then a becomes s, and
sigma grows. The primal function itself has no second derivative where u = 0 and p < 2; this one has a
bounded one for every p, and each step costs one product with the samples and one `X'DX` over rows with
s > 0. Zhao, Sun and Toh (2010) give the method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import linalg

from ucm import numerics
from ucm.data.linear import Vec
from ucm.data.maps import SampleMap
from ucm.errors import ParameterError
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.pair import HingeDual
from ucm.forms.solver import Solver

__all__ = ["HingeNewton"]


@dataclass(frozen=True)
class HingeNewton(Solver[HingeDual]):
    """Proximal augmented Lagrangian with semismooth Newton steps in (w, b).

    Parameters
    ----------
    max_order : largest number of features (the order of the linear systems)
    max_inner : Newton steps within one outer step
    """

    max_order: int = 1500
    max_inner: int = 60
    name: ClassVar[str] = "hinge-newton"

    def __post_init__(self) -> None:
        if self.max_order < 1 or self.max_inner < 1:
            raise ParameterError("HingeNewton: max_order and max_inner must be at least 1")

    def refuse(self, form: HingeDual) -> str | None:
        if form.X is None:
            return "it works on features, and a kernel hides them"
        if form.X.shape[1] > self.max_order:
            return f"its linear systems would have order {form.X.shape[1]}, above {self.max_order}"
        return None

    def predicted_passes(self, form: HingeDual) -> float:
        return 40.0

    def solve(self, form: HingeDual, monitor: Monitor, start: Answer | None = None) -> Answer:
        state = _State(form, None if start is None else start.slopes)
        answer = Answer(slopes=state.a)
        best, since = np.inf, 0
        for outer in range(1, monitor.limit(100) + 1):
            steps = self._inner(state, monitor)
            state.a = state.s
            a, value, gap = state.assess()
            monitor.passes += 1.0
            if gap < best:
                since = 0 if gap < 0.5 * best else since + 1
                best, answer.slopes, answer.b = gap, a, state.b
            else:
                since += 1
            stop = monitor.report(outer, value, gap)
            if gap <= 0.5 * monitor.tol:
                return answer
            if stop:
                answer.status, answer.message = "interrupted", "stopped by the callback"
                return answer
            if since >= 8:
                break
            state.advance(9.0 if steps <= 2 else 4.0 if steps <= 6 else 2.1, gap)
        answer.status = "max_iter"
        answer.message = f'the gap stayed at {best:.2g}; scale the features, or take solver="psmo"'
        return answer

    def _inner(self, state: _State, monitor: Monitor) -> int:
        for step in range(self.max_inner):
            g, gb = state.gradient()
            monitor.passes += 0.5
            if state.good_enough(g, gb):
                return step
            d, db, share = state.direction(g, gb)
            monitor.passes += 0.5 + share * state.w.size / 2
            if not state.search(d, db, float(g @ d) + gb * db):
                return step + 1
        return self.max_inner


class _State:
    """w, b, and for every sample u and s, with s the multipliers that (w, b) call for."""

    def __init__(self, form: HingeDual, start: Vec | None) -> None:
        self.form = form
        self.y, self.C, self.p, self.X = form.y, form.C, form.p, form.X
        self.map = SampleMap(form.X)
        self.a = np.zeros(form.m) if start is None else np.maximum(start, 0.0)
        self.w = self.X.T @ (self.a * self.y)
        self.b = 0.0
        self.u = 1.0 - self.y * (self.X @ self.w)
        typical = float(self.C.mean()) * self.p
        self.sigma = typical if start is None else 100.0 * typical
        self.s = self.multipliers(self.u)
        self.target = 1e-3  # accuracy of the inner problem, relative

    def multipliers(self, u: Vec) -> Vec:
        """`s >= 0` with `s + sigma xi(s) = a + sigma u`; p = 1: clipped to [0, C]."""
        v = self.a + self.sigma * u
        if self.p == 1.0:
            return np.clip(v, 0.0, self.C)
        e = 1.0 / (self.p - 1.0)
        s = np.empty_like(v)
        for c in np.unique(self.C):
            k = c == self.C
            part = np.empty(np.count_nonzero(k))
            numerics.power_root(v[k], self.sigma * (c * self.p) ** -e, e, part)
            s[k] = part
        return s

    def curvature(self) -> Vec:
        """D."""
        if self.p == 1.0:
            return np.where((self.s > 0.0) & (self.s < self.C), self.sigma, 0.0)
        D = np.zeros_like(self.s)
        k = self.s > 0.0
        xi = (self.s[k] / (self.C[k] * self.p)) ** (1.0 / (self.p - 1.0))
        D[k] = self.sigma / (1.0 + self.sigma * xi / ((self.p - 1.0) * self.s[k]))
        return D

    def gradient(self) -> tuple[Vec, float]:
        z = self.s * self.y
        return self.w - self.X.T @ z, -float(z.sum())

    def good_enough(self, g: Vec, gb: float) -> bool:
        move = float(np.linalg.norm(self.s - self.a)) / np.sqrt(self.sigma)
        size = max(float(np.linalg.norm(self.w)), 1e-12)
        balance = abs(gb) / max(float(self.s.sum()), 1e-300)
        return balance <= self.target and float(np.linalg.norm(g)) <= min(
            max(0.1 * move, self.target * size), 10.0 * self.target * size
        )

    def direction(self, g: Vec, gb: float) -> tuple[Vec, float, float]:
        D = self.curvature()
        H = self.map.weighted_gram(D)
        H[np.diag_indices_from(H)] += 1.0
        total = float(D.sum())
        if total == 0.0:
            return -g, -gb / max(self.sigma, 1.0), 0.0
        c = self.X.T @ D
        H -= np.outer(c, c / total)  # b eliminated
        d = -_solve(H, g - c * (gb / total))
        return d, -(gb + float(c @ d)) / total, np.count_nonzero(D) / D.size

    def search(self, d: Vec, db: float, slope: float) -> bool:
        """Move to where the (monotone) slope along the direction is small; False when it cannot."""
        if not slope < 0.0:
            return False
        change = -self.y * (self.X @ d + db)
        curve, first = float(d @ d), float(self.w @ d)
        low, high, t = 0.0, np.inf, 1.0
        f_low, f_high = slope, np.inf
        u, s = self.u, self.s
        for _ in range(50):
            u = self.u + t * change
            s = self.multipliers(u)
            f = first + t * curve + float(s @ change)
            if abs(f) <= 0.2 * abs(slope):
                break
            if f < 0.0:
                low, f_low = t, f
                f_high *= 0.5
            else:
                high, f_high = t, f
                f_low *= 0.5
            t = 2.0 * t if not np.isfinite(high) else low - f_low * (high - low) / (f_high - f_low)
            if not low < t < high:
                t = 0.5 * (low + high)
        self.w = self.w + t * d
        self.b += t * db
        self.u, self.s = u, s
        return True

    def advance(self, factor: float, gap: float) -> None:
        """The next outer problem: from the present multipliers, sigma larger, the inner end tighter."""
        self.sigma = min(self.sigma * factor, 1e16)
        self.target = max(min(0.1 * self.target, 0.1 * gap), 1e-14)
        self.s = self.multipliers(self.u)

    def assess(self) -> tuple[Vec, float, float]:
        """Feasible multipliers, the primal objective, and the relative gap between them."""
        a = self.a.copy()
        positive = self.y > 0
        plus, minus = float(a[positive].sum()), float(a[~positive].sum())
        if plus > 0.0 and minus > 0.0:
            a[positive] *= min(1.0, minus / plus)
            a[~positive] *= min(1.0, plus / minus)
        else:
            a[:] = 0.0
        w = self.X.T @ (a * self.y)
        f = self.X @ self.w
        loss, dual = numerics.hinge_gap(self.y, self.C, a, f, self.b, self.p)
        value = 0.5 * float(self.w @ self.w) + loss
        gap = (value - dual + 0.5 * float(w @ w)) / max(abs(value), 1e-300)
        return a, value, gap


def _solve(H: Any, g: Vec) -> Vec:
    """`H^-1 g`, H positive definite up to rounding."""
    ridge = 0.0
    for _ in range(8):
        try:
            factor = linalg.cho_factor(H, lower=True, check_finite=False)
            return linalg.cho_solve(factor, g, check_finite=False)
        except linalg.LinAlgError:
            ridge = max(10.0 * ridge, 1e-15 * float(np.diagonal(H).max()))
            H = H + ridge * np.eye(H.shape[0])
    return np.linalg.lstsq(H, g)[0].astype(np.float64)
