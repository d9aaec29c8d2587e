"""Means and covariances of rows in one pass: Chan, Golub and LeVeque (1983), Algorithms for computing the
sample variance, equation (2.1) for matrices."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.bound import Data, covariance_of
from ucm.data.linear import Vec
from ucm.data.look import Look, joined, look, refuse_bad
from ucm.data.maps import MatrixMap
from ucm.data.source import RowSource, as_double
from ucm.data.weighing import Weighing, factors_of

__all__ = ["Moments", "moments_of", "of_moments", "united"]


class Moments(NamedTuple):
    """Of some rows: their number (or weight), mean, and scatter `sum (x - mean)(x - mean)'`. The mean is
    `origin + mean`, as a mean that is far from 0 rounds more than the distances from it."""

    count: float
    origin: Vec
    mean: Vec
    scatter: NDArray[np.float64]

    def times(self, factor: float, sign: float = 1.0) -> Moments:
        """Of the rows times a sign, each as many times."""
        return Moments(
            factor * self.count, sign * self.origin, sign * self.mean, factor * self.scatter
        )


def moments_of(X: Any) -> Moments:
    """Of the rows of a table: two passes over it, and what rounding of the mean leaves."""
    m, n = X.shape
    if m == 0:
        return Moments(0.0, np.zeros(n), np.zeros(n), np.zeros((n, n)))
    if sparse.issparse(X):
        mean = np.asarray(X.sum(axis=0), dtype=np.float64).ravel() / m
        scatter = np.asarray((X.T @ X).toarray()) - m * np.outer(mean, mean)
        return Moments(float(m), np.zeros(n), mean, scatter)
    origin = X.mean(axis=0)
    D = X - origin
    mean = D.sum(axis=0) / m
    return Moments(float(m), origin, mean, D.T @ D - m * np.outer(mean, mean))


def united(a: Moments, b: Moments) -> Moments:
    """Of the rows of both: `S = S_a + S_b + (m_a m_b / m) d d'`, d the difference of the means."""
    if a.count == 0.0 or b.count == 0.0:
        return b if a.count == 0.0 else a
    count, d = a.count + b.count, (b.origin - a.origin) + (b.mean - a.mean)
    scatter = a.scatter + b.scatter + (a.count * b.count / count) * np.outer(d, d)
    return Moments(count, a.origin, a.mean + (b.count / count) * d, scatter)


_Told = tuple[Look, Moments, Moments]


def _moments(X: Any, y: Any, state: Any) -> tuple[Any, _Told]:
    found, y = look(X, y)
    if found.bad is not None:
        nothing = moments_of(np.empty((0, X.shape[1])))
        return None, (found, nothing, nothing)
    X = as_double(X)
    return None, (found, moments_of(X[y > 0.0]), moments_of(X[y < 0.0]))


def _merge(a: _Told, b: _Told) -> _Told:
    return joined(a[0], b[0]), united(a[1], b[1]), united(a[2], b[2])


def of_moments(source: RowSource, class_weight: Any = None, apart: bool = False) -> Data:
    """Bound data that know the means and covariances of all rows, and no row.

    Parameters
    ----------
    apart : whether means count by their differences only; then they are from an origin near them

    Raises
    ------
    DataError
        NaN or inf, no samples, labels other than both -1 and +1.
    """
    told = source.rounds().merged(_moments, _merge)
    refuse_bad(None if told is None else told[0])
    found, plus, minus = told
    weighing = Weighing(factors_of(found.counts, class_weight))
    origin = plus.origin if apart else np.zeros(source.n)
    plus, minus = (
        own._replace(origin=origin, mean=(own.origin - origin) + own.mean) for own in (plus, minus)
    )
    means = np.array([plus.mean, minus.mean])
    data = Data(means, np.array([1.0, -1.0]), weighing, source=source)
    data.origin = origin if apart else None
    data.m, data.scale, data.stored = source.m, found.top or 1.0, found.entries
    data.counts = found.counts
    up, down = weighing.classes
    kinds = {
        "pos": plus,
        "neg": minus,
        "signed": united(plus.times(up), minus.times(down, -1.0)),
    }
    if not apart:  # from 0 on
        kinds = {kind: own._replace(mean=own.origin + own.mean) for kind, own in kinds.items()}
    for kind, own in kinds.items():
        F = MatrixMap(_factor(own.scatter / own.count))
        for key, known in (
            ("mean", own.mean),
            ("centred", F),
            ("covariance", covariance_of(F, own.mean)),
        ):
            data.once((key, kind, None), lambda known=known: known)
    return data


def _factor(S: NDArray[np.float64]) -> NDArray[np.float64]:
    """F with F F' = S, from the eigenvalues of the correlations: no unit of a feature matters."""
    d = np.sqrt(np.diagonal(S))
    unit = np.where(d > 0.0, d, 1.0)
    values, V = np.linalg.eigh(S / np.outer(unit, unit))
    return (unit[:, None] * V) * np.sqrt(np.maximum(values, 0.0))
