"""The route table of the non-convex side: 0 lies in U."""

from __future__ import annotations

from dataclasses import dataclass

from ucm.contracts import Solver
from ucm.errors import ParameterError, SolverError
from ucm.forms import UnitNorm, UnitSolver
from ucm.solvers import Linearize, Rapminos, Subgradient

__all__ = ["UNIT_ROUTES", "UnitRoute", "choose_unit", "unit_solver"]


@dataclass(frozen=True)
class UnitRoute:
    """One row of the table; `automatic` rows are tried by `solver="auto"`, in order."""

    solver: UnitSolver
    purpose: str
    automatic: bool = True


UNIT_ROUTES = (
    UnitRoute(Rapminos(), "sums of reduced hulls, any norm: a local minimum"),
    UnitRoute(Linearize(), "any set, any norm: a stationary point"),
    UnitRoute(Subgradient(), "any set without intersections: a baseline", automatic=False),
)


def unit_solver(solver: str | Solver) -> UnitSolver | None:
    """The solver of this table that is meant; None for "auto" and for solvers of the convex side."""
    if isinstance(solver, UnitSolver):
        return solver
    if isinstance(solver, Solver):
        return None
    return {route.solver.name: route.solver for route in UNIT_ROUTES}.get(solver)


def choose_unit(
    form: UnitNorm, wanted: UnitSolver | None
) -> tuple[UnitSolver, list[tuple[str, str]]]:
    """The solver for a form, and (name, "chosen" or the reason against it) for the whole table.

    Without a wanted one the first automatic row of `UNIT_ROUTES` that does not refuse:

    | order | solver | takes |
    | --- | --- | --- |
    | 1 | rapminos | sums of reduced hulls |
    | 2 | linearize | everything |

    Raises
    ------
    SolverError
        The wanted solver refuses the form.
    """
    if wanted is not None:
        why = wanted.refuse(form)
        if why is not None:
            raise SolverError(
                f"solver {wanted.name!r} does not take this model where 0 lies in U: {why}; "
                'use solver="auto"'
            )
        return wanted, [(wanted.name, "chosen, by name")]
    table: list[tuple[str, str]] = []
    chosen: UnitSolver | None = None
    for route in UNIT_ROUTES:
        why = route.solver.refuse(form)
        if why is not None:
            table.append((route.solver.name, f"refused: {why}"))
        elif chosen is None and route.automatic:
            chosen = route.solver
            table.append((route.solver.name, f"chosen: {route.purpose}"))
        else:
            table.append((route.solver.name, f"possible: {route.purpose}"))
    if chosen is None:
        raise ParameterError(f"no route takes this model where 0 lies in U: {table}")
    return chosen, table
