"""Shrinking: pair updates see some of the variables, the others wait at a bound (Joachims 1999)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucm.data.gram import Gram
from ucm.data.linear import Vec

__all__ = ["Active"]

_WORTH = 0.1  # share of the active variables that must leave at a time


class Active:
    """Which variables pair updates see.

    index : of the active variables
    a : the weights of all when the derivatives of all were last exact
    """

    def __init__(self, a: Vec) -> None:
        self.whole(a)

    def whole(self, a: Vec) -> None:
        """All are active, their derivatives exact."""
        self.index = np.arange(a.size)
        self.a = a.copy()

    def shrink(
        self,
        F: Vec,
        grows: NDArray[np.bool_],
        falls: NDArray[np.bool_],
        group: NDArray[np.int64] | None = None,
    ) -> None:
        """Leave out those at a bound that no pair violates with: within a group, weight moves from a
        large derivative F to a small one. Everything is of the active variables."""
        kept = grows & falls
        groups = [np.ones(F.size, dtype=bool)]
        if group is not None:
            groups = [group == g for g in range(int(group.max()) + 1)]
        for own in groups:
            low = F[own & grows].min(initial=np.inf)
            high = F[own & falls].max(initial=-np.inf)
            kept |= own & ((grows & (high >= F)) | (falls & (low <= F)))
        if kept.any() and np.count_nonzero(~kept) > _WORTH * F.size:
            self.index = self.index[kept]

    def missed(
        self, gram: Gram, samples: NDArray[np.int64], s: Vec, a: Vec
    ) -> tuple[NDArray[np.intp], Vec]:
        """The variables that wait, and what `sum_j s_j a_j K_ij` has moved by at each of them."""
        rest = np.setdiff1d(np.arange(a.size), self.index, assume_unique=True)
        moved = np.flatnonzero(a != self.a)
        change = (a[moved] - self.a[moved]) * s[moved]
        return rest, gram.combine(samples[moved], change, samples[rest])
