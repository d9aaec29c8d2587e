"""The sets of Tables 5 and 8 of Ito, Takeda and Toh (2015) and their parameters."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.data import datasets

__all__ = ["KAPPA", "NU", "OUT_OF_MEMORY", "load", "present"]

NU = {
    "a8a": 0.368,
    "a9a": 0.365,
    "australian": 0.348,
    "breast-cancer": 0.128,
    "cod-rna": 0.223,
    "colon-cancer": 0.078,
    "diabetes": 0.533,
    "duke": 0.106,
    "fourclass": 0.543,
    "german.numer": 0.525,
    "gisette": 0.100,
    "heart": 0.388,
    "ijcnn1": 0.186,
    "ionosphere": 0.202,
    "leu": 0.070,
    "liver-disorders": 0.731,
    "madelon": 0.603,
    "mushrooms": 0.096,
    "rcv1-origin": 0.097,
    "real-sim": 0.065,
    "skin-nonskin": 0.233,
    "sonar": 0.117,
    "splice": 0.432,
    "svmguide1": 0.180,
    "svmguide3": 0.408,
    "w7a": 0.031,
    "w8a": 0.031,
}
"""Table 5, without covtype and the sets too large for one machine."""

KAPPA = {
    "a8a": 0.476,
    "a9a": 0.480,
    "australian": 0.617,
    "breast-cancer": 1.16,
    "cod-rna": 0.705,
    "colon-cancer": 0.924,
    "diabetes": 0.344,
    "duke": 0.989,
    "fourclass": 0.361,
    "german.numer": 0.326,
    "gisette": 4.27,
    "heart": 0.548,
    "ijcnn1": 0.450,
    "ionosphere": 0.648,
    "leu": 1.05,
    "liver-disorders": 0.204,
    "madelon": 0.325,
    "mushrooms": 7.66,
    "skin-nonskin": 0.814,
    "sonar": 0.644,
    "splice": 0.509,
    "svmguide1": 0.629,
    "svmguide3": 0.312,
    "w7a": 0.703,
    "w8a": 0.697,
}
"""Table 8: half of the largest kappa."""

OUT_OF_MEMORY = 10_000
"""More samples than this have no Gram matrix here."""


def present() -> list[str]:
    """The sets of Table 5 that are at hand."""
    known = datasets.names()
    return [name for name in NU if name in known]


@functools.lru_cache(maxsize=2)
def load(name: str) -> tuple[Any, NDArray[np.float64]]:
    """Samples and labels."""
    X, y = datasets.load(name)
    return X, y.astype(np.float64)
