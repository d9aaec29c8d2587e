"""Algorithms for the standard forms: a driver and one file per method."""

from ucm.solvers.alm import ALM
from ucm.solvers.apg import APG
from ucm.solvers.conic import ECOS, SCS, Clarabel
from ucm.solvers.newton import Newton

__all__ = ["ALM", "APG", "ECOS", "SCS", "Clarabel", "Newton"]
