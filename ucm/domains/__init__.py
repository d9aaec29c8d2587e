"""Parameter space: the sets that weights and coefficients range over."""

from ucm.domains.balls import NormBall
from ucm.domains.box import Box
from ucm.domains.divergence import KLBall, SimplexKL
from ucm.domains.intersection import DomainIntersection
from ucm.domains.loss_ball import LossBall, SimplexLoss
from ucm.domains.products import Product
from ucm.domains.simplex import CappedSimplex, Simplex
from ucm.domains.simplex_ball import SimplexBall

__all__ = [
    "Box",
    "CappedSimplex",
    "DomainIntersection",
    "KLBall",
    "LossBall",
    "NormBall",
    "Product",
    "Simplex",
    "SimplexBall",
    "SimplexKL",
    "SimplexLoss",
]
