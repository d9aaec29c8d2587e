"""Penalties of the weights w of a classifier."""

from ucm.language.objective import Objective, PenaltySum, ScaledPenalty  # installs + and *
from ucm.language.penalties.folded_concave import MCP, SCAD, CappedL1, ExpL0
from ucm.language.penalties.groups import GroupLasso, GroupMCP
from ucm.language.penalties.norms import L1, L2, ElasticNet, LInf, Lp, NonNegative, Norm
from ucm.language.penalties.quadratic import Quadratic
from ucm.language.terms import SubtractedPart

__all__ = [
    "L1",
    "L2",
    "MCP",
    "SCAD",
    "CappedL1",
    "ElasticNet",
    "ExpL0",
    "GroupLasso",
    "GroupMCP",
    "LInf",
    "Lp",
    "NonNegative",
    "Norm",
    "Objective",
    "PenaltySum",
    "Quadratic",
    "ScaledPenalty",
    "SubtractedPart",
]
