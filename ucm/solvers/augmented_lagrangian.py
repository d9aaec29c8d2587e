"""Outer loop, Newton loop and linear solve of proximal augmented Lagrangian methods.

A problem `min f(q)` over points q has a dual of few variables y. From the proximal centre q, one outer step
minimises over y a convex function psi with a Lipschitz gradient: where the dual has f, psi has the
Moreau envelope with parameter sigma about q. Its generalised Hessians give Newton's directions, a line search
the steps; then q becomes the proximal point p that y calls for, and sigma grows. Each solver says in its own
file what psi, its gradient and its Hessian are. Zhao, Sun and Toh (2010) give the method.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from ucm.data.linear_map import Vec
from ucm.forms.steps import MOST, SHRINK, TRIALS, Stall, growth, line_search

Matrix = NDArray[np.float64]
_REFUSED = 8  # successive outer steps whose trial point is rejected
_LOST = 3  # successive line searches that end by their limit of trials


class Lagrangian(ABC):
    """Interface of a problem in the augmented Lagrangian loops: centre q, dual variable y, trial point p.

    Attributes
    ----------
    most : Newton steps of one outer step
    at_once : growth of sigma where none was needed
    best : the gap of the best centre so far
    """

    most: int = MOST
    at_once: float
    best: float = np.inf

    # --- the inner problem ---------------------------------------------------------------------
    @abstractmethod
    def gradient(self) -> Vec:
        """Return the gradient of psi at y."""

    @abstractmethod
    def good_enough(self, g: Vec) -> bool:
        """Return True if the gradient g is small enough to end the Newton steps on psi."""

    @abstractmethod
    def direction(self, g: Vec) -> Vec:
        """Return the Newton direction `-H^-1 g`, with a generalised Hessian H of psi at y."""

    @abstractmethod
    def ahead(self, d: Vec) -> Any:
        """Return the products of the direction d with the data, the argument `ahead` of `slope`."""

    @abstractmethod
    def slope(self, t: float, ahead: Any) -> float:
        """Return the derivative of `t -> psi(y + t d)`, and set the trial point to that of y + t d."""

    @abstractmethod
    def move(self, t: float, d: Vec, ahead: Any) -> None:
        """Set y to y + t d, after a call of `slope` with the same t."""

    # --- the outer loop ------------------------------------------------------------------------
    @abstractmethod
    def advance(self) -> None:
        """Set the proximal centre to the trial point."""

    @abstractmethod
    def assess(self) -> tuple[float, float, float]:
        """Return the objective, the relative gap and the error of the centre.

        The loop keeps the centre with the least error.
        """

    @abstractmethod
    def keep(self) -> None:
        """Store the centre as the best one so far."""

    @abstractmethod
    def proves_empty(self) -> bool:
        """Return True if y proves that the feasible set is empty."""

    @abstractmethod
    def solved(self) -> bool:
        """Return True if the point assessed last meets the tolerance."""

    @abstractmethod
    def grow(self, factor: float) -> None:
        """Multiply sigma by a factor, and recompute the trial point at y."""


def run(
    at: Lagrangian,
    limit: int,
    report: Callable[[int, float, float], bool],
    timed_out: Callable[[], bool] = lambda: False,
) -> str:
    """Run at most `limit` outer steps of the augmented Lagrangian; return the status for an `Answer`.

    Parameters
    ----------
    report : called after each step with its number, objective and gap; True stops the run
    timed_out : called before each Newton step; True stops the run
    """
    refused, least, stalled = 0, np.inf, Stall()
    for outer in range(1, limit + 1):
        steps = minimise(at, timed_out)
        if steps == at.most and refused < _REFUSED and not timed_out():
            if at.proves_empty():  # psi has no bound from below
                return "infeasible"
            # p is no proximal point of q: the kinks are too sharp for this sigma
            refused += 1
            at.grow(SHRINK)
            continue
        refused = 0
        at.advance()
        objective, gap, error = at.assess()
        ends = stalled.after(error)
        if error <= least:
            least, at.best = error, gap
            at.keep()
        stop = report(outer, objective, gap)
        if at.proves_empty():
            return "infeasible"
        if at.solved():
            return "converged"
        if stop or timed_out():
            return "interrupted"
        if ends:
            break
        at.grow(growth(steps, at.at_once))
    return "max_iter"


def minimise(at: Lagrangian, timed_out: Callable[[], bool]) -> int:
    """Minimise psi over y by Newton steps; return their number.

    The number is `at.most` where the steps run out, or rounding ends the line searches.
    """
    lost = 0
    for step in range(at.most):
        g = at.gradient()
        if at.good_enough(g) or timed_out():
            return step
        d = at.direction(g)
        start = float(g @ d)
        if not -np.inf < start < 0.0:
            return step + 1
        ahead = at.ahead(d)
        trials: list[float] = []

        def slope(t: float, ahead: Any, trials: list[float] = trials) -> float:
            trials.append(t)
            return at.slope(t, ahead)

        at.move(line_search(slope, ahead, start), d, ahead)
        lost = lost + 1 if len(trials) == TRIALS else 0
        if lost == _LOST:
            break
    return at.most


def ridge_solve(H: Matrix, g: Vec) -> Vec:
    """Return `H^-1 g` for a positive semidefinite H, with a ridge if H is singular to rounding.

    The ridge grows until a Cholesky factor exists. The answer is 0 where entries overflow.
    """
    lapack: Any = linalg.lapack
    ridge, top = 0.0, float(np.diagonal(H).max())
    for _ in range(8):
        _, solution, info = lapack.dposv(H.T, g, lower=1)  # by rows: the upper triangle of H
        if info == 0:
            return solution
        ridge = max(10.0 * ridge, 1e-15 * top)
        H = H + ridge * np.eye(H.shape[0])
    if not (np.isfinite(H).all() and np.isfinite(g).all()):
        return np.zeros_like(g)
    return np.linalg.lstsq(H, g)[0].astype(np.float64)
