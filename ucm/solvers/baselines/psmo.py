"""pSMO: sequential minimal optimisation for the p-hinge loss, Algorithm 1 and Listing 1 of Sun (2024).

With `s_i = y_i a_i` the dual (17) is `min s'K s / 2 - sum a_i + sum C_i (p - 1) xi_i^p`, `y'a = 0`, `a >=
0`, `xi_i = (a_i / (C_i p))^(1/(p-1))`; for p = 1 without xi, and `a_i <= C_i`. `F_i = y_i (1 - xi_i) - (K
s)_i` is minus y_i times the gradient, and equals the bias at every free i. A pair with `F_i > F_j` improves
along `s_i += t, s_j -= t`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq

from ucm.data.linear_map import Vec
from ucm.data.options import SEED, option
from ucm.forms.hinge_dual import HingeDual, slacks
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Answer, Solver


def step(
    d: float, eta: float, i: tuple[float, float, float], j: tuple[float, float, float], p: float, top: float
) -> float:  # fmt: skip
    """Return the step t in [0, top] of a pair, by equation (22) of Sun (2024) with its signs corrected.

    `eta t + y_i [xi_i(a_i + y_i t) - xi_i] - y_j [xi_j(a_j - y_j t) - xi_j]` is d; i and j are (a, y, C).
    The equation is linear for p = 1 and 2.
    """
    (ai, yi, Ci), (aj, yj, Cj) = i, j
    if p in (1.0, 2.0):
        eta += 0.0 if p == 1.0 else 0.5 / Ci + 0.5 / Cj
        return min(top, d / eta) if eta > 0.0 else top
    C, y = np.array([Ci, Cj]), np.array([yi, -yj])
    before = slacks(np.array([ai, aj]), C, p)

    def slope(t: float) -> float:
        after = slacks(np.maximum([ai + yi * t, aj - yj * t], 0.0), C, p)
        return eta * t + float(y @ (after - before)) - d

    hi = top if np.isfinite(top) else 1.0
    while not np.isfinite(top) and slope(hi) < 0.0:
        hi *= 2.0
    if slope(hi) <= 0.0:
        return hi
    root: Any = brentq(slope, 0.0, hi, xtol=1e-16 * hi)
    return float(root)


@dataclass(frozen=True)
class PSMO(Solver[HingeDual]):
    """Solve the dual of a p-hinge loss by the pSMO algorithm of Sun (2024), the second index at random.

    i has the largest F among the variables that can grow; j is a random violator.

    `ucm.solvers.SMO` chooses j by second order.

    Parameters
    ----------
    seed
        Of j.
    """

    seed: int = option(SEED, 42)
    name: ClassVar[str] = "psmo"

    def refuse(self, form: HingeDual) -> str | None:
        return None if form.gram.fits else "the Gram matrix is larger than cache_size"

    def solve(self, form: HingeDual, monitor: Monitor, start: Answer | None = None) -> Answer:
        y, C, p, K = form.y, form.C, form.p, form.gram.matrix()
        a = np.zeros(form.m) if start is None or start.slopes is None else form.feasible(start.slopes)
        most = C if p == 1.0 else np.full(form.m, np.inf)
        F = y * (1.0 - slacks(a, C, p)) - K @ (y * a)
        rng, limit, gap = np.random.default_rng(self.seed), monitor.limit(1_000_000), np.inf
        for k in range(limit + 1):
            grows, falls = np.where(y > 0, a < most, a > 0), np.where(y > 0, a > 0, a < most)
            i = int(np.where(grows, F, -np.inf).argmax())
            violators = np.flatnonzero(falls & (F[i] > F))
            # every 100 steps, as the gap costs as much as a step
            if k % (monitor.trace or 100) == 0 or k == limit or violators.size == 0:
                low = float(F[violators].min()) if violators.size else float(F[i])
                primal, gap = _gap(form, a, F, 0.5 * (float(F[i]) + low))
                stop = monitor.report(k, primal, gap, lambda a=a: {"slopes": a.copy()})
                if monitor.reached(gap) or violators.size == 0:
                    return Answer(slopes=a)
                if stop:
                    return Answer(slopes=a).interrupted()
            if k == limit:
                break
            j = int(rng.choice(violators))
            bounds = (most[i] - a[i] if y[i] > 0 else a[i], a[j] if y[j] > 0 else most[j] - a[j])
            t = step(
                float(F[i] - F[j]), max(float(K[i, i] + K[j, j] - 2.0 * K[i, j]), 0.0),
                (a[i], y[i], C[i]), (a[j], y[j], C[j]), p, float(min(bounds)),
            )  # fmt: skip
            pair = [i, j]
            before = slacks(a[pair], C[pair], p)
            a[pair] = np.clip(a[pair] + t * y[pair] * [1.0, -1.0], 0.0, most[pair])
            F -= t * (K[i] - K[j])
            F[pair] -= y[pair] * (slacks(a[pair], C[pair], p) - before)
        return Answer(slopes=a).ended("max_iter", f'{limit} steps left a gap of {gap:.2g}; use solver="smo"')


def _gap(form: HingeDual, a: Vec, F: Vec, b: float) -> tuple[float, float]:
    """Return the primal objective at the bias b, and the relative duality gap."""
    xi = slacks(a, form.C, form.p)
    scores = form.y * (1.0 - xi) - F
    square = float((form.y * a) @ scores)
    primal = 0.5 * square + float(form.C @ np.maximum(1.0 - form.y * (scores + b), 0.0) ** form.p)
    dual = float(a.sum()) - 0.5 * square - (form.p - 1.0) / form.p * float(a @ xi)
    return primal, (primal - dual) / max(abs(primal), 1e-300)
