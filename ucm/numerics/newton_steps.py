"""Common steps of the semismooth Newton methods: line search, growth of sigma, and Newton systems.

The systems of proximal terms are `(diag(r) + sum_k s_k A_k J_k A_k') d = -g`. J_k is the Jacobian of a
projection, diagonal plus low rank. Where the matrix would be too large, conjugate gradients take its place.
`ucm/native/hulls.c` has the line search, without the geometric mean, and the growth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from ucm.data.linear_map import LinearMap, Vec
from ucm.language.contracts import Jacobian

Matrix = NDArray[np.float64]
Parts = TypeVar("Parts")
(_POSV,) = linalg.get_lapack_funcs(("posv",), dtype=np.float64)  # SciPy's checks take longer

MOST = 40  # Newton steps of one outer step
TRIALS = 40  # of a line search
LOST = 3  # line searches at their limit of trials: the kinks are too sharp, or only rounding is left
CLOSE = 1e-2  # of the bracket
ARMIJO = 1e-4  # of the first-order decrease: the least that a step gains
PATIENCE = 8  # outer steps in a row that gain nothing
GAINED = 0.99  # of the least error so far: above, nothing is gained
SHRINK = 0.1  # of sigma after `MOST` Newton steps: the kinks for this sigma are too sharp for the start


def line_search(slope: Callable[[float, Parts], float], parts: Parts, start: float) -> float:
    """Return a descent step t > 0 with `|slope(t, parts)| <= 0.2 |start|`, or the last of `TRIALS` trials.

    The slope of a convex function psi along a descent direction does not fall, and starts at `start < 0`.
    Where it is not positive, psi has fallen up to t; where it is, with `s < t` the last trial of a negative
    slope, `psi(t) - psi(0) <= s slope(s) + (t - s) slope(t)`, which Armijo's rule holds against
    `1e-4 t start`. From t = 1 the step is doubled until the slope is positive; then t is where the secant of
    the bracket is 0. An end that stays has its slope halved (the Illinois rule), so that both ends move; the
    arithmetic and the geometric mean in turn follow a secant that lies within `CLOSE` of the lower end, as if
    the slope grows exponentially or from a kink on. The last call of `slope` is at the t returned.
    """
    low, f_low, high, f_high, t = 0.0, start, np.inf, np.inf, 1.0
    close = geometric = False
    lowest = start  # the slope at low, which the rule does not halve
    for _ in range(TRIALS - 1):
        f = slope(t, parts)
        if f <= 0.0:
            if f >= 0.2 * start:
                return t
            low, f_low, f_high, lowest = t, f, 0.5 * f_high, f
        else:
            if f <= -0.2 * start and low * lowest + (t - low) * f <= ARMIJO * t * start:
                return t
            high, f_high, f_low = t, f, 0.5 * f_low
        if high == np.inf:
            t *= 2.0
        elif close:
            t = math.sqrt(low * high) if geometric else 0.5 * (low + high)
            close, geometric = False, not geometric and low > 0.0
        else:
            t = low - f_low * (high - low) / (f_high - f_low)
            close = t - low < CLOSE * (high - low)
    t = low if low > 0.0 else t  # psi has fallen there
    slope(t, parts)
    return t


def growth(steps: int, at_once: float) -> float:
    """Return the factor of sigma after an outer step: larger after fewer Newton steps; `at_once` for 0."""
    if steps == 0:
        return at_once
    if steps >= MOST:
        return SHRINK
    return (9.0, 6.0, 4.2, 3.0, 3.0)[steps - 1] if steps <= 5 else 2.1


class Stall:
    """Test for stalled iterations: `patience` errors in a row that are not below `gained` times the least."""

    def __init__(self, patience: int = PATIENCE, gained: float = GAINED) -> None:
        self.patience, self.gained, self.least, self.since = patience, gained, np.inf, 0

    def after(self, error: float) -> bool:
        """Record the error of an iteration; return True if the iterations have stalled."""
        self.since = 0 if error < self.gained * self.least else self.since + 1
        self.least = min(self.least, error)
        return self.since >= self.patience


def gradient_tolerance(gap: float) -> float:
    """Return the gradient tolerance of an outer step, relative to the proximal step, for a gap so far."""
    return 0.5 * min(1.0, 10.0 * max(gap, 1e-6) ** 0.5)


def ridge_solve(H: Matrix, g: Vec) -> Vec:
    """Return `H^-1 g`, H positive semidefinite, with a growing ridge if singular; 0 where it overflows."""
    ridge, top = 0.0, float(np.diagonal(H).max())
    for _ in range(8):
        _, solution, info = _POSV(H.T, g, lower=1)  # by rows: the upper triangle of H
        if info == 0:
            return solution
        ridge = max(10.0 * ridge, 1e-15 * top)
        H = H + ridge * np.eye(H.shape[0])
    if not (np.isfinite(H).all() and np.isfinite(g).all()):
        return np.zeros_like(g)
    return np.linalg.lstsq(H, g)[0].astype(np.float64)


def conjugate_gradients(
    times: Callable[[Vec], Vec], g: Vec, accuracy: float, most: int, timed_out: Callable[[], bool]
) -> tuple[Vec, int]:
    """Solve `H d = g` approximately by conjugate gradients; return d and the number of products with H.

    `times` takes v to H v, H symmetric and positive definite. The residual to reach, `accuracy`, is relative
    to g; `timed_out` is asked before each of at most `most` products.

    Hestenes and Stiefel (1952), Methods of conjugate gradients for solving linear systems.
    """
    d, residual, p, count = np.zeros_like(g), g, g, 0
    height = float(g @ g)
    target = accuracy**2 * height
    while count < most and height > target and not timed_out():
        Hp = times(p)
        count += 1
        t = height / float(p @ Hp)
        d = d + t * p
        residual = residual - t * Hp
        before, height = height, float(residual @ residual)
        p = residual + (height / before) * p
    return d, count


class Formed:
    """Solver of Newton systems that forms the matrix of the maps A_k and factors it by Cholesky."""

    def __init__(self, maps: Sequence[LinearMap], stored: int) -> None:
        self.maps, self.stored = maps, max(1, stored)

    def step(self, J: Sequence[Jacobian], s: Sequence[float], ridge: Vec, g: Vec) -> tuple[Vec, float, float]:
        """Return the direction d, by a Cholesky factor, and its cost in passes: forming and products."""
        H, work = np.diag(ridge), 0.0
        for A, jacobian, factor in zip(self.maps, J, s, strict=True):
            work += A.squares * np.count_nonzero(jacobian.d) / max(1, jacobian.d.size)
            H += factor * A.weighted_gram(jacobian.d)
            if jacobian.U.shape[1]:
                AU = A.matmat(jacobian.U)
                work += float(A.entries) * jacobian.U.shape[1]
                H += factor * (AU @ jacobian.S @ AU.T)
        return -ridge_solve(H, g), 0.0, 0.5 * work / self.stored


class ConjugateGradients:
    """Solver of Newton systems by conjugate gradients, without forming the matrix.

    An iteration costs one pass. The maps and `stored` are those of `Formed`.
    """

    def __init__(
        self,
        maps: Sequence[LinearMap],
        stored: int,
        accuracy: float = 0.2,
        most: int = 200,
        timed_out: Callable[[], bool] = lambda: False,
    ) -> None:
        self.maps, self.timed_out = maps, timed_out
        self.accuracy, self.most = accuracy, most
        self.cost = sum(A.entries for A in maps) / max(1, stored)  # passes in products with all A_k and A_k'

    def step(self, J: Sequence[Jacobian], s: Sequence[float], ridge: Vec, g: Vec) -> tuple[Vec, float, float]:
        """Return d as `Formed`, with a relative residual of `accuracy` unless iterations or time run out."""
        root = 1.0 / np.sqrt(ridge)  # unknowns in which the diagonal is 1

        def times(v: Vec) -> Vec:
            u = root * v
            parts = (f * A.matvec(j.matvec(A.rmatvec(u))) for A, j, f in zip(self.maps, J, s, strict=True))
            return v + root * sum(parts, start=np.zeros(v.size))

        d, count = conjugate_gradients(times, -root * g, self.accuracy, self.most, self.timed_out)
        return root * d, self.cost * count, 0.0
