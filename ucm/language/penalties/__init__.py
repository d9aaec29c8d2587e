"""Penalties of the weights w of a classifier."""

from ucm.language.penalties.cardinality import Cardinality, KSupport
from ucm.language.penalties.constraints import Bounds, LinearConstraint, NonNegative
from ucm.language.penalties.folded_concave import MCP, SCAD, CappedL1, ExpL0, GroupMCP
from ucm.language.penalties.norms import L1, L2, ElasticNet, GroupLasso, LInf, Lp, Norm
from ucm.language.penalties.quadratic import Quadratic

__all__ = [
    "L1",
    "L2",
    "MCP",
    "SCAD",
    "Bounds",
    "CappedL1",
    "Cardinality",
    "ElasticNet",
    "ExpL0",
    "GroupLasso",
    "GroupMCP",
    "KSupport",
    "LInf",
    "LinearConstraint",
    "Lp",
    "NonNegative",
    "Norm",
    "Quadratic",
]
