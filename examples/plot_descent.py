"""
Convergence of DCA from several starts
======================================

A ramp loss with a capped penalty. DCA solves a few convex problems from each start; the objective never
increases, and different starts can end in different local minima.
"""

import matplotlib.pyplot as plt

import ucm

X, y = ucm.datasets.load("breast_cancer")
found = ucm.solve(ucm.models.rlsvmc1(2.0), X, y, n_starts=6)
ucm.plot.ConvergenceDisplay.from_solution(found, x="iterations", y="objective")
print(found.message)
plt.show()
