"""The route table of the non-convex side: 0 lies in U."""

from __future__ import annotations

from dataclasses import dataclass

from ucm.errors import ParameterError, SolverError
from ucm.forms.solver import Solver
from ucm.forms.sphere import UnitNorm, UnitSolver
from ucm.solvers import Faces, Facets, Linearize, Rapminos, SecularSphere, Subgradient

__all__ = ["UNIT_ROUTES", "UnitRoute", "choose_unit", "unit_solver"]


@dataclass(frozen=True)
class UnitRoute:
    """One row of the table; `automatic` rows are tried by `solver="auto"`, in order.

    Attributes
    ----------
    solver, purpose : the row
    automatic : whether "auto" may choose it
    small : whether it does so for forms of little work only, at most `MOST_WORK`
    """

    solver: UnitSolver
    purpose: str
    automatic: bool = True
    small: bool = False


MOST_WORK = 2_000_000  # programs times entries of each: about a second

UNIT_ROUTES = (
    UnitRoute(SecularSphere(), "one ellipsoid, p = 2: the global minimum by one scalar root"),
    UnitRoute(Facets(), "up to three dimensions, any norm: the global minimum"),
    UnitRoute(
        Faces(), "p = inf and p = 1: the global minimum, a program for every face", small=True
    ),
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


def _work(form: UnitNorm) -> float:
    """Programs of `faces`, times entries of each; a conic program counts as a hundred linear ones."""
    programs = 2.0**form.image.n if form.norm == 1.0 else 2.0 * form.image.n
    entries = sum(b.map.entries for b in form.image.blocks)
    return programs * entries * (1.0 if form.hulls is not None else 100.0)


def choose_unit(
    form: UnitNorm, wanted: UnitSolver | None
) -> tuple[UnitSolver, list[tuple[str, str]]]:
    """The solver for a form, and (name, "chosen" or the reason against it) for the whole table.

    Without a wanted one the first automatic row of `UNIT_ROUTES` that does not refuse:

    | order | solver | takes |
    | --- | --- | --- |
    | 1 | secular-sphere | one ellipsoid, p = 2: global |
    | 2 | facets | up to three dimensions, no intersections: global |
    | 3 | faces | p = inf, and p = 1 up to 12 features, where the programs are small: global |
    | 4 | rapminos | sums of reduced hulls |
    | 5 | linearize | everything |

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
        elif chosen is None and route.automatic and not (route.small and _work(form) > MOST_WORK):
            chosen = route.solver
            table.append((route.solver.name, f"chosen: {route.purpose}"))
        else:
            table.append((route.solver.name, f"possible: {route.purpose}"))
    if chosen is None:
        raise ParameterError(f"no route takes this model where 0 lies in U: {table}")
    return chosen, table
