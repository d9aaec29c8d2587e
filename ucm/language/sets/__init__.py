"""Uncertainty sets in feature space, and the operators between them."""

from ucm.language import loss_sets, problem  # noqa: F401  installs to_loss, problem_latex
from ucm.language.sets import algebra
from ucm.language.sets.affine_image import AffineImage, Point
from ucm.language.sets.ambiguity import (
    ChiSquare,
    CVaR,
    Gelbrich,
    SpectralRisk,
    TotalVariation,
    Wasserstein,
)
from ucm.language.sets.combination import LinearCombination
from ucm.language.sets.ellipsoid import Ball, Ellipsoid
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
    "algebra",
]
