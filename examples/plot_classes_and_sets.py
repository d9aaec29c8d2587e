"""
A classifier and its set
========================

The nu-SVM is the difference of two reduced hulls; the hyperplane is half-way between their nearest points.
"""

import matplotlib.pyplot as plt
import numpy as np

import ucm

rng = np.random.default_rng(0)
y = np.repeat([1, -1], 40)
X = rng.normal(size=(80, 2)) * [1.0, 0.6] + np.outer(y, [1.4, 0.8])
shown = ucm.plot.SetDisplay.from_model(ucm.models.nu_svm(0.3), X, y)
print(f"distance of U from 0: {-shown.solution.objective:.4f}")
plt.show()
