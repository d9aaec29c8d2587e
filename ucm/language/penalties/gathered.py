"""The calculus of a sum of convex penalties: proximal map, conjugate, domain of the conjugate."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from ucm.data.linear import Vec
from ucm.language.penalties.norms import LInf, soft
from ucm.language.term_algebra import ScaledPenalty
from ucm.language.terms import ProximalPenalty

__all__ = ["Gathered", "slope_near"]

_STEP = 1e-6  # relative


def slope_near(h: ProximalPenalty, w: Vec, z: Vec) -> Vec:
    """A subgradient of h at its proximal point of w, which is near to w where z is as large as the slopes;
    in the domain of h*, of which rounding can be large where z is."""
    size, steep = float(np.abs(w).max(initial=0.0)), float(np.abs(z).max(initial=0.0))
    if size == 0.0 or steep == 0.0:
        return np.zeros_like(w)
    t = _STEP * size / steep
    g = (w - h.prox(w, t)) / t
    return g / max(h.gauge(g), 1.0)


@dataclass(frozen=True)
class Gathered:
    """`R(w) = a ||w||_1 + c ||w||_2^2 + s ||w||_inf + f(w)`, f the sum of the other terms.

    Exact where `proximal` holds, which leaves a single convex function h besides L1 and L2. Otherwise
    the conjugate is that of some of the terms, an upper bound of `R*`, as penalties are not negative.

    Parameters
    ----------
    terms : the penalties
    """

    terms: tuple[ProximalPenalty, ...]

    @functools.cached_property
    def norms(self) -> tuple[float, float, float, tuple[ProximalPenalty, ...]]:
        """(a, c, s, others)."""
        a = c = s = 0.0
        others = []
        for penalty in self.terms:
            known = penalty.norms()
            if known is None:
                others.append(penalty)
            else:
                a, c, s = a + known[0], c + known[1], s + known[2]
        return a, c, s, tuple(others)

    @functools.cached_property
    def _rest(self) -> ProximalPenalty | None:
        """h: what has neither the form of L1 nor of L2."""
        _, _, s, others = self.norms
        if s > 0.0:
            return ScaledPenalty(s, LInf())
        return others[0] if others else None

    def proximal(self) -> bool:
        """Whether the sum has a proximal map: at most one term besides L1 and L2."""
        _, _, s, others = self.norms
        return len(others) + (s > 0.0) <= 1

    def apart(self) -> list[tuple[Gathered, tuple[ProximalPenalty, ...]]]:
        """The ways to take a sum with a proximal map out of this one, and what is left; first with nothing
        left, which bounds `R*` too."""
        ways: list[tuple[Gathered, tuple[ProximalPenalty, ...]]] = [(self, ())]
        if not self.proximal():
            other = [h for h in self.terms if Gathered((h,))._rest is not None]
            for kept in other:
                left = tuple(h for h in other if h is not kept)
                head = tuple(h for h in self.terms if not any(h is out for out in left))
                ways.append((Gathered(head), left))
        return ways

    @property
    def square(self) -> float | None:
        """c where the sum is `c ||w||_2^2`; else None."""
        a, c, s, others = self.norms
        return c if c > 0.0 and not (a or s or others) else None

    def value(self, w: Vec) -> float:
        """`R(w)`."""
        return sum(penalty.value(w) for penalty in self.terms)

    def prox(self, v: Vec, t: float) -> Vec:
        """`argmin_w ||w - v||^2 / 2 + t R(w)`; see `proximal`."""
        a, c, _, _ = self.norms
        v, t = v / (1.0 + 2.0 * t * c), t / (1.0 + 2.0 * t * c)
        v = soft(v, t * a) if a > 0.0 else v
        return v if self._rest is None else self._rest.prox(v, t)

    def conjugate(self, z: Vec) -> float:
        """`R*(z)` for z in its domain (see `gauge`); rounding beyond it is forgiven."""
        a, c, _, _ = self.norms
        z = soft(z, a) if a > 0.0 else z
        if c > 0.0:  # sup <z, w> - c |w|^2 - h(w) is attained at the proximal map of h / (2c)
            if self._rest is None:
                return 0.25 * float(z @ z) / c
            w = self._rest.prox(z / (2.0 * c), 0.5 / c)
            return float(z @ w) - c * float(w @ w) - self._rest.value(w)
        return 0.0 if self._rest is None else self._rest.conjugate(z)

    def gauge(self, z: Vec) -> float:
        """The least r with z in r times the domain of R*."""
        a, c, _, _ = self.norms
        if c > 0.0:
            return 0.0
        top = float(np.abs(z).max(initial=0.0))
        if self._rest is None:
            return top / a if a > 0.0 else np.inf if top > 0.0 else 0.0
        if a == 0.0:
            return self._rest.gauge(z)
        low, high = 0.0, top / a
        for _ in range(200):  # z in r dom R* iff soft(z, r a) in r dom h*
            middle = 0.5 * (low + high)
            if not low < middle < high:
                break
            inside = self._rest.gauge(soft(z, middle * a)) <= middle
            low, high = (low, middle) if inside else (middle, high)
        return high

    def share(self, z: Vec, u: Vec) -> tuple[float, float]:
        """The largest share of z, at most 1, with `u + share z` in the domain of R*, and what is missed
        there: rounding at its boundary is named rather than pulled, as the share would be 0."""
        over = self.gauge(u + z) - 1.0
        if over <= 0.0:
            return 1.0, 0.0
        if over <= 1e-7 and self.gauge(u) >= 1.0 - 1e-6:
            return 1.0, over
        if self._rest is None:
            a = self.norms[0]
            out = np.abs(u + z) > a
            return max(float(((a - np.sign(z[out]) * u[out]) / np.abs(z[out])).min()), 0.0), 0.0
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            inside = self.gauge(u + middle * z) <= 1.0
            low, high = (middle, high) if inside else (low, middle)
        return low, 0.0
