"""Count, mean and scatter of samples, which merge: those of many folds from one product with the samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucm.data.block_sums import weighted_sums
from ucm.data.bound_data import Data, without_constant
from ucm.data.linear_map import Matrix, Vec

__all__ = ["Moments", "known_by", "without_each"]


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


def _together(parts: Sequence[Moments | None]) -> list[Moments | None]:
    """Return the cumulative moments: of the first part, of the first two parts, ..."""
    found: list[Moments | None] = []
    for part in parts:
        last = found[-1] if found else None
        found.append(part if last is None else last if part is None else last.merged(part))
    return found


def without_each(parts: Sequence[Moments | None]) -> list[Moments | None]:
    """For every part the moments of all others; None for a part without samples, or where none are left.

    Merged from the front and from the back: 3 merges a part, and no subtraction, which would lose what a
    fold far away hides.
    """
    front, back = [None, *_together(parts)[:-1]], [None, *_together(parts[::-1])[:-1]][::-1]
    return [
        a if b is None else b if a is None else a.merged(b)
        for a, b in zip(front, back, strict=True)
    ]


def known_by(moments: Mapping[str, Moments]) -> Data:
    """Samples of which means and covariances are known, and no more; by "pos" and "neg"."""
    n = next(iter(moments.values())).mean.size
    data = Data(np.empty((0, n)), np.empty(0))
    for kind, of in moments.items():
        data.once(("mean", kind, None), lambda of=of: of.mean)
        data.once(("covariance", kind, None), lambda of=of: of.covariance)
    return data
