"""The API for extensions: contracts of domains, sets, losses, penalties, solvers and readers.

The parts of results are here too. `ucm.testing` checks classes of one's own.
"""

from __future__ import annotations

from ucm.data.linear_map import LinearMap, MatrixMap
from ucm.data.source import BlockSource, RowSource
from ucm.evidence.guarantees import Guarantee
from ucm.evidence.reference import Verification
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite
from ucm.forms.solution import Stats
from ucm.forms.solver import Answer, Session, Solver
from ucm.language.contracts import (
    Block,
    BoundDomain,
    Coupling,
    Domain,
    Jacobian,
    LoweredSet,
    MassMultipliers,
    Polyhedron,
    Projectable,
    SampleWeights,
    SemiSmooth,
    SimplexDomain,
    UncertaintySet,
)
from ucm.language.domains.simplex import Capped
from ucm.language.node import Node, RotationInvariant
from ucm.language.parameter import Scalar, Scope, Size, value
from ucm.language.sets.combination import Combination
from ucm.language.statistics.affine import VectorNode
from ucm.language.terms import (
    ConvexLoss,
    FoldedConcave,
    Loss,
    Penalty,
    PointwiseLoss,
    ProximalPenalty,
    SubsetLoss,
    SubtractedPart,
)

__all__ = [
    "Answer",
    "Block",
    "BlockSource",
    "BoundDomain",
    "Capped",
    "Combination",
    "Composite",
    "ConvexLoss",
    "Coupling",
    "Domain",
    "FoldedConcave",
    "Guarantee",
    "Jacobian",
    "LinearMap",
    "Loss",
    "LoweredSet",
    "MassMultipliers",
    "MatrixMap",
    "MinNorm",
    "Monitor",
    "Node",
    "Penalty",
    "PointwiseLoss",
    "Polyhedron",
    "Projectable",
    "ProximalPenalty",
    "RotationInvariant",
    "RowSource",
    "SampleWeights",
    "Scalar",
    "Scope",
    "SemiSmooth",
    "Session",
    "SimplexDomain",
    "Size",
    "Solver",
    "Stats",
    "SubsetLoss",
    "SubtractedPart",
    "UncertaintySet",
    "VectorNode",
    "Verification",
    "value",
]
