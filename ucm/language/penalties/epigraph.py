"""A penalty of w together with a bound of a norm of w: `R(w) + ind(h(w) <= t)`, of the variables (w, t).

Losses of the worst point of a set about each sample are losses of `o - y_i (w'x_i + b) + r_i t` at the least
t, since they do not fall in it: with one more feature of value `-y_i r_i` they are plain losses.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from ucm.data.linear_map import Vec
from ucm.language import cvx as cp
from ucm.language.cone import Bound
from ucm.language.domains.norm_ball import norm as length
from ucm.language.objective import ScaledPenalty, split_scalar
from ucm.language.parameter import Scalar, Scope
from ucm.language.penalties.combined import CombinedPenalty
from ucm.language.penalties.norms import Norm
from ucm.language.power import power_root
from ucm.language.robust import dual_exponent
from ucm.language.terms import NEGLIGIBLE, BoxSupport, ProximalPenalty, last, shrink_box

_HOLDS = 1e-9  # of a norm: a violation that counts as rounding
_STEP = 1e-6  # relative, for the derivative of a proximal map in its multiplier
_STEPS = 100  # of the search for a multiplier
_ENDLESS = 1e280  # of its parameter along the projections on balls


Boxes = tuple[Bound, Bound, float, Bound]
"""The box (lower, upper) of R, the factor c of its ridge, and the bound k of the box of h."""


class OfFirst(ProximalPenalty):
    """A penalty of all weights but the last."""

    penalty: ProximalPenalty

    def check_features(self, n: int) -> None:
        self.penalty.check_features(n - 1)

    @property
    def keeps_signs(self) -> bool:  # type: ignore[override]
        return self.penalty.keeps_signs

    def value(self, w: Vec) -> float:
        return self.penalty.value(w[:-1])

    def prox(self, v: Vec, t: float) -> Vec:
        return np.append(self.penalty.prox(v[:-1], t), v[-1])

    def prox_slope_times(self, v: Vec, t: float, M: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.vstack([self.penalty.prox_slope_times(v[:-1], t, M[:-1]), M[-1:]])

    def conjugate(self, z: Vec) -> float:
        return self.penalty.conjugate(z[:-1])

    def gauge(self, z: Vec) -> float:
        return self.penalty.gauge(z[:-1]) if abs(z[-1]) <= NEGLIGIBLE * np.abs(z).max() else np.inf

    def project_onto_domain_cone(self, z: Vec) -> Vec:
        return np.append(self.penalty.project_onto_domain_cone(z[:-1]), 0.0)

    def project_domain(self, w: Vec) -> Vec:
        return np.append(self.penalty.project_domain(w[:-1]), w[-1])

    def order(self) -> int:
        return self.penalty.order()

    def cvxpy(self, w: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        return self.penalty.cvxpy(w[:-1], factor, scope)


class LastWeight(BoxSupport):
    """The penalty `c w_n + ind(w_n >= 0)` of the last of n weights."""

    c: float
    n: int

    def box(self) -> tuple[Bound, Bound]:
        low, high = np.zeros((2, self.n))
        low[-1], high[-1] = -np.inf, self.c
        return low, high

    def cvxpy(self, w: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        return scope.of(factor) * self.c * w[-1] + cp.indicator([w[-1] >= 0])


class Epigraph(ProximalPenalty):
    """The penalty `R(w) + ind(h(w) <= t)` of the weights (w, t), h a norm.

    With the multiplier mu >= 0 of the bound, the proximal map of `s R + ind` at (v, u) is that of
    `s R + mu h` at v, with `t = u + mu`: h(w) - t falls in mu. The conjugate at (z, -c), c >= 0, is
    `(R + c h)*(z)`.

    terms : the terms of R, which may be none
    h : the terms of the norm
    """

    keeps_signs: ClassVar[bool] = False

    terms: tuple[ProximalPenalty, ...]
    h: tuple[ProximalPenalty, ...]

    def check_features(self, n: int) -> None:
        for R in (*self.terms, *self.h):
            R.check_features(n - 1)

    def height(self, w: Vec) -> float:
        """Return h(w)."""
        return sum(f.value(w) for f in self.h)

    def _sum(self, mu: float, s: float = 1.0) -> CombinedPenalty:
        """Return the penalty `s R + mu h`."""
        terms = self.terms if s == 1.0 else tuple(ScaledPenalty(s, R) for R in self.terms)
        return CombinedPenalty((*terms, *(ScaledPenalty(mu, f) for f in self.h)))

    @property
    def proximal(self) -> bool:
        """True if the proximal map of the sums `R + mu h` is known."""
        return self._sum(1.0).proximal()

    @functools.cached_property
    def boxes(self) -> Boxes | None:
        """The boxes of R and h; None for others."""
        R, h = CombinedPenalty(self.terms).boxed, CombinedPenalty(self.h).boxed
        return None if R is None or h is None else (*R, h[1])

    def _part(self, s: float, mu: float) -> tuple[CombinedPenalty, float]:
        """Return the penalty `s R + mu h` as a product of a penalty and a number."""
        return (self._sum(mu / s), s) if self.terms and s > 0.0 else (CombinedPenalty(self.h), mu)

    def _prox(self, v: Vec, s: float, mu: float) -> Vec:
        """Return the proximal map of `s R + mu h` at v."""
        if self.boxes is None:
            R, t = self._part(s, mu)
            return R.prox(v, t)
        lower, upper, c, bound = self.boxes
        return shrink_box(v, s * lower - mu * bound, s * upper + mu * bound) / (1.0 + 2.0 * s * c)

    def _multiplier(self, v: Vec, u: float, s: float) -> tuple[float, Vec]:
        """Return mu and w of the proximal map of `s R + ind` at (v, u), by the Illinois rule, to rounding."""
        w = self._prox(v, s, 0.0)
        high, low = self.height(w) - u, 0.0
        if high <= 0.0:
            return 0.0, w
        if self._curve is not None:
            return self._on_curve(v, u, s, *self._curve)
        above, below, side = high, self.height(w := self._prox(v, s, high)) - u - high, 0
        mu, least = high, 1e-15 * max(high, abs(u))
        for _ in range(_STEPS):
            if not (below < -least and high - low > 1e-15 * high):
                break
            mu = (low * below - high * above) / (below - above)
            if not low < mu < high:
                break
            excess = self.height(w := self._prox(v, s, mu)) - u - mu
            if abs(excess) <= least:
                break
            if excess > 0.0:
                low, above, below = mu, excess, 0.5 * below if side > 0 else below
            else:
                high, below, above = mu, excess, 0.5 * above if side < 0 else above
            side = 1 if excess > 0.0 else -1
        return mu, w

    @functools.cached_property
    def _curve(self) -> tuple[float, float, float] | None:
        """The numbers (a, p', c) of `h = a ||w||_p` and `R = c ||w||_2^2`, 1.2 <= p < inf; else None."""
        R, [(a, norm), *more] = CombinedPenalty(self.terms), map(split_scalar, self.h)
        ridge = R.square if self.terms else 0.0
        if more or ridge is None or not isinstance(norm, Norm) or norm.p == 2.0 or not 1.2 <= norm.p < np.inf:
            return None
        return a, dual_exponent(norm.p), ridge

    def _on_curve(self, v: Vec, u: float, s: float, a: float, p: float, c: float) -> tuple[float, Vec]:
        """Return mu > 0 and w as `_multiplier`, without a projection for every mu.

        With `k = 1 + 2 s c`, `w = v / k - q`, q the projection of v / k on the p-ball of radius `mu a / k`:
        `|q| + lam |q|^(p-1) = |v| / k`. Every lam has its q, and so its w and mu.
        """
        k = 1.0 + 2.0 * s * c
        unit = float(np.abs(v).max()) / k or 1.0
        x = np.abs(v) / (k * unit)

        def at(lam: float) -> tuple[float, Vec]:
            q = power_root(x, lam, p - 1.0)
            return k * unit / a * length(q, p), np.sign(v) * (unit * (x - q))

        def excess(lam: float) -> float:
            mu, w = at(lam)
            return self.height(w) - u - mu

        low, high = 0.0, 1.0
        if excess(low) >= 0.0:  # (v, u) lies in the polar cone
            return -u, np.zeros_like(v)
        while excess(high) < 0.0 and high < _ENDLESS:
            low, high = high, 16.0 * high
        if not excess(high) >= 0.0:  # rounding alone, or numbers that overflow
            return at(high)
        root: Any = brentq(excess, low, high, xtol=1e-300)
        return at(root)

    def value(self, w: Vec) -> float:
        w, t = w[:-1], float(w[-1])
        height = self.height(w)
        return sum(R.value(w) for R in self.terms) if height - t <= _HOLDS * abs(height) else np.inf

    def prox(self, v: Vec, t: float) -> Vec:
        # where h is steep, rounding of mu leaves h(w) far from u + mu: the larger one is in the epigraph
        mu, w = self._multiplier(v[:-1], float(v[-1]), t)
        return np.append(w, max(self.height(w), v[-1] + mu) if mu > 0.0 else v[-1])

    def prox_slope_times(self, v: Vec, t: float, M: NDArray[np.float64]) -> NDArray[np.float64]:
        # With g in dh(w) the derivative of w is J (dv - g dmu), and that of t is du + dmu = <g, dw>: so
        # dmu = -(<D, dv> + du) / (1 + k) with D = dw / dmu = -J g and k = <g, J g> = -dh / dmu.
        x, u = v[:-1], float(v[-1])
        mu, w = self._multiplier(x, u, t)
        R, s = self._part(t, mu)
        J = R.prox_slope_times(x, s, M[:-1])
        if mu == 0.0:
            return np.vstack([J, M[-1:]])
        step = _STEP * mu
        moved = self._prox(x, t, mu - step)
        D, k = (w - moved) / step, (self.height(moved) - self.height(w)) / step
        change: Vec = -(D @ M[:-1] + M[-1]) / (1.0 + max(k, 0.0))
        return np.vstack([J + np.outer(D, change), M[-1] + change])

    def conjugate(self, z: Vec) -> float:
        return self._sum(max(-float(z[-1]), 0.0)).conjugate(z[:-1])

    def gauge(self, z: Vec) -> float:
        z, c = z[:-1], -float(z[-1])
        if c < -NEGLIGIBLE * np.abs(z).max(initial=0.0):
            return np.inf
        c = max(c, 0.0)
        top = CombinedPenalty(self.terms).gauge(z) if self.terms else np.inf
        if top == np.inf:
            inside = self._sum(c).gauge(z) <= 1.0 + NEGLIGIBLE
            return (1.0 if self.terms else 0.0) if inside else np.inf
        return last(lambda s: self._sum(c, s).gauge(z) > 1.0, 0.0, top)[1] if top > 0.0 else 0.0

    def project_onto_domain_cone(self, z: Vec) -> Vec:
        if not self.terms:  # the polar cone of the epigraph, which has this point for every mu
            mu, w = self._multiplier(z[:-1], float(z[-1]), 1.0)
            return np.append(z[:-1] - w, -mu)
        return np.append(z[:-1], min(float(z[-1]), 0.0))

    def project_domain(self, w: Vec) -> Vec:
        x = CombinedPenalty(self.terms).project_domain(w[:-1]) if self.terms else w[:-1]
        return np.append(x, max(float(w[-1]), self.height(x)))

    def order(self) -> int:
        return self._sum(1.0).order

    def cvxpy(self, w: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        x, plain = w[:-1], Scope()
        bound = cp.indicator([sum(f.cvxpy(x, 1.0, plain) for f in self.h) <= w[-1]])
        return sum((R.cvxpy(x, factor, scope) for R in self.terms), start=bound)
