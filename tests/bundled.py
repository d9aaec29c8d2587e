"""Small data sets bundled with scikit-learn, scaled, with labels -1 and +1."""

from __future__ import annotations

import functools

import numpy as np
from sklearn.preprocessing import scale
from typed import scikit

__all__ = ["NAMES", "load"]

NAMES = ("breast_cancer", "iris", "wine", "digits")


@functools.cache
def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """(X, y); `iris` and `breast_cancer` overlap, `wine` and `digits` are separable."""
    if name == "breast_cancer":  # three features, so that the classes overlap
        X, label = scikit.load_breast_cancer(return_X_y=True)
        X, y = X[:200, [0, 1, 4]], 2.0 * label[:200] - 1.0
    elif name == "iris":
        X, label = scikit.load_iris(return_X_y=True)
        X, y = X[50:, :2], np.where(label[50:] == 2, 1.0, -1.0)
    elif name == "wine":
        X, label = scikit.load_wine(return_X_y=True)
        X, y = X, np.where(label == 0, 1.0, -1.0)
    else:  # more features than samples, some of them constant
        X, label = scikit.load_digits(return_X_y=True)
        chosen = np.flatnonzero((label == 3) | (label == 8))[:36]
        X, y = X[chosen], np.where(label[chosen] == 3, 1.0, -1.0)
    X = np.asarray(scale(X))
    X.flags.writeable = False
    y.flags.writeable = False
    return X, y
