"""Compiled C functions on arrays and scalars, imported from `ucm.native.functions` at first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ucm.native.functions import *  # noqa: F403


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    function = getattr(importlib.import_module("ucm.native.functions"), name)
    globals()[name] = function
    return function
