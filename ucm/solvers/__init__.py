"""Algorithms for the standard forms: a driver and one file per method."""

from ucm.solvers.alm import ALM
from ucm.solvers.apg import APG
from ucm.solvers.conic import ECOS, SCS, Clarabel
from ucm.solvers.convex import ClarabelComposite
from ucm.solvers.dca import DCA
from ucm.solvers.faces import Faces
from ucm.solvers.facets import Facets
from ucm.solvers.highs import HiGHS
from ucm.solvers.hinge_newton import HingeNewton
from ucm.solvers.hulls import NewtonHull
from ucm.solvers.linearize import Linearize
from ucm.solvers.newton import Newton
from ucm.solvers.primal import PrimalAPG
from ucm.solvers.psmo import PSMO
from ucm.solvers.quadratic import DualNewton
from ucm.solvers.rapminos import Rapminos
from ucm.solvers.secular import Secular
from ucm.solvers.secular_sphere import SecularSphere
from ucm.solvers.simplex import Simplex
from ucm.solvers.subgradient import Subgradient

__all__ = [
    "ALM",
    "APG",
    "DCA",
    "ECOS",
    "PSMO",
    "SCS",
    "Clarabel",
    "ClarabelComposite",
    "DualNewton",
    "Faces",
    "Facets",
    "HiGHS",
    "HingeNewton",
    "Linearize",
    "Newton",
    "NewtonHull",
    "PrimalAPG",
    "Rapminos",
    "Secular",
    "SecularSphere",
    "Simplex",
    "Subgradient",
]
