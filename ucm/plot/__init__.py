"""Pictures of declarations and of their solutions, in scikit-learn's conventions of displays.

A classmethod `from_...` computes and draws; the display has `axes_` and `figure_`, and `plot(ax)` draws it
again. matplotlib is loaded at the first picture: `pip install 'ucm[plot]'`.
"""

from ucm.plot.comparison import ComparisonDisplay
from ucm.plot.convergence import ConvergenceDisplay
from ucm.plot.descent import DescentDisplay
from ucm.plot.film import SetFilm
from ucm.plot.landscape import LandscapeDisplay
from ucm.plot.losses import LossDisplay
from ucm.plot.outline import Outline
from ucm.plot.path import PathDisplay
from ucm.plot.sets import SetDisplay
from ucm.plot.weights import WeightsDisplay

__all__ = [
    "ComparisonDisplay",
    "ConvergenceDisplay",
    "DescentDisplay",
    "LandscapeDisplay",
    "LossDisplay",
    "Outline",
    "PathDisplay",
    "SetDisplay",
    "SetFilm",
    "WeightsDisplay",
]
