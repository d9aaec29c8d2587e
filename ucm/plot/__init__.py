"""Matplotlib displays of declared models and their solutions, with the interface of scikit-learn's displays.

A classmethod `from_...` computes and draws; the display has `axes_` and `figure_`, and `plot(ax)` draws it
again. The first picture imports matplotlib: `pip install 'ucm-classifiers[plot]'`.
"""

from ucm.plot.animation import SetAnimation
from ucm.plot.convergence import ConvergenceDisplay
from ucm.plot.landscape import LandscapeDisplay
from ucm.plot.outline import Outline
from ucm.plot.path import PathDisplay
from ucm.plot.sets import SetDisplay
from ucm.plot.weights import WeightsDisplay

__all__ = [
    "ConvergenceDisplay",
    "LandscapeDisplay",
    "Outline",
    "PathDisplay",
    "SetAnimation",
    "SetDisplay",
    "WeightsDisplay",
]
