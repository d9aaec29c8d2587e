"""Algorithms for the standard forms: a driver and one file per method."""

from ucm.solvers.alm import ALM
from ucm.solvers.apg import APG
from ucm.solvers.conic import ECOS, SCS, Clarabel
from ucm.solvers.hinge_newton import HingeNewton
from ucm.solvers.newton import Newton
from ucm.solvers.psmo import PSMO

__all__ = ["ALM", "APG", "ECOS", "PSMO", "SCS", "Clarabel", "HingeNewton", "Newton"]
