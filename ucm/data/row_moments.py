"""Means and covariances of rows that are read block by block, in one pass."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.bound import Data, refuse_squares
from ucm.data.linear import Vec
from ucm.data.look import Look, joined, look, refuse_bad, refuse_empty
from ucm.data.maps import MatrixMap
from ucm.data.moments import Moments
from ucm.data.source import RowSource, as_double, told
from ucm.data.weighing import Weighing, factors_of

__all__ = ["of_moments"]


class _Part(NamedTuple):
    """Moments.of rows from an origin near their mean, which rounds more than the distances from it do."""

    origin: Vec
    of: Moments

    def from_(self, origin: Vec) -> Moments:
        """The same from another origin."""
        return self.of._replace(mean=(self.origin - origin) + self.of.mean)


def _part(X: Any) -> _Part | None:
    if X.shape[0] == 0:
        return None
    if sparse.issparse(X):
        return _Part(np.zeros(X.shape[1]), Moments.of(X))
    origin = X.mean(axis=0)
    return _Part(origin, Moments.of(X - origin))


def _united(a: _Part | None, b: _Part | None) -> _Part | None:
    if a is None or b is None:
        return b if a is None else a
    return _Part(a.origin, a.of.merged(b.from_(a.origin)))


_Told = tuple[Look, _Part | None, _Part | None]


def _moments(X: Any, y: Any, state: Any) -> tuple[Any, _Told]:
    found, y = look(X, y)
    if found.bad is not None:
        return None, (found, None, None)
    X = as_double(X)
    with np.errstate(over="ignore", invalid="ignore"):  # refused when all rows are known
        return None, (found, _part(X[y > 0.0]), _part(X[y < 0.0]))


def _merge(a: _Told, b: _Told) -> _Told:
    with np.errstate(over="ignore", invalid="ignore"):
        return joined(a[0], b[0]), _united(a[1], b[1]), _united(a[2], b[2])


def of_moments(source: RowSource, class_weight: Any = None, apart: bool = False) -> Data:
    """Bound data that know the means and covariances of all rows, and no row.

    Parameters
    ----------
    apart : whether means count by their differences only; then they are from an origin near them

    Raises
    ------
    DataError
        NaN or inf, no samples, labels other than both -1 and +1; squares of the entries are no numbers.
    """
    all_rows = told(source.rounds(), _moments, merge=_merge)
    if all_rows is None:
        refuse_empty()
    found, *parts = all_rows
    refuse_bad(found)
    weighing = Weighing(factors_of(found.counts, class_weight))
    origin = parts[0].origin if apart else np.zeros(source.n)
    plus, minus = (part.from_(origin) for part in parts)
    means = np.array([plus.mean, minus.mean])
    data = Data(means, np.array([1.0, -1.0]), weighing, source=source)
    data.m, data.scale, data.stored = source.m, found.top or 1.0, found.entries
    refuse_squares(data.scale, "covariances")
    data.counts, data.origin = found.counts, origin if apart else None
    up, down = (
        Moments(f * own.total, sign * own.mean, f * own.scatter)
        for f, sign, own in zip(weighing.classes, (1.0, -1.0), (plus, minus), strict=True)
    )
    for kind, own in {"pos": plus, "neg": minus, "signed": up.merged(down)}.items():
        F = MatrixMap(_factor(own.covariance))
        known = {"mean": own.mean, "covariance": own.covariance, "centred": F}
        for name, value in known.items():
            data.once((name, kind, None), lambda value=value: value)
    return data


def _factor(S: NDArray[np.float64]) -> NDArray[np.float64]:
    """F with F F' = S, from the eigenvalues of the correlations: no unit of a feature matters."""
    d = np.sqrt(np.diagonal(S))
    unit = np.where(d > 0.0, d, 1.0)
    values, V = np.linalg.eigh(S / np.outer(unit, unit))
    return (unit[:, None] * V) * np.sqrt(np.maximum(values, 0.0))
