"""Weight, mean and scatter of samples; the moments of blocks, folds and classes merge."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucm.data.block_sums import weighted_sums, without_constant
from ucm.data.linear_map import Matrix, Vec


class Moments(NamedTuple):
    """The weight, mean and scatter matrix of samples.

    Attributes
    ----------
    total : the sum of their weights
    mean : (n,)
    scatter : (n, n) `sum_i c_i (x_i - mean)(x_i - mean)'`
    """

    total: float
    mean: Vec
    scatter: NDArray[np.float64]

    @classmethod
    def of(cls, X: Matrix, weights: Vec | None = None) -> Moments:
        """Compute the moments of the rows of X, at least one."""
        c = np.ones(X.shape[0]) if weights is None else weights
        count = float(c.sum())
        mean = np.asarray(X.T @ c).ravel() / count
        return cls(count, mean, weighted_sums(X, c, mean)[0])

    def merged(self, other: Moments) -> Moments:
        """Return the moments of the union, without cancellation (Chan, Golub and LeVeque 1983, equation 2.1):
        `S = S_1 + S_2 + (m_1 m_2 / m) (mean_1 - mean_2)(mean_1 - mean_2)'`."""
        count = self.total + other.total
        d = other.mean - self.mean
        mean = self.mean + (other.total / count) * d
        scatter = self.scatter + other.scatter
        scatter += (self.total * (other.total / count)) * np.outer(d, d)
        return Moments(count, mean, scatter)

    @property
    def covariance(self) -> NDArray[np.float64]:
        """The 1/m covariance; exactly 0 for a feature that varies by rounding only."""
        return without_constant(self.scatter / self.total, self.mean)


def united(a: Moments | None, b: Moments | None) -> Moments | None:
    """Return the moments of the union of two sets of samples; None for an empty set."""
    if a is None or b is None:
        return b if a is None else a
    return a.merged(b)


def without_each(parts: Sequence[Moments | None]) -> list[Moments | None]:
    """Return for every part the moments of all others; None where no samples are left.

    They are merged from the front and from the back: 3 merges a part, and no subtraction, which would lose
    the moments of the others beside those of a part far away.
    """
    front = [None, *accumulate(parts, united)]
    back = [None, *accumulate(parts[::-1], united)]
    return [united(a, b) for a, b in zip(front[:-1], back[-2::-1], strict=True)]
