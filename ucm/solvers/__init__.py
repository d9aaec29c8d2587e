"""Algorithms for the standard forms: one file a method, and what several of them share."""

from ucm.solvers.blocks.hinge_sieve import HingeSieve
from ucm.solvers.blocks.newton_balls import NewtonBalls
from ucm.solvers.blocks.newton_rows import NewtonRows
from ucm.solvers.blocks.sieve import Sieve
from ucm.solvers.distance.alm import ALM
from ucm.solvers.distance.apg import APG
from ucm.solvers.distance.conic import ECOS, SCS, Clarabel
from ucm.solvers.distance.growing_ball import GrowingBall
from ucm.solvers.distance.highs import HiGHSDistance
from ucm.solvers.distance.newton import Newton
from ucm.solvers.distance.newton_hull import NewtonHull
from ucm.solvers.distance.relaxed import Relaxed
from ucm.solvers.distance.scaled_newton import ScaledNewton
from ucm.solvers.distance.secular import Secular
from ucm.solvers.distance.span import InSpan
from ucm.solvers.objective.convex import ClarabelComposite
from ucm.solvers.objective.dca import DCA
from ucm.solvers.objective.dual_newton import DualNewton
from ucm.solvers.objective.highs import HiGHS
from ucm.solvers.objective.kinked import KinkedNewton
from ucm.solvers.objective.primal import PrimalAPG
from ucm.solvers.objective.prox_newton import ProxNewton
from ucm.solvers.objective.simplex_method import Simplex
from ucm.solvers.rows.clip_gsk import ClipGSK
from ucm.solvers.rows.clip_mdm import ClipMDM
from ucm.solvers.rows.extreme import GSK, MDM
from ucm.solvers.rows.gram_sieve import GramSieve
from ucm.solvers.rows.hinge_band import HingeBand
from ucm.solvers.rows.newton_gram import GramNewton
from ucm.solvers.rows.psmo import PSMO
from ucm.solvers.sphere.faces import Faces
from ucm.solvers.sphere.facets import Facets
from ucm.solvers.sphere.linearize import Linearize
from ucm.solvers.sphere.rapminos import Rapminos
from ucm.solvers.sphere.secular_sphere import SecularSphere
from ucm.solvers.sphere.subgradient import Subgradient

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
    "GramSieve",
    "GrowingBall",
    "HiGHS",
    "HiGHSDistance",
    "HingeBand",
    "HingeSieve",
    "InSpan",
    "KinkedNewton",
    "Linearize",
    "Newton",
    "NewtonBalls",
    "NewtonHull",
    "NewtonRows",
    "PrimalAPG",
    "ProxNewton",
    "Rapminos",
    "Relaxed",
    "ScaledNewton",
    "Secular",
    "SecularSphere",
    "Sieve",
    "Simplex",
    "Subgradient",
]
