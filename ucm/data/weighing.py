"""What the samples weigh: `sample_weight` and `class_weight`, read once and in one way everywhere."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear import Vec
from ucm.errors import DataError, ParameterError, brief

__all__ = [
    "PLAIN",
    "ClassWeight",
    "Weighing",
    "check_class_weight",
    "factors_of",
    "read_weights",
    "weighing_of",
]

ClassWeight = tuple[float, float] | Mapping[int, float] | str | None
"""(factor of class +1, factor of class -1), {1: ..., -1: ...}, "balanced" or None."""


@dataclass(frozen=True)
class Weighing:
    """What each sample weighs.

    A weight of a sample is a repetition: of m = sum of the weights samples there are so many copies. A
    weight of a class is a factor of the weights of its samples that leaves m as it is.

    Attributes
    ----------
    classes : factors of class +1 and of class -1
    samples : (m,) weights of the samples, positive; None where all are 1
    kept : indices of the samples of positive weight; None for all that were given
    given : number of samples that were given; 0 where no weights were
    """

    classes: tuple[float, float] = (1.0, 1.0)
    samples: Vec | None = None
    kept: NDArray[np.intp] | None = None
    given: int = 0

    @property
    def plain(self) -> bool:
        """Whether every weight is 1."""
        return self.samples is None and self.classes == (1.0, 1.0)

    @property
    def given_weights(self) -> Vec | None:
        """`sample_weight` as it was given; None where all are 1."""
        if self.kept is None:
            return self.samples
        return self.spread(np.ones(self.kept.size) if self.samples is None else self.samples)

    def spread(self, v: Vec | None) -> Vec | None:
        """An entry for every sample that was given: 0 for those of weight 0."""
        if v is None or self.kept is None:
            return v
        whole = np.zeros(self.given)
        whole[self.kept] = v
        return whole

    def gathered(self, v: Vec | None) -> Vec | None:
        """The entries of the samples of positive weight."""
        return v if v is None or self.kept is None else v[self.kept]


PLAIN = Weighing()


def read_weights(sample_weight: Any, m: int) -> Vec | None:
    """The weights of m samples; None where each is 1.

    Raises
    ------
    DataError
        They are no numbers, not one for each sample, negative, NaN or infinite, or all 0.
    """
    if sample_weight is None:
        return None
    wanted = f"sample_weight: expected {m} finite numbers that are not negative, one per row of X"
    try:
        if np.ma.is_masked(sample_weight):
            raise TypeError("a masked array with hidden entries")
        given = np.asarray(sample_weight)
        if given.dtype.kind not in "buif" and given.dtype != object:
            raise TypeError(f"entries of the type {given.dtype}")
        weights = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{wanted}, got {brief(sample_weight)} ({error})") from error
    if weights.shape != (m,):
        raise DataError(f"{wanted}, got an array of shape {weights.shape}; give a vector of them")
    bad = np.flatnonzero(~((weights >= 0.0) & (weights < math.inf)))
    if bad.size:
        k = int(bad[0])
        raise DataError(
            f"{wanted}, got {weights[k]:g} for sample {k}; a weight is a repetition, 0 leaves it out"
        )
    if not weights.any():
        raise DataError(f"{wanted}, got zeros only; give some sample a positive weight")
    return None if (weights == 1.0).all() else weights


def check_class_weight(class_weight: Any) -> None:
    """Refuse what no classes could have as weights.

    Raises
    ------
    ParameterError
        It is no pair of positive numbers, no dict of them with the keys -1 and 1, and not "balanced".
    """
    given = class_weight.tolist() if isinstance(class_weight, np.ndarray) else class_weight
    if given is None or (isinstance(given, str) and given == "balanced"):
        return
    wanted = (
        "class_weight: expected two positive numbers (the factors of class +1 and of class -1), "
        '{1: ..., -1: ...}, "balanced" or None'
    )
    if isinstance(given, Mapping):
        unknown = [k for k in given if isinstance(k, bool) or k not in (1, -1)]
        if unknown:
            raise ParameterError(
                f"{wanted}, got the key {brief(unknown[0])}; the classes are -1 and 1, and ucm.Classifier "
                "takes weights by label"
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


def weighing_of(y: Vec, weights: Vec | None, class_weight: Any) -> Weighing:
    """The weighing of samples with the labels y, those of weight 0 left out; both kinds of weights have been
    read.

    Raises
    ------
    DataError
        All samples of a class have weight 0.
    """
    kept = None
    samples = weights
    if weights is not None:
        for label in (1.0, -1.0):
            if not weights[y == label].any():
                raise DataError(
                    f"sample_weight: expected samples of both classes with a positive weight, got zeros for "
                    f"all of class {label:+g}; give some of them a positive weight, or leave the class out"
                )
        if not weights.all():
            kept = np.flatnonzero(weights)
            samples = weights[kept]
            samples = None if (samples == 1.0).all() else samples
    totals = 0.0, 0.0
    if isinstance(class_weight, str):
        counts = np.ones(y.size) if weights is None else weights
        totals = float(counts[y == 1.0].sum()), float(counts[y == -1.0].sum())
    return Weighing(factors_of(totals, class_weight), samples, kept, y.size)


def factors_of(totals: tuple[float, float], class_weight: Any) -> tuple[float, float]:
    """The factors of class +1 and class -1, of which there are so many samples; read before."""
    if class_weight is None:
        return 1.0, 1.0
    if isinstance(class_weight, str):
        plus, minus = totals
        return (plus + minus) / (2.0 * plus), (plus + minus) / (2.0 * minus)
    if isinstance(class_weight, Mapping):
        return float(class_weight.get(1, 1.0)), float(class_weight.get(-1, 1.0))
    return float(class_weight[0]), float(class_weight[1])
