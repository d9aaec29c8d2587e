"""Weights and groups of rows that are read block by block.

A source with weights or groups gives structured arrays in place of labels, one entry per row. A computation
of a model sees neither: rows of weight 0, and of groups outside the model, are left out, and the label of
another row is +c or -c, c its weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucm.data.linear_map import Matrix, Vec
from ucm.errors import DataError


def tagged(y: ArrayLike, weight: ArrayLike | None = None, group: ArrayLike | None = None) -> np.ndarray:
    """Return labels, weights and groups as one structured array; labels alone as a plain array."""
    columns = {"label": y, "weight": weight, "group": group}
    fields = {name: np.asarray(v) for name, v in columns.items() if v is not None}
    if len(fields) == 1:
        return fields["label"]
    records = np.empty(len(fields["label"]), [(name, v.dtype) for name, v in fields.items()])
    for name, v in fields.items():
        records[name] = v
    return records


def label_in(y: ArrayLike) -> np.ndarray:
    """Return the labels from a plain array of labels or a `tagged` array."""
    y = np.asarray(y)
    return y["label"] if y.dtype.names else y


def weight_in(y: ArrayLike) -> np.ndarray | None:
    """Return the weights from a `tagged` array, or None if it has no weights."""
    y = np.asarray(y)
    return y["weight"] if "weight" in (y.dtype.names or ()) else None


def group_in(y: ArrayLike) -> np.ndarray | None:
    """Return the groups from a `tagged` array, or None if it has no groups."""
    y = np.asarray(y)
    return y["group"] if "group" in (y.dtype.names or ()) else None


_OF = {"pos": "class +1", "neg": "class -1"}
_SHOWN = 6  # labels that a message lists


def no_members(kind: str, label: object, among: str = "") -> DataError:
    """Return the `DataError` for a group without samples of the kind `pos`, `neg` or `signed`."""
    return DataError(
        f"{kind}.group({label!r}): expected samples of {_OF.get(kind, 'both classes')} in the group, got "
        f"none{among}; leave the group out, or add samples"
    )


def members(groups: np.ndarray | None, kind: str, label: object, among: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the indices of a group out of `among`, the indices of a kind; raise `DataError` for none."""
    name = f"{kind}.group({label!r})"
    if groups is None:
        raise DataError(
            f"{name}: expected the group of every sample, got none; give them, as compile(..., "
            "subgroup=labels) or Classifier.fit(X, y, subgroup=labels), which scikit-learn passes on "
            "after sklearn.set_config(enable_metadata_routing=True) and set_fit_request(subgroup=True)"
        )
    mask = members_in(groups, label)
    if not mask.any():
        labels = list(dict.fromkeys(groups.tolist()))
        more = ", ..." if len(labels) > _SHOWN else ""
        raise DataError(
            f"{name}: expected one of the groups {', '.join(map(repr, labels[:_SHOWN]))}{more}, got "
            f"{label!r}, which no sample has; take one of them"
        )
    rows = among[mask[among]]
    if not rows.size:
        every = f" (all {np.count_nonzero(mask)} of the group are of the other class)"
        raise no_members(kind, label, every)
    return rows


def members_in(group: np.ndarray, label: object) -> NDArray[np.bool_]:
    """Return the boolean mask of the rows whose group is `label`."""
    if isinstance(label, str) != (group.dtype.kind in "UT") and group.dtype != object:
        return np.zeros(group.size, dtype=bool)
    return np.asarray(group == label, dtype=bool)


@dataclass(frozen=True)
class Factors:
    """Factors that multiply the weights of rows, by class and group.

    Attributes
    ----------
    plus, minus : summands of the factor in class +1 and class -1, by the label of a group, or None for all
        rows of the class
    model_groups : kind, `pos`, `neg` or `signed`, and label of the groups that a model names
    """

    plus: Mapping[object, float] = field(default_factory=lambda: {None: 1.0})
    minus: Mapping[object, float] = field(default_factory=lambda: {None: 1.0})
    model_groups: tuple[tuple[str, object], ...] = ()

    def of(self, positive: NDArray[np.bool_], group: np.ndarray | None) -> Vec:
        """Return the factor of each row, (m,), by its class and group."""
        factors = np.where(positive, self.plus.get(None, 0.0), self.minus.get(None, 0.0))
        for summands, rows in ((self.plus, positive), (self.minus, ~positive)):
            for label, factor in summands.items():
                if label is not None and group is not None:
                    factors += factor * (rows & members_in(group, label))
        return factors


def positive_rows(X: Matrix, y: np.ndarray, factors: Factors) -> tuple[Matrix, Vec, NDArray[np.intp] | None]:
    """Return the rows of positive weight, their labels times weights, and their indices (None: all rows)."""
    positive, weight = label_in(y) > 0.0, weight_in(y)
    c = factors.of(positive, group_in(y))
    c = c if weight is None else c * np.asarray(weight, dtype=np.float64)
    v = np.where(positive, c, -c)
    if (c > 0.0).all():
        return X, v, None
    rows = np.flatnonzero(c > 0.0)
    return X[rows], v[rows], rows


def magnitudes(y: Vec) -> Vec | None:
    """Return the weights `|y|` of rows whose y is label times weight; None if all weights are 1."""
    c = np.abs(y)
    return None if (c == 1).all() else c
