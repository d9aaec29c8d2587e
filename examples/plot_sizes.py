"""
Choose nu
=========

The error on held-out samples as an exact function of nu, from a path that is certified between its solved
values (dots), and the means of ten folds at single values.
"""

import matplotlib.pyplot as plt
import numpy as np

import ucm

X, y = ucm.datasets.load("breast_cancer")
X, nu = X / X.std(axis=0), (0.15, 0.6)
path = ucm.path(ucm.models.nu_svm(0.3), X[::2], y[::2], nu="all", between=nu, eps=1e-3)
curve = path.validation(X[1::2], y[1::2])
svm = ucm.Classifier(ucm.models.nu_svm(0.3))
search = ucm.ClassifierCV(svm, param_range=np.linspace(*nu, 10), cv=10).fit(X, y)
print(repr(path), curve, search.best_params_, sep="\n")

fig, ax = plt.subplots()
ax.stairs(curve.errors, curve.edges, label="held-out half, every nu")
ax.plot(path.values, curve.at(path.values), ".", color="black", label="solved")
found = search.cv_results_
ax.plot(found["param_model__nu"], 1.0 - found["mean_test_score"], "o--", label="ten folds")
ax.set(xlabel="nu", ylabel="error")
ax.legend()
plt.show()
