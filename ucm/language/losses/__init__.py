"""Losses of the margin."""

from ucm.language import loss_sets, problem  # noqa: F401  installs to_set and problem_latex
from ucm.language.losses.exponential import Exponential
from ucm.language.losses.hinge import Hinge, SquaredHinge
from ucm.language.losses.huber import HuberHinge
from ucm.language.losses.least_squares import LeastSquares
from ucm.language.losses.logistic import Logistic
from ucm.language.losses.ramp import Ramp, RampPart
from ucm.language.objective import Objective  # installs + and * between terms
from ucm.language.term_sums import LossSum, ScaledDifference, ScaledLoss

__all__ = [
    "Exponential",
    "Hinge",
    "HuberHinge",
    "LeastSquares",
    "Logistic",
    "LossSum",
    "Objective",
    "Ramp",
    "RampPart",
    "ScaledDifference",
    "ScaledLoss",
    "SquaredHinge",
]
