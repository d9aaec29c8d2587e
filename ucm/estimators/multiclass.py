"""Two-class problems of several classes, and their combination."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from ucm.data.linear import Vec
from ucm.errors import UCMError

__all__ = ["Pair", "about_pair", "each", "one_vs_one_scores", "pairs_of", "side_weights"]


@dataclass(frozen=True)
class Pair:
    """A two-class problem.

    Attributes
    ----------
    positive, negative : indices of the classes; negative = -1 for all the others
    rows : the samples that take part
    signs : +1 or -1 for each of them, a byte
    """

    positive: int
    negative: int
    rows: NDArray[np.intp]
    signs: NDArray[np.int8]

    def named(self, classes: NDArray[Any]) -> str:
        """Return the prefix of messages about this problem; "" for two classes."""
        if classes.size == 2:
            return ""
        names = list(map(repr, classes.tolist()))
        return f"{names[self.positive]} against {'the rest' if self.negative < 0 else names[self.negative]}: "


@contextmanager
def about_pair(named: str) -> Iterator[None]:
    """Prefix errors with the name of the problem."""
    try:
        yield
    except UCMError as error:
        if not named:
            raise
        raise type(error)(f"Classifier: {named}{error}") from error


def pairs_of(index: NDArray[np.intp], classes: int, scheme: str) -> Iterator[Pair]:
    """Yield the two-class problems of `index`, the class of every sample.

    For two classes the one problem "class 1 against class 0" either way. "ovo": i against j for every
    i < j, in the order of scikit-learn; "ovr": each class against the rest.
    """
    everything = np.arange(index.size)
    if classes == 2:
        yield Pair(1, 0, everything, _signs(index == 1))
    elif scheme == "ovr":
        for i in range(classes):
            yield Pair(i, -1, everything, _signs(index == i))
    else:
        members = [np.flatnonzero(index == i) for i in range(classes)]
        for i, j in combinations(range(classes), 2):
            rows = np.sort(np.concatenate([members[i], members[j]]))
            yield Pair(i, j, rows, _signs(index[rows] == i))


def _signs(positive: NDArray[np.bool_]) -> NDArray[np.int8]:
    return np.where(positive, np.int8(1), np.int8(-1))


def side_weights(pair: Pair, weights: Vec, counts: Vec) -> tuple[float, float]:
    """Return the mean weights of both sides of a problem, from the weights and counts of the classes."""
    index = np.arange(weights.size)
    negative = index != pair.positive if pair.negative < 0 else index == pair.negative
    return float(weights[pair.positive]), float(
        np.average(weights[negative], weights=counts[negative])
    )


def each(work: Callable[..., Any], parts: Sequence[Any], n_jobs: int | None) -> Iterator[Any]:
    """Apply `work` to every part, `n_jobs` at a time, in threads, which share the samples.

    Compiled code and BLAS release the interpreter lock.
    """
    if n_jobs in (None, 1) or len(parts) == 1:
        yield from map(work, parts)
    else:
        yield from Parallel(n_jobs=n_jobs, require="sharedmem")(delayed(work)(p) for p in parts)


def one_vs_one_scores(scores: NDArray[np.float64], classes: int) -> NDArray[np.float64]:
    """Return (m, classes) votes of one-against-one decision values; the summed values break ties.

    The sums are squeezed into (-1/2, 1/2), so that no sum outweighs a vote: the rule of scikit-learn's
    `OneVsOneClassifier`.

    Parameters
    ----------
    scores : (m, classes (classes - 1) / 2), positive for the first class of the pair
    """
    votes = np.zeros((scores.shape[0], classes))
    sums = np.zeros_like(votes)
    for column, (i, j) in enumerate(combinations(range(classes), 2)):
        won = scores[:, column] > 0.0
        votes[:, i] += won
        votes[:, j] += ~won
        sums[:, i] += scores[:, column]
        sums[:, j] -= scores[:, column]
    return votes + sums / (3.0 * (np.abs(sums) + 1.0))
