"""The fields of the states of compiled loops, for those who lay them out before these are loaded."""

from __future__ import annotations

__all__ = ["GRAM_STATE", "LOGISTIC", "SEPARATED", "SIDE", "SQUARED", "STATE", "STEPS"]

LOGISTIC, SQUARED = range(2)
"""The smooth losses of `ucm.numerics.walled`."""

STEPS = 50
"""Most steps there for one problem."""

SEPARATED = 1e-12
"""Of the largest norm met: a distance from 0 that is proven to be longer is no rounding."""

STATE = (
    "sigma",  # proximal parameter; 0: to be chosen from the gap of the start
    "tol",  # relative gap to reach
    "reach",  # how far the band goes, in scores, beyond the kinks
    "slack",  # how far the scores may still move before rows outside the band matter
    "passes",  # products with the rows of this level, in passes over them
    "systems",  # Newton systems
    "forming",  # what forming them costs, in passes
    "gap",  # relative gap of the pair (p, w)
    "steps",  # Newton steps of the last one
    "status",  # 0 under way, 1 proven, 2 x is 0
    "largest",  # the largest sum of the norms of both points met
    "zero",  # the part of that below which |x| counts as 0
    "verify",  # 1 to check a gap found on the band on all rows; -k for k times the slack
    "travel",  # how far scores have moved within this outer step
    "offset",  # o of the hinge loss; NaN for hulls
    "value",  # |x|, or the objective of the hinge loss
)
SIDE = ("cap", "mass", "factor", "theta", "held mass", "held step", "old theta", "free")
"""For each class: cap, mass and factor of its rows; theta; the mass of the rows outside the band and
the square of their proximal step; theta when last compared; the number of free rows in H."""
GRAM_STATE = (
    "sigma",  # proximal parameter
    "tol",  # relative gap to reach
    "square",  # |c|^2
    "floor",  # |x| at which it stops
    "gap",  # relative gap of p
    "norm",  # |x|
    "steps",  # Newton steps so far in this outer step
    "systems",  # Newton systems
    "missing",  # rows that were missing, listed in `need`
    "status",  # 0 under way, 1 proven, 2 |x| is at the floor, 3 rounding is left
    "largest",  # sigma up to which systems are definite in spite of rounding
    "best",  # the least absolute gap of any p so far
    "idle",  # outer steps with the largest sigma that found no better p
)
