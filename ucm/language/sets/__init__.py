"""Uncertainty sets in feature space, one file each, and their algebra."""

from ucm.language import loss_sets, problem  # noqa: F401  installs to_loss, problem_latex
from ucm.language.sets import algebra
from ucm.language.sets.ambiguity import (
    ChiSquare,
    CVaR,
    Gelbrich,
    Spectral,
    TotalVariation,
    Wasserstein,
)
from ucm.language.sets.ball import Ball
from ucm.language.sets.combination import LinearImage, Scaled, Sum
from ucm.language.sets.ellipsoid import Ellipsoid
from ucm.language.sets.hull import Hull, ReducedHull
from ucm.language.sets.image import Image
from ucm.language.sets.intersection import Intersection
from ucm.language.sets.point import Point
from ucm.language.sets.union import ConvexUnion

__all__ = [
    "Ball",
    "CVaR",
    "ChiSquare",
    "ConvexUnion",
    "Ellipsoid",
    "Gelbrich",
    "Hull",
    "Image",
    "Intersection",
    "LinearImage",
    "Point",
    "ReducedHull",
    "Scaled",
    "Spectral",
    "Sum",
    "TotalVariation",
    "Wasserstein",
    "algebra",
]
