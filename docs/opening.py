"""Draw the picture of the README and the home page: `python docs/opening.py` after a change of pictures."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import ucm
from ucm import CappedSimplex, Ellipsoid, Hull, neg, pos

FOLDER = Path(__file__).resolve().parent / "_static"
DARK = "#14181e"  # the ground of the dark pages

rng = np.random.default_rng(3)
plus = rng.multivariate_normal([1.6, 1.0], [[1.0, 0.3], [0.3, 0.5]], 40)
minus = rng.multivariate_normal([-1.4, -0.8], [[1.0, -0.2], [-0.2, 0.4]], 40)
X, y = np.concatenate([plus, minus]), np.repeat([1.0, -1.0], 40)
U = (Ellipsoid(pos.mean, pos.cov, 1.2) & Hull(pos)) - Hull(neg, weights=CappedSimplex(nu=0.5))

for name, style, ground in (("light", "default", "white"), ("dark", "dark_background", DARK)):
    with plt.style.context([style, {"axes.facecolor": ground, "figure.facecolor": ground}]):
        shown = ucm.plot.SetDisplay.from_model(U, X, y)
        shown.figure_.savefig(FOLDER / f"opening-{name}.png", dpi=90)
        plt.close(shown.figure_)
