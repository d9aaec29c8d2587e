"""Weights of the samples, from `sample_weight` and `class_weight`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import Vec
from ucm.data.validation import refuse_weightless
from ucm.errors import ParameterError, brief

__all__ = [
    "SAMPLE_OPTIONS",
    "UNWEIGHTED",
    "ClassWeight",
    "EffectiveWeights",
    "by_sign",
    "check_class_weight",
    "factors_of",
    "sample_weights_of",
]

ClassWeight = tuple[float, float] | Mapping[int, float] | str | None
"""(factor of class +1, factor of class -1), {1: ..., -1: ...}, "balanced" or None."""


@dataclass(frozen=True)
class EffectiveWeights:
    """The weights of samples and classes.

    A weight of a sample is a repetition: of m = sum of the weights samples there are so many copies. A
    weight of a class is a factor of the weights of its samples that leaves m as it is.

    Attributes
    ----------
    classes : factors of class +1 and of class -1
    samples : (m,) weights of the samples, positive; None where all are 1
    kept : indices of the samples of positive weight; None for all
    given : number of samples with those of weight 0; 0 without weights
    """

    classes: tuple[float, float] = (1.0, 1.0)
    samples: Vec | None = None
    nonzero: NDArray[np.intp] | None = None
    n_input: int = 0

    @property
    def is_uniform(self) -> bool:
        """Whether every weight is 1."""
        return self.samples is None and self.classes == (1.0, 1.0)

    @property
    def given_weights(self) -> Vec | None:
        """`sample_weight` of all given samples; None if all are 1."""
        if self.nonzero is None:
            return self.samples
        return self.scatter(np.ones(self.nonzero.size) if self.samples is None else self.samples)

    def scatter(self, v: NDArray[Any] | None) -> Any:
        """Return an entry for every given sample: 0 for a sample of weight 0."""
        if v is None or self.nonzero is None:
            return v
        whole = np.zeros(self.n_input, v.dtype)
        whole[self.nonzero] = v
        return whole

    def gather(self, v: Vec | None) -> Vec | None:
        """The entries of the samples of positive weight."""
        return v if v is None or self.nonzero is None else v[self.nonzero]


UNWEIGHTED = EffectiveWeights()
SAMPLE_OPTIONS = ("class_weight", "sample_weight", "subgroup", "pos_label")
"""The options of every function that takes samples."""


def by_sign(class_weight: Any, labels: tuple[Any, Any]) -> Any:
    """Return class weights by label as class weights by sign; `labels` are those of class -1 and +1."""
    by_label = isinstance(class_weight, Mapping) and all(key in labels for key in class_weight)
    if not by_label or labels == (-1, 1):
        return class_weight
    return {sign: class_weight[key] for sign, key in zip((-1, 1), labels) if key in class_weight}


def check_class_weight(class_weight: Any) -> None:
    """Validate class weights.

    Raises
    ------
    ParameterError
        No pair of positive numbers, no dict of them with the keys -1 and 1, and not "balanced".
    """
    given = class_weight.tolist() if isinstance(class_weight, np.ndarray) else class_weight
    if given is None or (isinstance(given, str) and given == "balanced"):
        return
    wanted = (
        "class_weight: expected two positive numbers (the factors of class +1 and of class -1), "
        '{label: ...}, "balanced" or None'
    )
    if isinstance(given, Mapping):
        unknown = [k for k in given if isinstance(k, bool) or k not in (1, -1)]
        if unknown:
            raise ParameterError(
                f"{wanted}, got the key {brief(unknown[0])}, which is no label of y"
            )
        numbers = list(given.values())
    elif isinstance(given, tuple | list) and len(given) == 2:
        numbers = list(given)
    else:
        raise ParameterError(f"{wanted}, got {brief(class_weight)}; leave it out for equal weights")
    for w in numbers:
        if not isinstance(w, Real) or isinstance(w, bool) or not 0.0 < float(w) < math.inf:
            raise ParameterError(
                f"{wanted}, got {brief(class_weight)}; every factor is positive and finite"
            )


def sample_weights_of(y: Vec, weights: Vec | None, class_weight: Any) -> EffectiveWeights:
    """Return the weights of samples with the labels y, without samples of weight 0; both kinds of weights are
    validated.

    Raises
    ------
    DataError
        All samples of a class have weight 0.
    """
    kept = None
    samples = weights
    if weights is not None:
        refuse_weightless((float(weights[y == 1.0].sum()), float(weights[y == -1.0].sum())))
        if not weights.all():
            kept = np.flatnonzero(weights)
            samples = weights[kept]
            samples = None if (samples == 1.0).all() else samples
    totals = 0.0, 0.0
    if isinstance(class_weight, str):
        counts = np.ones(y.size) if weights is None else weights
        totals = float(counts[y == 1.0].sum()), float(counts[y == -1.0].sum())
    return EffectiveWeights(factors_of(totals, class_weight), samples, kept, y.size)


def factors_of(totals: tuple[float, float], class_weight: Any) -> tuple[float, float]:
    """Return the factors of class +1 and class -1 of validated class weights; `totals` counts the classes."""
    if class_weight is None:
        return 1.0, 1.0
    if isinstance(class_weight, str):
        plus, minus = totals
        return (plus + minus) / (2.0 * plus), (plus + minus) / (2.0 * minus)
    if isinstance(class_weight, Mapping):
        return float(class_weight.get(1, 1.0)), float(class_weight.get(-1, 1.0))
    return float(class_weight[0]), float(class_weight[1])
