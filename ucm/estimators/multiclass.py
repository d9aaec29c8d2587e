"""Reduction of several classes to two-class problems, one against one or one against the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeVar

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from ucm.data.linear_map import Matrix, Vec
from ucm.data.weights import class_factors
from ucm.errors import UCMError
from ucm.estimators.validation import Samples, counted, offset_of

Part = TypeVar("Part")
Result = TypeVar("Result")
MANY = 10  # classes, from which on one against the rest takes less time and is about as accurate


@dataclass(frozen=True)
class Pair:
    """A two-class problem: its positive and negative class, the indices of its samples, and their signs."""

    positive: int
    negative: int  # -1 for all the other classes
    rows: NDArray[np.intp]
    signs: NDArray[np.int8]

    def prefix(self, classes: np.ndarray) -> str:
        """Return the prefix of messages about the problem, as `1 against 2: `; empty for two classes."""
        if classes.size == 2:
            return ""
        names = list(map(repr, classes.tolist()))
        return f"{names[self.positive]} against {'the rest' if self.negative < 0 else names[self.negative]}: "


def score_sign(classes: np.ndarray, pos_label: object) -> float:
    """Return the factor from `w'x + b` to decision values, which are positive for `classes[1]` of two.

    It is -1 if class +1 of the declaration is `classes[0]`.
    """
    return -1.0 if classes.size == 2 and pos_label == classes[0] else 1.0


def scheme_of(multi_class: str, count: int) -> str:
    """Return "ovo" or "ovr" for a number of classes: "auto" is "ovr" from `MANY` classes on."""
    return multi_class if multi_class != "auto" else "ovr" if count >= MANY else "ovo"


def pairs_of(classes: np.ndarray, classifier: Any) -> list[tuple[int, int]]:
    """Return the (positive, negative) class indices of each two-class problem; -1 means all other classes."""
    k = classes.size
    if k == 2:
        return [(1, 0) if score_sign(classes, classifier.pos_label) > 0.0 else (0, 1)]
    if scheme_of(classifier.multi_class, k) == "ovr":
        return [(i, -1) for i in range(k)]
    return list(combinations(range(k), 2))


def contrast(v: NDArray[np.float64], positive: int, negative: int) -> Vec:
    """Return a quantity of each class in a problem: of one class minus the other, or against the rest."""
    return v[:, positive] if negative < 0 else v[:, positive] - v[:, negative]


def _against(positive: int, negative: int, count: int) -> list[int]:
    return [negative] if negative >= 0 else [c for c in range(count) if c != positive]


def pair_factors(positive: int, negative: int, factors: Vec, counts: Vec) -> tuple[float, float]:
    """Return the class weights of the two sides of a problem; a side of several classes has the mean."""
    negatives = _against(positive, negative, factors.size)
    return float(factors[positive]), float(np.average(factors[negatives], weights=counts[negatives]))


class Problems:
    """The two-class problems of given samples, with the arguments of `ucm.compile` for each problem.

    For two classes the one problem of `pos_label` against the other class either way. "ovo": i against j for
    every i < j, in the order of scikit-learn; "ovr": each class against the rest.

    Parameters
    ----------
    classifier : whose `multi_class`, `pos_label`, `class_weight` and `kernel` count
    rows : indices of the samples; None for all
    """

    def __init__(self, classifier: Any, samples: Samples, rows: NDArray[np.intp] | None = None) -> None:
        self._samples = samples
        self._square = classifier.kernel == "precomputed"
        self._offset = offset_of(classifier.declared_model)
        self._every = np.arange(samples.index.size)
        rows = self._every if rows is None else rows
        index, classes = samples.index[rows], samples.classes
        weights = None if samples.weights is None else samples.weights[rows]
        self._counts = counted(weights, classes, index)
        self._factors = np.array(class_factors(classifier.class_weight, classes.tolist(), self._counts))
        self.pairs: list[Pair] = []
        for i, j in pairs_of(classes, classifier):
            part = rows, index
            if j >= 0 and classes.size > 2:
                members = (index == i) | (index == j)
                part = rows[members], index[members]
            signs = np.where(part[1] == i, np.int8(1), np.int8(-1))
            self.pairs.append(Pair(i, j, part[0], signs))

    def classes_against(self, pair: Pair) -> list[int]:
        """Return the indices of the classes on the negative side of a problem."""
        return _against(pair.positive, pair.negative, self._samples.classes.size)

    def arguments(self, pair: Pair) -> dict:
        """Return the keyword arguments of `ucm.compile` for a problem.

        The rest has the mean class weight of its samples.
        """
        s, rows = self._samples, pair.rows
        return {
            "X": self.part(rows, rows),
            "y": pair.signs,
            "class_weight": pair_factors(pair.positive, pair.negative, self._factors, self._counts),
            "sample_weight": None if s.weights is None else s.weights[rows],
            "subgroup": None if s.groups is None else s.groups[rows],
            "per_sample": self.quantities(pair, rows),
        }

    def quantities(self, pair: Pair, rows: NDArray[np.intp]) -> dict[str, Vec]:
        """Return the quantities of some samples in a problem, by name."""
        return {
            name: contrast(v[rows], pair.positive, pair.negative)
            if name == self._offset and v.ndim > 1
            else v[rows]
            for name, v in self._samples.per_sample.items()
        }

    def part(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Matrix:
        """Return the given rows of X, for a precomputed Gram matrix restricted to the given columns."""
        X = self._samples.X
        if rows is self._every:
            return X
        return np.ascontiguousarray(X[rows][:, columns]) if self._square else X[rows]


@contextmanager
def about_pair(prefix: str) -> Iterator[None]:
    """Prefix the message of a `UCMError` raised in the context with the name of the problem."""
    try:
        yield
    except UCMError as error:
        if not prefix:
            raise
        raise type(error)(f"Classifier: {prefix}{error}") from error


def each(work: Callable[[Part], Result], parts: Sequence[Part], n_jobs: int | None) -> Iterator[Result]:
    """Yield `work(part)` for every part in order, computed in `n_jobs` threads that share the samples.

    Compiled code and BLAS release the interpreter lock.
    """
    if n_jobs in (None, 1) or len(parts) == 1:
        yield from map(work, parts)
    else:
        # each thread keeps what is silenced here
        tasks = [delayed(copy_context().run)(work, part) for part in parts]
        results: Any = Parallel(n_jobs=n_jobs, require="sharedmem")(tasks)
        yield from results


def one_vs_one_scores(scores: NDArray[np.float64], classes: int) -> NDArray[np.float64]:
    """Return the one-against-one votes of each class, (m, classes); summed decision values break ties.

    The sums are squeezed into (-1/3, 1/3), so that no sum outweighs a vote.

    Parameters
    ----------
    scores : (m, classes (classes - 1) / 2), positive for the first class of the pair
    """
    first, second = np.array(list(combinations(range(classes), 2))).T
    positive, negative = np.eye(classes)[first], np.eye(classes)[second]  # (problems, classes)
    sums, won = scores @ (positive - negative), scores > 0.0
    return won @ positive + ~won @ negative + sums / (3.0 * (np.abs(sums) + 1.0))


def coupled_probabilities(pairwise: NDArray[np.float64], classes: int) -> NDArray[np.float64]:
    """Return class probabilities p, (m, classes), from those of the first class of each pair of classes.

    p minimises `sum over i != j of (r_ji p_i - r_ij p_j)^2` with sum 1, where `r_ij` is the probability of i
    among i and j. Then p >= 0. Wu, Lin and Weng (2004), "Probability estimates for multi-class classification
    by pairwise coupling", equations (18) and (19).

    Parameters
    ----------
    pairwise : (m, classes (classes - 1) / 2)
    """
    i, j = np.array(list(combinations(range(classes), 2))).T
    m, every = pairwise.shape[0], np.arange(classes)
    r = np.zeros((m, classes, classes))
    r[:, i, j], r[:, j, i] = pairwise, 1.0 - pairwise
    system = np.ones((m, classes + 1, classes + 1))  # the conditions of optimality with a multiplier
    system[:, :-1, :-1] = -r * r.transpose(0, 2, 1)
    system[:, every, every] = (r**2).sum(axis=1)
    system[:, -1, -1] = 0.0
    P = np.maximum(np.linalg.solve(system, np.eye(classes + 1)[:, -1:])[:, :-1, 0], 0.0)
    return P / P.sum(axis=1, keepdims=True)


def answers(S: NDArray[np.float64], classes: np.ndarray, scheme: str) -> np.ndarray:
    """Return the predicted labels, (test, values), for (test, problems, values) decision values.

    `scheme` is a value of `multi_class`.
    """
    if classes.size == 2:
        return classes[(S[:, 0] > 0.0).astype(np.intp)]
    if scheme_of(scheme, classes.size) == "ovr":
        return classes[np.argmax(S, axis=1)]
    votes = [one_vs_one_scores(S[:, :, k], classes.size).argmax(axis=1) for k in range(S.shape[2])]
    return classes[np.column_stack(votes)]
