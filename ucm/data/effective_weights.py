"""Effective weights of samples, from `sample_weight` and `class_weight`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucm.data.linear_map import Vec
from ucm.data.options import POSITIVE
from ucm.data.validation import refuse_weightless
from ucm.errors import ParameterError, brief

ClassWeight = tuple[float, float] | Mapping[int, float] | str | None
"""(factor of class +1, factor of class -1), {1: ..., -1: ...}, "balanced" or None."""


@dataclass(frozen=True)
class EffectiveWeights:
    """The sample weights and class factors of a two-class problem.

    The weight of a sample is a number of copies, and m is the sum of these weights. A class factor multiplies
    the weights of the samples of a class and leaves m as it is.

    Attributes
    ----------
    classes : factors of class +1 and of class -1
    samples : (m,) weights of the samples, positive; None where all are 1
    nonzero : indices of the samples of positive weight; None for all
    n_input : number of samples, samples of weight 0 included
    """

    classes: tuple[float, float] = (1.0, 1.0)
    samples: Vec | None = None
    nonzero: NDArray[np.intp] | None = None
    n_input: int = 0

    @property
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
SAMPLE_OPTIONS = ("class_weight", "sample_weight", "subgroup", "pos_label")
"""The options of every function that takes samples."""


def class_factors(
    class_weight: object, labels: Sequence[Any], totals: ArrayLike | None = None, pair: bool = False
) -> list[float]:
    """Return the factor of each class in the order of the labels; raise `ParameterError` for invalid ones.

    Parameters
    ----------
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
    class_weight: object, totals: Vec | None = None, labels: tuple[Any, Any] = (-1, 1)
) -> tuple[float, float]:
    """Return the factors of class +1 and -1; `totals` are of class +1 and -1, `labels` of class -1 and +1."""
    minus, plus = class_factors(class_weight, labels, None if totals is None else totals[::-1], pair=True)
    return plus, minus


def sample_weights_of(
    y: Vec, weights: Vec | None, class_weight: object, labels: tuple[Any, Any]
) -> EffectiveWeights:
    """Combine validated sample weights and class weights, without the samples of weight 0.

    Raises `DataError` if all samples of a class have weight 0, and `ParameterError` as `class_factors`.
    """
    counts = np.ones(y.size) if weights is None else weights
    totals = np.array([counts[y > 0.0].sum(), counts[y < 0.0].sum()])
    nonzero, samples = None, weights
    if weights is not None:
        refuse_weightless(totals)
        if not weights.all():
            nonzero = np.flatnonzero(weights)
            samples = weights[nonzero]
            samples = None if (samples == 1.0).all() else samples
    classes = signed_factors(class_weight, totals, labels)
    return EffectiveWeights(classes, samples, nonzero, y.size)
