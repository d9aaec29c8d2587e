"""Lazy import of CVXPY at the first use of a name: `from ucm.language import cvx as cp`."""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):  # tools ask every module for these
        raise AttributeError(name)
    cvxpy = importlib.import_module("cvxpy")
    attribute = cvxpy.transforms.indicator if name == "indicator" else getattr(cvxpy, name)
    globals()[name] = attribute
    return attribute
