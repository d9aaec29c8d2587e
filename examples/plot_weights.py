"""
Worst-case weights of the samples
=================================

The weight of each sample in the worst case: a reduced hull has few samples with equal weights, a ball more
samples with different weights.
"""

import matplotlib.pyplot as plt

import ucm

X, y = ucm.datasets.load("breast_cancer")
several = {"nu-SVM": ucm.models.nu_svm(0.3), "l2-loss": ucm.models.l2_nu_svm(0.12)}
ucm.plot.WeightsDisplay.from_model(several, X, y)
print(ucm.solve(several["nu-SVM"], X, y).weights.max().round(4))
plt.show()
