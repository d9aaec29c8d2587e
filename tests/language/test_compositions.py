"""What composes on paper: every expression is proven optimal and agrees with its CVXPY reference."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import ucm
from ucm import Param, neg, pos, signed

m, n = 20, 3
rng = np.random.default_rng(0)
X = np.vstack([rng.normal(size=(m, n)) + 1.2, rng.normal(size=(m, n)) - 1.2])
y = np.repeat([1.0, -1.0], m)
NAMES: dict[str, Any] = {
    **{name: getattr(ucm, name) for name in ucm.__all__},
    "np": np,
    "X": X,
    "Y": X[m:],
    "I": np.eye(n),
    "r": np.array([0.1, 0.2, 0.3]),
    "s": Param("s", 0.5),
    "kappa": Param("kappa", 0.1),
    "rho": Param("rho", 0.3),
    "A": ucm.ReducedHull(pos, 0.3) - ucm.ReducedHull(neg, 0.3),
    "H": ucm.Hull(pos) - ucm.Hull(neg),
    "B": ucm.Ball(0, 0.1),
    "signed": signed,
}
LINEAR = [
    # statistics and parameters
    "Ellipsoid(pos.mean, rho * pos.cov, 0.3) - neg.mean",
    "Ellipsoid(pos.mean, pos.cov + rho * I, 0.3) - Ellipsoid(neg.mean, neg.cov, 0.3)",
    "Ellipsoid(pos.mean, (1 - rho) * pos.cov + rho * I, 0.3) - neg.mean",
    "Ellipsoid(pos.mean, kappa * np.eye(3), 0.3) - neg.mean",
    "Ellipsoid(rho * pos.mean, neg.cov, kappa) - neg.mean",
    "Ellipsoid(pos.mean - neg.mean, pos.cov + neg.cov, kappa ** 0.5)",
    "Ball(rho * pos.mean, 0.1) - neg.mean",
    "Ball(pos.mean, kappa ** 0.5) - neg.mean",
    "Ball(pos.mean, np.sqrt(kappa)) - neg.mean",
    "Ball(pos.mean, 2 * kappa / 3) - Ball(neg.mean, rho * kappa)",
    "Ball((pos.mean + neg.mean) / 2 + [1, 1, 1], kappa)",
    "AffineImage(I, Box(-s * r, s * r), pos.mean) - neg.mean",
    "AffineImage(I, Box(-r, s * r), pos.mean) - Hull(neg)",
    "A + AffineImage(I, Box(-s * r, s * r))",
    "0.5 * Ball(pos.mean, 0.2) - Ball(neg.mean, 0.1)",
    "s * Hull(pos) - Hull(neg) / 2",
    "np.diag(r) @ Hull(pos) - np.diag(r) @ Hull(neg)",
    # sums, unions, intersections, arrays
    "sum([A, B])",
    "sum([Hull(pos), -Hull(neg), B])",
    "sum([Point(pos.mean), -1 * Ball(neg.mean, kappa)])",
    "H + B",
    "H + kappa * Ball(0, 1)",
    "ConvexUnion([Ball(pos.mean, 0.3), Ball(2 * pos.mean, 0.2)]) - neg.mean",
    "ConvexUnion([Hull(pos), Ball(pos.mean, 0.2)]) - Hull(neg)",
    "(Ball(pos.mean, 0.3) | Point(pos.mean + [1, 0, 0])) - neg.mean",
    "(Hull(pos) & Ball(pos.mean, 0.8)) - Hull(neg)",
    "(Ellipsoid(pos.mean, pos.cov, 0.5) & Hull(pos)) - neg.mean",
    "Hull(X[:20]) - Hull(Y)",
    "Hull(X[:20])",
    "ReducedHull(pos, 0.3) - Hull(Y)",
    "Hull(Points(X[:20]), weights=CappedSimplex(0.3)) - Ball(neg.mean, kappa)",
    "2 * Hull(signed, weights=CappedSimplex(0.1))",
    "RobustMargin(A + B, norm=np.inf)",
    "RobustMargin(H, norm=1)",
    "RobustMargin(A) + kappa * L1()",
    "RobustMargin(A) + kappa * (GroupLasso([0, 0, 1]) + 0.1 * LInf())",
    "Wasserstein(pos, kappa) - Wasserstein(neg, kappa)",
    "Gelbrich(pos, 0.05, kappa) - Gelbrich(neg, 0.05, kappa)",
    # losses and penalties
    "sum([Hinge(), L2()])",
    "sum([Logistic(), 0.1 * L1(), 0.1 * L2()])",
    "Hinge() + L2() + 0 * L1()",
    "Logistic() + 0 * L1() + L2()",
    "Hinge(2) + 0.5 * L2()",
    "SquaredHinge() + rho * L1()",
    "HuberHinge() + rho * L1() + rho * L2()",
    "LeastSquares() + L2() / 2",
    "Hinge() + Quadratic(I)",
    "Hinge() + Quadratic(pos.cov)",
    "Logistic() + rho * Quadratic((1 - rho) * pos.cov + rho * I)",
    "Hinge() + Quadratic(pos.cov) + s * Quadratic(neg.cov) + kappa * L1()",
    "Logistic() + Quadratic(np.diag(r))",
    "Logistic() + 0.1 * LInf()",
    "Logistic() + rho * ElasticNet(0.5)",
    "Logistic() + L2() + Quadratic(np.ones((3, 3)))",
]
KERNEL = [
    "A + B",
    "H + kappa * Ball(0, 1)",
    "Ball(pos.mean, kappa) - Ball(neg.mean, 0.1)",
    "Wasserstein(pos, 0.1) - Wasserstein(neg, 0.1)",
    "Gelbrich(pos, 0.05, kappa) - Gelbrich(neg, 0.05, kappa)",
    "Hinge() + L2()",
    "SquaredHinge() + L2()",
    "Logistic() + rho * L2()",
    "LeastSquares() + rho * L2()",
    "HuberHinge() + L2()",
    "Hinge(2) + L2()",
]


@pytest.mark.parametrize(("text", "kernel"), [(t, None) for t in LINEAR] + [(t, "rbf") for t in KERNEL])
def test_a_composition_is_proven_and_verified(text: str, kernel: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ucm.ConvergenceWarning)
        plan = ucm.compile(eval(text, NAMES.copy()), X, y, kernel=kernel)
        solution = plan.solve()
    assert solution.status == "optimal"
    report = plan.verify(solution)
    assert report.agrees, report
