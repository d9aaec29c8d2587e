"""Losses as functions of the margin `y f(x)`."""

from ucm.language.losses.hinge import Hinge, HuberHinge, Ramp, ShiftedHinge, SquaredHinge
from ucm.language.losses.smooth import Exponential, LeastSquares, Logistic
from ucm.language.objective import (
    LossSum,
    Objective,  # installs + and * between terms
    ScaledDifference,
    ScaledLoss,
)

__all__ = [
    "Exponential",
    "Hinge",
    "HuberHinge",
    "LeastSquares",
    "Logistic",
    "LossSum",
    "Objective",
    "Ramp",
    "ScaledDifference",
    "ScaledLoss",
    "ShiftedHinge",
    "SquaredHinge",
]
