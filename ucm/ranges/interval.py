"""Admissible intervals of parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ucm.forms.display import sheet


@dataclass(frozen=True)
class Interval:
    """The admissible interval of one parameter, at fixed values of the other parameters.

    Beyond the closed end U is empty; at the open end 0 enters U.

    Attributes
    ----------
    lower, upper : the ends, possibly infinite
    how : the proof of each end
    lower_closed, upper_closed : True if the end is admissible
    gap : the difference between the open end, up to which 0 is proven to lie outside U, and the first value
        at which U is proven to contain 0
    """

    lower: float
    upper: float
    how: str
    lower_closed: bool = False
    upper_closed: bool = False
    gap: float = 0.0

    def __contains__(self, number: float) -> bool:
        above = number > self.lower or (self.lower_closed and number == self.lower)
        return above and (number < self.upper or (self.upper_closed and number == self.upper))

    @property
    def empty(self) -> bool:
        """True if no value is admissible."""
        return self.lower > self.upper or (
            self.lower == self.upper and not (self.lower_closed and self.upper_closed)
        )

    @property
    def middle(self) -> float:
        """The midpoint, `at(0.5)`; an infinite upper end is replaced as in `at`."""
        return self.at(0.5)

    def at(self, fraction: float) -> float:
        """Return the value at a fraction of the way from the lower to the upper end.

        An infinite upper end is replaced by twice the lower end, or by 2 if the lower end is 0.
        """
        upper = self.upper if math.isfinite(self.upper) else 2.0 * (self.lower or 1.0)
        return self.lower + fraction * (upper - self.lower)

    def nearest(self, number: float) -> float:
        """Return the admissible value nearest to a number, a hundredth of the way in from an open end."""
        low = self.lower if self.lower_closed else self.at(0.01)
        return min(max(number, low), self.upper if self.upper_closed else self.at(0.99))

    @property
    def bounds(self) -> str:
        """The interval in mathematical notation, such as `(0.333, 0.889]`."""
        left, right = "[" if self.lower_closed else "(", "]" if self.upper_closed else ")"
        return f"{left}{self.lower:.6g}, {self.upper:.6g}{right}"

    def __str__(self) -> str:
        return f"{self.bounds}  {self.how}"

    def _repr_html_(self) -> str:
        bounds = self.bounds.replace("-", "−").replace("inf", "∞")
        return sheet(
            f"Interval {'(empty)' if self.empty else bounds}",
            {"known by": self.how, "gap of the proofs": self.gap or None},
        )
