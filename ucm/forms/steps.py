"""Common steps of the proximal augmented Lagrangian methods with semismooth Newton.

Plain functions of numbers; `ucm/native/hulls.c` has the line search and the growth in C.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

Parts = TypeVar("Parts")

MOST = 40  # Newton steps of one outer step
TRIALS = 40  # of a line search
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
    middle follows a secant that lies within `CLOSE` of the lower end, as where the slope grows exponentially.
    The last call of `slope` is at the t returned.
    """
    low, f_low, high, f_high, t = 0.0, start, np.inf, np.inf, 1.0
    close = False
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
            t, close = 0.5 * (low + high), False
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


def accuracy(gap: float) -> float:
    """Return the gradient tolerance of an outer step, relative to the proximal step, for a gap so far."""
    return 0.5 * min(1.0, 10.0 * max(gap, 1e-6) ** 0.5)
