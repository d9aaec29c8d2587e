"""
Coefficients along a parameter
==============================

Coefficients, margin and score of MM-MPM over kappa. The admissible interval ends at the shaded region.
"""

import matplotlib.pyplot as plt

import ucm

X, y = ucm.datasets.load("breast_cancer")
X, model = X[:, :10], ucm.models.mm_mpm(0.3)
shown = ucm.plot.PathDisplay.from_model(model, X[::2], y[::2], X_test=X[1::2], y_test=y[1::2])
print(shown.interval)
plt.show()
