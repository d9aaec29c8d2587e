"""
Compose a new classifier
========================

For researchers. The positive class is an ellipsoid with a shrunk covariance, intersected with the convex
hull of its samples. The negative class is the union of its mean and its CVaR set. Every point may move by a
small amount. The library proves bounds on the optimum, verifies the answer against CVXPY, computes the range
of the parameter and draws the sets, without code for this classifier.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_score

import ucm
from ucm import Ball, CVaR, Ellipsoid, Hull, Param, Point, neg, pos

X, y = ucm.datasets.load("breast_cancer")
X = X[:, [0, 1]]

# %%
# Declare
# -------
# `kappa` and `eps` are hyperparameters; `pos.cov + 0.1 * np.eye(2)` is the shrunk covariance.
kappa, eps = Param("kappa", 0.8), Param("eps", 0.1)
plus = Ellipsoid(pos.mean, pos.cov + 0.1 * np.eye(2), kappa) & Hull(pos)
minus = Point(neg.mean) | CVaR(neg, 0.6)
U = plus - minus + Ball(0, eps)
print(U)

# %%
# Solve, prove, verify
# --------------------
plan = ucm.compile(U, X, y)
print(plan.explain())
solution = plan.solve()
print(solution.certificate)
print(plan.verify())
print(ucm.admissible(U, X, y)["kappa"])

# %%
# Use it
# ------
# A set is the model of a scikit-learn classifier; `model__kappa` is one of its parameters.
classifier = ucm.Classifier(U)
for value in (0.4, 0.8, 1.2):
    classifier.set_params(model__kappa=value)
    print(f"kappa = {value}: accuracy {cross_val_score(classifier, X, y).mean():.3f}")

# %%
# Draw it
# -------
shown = ucm.plot.SetDisplay.from_model(U, X, y, solution=solution)
print(f"outline within {shown.outline.error / shown.outline.size:.2%} of the width of U")
plt.show()
