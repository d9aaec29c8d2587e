"""
Iterates of a solver
====================

`trace=1` keeps every iterate. The points of the accelerated gradient method converge to the point of U
nearest to 0.
"""

import matplotlib.pyplot as plt
import numpy as np

import ucm

rng = np.random.default_rng(0)
y = np.repeat([1, -1], 40)
X = rng.normal(size=(80, 2)) * [1.0, 0.6] + np.outer(y, [1.4, 0.8])
U = ucm.models.nu_svm(0.2)
shown = ucm.plot.SetDisplay.from_model(U, X, y)
found = ucm.solve(U, X, y, solver="apg", trace=1)
way = np.array([record["x"] for record in found.history])
shown.axes_[1].plot(*way.T, "o-", color="C3", ms=4, lw=1, zorder=5)
print(len(way), "iterates, the last", way[-1].round(4))
plt.show()
