"""Domains: the convex sets of sample weights and coefficients."""

from ucm.language.domains.box import Box
from ucm.language.domains.cvxpy_domain import CvxpyDomain, DomainIntersection
from ucm.language.domains.divergence_ball import ChiSquareBall, KLBall, LossBall
from ucm.language.domains.norm_ball import NormBall
from ucm.language.domains.simplex import CappedSimplex, Simplex

__all__ = [
    "Box",
    "CappedSimplex",
    "ChiSquareBall",
    "CvxpyDomain",
    "DomainIntersection",
    "KLBall",
    "LossBall",
    "NormBall",
    "Simplex",
]
