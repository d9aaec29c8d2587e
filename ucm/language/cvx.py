"""CVXPY, loaded when the first name of it is used: `from ucm.language import cvx as cp`."""

from __future__ import annotations

import importlib
import warnings
from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):  # what tools ask every module for
        raise AttributeError(name)
    found = globals()[name] = getattr(importlib.import_module("cvxpy"), name)
    return found


def clarabel(problem: Any) -> None:
    """Solve a program. That an answer may be inaccurate is in its status, and not said again."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate", UserWarning)
        problem.solve(solver="CLARABEL")
