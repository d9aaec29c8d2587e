"""Solvers of the standard forms, one per file, and the modules that solvers share."""

from ucm.solvers.baselines.psmo import PSMO
from ucm.solvers.baselines.reduced_hulls import GSK, MDM, ClipGSK, ClipMDM
from ucm.solvers.baselines.subgradient import Subgradient
from ucm.solvers.conic import Conic
from ucm.solvers.distance.active_set import ActiveSet
from ucm.solvers.distance.alm import ALM
from ucm.solvers.distance.apg import APG
from ucm.solvers.distance.level_set import LevelSetNewton
from ucm.solvers.distance.ssnal import SSNAL
from ucm.solvers.highs import HiGHS
from ucm.solvers.objective.branch_and_bound import BranchAndBound
from ucm.solvers.objective.dca import DCA
from ucm.solvers.objective.prox_alm import ProxALM
from ucm.solvers.objective.prox_newton import ProxNewton
from ucm.solvers.out_of_core.newton_rows import NewtonRows
from ucm.solvers.out_of_core.solver import OutOfCoreActiveSet
from ucm.solvers.secular import TrustRegionSecular
from ucm.solvers.smo.solver import SMO
from ucm.solvers.sphere.faces import Faces
from ucm.solvers.sphere.facets import Facets
from ucm.solvers.sphere.linearize import Linearize
from ucm.solvers.sphere.rapminos import Rapminos

__all__ = [
    "ALM",
    "APG",
    "DCA",
    "GSK",
    "MDM",
    "PSMO",
    "SMO",
    "SSNAL",
    "ActiveSet",
    "BranchAndBound",
    "ClipGSK",
    "ClipMDM",
    "Conic",
    "Faces",
    "Facets",
    "HiGHS",
    "LevelSetNewton",
    "Linearize",
    "NewtonRows",
    "OutOfCoreActiveSet",
    "ProxALM",
    "ProxNewton",
    "Rapminos",
    "Subgradient",
    "TrustRegionSecular",
]
