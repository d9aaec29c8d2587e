"""The route table: which solver takes which form, in order of preference."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from ucm import solvers
from ucm.errors import ParameterError, SolverError, brief, did_you_mean
from ucm.forms.display import aligned
from ucm.forms.distance import MinNorm
from ucm.forms.flips import FlipComposite
from ucm.forms.hinge_dual import HingeDual
from ucm.forms.objective import BestSubset, Composite, DifferenceOfConvex, GeneralComposite, MovedComposite
from ucm.forms.out_of_core import RowHulls, RowLosses
from ucm.forms.solver import Solver, StandardForm
from ucm.forms.sphere import UnitNorm
from ucm.solvers import DCA
from ucm.solvers.nearest_point import NearestPoint
from ucm.solvers.objective.hinge_active_set import HingeActiveSet
from ucm.solvers.objective.orthant_step import straight
from ucm.solvers.objective.sessions import continues

_INTERIOR = 1_000_000  # largest form, in entries, for an interior-point method of seconds
_PRODUCTS = 20.0  # passes that conjugate gradients take for one system, about
_CUBES = 10_000  # largest order cubed of a Newton system, for each entry of the data
_FEW_FEATURES = 150  # largest order of matrices whose forming costs less than conjugate gradients
_SPLITTING = 10_000  # largest form, in entries, for 100,000 iterations of a splitting method


def _always(form: object) -> bool:
    return True


def _never(form: object) -> bool:
    return False


def _in_seconds(form: MinNorm | Composite) -> bool:
    """True if a form is small enough for an interior-point method to end in seconds."""
    return form.entries <= _INTERIOR


def _too_large(form: MinNorm) -> bool:
    """True if an interior-point method would take more than seconds.

    Otherwise it comes before APG for coupled blocks, whose subproblems took up to 400,000 iterations.
    """
    return not _in_seconds(form)


def _small(form: MinNorm | Composite) -> bool:
    """True if a minimum-norm form is small enough for a splitting method; False for losses."""
    return isinstance(form, MinNorm) and form.entries <= _SPLITTING


def _systems_pay(form: MinNorm) -> bool:
    """True if Newton systems of uncoupled blocks, k^3 operations, cost less than the passes they save."""
    order = min(form.n, sum(b.map.shape[1] for b in form.blocks))
    return not form.couplings and float(order) ** 3 <= _CUBES * form.entries


def _without_hulls(form: MinNorm) -> bool:
    """True if the blocks are uncoupled and none is a hull."""
    return not form.couplings and not any(b.groups is not None for b in form.blocks)


def _by_scalar_roots(form: MinNorm | UnitNorm) -> bool:
    """True for balls in few features, where forming the matrices costs less than conjugate gradients."""
    return isinstance(form, UnitNorm) or (_without_hulls(form) and form.n <= _FEW_FEATURES)


def _by_products(form: MinNorm) -> bool:
    """True if conjugate gradients cost less than forming and factoring the Newton systems.

    Always for uncoupled Euclidean balls; of other uncoupled blocks but hulls, if a system costs as much as
    about 20 passes; of coupled blocks, whose systems the row before refuses as too large.
    """
    if form.couplings:
        return True
    if all(b.domain.euclidean for b in form.blocks):
        return True
    if not _without_hulls(form) or form.n > sum(b.map.shape[1] for b in form.blocks):
        return False
    work = 0.5 * sum(b.map.squares for b in form.blocks) + form.n**3 / 60.0
    return work > _PRODUCTS * form.stored


def _by_systems(form: MinNorm) -> bool:
    """True if forming and factoring the Newton systems pays; always tried for coupled blocks."""
    return bool(form.couplings) or (_systems_pay(form) and not _by_products(form))


def _by_pairs(form: MinNorm | HingeDual) -> bool:
    """True if pair updates of multipliers cost less than linear systems in w.

    A smooth loss has small systems; the hinge loss has systems of the samples near its breakpoint.
    """
    if isinstance(form, MinNorm) or form.X is None:
        return True
    return form.p < 2.0 and form.X.shape[1] > (500 if form.p == 1.0 else 128)


def _many_samples(form: Composite) -> bool:
    """True if the augmented Lagrangian method is preferred to an interior-point method.

    Always for one loss with the squared l2 norm, for perturbations in boxes, for a hinge loss beside
    linear constraints, for worst means and offsets of the scores, and without a penalty, where there is a
    start near the solution (a generalised nu-SVM); not for a penalty of the largest weight over fewer samples
    than features, as nearly all weights are then equal.
    """
    if not form.penalties or (form.penalty.square is not None and len(form.losses) == 1):
        return True
    if isinstance(form, GeneralComposite) or straight(form) is not None:
        return True
    few = form.entries < 10_000 or (form.n > form.m and form.norms[2] > 0.0)
    return not few or HingeActiveSet.fits(form)


def _faces_in_seconds(form: UnitNorm) -> bool:
    """True if the lower bounds of all faces of the unit ball take at most about ten seconds.

    The work is counted in entries: of a linear program for each face over hulls; of a conic program, 100
    times as expensive, for each face over intersections; else of cutting planes with about 8 points in every
    dimension.
    """
    r, image = form.rank, form.image
    faces = 2.0**image.n if form.norm == 1.0 else 2.0 * image.n
    entries = sum(b.map.entries for b in image.blocks)
    if form.hulls is not None:
        return faces * entries <= 2e7
    if image.couplings:
        return faces * entries <= 2e5
    return faces * 8.0 * (r + 1) * (entries + 50.0 * r * r) <= 1.5e9


@dataclass(frozen=True)
class Route:
    """A row of the route table: a solver, its purpose, and its fallback.

    automatic : True for the forms that the row takes under `solver="auto"`, unless the solver refuses them
    fallback : the name of a solver of the form that continues under `solver="auto"` if this solver
        ends without proof; None for no fallback
    afterwards : True for the forms that the solver takes as a fallback
    """

    solver: Solver
    purpose: str
    automatic: Callable[[Any], bool] = _always
    fallback: str | None = "clarabel"
    afterwards: Callable[[Any], bool] = _always


_PROGRAM = solvers.HiGHS(samples=2000, rough=solvers.ProxALM(max_outer=4))

ROUTES = (
    # min ||x||_q over a lowered set
    Route(
        solvers.TrustRegionSecular(),
        "Euclidean balls in few features: scalar roots, exact to rounding",
        _by_scalar_roots,
        fallback="ssnal",
    ),
    Route(
        solvers.ActiveSet(),
        "two hulls of samples: the active ones, from few samples to all",
        _systems_pay,
        fallback="ssnal",
    ),
    Route(solvers.SSNAL(), "systems of a few thousand at most: few passes, high accuracy", _by_systems),
    Route(
        solvers.SSNAL(iterative=True),
        "Euclidean balls, or systems of any order: conjugate gradients",
        _by_products,
    ),
    Route(solvers.APG(), "any size: one pass an iteration, exact projections"),
    Route(solvers.ALM(solvers.APG()), "coupled blocks: augmented Lagrangian around APG", _too_large),
    Route(solvers.SMO(), "inner products only: pairs on rows of the Gram matrix as needed", _by_pairs),
    Route(_PROGRAM, "linear programs: norms 1 and inf of w, piecewise linear losses and penalties"),
    Route(
        solvers.LevelSetNewton(
            (solvers.SSNAL(), solvers.APG(), solvers.SSNAL(iterative=True), solvers.ALM(solvers.APG()))
        ),
        "other norms: a ball grows until it meets the set, Euclidean problems",
    ),
    Route(solvers.GSK(), "reduced convex hulls: steps to extreme points", _never),
    Route(solvers.MDM(), "reduced convex hulls: weight to extreme points; may stall", _never),
    Route(solvers.ClipGSK(), "reduced convex hulls: clipped GSK; may stall", _never),
    Route(solvers.ClipMDM(), "reduced convex hulls: clipped MDM, as printed", _never),
    # rows that are read block by block
    Route(
        solvers.OutOfCoreActiveSet(solvers.ActiveSet()),
        "two hulls of rows: a sample, the rows near the thresholds, a proof over all",
    ),
    Route(solvers.OutOfCoreActiveSet(solvers.SSNAL()), "two hulls of rows with weights, by an active set"),
    Route(solvers.OutOfCoreActiveSet(_PROGRAM), "the hinge loss with l1 and l infinity over rows"),
    Route(
        solvers.OutOfCoreActiveSet(solvers.ProxALM(), fallback=solvers.Conic()),
        "the hinge loss with any penalty: the rows near the breakpoint",
    ),
    Route(solvers.OutOfCoreActiveSet(DCA(_PROGRAM)), "the ramp loss with l1 and l infinity over rows"),
    Route(
        solvers.OutOfCoreActiveSet(DCA(solvers.ProxALM(), fallback=solvers.Conic())),
        "the ramp loss, and folded penalties: the rows near the breakpoints",
    ),
    Route(
        solvers.NewtonRows(),
        "balls of weights, or smooth losses with l2: Newton's method, sums over all rows",
    ),
    # 0 in U: the unit sphere
    Route(solvers.Facets(), "up to three dimensions, any norm: the global minimum"),
    Route(
        solvers.Faces(), "p = inf and p = 1: the global minimum, a bound for every face", _faces_in_seconds
    ),
    Route(solvers.Rapminos(), "sums of reduced hulls, any norm: a local minimum"),
    Route(solvers.Linearize(nearest=solvers.SSNAL()), "any set, any norm: a stationary point"),
    Route(solvers.Subgradient(), "any set without intersections: a baseline", _never),
    # losses and penalties, and the convex problems inside of DCA
    Route(solvers.PSMO(), "pairs of multipliers, the second one random, as printed", _never),
    Route(solvers.ProxNewton(), "smooth losses: proximal Newton steps, features as needed"),
    Route(
        solvers.ProxALM(),
        "other losses, worst means: augmented Lagrangian around proximal Newton steps",
        _many_samples,
    ),
    # anything convex
    Route(
        solvers.Conic(),
        "anything convex: interior point, through CVXPY",
        fallback="scs",
        afterwards=_in_seconds,
    ),
    Route(solvers.Conic("ecos"), "anything conic: interior point, through CVXPY", _never, None),
    Route(
        solvers.Conic("scs"),
        "anything convex, modest accuracy: splitting, through CVXPY",
        _never,
        None,
        _small,
    ),
)
"""All routes: the first row that fits a form is taken."""

_WORDS = {
    MinNorm: "the minimum norm of a set",
    UnitNorm: "a set that holds 0",
    RowHulls: "two hulls of rows that are read block by block",
    RowLosses: "losses with the squared l2 norm over rows that are read block by block",
    HingeDual: "hinge losses with the squared l2 norm",
    Composite: "a convex loss with a convex penalty",
    FlipComposite: "a Wasserstein ball with label flips",
    GeneralComposite: "the worst mean of a convex loss, or scores with offsets, with a convex penalty",
    MovedComposite: "a convex loss of samples perturbed in sets of different shapes, with a convex penalty",
    DifferenceOfConvex: "a difference of convex losses and penalties",
    BestSubset: "a convex loss with the squared l2 norm and at most k features",
}


def label(solver: Solver) -> str:
    """Return the name of a solver, followed by "around" and the name of any inner solver."""
    return " around ".join([solver.name, *(label(inner) for inner in solver.inner_solvers[:1])])


def requested_solvers(requested: str | Solver, form: type) -> list[Solver]:
    """Return the solvers of the requested name or instance that take a type of form; none for "auto"."""
    match requested:
        case "auto":
            return []
        case Solver():
            return [requested] if form in requested.takes else []
    return [r.solver for r in ROUTES if r.solver.name == requested and form in r.solver.takes]


def refusal(solver: Solver, form: Any) -> str | None:
    """Return the reason for which a solver does not take the form; None if accepted."""
    if isinstance(form, MinNorm) and form.space.gram is not None and not isinstance(solver, NearestPoint):
        return "there are inner products only, and it needs coordinates"
    return solver.refuse(form)


def choose(form: StandardForm, requested: str | Solver) -> Solver | None:
    """Return the solver of a form: the requested solver, or the first automatic row that fits.

    None if the solver asked for takes another form, or no row is automatic; an error if it refuses.
    """
    asked = requested_solvers(requested, type(form))
    if _has_convex_problems(form) and all(type(solver) is _AROUND[type(form)] for solver in asked):
        return _around(form, requested)
    if requested == "auto":
        fitting = (r.solver for r in routes(form) if r.automatic(form) and not refusal(r.solver, form))
        return next(fitting, None)
    reasons = [(solver, refusal(solver, form)) for solver in asked]
    for solver, why in reasons:
        if why is None:
            return solver
    if reasons:
        solver, why = reasons[-1]
        where = " where 0 lies in U" if isinstance(form, UnitNorm) else ""
        raise SolverError(f'solver {solver.name!r} does not take this model{where}: {why}; use solver="auto"')
    return None


def fallbacks(form: StandardForm, chosen: Solver, requested: str | Solver) -> Iterator[Solver]:
    """Yield the fallbacks of the chosen solver that take the form; none for a requested one or one around."""
    if not _has_convex_problems(form):
        yield from (s for s in _following(form, chosen, requested) if refusal(s, form) is None)


def _following(form: StandardForm, chosen: Solver, requested: str | Solver) -> Iterator[Solver]:
    """Yield the fallbacks of the rows of the chosen solver, which may refuse the form."""
    rows = {r.solver.name: r for r in routes(form)} if requested == "auto" else {}
    row = rows.get(chosen.name)
    while row is not None and row.fallback is not None:
        row = rows.get(row.fallback)
        if row is not None and row.afterwards(form):
            yield row.solver


def fallback_names(form: StandardForm, chosen: Solver, requested: str | Solver) -> list[str]:
    """Return the names of the fallbacks of the chosen solver, or of its inner solver, in order."""
    following = list(fallbacks(form, chosen, requested))
    while chosen.inner_solvers:
        chosen, *following = chosen.inner_solvers
    if _has_convex_problems(form):
        following = [solver for solver in following if continues(solver, form.G)]
    return [solver.name for solver in following]


Outer = type[DCA] | type[solvers.BranchAndBound]
_AROUND: dict[type, Outer] = {DifferenceOfConvex: DCA, BestSubset: solvers.BranchAndBound}
"""The solvers of forms with a convex problem G, around a solver of such problems."""


def _has_convex_problems(form: object) -> TypeGuard[DifferenceOfConvex | BestSubset]:
    return type(form) in _AROUND


def _inside(outer: Outer, requested: str | Solver) -> str | Solver:
    """Return the solver that is requested for the convex problems inside of another solver, or "auto"."""
    if isinstance(requested, outer):
        return requested.inner or "auto"
    return "auto" if requested == outer.name else requested


def _around(form: DifferenceOfConvex | BestSubset, requested: str | Solver) -> Solver | None:
    """Return the solver of a form with one for its convex problems inside; None without such a solver."""
    outer = _AROUND[type(form)]
    asked = _inside(outer, requested)
    inner = choose(form.G, asked)
    if inner is None or type(form.G) not in inner.takes:
        return None
    fallback = next(_following(form.G, inner, asked), None)
    if isinstance(requested, outer):
        return replace(requested, inner=inner, fallback=fallback or requested.fallback)
    return outer(inner, fallback=fallback)


def check_asked(requested: object) -> None:
    """Raise `ParameterError` if the option `solver` is neither a name nor a solver."""
    match requested:
        case str() | Solver(name=str()):
            return
        case type():
            hint = "an instance of it"
        case _:
            hint = "a solver instance with a `name`"
    raise ParameterError(f'solver: expected "auto", a name, or {hint}; got {brief(requested)}')


def unknown(requested: str | Solver, forms: Sequence[object]) -> ParameterError | SolverError:
    """Return the error for a requested solver that takes none of the forms."""
    if isinstance(requested, Solver):
        takes = " or ".join(_WORDS.get(form, form.__name__) for form in requested.takes) or "no form"
        return SolverError(
            f'solver {requested.name!r} does not take this model: it takes {takes}; use solver="auto"'
        )
    names = dict.fromkeys(r.solver.name for form in forms for r in routes(form))
    around = {Composite: ', "dca"', GeneralComposite: ', "dca"', BestSubset: ', "branch-and-bound"'}
    other = '"auto"' + around.get(type(forms[-1]), "")
    return ParameterError(
        f"solver: expected {other}, a solver instance or one of {', '.join(names)}; got {brief(requested)}"
        + did_you_mean([requested], list(names))
    )


_BY_FORM = {
    kind: tuple(r for r in ROUTES if kind in r.solver.takes)
    for kind in {kind for r in ROUTES for kind in r.solver.takes}
}


def routes(form: object) -> tuple[Route, ...]:
    """Return the table rows of a form; for one that is not convex, of its convex problems."""
    return _BY_FORM.get(type(form.G if _has_convex_problems(form) else form), ())


def verdicts(form: StandardForm, requested: str | Solver, chosen: Solver | None) -> list[tuple[str, str]]:
    """Return (solver name, text) for the rows of a form: chosen, possible, or refused with the reason."""
    if _has_convex_problems(form) and chosen is not None and chosen.inner_solvers:
        return verdicts(form.G, _inside(_AROUND[type(form)], requested), chosen.inner_solvers[0])
    if requested != "auto":
        return [] if chosen is None else [(chosen.name, "chosen, by name")]
    rows: list[tuple[str, str]] = []
    for route in routes(form):
        text = f"{'chosen' if route.solver is chosen else 'possible'}: {route.purpose}"
        if (why := refusal(route.solver, form)) is not None:
            rounded = re.sub(r"\d+\.\d{7,}(e[-+]?\d+)?", lambda x: f"{float(x[0]):.6g}", why)
            text = f"refused: {rounded}"
        rows.append((label(route.solver), text))
    return rows


def table(rows: Sequence[tuple[str, str]], verbose: bool = True) -> list[str]:
    """Return (name, verdict) pairs as aligned lines; unless `verbose`, the chosen row and up to two after it.

    The rows before it stand in where fewer follow. A conic program has the reason of the row before it.
    """
    selected = list(rows)
    if not verbose:
        at = next((k for k, (_, verdict) in enumerate(rows) if verdict.startswith("chosen")), 0)
        first = at - (at > 0 and rows[at][0] == solvers.Conic.name)
        selected = [*rows[first : first + 3], *reversed(rows[:first])][:3]
    left = len(rows) - len(selected)
    more = [f"  {left} more: explain(verbose=True)"] if left else []
    return [f"  {line}" for line in aligned(selected)] + more
