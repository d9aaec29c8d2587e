"""Losses of the margin."""

from ucm.language.losses.exponential import Exponential
from ucm.language.losses.hinge import Hinge, SquaredHinge
from ucm.language.losses.logistic import Logistic
from ucm.language.losses.scaled import ScaledLoss

__all__ = ["Exponential", "Hinge", "Logistic", "ScaledLoss", "SquaredHinge"]
