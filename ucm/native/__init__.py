"""Compiled C functions on arrays and scalars, imported from `ucm.native.binding` at first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ucm.native.binding import *  # noqa: F403


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    function = getattr(importlib.import_module("ucm.native.binding"), name)
    globals()[name] = function
    return function
