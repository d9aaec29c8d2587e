"""Instances of everything the library defines; the laws run over all of them."""

from __future__ import annotations

import math

from ucm import Param
from ucm.domains import (
    Box,
    CappedSimplex,
    KLBall,
    LossBall,
    NormBall,
    Product,
    Simplex,
    SimplexBall,
    SimplexKL,
    SimplexLoss,
)
from ucm.language.losses import Exponential, Hinge, Logistic, SquaredHinge

LOSSES = [
    Hinge(),
    Hinge(1.5),
    SquaredHinge(),
    Hinge(4),
    Exponential(),
    Logistic(),
    Hinge() / Param("nu", 0.4),
    Logistic() / 0.3,
    2.5 * Exponential(),
]

DOMAINS = [
    Simplex(),
    CappedSimplex(0.4),
    CappedSimplex(Param("cap", 0.25)),
    CappedSimplex(0.3, class_weight=(1.0, 2.5)),
    CappedSimplex(7.0),
    NormBall(0.6),
    NormBall(Param("kappa", 1.7), p=1),
    NormBall(0.6, p=1.3),
    NormBall(0.6, p=3),
    NormBall(0.6, p=math.inf),
    NormBall(0.0),
    SimplexBall(0.62),
    SimplexBall(Param("kappa", 0.75)),
    SimplexBall(1.5),
    SimplexBall(1.0, p=1),
    SimplexBall(0.85, p=1.3),
    SimplexBall(0.6, p=2.5),
    SimplexBall(0.6, p=6),
    SimplexBall(0.45, p=math.inf),
    KLBall(0.5),
    KLBall(1.0),
    SimplexKL(0.6),
    SimplexKL(Param("alpha", 0.9)),
    SimplexKL(0.05),
    LossBall(Exponential(), 0.3),
    LossBall(Hinge(1.5), 0.5),
    LossBall(Hinge() / 0.5, 0.1),
    LossBall(Logistic() / 0.3, 0.4),
    SimplexLoss(Exponential(), 0.1),
    SimplexLoss(SquaredHinge(), 0.4),
    SimplexLoss(Hinge(1.5), 0.5),
    SimplexLoss(Hinge() / Param("nu", 0.4), 0.0),
    SimplexLoss(Logistic() / 0.3, -1.2),
    Box(),
    Box(-1.0, Param("upper", 0.5)),
    Box(0.0, math.inf),
    Product((Simplex(), NormBall(0.5)), (2, 3)),
    NormBall(0.7) & Box(0.0, 0.5),
    Simplex() & Box(0.0, 0.6) & NormBall(0.8),
]
