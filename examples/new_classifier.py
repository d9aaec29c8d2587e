"""
A classifier without a name
===========================

An ellipsoid cut to a hull, against a hull of spread-out weights.

The positive class stands for its mean and covariance, but never leaves the convex hull of its
samples; the negative class for weighted means over about a hundred samples or more; and every
point may move a little in every direction.
"""

import ucm
from ucm import Ball, Ellipsoid, Hull, NormBall, Param, neg, pos

X, y = ucm.datasets.load("breast_cancer")

kappa, spread = Param("kappa", 0.5), Param("spread", 0.1)
U = (
    (Ellipsoid(pos.mean, pos.cov, kappa) & Hull(pos))
    - Hull(neg, weights=NormBall(spread))
    + Ball(0, 0.05)
)
print(U)

plan = ucm.compile(U, X, y)
print(plan.explain())
solution = plan.solve()
print(solution.certificate)
print(plan.verify())

classifier = ucm.Classifier(U).fit(X, y)
print(f"training accuracy {classifier.score(X, y):.3f}")
