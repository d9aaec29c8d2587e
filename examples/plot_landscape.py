"""
Local minima with a proven bound
================================

If 0 lies in U, descents from different directions end in different local minima. No direction has an
objective below the dashed line, which is proven.
"""

import matplotlib.pyplot as plt
import numpy as np

import ucm

rng = np.random.default_rng(0)
y = np.repeat([1, -1], 40)
X = rng.normal(size=(80, 2)) * [1.0, 0.6] + 0.1 * np.outer(y, [1.4, 0.8])
shown = ucm.plot.LandscapeDisplay.from_model(ucm.models.nu_svm(0.15), X, y, n_starts=8)
print(shown.minima[:, 1].round(3), "bound", round(shown.bound, 3))
plt.show()
