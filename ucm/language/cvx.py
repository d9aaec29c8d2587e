"""Lazy import of CVXPY at the first use of a name: `from ucm.language import cvx as cp`."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

from ucm.errors import SolverError


def __getattr__(name: str) -> Any:
    if name.startswith("__"):  # tools ask every module for these
        raise AttributeError(name)
    cvxpy = importlib.import_module("cvxpy")
    attribute = cvxpy.transforms.indicator if name == "indicator" else getattr(cvxpy, name)
    globals()[name] = attribute
    return attribute


def clarabel(problem: Any) -> None:
    """Solve a CVXPY problem with Clarabel, without the warning of an inaccurate solution."""
    cvxpy = importlib.import_module("cvxpy")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate", UserWarning)
        try:
            problem.solve(solver="CLARABEL")
        except cvxpy.SolverError as error:
            raise SolverError(
                f"clarabel: expected an answer to the conic program of a domain, got none ({error}); scale "
                "its arguments, or write the set with fewer domains"
            ) from None
