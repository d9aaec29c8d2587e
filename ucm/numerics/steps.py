"""Steps of the proximal augmented Lagrangian with semismooth Newton, whatever the problem.

Plain functions of numbers: interpreted solvers call them as they stand (`ucm.solvers.palm`), compiled ones
compile them in (`ucm.numerics.palm`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = [
    "MOST", "PATIENCE", "SHRINK", "TRIALS", "accuracy", "growth", "idle", "line_search",
]  # fmt: skip

MOST = 40  # Newton steps of one outer step
TRIALS = 40  # of a line search
PATIENCE = 8  # outer steps in a row that gain nothing
GAINED = 0.99  # of the least error so far: above, nothing is gained
SHRINK = 0.1  # of sigma, where they did not suffice: its kinks are too sharp for this start


def line_search(slope: Callable[[float, Any], float], parts: Any, start: float) -> float:
    """t > 0 with `|slope(t, parts)| <= 0.2 |start|`, or the last of `TRIALS` trials.

    The slope of a convex function along a descent direction does not fall, and starts at `start < 0`.
    From t = 1 the step is doubled until the slope is positive; then t is where the secant of the bracket
    is 0. An end that stays has its slope halved (the Illinois rule), so that both ends move. The last
    call of `slope` is at the t returned.
    """
    low, f_low, high, f_high, t = 0.0, start, np.inf, np.inf, 1.0
    for _ in range(TRIALS - 1):
        f = slope(t, parts)
        if abs(f) <= 0.2 * abs(start):
            return t
        if f < 0.0:
            low, f_low, f_high = t, f, 0.5 * f_high
        else:
            high, f_high, f_low = t, f, 0.5 * f_low
        t = 2.0 * t if high == np.inf else low - f_low * (high - low) / (f_high - f_low)
    slope(t, parts)
    return t


def growth(steps: int, at_once: float) -> float:
    """The factor of sigma after an outer step of so many Newton steps: the fewer, the larger; `at_once`
    where none was needed."""
    if steps == 0:
        return at_once
    if steps >= MOST:
        return SHRINK
    return (9.0, 6.0, 4.2, 3.0, 3.0)[steps - 1] if steps <= 5 else 2.1


def idle(before: int, error: float, least: float) -> int:
    """How many outer steps in a row have gained nothing: `before`, and the one that left this error where the
    least so far was `least`."""
    return 0 if error < GAINED * least else before + 1


def accuracy(gap: float) -> float:
    """How large the gradient may be at the end of an outer step, over the length of the proximal step as both
    count in psi; the smaller the gap so far, the less."""
    return 0.5 * min(1.0, 10.0 * max(gap, 1e-6) ** 0.5)
