"""Lazy import of CVXPY at the first use of a name, `from ucm.language import cvx as cp`, and quiet solves.

CVXPY warns of an inaccurate solution, as its status does; a filter of warnings would hold for all threads.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cvxpy import *  # noqa: F403


def __getattr__(name: str) -> Any:
    if name.startswith("__"):  # tools ask every module for these
        raise AttributeError(name)
    cvxpy = importlib.import_module("cvxpy")
    attribute = cvxpy.transforms.indicator if name == "indicator" else getattr(cvxpy, name)
    globals()[name] = attribute
    return attribute


def quiet_solve(problem: Any, solver: str, **options: Any) -> None:
    """Solve a CVXPY problem as `Problem.solve` does, without its warning of an inaccurate solution."""
    data, chain, inverse = problem.get_problem_data(solver, solver_opts=options)
    unpack(problem, chain.solve_via_data(problem, data, True, False, options), chain, inverse)


def unpack(problem: Any, result: Any, chain: Any, inverse: Any) -> None:
    """Set the values of a CVXPY problem as `Problem.unpack_results` does, without its warning."""
    import cvxpy
    from cvxpy.problems.problem import SolverStats

    solution = chain.invert(result, inverse)
    if solution.status in cvxpy.settings.ERROR:
        raise cvxpy.SolverError(f"the solver {chain.solver.name()} failed")
    problem.unpack(solution)
    problem._solver_stats = SolverStats.from_dict(solution.attr, chain.solver.name())
