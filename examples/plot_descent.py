"""
Differences of convex functions
===============================

A ramp loss with a capped penalty, solved by a few convex problems from each of several starts: never up, not
always to the same end.
"""

import matplotlib.pyplot as plt

import ucm

X, y = ucm.datasets.load("breast_cancer")
found = ucm.solve(ucm.models.rlsvmc1(2.0), X, y, n_starts=6)
ucm.plot.ConvergenceDisplay.from_solution(found, x="iterations", y="objective")
print(found.message)
plt.show()
