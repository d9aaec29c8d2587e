"""The standard forms behind a plan, for the benchmarks that time a solver alone or imitate it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ucm.compiler.compile import compile
from ucm.data.bound import bind
from ucm.data.linear import Vec
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, DifferenceOfConvex, InnerSolver
from ucm.forms.solver import Solver
from ucm.forms.sphere import UnitNorm
from ucm.language.contracts import UncertaintySet
from ucm.language.objective import Objective
from ucm.language.parameter import Coefficient, Numbers

__all__ = ["direction", "optimum", "split", "unit", "written"]


def split(model: Objective, X: Any, y: Any) -> DifferenceOfConvex:
    """The two convex parts of an objective over these samples."""
    plan: Any = compile(model, X, y)
    return plan.form


def optimum(form: Composite, solver: InnerSolver) -> float:
    """What a solver finds for the convex problem."""
    w, b = solver.open(form, Monitor()).solve(form, form.flat(), 1e-8).plane
    return form.value(form.margins(w, b), w)


def unit(model: UncertaintySet, X: Any, y: Any, p: float) -> UnitNorm:
    """The form of a set that holds 0."""
    data = bind(X, y)
    return UnitNorm.of(MinNorm.of(model.lower(data), 2.0, data.stored), p)


def direction(form: UnitNorm, solver: Solver[UnitNorm]) -> Vec:
    """The direction that a solver ends at."""
    return solver.solve(form, Monitor()).plane[0]


def written(terms: Iterable[Any], at: Any) -> Any:
    """Losses at the margins, or penalties at the normal, in CVXPY as a person writes them."""
    return sum(term.cvxpy(at, Coefficient(), Numbers()) for term in terms)
