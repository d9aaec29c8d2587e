"""The modeling language: samples, sets, losses, penalties and models."""

import lazy_loader as _lazy

# These modules install the operators of `ucm.language.node`. They are imported with any part of the
# language, since a class of one's own may be the first declaration of a program.
from ucm.language import loss_sets, objective, problem, robust_samples  # noqa: F401
from ucm.language.sets import combination as _combination  # noqa: F401

__getattr__, __dir__, __all__ = _lazy.attach(__name__, ["domains", "models", "terms"])
