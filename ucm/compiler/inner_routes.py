"""The route table of the convex problems inside of `loss + penalty`."""

from __future__ import annotations

from dataclasses import replace

from ucm.errors import ParameterError, SolverError
from ucm.forms.objective import DifferenceOfConvex, InnerSolver
from ucm.forms.solver import Solver
from ucm.solvers import DCA, ClarabelComposite, DualNewton, HiGHS, PrimalAPG, Simplex

__all__ = ["INNER_ROUTES", "choose_objective"]

INNER_ROUTES: tuple[tuple[InnerSolver, str], ...] = (
    (Simplex(HiGHS()), "piecewise linear, dense: compiled simplex, warm, taken in as needed"),
    (HiGHS(), "piecewise linear: dual simplex, warm, taken in as needed"),
    (DualNewton(), "squared l2 norm: semismooth Newton on the dual quadratic program"),
    (PrimalAPG(), "smooth losses: accelerated proximal gradient on the primal"),
    (ClarabelComposite(), "anything convex: interior point, through CVXPY, built once"),
)


def choose_objective(
    form: DifferenceOfConvex, solver: str | Solver
) -> tuple[Solver, list[tuple[str, str]]]:
    """The solver for a form, and (name, "chosen" or the reason against it) for the whole table.

    `solver="auto"` takes the first row that does not refuse the convex part G; where something is
    subtracted, DCA takes it as its inner solver. A name of this table asks for that row, "dca"
    for DCA around the automatic choice.

    | order | solver | takes |
    | --- | --- | --- |
    | 1 | simplex | one piecewise linear loss, l1, dense samples |
    | 2 | highs | one piecewise linear loss, l1 |
    | 3 | newton | one loss, squared l2 |
    | 4 | apg | smooth losses, penalties with a proximal map |
    | 5 | clarabel | everything convex |

    Raises
    ------
    SolverError
        A solver asked for by name refuses the form.
    """
    table: list[tuple[str, str]] = []
    if isinstance(solver, DCA) and solver.inner is not None:
        inner: Solver | None = solver.inner
        table.append((solver.inner.name, "chosen, by name"))
    elif solver == "auto" or solver == "dca" or isinstance(solver, DCA):
        inner = None
        for row, purpose in INNER_ROUTES:
            why = row.refuse(form.G)
            if why is not None:
                table.append((row.name, f"refused: {why}"))
            elif inner is None:
                inner = row
                table.append((row.name, f"chosen: {purpose}"))
            else:
                table.append((row.name, f"possible: {purpose}"))
    else:
        inner = _named(solver)
        table.append((inner.name, "chosen, by name"))
    if not isinstance(inner, InnerSolver):
        raise SolverError(f"no route takes this objective: {table}")
    why = inner.refuse(form.G)
    if why is not None:
        raise SolverError(
            f'solver {inner.name!r} does not take this model: {why}; use solver="auto"'
        )
    if isinstance(solver, DCA):
        return replace(solver, inner=inner), table
    if form.convex and solver != "dca":
        return inner, table
    return DCA(inner), table


def _named(solver: str | Solver) -> InnerSolver:
    known = {row.name: row for row, _ in INNER_ROUTES}
    if isinstance(solver, InnerSolver):
        return solver
    if isinstance(solver, Solver):
        raise SolverError(
            f"solver {solver.name!r} does not take this model: it takes the minimum norm of a set; "
            'use solver="auto"'
        )
    if solver not in known:
        raise ParameterError(
            f'solver: expected "auto", "dca", a solver instance or one of {", ".join(known)}; '
            f"got {solver!r}"
        )
    return known[solver]
