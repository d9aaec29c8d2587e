"""Samples as they are worked with: bound data, linear maps, kernels, files."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach(__name__, ["datasets"])
