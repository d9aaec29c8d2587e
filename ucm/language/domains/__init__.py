"""Parameter space: the sets that weights and coefficients range over."""

from ucm.language.domains.box import Box
from ucm.language.domains.chi_square import ChiSquareBall, SimplexChiSquare
from ucm.language.domains.cvxpy_domain import CvxpyDomain
from ucm.language.domains.divergence import KLBall, SimplexKL
from ucm.language.domains.intersection import DomainIntersection
from ucm.language.domains.loss_ball import LossBall, SimplexLoss
from ucm.language.domains.norm_ball import NormBall, SimplexBall, SimplexNear
from ucm.language.domains.products import Product
from ucm.language.domains.simplex import CappedSimplex, Simplex, WeightedSimplex

__all__ = [
    "Box",
    "CappedSimplex",
    "ChiSquareBall",
    "CvxpyDomain",
    "DomainIntersection",
    "KLBall",
    "LossBall",
    "NormBall",
    "Product",
    "Simplex",
    "SimplexBall",
    "SimplexChiSquare",
    "SimplexKL",
    "SimplexLoss",
    "SimplexNear",
    "WeightedSimplex",
]
