"""
Any set you can declare
=======================

An ellipsoid cut to a hull, against a hull, and every point may move by 0.2. The outline needs nothing but
support points, and its error is proven.
"""

import matplotlib.pyplot as plt
import numpy as np

import ucm
from ucm import Ball, Ellipsoid, Hull, neg, pos

rng = np.random.default_rng(0)
y = np.repeat([1, -1], 40)
X = rng.normal(size=(80, 2)) * [1.0, 0.6] + np.outer(y, [1.4, 0.8])
U = (Ellipsoid(pos.mean, pos.cov, 1.2) & Hull(pos)) - Hull(neg) + Ball(0, 0.2)
shown = ucm.plot.SetDisplay.from_model(U, X, y)
print(f"outline within {shown.outline.error / shown.outline.size:.2%} of the width of U")
plt.show()
