"""The route table: which solver takes which form, in order of preference."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ucm.data.bound import GramSpace
from ucm.errors import ParameterError, SolverError, brief
from ucm.forms.distance import MinNorm
from ucm.forms.nearest import NearestPoint
from ucm.forms.solver import Solver
from ucm.solvers import (
    ALM,
    APG,
    ECOS,
    GSK,
    MDM,
    SCS,
    Clarabel,
    ClipGSK,
    ClipMDM,
    GramNewton,
    HiGHSDistance,
    InSpan,
    Newton,
    NewtonHull,
    ScaledNewton,
    Secular,
)

__all__ = ["ROUTES", "Route", "choose", "solver_named", "verdicts"]


@dataclass(frozen=True)
class Route:
    """One row of the table; `automatic` rows are tried by `solver="auto"`, in order."""

    solver: Solver
    purpose: str
    automatic: bool = True


ROUTES = (
    Route(Secular(), "Euclidean balls only: scalar roots, or a small subspace"),
    Route(NewtonHull(), "two hulls of samples: a band of them, from few samples to all"),
    Route(InSpan(Newton()), "far more features than parameters: the next row in their span"),
    Route(Newton(), "systems of a few thousand at most: few passes, high accuracy"),
    Route(APG(), "any size: one pass an iteration, exact projections"),
    Route(Newton(iterative=True), "the same with systems of any order, by conjugate gradients"),
    Route(ALM(APG()), "coupled blocks: augmented Lagrangian around APG"),
    Route(
        GramNewton(rest=ClipMDM()), "reduced convex hulls behind a kernel: few free samples decide"
    ),
    Route(ClipMDM(), "reduced convex hulls, by inner products: rows of the Gram matrix as needed"),
    Route(HiGHSDistance(), "norms 1 and inf of w, polyhedral sets: linear programs by HiGHS"),
    Route(
        ScaledNewton((InSpan(Newton()), Newton(), APG(), Newton(iterative=True), ALM(APG()))),
        "other norms: Newton steps, each a Euclidean problem for one of the above",
    ),
    Route(Clarabel(), "anything convex: interior point, through CVXPY"),
    Route(ECOS(), "anything conic: interior point, through CVXPY", automatic=False),
    Route(SCS(), "anything convex, modest accuracy: splitting, through CVXPY", automatic=False),
    Route(GSK(), "reduced convex hulls: steps to extreme points", automatic=False),
    Route(MDM(), "reduced convex hulls: weight to extreme points; may stall", automatic=False),
    Route(ClipGSK(), "reduced convex hulls: clipped GSK; may stall", automatic=False),
)


def solver_named(name: str | Solver, form: MinNorm) -> Solver:
    """The first solver of that name that takes the form, or the last one; or the instance itself."""
    if isinstance(name, Solver):
        return name
    known = {r.solver.name: r.solver for r in ROUTES}
    for route in ROUTES:
        if route.solver.name == name and route.solver.refuse(form) is None:
            return route.solver
    if not isinstance(name, str) or name not in known:
        raise ParameterError(
            f'solver: expected "auto", a solver instance or one of {", ".join(known)}; got {brief(name)}'
        )
    return known[name]


def refusal(solver: Solver, form: MinNorm) -> str | None:
    """Why a solver does not take the form; None when it does."""
    if isinstance(form.space, GramSpace) and not isinstance(solver, NearestPoint):
        return "there are inner products only, and it needs coordinates"
    return solver.refuse(form)


def choose(form: MinNorm, solver: str | Solver) -> Solver:
    """The solver for a form.

    `solver="auto"` takes the first automatic row of `ROUTES` that does not refuse:

    | order | solver | takes |
    | --- | --- | --- |
    | 1 | secular | Euclidean norm, Euclidean balls of parameters, no couplings |
    | 2 | newton | Euclidean norm, two hulls with caps or without, features or samples at most 2000 |
    | 3 | newton | as the next row, where features are more than twice the parameters |
    | 4 | newton | Euclidean norm, semismooth projections, order at most 1500; 3000 with couplings |
    | 5 | apg | Euclidean norm, exact projections, no couplings |
    | 6 | newton | as the fourth, its systems of any order by conjugate gradients |
    | 7 | alm | Euclidean norm, exact projections, coupled blocks |
    | 8 | newton-gram | Euclidean norm, reduced convex hulls; behind a kernel without coordinates |
    | 9 | clip-mdm | the same; goes on where the support vectors are too many for the one above |
    | 10 | highs | norms 1 and inf, polyhedral domains |
    | 11 | scaled-newton | norms between, where one of the Euclidean rows takes the set |
    | 12 | clarabel | everything convex |

    Four carry the same name: by name, too, the first one that takes the form is meant.

    Raises
    ------
    SolverError
        A solver asked for by name refuses the form.
    """
    if solver != "auto":
        wanted = solver_named(solver, form)
        why = refusal(wanted, form)
        if why is not None:
            raise SolverError(
                f'solver {wanted.name!r} does not take this model: {why}; use solver="auto"'
            )
        return wanted
    for route in ROUTES:
        if route.automatic and refusal(route.solver, form) is None:
            return route.solver
    against = [(route.solver.name, refusal(route.solver, form)) for route in ROUTES]
    raise SolverError(f"no route takes this model: {against}")


def verdicts(form: MinNorm, solver: str | Solver) -> list[tuple[str, str]]:
    """(name, "chosen", "possible" or the reason against it) for the whole table."""
    chosen = choose(form, solver)
    if solver != "auto":
        return [(chosen.name, "chosen, by name")]
    table: list[tuple[str, str]] = []
    for route in ROUTES:
        why = refusal(route.solver, form)
        word = "chosen" if route.solver is chosen else "possible"
        taken = f"{word}{_predicted(route, form)}: {route.purpose}"
        table.append((route.solver.name, taken if why is None else f"refused: {why}"))
    return table


def _predicted(route: Route, form: MinNorm) -> str:
    passes = route.solver.predicted_passes(form)
    return "" if math.isnan(passes) else f", about {round(passes, 1):g} passes"
