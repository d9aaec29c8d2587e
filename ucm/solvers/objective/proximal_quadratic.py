"""Quadratic functions plus a penalty with a proximal map, by a proximal augmented Lagrangian in the dual.

The problem is `min over x of |B(x - w)|^2 / 2 + r'(x - w) + R(x)`. About a proximal centre c, the minimum of

    |B(x - w)|^2 / 2 + r'(x - w) + R(x) + mu |x - c|^2 / 2

has the dual variable u = B(x - w), and x is `prox_{R / mu}(v)` at `v = c - (r + B'u) / mu`. The dual function
has a generalised Hessian of the order of the rows of B, `I + B J B' / mu`, J a Jacobian of the proximal map:
it takes few semismooth Newton steps. Then c becomes x, and mu falls.

Li, Sun and Toh (2018), A highly efficient semismooth Newton augmented Lagrangian method for solving lasso
problems.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import Vec
from ucm.forms.steps import MOST, growth, line_search
from ucm.language.penalties.penalty_sum import CombinedPenalty
from ucm.solvers.augmented_lagrangian import ridge_solve

_OUTER = 40  # proximal centres of one quadratic function
_SYSTEMS = 120  # Newton systems of one quadratic function
_INNER = 0.3  # of the tolerance, the accuracy of the Newton steps about one centre
_BESIDE = 0.1  # of the largest slope of R: the largest tolerance, as R may be far from its minimum
_AT_ONCE = 9.0  # factor of mu where no Newton step was needed

Matrix = NDArray[np.float64]


class ProximalQuadratic:
    """A sequence of quadratic functions with one penalty.

    Attributes
    ----------
    R : the penalty
    timed_out : True once the time limit is over
    mu : the proximal parameter that the next problem starts with; 0 before the first
    failed : consecutive quadratic functions that were not solved within the limits
    """

    def __init__(self, R: CombinedPenalty, timed_out: Callable[[], bool]) -> None:
        self.R, self.timed_out, self.mu, self.failed = R, timed_out, 0.0, 0

    def solve(self, B: Matrix, r: Vec, w: Vec, tol: float) -> Vec:
        """Return a minimiser with a subgradient of at most tol in each coordinate, or the last iterate where
        the limits or the time end."""
        R, c, u, x, systems = self.R, w, np.zeros(B.shape[0]), w, 0
        mu = self.mu or float(np.sqrt(np.mean(np.einsum("ij,ij->j", B, B) ** 2))) or 1.0
        solved, first = False, mu
        for _ in range(_OUTER):
            step, pulled = 0, r + u @ B
            while True:
                v = c - pulled / mu
                x = R.prox(v, 1.0 / mu)
                g = u - B @ (x - w)
                residual, steep = g @ B, mu * float(np.abs(v - x).max(initial=0.0))
                enough = min(tol, _BESIDE * steep or tol)
                small = float(np.abs(residual).max(initial=0.0)) <= _INNER * enough
                if step == MOST or small or self.timed_out():
                    break
                system = B @ R.prox_slope_times(v, 1.0 / mu, B.T) / mu
                np.einsum("ii->i", system)[...] += 1.0
                systems += 1
                d = -ridge_solve(system, g)
                start, ahead = float(g @ d), d @ B
                if not start < 0.0:
                    break

                def along(t: float, ahead: Vec, mu: float = mu, v: Vec = v, u: Vec = u, d: Vec = d) -> float:
                    x = R.prox(v - t * ahead / mu, 1.0 / mu)
                    return float(d @ u) + t * float(d @ d) - float(ahead @ (x - w))

                t = line_search(along, ahead, start)
                u, pulled = u + t * d, pulled + t * ahead
                step += 1
            subgradient = mu * (c - x) - residual
            solved = float(np.abs(subgradient).max(initial=0.0)) <= enough
            c = x
            if solved or systems > _SYSTEMS or self.timed_out():
                break
            mu /= growth(step, _AT_ONCE)
        self.mu = float(np.sqrt(mu * first))
        self.failed = 0 if solved else self.failed + 1
        return x
