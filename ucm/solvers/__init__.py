"""Algorithms for the standard forms: a driver and one file per method."""

from ucm.solvers.alm import ALM
from ucm.solvers.apg import APG
from ucm.solvers.clip_gsk import ClipGSK
from ucm.solvers.clip_mdm import ClipMDM
from ucm.solvers.conic import ECOS, SCS, Clarabel
from ucm.solvers.convex import ClarabelComposite
from ucm.solvers.dca import DCA
from ucm.solvers.extreme import GSK, MDM
from ucm.solvers.faces import Faces
from ucm.solvers.facets import Facets
from ucm.solvers.gram_hull import GramNewton
from ucm.solvers.highs import HiGHS
from ucm.solvers.highs_distance import HiGHSDistance
from ucm.solvers.hinge_newton import HingeNewton
from ucm.solvers.hulls import NewtonHull
from ucm.solvers.linearize import Linearize
from ucm.solvers.newton import Newton
from ucm.solvers.primal import PrimalAPG
from ucm.solvers.psmo import PSMO
from ucm.solvers.quadratic import DualNewton
from ucm.solvers.rapminos import Rapminos
from ucm.solvers.scaled_newton import ScaledNewton
from ucm.solvers.secular import Secular
from ucm.solvers.secular_sphere import SecularSphere
from ucm.solvers.simplex import Simplex
from ucm.solvers.span import InSpan
from ucm.solvers.subgradient import Subgradient

__all__ = [
    "ALM",
    "APG",
    "DCA",
    "ECOS",
    "GSK",
    "MDM",
    "PSMO",
    "SCS",
    "Clarabel",
    "ClarabelComposite",
    "ClipGSK",
    "ClipMDM",
    "DualNewton",
    "Faces",
    "Facets",
    "GramNewton",
    "HiGHS",
    "HiGHSDistance",
    "HingeNewton",
    "InSpan",
    "Linearize",
    "Newton",
    "NewtonHull",
    "PrimalAPG",
    "Rapminos",
    "ScaledNewton",
    "Secular",
    "SecularSphere",
    "Simplex",
    "Subgradient",
]
