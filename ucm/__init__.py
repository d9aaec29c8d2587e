"""A modeling language for classifiers over convex solvers.

Declare an uncertainty set as mathematics, compile it against data, get a certified classifier.
The public names stand in `__init__.pyi`; each is loaded at its first use.
"""

from __future__ import annotations

import importlib as _importlib
import sys as _sys
from importlib.abc import Loader as _Loader
from importlib.abc import MetaPathFinder as _MetaPathFinder
from importlib.machinery import ModuleSpec as _ModuleSpec
from typing import Any as _Any

import lazy_loader as _lazy

__version__ = "0.1.0"

__getattr__, __dir__, _names = _lazy.attach_stub(__name__, __file__)
__all__ = [name for name in _names if name != "compile"]  # `import *` keeps the builtin  # pyright: ignore[reportUnsupportedDunderAll]

_ALIASES = {
    "ucm.contracts": ("ucm.language.contracts", "ucm.data.linear", "ucm.forms.solver"),
    "ucm.datasets": ("ucm.data.datasets",),
    "ucm.domains": ("ucm.language.domains",),
    "ucm.expression": ("ucm.language.node",),
    "ucm.models": ("ucm.language.models",),
    "ucm.terms": ("ucm.language.terms",),
}
"""Import paths that stay, whatever the folders: what each gives, it gives from these."""


class _Aliases(_MetaPathFinder, _Loader):
    def find_spec(self, fullname: str, path: _Any, target: _Any = None) -> _ModuleSpec | None:
        return _ModuleSpec(fullname, self) if fullname in _ALIASES else None

    def exec_module(self, module: _Any) -> None:
        homes = [_importlib.import_module(home) for home in _ALIASES[module.__name__]]
        module.__doc__ = homes[0].__doc__
        module.__all__ = [name for home in homes for name in home.__all__]
        for home in homes:
            vars(module).update({name: getattr(home, name) for name in home.__all__})


_sys.meta_path.append(_Aliases())
