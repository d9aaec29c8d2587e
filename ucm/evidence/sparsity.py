"""Sparsity of a classifier: the fractions of features and samples with an effect on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ucm.data.bound_data import Data
from ucm.evidence.objective import loss_slopes
from ucm.forms.solution import Solution
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin

FEATURE = 1e-6  # |w_j| above it: the feature is in use
SAMPLE = 1e-2  # the distance from the sloped part of the loss at which a sample still counts


@dataclass(frozen=True)
class Sparsity:
    """The fraction of features with nonzero weight, and of samples that are support vectors.

    features : of the features with `|w_j| > 1e-6`
    samples : of the samples that are support vectors; NaN if the model has no weights of samples
    """

    features: float
    samples: float

    @property
    def product(self) -> float:
        """The product of both fractions, (features x support vectors) / (dimensions x samples)."""
        return self.features * self.samples


def sparsity(model: RobustMargin | Objective, data: Data, solution: Solution) -> Sparsity:
    """Return the fraction of features with nonzero weight, and of samples that are support vectors.

    With losses, a support vector is a sample within 1e-2 of the sloped part of the loss: for the hinge
    `t_i < 1.01`, for the ramp `-mu^2 - 0.01 < t_i < mu + 0.01`. With sets of samples it is a sample
    with weight. `LeastSquares` slopes everywhere.

    Notes
    -----
    Ong and Le Thi (2013), section 4.
    """
    features = float(np.mean(np.abs(solution.w) > FEATURE))
    if isinstance(model, Objective):
        margin = data.y * (data.X @ solution.w + (solution.b or 0.0)) + model.shift(data.y, data.per_sample)
        sloped = loss_slopes(model, data, margin - SAMPLE), loss_slopes(model, data, margin + SAMPLE)
        return Sparsity(features, float(np.mean(np.any(sloped, axis=0))))
    if solution.weights is None:
        return Sparsity(features, float("nan"))
    return Sparsity(features, float(np.mean(solution.weights > 1e-6 * solution.weights.max())))
