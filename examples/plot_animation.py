"""
Sets for several values of a parameter
======================================

The ellipsoids of MM-MPM grow with kappa. When they intersect, 0 lies in U, and the problem is no longer
convex.
"""

import matplotlib.pyplot as plt
import numpy as np

import ucm

rng = np.random.default_rng(0)
y = np.repeat([1, -1], 40)
X = rng.normal(size=(80, 2)) * [1.0, 0.6] + np.outer(y, [1.4, 0.8])
animation = ucm.plot.SetAnimation.from_model(ucm.models.mm_mpm(0.5), X, y, kappa=[0.5, 1.2, 1.9, 2.6])
print([display.zero_inside for display in animation.displays])
plt.show()
