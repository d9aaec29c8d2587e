"""The data of the benchmarks, one set after the other, and those that are drawn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.bench.registry import COURSE, Row
from ucm.data import datasets
from ucm.errors import DataError

__all__ = ["UCI", "artificial", "dense", "missing", "noisy", "over", "scaled", "standardised"]

# of sets by name, or by what their names begin with; of the others "libsvm"
ORIGINS = {
    "uci": "UCI Machine Learning Repository",
    "ida": "the IDA benchmark sets of Raetsch, Onoda and Mueller (2001)",
    "usps": "LIBSVM Data, multi-class",
    "arcene": "the NIPS 2003 feature selection challenge, at UCI",
    "libsvm": "LIBSVM Data",
}
UCI = ("uci_pima", "uci_bupa", "uci_ionosphere", "uci_sonar", "uci_wpbc")


def over(
    names: Iterable[str],
    rows: Callable[..., Iterator[Row]],
    load: Callable[[str], tuple[Any, ...]] = datasets.load,
    where: str = "set",
    **labels: str,
) -> Iterator[Row]:
    """The rows of every set, `rows(name, *load(name))`; for one that is not at hand a row that says so and
    where it is from, its name in the column `where`."""
    for name in COURSE.over(names):
        try:
            data = load(name)
        except DataError as error:
            yield {**labels, where: name, "note": missing(error, name), "within": None}
        else:
            yield from rows(name, *data)


def missing(error: DataError, name: str) -> str:
    """What is said of a set that is not at hand: where it is from, and where it is looked for, by the name in
    the error."""
    told = re.match(r"data set '([^']+)'", str(error))
    name = told[1] if told else name
    family = name.partition("_")[0]
    origin = ORIGINS.get(name) or ORIGINS.get(family) or ORIGINS["libsvm"]
    return f"not at hand: {origin}; as {name}.npz in the folder UCM_DATA"


def dense(name: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """A set as an array."""
    X, y = datasets.load(name)
    return np.ascontiguousarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64), y


def scaled(X: Any) -> NDArray[np.float64]:
    """Features of mean 0 and deviation 1; constant ones 0."""
    from sklearn.preprocessing import scale

    return np.ascontiguousarray(scale(X))


def standardised(name: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """A set as an array, its features scaled."""
    X, y = dense(name)
    return scaled(X), y


def noisy(m: int, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Normal samples with labels by the sum of ten features and noise of twice a feature's size."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((m, n))
    w = np.where(np.arange(n) < 10, 1.0, 0.0)
    return X, np.where(X @ w + 2.0 * generator.standard_normal(m) >= 0.0, 1.0, -1.0)


def artificial(m: int, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The artificial data of Ito, Takeda and Toh (2015), section 6: two normal classes, N(0, I) and
    N(10 / sqrt(n), S S') with normal entries of S, then every feature on [-1, 1]."""
    generator = np.random.default_rng(0)
    y = np.where(generator.random(m) < 0.5, 1.0, -1.0)
    X = generator.standard_normal((m, n))
    S = generator.standard_normal((n, n))
    X[y < 0.0] = X[y < 0.0] @ S.T + 10.0 / np.sqrt(n)
    low, high = X.min(axis=0), X.max(axis=0)
    return 2.0 * (X - low) / (high - low) - 1.0, y
