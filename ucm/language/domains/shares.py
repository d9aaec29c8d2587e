"""The shares of the operands of a convex combination: a price, at which all shares sum to 1.

The nearest point to v with `q_g in t_g D_g`, `sum t_g = 1`, has one multiplier mu of the sum. The share t_g
that is best at the price mu does not grow with mu and is piecewise linear, for a capped simplex and for a
ball. So their sum is, and its root lies on a line between two breakpoints: no iteration is needed.

For a capped simplex the best (q, t) of `|q - v|^2 / 2 + mu t` with `0 <= q <= t / r`, `sum q = t`, is
`q = clip(v - theta, 0, t / r)`. With `G(x) = sum_i max(0, v_i - x) + r x`, convex and piecewise linear,
`sum q = t` says that theta and `psi = theta + t / r` lie at one level, `G(theta) = G(psi) = L`, and the
derivative in t vanishes where `L / r - (psi - theta) = mu`. All are piecewise linear in L.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import Vec

_WHOLE = 1e-12  # relative: the inverse of a cap that is a whole number up to rounding


class Share(NamedTuple):
    """The share of an operand as a function of the price.

    Attributes
    ----------
    price, t, theta : breakpoints with descending price: the first share is 0, the last one 1
    r : t over the largest entry of q
    """

    price: Vec
    t: Vec
    theta: Vec
    r: float = 1.0

    @classmethod
    def up_to_one(cls, price: Vec, t: Vec, theta: Vec, r: float = 1.0) -> Share:
        """Return the part up to the share 1, so that no larger share cancels."""
        k = min(int(np.searchsorted(t, 1.0)), t.size - 1)  # of NaN the end
        part = (1.0 - t[k - 1]) / (t[k] - t[k - 1])
        ends = [np.append(v[:k], v[k - 1] + part * (v[k] - v[k - 1])) for v in (price, theta)]
        return cls(ends[0], np.append(t[:k], 1.0), ends[1], r)


def simplex_share(v: Vec, cap: float) -> Share:
    """Return the share of a capped simplex with the scores v, descending."""
    n = v.size
    if n == 0:
        return Share(np.array([-np.inf]), np.zeros(1), np.zeros(1))
    r = max(1.0 / cap, 1.0)
    r = min(float(np.rint(r)) if abs(r - np.rint(r)) <= _WHOLE * r else r, float(n))
    k = min(int(r), n - 1)
    u = v - v[k]  # from the entry where G is least, so that nothing large cancels
    sums = np.concatenate([[0.0], np.cumsum(u)])
    sums -= sums[k]
    top = -sums[0] / r
    if r == n:  # all weights are equal
        far = np.array([0.0, 1.0])
        return Share(v[k] + top - far / n, far, v[-1] - far / n, r)
    L = np.maximum(sums[:-1] + u * (r - np.arange(n)), 0.0)
    falling, rising = np.maximum.accumulate(L[k:]), np.maximum.accumulate(L[k::-1])
    levels = np.sort(L)
    levels = np.append(levels, levels[-1] + 1.0)
    theta = np.interp(levels, falling, u[k:]) - np.maximum(levels - falling[-1], 0.0) / (n - r)
    psi = np.interp(levels, rising, u[k::-1]) + np.maximum(levels - rising[-1], 0.0) / r
    width = np.maximum.accumulate(psi - theta)
    price = np.minimum.accumulate(top - (width - levels / r))
    ends = np.append(top, price), np.append(0.0, r * width), np.append(0.0, theta)
    found = Share.up_to_one(*ends, r)
    return found._replace(price=v[k] + found.price, theta=v[k] + found.theta)


def ball_share(radius: float, unit: float, length: float, at: float) -> Share:
    """Return the share of `|p| <= radius t` beside the coordinate `unit t`.

    Parameters
    ----------
    length, at : of the scores of p, and the score of that coordinate
    """
    top, inside = unit * at + radius * length, length / radius if radius > 0.0 else 0.0
    t = np.array([0.0, inside, inside + 1.0])
    price = np.array([top, unit * at - unit * unit * inside, unit * at - unit * unit * t[2]])
    return Share.up_to_one(price, t, np.zeros(3))


def shares(operands: Sequence[Share]) -> NDArray[np.float64]:
    """Return theta, the largest entry of q and t of every operand, (operands, 3)."""
    low = max(float(f.price[-1]) for f in operands)  # where one of them is 1
    price = np.concatenate([f.price for f in operands])
    price = np.unique(np.append(price[price > low], low))
    values = np.array(
        [[np.interp(price, f.price[::-1], part[::-1]) for part in (f.theta, f.t)] for f in operands]
    )
    for own, f in zip(values, operands, strict=True):
        if f.price[-1] == low:  # prices that rounding makes equal
            own[:, 0] = f.theta[-1], f.t[-1]
    total = values[:, 1].sum(axis=0)
    k = int(np.flatnonzero(total >= 1.0).max(initial=0))
    after = min(k + 1, price.size - 1)
    fall = float(total[k] - total[after])
    a = float(total[k] - 1.0) / fall if fall > 0.0 else 0.0
    theta, t = ((1.0 - a) * values[:, :, k] + a * values[:, :, after]).T
    return np.column_stack([theta, t / [f.r for f in operands], t])
