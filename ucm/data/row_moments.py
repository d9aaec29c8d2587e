"""Means and covariances of samples that are read block by block, in one pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from ucm.data.bound_data import Data, refuse_squares
from ucm.data.effective_weights import EffectiveWeights, signed_factors
from ucm.data.moments import Moments, united
from ucm.data.row_metadata import Factors, members_in
from ucm.data.source import RowSource, WeightedRows, as_double
from ucm.data.validation import BlockSummary, inspect_block, joined, refuse_bad, refuse_empty

__all__ = ["of_moments"]

_Found = tuple[BlockSummary, list[Moments | None]]


def _moments(X: Any, y: Any, factors: Any, parts: tuple[tuple[float, Any], ...]) -> _Found:
    """Return the summary of a block, and the moments of each part, a class and the label of a group."""
    found, X, y, group = inspect_block(X, y, factors)
    if found.defect is not None:
        return found, [None] * len(parts)
    X, own = as_double(X), []
    with np.errstate(over="ignore", invalid="ignore"):  # refused after the pass
        for sign, label in parts:
            rows = sign * y > 0.0
            if label is not None:
                rows &= members_in(group, label)
            own.append(Moments.of(X[rows], np.abs(y[rows])) if rows.any() else None)
    return found, own


def _merge(a: _Found, b: _Found) -> _Found:
    with np.errstate(over="ignore", invalid="ignore"):
        return joined(a[0], b[0]), list(map(united, a[1], b[1]))


def of_moments(source: RowSource, class_weight: Any = None, factors: Factors | None = None) -> Data:
    """Return bound data with the means and covariances of all rows and of named groups, without rows.

    Parameters
    ----------
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
    scale = found.top or 1.0
    refuse_squares(scale, "covariances")
    weighing = EffectiveWeights(signed_factors(class_weight, found.whole))
    moments: dict[tuple[str, Any], Moments] = {}
    for label, *classes in zip(labels, parts[::2], parts[1::2], strict=True):
        signed = None
        for kind, sign, factor, own in zip(
            ("pos", "neg"), (1.0, -1.0), weighing.classes, classes, strict=True
        ):
            if own is not None:
                moments[kind, label] = own
                signed = united(
                    signed, Moments(factor * own.total, sign * own.mean, factor * own.scatter)
                )
        if signed is not None:
            moments["signed", label] = signed
    if factors is not None:
        source = WeightedRows(source, Factors(), int(found.counts.sum()))
    means = np.array([moments["pos", None].mean, moments["neg", None].mean])
    data = Data(means, np.array([1.0, -1.0]), weighing, source=source, moments=moments)
    data.m, data.scale, data.stored = source.m, scale, found.entries
    data.counts = tuple(found.totals.tolist())
    return data
