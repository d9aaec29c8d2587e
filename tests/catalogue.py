"""Instances of everything the library defines; the laws run over all of them."""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse

from ucm import Param
from ucm.language.domains import (
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
from ucm.language.losses import Exponential, Hinge, Logistic, Ramp, SquaredHinge
from ucm.language.penalties import L1, L2, MCP, SCAD, CappedL1, ElasticNet, ExpL0, LInf, Lp
from ucm.language.sets import Ball, Ellipsoid, Hull, Image, Point, ReducedHull
from ucm.language.statistics.samples import neg, pos, signed

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

_V = np.array([1.5, -0.5, 0.25])
_M = np.array([[1.0, 0.5, 0.0], [0.0, -1.0, 2.0]])
_ROOT = np.array([[1.0, 0.0, 0.0], [0.4, 0.3, 0.0], [0.0, -0.2, 0.0]])
_CLASS_BALL = Ellipsoid(pos.mean, pos.cov, 1.0)

# over samples in R^3, as `check_set` draws them
SETS = [
    Point(_V),
    Point(0.5 * pos.mean - neg.mean + _V),
    Point(0),
    Ball(_V, 0.5),
    Ball(0, Param("r", 0.7), p=1),
    Ball(pos.mean, 0.7, p=1.5),
    Ball(pos.mean, 0.7, p=math.inf),
    Ball(neg.mean, 0.0),
    Ellipsoid(pos.mean, pos.cov, Param("kappa", 0.5)),
    Ellipsoid(pos.mean - neg.mean, 0.5 * pos.cov + neg.cov, 0.8),
    Ellipsoid(_V, _ROOT @ _ROOT.T, 1.2),  # singular
    Ellipsoid(signed.mean, signed.cov + np.eye(3), 0.0),
    Hull(pos),
    Hull(signed),
    *(
        Hull(samples, weights=weights)
        for samples in (neg, signed)
        for weights in (
            CappedSimplex(Param("cap", 0.3)),
            NormBall(0.55),
            NormBall(0.7, p=1.5),
            NormBall(0.35, p=math.inf),
            KLBall(Param("alpha", 0.6)),
            LossBall(Exponential(), 0.3),
            LossBall(SquaredHinge(), 0.6),
            Box(0.02, 0.4),
            Simplex(),
            NormBall(0.6) & CappedSimplex(0.3),
            KLBall(0.5) & Box(0.0, 0.3) & NormBall(0.7),
        )
    ),
    ReducedHull(pos, eta=0.4),
    ReducedHull(pos, eta=Param("eta", 1.5)),
    ReducedHull(neg, nu=Param("nu", 0.5)),
    Image(_M.T, NormBall(Param("radius", 0.7), p=1)),
    Image(sparse.csr_matrix(_M.T), Box(-1.0, 0.5), center=pos.mean),
    Image(_M.T, NormBall(0.7) & Box(-0.2, math.inf), center=_V),
    Image(np.eye(3), Product((Simplex(), NormBall(0.5)), (2, 1))),
    Param("c", 2.0) * Hull(signed, weights=NormBall(Param("kappa", 0.5))),
    -0.5 * Ellipsoid(pos.mean, neg.cov, 0.4),
    0 * Hull(pos),
    _M @ Hull(neg, weights=KLBall(0.7)),
    sparse.csr_matrix(_M) @ (Ball(_V, 0.3) + pos.mean),
    np.eye(3)[:, :2] @ (_M @ Hull(pos)),
    Hull(pos) - Hull(neg),
    Hull(pos) + Ball(0, 0.2, p=1) + _V - ReducedHull(neg, nu=0.4),
    Hull(pos) + (Ball(0, 0.2) - (Point(_V) + Hull(neg))),
    _CLASS_BALL & Hull(pos),
    (_CLASS_BALL & Hull(pos)) - (Ellipsoid(neg.mean, neg.cov, 0.9) & Hull(neg)),
    2 * (Ball(pos.mean, 0.5) & (Hull(pos, weights=NormBall(0.6) & CappedSimplex(0.4)) + _V / 9)),
    _M @ (Ball(0, 2.0, p=math.inf) & Ball(_V, 1.0) & Ball(0.5 * _V, 1.0, p=1)),
]

# Losses that are not convex, and sums; the convex ones stand in LOSSES.
OTHER_LOSSES = [
    Ramp(),
    Ramp(Param("mu", 0.3)),
    2 * Ramp(0.5),
    Ramp(0.7) / Param("C", 0.4),
    Hinge() + 0.5 * Logistic(),
    Hinge() + 2 * Ramp(0.5),
]

PENALTIES = [
    L1(),
    L2(),
    LInf(),
    Lp(1),
    Lp(1.5),
    Lp(2),
    Lp(3),
    ElasticNet(0.3),
    ElasticNet(0),
    ElasticNet(1),
    ElasticNet(Param("ratio", 0.6)),
    ExpL0(4),
    ExpL0(Param("a", 0.5)),
    CappedL1(1),
    CappedL1(Param("a", 0.2)),
    MCP(),
    MCP(0.5, 1.5),
    SCAD(),
    SCAD(Param("lam", 0.7), 2.5),
    0.5 * L2(),
    L1() / 3,
    2 * LInf(),
    Param("lam", 0.4) * Lp(1.5),
    Param("lam", 0.4) * ExpL0(Param("a", 4)),
    2 * CappedL1(0.5) / 3,
    L1() + 0.5 * L2(),
    L1() + 2 * CappedL1(0.5),
    0.3 * L1() + LInf(),
    0.3 * L1() + 0.5 * L2() + LInf(),
    0.3 * L1() + Lp(1.5),
    0.5 * L2() + Lp(3) + 0.3 * L1(),
    L2() + LInf() + Lp(3),
]

OBJECTIVES = [
    Hinge() + 0.7 * L1(),
    Hinge() + 0.7 * L2(),
    Hinge() + 0.7 * LInf(),
    Hinge() + ElasticNet(0.4),
    Hinge() + Lp(1.5) + 0.1 * L1(),
    Hinge(1.5) + 0.3 * L2(),
    Hinge(1.5) + 0.3 * L1(),
    SquaredHinge() + 0.5 * L1(),
    SquaredHinge() + 0.5 * L2(),
    Logistic() + 0.5 * L1(),
    Logistic() + 0.5 * LInf(),
    Logistic() + 0.5 * ElasticNet(0.5),
    Logistic() + 0.5 * Lp(1.5),
    Exponential() + 0.5 * L2(),
    Exponential() + 2 * L1(),
    Hinge() + 0.5 * Logistic() + L1(),
    Logistic() + 0.5 * SquaredHinge() + 0.5 * L2() + 0.1 * L1(),
    2 * Ramp(0.5) + 0.7 * L1(),
    Ramp() + 0.7 * L2(),
    Ramp(0.6) + 0.5 * ExpL0(4),
    Ramp() + 0.5 * CappedL1(1),
    Hinge() + 0.5 * ExpL0(2),
    Hinge() + 0.5 * CappedL1(0.5),
    Hinge() + 0.5 * MCP(),
    Hinge() + 0.5 * SCAD(),
    Logistic() + 0.5 * SCAD(),
    Ramp() + LInf(),
    Ramp() + 0.3 * Hinge() + 0.4 * L1(),
    Hinge() + 0.3 * L2() + 0.5 * CappedL1(0.5),
]
