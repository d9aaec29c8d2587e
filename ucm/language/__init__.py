"""The modeling language: samples, sets, losses, penalties and models."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach(__name__, ["domains", "models", "terms"])

# These modules install the operators of `ucm.language.node`. They are imported with any part of the
# language, since a class of one's own may be the first declaration of a program.
from ucm.language import loss_sets as _loss_sets  # noqa: E402, F401
from ucm.language import objective as _objective  # noqa: E402, F401
from ucm.language import problem as _problem  # noqa: E402, F401
from ucm.language import robust_samples as _robust_samples  # noqa: E402, F401
from ucm.language.sets import combination as _combination  # noqa: E402, F401
