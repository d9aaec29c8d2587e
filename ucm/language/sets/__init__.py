"""Uncertainty sets in feature space, and the operators between them."""

from ucm.language.sets.affine_image import AffineImage, Ball, Ellipsoid, Point
from ucm.language.sets.ambiguity import ChiSquare, CVaR, Gelbrich, SpectralRisk, TotalVariation, Wasserstein
from ucm.language.sets.combination import LinearCombination
from ucm.language.sets.hull import Hull, ReducedHull
from ucm.language.sets.intersection import Intersection
from ucm.language.sets.union import ConvexUnion

__all__ = [
    "AffineImage",
    "Ball",
    "CVaR",
    "ChiSquare",
    "ConvexUnion",
    "Ellipsoid",
    "Gelbrich",
    "Hull",
    "Intersection",
    "LinearCombination",
    "Point",
    "ReducedHull",
    "SpectralRisk",
    "TotalVariation",
    "Wasserstein",
]
