"""Weights and groups of samples in memory, and of rows that are read block by block.

A source with weights or groups gives structured arrays in place of labels, one entry per row. A computation
of a model sees neither: rows of weight 0, and of groups outside the model, are left out, and the label of
another row is +c or -c, c its weight.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucm.data.linear_map import Matrix, Vec
from ucm.data.options import POSITIVE
from ucm.errors import DataError, ParameterError, brief

ClassWeight = tuple[float, float] | Mapping[int, float] | str | None
"""(factor of class +1, factor of class -1), {1: ..., -1: ...}, "balanced" or None."""


@dataclass(frozen=True)
class EffectiveWeights:
    """The sample weights and class factors of a two-class problem.

    The weight of a sample is a number of copies, and m is the sum of these weights. A class factor multiplies
    the weights of the samples of a class and leaves m as it is.
    """

    classes: tuple[float, float] = (1.0, 1.0)  # factors of class +1 and of class -1
    samples: Vec | None = None  # (m,) weights of the samples, positive; None where all are 1
    nonzero: NDArray[np.intp] | None = None  # indices of the samples of positive weight; None for all
    n_input: int = 0  # number of samples, samples of weight 0 included

    @functools.cached_property
    def is_uniform(self) -> bool:
        """True if every sample weight and both class factors are 1."""
        return self.samples is None and self.classes == (1.0, 1.0)

    @property
    def given_weights(self) -> Vec | None:
        """The `sample_weight` of all input samples, zeros included; None if every weight is 1."""
        if self.nonzero is None:
            return self.samples
        return self.scatter(np.ones(self.nonzero.size) if self.samples is None else self.samples)

    def scatter(self, v: np.ndarray | None) -> Any:
        """Expand a vector over the samples of positive weight to all input samples, with 0 for weight 0."""
        if v is None or self.nonzero is None:
            return v
        entries = np.zeros(self.n_input, v.dtype)
        entries[self.nonzero] = v
        return entries

    def gather(self, v: Vec | None) -> Vec | None:
        """Restrict a vector over all input samples to the samples of positive weight."""
        return v if v is None or self.nonzero is None else v[self.nonzero]


UNWEIGHTED = EffectiveWeights()
SAMPLE_OPTIONS = ("class_weight", "sample_weight", "subgroup", "pos_label", "per_sample")
"""The options of every function that takes samples."""


def class_totals(c: Vec | None, y: Vec) -> Vec:
    """Return the sums of the weights c of class +1 and of class -1; of ones for c None."""
    sides = y > 0.0, y < 0.0
    return np.array([np.sum(side) if c is None else c[side].sum() for side in sides], dtype=np.float64)


def class_factors(
    class_weight: object, labels: Sequence[object], totals: ArrayLike | None = None, pair: bool = False
) -> list[float]:
    """Return the factor of each class in the order of the labels; raise `ParameterError` for invalid ones.

    class_weight : None, "balanced" or {label: factor}; as a `pair` also (factor of class +1, factor of class
        -1) and {1: ..., -1: ...}
    totals : the sums of the weights of the samples of each class, for "balanced"; None to validate only
    pair : whether the labels are of class -1 and class +1 of a library function
    """
    names, factors, wrong = list(labels), {}, ""
    match class_weight.tolist() if isinstance(class_weight, np.ndarray) else class_weight:
        case None:
            pass
        case "balanced":
            sums = np.ones(len(labels)) if totals is None else np.asarray(totals)
            factors = dict(zip(names, (sums.sum() / (len(labels) * sums)).tolist(), strict=True))
        case [plus, minus] if pair:
            factors = dict(zip(names, (minus, plus), strict=True))
        case Mapping() as factors:
            names = [-1, 1] if pair and not all(key in names for key in factors) else names
        case _:
            wrong = f"{brief(class_weight)}; write for example {{label: 2.0}}"
    for label, w in factors.items():
        if (type(label) is bool) != (type(names[0]) is bool) or label not in names:
            wrong = f"the label {brief(label)}; leave it out"
        elif not POSITIVE.holds(w):
            wrong = f"{brief(w)} for {brief(label)}; every factor is positive and finite"
    if wrong:
        pairs = ", two numbers (of class +1 and of class -1)" if pair else ""
        raise ParameterError(
            f'class_weight: expected None, "balanced"{pairs} or positive factors of the labels '
            f"{list(labels)}, got {wrong}"
        )
    return [float(factors.get(label, 1.0)) for label in names]


def signed_factors(
    class_weight: object, totals: Vec | None = None, labels: tuple[object, object] = (-1, 1)
) -> tuple[float, float]:
    """Return the factors of class +1 and -1; `totals` are of class +1 and -1, `labels` of class -1 and +1."""
    minus, plus = class_factors(class_weight, labels, None if totals is None else totals[::-1], pair=True)
    return plus, minus


def sample_weights_of(
    y: Vec, weights: Vec | None, class_weight: object, labels: tuple[object, object]
) -> EffectiveWeights:
    """Combine validated sample weights and class weights, without the samples of weight 0.

    Raises `DataError` if all samples of a class have weight 0, and `ParameterError` as `class_factors`.
    """
    totals = class_totals(weights, y)
    nonzero, samples = None, weights
    if weights is not None:
        refuse_weightless(np.where(class_totals(None, y) > 0.0, totals, np.inf))
        if not weights.all():
            nonzero = np.flatnonzero(weights)
            samples = weights[nonzero]
            samples = None if (samples == 1.0).all() else samples
    balanced = totals if totals.all() else None  # without samples of a class there is no balance
    classes = signed_factors(class_weight, balanced, labels)
    return EffectiveWeights(classes, samples, nonzero, y.size)


def refuse_weightless(totals: Vec) -> None:
    """Raise `DataError` if the total weight of class +1 or class -1 is 0."""
    if min(totals) == 0.0:
        none = "-1" if totals[0] else "+1"
        raise DataError(
            f"sample_weight: expected samples of both classes with a positive weight, got zeros for all of "
            f"class {none}; give some of them a positive weight, or leave the class out"
        )


# --- rows that are read block by block ---------------------------------------------------------------
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


def untagged(y: ArrayLike) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Return the labels, weights and groups in a plain array of labels or a `tagged` array; None without."""
    y = np.asarray(y)
    names = y.dtype.names or ()
    weight, group = (y[name] if name in names else None for name in ("weight", "group"))
    return y["label"] if names else y, weight, group


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

    `plus` and `minus` are summands of the factor in class +1 and class -1, by the label of a group, or None
    for all rows of the class.
    """

    plus: Mapping[object, float] = field(default_factory=lambda: {None: 1.0})
    minus: Mapping[object, float] = field(default_factory=lambda: {None: 1.0})
    model_groups: tuple[tuple[str, object], ...] = ()  # kind and label of the groups that a model names

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
    label, weight, group = untagged(y)
    positive = label > 0.0
    c = factors.of(positive, group)
    c = c if weight is None else c * np.asarray(weight, dtype=np.float64)
    v = np.where(positive, c, -c)
    if (c > 0.0).all():
        return X, v, None
    rows = np.flatnonzero(c > 0.0)
    return X[rows], v[rows], rows
