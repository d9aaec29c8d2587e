"""CVXPY, loaded when the first name of it is used: `from ucm.language import cvx as cp`.

Its functions take source text too, and answer with source text: `ucm.language.text`.
"""

from __future__ import annotations

import importlib
import warnings
from types import FunctionType
from typing import Any

from ucm.errors import SolverError
from ucm.language.text import spoken


def __getattr__(name: str) -> Any:
    if name.startswith("__"):  # what tools ask every module for
        raise AttributeError(name)
    cvxpy = importlib.import_module("cvxpy")
    found = cvxpy.transforms.indicator if name == "indicator" else getattr(cvxpy, name)
    atom = isinstance(found, type) and issubclass(found, cvxpy.atoms.atom.Atom)
    if name == "indicator":
        found = spoken("transforms.indicator", found)
    elif atom or isinstance(found, FunctionType):
        found = spoken(name, found)
    globals()[name] = found
    return found


def clarabel(problem: Any) -> None:
    """Solve a program. That an answer may be inaccurate is in its status, and not said again.

    Raises
    ------
    SolverError
        Clarabel gave up.
    """
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
