"""Means and covariances of samples that are read block by block, in one pass."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ucm.data.bound_data import Data, refuse_squares
from ucm.data.effective_weights import EffectiveWeights, signed_factors
from ucm.data.linear_map import Vec
from ucm.data.maps import MatrixMap
from ucm.data.moments import Moments
from ucm.data.row_metadata import Factors, members_in
from ucm.data.source import RowSource, WeightedRows, as_double
from ucm.data.spectrum import psd_root
from ucm.data.validation import BlockSummary, inspect_block, joined, refuse_bad, refuse_empty

__all__ = ["of_moments"]


class _Part(NamedTuple):
    """The moments of rows about a point near their mean, which are more accurate than about 0."""

    origin: Vec
    moments: Moments

    def about(self, origin: Vec) -> Moments:
        """Return the moments about another origin."""
        return self.moments._replace(mean=(self.origin - origin) + self.moments.mean)


def _part(X: Any, c: Vec) -> _Part | None:
    if X.shape[0] == 0:
        return None
    if sparse.issparse(X):
        return _Part(np.zeros(X.shape[1]), Moments.of(X, c))
    origin = X.mean(axis=0)
    return _Part(origin, Moments.of(X - origin, c))


def _united(a: _Part | None, b: _Part | None) -> _Part | None:
    if a is None or b is None:
        return b if a is None else a
    return _Part(a.origin, a.moments.merged(b.about(a.origin)))


_Found = tuple[BlockSummary, list[_Part | None]]


def _moments(X: Any, y: Any, factors: Any, parts: tuple[tuple[float, Any], ...]) -> _Found:
    found, X, y, group = inspect_block(X, y, factors)
    if found.defect is not None:
        return found, [None] * len(parts)
    X, own = as_double(X), []
    with np.errstate(over="ignore", invalid="ignore"):  # refused after the pass
        for sign, label in parts:
            rows = sign * y > 0.0
            if label is not None:
                rows &= members_in(group, label)
            own.append(_part(X[rows], np.abs(y[rows])))
    return found, own


def _merge(a: _Found, b: _Found) -> _Found:
    with np.errstate(over="ignore", invalid="ignore"):
        return joined(a[0], b[0]), [_united(u, v) for u, v in zip(a[1], b[1], strict=True)]


def of_moments(
    source: RowSource, class_weight: Any = None, apart: bool = False, factors: Factors | None = None
) -> Data:
    """Return bound data with the means and covariances of all rows and of named groups, without rows.

    Parameters
    ----------
    apart : True if only differences of means matter; the means are then relative to a point near them
    factors : of classes and groups, where rows have weights or groups

    Raises
    ------
    DataError
        NaN or inf, no samples, labels other than both -1 and +1, invalid weights or groups; squares of the
        entries that overflow.
    """
    labels: list[Any] = [None]
    labels += dict.fromkeys(label for _, label in (factors.named if factors else ()))
    keys = tuple((sign, label) for label in labels for sign in (1.0, -1.0))
    all_rows = source.map_reduce(_moments, factors, keys, merge=_merge)
    if all_rows is None:
        refuse_empty()
    found, parts = all_rows
    refuse_bad(found, factors.named if factors else ())
    weighing = EffectiveWeights(signed_factors(class_weight, found.whole))
    origin = parts[0].origin if apart else np.zeros(source.n)
    own: list[Any] = [None if part is None else part.about(origin) for part in parts]
    means = np.array([own[0].mean, own[1].mean])
    if factors is not None:
        source = WeightedRows(source, Factors(), int(found.counts.sum()))
    data = Data(means, np.array([1.0, -1.0]), weighing, source=source)
    data.m, data.scale, data.stored = source.m, found.top or 1.0, found.entries
    refuse_squares(data.scale, "covariances")
    data.counts, data.origin = tuple(found.totals.tolist()), origin if apart else None
    for label, plus, minus in zip(labels, own[::2], own[1::2], strict=True):
        _keep(data, label, plus, minus)
    return data


def _keep(data: Data, label: Any, plus: Moments | None, minus: Moments | None) -> None:
    """Store the means and covariances of a group, or of all samples for None."""
    signed = None
    for f, sign, own in zip(data.weighing.classes, (1.0, -1.0), (plus, minus), strict=True):
        if own is not None:
            part = Moments(f * own.total, sign * own.mean, f * own.scatter)
            signed = part if signed is None else signed.merged(part)
    for kind, own in {"pos": plus, "neg": minus, "signed": signed}.items():
        if own is not None:
            F = MatrixMap(psd_root(own.covariance))
            known = {"mean": own.mean, "covariance": own.covariance, "covariance_factor": F}
            for name, value in known.items():
                data.once((name, kind, label), lambda value=value: value)
