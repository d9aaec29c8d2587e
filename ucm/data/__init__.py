"""Sample data: bound samples, row sources, linear maps, kernels and data sets."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach(__name__, ["datasets"])
