"""A modeling language for classifiers over convex solvers.

Declare an uncertainty set as mathematics, compile it against data, get a certified classifier.
The public names stand in `__init__.pyi`; each is loaded at its first use. `ucm.extend` holds what an
extension imports.
"""

from typing import Any

import lazy_loader as _lazy

from ucm import errors as _errors

__version__ = _errors.VERSION
_errors.warn_of_namesake()

_load, __dir__, _names = _lazy.attach_stub(__name__, __file__)
__all__ = [name for name in _names if name != "compile"]  # `import *` keeps the builtin  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _names:
        return _load(name)
    raise _errors.unknown_attribute(__name__, name, _names)
