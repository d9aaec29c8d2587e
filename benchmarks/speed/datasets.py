"""The sets of Tables 5 and 8 of Ito, Takeda and Toh (2015), and models with parameters for them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import dense, scaled
from ucm.cli.named_model import declare
from ucm.data import datasets
from ucm.data.bound_data import bind
from ucm.language import models
from ucm.ranges.relative_sizes import with_numbers

__all__ = ["KAPPA", "NU", "SHAPES", "declared", "load", "present"]

_PRINTED: dict[str, tuple[float, float | None]] = {
    "a8a": (0.368, 0.476),
    "a9a": (0.365, 0.480),
    "australian": (0.348, 0.617),
    "breast-cancer": (0.128, 1.16),
    "cod-rna": (0.223, 0.705),
    "colon-cancer": (0.078, 0.924),
    "diabetes": (0.533, 0.344),
    "duke": (0.106, 0.989),
    "fourclass": (0.543, 0.361),
    "german.numer": (0.525, 0.326),
    "gisette": (0.100, 4.27),
    "heart": (0.388, 0.548),
    "ijcnn1": (0.186, 0.450),
    "ionosphere": (0.202, 0.648),
    "leu": (0.070, 1.05),
    "liver-disorders": (0.731, 0.204),
    "madelon": (0.603, 0.325),
    "mushrooms": (0.096, 7.66),
    "rcv1-origin": (0.097, None),
    "real-sim": (0.065, None),
    "skin-nonskin": (0.233, 0.814),
    "sonar": (0.117, 0.644),
    "splice": (0.432, 0.509),
    "svmguide1": (0.180, 0.629),
    "svmguide3": (0.408, 0.312),
    "w7a": (0.031, 0.703),
    "w8a": (0.031, 0.697),
}
NU = {name: nu for name, (nu, _) in _PRINTED.items()}
"""Table 5, without covtype and the sets too large for one machine."""

KAPPA = {name: kappa for name, (_, kappa) in _PRINTED.items() if kappa is not None}
"""Table 8: half of the largest kappa."""


def present() -> list[str]:
    """Return the available sets of Table 5."""
    known = datasets.names()
    return [name for name in NU if name in known]


SHAPES = {
    "scaled/a9a": 8_000, "scaled/cod-rna": 20_000, "scaled/german.numer": 1_000, "scaled/ijcnn1": 15_000,
    "scaled/madelon": 2_000, "scaled/mushrooms": 8_124, "scaled/splice": 1_000, "scaled/usps": 5_000,
    "scaled/w8a": 10_000, "synthetic/20": 20_000, "synthetic/50": 20_000, "synthetic/200": 20_000,
    "synthetic/600": 8_000,
}  # fmt: skip
"""Thirteen dense sets with features of deviation 1 for kernels, and their numbers of samples."""


@functools.lru_cache(maxsize=2)
def load(name: str, m: int = 0) -> tuple[Any, NDArray[np.float64]]:
    """Return samples and the labels -1 and +1; at most m samples, drawn at random, if m is positive.

    "scaled/NAME" has the features of a set as a dense array, scaled to deviation 1, "synthetic/n" m samples
    with n features, half of them informative.
    """
    X: Any
    y: Any
    kind, _, part = name.partition("/")
    if kind == "synthetic":
        from sklearn.datasets import make_classification

        n = int(part)
        X, y = make_classification(
            m or SHAPES[name], n, n_informative=n // 2, flip_y=0.05, class_sep=0.8, random_state=0
        )
    else:
        X, y = dense(part) if part else datasets.load(name)
    if 0 < m < y.size:
        rows = np.random.default_rng(0).permutation(y.size)[:m]
        X, y = X[rows], y[rows]
    return scaled(X) if part else X, np.where(y > 0, 1.0, -1.0)


def declared(name: str, X: Any, y: Any, nu: float, kappa: float) -> Any:
    """Return a named model with nu of Table 5 or kappa of Table 8, or with an active size.

    A norm is 1.05 times the least norm, alpha 0.95 times the largest; other sizes are in the middle of their
    admissible interval.
    """
    a, b = np.count_nonzero(y > 0), np.count_nonzero(y < 0)
    if name == "nu_svm":
        return models.nu_svm(nu)
    if name == "l2_nu_svm":
        return models.l2_nu_svm(0.525 * float(np.sqrt(1.0 / a + 1.0 / b)))
    if name == "biased_l2_nu_svm":
        return models.biased_l2_nu_svm(1.05 / float(np.sqrt(a)), 1.05 / float(np.sqrt(b)))
    if name == "kl_svm":
        return models.kl_svm(0.95 * 2.0 * float(np.sqrt(a * b)) / y.size)
    if name.startswith(("mm_", "coherent")):
        return getattr(models, name)(kappa)
    return with_numbers(declare(name), bind(X, y))
