"""The proximal augmented Lagrangian with semismooth Newton steps: its loops, once for all problems.

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
_REFUSED = 8  # trial points in a row
_LOST = 3  # line searches in a row that end by their number of trials


class Lagrangian(ABC):
    """The iterate of one problem: the proximal centre q, the dual variable y, the trial point p at y.

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
        """Return True if the gradient is small enough for p to become the centre."""

    @abstractmethod
    def direction(self, g: Vec) -> Vec:
        """Return the Newton direction `-H^-1 g`, H a generalised Hessian of psi at y."""

    @abstractmethod
    def ahead(self, d: Vec) -> Any:
        """Return the products of a direction with the data, which `slope` takes."""

    @abstractmethod
    def slope(self, t: float, ahead: Any) -> float:
        """Return the slope of psi at y + t d; the trial point becomes that of y + t d."""

    @abstractmethod
    def move(self, t: float, d: Vec, ahead: Any) -> None:
        """Move y to y + t d, the point of the last call of `slope`."""

    # --- the outer loop ------------------------------------------------------------------------
    @abstractmethod
    def advance(self) -> None:
        """Make the trial point the centre."""

    @abstractmethod
    def assess(self) -> tuple[float, float, float]:
        """Return the objective, the relative gap and the error of the centre; errors compare centres."""

    @abstractmethod
    def keep(self) -> None:
        """Keep the centre as the best one."""

    @abstractmethod
    def proves_empty(self) -> bool:
        """Return True if y proves that the set is empty."""

    @abstractmethod
    def solved(self) -> bool:
        """Return True if the last assessed point is within the tolerance."""

    @abstractmethod
    def grow(self, factor: float) -> None:
        """Multiply sigma by a factor; the trial point becomes that of y."""


def run(
    at: Lagrangian,
    limit: int,
    report: Callable[[int, float, float], bool],
    timed_out: Callable[[], bool] = lambda: False,
) -> str:
    """Run at most `limit` outer steps; return the status of an `Answer`.

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
    """Minimise psi by Newton steps; return their number, or `most` if rounding ends the line searches."""
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
    """Return `H^-1 g` for a positive definite H; with a growing ridge if H is singular to rounding. 0
    where entries overflow."""
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
