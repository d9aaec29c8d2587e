"""What a person writes: samples, sets, losses, models."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach(__name__, ["domains", "models", "terms"])
