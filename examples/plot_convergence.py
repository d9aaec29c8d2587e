"""
Three solvers, one problem
==========================

The proven gap against passes over the data. A disc is a proof, a cross is none.
"""

import matplotlib.pyplot as plt

import ucm

X, y = ucm.datasets.load("breast_cancer")
solvers = ["newton", "apg", "clip-mdm"]
shown = ucm.plot.ConvergenceDisplay.from_model(ucm.models.nu_svm(0.3), X, y, solvers=solvers)
print(shown.status)
plt.show()
