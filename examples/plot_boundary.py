"""
Decision boundary with a kernel
===============================

A `ucm.Classifier` is a scikit-learn estimator, so `DecisionBoundaryDisplay` draws its decision boundary.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons
from sklearn.inspection import DecisionBoundaryDisplay

import ucm

X, y = make_moons(120, noise=0.2, random_state=0)
clf = ucm.Classifier(ucm.models.nu_svm(0.3), kernel="rbf", gamma=1.0).fit(X, y)
shown = DecisionBoundaryDisplay.from_estimator(clf, X, response_method="predict", alpha=0.3)
shown.ax_.scatter(*X.T, c=y, s=20, ec="black", lw=0.5)
print(f"{clf.support_.size} of {y.size} samples have weight")
plt.show()
