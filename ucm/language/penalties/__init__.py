"""Penalties of the normal w."""

from ucm.language.objective import Objective  # installs + and * between terms
from ucm.language.penalties.folded import MCP, SCAD, CappedL1, ExpL0
from ucm.language.penalties.norms import L1, L2, ElasticNet, LInf, Lp
from ucm.language.term_algebra import PenaltySum, ScaledFolded, ScaledPenalty
from ucm.language.terms import Excess

__all__ = [
    "L1",
    "L2",
    "MCP",
    "SCAD",
    "CappedL1",
    "ElasticNet",
    "Excess",
    "ExpL0",
    "LInf",
    "Lp",
    "Objective",
    "PenaltySum",
    "ScaledFolded",
    "ScaledPenalty",
]
