"""Bounds of the distance of two reduced hulls at all caps between two solved caps.

With caps `f c` on the weights of each hull, of sum s, `{(q, c): 0 <= q <= f c, sum q = s}` is jointly
convex: between two nearest points x_1 at c_1 and x_2 at c_2,

    x(t) = (1 - t) x_1 + t x_2  is one of U(c(t)),   c(t) = (1 - t) c_1 + t c_2.

For a fixed w the least of w'x over U(c) is a sum over the hulls: with the scores a of its samples ascending,
S_k the sum of the first k and `k = floor(s / (f c))`,

    G_w(c) = f c S_k + (s - f c k) a_(k+1),

linear in c between its kinks `c = s / (f k)`. G is concave in w, so at w(t) = (1 - t) w_1 + t w_2

    (1 - t) G_1(c) + t G_2(c) =: N(t)   gives   N(t) / |w(t)|  <=  distance of U(c(t)) from 0  <=  |x(t)|.

One sort of the scores for each end proves every c between them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import Vec

_ROUNDING = 1e-12  # of a number of samples


@dataclass(frozen=True)
class CappedHull:
    """The capped simplex `0 <= q_i <= factor c`, `sum q = total` of the weights of a hull, for any cap c."""

    size: int
    total: float
    factor: float

    def kinks(self, low: float, high: float) -> Vec:
        """Return the kinks of G_w in (low, high): the caps c at which `total / (factor c)` is an integer."""
        first = math.floor(self.total / (self.factor * high))
        last = math.ceil(self.total / (self.factor * low))
        k = np.arange(max(first, 1), min(last, self.size) + 1, dtype=np.float64)
        c = np.divide(self.total, self.factor * k)
        return c[(c > low) & (c < high)]


@dataclass(frozen=True)
class CapSolution:
    """The weights, point x, dual vector w and sorted scores of the solution at one cap c.

    c : the cap
    q : the weights, by block
    x, w : (n,) a point of U(c), and a dual vector about as long
    scores : of the samples of each hull, ascending, each times its sign in x; the weights q give `w'x`
    sums : cumulative sums of the scores, from 0 on
    """

    c: float
    q: list[Vec]
    x: Vec
    w: Vec
    scores: tuple[Vec, ...]
    sums: tuple[Vec, ...]

    @classmethod
    def of(cls, c: float, q: list[Vec], x: Vec, w: Vec, scores: Sequence[Vec]) -> CapSolution:
        """Return the solution with sorted scores and their cumulative sums, from unsorted scores."""
        ordered = tuple(np.sort(a) for a in scores)
        sums = tuple(np.concatenate([[0.0], np.cumsum(a)]) for a in ordered)
        return cls(c, q, x, w, ordered, sums)

    def least(self, hulls: Sequence[CappedHull], c: Vec) -> Vec:
        """Return `G_w(c)`, the minimum of w'x over U(c), at each cap c."""
        total = np.zeros(c.size)
        for hull, a, S in zip(hulls, self.scores, self.sums, strict=True):
            k = np.floor(hull.total / (hull.factor * c) * (1.0 + _ROUNDING)).astype(np.intp)
            k = np.clip(k, 0, a.size - 1)
            total += hull.factor * c * S[k] + (hull.total - hull.factor * c * k) * a[k]
        return total


def interpolated(
    hulls: Sequence[CappedHull], first: CapSolution, last: CapSolution, c: float
) -> tuple[float, Vec, Vec, float]:
    """Return t, x(t), w(t) and the lower bound `N(t) / |w(t)|` of the distance; -inf where w(t) = 0."""
    t = (c - first.c) / (last.c - first.c) if last.c > first.c else 0.0
    x, w, N = (
        (1.0 - t) * one + t * other
        for one, other in (
            (first.x, last.x),
            (first.w, last.w),
            (first.least(hulls, np.array([c])), last.least(hulls, np.array([c]))),
        )
    )
    length = float(np.linalg.norm(w))
    return t, x, w, float(N[0]) / length if length > 0.0 else -math.inf


def largest_gap(hulls: Sequence[CappedHull], first: CapSolution, last: CapSolution) -> float:
    """Return an upper bound of the relative gap of `interpolated` over all caps between two solutions.

    Between neighbouring kinks N is quadratic in t, and so is `(|x|^2 / r + r |w|^2) / 2 >= |x| |w|`, r the
    ratio `|x| / |w|` in the middle: the largest difference over `|x| |w|` is that of a quadratic, divided by
    the least `|x|` and `|w|` of the piece.
    """
    low, high = first.c, last.c
    c = np.unique(np.concatenate([[low, high], *(h.kinks(low, high) for h in hulls)]))
    G = np.array([first.least(hulls, c), last.least(hulls, c)])
    t = (c - low) / (high - low)
    t[0], t[-1] = 0.0, 1.0
    xx, ww = (np.array([u @ u, u @ v, v @ v]) for u, v in ((first.x, last.x), (first.w, last.w)))
    a, b = t[:-1], t[1:]
    middle = 0.5 * (a + b)
    r = np.sqrt(_square(xx, middle) / np.maximum(_square(ww, middle), 1e-300))
    r = np.where(r > 0.0, r, 1.0)

    def over(t: Vec, G: NDArray[np.float64]) -> Vec:
        return 0.5 * (_square(xx, t) / r + r * _square(ww, t)) - ((1.0 - t) * G[0] + t * G[1])

    f, g = over(a, G[:, :-1]), over(b, G[:, 1:])
    h = over(middle, 0.5 * (G[:, :-1] + G[:, 1:]))
    curve = 2.0 * (f + g - 2.0 * h)
    slope = g - f - curve
    u = np.where(curve < 0.0, np.clip(-slope / np.where(curve < 0.0, 2.0 * curve, -1.0), 0.0, 1.0), 0.0)
    top = np.maximum(np.maximum(f, g), f + slope * u + curve * u * u)
    least = np.sqrt(_least(xx, a, b) * _least(ww, a, b))
    gaps = np.where(least > 0.0, np.maximum(top, 0.0) / np.maximum(least, 1e-300), np.inf)
    return float(gaps.max())


def _square(v: Vec, t: Vec) -> Vec:
    """Return `|(1 - t) v_1 + t v_2|^2` from `v = (v_1'v_1, v_1'v_2, v_2'v_2)`."""
    s = 1.0 - t
    return s * s * v[0] + 2.0 * s * t * v[1] + t * t * v[2]


def _least(v: Vec, a: Vec, b: Vec) -> Vec:
    """Return the minimum of `|(1 - t) v_1 + t v_2|^2` over t in [a, b], from the inner products v."""
    curve = v[0] - 2.0 * v[1] + v[2]
    vertex = (v[0] - v[1]) / curve if curve > 0.0 else 0.0
    return np.maximum(_square(v, np.clip(vertex, a, b)), 0.0)
