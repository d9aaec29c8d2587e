"""Quadratic functions plus a function with a proximal map, by multipliers of `x = z`.

`min over x of (x - w)'H(x - w)/2 + r'(x - w) + R(x)`: with multipliers rho u, the minimiser x of

    (x - w)'H(x - w)/2 + r'(x - w) + min_z [ R(z) + rho |x + u - z|^2 / 2 ],

whose gradient is `H(x - w) + r + rho (v - prox_{R / rho}(v))` at `v = x + u`, takes few semismooth Newton
steps; then u becomes `v - prox(v)`, and rho grows (the method of `ucm.solvers.palm`, in w alone). Of few
features whole Newton steps on `x - prox(x - gradient / rho)` are tried first. Where the proximal map has no
known slopes x and z alternate, over-relaxed, with rho by the balance of both residuals: Boyd, Parikh, Chu,
Peleato and Eckstein (2011), Distributed optimization and statistical learning via the alternating direction
method of multipliers, section 3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from ucm.data.linear import Vec
from ucm.language.penalties.gathered import Gathered
from ucm.numerics.steps import MOST, growth, line_search
from ucm.solvers.palm import ridge_solve

__all__ = ["Splitting"]

_RELAXED = 1.6
_EVERY = 10  # iterations between two looks at the residuals
_BALANCE, _FACTOR = 4.0, 3.0  # ratio of both from which on rho changes, and by how much at least
_ALTERNATIONS = 2000
_MULTIPLIERS = 40  # steps
_SYSTEMS = 120  # of one quadratic function
_WHOLE = 12  # Newton steps without a line search,
_TRIED = 2  # as often in a row as they go astray
_FEW = 100  # of so many features: with more they do so nearly always
_SCALE = 0.1  # of the mean diagonal entry, their rho
_INNER = 0.3  # of the tolerance, for Newton steps
_BESIDE = 0.1  # of the slope of R
_AT_ONCE = 9.0  # growth of rho where no Newton step was needed

Matrix = NDArray[np.float64]


class Splitting:
    """What lasts from one quadratic function to the next.

    Attributes
    ----------
    R : the function
    late : whether the time is over
    rho : the weight of `x = z`, 0 before the first
    straight : how often whole Newton steps may still go astray
    failed : how many of the last quadratic functions, one after the other, took all the work that is allowed
        and were not solved
    slope : (n,) a subgradient of R at the last point, `rho u`
    """

    def __init__(self, R: Gathered, late: Callable[[], bool]) -> None:
        self.R, self.late, self.rho, self.slope = R, late, 0.0, np.zeros(0)
        self.failed, self.straight = 0, _TRIED if R.semismooth else 0

    def solve(self, H: Matrix, r: Vec, w: Vec, tol: float) -> Vec:
        """The minimiser, with a subgradient of the whole of at most tol in each coordinate, or where
        the work or the time ends."""
        if not self.rho:
            self.rho = float(np.sqrt(np.mean(np.diagonal(H) ** 2))) or 1.0
            self.slope = np.zeros(w.size)
        way = self._multiply if self.R.semismooth else self._alternate
        try_whole = self.straight > 0 and w.size <= _FEW
        z, solved = self._newton(H, r, w, tol) if try_whole else (w, False)
        if not solved:
            z, solved = way(H, r, w, tol)
        self.failed = 0 if solved else self.failed + 1
        return z

    def through_rows(self, B: Matrix, r: Vec, w: Vec, tol: float) -> Vec:
        """The minimiser of `solve` with H = B'B, B of few rows, by systems of their number.

        About a centre c, `min over x of |B(x - w)|^2/2 + r'(x - w) + R(x) + mu |x - c|^2/2` has the dual
        variable u = B(x - w): x is `prox_{R / mu}(v)` at `v = c - (r + B'u) / mu`. Then c becomes x, and mu
        falls.
        """
        R, mu, c, u, x, systems = self.R, self.rho, w, np.zeros(B.shape[0]), w, 0
        mu = mu or float(np.sqrt(np.mean(np.einsum("ij,ij->j", B, B) ** 2))) or 1.0
        solved, first, missed, slope, enough = False, mu, r, r, tol
        for _ in range(_MULTIPLIERS):
            step, pulled = 0, r + u @ B
            for step in range(MOST + 1):
                v = c - pulled / mu
                x = R.prox(v, 1.0 / mu)
                g = u - B @ (x - w)
                missed, slope = g @ B, mu * (v - x)
                enough = min(tol, _BESIDE * float(np.abs(slope).max(initial=0.0)) or tol)
                small = float(np.abs(missed).max(initial=0.0)) <= _INNER * enough
                if step == MOST or small or self.late():
                    break
                system = B @ R.prox_slope_times(v, 1.0 / mu, B.T) / mu
                np.einsum("ii->i", system)[...] += 1.0
                systems += 1
                d = -ridge_solve(system, g)
                start, ahead = float(g @ d), d @ B
                if not start < 0.0:
                    break

                def along(
                    t: float, ahead: Vec, mu: float = mu, v: Vec = v, u: Vec = u, d: Vec = d
                ) -> float:
                    x = R.prox(v - t * ahead / mu, 1.0 / mu)
                    return float(d @ u) + t * float(d @ d) - float(ahead @ (x - w))

                t = line_search(along, ahead, start)
                u, pulled = u + t * d, pulled + t * ahead
            away, self.slope = mu * (c - x) - missed, slope
            solved = float(np.abs(away).max(initial=0.0)) <= enough
            c = x
            if solved or systems > _SYSTEMS or self.late():
                break
            mu /= growth(step, _AT_ONCE)
        self.rho = np.sqrt(mu * first)
        self.failed = 0 if solved else self.failed + 1
        return x

    def _newton(self, H: Matrix, r: Vec, w: Vec, tol: float) -> tuple[Vec, bool]:
        """Whole Newton steps on `x - prox(x - (H (x - w) + r) / rho)`, which may go astray."""
        rho, x, z, eye = _SCALE * float(np.mean(np.diagonal(H))), w, w, np.eye(w.size)
        before = self.slope
        for _ in range(_WHOLE if rho > 0.0 else 0):
            v = x - (H @ (x - w) + r) / rho
            z = self.R.prox(v, 1.0 / rho)
            self.slope = rho * (v - z)
            if self._ended(H, r, z - w, tol):
                self.straight = _TRIED
                return z, True
            slopes = np.asarray(self.R.prox_slope(v, 1.0 / rho))
            try:
                x = x + np.linalg.solve(eye - slopes + slopes @ H / rho, z - x)
            except np.linalg.LinAlgError:
                break
            if self.late() or not np.isfinite(x).all():
                break
        self.straight, self.slope = self.straight - 1, before
        return z, False

    def _multiply(self, H: Matrix, r: Vec, w: Vec, tol: float) -> tuple[Vec, bool]:
        R, rho, x, z, step, systems, solved = self.R, self.rho, w, w, 0, 0, False
        for _ in range(_MULTIPLIERS):
            u = self.slope / rho
            top = float(np.abs(self.slope).max())
            enough = _INNER * min(tol, _BESIDE * top or tol)
            for step in range(MOST + 1):
                v = x + u
                z = R.prox(v, 1.0 / rho)
                g = H @ (x - w) + r + rho * (v - z)
                if step == MOST or float(np.abs(g).max(initial=0.0)) <= enough or self.late():
                    break
                system = H - rho * np.asarray(R.prox_slope(v, 1.0 / rho))
                np.einsum("ii->i", system)[...] += rho
                systems += 1
                d = -ridge_solve(system, g)
                start = float(g @ d)
                if not start < 0.0:
                    break
                fixed, curve = float(d @ (H @ (x - w) + r)), float(d @ (H @ d))

                def along(
                    t: float,
                    d: Vec,
                    v: Vec = v,
                    fixed: float = fixed,
                    curve: float = curve,
                    rho: float = rho,
                ) -> float:
                    ahead = v + t * d
                    return fixed + t * curve + rho * float(d @ (ahead - R.prox(ahead, 1.0 / rho)))

                x = x + line_search(along, d, start) * d
            if step < MOST:
                self.slope = rho * (x + u - z)
                solved = self._ended(H, r, z - w, tol)
            if solved or systems > _SYSTEMS or self.late():
                break
            rho *= growth(step, _AT_ONCE)
        size, steep = float(np.linalg.norm(z)), float(np.linalg.norm(self.slope))
        if size > 0.0 and steep > 0.0:
            self.rho = steep / size
        return z, solved

    def _alternate(self, H: Matrix, r: Vec, w: Vec, tol: float) -> tuple[Vec, bool]:
        lapack: Any = linalg.lapack
        rho, u, solved = self.rho, self.slope / self.rho, False
        factor, z = None, w
        for k in range(_ALTERNATIONS):
            if factor is None:
                shifted = H.copy()
                np.einsum("ii->i", shifted)[...] += rho
                factor, _ = lapack.dpotrf(shifted.T, lower=1, overwrite_a=1)
            step, _ = lapack.dpotrs(factor, r + rho * (w - z + u), lower=1)
            x = w - step
            mixed = _RELAXED * x + (1.0 - _RELAXED) * z
            before, z = z, self.R.prox(mixed + u, 1.0 / rho)
            u = u + mixed - z
            if k % _EVERY == 0:
                self.slope = rho * u
                solved = self._ended(H, r, z - w, tol)
                if solved or self.late():
                    break
                primal, dual = np.abs(x - z).max(), np.abs(z - before).max()
                balance = float(np.sqrt(primal / dual)) if primal > 0.0 and dual > 0.0 else 1.0
                if not 1.0 / _BALANCE < balance**2 < _BALANCE:
                    new = rho * min(max(balance, 1.0 / _FACTOR**2), _FACTOR**2)
                    u, rho, factor = u * (rho / new), new, None
        self.rho, self.slope = rho, rho * u
        return z, solved

    def _ended(self, H: Matrix, r: Vec, d: Vec, tol: float) -> bool:
        """Whether a subgradient at w + d is small, also beside that of R: else R may be far off."""
        top = float(np.abs(self.slope).max(initial=0.0))
        return float(np.abs(H @ d + r + self.slope).max(initial=0.0)) <= min(tol, _BESIDE * top)
